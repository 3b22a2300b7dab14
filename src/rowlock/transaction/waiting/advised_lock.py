"""What `rowlock.lock=auto` means for a table now: `advice.advice.lock_for`, asked of its newest history now and then.

Asking reads the log's newest commits and the failed tries, and is paid for by who asks: once a process,
then when enough commits have come.  A wrong or an old answer costs time and nothing else (I7).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rowlock import clock
from rowlock.boundary.statements import Statement
from rowlock.transaction.state.shared import SharedState, logger

if TYPE_CHECKING:
    from rowlock.advice.advice import Lock
    from rowlock.advice.history import History

COMMITS = 100
"""How far the history goes back."""
AGAIN_COMMITS = 10
AGAIN_S = 5.0
"""The history is read again after so many commits, and not before so many seconds."""


class Advised:
    """The answer for one table, shared by its handles in this process.  Thread-safe: who comes while it is made anew gets the old one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._history: History | None = None
        self._answer: Lock | None = None
        self._version, self._at_s = -1, 0.0
        self._table: str | None = None

    def answer(self, state: SharedState) -> Lock:
        if not self._lock.acquire(blocking=self._answer is None):
            return self._answer or "none"
        try:
            if self._answer is None or clock.monotonic_s() - self._at_s >= AGAIN_S:
                self._ask(state)
        except Exception as e:  # noqa: BLE001 - a lock is a courtesy, and so is advice on it
            logger.warning("no advice on a lock, for the history of %s could not be read: %s", state.store.root, e)
            self._answer = self._answer or "none"
        finally:
            self._lock.release()
        return self._answer or "none"

    def _ask(self, state: SharedState) -> None:
        from rowlock.advice.advice import lock_for  # with a parser of SQL that other writers need not load
        from rowlock.advice.read_history import read_history

        self._at_s = clock.monotonic_s()
        head = state.refresh()
        if head.metadata.id != self._table:  # what is known is of another table
            self._history, self._answer, self._table = None, None, head.metadata.id
        if self._answer is not None and head.version < self._version + AGAIN_COMMITS:
            return
        self._history = read_history(state.store, COMMITS, previous=self._history, snapshot=head)
        self._answer, self._version = lock_for(self._history, current=self._answer), head.version


def advised_lock(state: SharedState, statements: Sequence[Statement] = ()) -> Lock:
    """The lock that the table's history speaks for: none, writes or partition.  Never raises."""
    advised: Advised = state.shared("advised lock", Advised)
    return advised.answer(state)
