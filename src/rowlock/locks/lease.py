"""Leases of one table: acquired, renewed while held, taken over when expired, released (I7).

A lease is only a courtesy between writers.  If its provider fails, loses replies or returns wrong or stale
values, a writer goes on, later or without the lease.  Nothing here raises to a writer.

All leases of a table are in one register (`LeaseTable`, with an epoch that only grows), so that acquiring several scopes is one swap, all or nothing, and
no two writers can deadlock.

A scope pins columns to values; the table's scope pins none.  Two scopes overlap unless they pin one column to
different values.  So the table overlaps everything; `region = EU` overlaps `day = 1` (some rows may be in both)
but not `region = US`.  A column with too many values for a scope each is pinned to a bucket number, a hash of the
value.
"""

from __future__ import annotations

import logging
import math
import os
import socket
import threading
import zlib
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import orjson

from rowlock import clock, threads
from rowlock.protocol.predicates import And, Column, Compare, In, IsNull, Literal, Or, Predicate, Value, normal
from rowlock.storage.registers import Cell, Registers, written

Pin = tuple[str, str]
"""(column, value as text); for a bucket (`column/BUCKETS`, bucket number)."""
Scope = frozenset[Pin]
TABLE: Scope = frozenset()

BUCKETS = 16
_MAX_SCOPES = 64
"""The most scopes of one statement; with more it takes the whole table."""


def overlap(a: Scope, b: Scope) -> bool:
    """Whether some row may be in both scopes."""
    others = dict(b)
    return not any(column in others and others[column] != value for column, value in a)


def scopes_of(predicates: Sequence[Predicate | None], partition_columns: Sequence[str], key: str | None = None) -> frozenset[Scope]:
    """The scopes that cover statements with these conditions: {TABLE} if one of them pins no column.

    `key`: a column whose values are pinned by bucket.  Scopes that are too narrow or too wide only cost time, since
    leases decide nothing.
    """
    scopes: set[Scope] = set()
    for predicate in predicates:
        scopes |= {TABLE} if predicate is None else _scopes(normal(predicate), frozenset(partition_columns), key)
    return _simplified(scopes)


def _scopes(p: Predicate, columns: frozenset[str], key: str | None) -> set[Scope]:
    if isinstance(p, And):
        out: set[Scope] = {TABLE}
        for part in p.parts:
            also = _scopes(part, columns, key)
            out = {a | b for a in out for b in also if overlap(a, b)} if len(out) * len(also) <= _MAX_SCOPES * _MAX_SCOPES else out
        return out
    if isinstance(p, Or):
        return set(_simplified(set().union(*(_scopes(part, columns, key) for part in p.parts))))
    if isinstance(p, Compare) and p.op in ("=", "<=>") and isinstance(p.right, Literal):
        value = p.right.value
        return {_pinned(p.left, value, columns, key)} if value is not None or p.op == "<=>" else set()
    if isinstance(p, IsNull):
        return {_pinned(p.value, None, columns, key)}
    if isinstance(p, In) and len(p.values) <= _MAX_SCOPES:
        return {_pinned(p.value, value, columns, key) for value in p.values}
    return {TABLE}


def _pinned(pinned: Value, value: Any, columns: frozenset[str], key: str | None) -> Scope:
    if not isinstance(pinned, Column):
        return TABLE
    name, text = ".".join(pinned.path), "null" if value is None else f"={value}"
    if name in columns:
        return frozenset({(name, text)})
    return frozenset({(f"{name}/{BUCKETS}", str(zlib.crc32(text.encode()) % BUCKETS))}) if name == key else TABLE


def _simplified(scopes: set[Scope]) -> frozenset[Scope]:
    return frozenset({TABLE}) if TABLE in scopes or len(scopes) > _MAX_SCOPES else frozenset(scopes)


LONGEST_TERM_S = 300.0
"""Longer terms in a lease table are cut to this many seconds."""


