"""What a compaction does when its files were compacted by another first: it drops those bins.

Rows that a winner deleted leave the output by the ordinary rule of rebase; only a bin that lost a
whole input file is given up, for its rows are in somebody else's new file now.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from rowlock.boundary.effects import Effects
from rowlock.boundary.statements import Program
from rowlock.protocol.actions import AddFile


def drop_overlapping_bins(program: Program, effects: Effects, touched: Set[str], after: Mapping[str, AddFile]) -> Effects:
    """The effects without the bins one of whose files is not live any more.

    `touched` holds the paths that winners added or removed, `after` the live files among them.
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
