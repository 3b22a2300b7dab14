"""Which changes of the winners a transaction must rebase over, given its isolation level.  Pure.

`serializable`: all.  `write_serializable`: the transaction may be ordered before the trailing blind appends (those
after the last winner that is not a blind append); their paths stay unseen until a winner follows that is not a
blind append, and must be looked at then.  `snapshot`: all, to find those that concern rows which the transaction
changes itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rowlock.protocol.actions import AddFile, Commit
from rowlock.protocol.properties import Isolation

Unseen = Mapping[str, AddFile | None]
"""Changed paths that a transaction has not looked at yet, each with the file as the transaction knows it; None if it knows of none."""


@dataclass(frozen=True, slots=True)
class PathsToCheck:
    """Files that winners changed, by path.

    paths   those that the transaction must look at now
    unseen  those that only trailing blind appends changed, which it may leave for a later round
    """

    paths: frozenset[str]
    unseen: Unseen = field(default_factory=dict)


def paths_to_check(level: Isolation | None, winners: Sequence[Commit], unseen: Unseen) -> PathsToCheck:
    """The changed paths that a transaction must look at under its isolation level; `unseen` are those that earlier rounds left."""
    if level != "write_serializable":
        return PathsToCheck(frozenset(unseen) | paths_of(winners))
    last = max((n for n, w in enumerate(winners) if not is_blind_append(w)), default=-1)
    trailing = dict.fromkeys(paths_of(winners[last + 1 :]))
    if last < 0:
        return PathsToCheck(frozenset(), {**unseen, **trailing})
    return PathsToCheck(frozenset(unseen) | paths_of(winners[: last + 1]), trailing)


def is_blind_append(winner: Commit) -> bool:
    """Whether the commit claims to be a blind append, and only adds files: the only claim of a commit about itself that is trusted."""
    claimed = winner.info is not None and winner.info.is_blind_append
    return claimed and not winner.removes and winner.metadata is None and winner.protocol is None and all(a.deletion_vector is None for a in winner.adds)


def paths_of(winners: Iterable[Commit]) -> frozenset[str]:
    """Every path that these commits add or remove."""
    return frozenset(p for w in winners for p in w.paths)


def linked_paths(paths: frozenset[str], winners: Iterable[Commit]) -> frozenset[str]:
    """All paths linked to `paths` by winners that touch both: rows may have been moved there, over any number of moves."""
    reached, left = set(paths), list(winners)
    while tied := [w for w in left if w.paths & reached]:
        left = [w for w in left if not w.paths & reached]
        reached |= paths_of(tied)
    return frozenset(reached)
