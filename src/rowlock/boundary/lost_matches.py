"""Which staged rows survive a delta, and how many matches each MERGE source row loses with those that do not.

A staged row is identified by its address: (path, position) of the table row that it replaces, or
(`fresh_path` of the MERGE, number) of the source row that it was inserted for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from rowlock.boundary.effects import Effects, RowBlock, fresh_statement
from rowlock.boundary.provenance import Counts, Mask, Origin, StoredCounts, counted
from rowlock.conflict.delta import Slice
from rowlock.protocol.deletion_vector import bitmap_to_numpy

ProvenanceOf = Callable[[RowBlock], Origin]


@dataclass(frozen=True, slots=True)
class LostMatches:
    """The MERGE matches that an engine recorded in `matched` blocks, and how many of them a delta takes away."""

    staged: Effects
    gone: Mapping[str, Slice]
    provenance: ProvenanceOf

    def of(self, statement: int, counts: Mapping[int, Counts | StoredCounts]) -> Counts | None:
        """How many matches each source row of MERGE `statement` loses; None where no matches were recorded, or none of these is lost.

        Matches are lost with target rows that are gone, and with rows that earlier MERGEs of the transaction inserted
        and now insert no more (`counts` holds the matches of those MERGEs after the delta).
        """
        out: Counts | None = None
        for block in self.staged.blocks:
            if block.kind != "matched" or block.statement != statement:
                continue
            mask, at = survivors(block, self.gone, counts, self.provenance), 0
            if mask is None or mask.all():
                continue
            if out is None:
                out = np.zeros(len(self.staged.counts[statement]), np.int64)
            for part in block.payload.parts():
                np.add.at(out, part[~mask[at : at + len(part)]], 1)
                at += len(part)
        return out


def survivors(block: RowBlock, gone: Mapping[str, Slice], counts: Mapping[int, Counts | StoredCounts], provenance: ProvenanceOf) -> Mask | None:
    """Mask of the rows of a block that survive the delta; None: all do.  An inserted row lives if and only if its match count is 0.

    Origins that are stored in files are read only where the delta meets one of them.
    """
    if block.kind == "appended" or (not gone and not counts):
        return None
    origin = provenance(block)
    known = origin.positions
    hit = {path: fresh_statement(path) for path in origin.paths}
    hit = {path: fresh for path, fresh in hit.items() if (fresh in counts if fresh is not None else path in gone)}
    hit = {path: fresh for path, fresh in hit.items() if fresh is not None or path not in known or gone[path].covers(known[path])}
    if not hit:
        return None
    tallies = {fresh: counted(counts[fresh]) for fresh in hit.values() if fresh is not None}
    mask, start = np.ones(origin.num_rows, dtype=np.bool_), 0
    for part in origin.parts():
        for path, rows in part.by_path():
            if path in hit:
                at, fresh = part.position[rows], hit[path]
                mask[start + rows] = tallies[fresh][at] == 0 if fresh is not None else ~_dead(gone[path], at)
        start += part.num_rows
    return mask


def _dead(gone: Slice, positions: np.ndarray) -> Mask:
    """Mask of the `positions` that are in the slice `gone`.  They lived before, so a slice of a whole file holds them all."""
    if gone.only is None:
        return np.ones(len(positions), dtype=np.bool_)
    return np.isin(positions, bitmap_to_numpy(gone.only))
