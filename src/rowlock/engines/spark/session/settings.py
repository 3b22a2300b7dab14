"""Clones the user's session and adds the settings that Rowlock's reads and writes need.

A clone has the user's temporary views, functions and settings of that moment and a conf of its own; the user's session is
never changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from rowlock.engines.spark.catalyst.bridge import catalyst

_SETTINGS = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.parquet.fieldId.read.ignoreMissing": "true",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    "spark.sql.files.openCostInBytes": "65536",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.execution.arrow.localRelationThreshold": str(512 * 1024 * 1024),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.readSideCharPadding": "true",  # as rows are read on the driver
    "spark.sql.maxPlanStringLength": "4096",
    "spark.rowlock.internal": "true",  # what runs here is Rowlock's own work: the guard of `rowlock.enable` lets it pass
}


def cloned_session(spark: SparkSession, more: Mapping[str, str] | None = None, name: str = "") -> Any:
    """A JVM session with the user's views and functions, Rowlock's settings and `more`, which must be the same for the same `name`.

    About 2 ms; driver only.
    """
    session = spark._jsparkSession.cloneSession()
    session.sessionState().conf().setConf(catalyst(spark).properties("rowlock settings", _SETTINGS))
    if more:
        session.sessionState().conf().setConf(catalyst(spark).properties(f"settings of {name}", dict(more)))
    return session
