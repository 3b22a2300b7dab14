"""RESTORE on Spark: an old version comes back as a new one, for every reader, whatever came between and whoever commits meanwhile."""

from __future__ import annotations

import datetime
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from delta.tables import DeltaTable as theirs_at
from pyspark.sql import SparkSession, functions as F
from pyspark.sql.utils import AnalysisException

import rowlock
from rowlock import DeltaTable
from rowlock.exceptions import ConcurrentAppendException, InvalidInput, StatementRefused, VersionNotFound, WrongType
from rowlock.protocol import row_tracking
from rowlock.storage.open import open_store
from rowlock.transaction.state.shared import state_of
from spark.support import add, delta_rows, delta_spark_rows, make, read, rows, take_route, unchanged, version, winner

pytestmark = pytest.mark.spark
SCHEMA = "id int, v int, p string"


def some(start: int, end: int) -> list[tuple[int, int, str]]:
    return [(n, n * 10, "ab"[n % 2]) for n in range(start, end)]


def at(spark: SparkSession, path: str, number: int) -> list[Any]:
    return rows(rowlock.read(spark, path, version=number))


def last_commit(path: str) -> dict[str, list[dict[str, Any]]]:
    """The newest commit's actions by their kind, as they stand in the log."""
    out: dict[str, list[dict[str, Any]]] = {}
    for line in Path(path, "_delta_log", f"{version(path):020}.json").read_text().splitlines():
        for kind, body in json.loads(line).items():
            out.setdefault(kind, []).append(body)
    return out


@pytest.mark.parametrize("vectors", ["true", "false"])
@pytest.mark.soak("each version in turn, 20 s; what comes back is asked part by part in the tests below", ci=True)
def test_every_version_comes_back(spark: SparkSession, table_path: str, vectors: str) -> None:
    table = make(spark, table_path, some(0, 10), SCHEMA, files=2, partition_by=["p"], **{"delta.enableDeletionVectors": vectors})
    table.delete("id in (1, 2)")
    table.delete("id in (3, 4)")
    table.update("id > 5", {"v": "-v", "p": "'c'"})
    table.optimize().executeCompaction()
    rowlock.write(spark.createDataFrame([(90, 1, "z", 2.5)], SCHEMA + ", more double"), table_path, merge_schema=True)
    rowlock.write(spark.createDataFrame(some(50, 55), SCHEMA), table_path, mode="overwrite")
    newest = version(table_path)
    for number in (5, 3, 0, newest) if vectors == "true" else (3, 4, newest):
        wanted, columns = at(spark, table_path, number), rowlock.read(spark, table_path, version=number).columns
        table.restoreToVersion(number)
        assert read(spark, table_path) == delta_rows(spark, table_path) == wanted
        assert table.toDF().columns == columns
    table.update("id = 50", {"v": "7"})
    assert (50, 7, "a", None) in read(spark, table_path)


@pytest.mark.soak("two engines for 13 s; what RESTORE brings back is asked in the tests beside it")
def test_the_answer_is_that_of_delta_spark(spark: SparkSession, table_path: str, tmp_path: Path) -> None:
    """The same history by the other engine: the same row, the same words in the log."""
    twin = str(tmp_path / "twin")
    table = make(spark, table_path, some(0, 10), SCHEMA, files=2)
    table.delete("id < 3")
    spark.sql(f"create table delta.`{twin}` ({SCHEMA}) using delta tblproperties (delta.enableDeletionVectors = true)")
    for n in (0, 1):
        spark.createDataFrame(some(0, 10)[n::2], SCHEMA).coalesce(1).write.format("delta").mode("append").save(twin)
    spark.sql(f"delete from delta.`{twin}` where id < 3")
    ours = table.restoreToVersion(2)
    theirs = spark.sql(f"restore table delta.`{twin}` to version as of 2")
    assert [(f.name, f.dataType) for f in ours.schema.fields] == [(f.name, f.dataType) for f in theirs.schema.fields]
    mine, other = (theirs_at.forPath(spark, p).history(1).select("operation", "operationParameters", "operationMetrics").first() for p in (table_path, twin))
    assert mine[0] == other[0] == "RESTORE" and mine[2].keys() == other[2].keys()
    assert mine[1] == other[1] == {"version": "2", "timestamp": None}
    counts = ["num_of_files_after_restore", "num_removed_files", "num_restored_files"]
    assert ours.select(counts).first() == theirs.select(counts).first()
    held = ours.first()
    assert held["table_size_after_restore"] == sum(f.size_bytes for f in state_of(open_store(table_path)).refresh().files.adds())
    assert table.lastReceipt.operation == "RESTORE" and table.lastReceipt.metrics["numRestoredFiles"] == held["num_restored_files"]


def test_to_a_time(spark: SparkSession, table_path: str) -> None:
    table = make(spark, table_path, some(0, 5), SCHEMA, **{"delta.enableInCommitTimestamps": "true"})
    table.delete("id = 1")
    times = {
        r["version"]: r["timestamp"]
        for r in table.history().select("version", F.date_format("timestamp", "yyyy-MM-dd'T'HH:mm:ss.SSS").alias("timestamp")).collect()
    }
    table.restoreToTimestamp(times[1])
    assert read(spark, table_path) == at(spark, table_path, 1)
    assert last_commit(table_path)["commitInfo"][0]["operationParameters"] == {"version": None, "timestamp": times[1]}
    with unchanged(table_path):
        for wrong, error in (("2001-01-01", VersionNotFound), ("2999-01-01", VersionNotFound), ("yesterday", InvalidInput), (5, WrongType)):
            with pytest.raises(error):
                table.restoreToTimestamp(wrong)


@pytest.mark.soak(
    "delta-spark reads each version by the same text; what text means as a time is in tests/unit/api/test_times.py and in test_to_a_time", ci=True
)
def test_a_time_is_the_sessions(spark: SparkSession, table_path: str) -> None:
    """Text without a zone means what it means to the session, and to delta-spark's reading of a table at a time.

    (Its RESTORE reads the text twice, by the session's zone and the JVM's, and is off by their difference where they differ.)
    """
    table = make(spark, table_path, some(0, 5), SCHEMA, **{"delta.enableInCommitTimestamps": "true"})
    table.delete("id = 1")
    table.delete("id = 2")
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    try:
        history = table.history().select(
            "version",
            F.date_format("timestamp", "yyyy-MM-dd HH:mm:ss.SSS").alias("here"),
            F.date_format("timestamp", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX").alias("zoned"),
        )
        times = {r["version"]: r for r in history.collect()}
        for number, name in ((1, "here"), (2, "zoned")):
            asked = times[number][name]
            table.restoreToTimestamp(asked)
            assert read(spark, table_path) == at(spark, table_path, number)
            assert read(spark, table_path) == rows(spark.read.format("delta").option("timestampAsOf", asked).load(table_path))
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


NO_TIMES = {text: f"The provided timestamp ('{text}') cannot be converted to a valid timestamp" for text in ("05/04/1999", "yesterday", "", "2021-13-01")}
NO_TIMES["it's \\ late"] = r"The provided timestamp ('it\'s \\ late') cannot be converted to a valid timestamp"
"""What delta-spark says of texts that are no times."""


def test_text_that_is_no_time(spark: SparkSession, table_path: str) -> None:
    """The words are those of delta-spark, for whoever looks for them."""
    table = make(spark, table_path, some(0, 5), SCHEMA)
    table.delete("id = 1")
    for wrong, words in NO_TIMES.items():
        with unchanged(table_path), pytest.raises(InvalidInput) as ours:
            table.restoreToTimestamp(wrong)
        assert words in str(ours.value)


@pytest.mark.soak("delta-spark itself: what it says is recorded", ci=True)
def test_what_is_recorded_of_text_that_is_no_time_is_what_delta_spark_says(spark: SparkSession, table_path: str) -> None:
    make(spark, table_path, some(0, 5), SCHEMA).delete("id = 1")
    for wrong, words in NO_TIMES.items():
        with pytest.raises(AnalysisException) as theirs:
            theirs_at.forPath(spark, table_path).restoreToTimestamp(wrong)
        assert words in str(theirs.value)


def test_arguments_of_another_type(spark: SparkSession, table_path: str) -> None:
    table, theirs = make(spark, table_path, some(0, 5), SCHEMA), theirs_at.forPath(spark, table_path)
    for method, wrong in (
        ("restoreToTimestamp", 12342323232),
        ("restoreToTimestamp", datetime.date(2021, 1, 1)),
        ("restoreToTimestamp", None),
        ("restoreToVersion", "0"),
        ("restoreToVersion", 1.0),
    ):
        with pytest.raises(ValueError) as expected:
            getattr(theirs, method)(wrong)
        with unchanged(table_path), pytest.raises(WrongType) as found:
            getattr(table, method)(wrong)
        assert str(found.value) == str(expected.value).removesuffix(".")


def test_versions_that_cannot_be_restored(spark: SparkSession, table_path: str) -> None:
    table = make(spark, table_path, some(0, 5), SCHEMA)
    with unchanged(table_path):
        for wrong, error in ((9, VersionNotFound), (-1, VersionNotFound), ("0", WrongType)):
            with pytest.raises(error):
                table.restoreToVersion(wrong)
        assert table.restoreToVersion(1).collect() == [], "the newest version is there already"
        assert table.lastReceipt is not None and table.lastReceipt.version is None
    table.setProperties({"delta.appendOnly": "true"})
    with unchanged(table_path), pytest.raises(StatementRefused, match="appendOnly"):
        table.restoreToVersion(0)


def test_files_that_are_no_more(spark: SparkSession, table_path: str) -> None:
    """A vacuumed file is named before anything is written; delta-spark's setting brings the rest back."""
    table = make(spark, table_path, some(0, 6), SCHEMA, files=2, **{"delta.enableDeletionVectors": "false"})
    lost = next(iter(state_of(open_store(table_path)).refresh().files.adds())).path
    before = dict.fromkeys(r[0] for r in read(spark, table_path))
    table.delete()
    Path(table_path, lost).unlink()
    with unchanged(table_path), pytest.raises(StatementRefused, match=lost):
        table.restoreToVersion(2)
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        table.restoreToVersion(2)
        assert 0 < len(delta_spark_rows(spark, table_path)) < len(before)
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")
    table.restoreToVersion(3)


def test_a_vector_that_is_no_more(spark: SparkSession, table_path: str) -> None:
    make(spark, table_path, spark.range(0, 40_000).selectExpr("cast(id as int) id", "0 v", "'a' p"))
    table = DeltaTable.forPath(spark, table_path)
    table.delete("hash(id) % 2 = 0")
    vectors = list(Path(table_path).glob("deletion_vector_*.bin"))
    table.delete()
    assert len(vectors) == 1
    vectors[0].rename(vectors[0].with_suffix(".gone"))
    with unchanged(table_path), pytest.raises(StatementRefused, match="deletion_vector_"):
        table.restoreToVersion(2)
    vectors[0].with_suffix(".gone").rename(vectors[0])
    table.restoreToVersion(2)


def test_properties_and_protocol(spark: SparkSession, table_path: str) -> None:
    """The old properties come back; the protocol is never lowered, and ids of columns go on."""
    table = make(spark, table_path, some(0, 5), SCHEMA)
    table.setProperties({"delta.columnMapping.mode": "name", "rowlock.isolation": "snapshot"})
    spark.sql(f"alter table delta.`{table_path}` add column (w int)")
    spark.sql(f"alter table delta.`{table_path}` rename column v to value")
    table.update("id = 1", {"w": "5"})
    high = state_of(open_store(table_path)).refresh()
    table.restoreToVersion(2)
    now = state_of(open_store(table_path)).refresh()
    assert now.protocol == high.protocol and now.metadata.id == high.metadata.id
    assert now.schema.names == ("id", "v", "p") and now.metadata.configuration["rowlock.isolation"] == "snapshot"
    assert now.metadata.configuration["delta.columnMapping.maxColumnId"] == high.metadata.configuration["delta.columnMapping.maxColumnId"]
    assert read(spark, table_path) == delta_rows(spark, table_path) == some(0, 5)
    spark.sql(f"alter table delta.`{table_path}` add column (u int)")
    assert sorted(read(spark, table_path)) == [(*r, None) for r in some(0, 5)]
    table.restoreToVersion(high.version)
    assert (1, 10, "b", 5) in delta_rows(spark, table_path)
    table.restoreToVersion(1)
    assert "rowlock.isolation" not in state_of(open_store(table_path)).refresh().metadata.configuration
    assert delta_rows(spark, table_path) == some(0, 5)


def test_clustering_columns_come_back(spark: SparkSession, table_path: str) -> None:
    table = DeltaTable.create(spark).location(table_path).addColumn("id", "int").addColumn("v", "int").clusterBy("id").execute()
    add(spark, table_path, [(1, 2)], "id int, v int")
    spark.sql(f"alter table delta.`{table_path}` cluster by (v)")
    table.restoreToVersion(1)
    assert table.detail().first()["clusteringColumns"] == spark.sql(f"describe detail delta.`{table_path}`").first()["clusteringColumns"] == ["id"]
    table.restoreToVersion(2)
    assert table.detail().first()["clusteringColumns"] == ["v"]


# ---- row ids, change feed ------------------------------------------------------------------


def ids(spark: SparkSession, path: str, number: int | None = None) -> dict[int, tuple[Any, ...]]:
    return {r["id"]: (r["_row_id"], r["_row_commit_version"], r["v"]) for r in rowlock.read(spark, path, number, with_row_ids=True).collect()}


def mark(path: str) -> int:
    return row_tracking.high_water_mark(state_of(open_store(path)).refresh().domains)


def test_rows_come_back_with_their_ids(spark: SparkSession, table_path: str) -> None:
    table = make(spark, table_path, some(0, 10), SCHEMA, files=2, **{"delta.enableRowTracking": "true"})
    table.update("id < 4", {"v": "-1"})
    table.delete("id = 7")
    before = {n: ids(spark, table_path, n) for n in (2, 3, 4)}
    table.optimize().executeCompaction()
    add(spark, table_path, some(20, 25), SCHEMA)
    high = mark(table_path)
    for number in (3, 2, 4):
        table.restoreToVersion(number)
        assert ids(spark, table_path) == before[number] and mark(table_path) >= high
    found = spark.read.format("delta").load(table_path).select("id", "v", "_metadata.row_id", "_metadata.row_commit_version").collect()
    assert {r["id"]: (r["row_id"], r["row_commit_version"], r["v"]) for r in found} == before[4]
    add(spark, table_path, some(30, 33), SCHEMA)
    assert min(ids(spark, table_path)[k][0] for k in (30, 31, 32)) > high


def test_to_before_rows_had_ids(spark: SparkSession, table_path: str) -> None:
    """Files that come back get ids, those that had some in the meantime keep them; enabling it again finds nothing missing."""
    table = make(spark, table_path, some(0, 10), SCHEMA, files=2)
    table.delete("id = 3")
    before = version(table_path)
    table.setProperties({"delta.enableRowTracking": "true"})
    a = ids(spark, table_path)
    table.delete("id = 5")
    table.optimize().executeCompaction()
    table.restoreToVersion(before)
    with pytest.raises(InvalidInput, match="enableRowTracking"):
        rowlock.read(spark, table_path, with_row_ids=True)
    assert read(spark, table_path) == [r for r in some(0, 10) if r[0] != 3]
    table.setProperties({"delta.enableRowTracking": "true"})
    b = ids(spark, table_path)
    assert len({r[0] for r in b.values()}) == 9 and len(a) == 9


@pytest.mark.parametrize("route", ["driver", "large"])
@pytest.mark.parametrize("vectors", ["true", "false"])
@pytest.mark.short(ci=("true-driver",), why="15 s each; rows that RESTORE brings back are asked for in the tests beside it")
def test_the_change_feed_tells_what_came_and_went(spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch, vectors: str, route: str) -> None:
    take_route(monkeypatch, route)
    table = make(spark, table_path, some(0, 10), SCHEMA, files=2, **{"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": vectors})
    table.delete("id in (1, 2)")
    table.update("id >= 6", {"v": "-v"})
    add(spark, table_path, some(20, 22), SCHEMA)
    table.optimize().executeCompaction()
    for number in (4, 3, 5, 2, 0):
        before = Counter(read(spark, table_path))
        with winner(lambda: DeltaTable.forPath(spark, table_path).delete("id = 0")) if number == 3 else winner():
            table.restoreToVersion(number)
        if number == 3:
            before = Counter(at(spark, table_path, version(table_path) - 1))
        after, now = Counter(read(spark, table_path)), version(table_path)
        feed = spark.read.format("delta").option("readChangeFeed", True).option("startingVersion", now).option("endingVersion", now).load(table_path)
        net: Counter[Any] = Counter()
        for r in feed.collect():
            net[r["id"], r["v"], r["p"]] += {"insert": 1, "delete": -1}[r["_change_type"]]
        wanted = Counter(after)
        wanted.subtract(before)
        assert {k: n for k, n in net.items() if n} == {k: n for k, n in wanted.items() if n}


# ---- others commit meanwhile ---------------------------------------------------------------


def test_it_is_made_again_when_others_commit(spark: SparkSession, table_path: str) -> None:
    table, other = make(spark, table_path, some(0, 10), SCHEMA, files=2), DeltaTable.forPath(spark, table_path)
    table.delete("id < 4")
    with winner(
        lambda: other.update("id > 4", {"v": "0"}),
        lambda: other.optimize().executeCompaction(),
        lambda: add(spark, table_path, some(50, 53), SCHEMA),
    ):
        table.restoreToVersion(2)
    assert read(spark, table_path) == delta_rows(spark, table_path) == sorted(some(0, 10), key=repr)
    assert table.lastReceipt.rounds == 3
    with winner(lambda: spark.sql(f"insert into delta.`{table_path}` values (9, 9, 'a')")):
        table.restoreToVersion(3)
    assert read(spark, table_path) == at(spark, table_path, 3)


def test_it_fails_where_it_was_asked_to(spark: SparkSession, table_path: str) -> None:
    table, other = make(spark, table_path, some(0, 10), SCHEMA, **{"rowlock.onConflict": "fail"}), DeltaTable.forPath(spark, table_path)
    table.delete("id < 4")
    with winner(lambda: add(spark, table_path, some(50, 53), SCHEMA)), pytest.raises(ConcurrentAppendException, match="version 3"):
        table.restoreToVersion(1)
    with winner(lambda: other.optimize().executeCompaction()):
        table.restoreToVersion(1)
    assert read(spark, table_path) == some(0, 10)


def test_writers_pass_by_a_restore(spark: SparkSession, table_path: str) -> None:
    """As the winner: rows that came back, by a vector that shrank, go through the statement; those that went leave it."""
    table, other = make(spark, table_path, some(0, 10), SCHEMA), DeltaTable.forPath(spark, table_path)
    table.delete("id in (1, 2)")
    add(spark, table_path, some(20, 22), SCHEMA)
    with winner(lambda: other.restoreToVersion(1)):
        table.update("id <= 2 or id >= 20", {"v": "v + 1"})
    assert read(spark, table_path) == delta_rows(spark, table_path) == sorted(((n, n * 10 + (n <= 2), "ab"[n % 2]) for n in range(10)), key=repr)
    with winner(lambda: other.restoreToVersion(2)):
        table.optimize().executeCompaction()
    assert read(spark, table_path) == at(spark, table_path, 2)
