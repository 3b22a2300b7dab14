"""The lease table: all leases of one Delta table, with an epoch that only grows.

All leases of a table are in one register, so that acquiring several scopes is one swap, all or nothing, and no two
writers can deadlock.  Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

import orjson

from rowlock.locks.scope import Scope, any_overlap

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
        return tuple(g for g in self.grants if any_overlap(scopes, g.scopes))

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
        grants = [
            {"id": g.id, "holder": g.holder, "scopes": sorted(sorted(s) for s in g.scopes), "epoch": g.epoch, "renewals": g.renewals, "term_s": g.term_s}
            for g in self.grants
        ]
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
