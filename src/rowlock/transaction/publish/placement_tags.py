"""Placement tags for the remove actions of a compaction: where in the output the rows of each input file are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from pyroaring import BitMap64

from rowlock.boundary.effects import RowBlock, StagedFile
from rowlock.boundary.provenance import Origin, StoredOrigin
from rowlock.protocol.deletion_vector import bitmap_to_numpy
from rowlock.protocol.placement import Placement


def placements(blocks: Sequence[RowBlock], staged: Sequence[StagedFile], taken: Mapping[str, BitMap64]) -> dict[str, Placement]:
    """By input path, where its rows are in the output; only for inputs whose live rows (`taken`) lie in the output in one run, in order."""
    out: dict[str, Placement] = {}
    for block in blocks:
        files = [s for s in staged if s.group == block.group]
        same = [b for b in blocks if b.group == block.group]
        if len(files) != 1 or len(same) != 1 or files[0].dead or files[0].add.num_records != block.num_rows or block.provenance is None:
            continue
        for path, (start, rows) in _runs(block.provenance, taken).items():
            out[path] = Placement(files[0].add.path, start, rows)
    return out


def _runs(origin: Origin, taken: Mapping[str, BitMap64]) -> dict[str, tuple[int, int]]:
    """By path, (number of the first row, rows) where the rows of a path are those of `taken`, in one run and in order."""
    if isinstance(origin, StoredOrigin):
        return {path: run for path, run in origin.runs.items() if path in taken and origin.positions[path] == taken[path]}
    out = {}
    for path, at in origin.by_path():
        in_a_row = at[-1] - at[0] + 1 == len(at)
        if in_a_row and path in taken and np.array_equal(origin.position[at], bitmap_to_numpy(taken[path])):
            out[path] = (int(at[0]), len(at))
    return out
