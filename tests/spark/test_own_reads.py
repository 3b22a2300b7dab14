"""Statements whose source reads the table that they change, in an enabled session: what they read, and when they run again (I3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.sql_session import run_own_reads

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("mapped", [False, True])
def test_rows_that_the_conditions_of_a_source_exclude_were_not_read(tmp_path: Path, mapped: bool) -> None:
    """I3: a write of rows of the same table commits over changes of other rows, and by no second try; over changes of its own it runs again, also one that replaces the table."""
    done = run_own_reads(tmp_path, "over_others", mapped)
    assert done["tries"] == [0, 1, 0, 0]
    assert done["rows"][-9:] == [[50, 50], [103, 3], *[[104, 4]] * 4, *[[203, 3]] * 3] and [3, 3] not in done["rows"]
    assert done["replaced"] == [[203, len(done["rows"]) + 1]]


def test_statements_that_read_their_table_in_threads(tmp_path: Path) -> None:
    """I3: each key is inserted once by those who ask whether it is there; each MERGE and UPDATE counts on from what others have counted, unless it is to fail."""
    done = run_own_reads(tmp_path, "in_threads")
    assert done == {"inserted": [[n, 1] for n in range(5)], "counted": [[0, 10], [1, 1], [2, 1], [3, 1], [4, 1]], "under fail": "ConcurrentDeleteReadException"}


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.short("0", ci=("1", "2"), why="other draws of the same")
def test_drawn_queries_over_the_table_that_they_are_written_into(tmp_path: Path, seed: int) -> None:
    """I3: each write has the rows that its query gives over the version before it, whether it ran again or not."""
    done = run_own_reads(tmp_path, "by_chance", seed, 3)
    assert done["wrong"] == []
    assert seed or (done["again"] and done["at once"])