@dataclass(frozen=True, slots=True)
class Grant:
    """One lease in the lease table.

    id        unique id of this lease
    holder    host and process, for people
    scopes    what the lease covers
    epoch     the number of the grant; later grants have higher ones
    renewals  how often it was renewed
    term_s    seconds without a renewal after which it may be taken over
    """

    id: str
    holder: str
    scopes: frozenset[Scope]
    epoch: int
    renewals: int
    term_s: float


@dataclass(frozen=True, slots=True)
class LeaseTable:
    """All grants of a Delta table; `epoch` is that of the newest grant, and never falls."""

    epoch: int = 0
    grants: tuple[Grant, ...] = ()

    def find(self, grant_id: str) -> Grant | None:
        """The grant with this id; None if it is not, or no longer, in the table."""
        return next((g for g in self.grants if g.id == grant_id), None)

    def in_the_way(self, scopes: Collection[Scope]) -> tuple[Grant, ...]:
        """The grants that overlap any of these scopes."""
        return tuple(g for g in self.grants if any(overlap(mine, theirs) for mine in scopes for theirs in g.scopes))

    def with_grant(self, grant_id: str, holder: str, scopes: Iterable[Scope], term_s: float) -> LeaseTable:
        """The table with one more grant, under the next epoch."""
        grant = Grant(grant_id, holder, frozenset(scopes), self.epoch + 1, 0, term_s)
        return LeaseTable(grant.epoch, (*self.grants, grant))

    def renewed(self, grant_id: str) -> LeaseTable:
        """The table with this grant renewed."""
        return replace(self, grants=tuple(replace(g, renewals=g.renewals + 1) if g.id == grant_id else g for g in self.grants))

    def without(self, ids: Collection[str]) -> LeaseTable:
        """The table without the grants with these ids."""
        return replace(self, grants=tuple(g for g in self.grants if g.id not in ids))

    def to_bytes(self) -> bytes:
        """The table as JSON, the value of the register."""
        grants = [{**asdict(g), "scopes": sorted(sorted(s) for s in g.scopes)} for g in self.grants]
        return orjson.dumps({"epoch": self.epoch, "grants": grants})


def parse(data: bytes) -> LeaseTable:
    """The lease table that a register's bytes hold.  Raises ValueError for anything else."""
    try:
        raw = orjson.loads(data)
        return LeaseTable(_count(raw["epoch"]), tuple(_grant(g) for g in raw["grants"]))
    except (KeyError, TypeError, AttributeError) as e:
        raise ValueError(f"not a lease table: {e!r}") from e


def _grant(raw: Any) -> Grant:
    scopes = frozenset(frozenset((str(column), str(value)) for column, value in scope) for scope in raw["scopes"])
    term_s = min(max(float(raw["term_s"]), 0.0), LONGEST_TERM_S)
    return Grant(str(raw["id"]), str(raw["holder"]), scopes, _count(raw["epoch"]), _count(raw["renewals"]), term_s)


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is not a whole number of at least 0")
    return value


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
        return self._leases._change(self, lambda table: table.renewed(self.id))

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
        holder = f"{socket.gethostname()} {os.getpid()}"  # for people
        new = table.without(expired).with_grant(grant_id := clock.new_id(), holder, scopes, self.term_s)
        if not written(self._registers, CELL, new.to_bytes(), cell) and self._read()[0].find(grant_id) is None:  # the swap was lost, and not only its reply
            return None
        for grant in taken_over:
            logger.warning("the lease of %s (epoch %d) was not renewed for its term of %.1f s and is taken over", grant.holder, grant.epoch, grant.term_s)
        return Lease(self, grant_id, scopes, new.epoch)

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
                if written(self._registers, CELL, change(table).to_bytes(), cell):
                    return True
            except Exception as e:  # noqa: BLE001 - as in acquire
                logger.debug("a call for the lease of epoch %d failed: %s: %s", lease.epoch, type(e).__name__, e)
                if (failures := failures + 1) >= _FAILURES:
                    return False
            clock.back_off(n, clock.LEASE)
        return False
