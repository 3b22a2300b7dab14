"""Reads of the newest version at the time when a DataFrame runs, on sessions with `rowlock.enable`: what is kept when it is made, and its files when it runs."""

from __future__ import annotations

import datetime
from typing import Any

from rowlock.api.handle import Handle
from rowlock.api.schema_compatibility import columns_of, incompatible, names_in
from rowlock.conditions import named
from rowlock.engines.spark.catalyst.types import DataFrame, SparkSession
from rowlock.engines.spark.frames.arguments import milliseconds
from rowlock.engines.spark.frames.reading import read_frame, scan_frame, scanned_plan
from rowlock.engines.spark.sql.session import is_enabled
from rowlock.exceptions import PathNotFound, SchemaMismatch, TableNotFound
from rowlock.log.snapshot import Snapshot
from rowlock.transaction.state.versions import snapshot_of

_CHANGED = "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS"


def frame_of_newest(handle: Handle) -> DataFrame:
    """The rows of a handle's table: on an enabled session as they are whenever the DataFrame runs, on any other as they are now."""
    snapshot = handle.state.refresh()
    return scan_frame(handle.evaluator, snapshot, columns_of(snapshot.metadata)) if is_enabled(handle.spark) else read_frame(handle.evaluator, snapshot)


def following(spark: SparkSession, path: str, version: int | None = None, timestamp: str | datetime.datetime | None = None) -> DataFrame:
    """The rows of a table as they are whenever the DataFrame runs, on an enabled session; of a version that is named always the same."""
    handle = Handle(spark, path)
    snapshot = snapshot_of(handle.state, version, None if timestamp is None else milliseconds(spark, timestamp, handle.path))
    return scan_frame(handle.evaluator, snapshot, columns_of(snapshot.metadata), fixed=version is not None or timestamp is not None)


def scan(spark: SparkSession, table: str, version: int | None, columns: str, hidden: list[str] | None, versions: Any) -> Any:
    """The plan of a scan with its files: of `version`, of the version that the query reads already, or of the newest (see `Answers.scan`).

    Raises SchemaMismatch where the rows do not fit the columns that the reader was told, TableNotFound.
    """
    handle = Handle(spark, table)
    snapshot = snapshot_of(handle.state, version) if version is not None else _newest(handle, versions.get(table))
    if version is None:
        versions.put(table, snapshot.version)
        if (why := incompatible(columns, snapshot)) is not None:
            raise SchemaMismatch(
                f"The table has changed since this DataFrame or view was made: version {snapshot.version} {why}. Make it anew",
                table=table,
                condition=named(_CHANGED),
                version=snapshot.version,
            )
    return scanned_plan(handle.evaluator, snapshot, names_in(columns), fixed=version is not None, hidden=hidden)


def _newest(handle: Handle, version: int | None) -> Snapshot:
    """The version that a query reads already, or the newest."""
    known = handle.state.known
    if version is not None and known is not None and known.version == version:
        return known
    try:
        return snapshot_of(handle.state, version)
    except TableNotFound as e:
        raise PathNotFound(
            "The table is gone since this DataFrame or view of it was made: make it anew where the table is now", table=handle.path, condition=named(_CHANGED)
        ) from e
