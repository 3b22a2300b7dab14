"""Space-filling curves: numbers the cells of a grid so that cells with near numbers are near in every direction.

The Hilbert curve goes from each cell to a neighbour; the Z-order jumps.  `cuts` divides a curve into pieces of about equal
size at the places that leave the smallest boxes.  numpy alone: Spark looks up the same table (`hilbert_table`).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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
