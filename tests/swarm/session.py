"""A Spark session for runs outside of pytest, as conftest.py makes it, delta-spark in it."""

from __future__ import annotations

import os
import sys
from typing import Any


def spark_session() -> Any:
    """One local session of two cores."""
    from rowlock.spark.java import ensure_java
    from rowlock.spark.session import local_settings

    ensure_java()
    os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from delta import configure_spark_with_delta_pip
    from pyspark.sql import SparkSession

    settings = local_settings(cores=2, memory_mb=1536) | {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.databricks.delta.delta.log.cacheSize": "20",
        "spark.sql.ui.retainedExecutions": "20",
        "spark.app.name": "rowlock swarm",
    }
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = configure_spark_with_delta_pip(builder).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
