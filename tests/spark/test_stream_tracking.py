"""Streams with schemaTrackingLocation: they stop at a change of the columns, and go on with the new ones; the log is delta-spark's (I2, I9)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import rowlock
from rowlock import DeltaTable
from rowlock.api.stream_source import source
from rowlock.exceptions import InvalidInput, SchemaMismatch
from rowlock.protocol.session_settings import PREFIX
from spark.support import make
from spark.test_stream_source import Asked

pytestmark = [pytest.mark.spark, pytest.mark.no_peers("deltalake reads no table whose types may be widened")]
EVOLVED, BLOCKED = "DELTA_STREAMING_METADATA_EVOLUTION", "DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION"
ALL = {f"allowSourceColumn{kind}": "always" for kind in ("Rename", "Drop", "TypeChange")}


class Tracked(Asked):
    """A source that is asked as a query asks it, which says so when a batch is written."""

    def __init__(self, spark: SparkSession, path: str, place: Path, offsets: list[str] | None = None, **options: str) -> None:
        self.spark, self.offsets = spark, [] if offsets is None else offsets
        given = {"path": path, "schemaTrackingLocation": f"{place}/columns"} | options
        source.columns(spark, given, None)
        self.source = source.stream(source.open_stream(spark, given, None, f"file:{place}/sources/0"))
        if self.offsets:
            self.again(len(self.offsets) - 1)

    def to_the_end(self) -> list[Any]:
        """The rows until nothing is left; a change of the columns is the last element."""
        found: list[Any] = []
        while True:
            start = self.offsets[-1] if self.offsets else None
            end = self.source.latest(start, unlimited=False)
            if end is None or end == start:
                return found
            self.offsets.append(end)
            try:
                if start is not None:
                    self.source.committed(start)
            except SchemaMismatch as e:
                return [*found, e.getCondition()]  # type: ignore[attr-defined]
            found += self.rows(start, end)


def table(spark: SparkSession, path: str) -> DeltaTable:
    return make(spark, path, [(1, 1)], "a int, b int", files=1, **{"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"})


def sql(spark: SparkSession, path: str, *texts: str) -> None:
    for text in texts:
        rowlock.sql(spark, text.replace("?", f"delta.`{path}`"))


def entries(place: Path) -> list[dict[str, Any]]:
    (folder,) = (place / "columns").iterdir()
    return [orjson.loads(f.read_bytes().removeprefix(b"v1\n")) for f in sorted(folder.glob("[0-9]*"))]


@pytest.mark.soak("a stream is started again after each change", ci=True)
def test_a_stream_stops_at_each_change_and_goes_on(spark: SparkSession, table_path: str, tmp_path: Path) -> None:
    table(spark, table_path)
    first = Tracked(spark, table_path, tmp_path)
    assert first.to_the_end() == [(1, 1)]
    sql(spark, table_path, "INSERT INTO ? VALUES (2, 2)", "ALTER TABLE ? RENAME COLUMN b TO c", "INSERT INTO ? VALUES (3, 3)")
    again = Tracked(spark, table_path, tmp_path, first.offsets)
    assert again.source.columns.names == ["a", "b"] and again.to_the_end() == [(2, 2), EVOLVED]
    renamed = entries(tmp_path)[-1]
    with pytest.raises(SchemaMismatch, match=r"renamed b to c.*allowSourceColumnRename") as raised:
        Tracked(spark, table_path, tmp_path, first.offsets)
    assert raised.value.getCondition() == BLOCKED  # type: ignore[attr-defined]
    again = Tracked(spark, table_path, tmp_path, first.offsets, allowSourceColumnRename=str(renamed["deltaCommitVersion"]))
    assert again.to_the_end() == [(3, 3)] and again.source.columns.names == ["a", "c"]
    # changes with no file between them are one stop more
    sql(spark, table_path, "ALTER TABLE ? ALTER COLUMN c TYPE BIGINT", "ALTER TABLE ? DROP COLUMN a", "INSERT INTO ? VALUES (4)")
    assert Tracked(spark, table_path, tmp_path, first.offsets, **ALL).to_the_end() == [EVOLVED]
    for allowed in ({}, {"allowSourceColumnDrop": "always"}, {"allowSourceColumnTypeChange": "always"}, {"allowSourceColumnDrop": "1"}):
        with pytest.raises(SchemaMismatch, match="dropped a; widened c from int to bigint"):
            Tracked(spark, table_path, tmp_path, first.offsets, **allowed)
    assert Tracked(spark, table_path, tmp_path, first.offsets, **ALL).to_the_end() == [(4,)]
    assert [e.get("previousMetadataSeqNum") for e in entries(tmp_path)] == [None, None, None, 1]
    # what is added, and a property: a stop, and nothing to allow
    sql(spark, table_path, "ALTER TABLE ? SET TBLPROPERTIES ('delta.appendOnly' = 'true')", "INSERT INTO ? VALUES (5)", "ALTER TABLE ? ADD COLUMN z INT")
    sql(spark, table_path, "INSERT INTO ? VALUES (6, 6)")
    found = [Tracked(spark, table_path, tmp_path, first.offsets, **ALL).to_the_end() for _ in range(4)]
    assert found == [[EVOLVED], [(5,), EVOLVED], [(6, 6)], []]


def test_by_settings(spark: SparkSession, table_path: str, tmp_path: Path) -> None:
    table(spark, table_path)
    first = Tracked(spark, table_path, tmp_path)
    first.to_the_end()
    sql(spark, table_path, "ALTER TABLE ? DROP COLUMN b", "INSERT INTO ? VALUES (2)")
    assert Tracked(spark, table_path, tmp_path, first.offsets).to_the_end() == [EVOLVED]
    with pytest.raises(SchemaMismatch) as raised:
        Tracked(spark, table_path, tmp_path, first.offsets)
    (key,) = {word.strip("().,") for word in str(raised.value).split() if ".ckpt_" in word}
    java = spark.sparkContext._jvm.java.util.Objects.hashCode(f"file:{tmp_path}/sources/0")  # type: ignore[union-attr]
    assert key.lstrip(".") == f"ckpt_{java}"
    version = str(entries(tmp_path)[-1]["deltaCommitVersion"])
    name = f"{PREFIX}streaming.allowSourceColumnRenameAndDrop.ckpt_{java}"
    spark.conf.set(name, version)
    try:
        assert Tracked(spark, table_path, tmp_path, first.offsets).to_the_end() == [(2,)]
    finally:
        spark.conf.unset(name)


def test_a_stream_that_is_tracked_from_now_on(spark: SparkSession, table_path: str, tmp_path: Path) -> None:
    """It ended at a rename, and the option is given then: the columns that its checkpoint stands at are found in the log."""
    table(spark, table_path)
    plain = Asked(spark, table_path)
    plain.all()
    sql(spark, table_path, "INSERT INTO ? VALUES (2, 2)", "ALTER TABLE ? RENAME COLUMN b TO c", "INSERT INTO ? VALUES (3, 3)")
    with pytest.raises(SchemaMismatch, match=EVOLVED):
        Tracked(spark, table_path, tmp_path, plain.offsets)
    assert Tracked(spark, table_path, tmp_path, plain.offsets).to_the_end() == [(2, 2), EVOLVED]
    assert Tracked(spark, table_path, tmp_path, plain.offsets, **ALL).to_the_end() == [(3, 3)]


def test_the_first_rows_are_read_with_the_columns_of_their_version(spark: SparkSession, table_path: str, tmp_path: Path) -> None:
    """The columns changed after the log was begun and before a row was read."""
    table(spark, table_path)
    Tracked(spark, table_path, tmp_path).source.latest(None, unlimited=False)
    sql(spark, table_path, "ALTER TABLE ? RENAME COLUMN b TO c", "INSERT INTO ? VALUES (3, 3)")
    with pytest.raises(SchemaMismatch, match=EVOLVED):
        Tracked(spark, table_path, tmp_path, **ALL).to_the_end()
    found = Tracked(spark, table_path, tmp_path, **ALL)
    assert sorted(found.to_the_end()) == [(1, 1), (3, 3)] and found.source.columns.names == ["a", "c"]


def test_where_the_log_cannot_be(spark: SparkSession, table_path: str, tmp_path: Path) -> None:
    t = table(spark, table_path)
    with pytest.raises(InvalidInput, match="DELTA_STREAMING_SCHEMA_LOCATION_NOT_UNDER_CHECKPOINT"):
        Tracked(spark, table_path, tmp_path / "checkpoint", schemaTrackingLocation=str(tmp_path / "elsewhere"))
    Tracked(spark, table_path, tmp_path).to_the_end()
    with pytest.raises(InvalidInput, match="of its own"):
        source.open_stream(spark, {"path": table_path, "schemaTrackingLocation": f"{tmp_path}/columns"}, None, f"file:{tmp_path}/sources/1")
    other = Tracked(spark, table_path, tmp_path, streamingSourceTrackingId="two")
    assert other.to_the_end() == [(1, 1)]
    (log,) = (f for f in (tmp_path / "columns").iterdir() if not f.name.endswith("_two"))
    (log / "0").write_bytes(b"v1\n{")
    for crc in log.glob(".*.crc"):
        crc.unlink()
    with pytest.raises(InvalidInput, match="DELTA_STREAMING_SCHEMA_LOG_DESERIALIZE_FAILED"):
        Tracked(spark, table_path, tmp_path)
    assert t.toDF().count() == 1


@pytest.mark.soak("nine queries; the files of the log and the offsets are delta-spark's in the tests before this one")
def test_a_query_that_each_engine_goes_on_with(spark: SparkSession, table_path: str, tmp_path: Path) -> None:
    table(spark, table_path)

    def run(name: str, **options: str) -> list[Any]:
        found: list[Any] = []

        def take(rows: DataFrame, number: int) -> None:
            del number
            found.extend(map(tuple, rows.collect()))

        rows = spark.readStream.format(name).options(schemaTrackingLocation=f"{tmp_path}/columns", **options).load(table_path)
        query = rows.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except StreamingQueryException as e:
            found.append(next(c for c in (EVOLVED, BLOCKED) if c in str(e)))
        return found

    ours, theirs = "rowlock.StreamTable", "delta"
    rowlock.streaming.read(spark, table_path)  # loads the class of our source
    assert run(theirs) == [(1, 1)]
    sql(spark, table_path, "INSERT INTO ? VALUES (2, 2)", "ALTER TABLE ? RENAME COLUMN b TO c", "INSERT INTO ? VALUES (3, 3)")
    assert run(ours) == [(2, 2), EVOLVED] and run(theirs) == [BLOCKED]
    assert run(theirs, **ALL) == [(3, 3)]
    sql(spark, table_path, "ALTER TABLE ? DROP COLUMN a", "INSERT INTO ? VALUES (4)")
    assert run(theirs, **ALL) == [EVOLVED] and run(ours) == [BLOCKED] and run(ours, **ALL) == [(4,)]
