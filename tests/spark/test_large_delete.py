"""A DELETE of many rows finds the same rows by every way in which their positions reach the driver (I3)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import rowlock
from rowlock import DeltaTable
from rowlock.engines.spark import driver_rows
from rowlock.parquet.rows import Rows
from spark.support import make, read as read_rows, take_route, unchanged, winner
from support.turning_down import turn_down

pytestmark = pytest.mark.spark


def deleted(spark: Any, path: str, monkeypatch: pytest.MonkeyPatch, way: str) -> tuple[list[Any], list[str]]:
    """(rows after three DELETEs, the second beside a winner that removes and changes rows; the ways that were taken)."""
    taken: list[str] = []
    with monkeypatch.context() as patch:
        if way != "driver":
            take_route(patch, "large")
        if way in ("one job", "a job for each file"):
            turn_down(patch, masked_rows=0, inspected_rows=0, collected_positions_rows=1 if way == "a job for each file" else 10**6)
        original = driver_rows.to_arrow
        patch.setattr(driver_rows, "to_arrow", lambda *a: (taken.append("job"), original(*a))[1])
        make(spark, path, spark.range(5000).selectExpr("id", "id % 7 as g", "cast(id % 3 as string) as p"), files=2, partition_by=["p"])
        table = DeltaTable.forPath(spark, path)
        table.delete("id < 64 or id in (1000, 1063, 1064) or id >= 4990")
        with winner(
            lambda: DeltaTable.forPath(spark, path).delete("g = 1 and id % 11 = 0"), lambda: DeltaTable.forPath(spark, path).update("id % 50 = 3", {"g": "2"})
        ):
            table.delete("g = 2 or p = '1' and id % 64 = 63")
        with unchanged(path):
            table.delete("id = 17")
        return read_rows(spark, path), taken


@pytest.mark.soak("four ways over large files; test_routes compares the ways over small ones", ci=True)
def test_one_job_a_job_for_each_file_and_the_driver_leave_the_same(spark, tmp_path, monkeypatch):
    by_driver, none = deleted(spark, str(tmp_path / "driver"), monkeypatch, "driver")
    by_columns, no_job = deleted(spark, str(tmp_path / "columns"), monkeypatch, "columns of the condition")
    by_one, one = deleted(spark, str(tmp_path / "one"), monkeypatch, "one job")
    by_many, many = deleted(spark, str(tmp_path / "many"), monkeypatch, "a job for each file")
    assert by_one == by_many == by_columns == by_driver
    assert not none and not no_job and len(many) > len(one) >= 3
    gone = {i for i in range(5000) if i < 64 or i in (1000, 1063, 1064) or i >= 4990 or (i % 7 == 1 and i % 11 == 0)}
    gone |= {i for i in range(5000) if (2 if i % 50 == 3 else i % 7) == 2 or (i % 3 == 1 and i % 64 == 63)}
    assert [r[0] for r in sorted(by_driver)] == sorted(set(range(5000)) - gone)


def test_columns_of_the_condition_are_enough(spark: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """I3: a DELETE over large files reads no column that its condition does not name, and never looks at a dead row."""
    path = str(tmp_path / "table")
    table = make(spark, path, spark.range(100).selectExpr("id", "id % 7 as g", "concat('n', id) as name", "id as other"), files=2)
    turn_down(monkeypatch, local_rows=0)
    read_at, read = Rows.read_columns, set[str]()
    monkeypatch.setattr(Rows, "read_columns", lambda self, file, names, snapshot: (read.update(names), read_at(self, file, names, snapshot))[1])
    spark.udf.register("rowlock_is_eight", lambda n: n == 8, "boolean")
    for condition, columns in (
        ("ID = 0", {"id"}),
        ("1000 div id > 490 and g > 0", {"id", "g"}),
        ("g < 6 and upper(name) like 'N3%' and length(name) = 2", {"g", "name"}),
        ("id + g between 10 and 11", {"id", "g"}),
        ("id > 3 and rowlock_is_eight(id)", {"id"}),
    ):
        read.clear()
        table.delete(condition)
        assert read == columns, condition
        assert table.lastReceipt is not None and not any("Spark job" in way for way in table.lastReceipt.ways), condition
    assert sorted(r[0] for r in read_rows(spark, path)) == sorted(set(range(100)) - {n for n in range(100) if n in (0, 1, 2, 3, 8) or n + n % 7 in (10, 11)})


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.short("3", ci=("1",), why="a table without partitions, which other tests read")
def test_files_with_vectors(spark, tmp_path, monkeypatch, parts: int):
    """I1: dead rows of each file and partition are taken off, by the driver and by Spark, and found again by their places."""
    path = str(tmp_path / "table")
    for n in range(6):
        rowlock.append(
            path, pa.table({"p": [n % parts] * 5, "k": range(5 * n, 5 * n + 5)}), partition_by="p", properties={"delta.enableDeletionVectors": "true"}
        )
    table = DeltaTable.forPath(spark, path)
    table.delete("k % 5 = k div 5 - 1")
    left = [k for k in range(30) if k % 5 != k // 5 - 1]
    assert sorted(rowlock.to_arrow(path)["k"].to_pylist()) == left
    assert sorted(r["k"] for r in table.toDF().select("k").collect()) == left
    turn_down(monkeypatch, local_rows=0, driver_rows=0, inspected_rows=0)  # rows are found and written by Spark
    table.update("k % 2 = 0", {"k": "k + 100"})
    assert sorted(r["k"] for r in table.toDF().collect()) == sorted(k + 100 if k % 2 == 0 else k for k in left)


def test_an_update_of_many_rows_begins_no_job_that_finds_too_many(spark: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """I3: whether rows are changed on the driver or written by Spark is decided before a job, where a condition is computed on the driver, or there is none."""
    path = str(tmp_path / "table")
    table = make(spark, path, spark.range(100).selectExpr("id", "0L as n", "array(id) as held"), files=2)
    turn_down(monkeypatch, local_rows=0, driver_rows=10)
    written, jobs = "changed rows written by Spark (more than 10: driver_rows)", list[Any]()
    original = driver_rows.to_arrow
    monkeypatch.setattr(driver_rows, "to_arrow", lambda *a: (jobs.append(a), original(*a))[1])
    for condition, ways in ((None, (written,)), ("id % 2 = 0", (written,)), ("id < 5", None), ("hash(id) = hash(7L)", None)):
        table.update(condition, {"n": "n + 1"})
        assert table.lastReceipt is not None and (ways or table.lastReceipt.ways) == table.lastReceipt.ways, condition
        assert not jobs or condition == "hash(id) = hash(7L)"
    turn_down(monkeypatch, local_rows=0, driver_rows=10, inspected_rows=0)
    table.update("id >= 95", {"n": "n + 10"})
    assert table.lastReceipt is not None and any("Spark job" in way for way in table.lastReceipt.ways) and jobs
    assert table.lastReceipt.metrics["numUpdatedRows"] == 5
    expected = {n: 1 + (n % 2 == 0) + (n < 5) + (n == 7) + 10 * (n >= 95) for n in range(100)}
    assert {r[0]: r[1] for r in read_rows(spark, path)} == expected
