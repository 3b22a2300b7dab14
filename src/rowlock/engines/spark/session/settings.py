"""Clones the user's session and adds the settings that Rowlock's reads and writes need.

A clone has the user's temporary views, functions and settings of that moment and a conf of its own; the user's session is
never changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
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


_NOT_FIXED = object()
_fixed: ContextVar[Any] = ContextVar("the variables that the statement of this call sees", default=_NOT_FIXED)


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
        held = _variables(spark) if _fixed.get() is _NOT_FIXED else _fixed.get()
        if held is not None:
            bridge.variables_in(session.sessionState().catalogManager().tempVariableManager()).addAll(held)
    return session


@contextmanager
def fixed_variables(spark: SparkSession) -> Iterator[None]:
    """A block whose statements see the session's variables with the values of now, however often they are planned anew."""
    token = _fixed.set(_variables(spark))
    try:
        yield
    finally:
        _fixed.reset(token)


def _variables(spark: SparkSession) -> Any:
    """The variables of a session by name, as they are now; None where there are none."""
    manager = spark._jsparkSession.sessionState().catalogManager().tempVariableManager()
    return None if manager.isEmpty() else catalyst(spark).variables_in(manager).clone()
