"""Which of the winners' changes a transaction must look at under its isolation level.  Pure.

`serializable` looks at all.  `write_serializable` may place the transaction before the trailing blind
appends, those after the last winner that is not one; what it leaves unseen it remembers, and must see
once another winner follows that is not a blind append.  `snapshot` looks at all changes, to tell which
of them concern rows that the transaction changes itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rowlock.protocol.actions import AddFile, Commit
from rowlock.protocol.properties import Isolation

Unseen = Mapping[str, AddFile | None]
"""Paths whose change a transaction has not looked at, each with the file as the transaction knows it; None: as not there."""


@dataclass(frozen=True, slots=True)
class View:
    """`paths`: those whose change must be looked at now; `unseen`: those that may be left for later."""

    paths: frozenset[str]
    unseen: Unseen = field(default_factory=dict)


def view(level: Isolation | None, winners: Sequence[Commit], unseen: Unseen) -> View:
    """`unseen` is what earlier rounds left."""
    if level != "write_serializable":
        return View(frozenset(unseen) | paths_of(winners))
    last = max((n for n, w in enumerate(winners) if not is_blind_append(w)), default=-1)
    trailing = dict.fromkeys(paths_of(winners[last + 1 :]))
    if last < 0:
        return View(frozenset(), {**unseen, **trailing})
    return View(frozenset(unseen) | paths_of(winners[: last + 1]), trailing)


def is_blind_append(winner: Commit) -> bool:
    """The one claim about itself that a commit is believed, and only where it does nothing but add."""
    claimed = winner.info is not None and winner.info.is_blind_append
    return claimed and not winner.removes and winner.metadata is None and winner.protocol is None and all(a.deletion_vector is None for a in winner.adds)


def paths_of(winners: Iterable[Commit]) -> frozenset[str]:
    return frozenset(p for w in winners for p in w.paths)


def connected(paths: frozenset[str], winners: Iterable[Commit]) -> frozenset[str]:
    """All paths that winners tie to `paths`: where their rows may have been moved to, over any number of moves."""
    reached, left = set(paths), list(winners)
    while tied := [w for w in left if w.paths & reached]:
        left = [w for w in left if not w.paths & reached]
        reached |= paths_of(tied)
    return frozenset(reached)
