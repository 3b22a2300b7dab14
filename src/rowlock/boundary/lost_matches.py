"""Who of a transaction's rows outlives a delta, and what its MERGEs lose with those that do not.

A row is known by its address: (path, position) of the row of the table that it stands for, or
(`fresh_path` of a MERGE, number) of the source row that it was inserted for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from rowlock.boundary.effects import Counts, Effects, Mask, Provenance, RowBlock, fresh_statement
from rowlock.conflict.delta import Slice
from rowlock.protocol.deletion_vector import bitmap_to_numpy

ProvenanceOf = Callable[[RowBlock], Provenance]


@dataclass(frozen=True, slots=True)
class LostMatches:
    """The matches that an engine noted in `matched` blocks, as a rebase asks for them."""

    staged: Effects
    gone: Mapping[str, Slice]
    provenance: ProvenanceOf

    def of(self, statement: int, counts: Mapping[int, Counts]) -> Counts | None:
        """How many matches each source row of the MERGE `statement` loses: with rows that are gone, and with inserts of
        MERGEs before it that died (`counts` has the matches of these after the delta).  None where nothing was noted.
        """
        found = [b for b in self.staged.blocks if b.kind == "matched" and b.statement == statement]
        if not found:
            return None
        size = len(self.staged.counts[statement])
        out = np.zeros(size, np.int64)
        for block in found:
            mask = survivors(block, self.gone, counts, self.provenance)
            if mask is not None:
                out += np.bincount(block.payload[~mask], minlength=size)
        return out


def survivors(block: RowBlock, gone: Mapping[str, Slice], counts: Mapping[int, Counts], provenance: ProvenanceOf) -> Mask | None:
    """Which rows of a block outlive the delta; None: all of them.  An insert lives if and only if its count is 0."""
    if block.kind == "appended" or (not gone and not counts):
        return None
    origin = provenance(block)
    hit = [(n, path, fresh_statement(path)) for n, path in enumerate(origin.paths)]
    hit = [(n, path, fresh) for n, path, fresh in hit if (fresh in counts if fresh is not None else path in gone)]
    if not hit:
        return None
    mask = np.ones(len(origin.file), dtype=np.bool_)
    for n, path, fresh in hit:
        rows = np.flatnonzero(origin.file == n)
        at = origin.position[rows]
        mask[rows] = counts[fresh][at] == 0 if fresh is not None else ~_dead(gone[path], at)
    return mask


def _dead(gone: Slice, positions: np.ndarray) -> Mask:
    """Which of `positions` are gone.  They lived before, so a slice that is a whole file takes them all."""
    if gone.only is None:
        return np.ones(len(positions), dtype=np.bool_)
    return np.isin(positions, bitmap_to_numpy(gone.only))
