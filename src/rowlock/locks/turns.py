"""Turns: a writer that has lost often enough commits next (I8).

A writer that has lost `AFTER` puts, and `PATIENCE_S` seconds of work with them, announces a turn in the register
`turn`.  (Small contending writers lose many puts at a few milliseconds each; a turn would cost all of them more than
it saves one.)  Other writers look there before a put, at most every `LOOK_S` seconds per process and table, and wait
while another writer has the turn, at most for its term.  The turn's holder waits `LOOK_S` once, so that every writer
has seen it, then rebases over the newest version; only puts that were already under way can still come before its
own.  Like a lease, a turn decides nothing (I7): a provider that fails, or a holder that died, costs a bounded time.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson

from rowlock import clock
from rowlock.storage.registers import Cell, Registers, written

logger = logging.getLogger("rowlock")

CELL = "turn"
AFTER = 3
PATIENCE_S = 2.0
"""A writer announces a turn when it has lost AFTER puts since its last turn, and PATIENCE_S seconds of work with them."""
LOOK_S = 1.0
LONGEST_TERM_S = 30.0
_MARGIN_S = 1.0
_POLL_S = 0.1
_REST_S = 30.0
"""How long a failed provider is not called again."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn: `holder` is a transaction's id or None; `epoch` grows with each announcement; others wait at most `term_s` seconds."""

    holder: str | None = None
    epoch: int = 0
    term_s: float = 0.0

    def to_bytes(self) -> bytes:
        """The turn as JSON, the value of the register."""
        return orjson.dumps({"holder": self.holder, "epoch": self.epoch, "term_s": self.term_s})


def parse(data: bytes) -> Turn:
    """Parses a register's bytes; anything but a turn is a turn without a holder."""
    try:
        raw: Any = orjson.loads(data)
        holder = None if raw["holder"] is None else str(raw["holder"])
        return Turn(holder, max(0, int(raw["epoch"])), min(max(0.0, float(raw["term_s"])), LONGEST_TERM_S))
    except (ValueError, KeyError, TypeError):
        return Turn()


class Turns:
    """The turns of one table, as this process sees them.  Thread-safe; no method raises."""

    def __init__(self, registers: Callable[[], Registers]) -> None:
        self._open: Callable[[], Registers] = registers
        self._registers: Registers | None = None
        self._lock = threading.Lock()
        self._turn, self._since = Turn(), 0.0
        self._next_look: float | None = None
        self._rests_until = -math.inf

    def request(self, holder: str) -> TurnRequest:
        """A transaction's turn request; does not contact the provider yet."""
        return TurnRequest(self, holder)

    def in_force(self) -> Turn | None:
        """The turn that this process knows of and must respect now; None if there is none."""
        with self._lock:
            known = self._turn.holder is not None and clock.monotonic_s() - self._since < self._turn.term_s
            return self._turn if known else None

    # ---- the others' side ----------------------------------------------------------------------

    def honour(self, holder: str, has_lost: bool) -> None:
        """Waits while it is another writer's turn.  A process that has just begun to write and has lost no put does not look."""
        now = clock.monotonic_s()
        with self._lock:
            due = has_lost if self._next_look is None else now >= self._next_look
            if due or self._next_look is None:
                self._next_look = now + LOOK_S
        if due:
            self._look()
        while (turn := self.in_force()) is not None and turn.holder != holder:
            clock.sleep(clock.jittered_s(_POLL_S))
            self._look()

    def _look(self) -> None:
        self._safely(lambda: self._note(self._read()[0]))

    def _note(self, turn: Turn) -> None:
        with self._lock:
            if turn.epoch != self._turn.epoch or turn.holder != self._turn.holder:
                self._turn, self._since = turn, clock.monotonic_s()

    # ---- the holder's side ---------------------------------------------------------------------

    def announce(self, holder: str, term_s: float) -> bool:
        """Announces a turn.  Returns False if another writer's turn came first, or the announcement failed."""

        def attempt() -> bool:
            turn, cell = self._read()
            self._note(turn)
            if self.in_force() is not None:
                return False
            mine = Turn(holder, turn.epoch + 1, term_s)
            won = written(self._cells(), CELL, mine.to_bytes(), cell) or self._read()[0] == mine  # the reply may have been lost
            if won:
                self._note(mine)
            return won

        return self._safely(attempt) or False

    def hand_back(self, holder: str) -> None:
        """Ends the holder's turn.  If that fails, the turn ends with its term."""

        def attempt() -> None:
            turn, cell = self._read()
            if turn.holder == holder:
                self._note(over := Turn(None, turn.epoch, 0.0))
                written(self._cells(), CELL, over.to_bytes(), cell)

        self._safely(attempt)

    # ---- the cell ------------------------------------------------------------------------------

    def _cells(self) -> Registers:
        if self._registers is None:
            self._registers = self._open()
        return self._registers

    def _read(self) -> tuple[Turn, Cell | None]:
        cell = self._cells().read(CELL)
        return (Turn() if cell is None else parse(cell.value)), cell

    def _safely(self, work: Callable[[], T]) -> T | None:
        """Runs `work`; None if the provider fails, or has failed recently."""
        if clock.monotonic_s() < self._rests_until:
            return None
        try:
            return work()
        except Exception as e:  # noqa: BLE001 - a provider decides nothing, whatever it raises
            self._rests_until = clock.monotonic_s() + _REST_S
            logger.debug("turns rest for %.0f s, their provider fails: %s: %s", _REST_S, type(e).__name__, e)
            return None


class TurnRequest:
    """The turn handling of one transaction: waits for other writers' turns, and announces its own when it has lost often enough."""

    def __init__(self, turns: Turns, holder: str) -> None:
        self._turns, self._holder = turns, holder
        self._counted_from = 0
        self._round_s = self._lost_s = 0.0
        self._begun: float | None = None
        self.announced = self._is_to_end = False

    def before_put(self, lost: int) -> None:
        """Must be called before each put, outside the commit lane, with the number of puts lost so far.  May wait."""
        if self._begun is not None:
            took = clock.monotonic_s() - self._begun
            self._round_s, self._lost_s = max(self._round_s, took), self._lost_s + took
        if self.announced and not self._has_turn():
            self.announced, self._counted_from, self._lost_s = False, lost, 0.0
        if not self.announced:
            self._turns.honour(self._holder, has_lost=lost > 0)
            self._announce_if_due(lost)
        self._begun = clock.monotonic_s()

    def _announce_if_due(self, lost: int) -> None:
        if lost - self._counted_from < AFTER or self._lost_s < PATIENCE_S:
            return
        self.announced = self._turns.announce(self._holder, min(LONGEST_TERM_S, LOOK_S + 2 * self._round_s + _MARGIN_S))
        self._is_to_end |= self.announced
        if self.announced:
            logger.debug("a turn was announced after %d lost puts", lost)
            clock.sleep(LOOK_S)

    def end(self) -> None:
        """Must be called after the commit, or after it failed: ends the turn if one was announced, also one whose term is over: who reads of it only now would wait for the term."""
        if self._is_to_end:
            self._turns.hand_back(self._holder)

    def _has_turn(self) -> bool:
        turn = self._turns.in_force()
        return turn is not None and turn.holder == self._holder
