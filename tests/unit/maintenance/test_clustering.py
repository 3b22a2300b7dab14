"""Which files OPTIMIZE clusters: what is new, with earlier runs of less than twice its size; never what lies by other columns."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given, strategies as st

from rowlock.maintenance.optimize import CUBE_BYTES, clustering_bins, open_cube
from rowlock.protocol.actions import AddFile
from rowlock.protocol.clustering import Clustering, with_clustering
from rowlock.protocol.deletion_vector import DeletionVectorDescriptor

X, Y = (("x",),), (("y",),)


def file(name: str, size_bytes: int, *, dead: int = 0, run: str = "", cube: str = "c", columns: tuple[tuple[str], ...] = X) -> AddFile:
    """A file of 100 rows; with a `run` it is clustered."""
    vector = DeletionVectorDescriptor("u", "0" * 20, 1, 10, dead) if dead else None
    add = AddFile(name, {}, size_bytes, 0, True, '{"numRecords":100}', vector)
    return with_clustering(add, Clustering(columns, columns, cube, run)) if run else add


def chosen(*files: AddFile, full: bool = False) -> set[str]:
    groups = clustering_bins(files, X, X, full=full)
    assert len(groups) <= 1
    return set(groups[0]) if groups else set()


def test_what_is_new_is_sorted_by_itself_or_with_runs_of_its_size() -> None:
    large, small = [file(f"l{n}", 90, run="large") for n in range(9)], [file(f"s{n}", 10, run="small") for n in range(2)]
    assert chosen(*large, *small) == set()
    assert chosen(*large, *small, file("new", 10)) == {"new"}
    assert chosen(*large, *small, file("new", 11)) == {"new", "s0", "s1"}
    assert chosen(*large, *small, file("a", 193), file("b", 193)) == {"a", "b", "s0", "s1", *(f.path for f in large)}


def test_other_columns_and_other_engines_are_left_unless_all_is_asked_for() -> None:
    old, other = file("old", 10, run="r", columns=Y), replace(file("other", 10), clustering_provider="another")
    assert chosen(old, other) == set() and chosen(old, other, file("new", 100)) == {"new"}
    assert chosen(old, other, full=True) == {"old", "other"} and chosen(full=True) == set()
    assert chosen(file("alone", 10, run="r"), full=True) == set() and chosen(old, full=True) == {"old"}, "one file in order gains nothing"


def test_deleted_rows_are_cleared_away() -> None:
    assert chosen(file("hurt", 90, run="r", dead=50), file("well", 180, run="r", dead=5)) == {"hurt"}


def test_delta_sparks_files_are_runs_as_ours_are() -> None:
    theirs = [replace(file(f"t{n}", 50), clustering_provider="liquid", tags={"ZCUBE_ID": "theirs", "ZCUBE_ZORDER_BY": '["x"]'}) for n in range(2)]
    assert chosen(*theirs) == set() and chosen(*theirs, file("new", 50)) == {"new"} and chosen(*theirs, file("new", 51)) == {"new", "t0", "t1"}


def test_cubes_are_joined_until_they_are_full() -> None:
    """delta-spark rewrites what lies in several cubes of less than 100 GiB, and leaves larger ones."""
    small, large, full = file("s", 10, run="a", cube="small"), file("l", 20, run="b", cube="large"), file("f", CUBE_BYTES, run="c", cube="full")
    assert open_cube([small, large, full], [], X) == "large" and open_cube([small, large, full], ["l"], X) == "small"
    assert open_cube([full, file("new", 10), file("old", 10, run="d", columns=Y)], [], X) is None
    assert chosen(full, file("new", CUBE_BYTES * 2)) == {"new"}


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=200))
def test_a_row_is_rewritten_a_few_times_only(sizes: list[int]) -> None:
    """However appends are spread: all bytes that OPTIMIZE wrote, and the runs that are left, are bounded by the logarithm of the table's size."""
    runs: list[AddFile] = []
    written = 0
    for n, size in enumerate(sizes):
        new = file(f"n{n}", size)
        taken = chosen(*runs, new)
        assert new.path in taken
        total = sum(f.size_bytes for f in [*runs, new] if f.path in taken)
        written += total
        runs = [*(f for f in runs if f.path not in taken), file(f"r{n}", total, run=f"run{n}")]
    total = sum(sizes)
    assert written <= total * (math.log(total, 1.5) + 1) and len(runs) <= math.log2(total) + 1


def test_equal_appends_are_merged_as_a_counter_counts() -> None:
    """16 appends of one size: each row is rewritten four times after the first, where merging all each time would write 8.5 times as much."""
    runs: list[AddFile] = []
    written = []
    for n in range(16):
        taken = chosen(*runs, file(f"n{n}", 1))
        written.append(len(taken))
        size = 1 + sum(f.size_bytes for f in runs if f.path in taken)
        runs = [*(f for f in runs if f.path not in taken), file(f"r{n}", size, run=f"run{n}")]
    assert written == [1, 2, 1, 3, 1, 2, 1, 4, 1, 2, 1, 3, 1, 2, 1, 5] and [f.size_bytes for f in runs] == [16]
