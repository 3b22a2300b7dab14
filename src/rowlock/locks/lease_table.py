"""What the cell of a table's leases holds: who has what, and a number that only grows.

All leases of a table stand in one cell, so that taking several scopes is one swap: all or none, and no
two writers can hold what the other waits for.  Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

import orjson

from rowlock.locks.scope import Scope, any_overlap

LONGEST_TERM_S = 300.0
"""What a book says of a term is believed up to here."""


@dataclass(frozen=True, slots=True)
class Grant:
    """One lease as the others see it.

    id        of this lease and no other
    holder    host and process, for people
    scopes    what it covers
    epoch     the number of the grant: a later grant has a higher one
    renewals  how often it was renewed
    term_s    seconds after which it may be stolen if nothing of it changed
    """

    id: str
    holder: str
    scopes: frozenset[Scope]
    epoch: int
    renewals: int
    term_s: float


@dataclass(frozen=True, slots=True)
class LeaseTable:
    """All grants of a table; `epoch` is that of the last one that was given."""

    epoch: int = 0
    grants: tuple[Grant, ...] = ()

    def of(self, grant_id: str) -> Grant | None:
        return next((g for g in self.grants if g.id == grant_id), None)

    def in_the_way(self, scopes: Collection[Scope]) -> tuple[Grant, ...]:
        return tuple(g for g in self.grants if any_overlap(scopes, g.scopes))

    def given(self, grant_id: str, holder: str, scopes: Iterable[Scope], term_s: float) -> LeaseTable:
        """With one more grant, under the next epoch."""
        grant = Grant(grant_id, holder, frozenset(scopes), self.epoch + 1, 0, term_s)
        return LeaseTable(grant.epoch, (*self.grants, grant))

    def renewed(self, grant_id: str) -> LeaseTable:
        return replace(self, grants=tuple(replace(g, renewals=g.renewals + 1) if g.id == grant_id else g for g in self.grants))

    def without(self, ids: Collection[str]) -> LeaseTable:
        return replace(self, grants=tuple(g for g in self.grants if g.id not in ids))

    def to_bytes(self) -> bytes:
        grants = [
            {"id": g.id, "holder": g.holder, "scopes": sorted(sorted(s) for s in g.scopes), "epoch": g.epoch, "renewals": g.renewals, "term_s": g.term_s}
            for g in self.grants
        ]
        return orjson.dumps({"epoch": self.epoch, "grants": grants})


def parse(data: bytes) -> LeaseTable:
    """The book in a cell.  Raises ValueError for anything else."""
    try:
        said = orjson.loads(data)
        return LeaseTable(_count(said["epoch"]), tuple(_grant(g) for g in said["grants"]))
    except (KeyError, TypeError, AttributeError) as e:
        raise ValueError(f"this is no book of leases: {e!r}") from e


def _grant(said: Any) -> Grant:
    scopes = frozenset(frozenset((str(column), str(value)) for column, value in scope) for scope in said["scopes"])
    term_s = min(max(float(said["term_s"]), 0.0), LONGEST_TERM_S)
    return Grant(str(said["id"]), str(said["holder"]), scopes, _count(said["epoch"]), _count(said["renewals"]), term_s)


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value
