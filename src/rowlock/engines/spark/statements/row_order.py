"""Sorts rows so that those that are close in any of several columns lie close in the files: along a Z-order or a Hilbert curve.

A column counts by the rank of its values, cut to a few bits, so that skew and types do not matter; the curve numbers the cells
of that grid so that cells with near numbers are near in every direction, and files end where it leaves large squares.  The Hilbert curve goes
from each cell to a neighbour; the Z-order jumps.  `cuts` divides a curve into pieces of about equal size at the places that leave the smallest
boxes.  Curves are numpy alone: Spark looks up the same table (`hilbert_table`).  A single column is sorted by its values.  Nulls come
first.  This decides where rows lie, never which rows there are: an inexact rank costs some file skipping and nothing else.
Times count as instants, so that no time zone changes the order.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, TimestampType

from rowlock.limits import limits
from rowlock.protocol.clustering import Clustering
from rowlock.protocol.schema import ColumnPath, quote

Ints = npt.NDArray[np.int64]
SLACK = 0.25
"""How far a piece may be larger or smaller than asked for, as a share."""


def z_index(places: Sequence[Ints], bits: int) -> Ints:
    """The number of each cell in Z-order: the bits of its places, the highest of every direction first."""
    z = np.zeros(len(places[0]), np.int64)
    for bit in range(bits - 1, -1, -1):
        for place in places:
            z = (z << 1) | ((place >> bit) & 1)
    return z


def hilbert_index(places: Sequence[Ints], bits: int) -> Ints:
    """The number of each cell along a Hilbert curve through 2^bits cells in each direction; bits * directions is 62 at most."""
    directions = len(places)
    table, state, out = hilbert_table(directions), np.zeros(len(places[0]), np.int64), np.zeros(len(places[0]), np.int64)
    for bit in range(bits - 1, -1, -1):
        corner = np.zeros(len(state), np.int64)
        for n, place in enumerate(places):
            corner |= ((place >> bit) & 1) << n
        found = table[(state << directions) | corner]
        out = (out << directions) | (found & ((1 << directions) - 1))
        state = found >> directions
    return out


@functools.cache
def hilbert_table(directions: int) -> Ints:
    """The curve as a table: at (state << directions) | corner stands (next state << directions) | number of the corner.

    A cube of cells is 2^directions smaller cubes at its corners, which the curve visits in the order of a Gray code; bit n of a
    corner is its place in direction n.  Inside each of them runs the same curve, mirrored and with its directions exchanged
    so that it begins beside the end of the one before.  A state is such a form: the corner where it begins, and the
    direction of the axis along which it ends (after Hamilton, Compact Hilbert Indices, 2006).  It begins with state 0.
    """
    form = (0, 0)
    numbers, forms, rows = {form: 0}, [form], []
    for start, axis in forms:  # grows while forms are found
        row = [0] * (1 << directions)
        for corner in range(1 << directions):
            number = _from_gray(_turned(corner ^ start, -(axis + 1), directions))
            following = start ^ _turned(_entry(number), axis + 1, directions), (axis + _exit_axis(number, directions) + 1) % directions
            if following not in numbers:
                numbers[following] = len(numbers)
                forms.append(following)
            row[corner] = (numbers[following] << directions) | number
        rows += row
    return np.array(rows, np.int64)


def _turned(corner: int, by: int, directions: int) -> int:
    """The bits of a corner moved round by so many places, to higher ones."""
    by %= directions
    return ((corner << by) | (corner >> (directions - by))) & ((1 << directions) - 1)


def _gray(number: int) -> int:
    return number ^ (number >> 1)


def _from_gray(code: int) -> int:
    number = 0
    while code:
        number, code = number ^ code, code >> 1
    return number


def _entry(number: int) -> int:
    """The corner of the smaller cube of this number at which the curve enters it."""
    return 0 if number == 0 else _gray((number - 1) // 2 * 2)


def _exit_axis(number: int, directions: int) -> int:
    """The axis along which the curve runs within the smaller cube of this number, from its entry to its exit."""
    if number == 0:
        return 0
    odd = number if number % 2 else number - 1
    return ((odd ^ (odd + 1)).bit_length() - 1) % directions  # the ones at its end


@dataclass(frozen=True, slots=True)
class Cuts:
    """Where a curve is cut: the numbers at which pieces begin, ascending, and into how many files each piece is divided further.

    A piece is divided where a single cell holds more rows than a file.
    """

    starts: tuple[int, ...]
    files: tuple[int, ...]


def cuts(numbers: Ints, num_files: int) -> Cuts:
    """Cuts a curve into about `num_files` files of about equally many rows; `numbers` are the cells of a sample of the rows.

    Each file has its share of the rows, up to SLACK more or less, and within that a piece ends where the curve leaves the largest
    cube: at the number with the most trailing zero bits.  Pieces that end anywhere are long and bent, and their boxes overlap.
    """
    along = np.sort(numbers)
    size = max(1.0, len(along) / max(1, num_files))
    starts, files, at = [0], [], 0
    while len(along) - at > size * (1 + SLACK):
        low, high = int(along[int(at + size * (1 - SLACK))]), int(along[min(int(at + size * (1 + SLACK)), len(along) - 1)])
        first, after = (int(np.searchsorted(along, low, side=side)) for side in ("left", "right"))
        divided = 1
        if low < high:
            cut = _roundest(low, high)
        elif first - at > size / 2:
            cut = low  # a cell that is larger than a file becomes a piece of its own
        elif after < len(along):
            cut, divided = int(along[after]), max(1, round((after - at) / size))
        else:
            break
        starts.append(cut)
        files.append(divided)
        at = int(np.searchsorted(along, cut))
    return Cuts(tuple(starts), (*files, max(1, round((len(along) - at) / size))))


def _roundest(low: int, high: int) -> int:
    """The number in (low, high] with the most trailing zero bits."""
    bit = (low ^ high).bit_length() - 1
    return high >> bit << bit


_BITS = 10
"""At most so many bits of a column's rank: 1,024 places are more than the files of a bin."""
_ALL_BITS = 62
_SAMPLED_PER_FILE = 100
_SEPARATOR = "\x01"
"""Between bounds in their text form; a value that contains it moves some bounds and does no other harm."""
_NUMBER, _FILE, _RANK, _STATE = "__rowlock_along", "__rowlock_file", "__rowlock_rank_{}", "__rowlock_state_{}"


