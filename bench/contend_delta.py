"""delta-spark as a contender of rowlock.cli.contend: the same scenario, delta-spark's own session and DeltaTable.

Started by `rowlock bench`.  Needs the package delta-spark (the extra `test`); its JARs come from Maven Central the
first time.
"""

from __future__ import annotations

import sys

from delta import configure_spark_with_delta_pip
from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from rowlock.cli.contend import Engine, main
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
    )
    spark = configure_spark_with_delta_pip(builder).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


main(
    Engine(
        name="delta-spark",
        session=session,
        table_class=lambda: DeltaTable,
        append=lambda rows, path: rows.write.format("delta").mode("append").save(path),
        read=lambda spark, path: spark.read.format("delta").load(path),
        command=(sys.executable, __file__),
    )
)
