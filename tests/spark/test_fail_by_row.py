"""`on_conflict=fail` by row, where Spark holds the rows: what a conflict says, and how long that takes."""

from __future__ import annotations

import datetime as dt

import pytest
from pyspark.sql import SparkSession

import rowlock
from rowlock import DeltaTable, clock
from rowlock.exceptions import ConcurrentDeleteDeleteException
from spark.support import winner

ROWS = 30_000


def test_thirty_thousand_rows_are_named_at_once(spark: SparkSession, table_path: str) -> None:
    """I8: naming a conflict does not hold up the writers behind it.  By pairs of rows this took hours; the bound is for a slow machine."""
    properties = {"rowlock.onConflict": "fail", "rowlock.granularity": "row"}
    rowlock.write(spark.range(ROWS).selectExpr("id", "id % 7 AS v", "id % 5 AS w", "cast(id AS string) AS s").coalesce(1), table_path, properties=properties)
    table, other = DeltaTable.forPath(spark, table_path), DeltaTable.forPath(spark, table_path)
    began = []

    def wins() -> None:
        other.update("id >= 0", {"v": "v + 1"})
        began.append(clock.monotonic_s())

    with pytest.raises(ConcurrentDeleteDeleteException) as caught, winner(wins):
        table.update("id >= 0", {"v": "v + 10", "w": "w + 1"})
    took = clock.monotonic_s() - began[0]
    assert caught.value.conflict.columns == ("v",) and len(caught.value.rows) == 5
    assert took < 20, f"it took {took:.1f} s"


@pytest.mark.no_peers("values that Python cannot hold")
def test_values_that_python_cannot_hold(spark: SparkSession, table_path: str) -> None:
    """I3: rows with times beyond year 9999 are compared and shown as any other."""
    rowlock.write(
        spark.sql("SELECT 0L AS id, 1L AS v, timestamp'2024-01-01' AS t").coalesce(1),
        table_path,
        properties={"delta.dataSkippingNumIndexedCols": "0", "rowlock.onConflict": "fail"},
    )
    rowlock.write(spark.sql("SELECT 1L AS id, 1L AS v, timestamp_micros(316516118400000001L) AS t").coalesce(1), table_path)
    table, other = DeltaTable.forPath(spark, table_path), DeltaTable.forPath(spark, table_path)
    with winner(lambda: other.optimize().executeCompaction()):
        table.update("id >= 0", {"v": "v + 1"})
    with pytest.raises(ConcurrentDeleteDeleteException) as caught, winner(lambda: other.update("id = 1", {"v": "v + 5"})):
        table.update("id >= 0", {"v": "v + 1"})
    assert caught.value.conflict.columns == ("v",) and caught.value.rows[0]["t"] == 316516118400000001
    with pytest.raises(ConcurrentDeleteDeleteException) as caught, winner(lambda: other.update("id = 0", {"v": "v + 5"})):
        table.update("id >= 0", {"v": "v + 1"})
    assert caught.value.rows[0]["t"].replace(tzinfo=None) == dt.datetime(2024, 1, 1)
