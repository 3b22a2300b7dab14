"""Space-filling curves: every cell once, the Hilbert curve by single steps, and files that end where it leaves large squares."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from rowlock.parquet.curves import SLACK, Ints, cuts, hilbert_index, hilbert_table, z_index


def grid(directions: int, bits: int) -> list[Ints]:
    """The places of all cells of a cube."""
    return [axis.ravel().astype(np.int64) for axis in np.meshgrid(*[np.arange(1 << bits)] * directions, indexing="ij")]


SIZES = [(1, 5), (2, 1), (2, 2), (2, 6), (3, 1), (3, 4), (4, 1), (4, 3)]


@pytest.mark.parametrize("curve", [hilbert_index, z_index])
@pytest.mark.parametrize(("directions", "bits"), SIZES)
def test_each_cell_has_a_number_of_its_own(curve: Callable[[Sequence[Ints], int], Ints], directions: int, bits: int) -> None:
    assert sorted(curve(grid(directions, bits), bits)) == list(range(1 << (directions * bits)))


@pytest.mark.parametrize(("directions", "bits"), SIZES)
def test_the_hilbert_curve_goes_by_single_steps(directions: int, bits: int) -> None:
    places = grid(directions, bits)
    along = np.argsort(hilbert_index(places, bits))
    assert set(np.sum([np.abs(np.diff(place[along])) for place in places], axis=0)) == {1}


@given(st.integers(2, 4).flatmap(lambda d: st.lists(st.integers(0, 1023), min_size=d, max_size=d)))
def test_fewer_bits_are_the_beginning_of_the_number(place: list[int]) -> None:
    """The cells of a coarse grid hold one stretch of the fine curve each, on which `cuts` relies."""
    fine = hilbert_index([np.array([p]) for p in place], 10)
    coarse = hilbert_index([np.array([p >> 3]) for p in place], 7)
    assert fine[0] >> (3 * len(place)) == coarse[0]


@pytest.mark.parametrize(("directions", "states"), [(2, 4), (3, 12), (4, 32)])
def test_the_table_is_small(directions: int, states: int) -> None:
    table = hilbert_table(directions)
    assert len(table) == states << directions
    assert set(table >> directions) == set(range(states)), "each state can be reached"


def test_nothing_at_all() -> None:
    empty = np.empty(0, np.int64)
    assert hilbert_index([empty, empty], 10).tolist() == [] and cuts(empty, 3).starts == (0,)


def shares(numbers: Ints, num_files: int) -> list[float]:
    """How many rows each file has, compared with an equal share."""
    found = cuts(numbers, num_files)
    rows = np.bincount(np.searchsorted(found.starts, numbers, side="right") - 1, minlength=len(found.starts))
    return [float(n) * num_files / len(numbers) / files for n, files in zip(rows, found.files, strict=True)]


@given(st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_files_have_about_their_share(num_files: int, seed: int) -> None:
    numbers = np.random.default_rng(seed).integers(0, 1 << 20, 6000)
    found = shares(numbers, num_files)
    assert all(1 - SLACK - 0.05 <= share <= 1 + SLACK + 0.05 for share in found[:-1]) and found[-1] <= 1 + SLACK + 0.05
    assert num_files / (1 + SLACK) - 1 <= len(found) <= num_files / (1 - SLACK) + 1


@given(st.lists(st.tuples(st.integers(0, 63), st.integers(1, 200)), min_size=1, max_size=30), st.integers(1, 40))
def test_skew_is_cut_too(held: list[tuple[int, int]], num_files: int) -> None:
    """Many rows in few cells: pieces ascend, each has rows, and a cell with the rows of several files is divided into about as many."""
    numbers = np.array([cell for cell, times in held for _ in range(times)], np.int64)
    assume(len(numbers) >= 2 * num_files)  # fewer are not asked for cuts
    found = cuts(numbers, num_files)
    assert list(found.starts) == sorted(set(found.starts)) and len(found.starts) == len(found.files) and min(found.files) >= 1
    assert all(share > 0 for share in shares(numbers, num_files))
    assert max(shares(numbers, num_files)) <= 1.6


def test_one_value_everywhere_fills_as_many_files() -> None:
    assert cuts(np.zeros(1000, np.int64), 8).files == (8,)


@pytest.mark.parametrize("directions", [2, 3])
def test_files_that_end_at_squares_leave_smaller_boxes(directions: int) -> None:
    """Less is looked into than with pieces of exactly equal size, and less along the Hilbert curve than in Z-order."""
    bits, num_files = (6, 37) if directions == 2 else (4, 37)
    places = grid(directions, bits)
    numbers = hilbert_index(places, bits)

    def sides(piece: Ints) -> float:
        """The mean length of a file's box in one direction, as queries of one column see it."""
        boxes = [[int(place[piece == n].max() - place[piece == n].min() + 1) for place in places] for n in np.unique(piece)]
        return sum(itertools.chain.from_iterable(boxes)) / len(boxes)

    def equal(along: Ints) -> Ints:
        return along * num_files // len(along)

    squares = np.searchsorted(cuts(numbers, num_files).starts, numbers, side="right")
    assert len(np.unique(squares)) <= num_files
    assert sides(squares) < sides(equal(numbers)) < sides(equal(z_index(places, bits)))
