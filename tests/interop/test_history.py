"""delta-spark and deltalake open the history and the details of our tables, whatever statement wrote them; we open theirs.  I9."""

from __future__ import annotations

from pathlib import Path

import pytest
from delta.tables import DeltaTable as SparkDelta
from deltalake import DeltaTable as RustDelta
from pyspark.sql import SparkSession

import rowlock
from interop import peer_tables
from rowlock import DeltaTable

pytestmark = [pytest.mark.spark, pytest.mark.soak("commits of delta-spark; tests/spark asks what the history says of ours")]

OPERATIONS = [
    "WRITE",
    "WRITE",
    "UPDATE",
    "DELETE",
    "MERGE",
    "OPTIMIZE",
    "SET TBLPROPERTIES",
    "UNSET TBLPROPERTIES",
    "WRITE",
    "CREATE OR REPLACE TABLE",
    "WRITE",
]


def every_statement(spark: SparkSession, path: str) -> None:
    rows = spark.range(10).selectExpr("id", "id % 2 as p", "'it''s \"x\"' as s")
    rowlock.write(rows, path, partition_by="p")
    rowlock.write(rows, path)
    table = DeltaTable.forPath(spark, path)
    table.update("id = 1 and s like '%\"x\"'", {"s": "'é\\n'"})
    table.delete("id = 2")
    table.alias("t").merge(rows.limit(4).alias("s"), "t.id = s.id + 100").whenMatchedDelete().whenNotMatchedInsertAll("s.id > 1").execute()
    table.optimize().where("p = 1").executeCompaction()
    table.setProperties({"rowlock.granularity": "file", "owner": 'a, "b"'})
    table.unsetProperties(["owner"])
    rowlock.write(rows, path, mode="overwrite")
    DeltaTable.createOrReplace(spark).location(path).addColumns(rows.schema).partitionedBy("p").comment("made anew").execute()
    rowlock.write(rows, path)


def test_theirs_of_ours(spark: SparkSession, table_path: str) -> None:
    every_statement(spark, table_path)
    history = SparkDelta.forPath(spark, table_path).history().collect()
    assert [h.operation for h in reversed(history)] == OPERATIONS
    assert [h.version for h in history] == list(reversed(range(len(OPERATIONS))))
    assert all(h.engineInfo.startswith("Rowlock/") for h in history)
    assert [h.isBlindAppend for h in reversed(history)][:4] == [True, True, False, False]
    assert all(h.readVersion == h.version - 1 for h in history if h.version)
    metrics = {h.operation: h.operationMetrics for h in history}
    assert metrics["UPDATE"]["numUpdatedRows"] == "2" and metrics["DELETE"]["numDeletedRows"] == "2" and metrics["MERGE"]["numTargetRowsInserted"] == "2"
    detail = SparkDelta.forPath(spark, table_path).detail().collect()[0]
    assert (detail.format, detail.partitionColumns, detail.description, detail.minReaderVersion, detail.minWriterVersion) == ("delta", ["p"], "made anew", 3, 7)
    ours = DeltaTable.forPath(spark, table_path).detail().collect()[0]
    assert (ours.id, ours.numFiles, ours.sizeInBytes, ours.properties, ours.partitionColumns) == (
        detail.id,
        detail.numFiles,
        detail.sizeInBytes,
        detail.properties,
        detail.partitionColumns,
    )
    assert sorted(ours.tableFeatures) == sorted(detail.tableFeatures)
    assert [h["operation"] for h in reversed(RustDelta(table_path).history())] == OPERATIONS


def test_same_columns(spark: SparkSession, table_path: str) -> None:
    """Our history and detail have delta-spark's columns and types, so that a pipeline which reads them goes on working."""
    every_statement(spark, table_path)
    for ours, theirs in (
        (DeltaTable.forPath(spark, table_path).history(), SparkDelta.forPath(spark, table_path).history()),
        (DeltaTable.forPath(spark, table_path).detail(), SparkDelta.forPath(spark, table_path).detail()),
    ):
        have = {f.name: f.dataType.simpleString() for f in ours.schema}
        assert {f.name: f.dataType.simpleString() for f in theirs.schema}.items() <= have.items()


@pytest.mark.soak("25 s of the other engine's commits; the other way round stays")
def test_ours_of_theirs(spark: SparkSession, table_path: str) -> None:
    peer_tables.vectors(spark, table_path)
    names = [
        "version",
        "operation",
        "operationParameters",
        "readVersion",
        "isolationLevel",
        "isBlindAppend",
        "operationMetrics",
        "userMetadata",
        "engineInfo",
        "timestamp",
    ]
    ours = DeltaTable.forPath(spark, table_path).history().select(*names).collect()
    theirs = SparkDelta.forPath(spark, table_path).history().select(*names).collect()
    for our, their in zip(ours, theirs, strict=True):
        assert our.asDict() == their.asDict()
    assert DeltaTable.forPath(spark, table_path).history(2).collect() == DeltaTable.forPath(spark, table_path).history().collect()[:2]


ALTERED = (
    "ADD COLUMNS (z INT COMMENT 'c' FIRST)",
    "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    "RENAME COLUMN z TO `z.y`",
    "DROP COLUMN `z.y`",
)


def test_a_new_table_and_its_columns_are_described_as_delta_spark_does(spark: SparkSession, tmp_path: Path) -> None:
    said = []
    for kind, path in ((DeltaTable, str(tmp_path / "ours")), (SparkDelta, str(tmp_path / "theirs"))):
        kind.create(spark).location(path).addColumn("id", "INT").partitionedBy().execute()
        for change in ALTERED:
            rowlock.sql(spark, f"ALTER TABLE rowlock.`{path}` {change}") if kind is DeltaTable else spark.sql(f"ALTER TABLE delta.`{path}` {change}")
        history = reversed(SparkDelta.forPath(spark, path).history().collect())
        said.append([(h.operation, h.operationParameters, h.isBlindAppend) for h in history])
    (_, made, blind), *altered = said[0]
    assert {**made, "properties": "{}"} == said[1][0][1] and blind is said[1][0][2] is True
    assert altered == said[1][1:] and altered[0][0] == "ADD COLUMNS"
