"""A table on S3, from its making to its reading, through Spark; run as a process of its own, whose JVM has the s3a connector.

Prints one line of JSON: what each step found.  usage: on_s3.py ROOT [--short | --session | --several], with storage options as JSON on standard input.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def main(root: str, options: dict[str, str], short: bool) -> dict[str, Any]:
    import rowlock
    from rowlock import DeltaTable

    spark = rowlock.spark(cores=2, memory_mb=1024, stores=["s3"])
    found: dict[str, Any] = {}
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    DeltaTable.create(spark).location(root, storage_options=options).addColumn("id", "BIGINT", nullable=False).addColumn("v", "BIGINT").addColumn(
        "p", "STRING"
    ).partitionedBy("p").execute()
    found["is there"] = DeltaTable.isDeltaTable(spark, root, storage_options=options)
    rows = spark.range(1000).selectExpr("id", "id * 10 as v", "case when id % 2 = 0 then 'a b' else 'c%d' end as p")
    found["append"] = rowlock.write(rows, root, storage_options=options).version
    table = DeltaTable.forPath(spark, root.replace("s3://", "s3a://"), storage_options=options)
    table.update("id < 10", {"v": "v + 1"})
    table.delete("id >= 990")
    source = spark.range(985, 1005).selectExpr("id", "-id as v", "'new' as p")
    table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdate(set={"v": "s.v"}).whenNotMatchedInsertAll().execute()
    found["merge"] = table.lastReceipt.version
    if short:
        found["count"] = rowlock.read(spark, root, storage_options=options).count()
        spark.stop()
        return found
    for n in range(3):
        rowlock.write(spark.range(2000 + n, 2001 + n).selectExpr("id", "id as v", "'x' as p"), root, storage_options=options)
    big = spark.range(0, 1000).selectExpr("id", "id as v", "'big' as p").unionAll(spark.range(3000, 253000).selectExpr("id", "id as v", "'big' as p"))
    table.alias("t").merge(big.alias("s"), "t.id = s.id AND t.id < 5").whenMatchedUpdate(set={"v": "t.v"}).whenNotMatchedInsert(
        condition="s.id >= 3000", values={"id": "s.id", "v": "s.v", "p": "s.p"}
    ).execute()
    table.optimize().executeCompaction()
    with table.transaction() as txn:
        txn.update("id = 20", {"v": "7"})
        found["in the transaction"] = txn.toDF().where("id = 20").first().v
    frame = rowlock.read(spark, root, storage_options=options)
    found["count"] = frame.count()
    found["sum"] = frame.where("id < 3000").selectExpr("sum(v)").first()[0]
    found["by partition"] = {r.p: r["count"] for r in frame.where("id < 3000").groupBy("p").count().collect()}
    found["old"] = rowlock.read(spark, root, version=1, storage_options=options).count()
    found["history"] = [r.operation for r in table.history().collect()]
    found["reads the table"] = _sees_itself(rowlock, spark, table, root, options)
    shown = (
        " ".join(f"{k}={v}" for k, v in spark.sparkContext.getConf().getAll())
        + str(spark.sql("SET").collect())
        + str(spark.sparkContext._jsc.hadoopConfiguration().get("fs.s3a.bucket.tables.secret.key"))
    )
    found["shows the secret"] = options["AWS_SECRET_ACCESS_KEY"] in shown
    spark.stop()
    return found


def by_settings_of_the_session(root: str, options: dict[str, str]) -> dict[str, Any]:
    """Statements on a session that has the store's address and keys in its own settings, as a cluster's has, and nothing else that knows them."""
    import pyarrow as pa
    from pyspark.sql import SparkSession

    import rowlock
    from rowlock.engines.spark.session.clouds import connectors
    from rowlock.engines.spark.session.java import ensure_java, resolving
    from rowlock.engines.spark.session.session import local_settings

    ensure_java()
    s3a = {"endpoint": "AWS_ENDPOINT_URL", "endpoint.region": "AWS_REGION", "access.key": "AWS_ACCESS_KEY_ID", "secret.key": "AWS_SECRET_ACCESS_KEY"}
    settings = local_settings(cores=2, memory_mb=1024) | connectors(["s3"]) | {f"spark.hadoop.fs.s3a.{name}": options[key] for name, key in s3a.items()}
    builder = SparkSession.builder
    for name, value in (settings | {"spark.hadoop.fs.s3a.path.style.access": "true"}).items():
        builder = builder.config(name, value)
    with resolving(settings):
        spark = rowlock.enable(builder.getOrCreate())
    place = root.replace("s3://", "s3a://")
    spark.sql(f"CREATE TABLE delta.`{place}` USING delta AS SELECT id, id AS n FROM range(1000)")
    spark.sql(f"UPDATE delta.`{place}` SET n = n + 1 WHERE id < 4")
    spark.sql(f"MERGE INTO delta.`{place}` t USING (SELECT 1L AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = t.n + 2")
    found: dict[str, Any] = {"sql": [list(row) for row in spark.sql(f"SELECT count(*), sum(n) FROM delta.`{place}`").collect()]}
    rowlock.append(place, pa.table({"id": [1000], "n": [0]}))
    found["append"] = spark.read.format("delta").load(place).count()
    spark.stop()
    return found


def over_several_tables(root: str, options: dict[str, str]) -> dict[str, Any]:
    """Transactions over two tables under one arbiter, by the public calls alone."""
    import pyarrow as pa

    import rowlock
    from rowlock import DeltaTable

    spark = rowlock.spark(cores=2, memory_mb=1024, stores=["s3"])
    rowlock.append(f"{root}/orders", pa.table({"id": [1], "sku": [7]}), storage_options=options)
    rowlock.append(f"{root}/stock", pa.table({"sku": [7, 8], "n": [5, 5]}), storage_options=options)
    orders = DeltaTable.forPath(spark, f"{root}/orders".replace("s3://", "s3a://"), storage_options=options)
    stock = DeltaTable.forPath(spark, f"{root}/stock", storage_options=options)
    with rowlock.transaction([orders, stock]) as txn:
        txn[stock].update("sku = 7", {"n": "n - 1"})
        txn[orders].append(txn[stock].toDF().where("sku = 7").selectExpr("2L AS id", "sku"))
    found: dict[str, Any] = {"versions": sorted(txn.receipt.versions.values())}
    a, b = rowlock.read_together([orders, stock])
    found["rows"] = [a.count(), b.agg({"n": "sum"}).first()[0]]

    def sell(txn: Any) -> None:
        txn.sql(f"UPDATE delta.`{root}/stock` SET n = n - 1 WHERE sku = 8".replace("s3://", "s3a://"))
        txn.sql(f"INSERT INTO delta.`{root}/orders` SELECT 3, sku FROM delta.`{root}/stock` WHERE n = 4 AND sku = 8".replace("s3://", "s3a://"))

    found["run"] = sorted(rowlock.run([orders, stock], sell).versions.values())
    found["after"] = [rowlock.read(spark, f"{root}/{name}", storage_options=options).count() for name in ("orders", "stock")]
    spark.stop()
    return found


def _sees_itself(rowlock: Any, spark: Any, table: Any, root: str, options: dict[str, str]) -> bool:
    """A source that reads the target is known as such, under Spark's name for the folder."""
    from rowlock.engines.spark.statements.sources import versions_read

    evaluator = table._handle.engine.evaluator
    return versions_read(evaluator, rowlock.read(spark, root, storage_options=options), 99) != ()


if __name__ == "__main__":
    given = json.load(sys.stdin)
    other = {"--session": by_settings_of_the_session, "--several": over_several_tables}
    step = next((step for name, step in other.items() if name in sys.argv), None)
    print(json.dumps(step(sys.argv[1], given) if step else main(sys.argv[1], given, "--short" in sys.argv)))
