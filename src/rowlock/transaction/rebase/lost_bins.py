"""Drops those bins of a compaction whose input files were compacted by another writer first.

Rows that a winner deleted are dropped from the output by the ordinary rebase.  Only a bin that lost a whole input file
is dropped, since its rows may now be in the winner's new file.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from rowlock.boundary.effects import Effects
from rowlock.boundary.statements import Program
from rowlock.protocol.actions import AddFile


def drop_overlapping_bins(program: Program, effects: Effects, touched: Set[str], after: Mapping[str, AddFile]) -> Effects:
    """The effects without bins that have an input file which is no longer live.

    `touched` are the paths that winners added or removed, `after` the files among them that are live at the head.
    """
    move = next((s for s in program if s.kind == "move"), None)
    if move is None:
        return effects
    groups = move.only
    lost = {n for n, group in enumerate(groups) if any(p in touched and p not in after for p in group)}
    if not lost:
        return effects
    paths = {p for n in lost for p in groups[n]}
    return Effects({p: t for p, t in effects.tombstones.items() if p not in paths}, tuple(b for b in effects.blocks if b.group not in lost), effects.counts)
