"""Which staged rows survive a delta, and how many matches each MERGE source row loses with those that do not.

A staged row is identified by its address: (path, position) of the table row that it replaces, or
(`fresh_path` of the MERGE, number) of the source row that it was inserted for.
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
    """The MERGE matches that an engine recorded in `matched` blocks, and how many of them a delta takes away."""

    staged: Effects
    gone: Mapping[str, Slice]
    provenance: ProvenanceOf

    def of(self, statement: int, counts: Mapping[int, Counts]) -> Counts | None:
        """How many matches each source row of MERGE `statement` loses; None where no matches were recorded.

        Matches are lost with target rows that are gone, and with rows that earlier MERGEs of the transaction inserted
        and now insert no more (`counts` holds the matches of those MERGEs after the delta).
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
    """Mask of the rows of a block that survive the delta; None: all do.  An inserted row lives if and only if its match count is 0."""
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
    """Mask of the `positions` that are in the slice `gone`.  They lived before, so a slice of a whole file holds them all."""
    if gone.only is None:
        return np.ones(len(positions), dtype=np.bool_)
    return np.isin(positions, bitmap_to_numpy(gone.only))
