"""ZORDER BY on Spark: the same rows with the same ids in a better place, as the winner and as the loser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rowlock
from rowlock import DeltaTable
from rowlock.exceptions import InvalidInput, StatementRefused
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.predicates import And, Predicate, compare
from rowlock.storage.open import open_store
from rowlock.transaction.state.shared import state_of
from spark.support import delta_rows, make, read, take_route, unchanged, version, winner

pytestmark = pytest.mark.spark
SCHEMA = "id int, x int, y int, p string"
SMALL = {"delta.targetFileSize": "2kb"}


def scattered(n: int) -> list[tuple[int, int, int, str]]:
    """Rows whose x and y say nothing of each other, in an order that says nothing of either."""
    return [(i, (i * 7919) % n, (i * 104_729 + 13) % n, "ab"[i % 2]) for i in range(n)]


def snapshot(path: str) -> Snapshot:
    return state_of(open_store(path)).refresh()


def kept(path: str, predicate: Predicate) -> float:
    """The share of the files that a predicate leaves to be read."""
    head = snapshot(path)
    return len(head.files.prune(predicate, head.schema, head.partition_columns)) / len(head.files)


def between(column: str, low: int, high: int) -> Predicate:
    return And((compare(">=", (column,), low), compare("<", (column,), high)))


def parameters(path: str) -> dict[str, Any]:
    text = Path(path, "_delta_log", f"{version(path):020}.json").read_text().splitlines()[0]
    return {k: json.loads(v) for k, v in json.loads(text)["commitInfo"]["operationParameters"].items()}


def ids(spark: SparkSession, path: str) -> dict[int, tuple[Any, ...]]:
    return {r["id"]: tuple(r)[1:] for r in rowlock.read(spark, path, with_row_ids=True).collect()}


def same_for_delta_spark(spark: SparkSession, path: str) -> None:
    found = spark.read.format("delta").load(path).select("id", "x", "y", "p", "_metadata.row_id", "_metadata.row_commit_version")
    assert {r["id"]: tuple(r)[1:] for r in found.collect()} == ids(spark, path)


@pytest.mark.soak("many rows; the order itself is asked of few", ci=True)
def test_fewer_files_are_read_by_every_column(spark: SparkSession, table_path: str) -> None:
    n = 4000
    table = make(spark, table_path, scattered(n), SCHEMA, files=4, **SMALL)
    table.delete("id % 10 = 3")
    before = read(spark, table_path)
    answer = table.optimize().executeZOrderBy("x", "Y").first()
    assert answer["metrics"]["numFilesRemoved"] == 4 and answer["metrics"]["numFilesAdded"] == len(snapshot(table_path).files) > 10
    assert read(spark, table_path) == delta_rows(spark, table_path) == before
    assert all(f.deletion_vector is None for f in snapshot(table_path).files.adds())
    for column in ("x", "y"):
        assert kept(table_path, between(column, 0, n // 16)) < 0.5
        assert kept(table_path, between(column, n // 2, n // 2 + 10)) < 0.5
    assert parameters(table_path) == {"predicate": [], "zOrderBy": ["x", "y"], "clusterBy": [], "auto": False}
    table.optimize().executeZOrderBy("x")
    assert kept(table_path, between("x", 0, n // 16)) < 0.2
    assert read(spark, table_path) == before


def test_the_words_are_those_of_delta_spark(spark: SparkSession, table_path: str, tmp_path: Path) -> None:
    twin = str(tmp_path / "twin")
    table = make(spark, table_path, scattered(20), SCHEMA, files=2)
    make(spark, twin, scattered(20), SCHEMA, files=2)
    table.optimize().executeZOrderBy(["x", "y"])
    spark.sql(f"optimize delta.`{twin}` zorder by (x, y)")
    theirs = json.loads(Path(twin, "_delta_log", f"{version(twin):020}.json").read_text().splitlines()[0])["commitInfo"]
    ours = json.loads(Path(table_path, "_delta_log", f"{version(table_path):020}.json").read_text().splitlines()[0])["commitInfo"]
    assert ours["operation"] == theirs["operation"]
    as_read = {k: json.loads(v) if isinstance(v, str) else v for k, v in theirs["operationParameters"].items()}
    assert parameters(table_path) == as_read


@pytest.mark.parametrize("route", ["driver", "large"])
@pytest.mark.parametrize("vectors", ["true", "false"])
@pytest.mark.soak("17 s each; ids through OPTIMIZE against a winner are also in test_row_tracking and test_moved_rows")
def test_rows_keep_their_ids_while_others_write(spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch, route: str, vectors: str) -> None:
    """As the loser: rows that went leave its output, others' rows stay, ids are kept; as the winner: statements find their rows."""
    take_route(monkeypatch, route)
    table = make(
        spark, table_path, scattered(60), SCHEMA, files=4, partition_by=["p"], **{"delta.enableRowTracking": "true", "delta.enableDeletionVectors": vectors}
    )
    other = DeltaTable.forPath(spark, table_path)
    table.update("id < 10", {"x": "x + 1000"})
    before = ids(spark, table_path)
    with winner(
        lambda: other.update("id in (5, 15)", {"y": "-1"}),
        lambda: other.delete("id in (6, 16)"),
        lambda: rowlock.write(spark.createDataFrame([(100, 1, 1, "a")], SCHEMA), table_path),
    ):
        table.optimize().executeZOrderBy("x", "y")
    after = ids(spark, table_path)
    assert after.keys() == before.keys() - {6, 16} | {100}
    assert all(after[k] == before[k] for k in before if k not in (5, 15, 6, 16))
    assert all(after[k][3] == before[k][3] and after[k][1] == -1 for k in (5, 15))
    same_for_delta_spark(spark, table_path)
    source = spark.createDataFrame([(n, n, n, "a") for n in (20, 21, 200)], SCHEMA).alias("s")
    with winner(lambda: other.optimize().executeZOrderBy("y", "x")):
        table.alias("t").merge(source, "t.id = s.id").whenMatchedUpdate(set={"x": "-7"}).whenNotMatchedInsertAll().execute()
    with winner(lambda: other.optimize().executeZOrderBy("x")):
        table.update("x = -7", {"y": "y + 1"})
    with winner(lambda: other.optimize().executeZOrderBy("x")):
        table.delete("id = 30")
    last = ids(spark, table_path)
    assert last.keys() == after.keys() - {30} | {200}
    assert all(last[k] == after[k] for k in after if k not in (20, 21, 30))
    assert all(last[k][0] == -7 and last[k][1] == after[k][1] + 1 and last[k][3] == after[k][3] for k in (20, 21))
    same_for_delta_spark(spark, table_path)


