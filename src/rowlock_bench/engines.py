"""The engines that are measured on Spark, each with its own session: Rowlock, delta-spark (extra `test`), plain Parquet files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

ROWLOCK, DELTA_SPARK, PARQUET = "rowlock", "delta-spark", "parquet"
_DELTA_SPARK = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",  # its default of 50 costs a small machine much
}


@dataclass(frozen=True, slots=True)
class Engine:
    """How an engine makes a session (cores=, memory_mb=, shuffle_partitions=), appends a frame, reads a table; its DeltaTable class, None for plain files."""

    name: str
    session: Callable[..., Any]
    write: Callable[[Any, str], object]
    read: Callable[[Any, str], Any]
    table_class: Any | None


def engine(name: str) -> Engine:
    """The engine of that name.  Imports what it needs."""
    import rowlock

    if name == ROWLOCK:
        return Engine(name, _session, lambda rows, path: rowlock.write(rows, path, mode="append"), rowlock.read, rowlock.DeltaTable)
    if name == PARQUET:
        return Engine(name, _session, lambda rows, path: rows.write.parquet(path), lambda spark, path: spark.read.parquet(path), None)
    from delta.tables import DeltaTable

    def write(rows: Any, path: str) -> None:
        rows.write.format("delta").option("delta.enableDeletionVectors", "true").mode("append").save(path)

    return Engine(name, delta_session, write, lambda spark, path: spark.read.format("delta").load(path), DeltaTable)


def _session(*, cores: int, memory_mb: int, shuffle_partitions: int = 0) -> Any:
    import rowlock

    spark = rowlock.spark(cores=cores, memory_mb=memory_mb)
    if shuffle_partitions:
        spark.conf.set("spark.sql.shuffle.partitions", str(shuffle_partitions))
    return spark


def delta_session(*, cores: int, memory_mb: int, shuffle_partitions: int = 0) -> Any:
    """A local session with delta-spark in it."""
    from delta import configure_spark_with_delta_pip
    from pyspark.sql import SparkSession

    from rowlock.engines.spark.session.java import ensure_java
    from rowlock.engines.spark.session.session import local_settings

    ensure_java()
    settings = local_settings(cores=cores, memory_mb=memory_mb) | _DELTA_SPARK
    if shuffle_partitions:
        settings["spark.sql.shuffle.partitions"] = str(shuffle_partitions)
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = configure_spark_with_delta_pip(builder).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark
