"""The session of delta-spark that the programs beside this one run on."""

from __future__ import annotations

from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession

from rowlock.engines.spark.session.java import ensure_java
from rowlock.engines.spark.session.session import local_settings

_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",  # its default of 50 costs a small machine much
}


def session(*, cores: int, memory_mb: int, shuffle_partitions: int | None = None) -> SparkSession:
    """A local session with delta-spark in it; `shuffle_partitions` instead of one for each core."""
    ensure_java()
    settings = local_settings(cores=cores, memory_mb=memory_mb) | _SETTINGS
    if shuffle_partitions is not None:
        settings["spark.sql.shuffle.partitions"] = str(shuffle_partitions)
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = configure_spark_with_delta_pip(builder).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark
