"""V2 checkpoints that Rowlock writes, read and written further by delta-spark, and the other way round; read by deltalake and DuckDB.  I5, I9."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import rowlock
from interop.peer_tables import make, sql
from interop.readers import rows_by_all
from rowlock import DeltaTable
from rowlock.limits import limited
from rowlock.log.segment import read_hint
from rowlock.log.table_log import TableLog
from rowlock.storage.open import open_store

pytestmark = pytest.mark.spark


def checkpoints(path: str) -> list[str]:
    """The top files of V2 checkpoints, oldest first."""
    return sorted(p.name for p in Path(path, "_delta_log").glob("[0-9]*.checkpoint.*-*"))


def sidecars(path: str) -> set[str]:
    return {p.name for p in Path(path, "_delta_log", "_sidecars").glob("*.parquet")}


def without_commits(path: str, before: int) -> None:
    """Deletes the commits before a checkpoint: readers then need it."""
    for n in range(before):
        Path(path, "_delta_log", f"{n:020d}.json").unlink()
    for crc in Path(path, "_delta_log").glob("*.crc"):
        crc.unlink()


@pytest.mark.soak("9 s of turns with delta-spark; V2 checkpoints are written in tests/unit/log and read in test_golden", ci=True)
def test_written_by_rowlock_and_further_by_delta_spark(spark: SparkSession, table_path: str) -> None:
    """Several sidecars, removes and vectors in them; each engine reads the other's and makes its own."""
    with limited(snapshot_chunk_files=2):
        rowlock.write(
            spark.range(0, 6, 1, 3),
            table_path,
            properties={"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "4", "delta.enableDeletionVectors": "true"},
        )
        table = DeltaTable.forPath(spark, table_path)
        table.delete("id = 1")
        rowlock.write(spark.range(10, 12, 1, 1), table_path)
        table.delete("id >= 11")
        rowlock.write(spark.range(20, 21, 1, 1), table_path)
    assert len(checkpoints(table_path)) == 1 and len(sidecars(table_path)) >= 3 and read_hint(open_store(table_path)) == 4
    without_commits(table_path, 4)
    rows = [(0,), (10,), (2,), (20,), (3,), (4,), (5,)]
    assert rows_by_all(spark, table_path) == rows
    ours = set(sidecars(table_path))
    sql(spark, table_path, "DELETE FROM T WHERE id = 2", "INSERT INTO T VALUES (30)", "INSERT INTO T VALUES (31)", "UPDATE T SET id = 40 WHERE id = 4")
    assert len(checkpoints(table_path)) == 2 and sidecars(table_path) > ours, "delta-spark made one of its own at version 8"
    for n in range(4):
        rowlock.write(spark.range(50 + n, 51 + n, 1, 1), table_path)
    assert len(checkpoints(table_path)) == 3
    assert len(rows_by_all(spark, table_path)) == len(rows) - 1 + 2 + 4
    before = sidecars(table_path)
    table.vacuum(0)
    assert sidecars(table_path) == before
    assert len(rows_by_all(spark, table_path)) == len(rows) - 1 + 2 + 4


@pytest.mark.parametrize("policy", ["v2", "classic"])
@pytest.mark.short("classic", ci=("v2",), why="turns with delta-spark; the classic ones stay")
def test_written_by_delta_spark_and_further_by_rowlock(spark: SparkSession, table_path: str, policy: str) -> None:
    """A table that lists the feature gets V2 checkpoints where its policy says so, and else classic ones."""
    make(spark, table_path, "select id from range(0, 4, 1, 2)", checkpointPolicy="v2", checkpointInterval=2, enableDeletionVectors=True)
    if policy == "classic":
        DeltaTable.forPath(spark, table_path).setProperties({"delta.checkpointPolicy": "classic"})
    DeltaTable.forPath(spark, table_path).update("id = 1", {"id": "id + 10"})
    sql(spark, table_path, "INSERT INTO T VALUES (20)")
    for n in range(4):
        rowlock.write(spark.range(30 + n, 31 + n, 1, 1), table_path)
    head = TableLog(open_store(table_path)).latest().version
    newest = read_hint(open_store(table_path))
    assert newest is not None and head - newest < 2
    assert any(name.startswith(f"{newest:020d}.") for name in checkpoints(table_path)) == (policy == "v2")
    without_commits(table_path, newest)
    assert rows_by_all(spark, table_path) == [(0,), (11,), (2,), (20,), (3,), (30,), (31,), (32,), (33,)]


def files_read(frame: DataFrame) -> int:
    """How many files a query of delta-spark reads, by the metrics of its scan."""
    plan = frame._jdf.queryExecution().executedPlan()
    plan.executeCollect()
    while plan.children().size():
        plan = plan.children().apply(0)
    leaf = plan.executedPlan() if plan.getClass().getSimpleName() == "AdaptiveSparkPlanExec" else plan
    while leaf.children().size():
        leaf = leaf.children().apply(0)
    return int(leaf.metrics().apply("numFiles").value())


@pytest.mark.parametrize("policy", ["v2", "classic"])
@pytest.mark.soak("13 s of turns with delta-spark; what they hold is compared in tests/unit/log for both", ci=True)
def test_statistics_as_structs_alone(spark: SparkSession, table_path: str, policy: str) -> None:
    """All readers take them; delta-spark counts rows, skips files and goes on with them."""
    rows = spark.sql("SELECT id, id % 2 AS p, id * 1.5 AS v, timestamp_micros(id) AS t, named_struct('a', id) AS st, string(id) AS s FROM range(0, 6, 1, 1)")
    properties = {f"delta.checkpoint.writeStatsAs{form}": said for form, said in (("Struct", "true"), ("Json", "false"))}
    rowlock.write(rows, table_path, partition_by="p", properties={"delta.checkpointPolicy": policy, "delta.checkpointInterval": "2", **properties})
    rowlock.write(rows.selectExpr("id + 10 AS id", "p", "v", "t", "st", "s"), table_path)
    DeltaTable.forPath(spark, table_path).delete("id = 1")
    without_commits(table_path, 2)
    assert len(rows_by_all(spark, table_path)) == 11
    theirs = spark.read.format("delta").load(table_path)
    assert theirs.count() == 11 and theirs.where("id >= 10 AND p = 1").count() == 3
    assert files_read(theirs.where("id >= 10")) == 2 < files_read(theirs), "by the bounds"
    sql(spark, table_path, "INSERT INTO T VALUES (30, 1, 1.5, NULL, NULL, 'x')", "UPDATE T SET id = 40 WHERE id = 4")
    assert len(rows_by_all(spark, table_path)) == 12
