"""Compares rows: of two sets of slices, to distinguish rows that only moved from rows that changed; and of two images, cell by cell, for lockless commits.

Rows are equal where all values are exactly equal: NaN equals NaN, -0.0 differs from 0.0, the order of a map's entries counts.
The keys of the driver (`parquet.values.row_keys`) and of Spark (`_key`) must agree on this.  Cells are merged on the driver.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, functions as F, types as T

from rowlock.boundary.effects import RowBlock
from rowlock.boundary.provenance import Mask
from rowlock.conflict.delta import Slice
from rowlock.engines.spark.catalyst.bridge import catalyst, to_arrow
from rowlock.engines.spark.driver_rows import read_slice, read_slices
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.statements.computed_columns import recomputed_rows
from rowlock.engines.spark.statements.row_statements import RowMask
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.blocks import driver_block, logical
from rowlock.parquet.values import plain_rows, row_keys

Side = tuple[Sequence[Slice], Snapshot]
_ROW, _KEY, _SIGN, _COUNT = "__rowlock_row", "__rowlock_key", "__rowlock_sign", "__rowlock_n"


def differing_rows(evaluator: Evaluator, old: Side, new: Side, limit: int, where: Sequence[RowMask] = ()) -> list[dict[str, Any]]:
    """Up to `limit` rows of which one side has more copies than the other, each row once.  One Spark job where the rows are many.

    On the driver, rows are left out that meet none of the conditions `where`.
    """
    if (held := _on_driver(evaluator, old, where)) is not None and (other := _on_driver(evaluator, new, where)) is not None:
        return _differing_on_driver(held, other, limit)
    sides = [(side, sign) for side, sign in ((old, 1), (new, -1)) if side[0]]
    frames = [evaluator.live_frame(snapshot, slices) for (slices, snapshot), _ in sides]
    if len(frames) == 2 and frames[0].columns != frames[1].columns:
        frames, sides = frames[:1], sides[:1]  # the columns differ, so that no row of one side equals a row of the other
    names = frames[0].columns
    signed = [_signed(frame, sign) for frame, (_, sign) in zip(frames, sides, strict=True)]
    both = signed[0].unionAll(signed[1]) if len(signed) == 2 else signed[0]
    found = both.groupBy(_KEY).agg(F.sum(_SIGN).alias(_COUNT), F.first(_ROW).alias(_ROW)).where(f"{_COUNT} != 0").limit(limit)
    return plain_rows(to_arrow(found.select(*(F.col(f"{_ROW}.c{n}") for n in range(len(names))))).rename_columns(names))


def have_same_rows(left: DataFrame, right: DataFrame) -> bool:
    """Whether two DataFrames, whose columns have the same types, hold the same rows, each as often.  One Spark job."""
    both = _signed(left, 1).unionAll(_signed(right, -1))
    return both.groupBy(_KEY).agg(F.sum(_SIGN).alias(_COUNT)).where(f"{_COUNT} != 0").isEmpty()


def _on_driver(evaluator: Evaluator, side: Side, where: Sequence[RowMask] = ()) -> pa.Table | None:
    """The rows of a side that may meet one of the conditions, read to the driver; None where they are many or Arrow cannot read them as Spark would."""
    slices, snapshot = side
    if sum(map(evaluator.rows_to_read, slices)) > limits().local_rows or (tables := read_slices(evaluator, slices, snapshot)) is None:
        return None
    rows = pa.concat_tables(tables) if tables else pa.table({})
    if not where or not rows.num_rows or not set(rows.column_names).issuperset(name for mask in where for name in mask.names):
        return rows
    return rows.filter(pa.array(np.logical_or.reduce([mask.of(rows.select(list(mask.names))) for mask in where])))


def _differing_on_driver(old: pa.Table, new: pa.Table, limit: int) -> list[dict[str, Any]]:
    if old.num_rows and new.num_rows and old.column_names != new.column_names:
        return plain_rows(old.slice(0, limit))
    keys = row_keys(old), row_keys(new)
    counts = Counter(keys[0]), Counter(keys[1])
    out: list[dict[str, Any]] = []
    for table, own, mine, other in ((old, keys[0], counts[0], counts[1]), (new, keys[1], counts[1], counts[0])):
        odd = {k: n for n, k in enumerate(own) if mine[k] > other[k]}
        out += plain_rows(table.take(pa.array(list(odd.values())[: limit - len(out)], pa.int64())))
    return out


def _signed(frame: DataFrame, sign: int) -> DataFrame:
    """Each row with its key, a text that only equal rows share, and `sign`."""
    types = [f.dataType for f in frame.schema.fields]
    rows = frame.toDF(*(f"c{n}" for n in range(len(types))))
    key = F.to_json(F.struct(*(_key(F.col(f"c{n}"), t).alias(f"c{n}") for n, t in enumerate(types))), {"ignoreNullFields": "false"})
    return rows.select(key.alias(_KEY), F.struct("*").alias(_ROW), F.lit(sign).alias(_SIGN))


def _key(value: Column, t: T.DataType) -> Column:
    """A value in a form that JSON holds without loss: JSON cuts timestamps to milliseconds and has no bytes."""
    if isinstance(t, T.TimestampType):
        return F.unix_micros(value)
    if isinstance(t, T.DateType):
        return F.unix_date(value)
    if isinstance(t, T.TimestampNTZType):
        return value.cast("string")
    if isinstance(t, (T.FloatType, T.DoubleType)):
        return value.cast("double").cast("string")
    if isinstance(t, (T.StringType, T.BinaryType)):
        return F.hex(value.cast(T.BinaryType()))
    if isinstance(t, T.VariantType):
        return catalyst(SparkSession.active()).variant_bytes(value)  # JSON does not tell a date from its text, nor Spark's schema those in an array
    if isinstance(t, T.ArrayType):
        return F.transform(value, lambda v: _key(v, t.elementType))
    if isinstance(t, T.MapType):
        return F.transform(F.map_entries(value), lambda e: F.struct(_key(e["key"], t.keyType).alias("k"), _key(e["value"], t.valueType).alias("v")))
    if isinstance(t, T.StructType):
        return F.when(value.isNotNull(), F.struct(*(_key(value.getField(f.name), f.dataType).alias(f"f{n}") for n, f in enumerate(t.fields))))
    return F.lit(None).cast("string") if isinstance(t, T.NullType) else value


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
