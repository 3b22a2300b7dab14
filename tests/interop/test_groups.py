"""A version that holds several appends, and one that only says that a transaction was given up, as other engines see them (I9)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import rowlock
from rowlock import clock
from rowlock.api.append import opened
from rowlock.transaction.commit import commit
from rowlock.transaction.group_commit.group import queue_of
from rowlock.transaction.publish.outcome import ABORT, AbortMarker

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    "properties",
    [{}, {"delta.enableRowTracking": "true", "delta.enableChangeDataFeed": "true", "delta.enableInCommitTimestamps": "true"}],
    ids=["plain", "tracked"],
)
@pytest.mark.short("tracked", why="the plain table is the easier case")
def test_groups_and_markers_are_commits_to_everybody(spark: Any, table_path: str, properties: dict[str, str]) -> None:
    rowlock.append(table_path, pa.table({"n": pa.array([], pa.int64())}), properties=properties)
    state = opened(table_path)
    with ThreadPoolExecutor(5) as pool:
        with state.lane:
            told = [pool.submit(rowlock.append, table_path, pa.table({"n": [n, n + 10]}), app_id=f"app {n}", app_version=1) for n in range(5)]
            while len(queue_of(state).waiting()) < 5:
                clock.sleep(0.001)
        receipts = [t.result() for t in told]
    assert {(r.version, r.group_size) for r in receipts} == {(1, 5)}
    head = state.refresh()
    assert commit(AbortMarker(state, "gone", head)).version == 2
    expected = sorted([*range(5), *range(10, 15)])
    assert sorted(r["n"] for r in spark.read.format("delta").load(table_path).collect()) == expected
    said = [(r["version"], r["operation"], r["isBlindAppend"]) for r in spark.sql(f"DESCRIBE HISTORY delta.`{table_path}`").collect()]
    assert said == [(2, ABORT, False), (1, "WRITE", True), (0, "WRITE", True)]
    for history in (spark.sql(f"DESCRIBE HISTORY delta.`{table_path}`"), rowlock.DeltaTable.forPath(spark, table_path).history()):
        _, group, first = history.collect()
        assert group["operationParameters"]["participants"].startswith("5 appends in one commit: 5 by ") and "participants" not in first["operationParameters"]
    if properties:
        feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1).load(table_path).collect()
        assert sorted((r["n"], r["_change_type"], r["_commit_version"]) for r in feed) == [(n, "insert", 1) for n in expected]
        ids = rowlock.read(spark, table_path, with_row_ids=True).collect()
        assert sorted(r["_row_id"] for r in ids) == list(range(10)) and {r["_row_commit_version"] for r in ids} == {1}
    else:
        table = deltalake.DeltaTable(table_path)
        assert [(h["version"], h["operation"]) for h in table.history()] == [(2, ABORT), (1, "WRITE"), (0, "WRITE")]
        deltalake.write_deltalake(table_path, pa.table({"n": [99]}), mode="append")
    spark.sql(f"INSERT INTO delta.`{table_path}` VALUES (100)")
    rowlock.append(table_path, pa.table({"n": [101]}))
    assert {r["n"] for r in rowlock.read(spark, table_path).collect()} >= {*expected, 100, 101}
