"""Reading a table as a DataFrame and writing DataFrames into one."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import get_args

from rowlock.api.handle import Handle
from rowlock.api.row_writes import column_list, create_with_rows, head_or_created, widened_metadata
from rowlock.api.transaction import append_statements, overwrite_statements
from rowlock.engines.spark.catalyst.types import Column, DataFrame, SparkSession
from rowlock.engines.spark.catalyst.typing import delta_schema
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.frames.instants import milliseconds
from rowlock.engines.spark.frames.reading import read_frame, read_with_row_ids
from rowlock.engines.spark.read.scan import table_schema
from rowlock.engines.spark.statements.append import append_blocks, conform
from rowlock.exceptions import InvalidInput, TableExists
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddFile, Metadata, SetTransaction
from rowlock.protocol.schema_fit import check_names
from rowlock.transaction.definition import creation
from rowlock.transaction.run import Planned
from rowlock.transaction.state.options import WriteMode, application
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.versions import snapshot_of

MODES = get_args(WriteMode)


def read(
    spark: SparkSession,
    path: str,
    version: int | None = None,
    timestamp: str | datetime.datetime | None = None,
    *,
    with_row_ids: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The table at its newest version, at `version`, or as it was at `timestamp`, on `spark`.

    `timestamp` is text as Spark casts it, in the session's time zone where it names none, or a datetime, in the zone of the Python process where it has none.  Runs on the driver; the rows are
    read by executors when the DataFrame is used.  `with_row_ids` adds two columns of type bigint at the end,
    for tables with row tracking: `_row_id`, which a row keeps for life, and `_row_commit_version`, the version
    that inserted or last updated it (delta-spark calls them `_metadata.row_id` and
    `_metadata.row_commit_version`).  Raises TableNotFound, VersionNotFound, UnsupportedFeature.
    """
    handle = Handle(spark, path, storage_options=storage_options)
    snapshot = snapshot_of(handle.state, version, None if timestamp is None else milliseconds(spark, timestamp, handle.path))
    return read_with_row_ids(handle.evaluator, snapshot) if with_row_ids else read_frame(handle.evaluator, snapshot)


def write(
    df: DataFrame,
    path: str,
    mode: WriteMode = "append",
    partition_by: str | Sequence[str] | None = None,
    merge_schema: bool = False,
    properties: Mapping[str, str] | None = None,
    replace_where: str | Column | None = None,
    app_id: str | None = None,
    app_version: int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Receipt:
    """Writes the rows of `df` into the table at `path`, which is made where there is none; one commit.

    mode: append; overwrite (all rows are replaced); error (raise TableExists where there is a table);
    ignore (do nothing then).  `partition_by` and `properties` count for a table that is made.
    `merge_schema` adds columns that the table lacks.  With mode overwrite, `replace_where` says which rows
    are replaced; every row of `df` must meet it.  With `app_id` and `app_version` the same step of an
    application is written once, however often it is given.  Raises SchemaMismatch, ConstraintViolated and
    InvalidInput before anything is committed.
    """
    if mode not in MODES:
        raise InvalidInput(f"mode {mode!r} is not one of {', '.join(MODES)}", table=path)
    if replace_where is not None and mode != "overwrite":
        raise InvalidInput(f"replace_where goes with mode='overwrite', not with mode={mode!r}", table=path)
    app = application(app_id, app_version)
    columns = column_list(partition_by)
    handle = Handle(df.sparkSession, path, storage_options=storage_options)
    check_names(df.columns, handle.path)
    snapshot = head_or_created(handle.state.refresh, handle.state, lambda: _create(handle, df, columns, properties or {}, mode, app))
    if isinstance(snapshot, Receipt):
        return snapshot
    if mode in ("error", "errorifexists"):
        raise TableExists("There is a table already; use mode='append' or mode='overwrite'", table=handle.path)
    if mode == "ignore":
        return Receipt(version=None, read_version=snapshot.version, txn_id="", operation="WRITE")
    creation.check_layout(snapshot, columns)
    return _write(handle, df, mode, merge_schema, replace_where, app)


def _write(handle: Handle, df: DataFrame, mode: WriteMode, merge_schema: bool, replace_where: str | Column | None, app: SetTransaction | None) -> Receipt:
    def wider(snapshot: Snapshot) -> Metadata:
        return widened_metadata(snapshot, delta_schema(df.schema))

    def plan(evaluator: Evaluator, snapshot: Snapshot) -> Planned:
        return append_statements(evaluator, snapshot, df) if mode == "append" else overwrite_statements(evaluator, snapshot, df, replace_where)

    return handle.run("WRITE", plan, metadata=wider if merge_schema else None, app=app)


def _create(
    handle: Handle, df: DataFrame, partition_columns: Sequence[str], properties: Mapping[str, str], mode: WriteMode, app: SetTransaction | None
) -> Receipt:
    """Version 0 with the rows in it."""

    def stage(draft: Snapshot) -> list[AddFile]:
        blocks = append_blocks(handle.evaluator, draft, conform(df, table_schema(draft), handle.path))
        return [s.add for s in handle.table.engine.write(blocks, snapshot=draft, vectors_allowed=True)]

    said = "ErrorIfExists" if mode.startswith("error") else mode.capitalize()
    return create_with_rows(handle.state, delta_schema(df.schema), stage, partition_by=partition_columns, properties=properties, mode=said, app=app)
