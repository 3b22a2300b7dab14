"""Space-filling curves, and the order of rows along them: rows that are close in any of several columns lie close in the files.

A column counts by the rank of its values, cut to a few bits, so that skew and types do not matter; the curve numbers the cells
of that grid so that cells with near numbers are near in every direction, and files end where it leaves large squares.  The Hilbert curve goes
from each cell to a neighbour; the Z-order jumps.  `cuts` divides a curve into pieces of about equal size at the places that leave the smallest
boxes.  A single column is sorted by its values.  Nulls come first.  This decides where rows lie, never which rows there are: an inexact rank costs
some file skipping and nothing else.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rowlock.parquet.physical import Doubtful
from rowlock.protocol.clustering import Clustering
from rowlock.protocol.schema import ColumnPath

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
    """The curve as a table: the entry at (state << directions) | corner is (next state << directions) | number of the corner.

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


def _from_gray(code: int) -> int:
    number = 0
    while code:
        number, code = number ^ code, code >> 1
    return number


def _entry(number: int) -> int:
    """The corner of the smaller cube of this number at which the curve enters it."""
    even = max(0, (number - 1) // 2 * 2)
    return even ^ (even >> 1)


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
ALL_BITS = 62


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
    return max(1, min(_BITS, ALL_BITS // len(columns), num_rows.bit_length()))


def arranged(table: pa.Table, order: Order, num_files: int = 1) -> tuple[pa.Array, list[int]]:
    """The numbers of the rows in their new order, in which equal rows keep their present one, and the edges of about `num_files` files in it."""
    num_rows, bits = table.num_rows, bits_of(order.columns, table.num_rows)
    ranks = [_ranks(table, c) for c in order.columns]
    if len(ranks) == 1:
        return _sorted(ranks), _divided(0, num_rows, num_files)
    along = (hilbert_index if order.hilbert else z_index)([(r << bits) // max(1, num_rows) for r in ranks], bits)
    rows = _sorted([along, *ranks])
    numbers = along[rows.to_numpy()]
    found = cuts(numbers, num_files)
    starts = [*np.searchsorted(numbers, found.starts).tolist(), num_rows]
    edges = {at for (start, end), files in zip(pairwise(starts), found.files, strict=True) for at in _divided(start, end, files)}
    return rows, sorted(edges)


def _divided(start: int, end: int, parts: int) -> list[int]:
    """The edges of about equal parts."""
    return sorted({start + (end - start) * n // parts for n in range(parts + 1)})


def _sorted(keys: Sequence[Ints]) -> pa.Array:
    names = [str(n) for n in range(len(keys))]
    return pc.sort_indices(pa.table(dict(zip(names, keys, strict=True))), sort_keys=[(name, "ascending") for name in names])


def _ranks(table: pa.Table, path: ColumnPath) -> Ints:
    """For each row the number of rows with a smaller value; 0 for nulls.  Raises Doubtful where this version of Arrow cannot sort by them."""
    column = table.column(path[0])
    for name in path[1:]:
        column = pc.struct_field(column, name)
    try:
        ranks = np.asarray(pc.rank(column, sort_keys="ascending", tiebreaker="min").to_numpy(), dtype=np.int64) - 1
    except pa.ArrowNotImplementedError as e:
        raise Doubtful(str(e), "columns by which Arrow cannot sort") from e
    return np.where(pc.is_null(column).to_numpy(), 0, ranks + column.null_count)  # nulls were ranked last