@pytest.mark.parametrize("route", ["driver", "large"])
@pytest.mark.short("large", why="the same statement the other way; the ways themselves are compared in test_routes")
def test_a_bin_that_another_took_is_dropped(spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch, route: str) -> None:
    take_route(monkeypatch, route)
    table, other = make(spark, table_path, scattered(40), SCHEMA, files=4, partition_by=["p"]), DeltaTable.forPath(spark, table_path)
    before = read(spark, table_path)
    with winner(lambda: other.optimize().where("p = 'a'").executeCompaction()):
        table.optimize().executeZOrderBy("x")
    assert {k: table.lastReceipt.metrics[k] for k in ("numAddedFiles", "numRemovedFiles")} == {"numAddedFiles": 1, "numRemovedFiles": 2}
    with winner(lambda: other.optimize().executeZOrderBy("x")):
        table.optimize().where("p = 'a'").executeZOrderBy("y")
    assert table.lastReceipt.version is None
    with winner(lambda: spark.sql(f"optimize delta.`{table_path}` where p = 'b' zorder by (y)")):
        table.optimize().executeZOrderBy("y")
    assert table.lastReceipt.metrics["numRemovedFiles"] == 1
    assert read(spark, table_path) == delta_rows(spark, table_path) == before


@pytest.mark.soak("many rows; one output that meets changes stays", ci=True)
def test_several_outputs_meet_changes(spark: SparkSession, table_path: str) -> None:
    """Outputs that Spark wrote know where each of their rows came from, file by file."""
    table, other = make(spark, table_path, scattered(2000), SCHEMA, files=3, **SMALL), DeltaTable.forPath(spark, table_path)
    with winner(lambda: other.delete("id % 7 = 0"), lambda: other.update("id % 11 = 0", {"x": "-x"})):
        table.optimize().executeZOrderBy("x", "y")
    wanted = sorted(((i, -x if i % 11 == 0 else x, y, p) for i, x, y, p in scattered(2000) if i % 7), key=repr)
    assert read(spark, table_path) == delta_rows(spark, table_path) == wanted
    assert len(snapshot(table_path).files) > 5
    with winner(lambda: other.optimize().executeZOrderBy("y", "x")):
        table.update("id % 13 = 0", {"x": "0"})
    assert read(spark, table_path) == sorted(((i, 0 if i % 13 == 0 else x, y, p) for i, x, y, p in wanted), key=repr)


