"""Real processes on one table: nothing is lost, nothing is doubled, nobody fails (I1, I2, I3, I5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.writers.crashes import crash_once
from support.writers.processes import Writer, acknowledged, run_all

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.soak("a JVM for each process; processes without Spark stay, and threads on Spark")]


def _make(spark: SparkSession, path: str, keys: int) -> None:
    import rowlock

    rowlock.write(spark.range(keys).selectExpr("id", "cast(0 as bigint) as x").coalesce(1), path)


def _rounds(path: str) -> int:
    """How many rebases the log says that its commits took."""
    from rowlock.log.table_log import TableLog
    from rowlock.storage.local import LocalStore

    return sum((c.info.rowlock or {}).get("rounds", 0) for c in TableLog(LocalStore(path)).history() if c.info)


@pytest.mark.parametrize(("writers", "each"), [(3, 8), pytest.param(4, 25, marks=pytest.mark.soak("more of the same"))])
def test_processes_increment_rows_of_one_file(spark: SparkSession, table_path: str, writers: int, each: int) -> None:
    """Processes run `x = x + 1` on rows of one file: the sum is exact, and commits were rebased."""
    import rowlock

    _make(spark, table_path, 8)
    results = run_all([Writer(table_path, "increment", n, each) for n in range(writers)])
    assert [len(acknowledged(lines)) for lines in results] == [each] * writers
    assert rowlock.read(spark, table_path).selectExpr("sum(x)", "count(*)").first() == (writers * each, 8)
    assert _rounds(table_path) > 0, "several writers of one file and no commit was ever rebased"


@pytest.mark.parametrize("each", [pytest.param(n, marks=pytest.mark.soak("two more JVMs; in one process: the schedules")) for n in (6, 20)])
def test_two_processes_merge_the_same_new_keys(spark: SparkSession, table_path: str, each: int) -> None:
    """Two processes merge the same new keys, five a time: each key once, and both merges count (regression 3, double insert)."""
    import rowlock

    _make(spark, table_path, 0)
    results = run_all([Writer(table_path, "merge", 0, each) for _ in range(2)])
    assert [len(acknowledged(lines)) for lines in results] == [each, each]
    rows = rowlock.read(spark, table_path).orderBy("id").collect()
    assert [tuple(r) for r in rows] == [(k, 2) for k in range(5 * each)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.short("0", why="one seed; `make crash` kills a writer fifty times")
def test_kill_9(spark: SparkSession, table_path: str, seed: int) -> None:
    """A writer killed at a random point: the table opens, holds what was acknowledged plus at most the one in flight, and the next writer commits (I10)."""
    problem = crash_once(spark, table_path, seed)
    assert problem is None, problem
