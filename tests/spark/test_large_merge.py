"""A MERGE in one outer join leaves the rows, the ids and the partitions that the same MERGE leaves by the driver, also after a rebase (I3, I6)."""

from __future__ import annotations

from typing import Any

import pytest

import rowlock
from rowlock import DeltaTable
from spark.support import make, take_route, winner

pytestmark = pytest.mark.spark
TRACKED = {"delta.enableRowTracking": "true", "delta.enableDeletionVectors": "true"}


def merged(spark: Any, path: str, monkeypatch: pytest.MonkeyPatch, route: str) -> tuple[list[Any], dict[str, int]]:
    """(rows with the ids that they had before, metrics) after a MERGE beside which another writer changed and removed rows that it matched."""
    with monkeypatch.context() as patch:
        take_route(patch, route)
        make(spark, path, spark.range(0, 90, 1, 3).selectExpr("id", "id % 5 as g", "cast(id % 2 as string) as p", "id as v"), partition_by=["p"], **TRACKED)
        source = spark.range(60, 120).selectExpr("id", "id % 4 as g", "cast(id % 3 as string) as p", "id as v")
        table = DeltaTable.forPath(spark, path)
        merge = (
            table.alias("t")
            .merge(source.alias("s"), "t.id = s.id and t.g != 3")
            .whenMatchedDelete("t.g = 1")
            .whenMatchedUpdate("t.g != 4", {"v": "t.v + s.v", "p": "s.p"})
        )
        merge = merge.whenNotMatchedInsertAll("s.id % 7 != 0").whenNotMatchedBySourceUpdate("t.id < 10", {"v": "-1"})
        with winner(
            lambda: DeltaTable.forPath(spark, path).update("id in (2, 70, 75)", {"v": "v * 1000"}),
            lambda: DeltaTable.forPath(spark, path).delete("id in (72, 77)"),
        ):
            merge.execute()
        assert table.lastReceipt is not None
        kept = {n: v for n, v in table.lastReceipt.metrics.items() if n.startswith("numTargetRows")}
        rows = rowlock.read(spark, path, with_row_ids=True).collect()
        return sorted(((r["id"], r["g"], r["p"], r["v"], r["_row_id"] if r["_row_id"] < 90 else None) for r in rows), key=repr), kept


def test_one_join_and_the_driver_leave_the_same(spark, tmp_path, monkeypatch):
    by_driver = merged(spark, str(tmp_path / "driver"), monkeypatch, "driver")
    assert merged(spark, str(tmp_path / "large"), monkeypatch, "large") == by_driver
    rows = {r[0]: r for r in by_driver[0]}
    assert rows[72][4] is None and rows[70][4] is not None, "a row that came back as an insert is another row"
