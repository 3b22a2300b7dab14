"""Of rows with long values fewer come to the driver: the others are left to Spark, and what is sent to the JVM is cut to pieces that it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import rowlock
from rowlock import DeltaTable
from rowlock.engines.spark.catalyst import bridge
from rowlock.engines.spark.read.scan import local_frame
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


def test_rows_are_sent_to_the_jvm_in_pieces(spark: SparkSession, monkeypatch: Any) -> None:
    """py4j takes no value of 256 MB."""
    rows = pa.table({"id": list(range(100)), "t": ["x" * n for n in range(100)]})
    whole = local_frame(spark, rows).collect()
    monkeypatch.setattr(bridge, "_SENT_BYTES", 500)
    assert 1 <= bridge.rows_at_once(rows) < 20
    assert local_frame(spark, rows).collect() == whole
    assert bridge.rows_at_once(rows.slice(0, 0)) == 1
