"""Sorts the rows of a DataFrame along a curve (`parquet.curves`), in as many partitions as there are to be files.

Spark looks up the same table of the Hilbert curve.  Ranks go by a sample.  Times count as instants, so that no time zone changes the order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, TimestampType

from rowlock.limits import limits
from rowlock.parquet.curves import ALL_BITS, Order, bits_of, cuts, hilbert_table
from rowlock.protocol.schema import ColumnPath, quote

_SAMPLED_PER_FILE = 100
_SEPARATOR = "\x01"
"""Between bounds in their text form; a value that contains it moves some bounds and does no other harm."""
_NUMBER, _FILE, _RANK, _STATE = "__rowlock_along", "__rowlock_file", "__rowlock_rank_{}", "__rowlock_state_{}"


def ordered_frame(frame: DataFrame, order: Order, num_files: int, num_rows: int, ties: Sequence[Column]) -> DataFrame:
    """The rows in their new order, in about `num_files` partitions; rows with equal values are sorted by `ties`.

    One or two Spark jobs over a sample of the columns; everything else is native expressions.
    """
    values = [_comparable(frame, c) for c in order.columns]
    if len(values) == 1:
        spread = frame.coalesce(1) if num_files == 1 else frame.repartitionByRange(num_files, *values, *ties)  # the ties divide a value that fills files
        return spread.sortWithinPartitions(*values, *ties)
    bits = bits_of(values, num_rows)
    names = [_RANK.format(n) for n in range(len(values))]
    bounds = _bounds(frame, values, bits, num_rows)
    placed = _searched(frame, dict(zip(names, zip(values, bounds, strict=True), strict=True)), bits)
    along = (_along_hilbert if order.hilbert else _along_z)(placed, names, bits)
    spread = along.coalesce(1) if num_files == 1 else _spread(along, values, num_files, num_rows, ties)
    return spread.sortWithinPartitions(_NUMBER, *values, *ties).drop(_NUMBER, _FILE, *names, *(_STATE.format(bit) for bit in range(bits)))


def _comparable(frame: DataFrame, path: ColumnPath) -> Column:
    """A column as it is ranked: instants as numbers, whose text depends on no time zone."""
    column = F.col(".".join(quote(part) for part in path))
    return F.unix_micros(column) if isinstance(frame.select(column).schema.fields[0].dataType, TimestampType) else column


def _along_z(frame: DataFrame, names: Sequence[str], bits: int) -> DataFrame:
    """The frame with the number of each row's cell in Z-order; `names`: the columns of its places."""
    z = F.lit(0).cast("bigint")
    for bit in range(bits - 1, -1, -1):
        for name in names:
            z = F.shiftleft(z, 1).bitwiseOR(F.shiftright(F.col(name), bit).bitwiseAND(F.lit(1)).cast("bigint"))
    return frame.withColumn(_NUMBER, z)


def _along_hilbert(frame: DataFrame, names: Sequence[str], bits: int) -> DataFrame:
    """The frame with the number of each row's cell along a Hilbert curve; one look into the curve's table for each bit."""
    directions, table = len(names), F.lit(hilbert_table(len(names)).tolist())
    states = [_STATE.format(bit) for bit in range(bits)]
    for bit in range(bits - 1, -1, -1):
        corner = F.lit(0)
        for n, name in enumerate(names):
            corner = corner + F.shiftleft(F.shiftright(F.col(name), bit).bitwiseAND(F.lit(1)), n)
        state = F.lit(0) if bit == bits - 1 else F.shiftleft(F.shiftright(F.col(states[bit + 1]), directions), directions)
        frame = frame.withColumn(states[bit], F.get(table, state + corner).cast("int"))
    number = F.lit(0).cast("bigint")
    for bit in range(bits - 1, -1, -1):
        number = F.shiftleft(number, directions).bitwiseOR(F.col(states[bit]).bitwiseAND(F.lit((1 << directions) - 1)).cast("bigint"))
    return frame.withColumn(_NUMBER, number)


def _spread(frame: DataFrame, values: Sequence[Column], num_files: int, num_rows: int, ties: Sequence[Column]) -> DataFrame:
    """The rows in a partition for each file, cut where the curve leaves large squares.

    Spark 4.0 cannot name a row's partition, and a sample of few rows says little: there Spark divides the rows.
    """
    sample = _sampled(frame, num_rows, _SAMPLED_PER_FILE * num_files).select(_NUMBER).toArrow().column(0).to_numpy()
    if len(sample) < 2 * num_files or not hasattr(frame, "repartitionById"):
        return frame.repartitionByRange(num_files, F.col(_NUMBER), *values)
    found = cuts(sample, num_files)
    starts = F.lit(list(found.starts[1:]) or [2**ALL_BITS]).cast("array<bigint>")
    placed = _searched(frame, {_FILE: (F.col(_NUMBER), starts)}, len(found.starts).bit_length())
    if max(found.files) > 1:  # rows of one cell in several files: divided by their addresses
        first = np.cumsum([0, *found.files[:-1]]).tolist()
        within = F.pmod(F.xxhash64(*ties), F.get(F.lit(list(found.files)), F.col(_FILE)))
        placed = placed.withColumn(_FILE, (F.get(F.lit(first), F.col(_FILE)) + within).cast("int"))
    return placed.repartitionById(sum(found.files), F.col(_FILE))


def _sampled(frame: DataFrame, num_rows: int, at_least: int = 0) -> DataFrame:
    fraction = min(1.0, max(limits().sampled_rows, at_least) / max(1, num_rows))
    return frame if fraction == 1.0 else frame.sample(fraction=fraction, seed=17)


def _searched(frame: DataFrame, wanted: Mapping[str, tuple[Column, Column]], bits: int) -> DataFrame:
    """The frame with new columns: by name, for (value, ascending bounds), how many of the at most 2^bits - 1 bounds are not above the value.

    A binary search, one step for each projection.
    """
    for step in range(bits - 1, -1, -1):
        first = step == bits - 1
        frame = frame.withColumns({name: _step(name, value, bound, 1 << step, first=first) for name, (value, bound) in wanted.items()})
    return frame


def _bounds(frame: DataFrame, values: Sequence[Column], bits: int, num_rows: int) -> list[Column]:
    """For each column an array of 2^bits - 1 ascending values between which about equally many rows lie.

    The values pass through text: what text loses of a value only moves a bound a little.
    """
    sample = _sampled(frame.select(*(v.alias(f"c{n}") for n, v in enumerate(values))), num_rows)
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
