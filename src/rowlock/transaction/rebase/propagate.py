"""Staging and rebase: carries staged effects from one snapshot to the next, reading only the rows of the delta (I3).

    D' = (D - G) + { born rows that the program changes }
    R' = { x in R : provenance(x) not in G } + { their new images }
    F' = { inserts whose count is 0 } + appended rows as staged

D tombstones, R images of derived rows, F rows that are inserted or appended; G the rows that are gone.
Staging is a rebase from empty effects, statement after statement.  This module must read the delta and never the whole table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyroaring import BitMap64

from rowlock.boundary.effects import Effects, RowBlock
from rowlock.boundary.engine import Engine, Program
from rowlock.boundary.lost_matches import LostMatches, survivors
from rowlock.boundary.provenance import union_by_path
from rowlock.conflict.delta import Delta, Slice
from rowlock.log.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Rebased:
    """Effects after a rebase; how many rows and bytes the engine read for it, and how many staged rows were dropped."""

    effects: Effects
    rows_rebased: int = 0
    bytes_rebased: int = 0
    rows_dropped: int = 0


def stage(
    program: Program, first: int, effects: Effects, candidates: Sequence[Slice], *, engine: Engine, snapshot: Snapshot
) -> tuple[Effects, Mapping[str, int], tuple[str, ...]]:
    """Stages the statements from number `first` on, over the effects so far and over the candidate rows of the table.

    Returns the new effects, the engine's counts of the rows that these statements updated, deleted and inserted, and its words for how it did that.
    """
    lost_matches = LostMatches(effects, {}, engine.provenance)
    done = engine.propagate(program, effects, (), candidates, snapshot=snapshot, lost_matches=lost_matches, first=first)
    matches = [b for b in effects.blocks if b.kind == "matched"]
    blocks = (*matches, *(b for b in done.blocks if b.num_rows))
    tombstones = union_by_path(effects.tombstones, done.tombstones)
    return Effects(tombstones, blocks, {**effects.counts, **done.counts}, (*effects.assigned, *done.assigned)), done.metrics, done.ways


def stage_appends(program: Program, first: int, effects: Effects) -> Effects:
    """The effects with the rows of the statements from number `first` on, which are appends of blocks that are written already."""
    entered = [replace(b, statement=n) for n, s in enumerate(program) if n >= first for b in s.payload if b.num_rows]
    return replace(effects, blocks=(*effects.blocks, *entered))


def rebase(effects: Effects, program: Program, delta: Delta, *, engine: Engine, snapshot: Snapshot) -> Rebased:
    """Rebases the effects over `delta`, whose born rows are in `snapshot`.

    Raises what a run after the winners would raise: MultipleMatches, ConstraintViolated.
    """
    gone = delta.gone_by_path()
    lost_matches = LostMatches(effects, gone, engine.provenance)
    fresh = engine.propagate(program, effects, delta.gone, delta.born, snapshot=snapshot, lost_matches=lost_matches)
    tombstones = union_by_path(_without_gone(effects.tombstones, gone), fresh.tombstones)
    surviving: list[RowBlock] = []
    dropped = 0
    for block in effects.blocks:
        mask = survivors(block, gone, fresh.counts, engine.provenance)
        if mask is not None and not mask.all():
            dropped += int(len(mask) - mask.sum()) if block.kind != "matched" else 0
            if not mask.any():
                continue
            block = engine.keep(block, mask)
        surviving.append(block)
    blocks = (*surviving, *(b for b in fresh.blocks if b.num_rows))
    merged = Effects({p: t for p, t in tombstones.items() if t}, blocks, {**effects.counts, **fresh.counts})
    return Rebased(merged, fresh.rows_read, fresh.bytes_read, dropped)


def _without_gone(tombstones: Mapping[str, BitMap64], gone: Mapping[str, Slice]) -> dict[str, BitMap64]:
    return {path: positions - gone[path].covers(positions) if path in gone else positions for path, positions in tombstones.items()}
