"""The session of a driver on the tests' cluster: executors in other processes, dynamic allocation, speculation, tables on S3."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOW_LIMITS = {
    "DRIVER_ROWS": "1000",
    "LOCAL_ROWS": "0",
    "INSPECTED_ROWS": "0",
    "MASKED_ROWS": "0",
    "APPEND_DRIVER_BYTES": "0",
    "SINGLE_TASK_BYTES": "0",
    "BROADCAST_SOURCE_BYTES": "0",
}
"""Limits under which the statements of the tests run on executors, as those of large tables do."""


def environment(storage_options: Mapping[str, str], *, low_limits: bool = True) -> dict[str, str]:
    """What a driver's process must have in its environment."""
    limits = {f"ROWLOCK_LIMITS_{name}": value for name, value in LOW_LIMITS.items()} if low_limits else {}
    return {**os.environ, **storage_options, **limits, "PYSPARK_PYTHON": sys.executable}


def cluster_session(master: str, name: str, scratch: Path, *, cores: int = 4, more: Mapping[str, str] | None = None) -> SparkSession:
    """A session with Rowlock enabled whose executors the cluster starts when there is work for them, and which runs slow tasks twice."""
    from pyspark.sql import SparkSession

    import rowlock
    from rowlock.engines.spark.session.clouds import connectors
    from rowlock.engines.spark.session.java import ensure_java, resolving
    from rowlock.engines.spark.session.session import local_settings

    ensure_java()
    settings = local_settings(cores=cores, memory_mb=1024) | {
        "spark.master": master,
        "spark.app.name": name,
        "spark.cores.max": str(cores),
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.task.maxFailures": "8",
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.minExecutors": "1",
        "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
        "spark.dynamicAllocation.executorIdleTimeout": "10s",
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "2",
        "spark.speculation.minTaskRuntime": "500ms",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        **connectors(["s3"]),
        **(more or {}),
    }
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    with resolving(settings):
        session: SparkSession = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return rowlock.enable(session)
