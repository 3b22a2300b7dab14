"""Leases of one table: acquired, renewed while held, taken over when expired, released (I7).

A lease is only a courtesy between writers.  If its provider fails, loses replies or returns wrong or stale
values, a writer goes on, later or without the lease.  Nothing here raises to a writer.
"""

from __future__ import annotations

import logging
import math
import os
import socket
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping

from rowlock import clock, threads
from rowlock.locks.lease_table import LONGEST_TERM_S, LeaseTable, parse
from rowlock.locks.scope import Scope
from rowlock.storage.registers.register import Cell, Registers
from rowlock.storage.store import Committed

logger = logging.getLogger("rowlock")

CELL = "leases"
TERM_S = 10.0
_FAILURES = 3
"""Calls in a row that may fail before a writer goes on without a lease."""
_REST_S = 30.0
"""How long a failed provider is not called again."""
_SWAPS = 8
_FIRST_WAIT_S, _LAST_WAIT_S = 0.25, 0.1


class StaleClock:
    """Detects expired leases: tracks for how long this process has seen each thing unchanged, by the local monotonic clock alone.

    The times of different machines are never compared, so an observer that comes late waits a whole term.  Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[Hashable, float]] = {}

    def ages(self, marks: Mapping[str, Hashable]) -> dict[str, float]:
        """For each named thing, the seconds since it was first seen with its current mark.  Things not named any more are forgotten."""
        now = clock.monotonic_s()
        with self._lock:
            known = self._seen
            self._seen = {name: known[name] if name in known and known[name][0] == mark else (mark, now) for name, mark in marks.items()}
            return {name: now - since for name, (_, since) in self._seen.items()}


class Lease:
    """One held lease.  `epoch` is higher than that of every earlier lease; `lost` is set when another writer has taken it over."""

    def __init__(self, leases: Leases, grant_id: str, scopes: frozenset[Scope], epoch: int) -> None:
        self._leases, self.id, self.scopes, self.epoch = leases, grant_id, scopes, epoch
        self.lost = False
        self._released = threads.event()

    def __repr__(self) -> str:
        return f"Lease(epoch={self.epoch}, scopes={sorted(map(sorted, self.scopes))})"

    def renew(self) -> bool:
        """Shows other writers that the holder is alive.  Returns False if the renewal failed or the lease is lost."""
        return self._leases._renew(self)

    def keep(self) -> None:
        """Renews the lease every third of its term, in a background thread, until it is released."""
        threads.start(self._renew_until_released, f"rowlock lease {self.epoch}")

    def _renew_until_released(self) -> None:
        while not self._released.wait(self._leases.term_s / 3):
            self.renew()
            if self.lost:
                return

    def release(self) -> None:
        """Releases the lease.  If that fails, it expires by itself after its term."""
        self._released.set()
        self._leases._release(self)


class Leases:
    """The leases of one table.  Thread-safe.

    term_s  seconds without renewal after which the leases acquired here may be taken over
    keep    whether acquired leases are renewed in the background
    rest_s  seconds for which a failed provider is not called again
    """

    def __init__(self, registers: Registers, *, term_s: float = TERM_S, keep: bool = True, rest_s: float = _REST_S) -> None:
        self._registers, self._keep, self._rest_s = registers, keep, rest_s
        self._rests_until = -math.inf
        self.term_s = min(term_s, LONGEST_TERM_S)
        self._stale_clock = StaleClock()

    def acquire(self, scopes: Iterable[Scope], timeout_s: float) -> Lease | None:
        """Waits until no lease overlaps one of `scopes`, then acquires one lease for all of them.

        Returns None after `timeout_s` seconds, or if the provider keeps failing: the writer then goes on without a lease.
        """
        wanted, deadline = frozenset(scopes), clock.monotonic_s() + timeout_s
        failures, wait_s = 0, _FIRST_WAIT_S
        if clock.monotonic_s() < self._rests_until:
            return None
        while True:
            try:
                lease, failures = self._try_acquire(wanted), 0
            except Exception as e:  # noqa: BLE001 - a provider decides nothing, whatever it raises
                lease, failures = None, failures + 1
                if failures >= _FAILURES:
                    self._rests_until = clock.monotonic_s() + self._rest_s
                    logger.warning("no lease: the lock provider fails (%s: %s); the writer goes on without one", type(e).__name__, e)
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
            wait_s = max(_LAST_WAIT_S, wait_s * 0.8)  # a writer that has waited longer looks more often, and so tends to come first

    def holders(self) -> LeaseTable:
        """The current lease table, for display.  Raises what the provider raises."""
        return self._read()[0]

    # ---- one step ----------------------------------------------------------------------------

    def _read(self) -> tuple[LeaseTable, Cell | None]:
        cell = self._registers.read(CELL)
        if cell is None:
            return LeaseTable(), None
        try:
            return parse(cell.value), cell
        except ValueError as e:
            logger.debug("the register of the leases cannot be parsed; the next lease overwrites it: %s", e)
            return LeaseTable(), cell

    def _write(self, table: LeaseTable, cell: Cell | None) -> bool:
        data = table.to_bytes()
        outcome = self._registers.create(CELL, data) if cell is None else self._registers.swap(CELL, data, cell.tag)
        return isinstance(outcome, Committed)

    def _expired(self, table: LeaseTable) -> set[str]:
        """The ids of grants that were not renewed for a whole term, by the clock of this process."""
        ages = self._stale_clock.ages({g.id: (g.epoch, g.renewals) for g in table.grants})
        return {g.id for g in table.grants if ages[g.id] >= g.term_s}

    def _try_acquire(self, scopes: frozenset[Scope]) -> Lease | None:
        """Acquires a lease if no unexpired grant is in the way; None if one is, or if another writer changed the register first."""
        table, cell = self._read()
        expired = self._expired(table)
        if any(g.id not in expired for g in table.in_the_way(scopes)):
            return None
        taken_over = [g for g in table.in_the_way(scopes) if g.id in expired]
        new = table.without(expired).with_grant(grant_id := clock.new_id(), _this_process(), scopes, self.term_s)
        if not self._write(new, cell) and self._read()[0].find(grant_id) is None:  # the swap was lost, and not only its reply
            return None
        for grant in taken_over:
            logger.warning("the lease of %s (epoch %d) was not renewed for its term of %.1f s and is taken over", grant.holder, grant.epoch, grant.term_s)
        return Lease(self, grant_id, scopes, new.epoch)

    def _renew(self, lease: Lease) -> bool:
        return self._change(lease, lambda table: table.renewed(lease.id))

    def _release(self, lease: Lease) -> None:
        if not self._change(lease, lambda table: table.without({lease.id})):
            logger.debug("the lease of epoch %d could not be released; it expires after its term", lease.epoch)

    def _change(self, lease: Lease, change: Callable[[LeaseTable], LeaseTable]) -> bool:
        """Applies `change` to the lease table, with a few tries, since other writers change the same cell.  False if the lease is lost or it fails."""
        failures = 0
        for n in range(_SWAPS):
            try:
                table, cell = self._read()
                if table.find(lease.id) is None:
                    lease.lost = True
                    return False
                if self._write(change(table), cell):
                    return True
            except Exception as e:  # noqa: BLE001 - as in acquire
                logger.debug("a call for the lease of epoch %d failed: %s: %s", lease.epoch, type(e).__name__, e)
                if (failures := failures + 1) >= _FAILURES:
                    return False
            clock.back_off(n, clock.LEASE)
        return False


def _this_process() -> str:
    """The host name and process id, which name a lease's holder for people."""
    return f"{socket.gethostname()} {os.getpid()}"
