"""Shallow clones that Rowlock makes beside those of delta-spark: the same rows, metrics and definition; each engine goes on with the other's.  I5."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rowlock
from interop.peer_tables import make, sql
from interop.readers import assert_same_rows, by_delta_spark, rows_by_all, rows_of
from rowlock import DeltaTable
from rowlock.exceptions import InvalidInput, StatementRefused
from rowlock.maintenance.check.run import check
from rowlock.storage.open import open_store

pytestmark = pytest.mark.spark
NO_DUCKDB = {"duckdb": "takes an absolute path for a relative one"}


def files(folder: str) -> dict[str, int]:
    return {str(p): p.stat().st_mtime_ns for p in Path(folder).rglob("*") if p.is_file()}


def told(spark: SparkSession, path: str) -> dict[str, Any]:
    """What a clone says of itself: its metrics, columns, partitions, properties and features."""
    first = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").where("version = 0").first()
    detail = spark.sql(f"DESCRIBE DETAIL delta.`{path}`").first()
    assert first is not None and detail is not None
    return {
        "operation": first["operation"], "sourceVersion": first["operationParameters"]["sourceVersion"], "metrics": dict(first["operationMetrics"]),
        "partitions": detail["partitionColumns"], "properties": dict(detail["properties"]), "features": sorted(detail["tableFeatures"] or []),
        "schema": spark.read.format("delta").load(path).schema.json(),
    }  # fmt: skip


@pytest.mark.no_peers("DuckDB takes absolute paths for relative ones")
@pytest.mark.soak("23 s of turns with delta-spark; clones without it are in tests/unit/transaction/definition and in the tests beside it")
def test_beside_delta_spark(spark: SparkSession, table_path: str, tmp_path: Path) -> None:
    """A partitioned table of renamed columns, with vectors in files: cloned by both at the same version, written further by the other one."""
    source, ours, theirs = f"{table_path} of", str(tmp_path / "ours"), str(tmp_path / "theirs")
    make(
        spark,
        source,
        "select id, concat('x/', id % 2) as p, id * 2 as v from range(0, 200, 1, 2)",
        partition_by="p",
        enableDeletionVectors=True,
        columnMapping__mode="name",
    )
    sql(spark, source, "DELETE FROM T WHERE id % 3 = 0")
    spark.sql(f"ALTER TABLE delta.`{source}` RENAME COLUMN v TO w")
    spark.sql(f"INSERT INTO delta.`{source}` VALUES (900, 'y', 1)")
    before = files(source)
    said = " VERSION AS OF 2 TBLPROPERTIES ('mine' = 'x')"
    answers = [
        run(f"CREATE TABLE delta.`{to}` SHALLOW CLONE delta.`{source}`{said}").collect()
        for run, to in ((lambda text: rowlock.sql(spark, text), ours), (spark.sql, theirs))
    ]
    assert answers[0] == answers[1] and answers[0][0].asDict()["num_copied_files"] == 0
    assert told(spark, ours) == told(spark, theirs)
    rows = rows_by_all(spark, ours, without=NO_DUCKDB)
    assert rows == rows_by_all(spark, theirs, without=NO_DUCKDB) and len(rows) == 133
    sql(spark, ours, "DELETE FROM T WHERE id < 10", "UPDATE T SET w = -1 WHERE id = 11", "INSERT INTO T VALUES (901, 'z', 2)")
    table = DeltaTable.forPath(spark, theirs)
    table.delete("id < 10")
    table.update("id = 11", {"w": "-1"})
    rowlock.write(spark.sql("select 901L as id, 'z' as p, 2L as w"), theirs)
    assert rows_by_all(spark, ours, without=NO_DUCKDB) == rows_by_all(spark, theirs, without=NO_DUCKDB)
    for path in (ours, theirs):
        clone = DeltaTable.forPath(spark, path)
        clone.restoreToVersion(1)
        clone.optimize().executeCompaction()
        clone.vacuum(0)
        assert not [f for f in check(open_store(path)).findings if f.level == "damage"]
        assert_same_rows(rows_of(rowlock.read(spark, path).toArrow()), rows_of(by_delta_spark(spark, path)), "rowlock", "delta-spark")
    assert files(source) == before, "nothing is written or deleted outside of the clone"


@pytest.mark.no_peers("DuckDB takes absolute paths for relative ones")
def test_calls(spark: SparkSession, table_path: str, tmp_path: Path) -> None:
    """The methods, with delta-spark's arguments; a source of no statistics with row ids."""
    make(spark, table_path, "select id from range(5)", enableRowTracking=True, dataSkippingNumIndexedCols=0)
    table = DeltaTable.forPath(spark, table_path)
    table.delete("id = 4")
    made = table.clone(str(tmp_path / "a"), True, False, {"mine": "1"})
    assert sorted(r[0] for r in made.toDF().collect()) == [0, 1, 2, 3] and made.detail().first()["properties"]["mine"] == "1"
    assert table.cloneAtVersion(0, str(tmp_path / "b"), isShallow=True).toDF().count() == 5
    made.delete("id = 0")
    rowlock.write(spark.range(50, 52), str(tmp_path / "a"))
    assert rowlock.read(spark, str(tmp_path / "a"), with_row_ids=True).select("_row_id").distinct().count() == 5
    assert rows_of(by_delta_spark(spark, str(tmp_path / "a"))) == rows_of(made.toDF().toArrow())


@pytest.mark.no_peers("DuckDB takes absolute paths for relative ones")
def test_under_a_name(spark: SparkSession, table_path: str, tmp_path: Path) -> None:
    make(spark, table_path, "select id from range(5)")
    rowlock.sql(spark, f"CREATE TABLE every_clone SHALLOW CLONE delta.`{table_path}` LOCATION '{tmp_path}/c'")
    try:
        assert spark.table("every_clone").count() == 5
        again = f"CREATE TABLE {{}} every_clone SHALLOW CLONE delta.`{table_path}`"
        assert rowlock.sql(spark, again.format("IF NOT EXISTS")).collect() == []
        with pytest.raises(Exception, match="There is a table already"):
            rowlock.sql(spark, again.format(""))
        with pytest.raises(StatementRefused, match="has rows"):
            rowlock.sql(spark, again.format("").replace("CREATE", "CREATE OR REPLACE"))
        with pytest.raises(InvalidInput, match="no Parquet file"):
            rowlock.sql(spark, "CREATE TABLE another SHALLOW CLONE parquet.`/nothing`")
    finally:
        spark.sql("DROP TABLE every_clone")
