"""Sources that read the target are known as such, by whatever way their rows come (I3); others are pinned and cost no conflict."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession, functions as F

import rowlock
from rowlock import DeltaTable
from rowlock.engines.spark.statements.sources import frame_of_now, table_reads, versions_read
from rowlock.exceptions import ConcurrentDeleteReadException
from spark.support import make, winner

pytestmark = pytest.mark.spark
SCHEMA = "id int, v int"


def test_what_is_seen_of_a_source_and_what_is_not(spark: SparkSession, table_path: str, tmp_path: Path) -> None:
    """See docs/transactions.md, which lists the same."""
    table = make(spark, table_path, [(n, n) for n in range(20)], SCHEMA, files=2)
    table.delete("id = 3")
    other = make(spark, str(tmp_path / "other"), [(1, 1)], SCHEMA)
    (tmp_path / "link").symlink_to(table_path)
    (tmp_path / "folder").symlink_to(tmp_path)
    frame, schema = table.toDF(), table.toDF().schema

    def of_rows(of: DataFrame) -> DataFrame:
        return spark.createDataFrame(of.rdd, schema)

    seen = {
        "the table": frame,
        "an RDD": of_rows(frame),
        "an RDD that was changed": spark.createDataFrame(frame.rdd.map(lambda r: (r[0] + 1, r[1])).filter(lambda r: r[0] > 0), schema),
        "an RDD that was shuffled": spark.createDataFrame(frame.rdd.map(lambda r: (r[0], r[1])).reduceByKey(lambda a, b: a + b), schema),
        "an aggregate's RDD": of_rows(frame.groupBy("id").sum("v").selectExpr("id", "cast(id as int) v")),
        "a union of RDDs": spark.createDataFrame(other.toDF().rdd.union(frame.rdd), schema),
        "a kept RDD": spark.createDataFrame(frame.rdd.cache(), schema),
        "JSON of it": spark.read.schema(schema).json(frame.toJSON()),
        "a checkpoint that is not made yet": frame.localCheckpoint(eager=False),
        "a link": rowlock.read(spark, str(tmp_path / "link")),
        "a link above": spark.read.format("delta").load(str(tmp_path / "folder" / "table")),
        "an RDD through a link": of_rows(rowlock.read(spark, str(tmp_path / "link"))),
    }
    unseen = {
        "another table": other.toDF(),
        "another table's RDD": of_rows(other.toDF()),
        "rows": spark.createDataFrame([(1, 1)], schema),
        "rows that were collected": spark.createDataFrame(frame.collect(), schema),
        "a checkpoint": frame.localCheckpoint(),
    }
    for evaluator in (table._handle.engine.evaluator, DeltaTable.forPath(spark, str(tmp_path / "link"))._handle.engine.evaluator):
        assert {name for name, source in seen.items() if not versions_read(evaluator, source, 1)} == set()
        assert {name for name, source in unseen.items() if versions_read(evaluator, source, 1)} == set()


def test_rows_by_an_rdd_are_validated(spark: SparkSession, table_path: str) -> None:
    """I3: what the append was derived from changed while it was staged, so it is no blind append that ignores it."""
    table = make(spark, table_path, [(1, 1)], SCHEMA)
    receipt = rowlock.write(spark.createDataFrame(table.toDF().rdd, table.toDF().schema), table_path)
    info = table._handle.state.log.read_commit(receipt.version).info
    assert info is not None and info.raw["isBlindAppend"] is False


def test_versions_that_the_caller_named_are_right_whatever_the_table_has_become(spark: SparkSession, table_path: str) -> None:
    table = make(spark, table_path, [(1, 1), (2, 2)], SCHEMA, **{"delta.enableRowTracking": "true"})
    before = table.history(1).first()["version"]
    table.delete("id = 1")
    named = {
        "a version": rowlock.read(spark, table_path, version=before),
        "a time": rowlock.read(spark, table_path, timestamp=table.history(1).first()["timestamp"]),
        "a part of it": rowlock.read(spark, table_path, version=before).where("id = 1").selectExpr("id", "v + 1 as v"),
        "with row ids": rowlock.read(spark, table_path, version=before, with_row_ids=True).drop("_row_id", "_row_commit_version"),
    }
    newest = rowlock.read(spark, table_path)
    assert {name for name, source in named.items() if versions_read(table._handle.engine.evaluator, source, before + 1)} == set()
    assert versions_read(table._handle.engine.evaluator, newest.unionAll(named["a version"]), before) == (before + 1,)
    table.delete("id = 2")
    rowlock.write(named["a version"].where("id = 1"), table_path)
    table.alias("t").merge(named["a version"].alias("s"), "t.id = s.id").whenNotMatchedInsertAll().execute()
    assert sorted(tuple(r) for r in table.toDF().collect()) == [(1, 1), (2, 2)]


def test_what_a_plan_reads_of_the_table(spark: SparkSession, table_path: str) -> None:
    """I3: where it cannot be told which rows count, all of them do."""
    table = make(spark, table_path, [(1, 1, {"a": 1})], "id int, v int, s struct<a: int>")
    t, newest = table.toDF(), table._handle.state.refresh()
    kept = t.where("id = 4").cache()
    kept.count()
    some = {
        "a condition": t.where("id = 4"),
        "one of two": t.where("id = 4 or s.a = 3 and rand() >= 0"),
        "below an aggregate": t.where("id = 4").groupBy("v").count(),
        "a window over its partitions": t.selectExpr("id", "max(v) over (partition by id) m").where("id = 4"),
        "both sides of a join": t.where("id = 4").alias("a").crossJoin(t.where("v = 5").alias("b")),
        "what is not to be there": spark.range(3).selectExpr("id as n").join(t.where("id = 4"), F.expr("n = v"), "left_anti"),
        "rows that are cut": t.where("id = 4").limit(1),
    }
    whole = {
        "no condition": t,
        "a condition on what comes out": t.limit(5).where("id = 4"),
        "one side of a join": t.where("id = 4").alias("a").crossJoin(t.alias("b")),
        "cached rows": kept,
        "rows that were cached": t.where("id = 4").select("v"),
        "now": t.where("id = 4 and current_timestamp() > '2020-01-01'"),
        "by chance": t.where("rand() < 2"),
        "an RDD": spark.createDataFrame(t.where("id = 4").rdd, t.schema),
        "another engine": spark.read.format("delta").load(table_path).where("id = 4"),
    }

    def reads(frame: DataFrame) -> list[bool]:
        return [r.where is not None and r.rows is not None for r in table_reads(table._handle.engine.evaluator, frame_of_now(frame), newest)]

    try:
        assert {name for name, frame in whole.items() if all(reads(frame))} == set()
        kept.unpersist()
        assert {name for name, frame in some.items() if not reads(frame) or not all(reads(frame))} == set()
        assert len(reads(some["both sides of a join"])) == 2
    finally:
        kept.unpersist()


def test_a_frame_that_stays_at_its_version_is_not_read_again(spark: SparkSession, table_path: str) -> None:
    """I3: a statement whose source others changed runs again only where its source is read anew."""
    table = make(spark, table_path, [(n, n) for n in range(9)], SCHEMA)
    fixed = table.toDF().where("id < 4").selectExpr("id", "v + 1 as v")
    with winner(lambda: table.update("id = 3", {"v": "30"})), pytest.raises(ConcurrentDeleteReadException, match="were read from this table at version 1"):
        rowlock.write(fixed, table_path)


def test_scalar_subqueries_are_computed_again_where_what_they_read_has_changed(spark: SparkSession, table_path: str) -> None:
    """I3: the value of a subquery of UPDATE and MERGE is that of the version right before the statement's own; a new table of a table's own rows has all of them."""
    table = make(spark, table_path, [(1, 1), (2, 2)], "id INT, v INT")
    most, named = f"(SELECT max(v) + 1 FROM delta.`{table_path}`)", f"delta.`{table_path}`"
    statements = (
        f"UPDATE {named} SET v = {most} WHERE id = 1",
        f"MERGE INTO {named} AS t USING (SELECT 1 AS k) s ON t.id = s.k WHEN MATCHED THEN UPDATE SET v = {most} WHEN NOT MATCHED THEN INSERT (id, v) VALUES (k, 0)",
    )
    for n, statement in enumerate(statements):
        with winner(lambda n=n: table.update("id = 2", {"v": f"{n}10"})):
            rowlock.sql(spark, statement)
        assert sorted(table.toDF().collect()) == [(1, n * 100 + 11), (2, n * 100 + 10)]