TYPES = "id int, b boolean, d decimal(20, 3), s string, f double, t timestamp, n struct<inner: date>, big bigint, p string"


@pytest.mark.parametrize("route", ["driver", "large"])
@pytest.mark.parametrize("mapping", ["none", "id"])
@pytest.mark.short("id-large", ci=("none-driver",), why="the same types the other way")
def test_columns_of_every_type(spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch, route: str, mapping: str) -> None:
    """Nulls first; a column in a struct; a column that is all null; more columns than have many bits."""
    take_route(monkeypatch, route)
    frame = spark.range(40).selectExpr(
        "cast(id as int) id", "id % 3 = 0 b", "cast(id * 1.5 as decimal(20, 3)) d", "if(id % 4 = 0, null, concat('s', id % 5, '''')) s",
        "if(id = 7, double('NaN'), id / 3) f", "timestamp_micros(id * 1000003) t", "named_struct('inner', date_add(date'2020-01-01', cast(id as int))) n", "cast(null as bigint) big", "'x' p",
    )  # fmt: skip
    table = make(spark, table_path, frame, files=2, **{"delta.columnMapping.mode": mapping})
    before = read(spark, table_path)
    for columns in (["s"], ["n.inner", "f"], ["d", "t", "b"], ["big", "id"], ["id", "b", "d", "s", "f", "t", "`n`.inner", "big"]):
        table.optimize().executeZOrderBy(columns)
        assert read(spark, table_path) == before
        if columns == ["s"]:
            held = [r["s"] for r in rowlock.read(spark, table_path).coalesce(1).select("s").collect()]
            assert held == sorted(held, key=lambda v: (v is not None, v)) and held[0] is None


def test_what_cannot_be_ordered_by(spark: SparkSession, table_path: str) -> None:
    frame = spark.sql("select 1 id, array(1) a, 2 late, 'x' p, named_struct('i', 1) s")
    table = make(spark, table_path, frame, partition_by=["p"], **{"delta.dataSkippingNumIndexedCols": "2"})
    with unchanged(table_path):
        for columns, error, words in (
            (["p"], StatementRefused, "p is a partition column"),
            (["id", "late"], StatementRefused, "late has no statistics"),
            (["s"], StatementRefused, "s has no statistics"),
            (["nothere"], InvalidInput, "'nothere'"),
            (["s.nothere"], InvalidInput, "'s.nothere'"),
        ):
            with pytest.raises(error, match=words):
                table.optimize().executeZOrderBy(*columns)
        assert table.optimize().executeZOrderBy().first()["metrics"].numFilesRemoved == 0  # a compaction, as with delta-spark
