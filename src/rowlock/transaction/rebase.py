"""Rebase: staged effects carried from one snapshot to the next over exactly the rows that changed (I3).

    D' = (D - G) + { born rows that the program changes }
    R' = { x in R : provenance(x) not in G } + { their new images }
    F' = { inserts whose count is 0 } + appended rows as staged

Staging is a rebase from nothing.  The rule reads the delta and never the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pyroaring import BitMap64

from rowlock.conflict.delta import Delta, Slice
from rowlock.log.snapshot import Snapshot
from rowlock.transaction.effects import Counts, Effects, Mask, RowBlock
from rowlock.transaction.engine import Engine
from rowlock.transaction.statements import Program


@dataclass(frozen=True, slots=True)
class Rebased:
    effects: Effects
    rows_rebased: int = 0
    bytes_rebased: int = 0
    rows_dropped: int = 0


def stage(program: Program, candidates: Sequence[Slice], *, engine: Engine, snapshot: Snapshot) -> Rebased:
    """Runs the program over the candidate files, each of which is born whole."""
    return rebase(Effects(), program, Delta((), tuple(candidates)), engine=engine, snapshot=snapshot, staging=True)


def rebase(effects: Effects, program: Program, delta: Delta, *, engine: Engine, snapshot: Snapshot, staging: bool = False) -> Rebased:
    """The effects as they are after `delta`, whose born rows live in `snapshot`.

    Raises what the serial run would raise: MultipleMatches, ConstraintViolated.
    """
    gone = delta.gone_by_path()
    fresh = engine.propagate(program, effects.counts, delta.gone, delta.born, snapshot=snapshot, staging=staging, lost=lost_matches(effects, gone, engine))
    tombstones = _without_gone(effects.tombstones, gone)
    for path, positions in fresh.tombstones.items():
        tombstones[path] = tombstones[path] | positions if path in tombstones else positions
    kept: list[RowBlock] = []
    dropped = 0
    for block in effects.blocks:
        mask = survivors(block, gone, fresh.counts, engine)
        if mask is not None and not mask.all():
            dropped += int(len(mask) - mask.sum()) if block.kind != "matched" else 0
            if not mask.any():
                continue
            block = engine.keep(block, mask)
        kept.append(block)
    blocks = (*kept, *(b for b in fresh.blocks if b.num_rows))
    merged = Effects({p: t for p, t in tombstones.items() if t}, blocks, {**effects.counts, **fresh.counts})
    return Rebased(merged, fresh.rows_read, fresh.bytes_read, dropped)


def lost_matches(effects: Effects, gone: Mapping[str, Slice], engine: Engine) -> dict[int, Counts]:
    """For each MERGE whose matches the engine noted: how many matches of each source row are gone."""
    out: dict[int, Counts] = {}
    for block in effects.blocks:
        if block.kind == "matched":
            size = len(effects.counts[block.statement])
            mask = survivors(block, gone, {}, engine)
            lost = np.zeros(size, np.int64) if mask is None else np.bincount(block.payload[~mask], minlength=size).astype(np.int64)
            out[block.statement] = out.get(block.statement, np.zeros(size, np.int64)) + lost
    return out


def _without_gone(tombstones: Mapping[str, BitMap64], gone: Mapping[str, Slice]) -> dict[str, BitMap64]:
    return {path: positions - gone[path].covers(positions) if path in gone else positions for path, positions in tombstones.items()}


def survivors(block: RowBlock, gone: Mapping[str, Slice], counts: Mapping[int, Counts], engine: Engine) -> Mask | None:
    """Which rows of a block outlive the delta; None: all of them."""
    if block.kind == "appended":
        return None
    if block.kind == "inserted":
        if block.statement not in counts:
            return None
        return np.asarray(counts[block.statement][engine.provenance(block).position] == 0)
    if not gone:
        return None
    origin = engine.provenance(block)
    if not any(path in gone for path in origin.paths):
        return None
    mask = np.ones(len(origin.file), dtype=np.bool_)
    for index, path in enumerate(origin.paths):
        if path in gone:
            rows = np.flatnonzero(origin.file == index)
            mask[rows] = ~_dead(gone[path], origin.position[rows])
    return mask


def _dead(gone: Slice, positions: np.ndarray) -> Mask:
    """Which of `positions` are gone.  They lived before, so a slice that is a whole file takes them all."""
    if gone.only is None:
        return np.ones(len(positions), dtype=np.bool_)
    return np.isin(positions, bitmap_to_numpy(gone.only))


def bitmap_to_numpy(bitmap: BitMap64) -> np.ndarray:
    """Sorted positions as int64."""
    return np.frombuffer(bitmap.to_array(), dtype=np.uint64).astype(np.int64) if bitmap else np.empty(0, dtype=np.int64)
