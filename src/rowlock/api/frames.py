"""Reading a table as a DataFrame and writing DataFrames into one."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import get_args

from rowlock import arguments
from rowlock.api import expressions
from rowlock.api.handle import Handle
from rowlock.api.row_writes import Stage, create_with_rows, head_or_created, metadata_of_rows, widened_metadata
from rowlock.api.transaction import append_statements, overwrite_statements
from rowlock.engines.spark.catalyst.types import Column, DataFrame, SparkSession
from rowlock.engines.spark.catalyst.typing import delta_schema
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.frames.instants import milliseconds
from rowlock.engines.spark.frames.reading import read_frame, read_with_row_ids
from rowlock.engines.spark.read.scan import table_schema
from rowlock.engines.spark.statements.append import append_blocks, conform
from rowlock.engines.spark.statements.source_versions import versions_read
from rowlock.exceptions import DeltaConcurrentModificationException, InvalidInput, TableExists
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddFile, Metadata, SetTransaction
from rowlock.protocol.schema_fit import check_names
from rowlock.storage.store import discard
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
    """A table's newest version as a DataFrame, or an older one, by its number or by a time.

    The log is read now, on the driver; the rows are read by Spark jobs when the DataFrame is used.

    Args:
        spark: A classic SparkSession (not Spark Connect).
        path: A local path or a URL, as `DeltaTable.forPath` takes it.
        version: The version to read, 0 or more.
        timestamp: Read the version that was the newest then: text that Spark can cast to a timestamp (`2026-01-31 12:00:00`), in the session's time zone
            where it names none; or a datetime, in the time zone of the Python process where it has none.
        with_row_ids: Add two columns of type bigint at the end, for tables with row tracking: `_row_id`, which a row keeps for life, and
            `_row_commit_version`, the version that inserted or last updated it (delta-spark's `_metadata.row_id` and `_metadata.row_commit_version`).
        storage_options: How to reach a cloud, as in `DeltaTable.forPath`.

    Returns:
        A DataFrame with the table's columns.  It stays at its version.

    Raises:
        TableNotFound: There is no Delta table at the path.
        VersionNotFound: The log does not hold the version, or does not reach to the time.
        InvalidInput: Both a version and a timestamp are given, or text that is no time, or the table has no row ids to show.
        WrongType: An argument is of another type.
        UnsupportedFeature: The table needs a feature that this version cannot read.
        CorruptLog: The table's log is damaged.

    Examples:
        >>> t.delete("id = 1")
        >>> rowlock.read(spark, path).count(), rowlock.read(spark, path, version=0).count()
        (2, 3)
    """
    wanted = None if version is None else arguments.number(version, "version")
    arguments.flag(with_row_ids, "with_row_ids")
    handle = Handle(spark, path, storage_options=storage_options)
    snapshot = snapshot_of(handle.state, wanted, None if timestamp is None else milliseconds(spark, timestamp, handle.path))
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
    """Writes a DataFrame's rows into a table, which is made where there is none; one commit, safe beside any other writer.

    The rows are computed by Spark jobs, on executors; few rows come to the driver and are written there.

    Args:
        df: The rows; columns are matched by name without regard to case, absent ones are null.
        path: A local path or a URL, as `DeltaTable.forPath` takes it.
        mode: What is done where there is a table: `append`; `overwrite` (its rows are replaced); `error` or `errorifexists` (TableExists is raised);
            `ignore` (nothing).
        partition_by: Columns to partition a table by that is made; of one that is there, they must be its own.
        merge_schema: Whether columns that the table lacks are added to it.
        properties: Table properties of a table that is made.
        replace_where: With `overwrite`: which rows are replaced, a string or Column; every row of `df` must meet it.  None replaces all.
        app_id: The name of an application; with `app_version` the write is a step of it.
        app_version: The step's number, 0 or more.  A step that is in the log already is not written again, however often it is given.
        storage_options: How to reach a cloud, as in `DeltaTable.forPath`.

    Returns:
        The receipt of the commit; its version is None where nothing was written.

    Raises:
        TableExists: There is a table, and the mode is `error`.
        SchemaMismatch: The rows do not fit the table.
        ConstraintViolated: A row breaks NOT NULL or a CHECK constraint, or does not meet `replace_where`.
        InvalidInput: An argument is not possible, or two do not go together.
        UnsupportedFeature: The table needs a feature that this version cannot write.
        DeltaConcurrentModificationException: Others changed what is replaced, and the policy is to raise.
        CommitUnknown: The store did not say whether the commit landed, and the log cannot be read.

    Examples:
        >>> rowlock.write(updates, path).version
        1
        >>> receipt = rowlock.write(updates, path, mode="overwrite", replace_where="region = 'us'")
        >>> rowlock.read(spark, path).count()
        4
    """
    frame = expressions.frame(df, "df")
    arguments.one_of(mode, "mode", MODES, path)
    expressions.expression(replace_where, "replace_where")
    arguments.flag(merge_schema, "merge_schema")
    if replace_where is not None and mode != "overwrite":
        raise InvalidInput(f"replace_where goes with mode='overwrite', not with mode={mode!r}", table=path)
    app = application(app_id, app_version)
    columns, wanted = arguments.one_or_more_names(partition_by, "partition_by"), arguments.properties(properties, "properties")
    handle = Handle(frame.sparkSession, path, storage_options=storage_options)
    check_names(df.columns, handle.path)
    snapshot = head_or_created(handle.state.refresh, handle.state, lambda: _create(handle, df, columns, wanted, mode, app))
    if isinstance(snapshot, Receipt):
        return snapshot
    if mode in ("error", "errorifexists"):
        raise TableExists("There is a table already; use mode='append' or mode='overwrite'", table=handle.path)
    if mode == "ignore":
        return Receipt(version=None, read_version=snapshot.version, txn_id="", operation="WRITE")
    creation.check_layout(snapshot, columns)
    return _write(handle, df, mode, merge_schema, replace_where, app)


def _write(handle: Handle, df: DataFrame, mode: WriteMode, merge_schema: bool, replace_where: str | Column | None, app: SetTransaction | None) -> Receipt:
    """Appends to a table that is there, or overwrites it."""

    def wider(snapshot: Snapshot) -> Metadata:
        return widened_metadata(snapshot, delta_schema(df.schema))

    def plan(evaluator: Evaluator, snapshot: Snapshot) -> Planned:
        return append_statements(evaluator, snapshot, df) if mode == "append" else overwrite_statements(evaluator, snapshot, df, replace_where)

    return handle.run("WRITE", plan, metadata=wider if merge_schema else None, app=app)


def _create(
    handle: Handle, df: DataFrame, partition_columns: Sequence[str], properties: Mapping[str, str], mode: WriteMode, app: SetTransaction | None
) -> Receipt:
    """Version 0 with the rows in it."""

    said = "ErrorIfExists" if mode.startswith("error") else mode.capitalize()
    return create_with_rows(
        handle.state, delta_schema(df.schema), _stage(handle, df), partition_by=partition_columns, properties=properties, mode=said, app=app
    )


def replace_with_rows(handle: Handle, df: DataFrame, *, partition_by: Sequence[str], properties: Mapping[str, str], operation: str, managed: bool) -> Receipt:
    """Replaces a table that is there by one with the columns and rows of a DataFrame, in one commit; others' work of meanwhile is replaced, too.

    Raises ConcurrentDeleteReadException where the rows were read from the table itself and it is another by then, else what making a table raises.
    """
    check_names(df.columns, handle.path)
    before = versions_read(handle.evaluator, df, handle.state.refresh().version)
    metadata = metadata_of_rows(delta_schema(df.schema), handle.path, partition_by=partition_by, properties=properties)
    adds = _stage(handle, df)(creation.draft_snapshot(metadata, handle.path))
    after = versions_read(handle.evaluator, df, handle.state.refresh().version) if before else ()
    try:
        return creation.replace_table(handle.state, metadata, operation=operation, managed=managed, adds=adds, derived_from=(*before, *after))
    except DeltaConcurrentModificationException:  # certainly not committed
        discard(handle.state.store, (a.path for a in adds))
        raise


def _stage(handle: Handle, df: DataFrame) -> Stage:
    """Writes the rows of a DataFrame into data files of a table that has its columns."""

    def stage(draft: Snapshot) -> list[AddFile]:
        blocks = append_blocks(handle.evaluator, draft, conform(df, table_schema(draft), handle.path))
        return [s.add for s in handle.table.engine.write(blocks, snapshot=draft, vectors_allowed=True)]

    return stage