@dataclass(frozen=True, slots=True)
class Order:
    """The payload of a move that sorts rows.

    columns       by the table's names; rows of one cell are sorted by the first column, then by the next
    target_bytes  the size of an output file, about
    clustering    how output files are marked, and along which curve they lie; None: in Z-order, and not marked
    """

    columns: tuple[ColumnPath, ...]
    target_bytes: int
    clustering: Clustering | None = None

    @property
    def hilbert(self) -> bool:
        """Whether the curve is Hilbert's, rather than the Z-order."""
        return self.clustering is not None and self.clustering.curve == "hilbert"


def bits_of(columns: Sequence[Any], num_rows: int) -> int:
    """The bits that each column gets: no more than it takes to number the rows."""
    return max(1, min(_BITS, _ALL_BITS // len(columns), num_rows.bit_length()))


# ---- on the driver -------------------------------------------------------------------------


def local_order(table: pa.Table, order: Order) -> npt.NDArray[np.int64]:
    """The numbers of the rows in their new order; equal rows keep their present order."""
    bits = bits_of(order.columns, table.num_rows)
    ranks = [_ranks(table, c) for c in order.columns]
    places = [(r * (1 << bits)) // max(1, table.num_rows) for r in ranks]
    along = (hilbert_index if order.hilbert else z_index)(places, bits)
    return np.lexsort((*reversed(ranks), along) if len(ranks) > 1 else (ranks[0],)).astype(np.int64)


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
    starts = F.lit(list(found.starts[1:]) or [2**_ALL_BITS]).cast("array<bigint>")
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
