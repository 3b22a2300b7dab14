"""delta-spark as an engine of rowlock.cli.large_statements: the same scenario, delta-spark's own session and DeltaTable.

Started by `rowlock bench --large`.  Needs the package delta-spark (the extra `test`); its JARs come from Maven Central the first time.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from delta import configure_spark_with_delta_pip
from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from rowlock.cli.large_statements import LargeEngine, main
from rowlock.engines.spark.session.java import ensure_java
from rowlock.engines.spark.session.session import local_settings


def session(*, cores: int, memory_mb: int) -> SparkSession:
    ensure_java()
    builder = SparkSession.builder
    for name, value in local_settings(cores=cores, memory_mb=memory_mb).items():
        builder = builder.config(name, value)
    builder = (
        builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.databricks.delta.snapshotPartitions", "2")  # its default of 50 costs a small machine much
        .config("spark.sql.shuffle.partitions", str(2 * cores))
    )
    spark = configure_spark_with_delta_pip(builder).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def write(rows: Any, path: str) -> None:
    rows.write.format("delta").option("delta.enableDeletionVectors", "true").mode("append").save(path)


main(LargeEngine("delta-spark", session, write, lambda spark, path: spark.read.format("delta").load(path), lambda: DeltaTable), json.loads(sys.argv[1]))
