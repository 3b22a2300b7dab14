"""The settings that Rowlock's reads and writes need, in a clone of the user's session.

A clone has the user's temporary views, functions and settings of that moment and a conf of its own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from pyspark.sql import SparkSession

from rowlock.engines.spark.catalyst.bridge import catalyst
from rowlock.engines.spark.catalyst.versions import SCANS
from rowlock.engines.spark.session.connect import jvm_is_alive
from rowlock.protocol.session_settings import SETTINGS

_SETTINGS = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.parquet.fieldId.write.enabled": "true",
    "spark.sql.parquet.fieldId.read.ignoreMissing": "true",
    # By algorithm 2 the files of a try that was lost midway are there beside those of the next, and a late try replaces files that were looked at.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    "spark.sql.sources.commitProtocolClass": "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol",
    "spark.sql.parquet.output.committer.class": "org.apache.parquet.hadoop.ParquetOutputCommitter",
    "spark.sql.files.openCostInBytes": "65536",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.execution.arrow.localRelationThreshold": str(512 * 1024 * 1024),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    **SCANS,
    "spark.sql.readSideCharPadding": "true",  # as rows are read on the driver
    "spark.sql.maxPlanStringLength": "4096",
    "spark.rowlock.internal": "true",  # what runs here is Rowlock's own work: the guard of `rowlock.enable` lets it pass
}


_NOT_FIXED = object()
FIXED: ContextVar[Any] = ContextVar("the variables that the statement of this call sees", default=_NOT_FIXED)


def cloned_session(spark: SparkSession, more: Mapping[str, str] | None = None, name: str = "", *, variables: bool = False) -> Any:
    """A JVM session with the user's views and functions, Rowlock's settings and `more`, which must be the same for the same `name`.

    With `variables` it has those of the user's session, too (DECLARE VARIABLE), which Spark leaves out of a clone: what a table's own expressions are
    resolved on must not have them.  About 2 ms; driver only.
    """
    bridge, session = catalyst(spark), spark._jsparkSession.cloneSession()
    session.sessionState().conf().setConf(bridge.properties("rowlock settings", _SETTINGS))
    if more:
        session.sessionState().conf().setConf(bridge.properties(f"settings of {name}", dict(more)))
    if variables:
        held = variables_of(spark) if FIXED.get() is _NOT_FIXED else FIXED.get()
        if held is not None:
            bridge.variables_in(session.sessionState().catalogManager().tempVariableManager()).addAll(held)
    return session


def variables_of(spark: SparkSession) -> Any:
    """The variables of a session by name, as they are now; None where there are none."""
    manager = spark._jsparkSession.sessionState().catalogManager().tempVariableManager()
    return None if manager.isEmpty() else catalyst(spark).variables_in(manager).clone()


_process = os.getpid()


def make_known(spark: SparkSession) -> None:
    """Tells Spark of Delta's settings, as delta-spark's JAR does: `spark.conf.get` gives the default of one that nobody set.

    One call, on a session that has the classes of settings.java.
    """
    told = [(s.whole_name, s.description, *(() if s.default is None else (s.default,))) for s in SETTINGS.values() if not s.name.endswith("*")]
    catalyst(spark).jvm.rowlock.Settings.tell("\n".join(map("\t".join, told)))


def session_of_process() -> Any:
    """The Spark session that a call without one goes by: the active one, else the default one.

    None where this process has none that lives, and in a forked child, whose parent's it is.
    """
    default = getattr(SparkSession, "_instantiatedSession", None)
    if os.getpid() != _process or default is None or getattr(default._sc, "_jsc", None) is None or not jvm_is_alive(default):
        return None
    return SparkSession.getActiveSession() or default
