"""Clustering on Spark: the same rows with the same ids in a better place, beside other writers, by keys of every kind; and the keys' own statements."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession, functions as F

import rowlock
from rowlock import DeltaTable
from rowlock.engines.spark.statements.compaction import ordered_frame
from rowlock.exceptions import InvalidInput, StatementRefused
from rowlock.parquet.curves import Order
from rowlock.protocol.clustering import Clustering, logical_columns
from rowlock.protocol.predicates import compare
from spark.support import delta_rows, read, take_route, unchanged, winner
from spark.test_zorder import SCHEMA, SMALL, between, ids, kept, parameters, same_for_delta_spark, scattered, snapshot

pytestmark = pytest.mark.spark


def clustered(spark: SparkSession, path: str, *columns: str, **properties: str) -> DeltaTable:
    builder = DeltaTable.create(spark).location(path).addColumns(spark.createDataFrame([], SCHEMA).schema).clusterBy(*columns)
    for name, value in properties.items():
        builder = builder.property(name, value)
    return builder.execute()


def append(spark: SparkSession, path: str, held: list[Any]) -> None:
    rowlock.write(spark.createDataFrame(held, SCHEMA).coalesce(1), path)


@pytest.mark.parametrize("mapping", ["none", "name"])
@pytest.mark.short("name", why="the same table without names that are mapped")
def test_files_that_are_not_clustered_yet(spark: SparkSession, table_path: str, mapping: str) -> None:
    n = 3000
    table = clustered(spark, table_path, "x", "y", **SMALL, **{"delta.columnMapping.mode": mapping})
    for part in range(3):
        append(spark, table_path, scattered(n)[part::3])
    table.optimize().executeCompaction()
    first = {f.path for f in snapshot(table_path).files.adds()}
    assert {f.clustering_provider for f in snapshot(table_path).files.adds()} == {"liquid"} and len(first) > 10
    assert parameters(table_path) == {"predicate": [], "zOrderBy": [], "clusterBy": ["x", "y"], "auto": False, "isFull": False}
    assert kept(table_path, between("x", 0, n // 16)) < 0.5
    assert table.detail().first()["clusteringColumns"] == spark.sql(f"describe detail delta.`{table_path}`").first()["clusteringColumns"] == ["x", "y"]
    with unchanged(table_path):
        table.optimize().executeCompaction()
    append(spark, table_path, [(n, 5, 5, "a")])
    table.optimize().executeCompaction()
    left = {f.path for f in snapshot(table_path).files.adds()} & first
    assert left == first, "a row that is new is sorted by itself"
    assert read(spark, table_path) == sorted([*scattered(n), (n, 5, 5, "a")], key=repr)
    with pytest.raises(StatementRefused, match="clustering columns"):
        table.optimize().executeZOrderBy("x")


@pytest.mark.soak("rows that OPTIMIZE moves beside writers are in test_moved_rows and the schedules; what it leaves sorted stays above", ci=True)
def test_clustering_beside_other_writers(spark: SparkSession, table_path: str) -> None:
    table, other = clustered(spark, table_path, "x", **{"delta.enableRowTracking": "true"}), DeltaTable.forPath(spark, table_path)
    for part in range(2):
        append(spark, table_path, scattered(30)[part::2])
    before = ids(spark, table_path)
    with winner(lambda: other.delete("id = 3"), lambda: other.update("id = 4", {"y": "-4"}), lambda: append(spark, table_path, [(50, 0, 0, "a")])):
        table.optimize().executeCompaction()
    after = ids(spark, table_path)
    assert {k: v for k, v in after.items() if k not in (4, 50)} == {k: v for k, v in before.items() if k not in (3, 4)} and after[4][1] == -4
    with winner(lambda: other.optimize().executeCompaction()):
        table.update("id < 3", {"y": "y + 1"})
    spark.sql(f"optimize delta.`{table_path}`")
    spark.sql(f"alter table delta.`{table_path}` cluster by (y)")
    assert ids(spark, table_path)[1][1] == before[1][1] + 1
    with unchanged(table_path):
        table.optimize().executeCompaction()
    rowlock.sql(spark, f"optimize delta.`{table_path}` full")
    assert parameters(table_path)["clusterBy"] == ["y"] and parameters(table_path)["isFull"] is True
    with unchanged(table_path):
        table.optimize().executeCompaction()
    same_for_delta_spark(spark, table_path)


def test_without_vectors(spark: SparkSession, table_path: str) -> None:
    """A file that another wrote again is given up by a compaction that was putting it in order; the next one takes it."""
    table, other = clustered(spark, table_path, "x", **SMALL, **{"delta.enableDeletionVectors": "false"}), DeltaTable.forPath(spark, table_path)
    append(spark, table_path, scattered(1000))
    with winner(lambda: other.delete("id < 100")):
        table.optimize().executeCompaction()
    assert table.lastReceipt.version is None
    table.optimize().executeCompaction()
    assert {f.clustering_provider for f in snapshot(table_path).files.adds()} == {"liquid"}
    assert read(spark, table_path) == sorted(scattered(1000)[100:], key=repr)


@pytest.mark.parametrize("route", ["driver", "large"])
@pytest.mark.soak("many rows by two keys; test_clustering_beside_other_writers stays", ci=True)
def test_a_merge_beside_clustering_by_two_keys(spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch, route: str) -> None:
    """As the loser OPTIMIZE sorts, by Arrow or by Spark, into many files, and each gives up what the MERGE changed; as the winner it moves the rows of a DELETE."""
    take_route(monkeypatch, route)
    table = clustered(spark, table_path, "x", "y", **SMALL, **{"delta.enableRowTracking": "true"})
    other, n = DeltaTable.forPath(spark, table_path), 1500
    for part in range(2):
        append(spark, table_path, scattered(n)[part::2])
    before = ids(spark, table_path)
    source = spark.createDataFrame([(3, -3, -3, "m"), (4, 0, 0, "gone"), (n, 1, 1, "new")], SCHEMA).alias("s")

    def merge() -> None:
        clauses = other.alias("t").merge(source, "t.id = s.id").whenMatchedDelete("s.p = 'gone'").whenMatchedUpdateAll().whenNotMatchedInsertAll()
        clauses.execute()

    with winner(merge):
        table.optimize().executeCompaction()
    after = ids(spark, table_path)
    assert len(snapshot(table_path).files) > 5 and {k: v for k, v in after.items() if k not in (3, n)} == {k: v for k, v in before.items() if k not in (3, 4)}
    assert after[3][:3] == (-3, -3, "m") and after[3][3] == before[3][3] and after[n][:3] == (1, 1, "new")
    with winner(lambda: rowlock.sql(spark, f"optimize delta.`{table_path}` full")):
        table.delete("x % 2 = 0")
    last = ids(spark, table_path)
    assert last == {k: v for k, v in after.items() if v[0] % 2 != 0}
    same_for_delta_spark(spark, table_path)


KEYS = "id int, s string, d date, m decimal(20, 3), t timestamp, n struct<`in.ner`: timestamp_ntz, f: double>, one int, `a b` bigint, void bigint"


@pytest.mark.parametrize("route", ["driver", "large"])
@pytest.mark.parametrize("keys", ["n.`in.ner`", "t, `a b`", "s, d, m", "n.f, one, void, id", "one"])
@pytest.mark.short(ci=("s, d, m-large",), why="20 s each; keys of every type are asked in tests/spark/test_zorder.py, two keys in the test above")
def test_keys_of_every_kind(spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch, route: str, keys: str) -> None:
    """Nulls, fields of structs, odd names under column mapping, a key with one value, one that is all null; times in a zone with gaps."""
    take_route(monkeypatch, route)
    spark.conf.set("spark.sql.session.timeZone", "Australia/Lord_Howe")
    try:
        frame = spark.range(0, 300, numPartitions=1).selectExpr(
            "cast(id as int) id", "if(id % 7 = 0, null, concat('s', (id * 37) % 300, ' ''`')) s", "date_add(date'1960-01-01', cast((id * 53) % 300 as int) * 99) d",
            "cast((id * 71) % 300 - 150 as decimal(20, 3)) / 8 m", "timestamp_micros((1617463800 + ((id * 113) % 300) * 60) * 1000000) t",
            "named_struct('in.ner', timestamp_ntz'2020-01-01' + make_dt_interval((id * 17) % 300), 'f', if(id % 9 = 0, double('inf'), id / 3)) n",
            "1 one", "(id * 91) % 300 `a b`", "cast(null as bigint) void",
        ).to(spark.createDataFrame([], KEYS).schema)  # fmt: skip
        name = f"delta.`{table_path}`"
        rowlock.sql(
            spark,
            f"create table {name} ({KEYS}) using delta cluster by (n.`in.ner`) tblproperties ('delta.columnMapping.mode' = 'name', 'delta.targetFileSize' = '1kb')",
        )
        assert logical_columns(snapshot(table_path).domains, snapshot(table_path).schema) == (("n", "in.ner"),)
        rowlock.write(frame, table_path)
        before = read(spark, table_path)
        rowlock.sql(spark, f"alter table {name} cluster by ({keys})")
        rowlock.sql(spark, f"optimize {name} full")
        assert read(spark, table_path) == delta_rows(spark, table_path) == before
        assert len(snapshot(table_path).files) > 3 and {f.clustering_provider for f in snapshot(table_path).files.adds()} == {"liquid"}
        if keys == "s, d, m":
            assert kept(table_path, compare("<", ("s",), "s15")) < 1 > kept(table_path, compare("<", ("m",), -10))
        with unchanged(table_path):
            DeltaTable.forPath(spark, table_path).optimize().executeCompaction()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_keys_come_and_go(spark: SparkSession, table_path: str) -> None:
    """NONE: OPTIMIZE compacts; keys again: files that lie by the old ones stay, what is new is sorted, FULL sorts all."""
    name, table = f"delta.`{table_path}`", clustered(spark, table_path, "x")
    append(spark, table_path, scattered(40))
    table.optimize().executeCompaction()
    (old,) = {f.path for f in snapshot(table_path).files.adds()}
    rowlock.sql(spark, f"alter table {name} cluster by (y, id)")
    with unchanged(table_path):
        table.optimize().executeCompaction()
    append(spark, table_path, scattered(10))
    table.optimize().executeCompaction()
    assert old in {f.path for f in snapshot(table_path).files.adds()} and len(snapshot(table_path).files) == 2
    rowlock.sql(spark, f"optimize {name} full")
    assert len(snapshot(table_path).files) == 1
    with unchanged(table_path):
        spark.sql(f"optimize {name}")
        spark.sql(f"optimize {name} full")
    rowlock.sql(spark, f"alter table {name} cluster by none")
    with pytest.raises(StatementRefused, match="DELTA_OPTIMIZE_FULL_NOT_SUPPORTED"):
        rowlock.sql(spark, f"optimize {name} full")
    append(spark, table_path, [(99, 1, 1, "a")])
    table.optimize().executeCompaction()
    (only,) = snapshot(table_path).files.adds()
    assert only.clustering_provider is None and not only.tags
    assert table.detail().first()["clusteringColumns"] == []


def test_keys_that_cannot_be(spark: SparkSession, table_path: str) -> None:
    """The same columns are refused by CREATE and by ALTER, before anything is written."""
    columns = "a int, b int, c int, d int, e int, l array<int>, f boolean, s struct<i: int>, late int"
    make_it = f"create table delta.`{table_path}` ({columns}) using delta tblproperties ('delta.dataSkippingNumIndexedCols' = '8') cluster by "
    cases = (("(nothere)", InvalidInput, "nothere"), ("(s.no)", InvalidInput, "s.no"), ("(a, b, c, d, e)", InvalidInput, "4 columns at most"),
             ("(l)", StatementRefused, "no order"), ("(s)", StatementRefused, "no order"), ("(f)", StatementRefused, "no order"), ("(late)", StatementRefused, "no statistics"), ("(a, A)", InvalidInput, "named twice"))  # fmt: skip
    for keys, error, words in cases:
        with pytest.raises(error, match=words):
            rowlock.sql(spark, make_it + keys)
    rowlock.sql(spark, make_it + "(S.I, b)")
    with unchanged(table_path):
        for keys, error, words in cases:
            with pytest.raises(error, match=words):
                rowlock.sql(spark, f"alter table delta.`{table_path}` cluster by {keys}")
    like = table_path + "_like"
    rowlock.sql(spark, f"create table delta.`{like}` like delta.`{table_path}`")
    assert logical_columns(snapshot(like).domains, snapshot(like).schema) == (("s", "i"), ("b",))


def test_a_key_is_not_dropped(spark: SparkSession, table_path: str) -> None:
    """Neither by another spelling nor with others; where the table is clustered by it no longer, it goes."""
    clustered(spark, table_path, "x", **{"delta.columnMapping.mode": "name"})
    for said in ("x", "X", "y, x"):
        with unchanged(table_path), pytest.raises(StatementRefused, match="clustered by x") as caught:
            rowlock.sql(spark, f"ALTER TABLE delta.`{table_path}` DROP COLUMNS ({said})")
        assert caught.value.getCondition() == "DELTA_UNSUPPORTED_DROP_CLUSTERING_COLUMN"  # type: ignore[attr-defined]
    rowlock.sql(spark, f"ALTER TABLE delta.`{table_path}` CLUSTER BY (y)")
    rowlock.sql(spark, f"ALTER TABLE delta.`{table_path}` DROP COLUMNS (x)")
    assert "x" not in snapshot(table_path).schema.names


@pytest.mark.soak("sessions in other zones; the order is in tests/unit/parquet/test_curves.py", ci=True)
def test_no_zone_changes_the_order(spark: SparkSession) -> None:
    """Times in an hour that a clock has twice: their text in such a zone is ambiguous, what they are is not."""
    key = Clustering((("t",), ("n",)), (("t",), ("n",)), "cube", "run")
    found = []
    try:
        for zone in ("UTC", "Australia/Lord_Howe"):
            spark.conf.set("spark.sql.session.timeZone", zone)
            frame = spark.range(200).selectExpr("id", "timestamp_micros((1617458400 + (id * 113 % 200) * 40) * 1000000) t", "id * 71 % 200 n")
            ordered = ordered_frame(frame, Order(key.logical, 1, key), 1, 200, [F.col("id")])
            found.append([r["id"] for r in ordered.select("id").collect()])
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert found[0] == found[1] and sorted(found[0]) == list(range(200)) != found[0]
