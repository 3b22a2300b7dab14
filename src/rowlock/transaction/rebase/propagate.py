"""Rebase: staged effects carried from one snapshot to the next over exactly the rows that changed (I3).

    D' = (D - G) + { born rows that the program changes }
    R' = { x in R : provenance(x) not in G } + { their new images }
    F' = { inserts whose count is 0 } + appended rows as staged

Staging is a rebase from nothing, statement after statement.  The rule reads the delta and never the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyroaring import BitMap64

from rowlock.boundary.effects import Effects, RowBlock, union_by_path
from rowlock.boundary.engine import Engine
from rowlock.boundary.lost_matches import LostMatches, survivors
from rowlock.boundary.statements import Program
from rowlock.conflict.delta import Delta, Slice
from rowlock.log.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Rebased:
    effects: Effects
    rows_rebased: int = 0
    bytes_rebased: int = 0
    rows_dropped: int = 0


def stage(
    program: Program, first: int, effects: Effects, candidates: Sequence[Slice], *, engine: Engine, snapshot: Snapshot
) -> tuple[Effects, Mapping[str, int]]:
    """The effects with the statements from number `first` on run over them and over the candidate rows of the table.

    With them the rows that these statements updated, deleted and inserted, as the engine counted them.
    """
    lost_matches = LostMatches(effects, {}, engine.provenance)
    done = engine.propagate(program, effects, (), candidates, snapshot=snapshot, lost_matches=lost_matches, first=first)
    kept = [b for b in effects.blocks if b.kind == "matched"]
    blocks = (*kept, *(b for b in done.blocks if b.num_rows))
    return Effects(
        union_by_path(effects.tombstones, done.tombstones), blocks, {**effects.counts, **done.counts}, (*effects.assigned, *done.assigned)
    ), done.metrics


def rebase(effects: Effects, program: Program, delta: Delta, *, engine: Engine, snapshot: Snapshot) -> Rebased:
    """The effects as they are after `delta`, whose born rows live in `snapshot`.

    Raises what the serial run would raise: MultipleMatches, ConstraintViolated.
    """
    gone = delta.gone_by_path()
    lost_matches = LostMatches(effects, gone, engine.provenance)
    fresh = engine.propagate(program, effects, delta.gone, delta.born, snapshot=snapshot, lost_matches=lost_matches)
    tombstones = union_by_path(_without_gone(effects.tombstones, gone), fresh.tombstones)
    kept: list[RowBlock] = []
    dropped = 0
    for block in effects.blocks:
        mask = survivors(block, gone, fresh.counts, engine.provenance)
        if mask is not None and not mask.all():
            dropped += int(len(mask) - mask.sum()) if block.kind != "matched" else 0
            if not mask.any():
                continue
            block = engine.keep(block, mask)
        kept.append(block)
    blocks = (*kept, *(b for b in fresh.blocks if b.num_rows))
    merged = Effects({p: t for p, t in tombstones.items() if t}, blocks, {**effects.counts, **fresh.counts})
    return Rebased(merged, fresh.rows_read, fresh.bytes_read, dropped)


def _without_gone(tombstones: Mapping[str, BitMap64], gone: Mapping[str, Slice]) -> dict[str, BitMap64]:
    return {path: positions - gone[path].covers(positions) if path in gone else positions for path, positions in tombstones.items()}
