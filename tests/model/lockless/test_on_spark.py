"""Lockless commits on Spark, on threads that share a session: C1 to C12; the peers read what is left (I1, I2, I5, I6)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rowlock
from model.lockless.conformance import CASES, Scale, case_ids
from model.lockless.host import LOCKLESS
from model.lockless.spark_host import SparkHost
from model.lockless.test_in_memory import check_against_model, start
from rowlock import DeltaTable
from spark.support import make, read, take_route, winner

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("case", CASES, ids=case_ids())
@pytest.mark.short(
    "c04_delete_beats_update",
    "c08_cells_of_one_row_merge",
    "c10_columns_come_and_go",
    ci=(
        "c03_all_appends_are_there",
        "c07_the_last_to_commit_wins_a_cell",
    ),
    why="all of C1 to C11 run in memory; on Spark those that merge cells or meet what Spark wrote",
)
def test_conformance(spark: SparkSession, table_path: str, case: Callable[..., None]) -> None:
    case(lambda: SparkHost(spark, Path(table_path)), Scale(4, 5))


@pytest.mark.parametrize("compacting", [False, True])
@pytest.mark.short(ci=("True",), why="6 s; random commits run in memory, and the cases of C1 to C11 here")
def test_c12_random_commits_on_threads(spark: SparkSession, table_path: str, compacting: bool) -> None:
    host = SparkHost(spark, Path(table_path))
    start(host)
    with ThreadPoolExecutor(3) as pool:
        done = [one for part in pool.map(lambda n: SparkHost(spark, Path(table_path)).mixed(n, 15, compacting, 5), range(3)) for one in part]
    check_against_model(host, done, every=9)


SCHEMA = "id int, v double, p string, s struct<x: int, y: array<string>>, m map<string, int>"


@pytest.mark.parametrize("vectors", ["true", "false"])
@pytest.mark.parametrize("route", ["driver", "large"])
@pytest.mark.short("large-false", ci=("driver-true",), why="each way and each layout once")
def test_cells_of_every_type(spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch, route: str, vectors: str) -> None:
    """A struct is one cell; NaN, nulls and partition columns are cells like others; rows that Spark wrote are merged like those on the driver."""
    take_route(monkeypatch, route)
    rows = [(n, float("nan") if n % 3 == 0 else None if n % 3 == 1 else n * 1.0, "ab"[n % 2], (n, ["y", None]), {"k": n}) for n in range(12)]
    table = make(spark, table_path, rows, SCHEMA, partition_by=["p"], **LOCKLESS | {"delta.enableDeletionVectors": vectors})
    before = {r[0]: r for r in rows}
    with winner(
        lambda: DeltaTable.forPath(spark, table_path).update("id in (2, 3, 5)", {"s": "named_struct('x', -1, 'y', array('z'))", "v": "0.5", "p": "'c'"})
    ):
        table.update("id < 5", {"s.x": "100", "m": "map('new', id)"})
    receipt = table.lastReceipt
    assert receipt is not None and receipt.rounds == 1
    after = {r["id"]: r for r in rowlock.read(spark, table_path).collect()}
    for n, row in before.items():
        theirs = n in (2, 3, 5)
        assert after[n]["p"] == ("c" if theirs else row[2])
        assert repr(after[n]["v"]) == repr(0.5 if theirs else row[1])
        assert after[n]["m"] == ({"new": n} if n < 5 else row[4])
        assert tuple(after[n]["s"]) == ((100, ["y", None]) if n < 5 else (-1, ["z"]) if theirs else row[3])
    assert {(o.outcome, o.columns) for o in receipt.overwritten} == {("cells", ("s",))} and len(receipt.overwritten) == 2


def test_the_receipt_is_in_the_log_and_ids_are_kept(spark: SparkSession, table_path: str) -> None:
    """What was overwritten is in the commit, under the row's id, and every row has the id that it had."""
    table = make(spark, table_path, [(n, 0, 0) for n in range(6)], "id int, a int, b int", **LOCKLESS)

    def ids() -> dict[int, int]:
        return {r["id"]: r["_row_id"] for r in rowlock.read(spark, table_path, with_row_ids=True).collect()}

    before = ids()
    with winner(lambda: DeltaTable.forPath(spark, table_path).update("id = 2", {"a": "1"})):
        table.update("id <= 3", {"a": "2"})
    assert ids() == before
    told = table.history(1).collect()[0]
    assert told["operation"] == "UPDATE" and told["isolationLevel"] == "SnapshotIsolation"
    receipt = table.lastReceipt
    assert receipt is not None and [(o.row_id, o.outcome, o.columns) for o in receipt.overwritten] == [(before[2], "cells", ("a",))]
    commit = SparkHost(spark, Path(table_path))._world.state.log.read_commit(receipt.version or 0)
    assert commit is not None and commit.info is not None and commit.info.rowlock is not None
    assert commit.info.rowlock["overwritten"] == [{"row_id": before[2], "outcome": "cells", "columns": ["a"], "version": (receipt.version or 0) - 1}]
    assert commit.info.rowlock["rows_overwritten"] == 1


def test_what_was_read_is_not_looked_at_again(spark: SparkSession, table_path: str) -> None:
    """A source that reads the table, and toDF(), are as of the version that was read; a MERGE inserts what it decided to insert."""
    table = make(spark, table_path, [(n, n) for n in range(4)], "id int, v int", **LOCKLESS)
    old = table.toDF()
    DeltaTable.forPath(spark, table_path).update("id = 1", {"v": "100"})
    table.alias("t").merge(old.alias("s"), "t.id = s.id + 2").whenMatchedUpdate(set={"v": "s.v"}).execute()
    assert read(spark, table_path) == [(0, 0), (1, 100), (2, 0), (3, 1)]
    source = spark.createDataFrame([(9, 9)], "id int, v int")
    other = DeltaTable.forPath(spark, table_path).alias("t").merge(source.alias("s"), "t.id = s.id").whenNotMatchedInsertAll()
    with winner(other.execute), table.transaction() as txn:
        assert txn.toDF().count() == 4
        txn.alias("t").merge(source.alias("s"), "t.id = s.id").whenNotMatchedInsertAll().execute()
    assert read(spark, table_path) == [(0, 0), (1, 100), (2, 0), (3, 1), (9, 9), (9, 9)]


def test_a_change_feed_of_merged_rows(spark: SparkSession, table_path: str) -> None:
    """The pre-images are the rows at the head, the post-images what was merged."""
    table = make(spark, table_path, [(n, 0, 0) for n in range(4)], "id int, a int, b int", **LOCKLESS | {"delta.enableChangeDataFeed": "true"})
    with winner(lambda: DeltaTable.forPath(spark, table_path).update("id = 1", {"b": "7"})):
        table.update("id <= 1", {"a": "5"})
    version = table.lastReceipt.version  # type: ignore[union-attr]
    feed = spark.read.format("delta").option("readChangeFeed", True).option("startingVersion", version).load(table_path)
    found = sorted((r["_change_type"], r["id"], r["a"], r["b"]) for r in feed.collect())
    assert found == [("update_postimage", 0, 5, 0), ("update_postimage", 1, 5, 7), ("update_preimage", 0, 0, 0), ("update_preimage", 1, 0, 7)]
    assert read(spark, table_path) == [(0, 5, 0), (1, 5, 7), (2, 0, 0), (3, 0, 0)]
