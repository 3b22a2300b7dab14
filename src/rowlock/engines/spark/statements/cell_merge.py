"""Merges two images of the same rows cell by cell, for lockless commits, and finds the cells in which they differ.  Driver only."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from rowlock.boundary.effects import RowBlock
from rowlock.boundary.provenance import Mask
from rowlock.conflict.delta import Slice
from rowlock.engines.spark.driver_rows import read_slice
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.statements.generated_columns import recomputed_rows
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.blocks import driver_block, logical
from rowlock.parquet.values import row_keys


def rows_of(evaluator: Evaluator, block: RowBlock, snapshot: Snapshot) -> pa.Table:
    """The rows of a block in its order, read to the driver where they lie in files."""
    rows = block.payload
    read = [read_slice(evaluator, Slice(f, without=rows.dead.get(f.path)), snapshot) for f in rows.files]
    return pa.concat_tables([logical(table, snapshot) for table in (*rows.tables, *read)])


def merged(evaluator: Evaluator, under: RowBlock, over: RowBlock, cells: Mapping[str, Mask], snapshot: Snapshot) -> RowBlock:
    """The rows of `under`, with the value of `over` in each cell that `cells` marks; generated columns are computed anew."""
    theirs, ours = rows_of(evaluator, under, snapshot), rows_of(evaluator, over, snapshot)
    columns = [_chosen(theirs.column(n), ours.column(n), cells[n]) if n in cells else theirs.column(n) for n in theirs.column_names]
    table = recomputed_rows(evaluator, pa.Table.from_arrays(columns, schema=theirs.schema), snapshot)  # they depend on cells of both blocks
    return driver_block("derived", over.statement, table, under.provenance)


def _chosen(theirs: pa.ChunkedArray, ours: pa.ChunkedArray, mask: Mask) -> pa.ChunkedArray:
    """The values of `ours` where the mask is True, else of `theirs`; `take` by row number works for values of any type."""
    both = pa.chunked_array([*theirs.chunks, *ours.chunks], theirs.type)
    size = len(mask)
    return both.take(pa.array(np.where(mask, np.arange(size) + size, np.arange(size))))


def differing(evaluator: Evaluator, a: RowBlock, b: RowBlock, snapshot: Snapshot) -> dict[str, Mask]:
    """For each column in which the two blocks differ, the mask of the rows that do.  Values are compared in serialized form, so that NaN equals NaN."""
    one, other = rows_of(evaluator, a, snapshot), rows_of(evaluator, b, snapshot)
    out: dict[str, Mask] = {}
    for name in one.column_names:
        pairs = zip(row_keys(one.select([name])), row_keys(other.select([name])), strict=True)
        mask = np.array([x != y for x, y in pairs], dtype=np.bool_)
        if mask.any():
            out[name] = mask
    return out
