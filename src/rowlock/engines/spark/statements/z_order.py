"""Z-order: sorts rows so that rows that are close in any of several columns lie close in the files.

A column counts by the rank of its values, cut to a few bits, so that skew and types do not matter; the bits of all columns
are interleaved.  Nulls come first.  This decides where rows lie, never which rows there are: an inexact rank costs some
file skipping and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType

from rowlock.engines.spark.read.scan import quote
from rowlock.limits import limits
from rowlock.protocol.schema import ColumnPath

_BITS = 10
"""At most so many bits of a column's rank: 1,024 places are more than the files of a bin."""
_ALL_BITS = 62
_SEPARATOR = "\x01"
"""Between bounds in their text form; a value that contains it moves some bounds and does no other harm."""
_Z, _RANK = "__rowlock_z", "__rowlock_rank_{}"


@dataclass(frozen=True, slots=True)
class Order:
    """The payload of a move that sorts rows.

    columns       by the table's names; rows of equal Z-value are sorted by the first column, then by the next
    target_bytes  the size of an output file, about
    clustered_by  the clustering columns that output files are tagged with, by their names in data files; empty: no tag
    """

    columns: tuple[ColumnPath, ...]
    target_bytes: int
    clustered_by: tuple[ColumnPath, ...] = ()


def bits_of(columns: Sequence[Any], num_rows: int) -> int:
    """The bits that each column gets: no more than it takes to number the rows."""
    return max(1, min(_BITS, _ALL_BITS // len(columns), num_rows.bit_length()))


# ---- on the driver -------------------------------------------------------------------------


def local_order(table: pa.Table, columns: Sequence[ColumnPath]) -> npt.NDArray[np.int64]:
    """The numbers of the rows in Z-order; equal rows keep their present order."""
    bits = bits_of(columns, table.num_rows)
    ranks = [_ranks(table, c) for c in columns]
    places = [(r * (1 << bits)) // max(1, table.num_rows) for r in ranks]
    return np.lexsort((*reversed(ranks), interleaved(places, bits))).astype(np.int64)


def interleaved(places: Sequence[npt.NDArray[np.int64]], bits: int) -> npt.NDArray[np.int64]:
    """The Z-value of each row: the bits of its places, the highest of every column first."""
    z = np.zeros(len(places[0]), np.int64)
    for bit in range(bits - 1, -1, -1):
        for place in places:
            z = (z << 1) | ((place >> bit) & 1)
    return z


def _ranks(table: pa.Table, path: ColumnPath) -> npt.NDArray[np.int64]:
    """For each row the number of rows with a smaller value; 0 for nulls."""
    column = table.column(path[0])
    for name in path[1:]:
        column = pc.struct_field(column, name)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    elif pa.types.is_decimal(column.type) or pa.types.is_binary(column.type):
        return _ranks_by_sorting(column)
    try:
        ranks = np.asarray(pc.rank(column, sort_keys="ascending", tiebreaker="min").to_numpy(), dtype=np.int64) - 1
        return np.where(pc.is_null(column).to_numpy(), 0, ranks + column.null_count)  # nulls were ranked last
    except pa.ArrowNotImplementedError:
        return _ranks_by_sorting(column)


def _ranks_by_sorting(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    codes = column.combine_chunks().dictionary_encode()
    codes = codes.combine_chunks() if isinstance(codes, pa.ChunkedArray) else codes
    values = codes.dictionary.to_pylist()
    smaller = np.argsort(sorted(range(len(values)), key=lambda n: values[n]))
    at = np.asarray(pc.fill_null(codes.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False), np.int64)
    dense = np.where(at < 0, -1, smaller[np.maximum(at, 0)] if values else -1)
    order = np.sort(dense)
    return np.searchsorted(order, dense, side="left").astype(np.int64)


# ---- in Spark ------------------------------------------------------------------------------


def ordered_frame(frame: DataFrame, columns: Sequence[ColumnPath], num_files: int, num_rows: int, ties: Sequence[Column]) -> DataFrame:
    """The rows in Z-order, in `num_files` partitions; rows with equal values are sorted by `ties`.

    One Spark job over a sample of the columns; everything else is native expressions.
    """
    bits, values = bits_of(columns, num_rows), [F.col(".".join(quote(part) for part in c)) for c in columns]
    bounds = _bounds(frame, values, bits, num_rows)
    names = [_RANK.format(n) for n in range(len(columns))]
    placed = frame
    for step in range(bits - 1, -1, -1):  # a binary search, one step for each projection
        searched = [_step(name, value, bound, 1 << step, first=step == bits - 1) for name, value, bound in zip(names, values, bounds, strict=True)]
        placed = placed.withColumns(dict(zip(names, searched, strict=True)))
    z = F.lit(0).cast("bigint")
    for bit in range(bits - 1, -1, -1):
        for name in names:
            z = F.shiftleft(z, 1).bitwiseOR(F.shiftright(F.col(name), bit).bitwiseAND(F.lit(1)).cast("bigint"))
    along = placed.withColumn(_Z, z)
    spread = along.coalesce(1) if num_files == 1 else along.repartitionByRange(num_files, F.col(_Z), *values)
    return spread.sortWithinPartitions(_Z, *values, *ties).drop(_Z, *names)


def _bounds(frame: DataFrame, values: Sequence[Column], bits: int, num_rows: int) -> list[Column]:
    """For each column an array of 2^bits - 1 ascending values between which about equally many rows lie.

    The values pass through text: what text loses of a value only moves a bound a little.
    """
    fraction = min(1.0, limits().sampled_rows / max(1, num_rows))
    sample = frame.select(*(v.alias(f"c{n}") for n, v in enumerate(values)))
    sample = sample if fraction == 1.0 else sample.sample(fraction=fraction, seed=17)
    types = [f.dataType for f in sample.schema.fields]
    ordered = sample.agg(*(F.sort_array(F.collect_list(f"c{n}")).alias(f"c{n}") for n in range(len(values))))
    wanted = (1 << bits) - 1
    picked = [_picked(f"c{n}", wanted) for n in range(len(values))]
    row = ordered.select(*(p.alias(f"c{n}") for n, p in enumerate(picked))).collect()[0]
    return [F.split(F.lit(_SEPARATOR.join(row[n] or [])), _SEPARATOR).try_cast(ArrayType(types[n])) for n in range(len(values))]


def _picked(name: str, wanted: int) -> Column:
    """`wanted` values at even distances out of a sorted array, as text; null where the array is empty."""
    size = F.size(name)
    at = F.sequence(F.lit(0), F.lit(wanted - 1))
    return F.when(size > 0, F.transform(at, lambda i: F.element_at(name, (F.floor(i * size / wanted) + 1).cast("int")).cast("string")))


def _step(name: str, value: Column, bound: Column, step: int, *, first: bool) -> Column:
    """The row's place after one more step of a binary search: the number of bounds not above the value, as far as it is known."""
    at = F.lit(0) if first else F.col(name)
    return at + F.when(F.get(bound, at + F.lit(step - 1)) <= value, F.lit(step)).otherwise(F.lit(0))
