"""Leases of one table: taken, renewed while held, stolen when their term is over, given back (I7).

A lease is a courtesy.  Whatever its provider does (fails, lies, loses replies, answers with what is old),
a writer goes on: later than it could have, or without the lease.  Nothing here raises to a writer.
"""

from __future__ import annotations

import logging
import math
import os
import socket
import threading
from collections.abc import Callable, Iterable

from rowlock import clock
from rowlock.locks.lease_table import LONGEST_TERM_S, LeaseTable, parse
from rowlock.locks.scope import Scope
from rowlock.locks.stale_clock import StaleClock
from rowlock.storage.registers.register import Cell, Registers
from rowlock.storage.store import Committed

logger = logging.getLogger("rowlock")

CELL = "leases"
TERM_S = 10.0
_FAILURES = 3
"""So many calls in a row may fail before a writer goes on without a lease."""
_REST_S = 30.0
"""For so long a provider that failed is left alone."""
_SWAPS = 8
_FIRST_WAIT_S, _LAST_WAIT_S = 0.25, 0.1


class Lease:
    """One lease that is held.  `epoch` is higher than that of every lease before it; `lost` says that it was stolen."""

    def __init__(self, leases: Leases, grant_id: str, scopes: frozenset[Scope], epoch: int) -> None:
        self._leases, self.id, self.scopes, self.epoch = leases, grant_id, scopes, epoch
        self.lost = False
        self._over = threading.Event()

    def __repr__(self) -> str:
        return f"Lease(epoch={self.epoch}, scopes={sorted(map(sorted, self.scopes))})"

    def renew(self) -> bool:
        """Shows the others that the holder lives.  False where it could not be shown, or the lease is lost."""
        return self._leases._renew(self)

    def keep(self) -> None:
        """Renews it every third of its term, in a thread of its own, until it is released."""
        threading.Thread(target=self._renew_until_released, name=f"rowlock lease {self.epoch}", daemon=True).start()

    def _renew_until_released(self) -> None:
        while not self._over.wait(self._leases.term_s / 3):
            self.renew()
            if self.lost:
                return

    def release(self) -> None:
        """Gives it back.  Where that fails it ends by itself after its term."""
        self._over.set()
        self._leases._release(self)


class Leases:
    """The leases of one table.  Thread-safe; `term_s` is the term of those that are taken here, in seconds."""

    def __init__(self, registers: Registers, *, term_s: float = TERM_S, keep: bool = True, rest_s: float = _REST_S) -> None:
        self._registers, self._keep, self._rest_s = registers, keep, rest_s
        self._rests_until = -math.inf
        self.term_s = min(term_s, LONGEST_TERM_S)
        self._watch = StaleClock()

    def acquire(self, scopes: Iterable[Scope], timeout_s: float) -> Lease | None:
        """Waits until nobody holds a lease that excludes one of `scopes`, and takes them all at once.

        None after `timeout_s` seconds, or where the provider fails again and again: then the writer goes on without.
        """
        wanted, deadline = frozenset(scopes), clock.monotonic_s() + timeout_s
        failures, wait_s = 0, _FIRST_WAIT_S
        if clock.monotonic_s() < self._rests_until:
            return None
        while True:
            try:
                lease, failures = self._try(wanted), 0
            except Exception as e:  # noqa: BLE001 - a provider decides nothing, whatever it raises
                lease, failures = None, failures + 1
                if failures >= _FAILURES:
                    self._rests_until = clock.monotonic_s() + self._rest_s
                    logger.warning("no lease: its provider fails (%s: %s); the writer goes on without one", type(e).__name__, e)
                    return None
            if lease is not None:
                if self._keep:
                    lease.keep()
                return lease
            if clock.monotonic_s() >= deadline:
                if timeout_s:
                    logger.warning("no lease after %.1f s; the writer goes on without one", timeout_s)
                return None
            clock.sleep(min(clock.jittered_s(wait_s), max(0.0, deadline - clock.monotonic_s())))
            wait_s = max(_LAST_WAIT_S, wait_s * 0.8)  # who has waited longer looks more often, and so comes first

    def holders(self) -> LeaseTable:
        """Who holds what, as the cell says now.  Raises what the provider raises."""
        return self._read()[0]

    # ---- one step ----------------------------------------------------------------------------

    def _read(self) -> tuple[LeaseTable, Cell | None]:
        cell = self._registers.read(CELL)
        if cell is None:
            return LeaseTable(), None
        try:
            return parse(cell.value), cell
        except ValueError as e:
            logger.debug("the cell of the leases holds something else, and is written anew by who takes the next one: %s", e)
            return LeaseTable(), cell

    def _write(self, book: LeaseTable, cell: Cell | None) -> bool:
        data = book.to_bytes()
        outcome = self._registers.create(CELL, data) if cell is None else self._registers.swap(CELL, data, cell.tag)
        return isinstance(outcome, Committed)

    def _over(self, book: LeaseTable) -> set[str]:
        """The grants that nobody has renewed for a whole term, by the clock of this process."""
        ages = self._watch.ages({g.id: (g.epoch, g.renewals) for g in book.grants})
        return {g.id for g in book.grants if ages[g.id] >= g.term_s}

    def _try(self, scopes: frozenset[Scope]) -> Lease | None:
        book, cell = self._read()
        over = self._over(book)
        if any(g.id not in over for g in book.in_the_way(scopes)):
            return None
        stolen = [g for g in book.in_the_way(scopes) if g.id in over]
        new = book.without(over).given(grant_id := clock.new_id(), _here(), scopes, self.term_s)
        if not self._write(new, cell):  # lost, or its reply was
            there = self._read()[0].of(grant_id)
            if there is None:
                return None
        for grant in stolen:
            logger.warning("the lease of %s (epoch %d) was not renewed for its term of %.1f s and is taken over", grant.holder, grant.epoch, grant.term_s)
        return Lease(self, grant_id, scopes, new.epoch)

    def _renew(self, lease: Lease) -> bool:
        return self._change(lease, lambda book: book.renewed(lease.id))

    def _release(self, lease: Lease) -> None:
        if not self._change(lease, lambda book: book.without({lease.id})):
            logger.debug("the lease of epoch %d could not be given back; it ends after its term", lease.epoch)

    def _change(self, lease: Lease, change: Callable[[LeaseTable], LeaseTable]) -> bool:
        """Changes the lease's own entry.  A few tries, for the others change theirs in the same cell."""
        failures = 0
        for n in range(_SWAPS):
            try:
                book, cell = self._read()
                if book.of(lease.id) is None:
                    lease.lost = True
                    return False
                if self._write(change(book), cell):
                    return True
            except Exception as e:  # noqa: BLE001 - as in acquire
                logger.debug("a call for the lease of epoch %d failed: %s: %s", lease.epoch, type(e).__name__, e)
                if (failures := failures + 1) >= _FAILURES:
                    return False
            clock.back_off(n, 0.01, most_s=_FIRST_WAIT_S, from_zero=True)
        return False


def _here() -> str:
    return f"{socket.gethostname()} {os.getpid()}"
