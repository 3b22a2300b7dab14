"""Of rows with long values fewer come to the driver: the others are left to Spark, and what is sent to the JVM is cut to pieces that it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Observation, SparkSession, functions as F

import rowlock
from rowlock import DeltaTable
from rowlock.engines.spark import driver_rows
from rowlock.engines.spark.catalyst import bridge
from rowlock.engines.spark.catalyst.bridge import to_arrow
from rowlock.engines.spark.driver_rows import first_if_small
from rowlock.engines.spark.read.scan import in_jvm, local_frame
from rowlock.engines.spark.statements.sources import pin
from spark.support import read, set_limits
from support.turning_down import turn_down

pytestmark = pytest.mark.spark
ROWS, LONG = 60, 1_000


def merge(on: str) -> Callable[[DeltaTable, SparkSession], object]:
    def run(table: DeltaTable, spark: SparkSession) -> object:
        source = spark.range(50, 70).selectExpr("id", "id * 2 AS v", f"repeat('s', {LONG}) AS t")
        return table.alias("t").merge(source.alias("s"), on).whenMatchedUpdate(set={"v": "s.v"}).whenNotMatchedInsertAll().execute()

    return run


STATEMENTS: dict[str, Callable[[DeltaTable, SparkSession], object]] = {
    "UPDATE": lambda table, _: table.update("id < 40", {"v": "v + 1"}),
    "UPDATE by a function": lambda table, _: table.update("pmod(hash(id), 4) < 2 AND length(t) > 3", {"v": "v + 1", "t": "upper(t)"}),
    "UPDATE of all": lambda table, _: table.update(set={"t": "reverse(t)"}),
    "DELETE": lambda table, _: table.delete("id % 3 = 1 AND t LIKE '%1'"),
    "MERGE": merge("t.id = s.id"),
    "MERGE without keys": merge("t.id BETWEEN s.id AND s.id"),
    "MERGE by a key of few values": merge("t.id % 2 = s.id % 2 AND t.id >= s.id AND t.id <= s.id"),
}


@pytest.mark.parametrize("files", ["small", "large"])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_rows_of_many_bytes_are_left_to_spark(spark: SparkSession, table_path: str, monkeypatch: Any, statement: str, files: str) -> None:
    """I3: with the same rows as where all come to the driver."""
    outcomes = []
    for name, most in (("few", 10_000), ("all", 1 << 26)):
        path = f"{table_path}-{name}"
        for half in range(2):
            ids = range(half * ROWS // 2, (half + 1) * ROWS // 2)
            rowlock.append(path, pa.table({"id": list(ids), "v": [0] * len(ids), "t": [(str(n) * LONG)[:LONG] for n in ids]}))
        if files == "large":
            set_limits(monkeypatch, small=1_000, local=0)
        turn_down(monkeypatch, driver_bytes=most)
        table = DeltaTable.forPath(spark, path)
        STATEMENTS[statement](table, spark)
        monkeypatch.undo()
        receipt = table.lastReceipt
        assert receipt is not None
        outcomes.append((sorted(map(tuple, read(spark, path))), {k: v for k, v in receipt.metrics.items() if "Rows" in k}))
        assert name == "all" or statement == "DELETE" or any("Spark" in way for way in receipt.ways), receipt.ways
    assert outcomes[0] == outcomes[1]


def test_what_spark_does_not_hand_over_stays_with_spark(spark: SparkSession, table_path: str, monkeypatch: Any) -> None:
    """I3: a source, rows of an append and pairs of a MERGE of more than `spark.driver.maxResultSize` are not collected."""
    source = spark.range(1_000, 3_000, numPartitions=1).selectExpr("id", "sha2(CAST(id AS STRING), 512) AS t")
    source.write.parquet(f"{table_path}-source")
    source = spark.read.parquet(f"{table_path}-source")
    rowlock.append(table_path, pa.table({"id": list(range(2_000)), "t": ["x"] * 2_000}))
    table, conf = DeltaTable.forPath(spark, table_path), spark.sparkContext._jsc.sc().conf()
    set_limits(monkeypatch, small=100_000, local=0)
    before = conf.get("spark.driver.maxResultSize", "1g")
    conf.set("spark.driver.maxResultSize", "100k")  # Spark looks at it anew for each stage
    try:
        with pytest.raises(Exception, match="maxResultSize"):
            source.toArrow()
        table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
        turn_down(monkeypatch, held_source_bytes=1 << 30)
        table.update("id >= 500", {"t": "concat(t, 'y')"})
        rowlock.write(source.limit(1_500), table_path, mode="append")
    finally:
        conf.set("spark.driver.maxResultSize", before)
    found = read(spark, table_path)
    assert len(found) == 4_500
    assert sum(len(t) for _, t in found) == 1_000 + 500 + 2_000 * 129 + 1_500 * 128


LONG_VALUES = {
    "text": "repeat('x', 1000)",
    "binary": "CAST(repeat('x', 1000) AS BINARY)",
    "struct": "IF(id = 3, NULL, named_struct('a', 1, 'b', repeat('x', 1000)))",
    "texts": "array(repeat('x', 500), NULL, repeat('y', 500))",
    "collated": "array(repeat('x', 1000) COLLATE UTF8_LCASE)",
    "numbers": "array_repeat(1.5D, 125)",
    "structs": "array_repeat(named_struct('a', repeat('x', 100)), 10)",
    "map": "map('k', repeat('x', 1000))",
    "variant": "parse_json(concat('[\"', repeat('x', 1000), '\"]'))",
}


def test_a_task_stops_where_its_rows_are_too_many_bytes(spark: SparkSession, monkeypatch: Any) -> None:
    """The JVM has not the memory for them, and how many they are is not known before."""
    rows = spark.range(0, 3_000, numPartitions=3).selectExpr("id", *(f"{value} AS {name}" for name, value in LONG_VALUES.items()))
    came = watched(monkeypatch)
    assert first_if_small(rows, 500) == to_arrow(rows.limit(500)) and came.pop().num_rows == 500
    turn_down(monkeypatch, driver_bytes=50_000)
    for name in LONG_VALUES:
        assert first_if_small(rows.select("id", name), 2_000) is None and 40 < came.pop().num_rows < 60, name
    turn_down(monkeypatch, driver_bytes=50_000, append_driver_bytes=1_000)
    assert first_if_small(rows.localCheckpoint(), 2_000) is None and came.pop().num_rows < 60, "rows that executors hold, as a stream's batches are"
    few = in_jvm(spark).within(rows._jdf, 2_000, 50_000, 0).queryExecution().executedPlan().toString()
    assert "CollectLimit" in few and "Exchange" not in few, "a stage of its own takes longer than all of a small MERGE"
    assert spark.sql("SELECT count(*) AS n FROM (SELECT * FROM range(9) LIMIT 7)").first().n == 7, "a plan of no column over a limit"
    for plain in (rows.select("id"), spark.createDataFrame([(1, "x" * 100)], "id int, t string")):
        assert "Filter" not in in_jvm(spark).within(plain._jdf, 2_000, 50, 0).queryExecution().executedPlan().toString()


def watched(monkeypatch: Any) -> list[pa.Table]:
    """The tables of rows that come to the driver, from now on."""
    came: list[pa.Table] = []
    monkeypatch.setattr(driver_rows, "to_arrow", lambda df: (came.append(to_arrow(df)), came[-1])[1])
    return came


def test_what_comes_to_the_driver_before_its_size_is_known(spark: SparkSession, table_path: str, monkeypatch: Any) -> None:
    """A MERGE of 600 MB of texts, 10 kB each, ended a JVM of 1 GB: its source was collected, and then found to be too large."""
    rowlock.append(table_path, pa.table({"id": list(range(100)), "v": [0] * 100, "t": ["x"] * 100}))
    table, came = DeltaTable.forPath(spark, table_path), watched(monkeypatch)
    turn_down(monkeypatch, driver_bytes=50_000)
    source = spark.range(0, 3_000, numPartitions=3).selectExpr("id", "1L AS v", "repeat('x', 1000) AS t")
    seen = Observation("source")
    merging = source.observe(seen, F.count("*").alias("rows"))
    table.alias("t").merge(merging.alias("s"), "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert seen.get["rows"] > 0, "what observes a source is told"
    rowlock.write(source.limit(1_000), table_path, mode="append")
    assert came and max(rows.nbytes for rows in came) < 100_000
    assert [len(t) for _, _, t in read(spark, table_path)] == [1_000] * 4_000
    many = spark.range(2_000).selectExpr(*(f"id AS c{n}" for n in range(20)))
    evaluator = table._handle.planner.evaluator
    (pinned := pin(evaluator, many)).release(evaluator)
    assert pinned.num_rows == 2_000 and pinned.table is None and came[-1].num_rows == 1 + 50_000 // 160


def test_rows_that_a_condition_excludes_are_not_sent_to_the_jvm(spark: SparkSession, table_path: str, monkeypatch: Any) -> None:
    """They would go there with all their columns, of which there may be a thousand."""
    rowlock.append(table_path, pa.table({"id": list(range(100)), "v": [0] * 100}))
    table, sent, evaluate = DeltaTable.forPath(spark, table_path), [], driver_rows.evaluate
    monkeypatch.setattr(driver_rows, "evaluate", lambda evaluator, rows, *more: (sent.append(rows.num_rows), evaluate(evaluator, rows, *more))[1])
    table.update("id = 7", {"v": "1"})
    table.delete("id >= 98 AND v = 0")
    table.delete("id = 200")
    assert sent == [1, 2] and len(read(spark, table_path)) == 98


def test_rows_are_sent_to_the_jvm_in_pieces(spark: SparkSession, monkeypatch: Any) -> None:
    """py4j takes no value of 256 MB."""
    rows = pa.table({"id": list(range(100)), "t": ["x" * n for n in range(100)]})
    whole = local_frame(spark, rows).collect()
    monkeypatch.setattr(bridge, "_SENT_BYTES", 500)
    assert 1 <= bridge.rows_at_once(rows) < 20
    assert local_frame(spark, rows).collect() == whole
    assert bridge.rows_at_once(rows.slice(0, 0)) == 1
