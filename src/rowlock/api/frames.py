"""Reading a table as a DataFrame and writing DataFrames into one.

On sessions with `rowlock.enable` a DataFrame reads the newest version at the time when it runs: what is kept when it is made, and its files when it runs.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, get_args

from rowlock import arguments, threads
from rowlock.api import expressions, overwrites
from rowlock.api.connect import check_classic
from rowlock.api.handle import Handle, step_of
from rowlock.api.row_writes import Made, create_with_rows, head_or_created, metadata_of_rows, widened_metadata
from rowlock.api.schema_compatibility import columns_of, incompatible, names_in
from rowlock.conditions import named
from rowlock.engines.spark.catalyst.types import Column, DataFrame, SparkSession, columns_of_frame
from rowlock.engines.spark.plan import Overwrite, Planner
from rowlock.exceptions import PathNotFound, SchemaMismatch, TableExists, TableNotFound
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import Metadata, SetTransaction
from rowlock.protocol.column_values import CURRENT_DEFAULT, GENERATION_EXPRESSION
from rowlock.protocol.features import writer_features
from rowlock.protocol.schema_fit import check_names
from rowlock.transaction.definition import creation, replacement
from rowlock.transaction.state import call
from rowlock.transaction.state.options import WriteMode, application
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.transaction import Planned

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
        UnsupportedFeature: The table needs a feature that this version cannot read.
        CorruptLog: The table's log is damaged.

    Examples:
        >>> t.delete("id = 1")
        >>> rowlock.read(spark, path).count(), rowlock.read(spark, path, version=0).count()
        (2, 3)
    """
    wanted = arguments.optional(arguments.number, version, "version")
    arguments.flag(with_row_ids, "with_row_ids")
    check_classic(spark, "rowlock.read")
    handle = Handle(spark, path, storage_options=storage_options)
    snapshot = handle.at(wanted, timestamp)
    reads = handle.planner.rows_with_ids if with_row_ids else handle.planner.rows
    return reads(snapshot, fixed=version is not None or timestamp is not None)


def write(
    df: DataFrame,
    path: str,
    mode: WriteMode = "append",
    partition_by: str | Sequence[str] | None = None,
    merge_schema: bool | None = None,
    properties: Mapping[str, str] | None = None,
    replace_where: str | Column | None = None,
    app_id: str | None = None,
    app_version: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    overwrite_schema: bool = False,
    partition_overwrite_mode: overwrites.PartitionOverwriteMode | None = None,
    replace_using: str | Sequence[str] | None = None,
    replace_on: str | Column | None = None,
    target_alias: str | None = None,
    data_change: bool = True,
    user_metadata: str | None = None,
    max_records_per_file: int | None = None,
    compression: str | None = None,
    optimize_write: bool | None = None,
) -> Receipt:
    """Writes a DataFrame's rows into a table, which is made where there is none; one commit, safe beside any other writer.

    The rows are computed by Spark jobs, on executors; few rows come to the driver and are written there.

    Args:
        df: The rows; columns are matched by name without regard to case, absent ones are null.
        path: A local path or a URL, as `DeltaTable.forPath` takes it.
        mode: What is done where there is a table: `append`; `overwrite` (its rows are replaced); `error` or `errorifexists` (TableExists is raised);
            `ignore` (nothing).
        partition_by: Columns to partition a table by that is made; of one that is there, they must be its own.
        merge_schema: Whether columns that the table lacks are added to it; by default as the session's `spark.databricks.delta.schema.autoMerge.enabled` says.
        properties: Table properties of a table that is made.
        replace_where: With `overwrite`: which rows are replaced, a string or Column; every row of `df` must meet it.  None replaces all.
        app_id: The name of an application; with `app_version` the write is a step of it.
        app_version: The step's number, 0 or more.  A step that is in the log already is not written again, however often it is given.  By default both are
            the session's `spark.databricks.delta.write.txnAppId` and `...txnVersion`.
        storage_options: How to reach a cloud, as in `DeltaTable.forPath`.
        overwrite_schema: With `overwrite`: whether the table's columns and partitioning are replaced with its rows; properties stay.  A change of the
            definition: statements of others that were staged before it are staged again.
        partition_overwrite_mode: With `overwrite` of a table that has partitions: `dynamic` replaces the partitions that the new rows fall into, `static`
            all rows; by default as the session's `spark.sql.sources.partitionOverwriteMode` says.
        replace_using: With `overwrite`: replaces the rows that have the values of a new row in these columns; a null is no such value.
        replace_on: With `overwrite`: replaces the rows that meet this condition with a new row, a string or Column over both; `df.alias("s")` names the new
            rows.
        target_alias: The name that `replace_on` or `replace_where` has for the table.
        data_change: With `overwrite`: False says that the rows are those that the table, or what `replace_where` names of it, holds already: they are compared,
            and the files are compacted as `optimize()` does.
        user_metadata: A text of your own, which the commit carries as `userMetadata` and `history()` shows; by default the session's
            `spark.databricks.delta.commitInfo.userMetadata`.
        max_records_per_file: How many rows a data file holds at most; 0: no limit.  By default as the session's `spark.sql.files.maxRecordsPerFile` says.
        compression: How the data files are compressed: `snappy`, `zstd`, `gzip`, `lz4` or `none`; by default as the table's `delta.parquet.compression.codec`
            says, else the session's `spark.sql.parquet.compression.codec`.
        optimize_write: Whether rows that Spark writes are shuffled first, so that each partition gets few files; by default as the session's
            `spark.databricks.delta.optimizeWrite.enabled` says, else the table's `delta.autoOptimize.optimizeWrite`.

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
    check_classic(frame.sparkSession, "rowlock.write")
    arguments.one_of(mode, "mode", MODES, path)
    arguments.optional(arguments.flag, merge_schema, "merge_schema")
    matching = overwrites.matching_of(replace_on, replace_using, target_alias, path)
    what = overwrites.overwrite_of(frame.sparkSession, path, mode, replace_where, overwrite_schema, partition_overwrite_mode, matching, data_change)
    for text, name in ((user_metadata, "user_metadata"), (compression, "compression")):
        arguments.optional(arguments.text, text, name)
    arguments.optional(arguments.flag, optimize_write, "optimize_write")
    columns, wanted = arguments.one_or_more_names(partition_by, "partition_by"), arguments.properties(properties, "properties")
    handle = Handle(frame.sparkSession, path, storage_options=storage_options)
    check_names(df.columns, handle.path)
    most = arguments.optional_portion(max_records_per_file, "max_records_per_file", path)
    app = application(app_id, app_version)
    with handle.commits("write", user_metadata, compression=compression, instead=optimizing(optimize_write)):
        evolves = call.settings().flag("schema.autoMerge.enabled") if merge_schema is None else merge_schema
        with step_of(handle.session, app) as step:
            writing = _Write(handle, df, mode, columns, what, step, evolves, most)
            snapshot = head_or_created(handle.state.refresh, handle.state, lambda: writing.create(wanted))
            return handle.compacted(snapshot) if isinstance(snapshot, Receipt) else writing.into(snapshot)


_complete: ContextVar[bool] = ContextVar("whether the rows must have the columns that the table is partitioned by", default=False)


def save(df: DataFrame, path: str, **arguments: Any) -> Receipt:
    """Does what `write` does, for a DataFrameWriter: raises SchemaMismatch where the rows lack a column by which the table is partitioned."""
    with threads.holding(_complete, True):
        return write(df, path, **arguments)


def check_partitions(head: Snapshot, rows: DataFrame, partition_by: Sequence[str] = ()) -> None:
    """Raises SchemaMismatch where the rows of a DataFrameWriter lack a column by which the table is partitioned; an INSERT need not have them."""
    made = {f.name for f in head.schema.fields if f.metadata.get(GENERATION_EXPRESSION) or f.metadata.get(CURRENT_DEFAULT)}
    creation.check_partition_columns(columns_of_frame(rows), [*partition_by, *(c for c in head.partition_columns if c not in made)], head.table)


def optimizing(wanted: bool | None) -> dict[str, str | None]:
    """What a write says itself of optimized writes, in place of the session's setting."""
    return {} if wanted is None else {"optimizeWrite.enabled": str(wanted)}


@dataclass(frozen=True, slots=True)
class _Write:
    """The rows of a DataFrame on their way into a table; `max_records`: how many rows a file holds at most."""

    handle: Handle
    df: DataFrame
    mode: WriteMode
    partition_by: Sequence[str]
    what: Overwrite
    app: SetTransaction | None
    merge_schema: bool
    max_records: int | None

    def create(self, properties: Mapping[str, str]) -> Receipt:
        """Version 0 with the rows in it."""
        if self.what.same:
            raise overwrites.no_table_yet(self.handle.path)
        mode = "ErrorIfExists" if self.mode.startswith("error") else self.mode.capitalize()
        stage = overwrites.stage_of(self.handle, self.df, self.max_records)
        columns = overwrites.columns_of_new(self.df, properties)
        state, where = self.handle.state, self.what.where
        return create_with_rows(state, columns, stage, partition_by=self.partition_by, properties=properties, mode=mode, app=self.app, where=where)

    def into(self, snapshot: Snapshot) -> Receipt:
        """Writes into a table that is there, as the mode says."""
        if self.mode in ("error", "errorifexists"):
            if self.app is not None and snapshot.has_step(self.app):  # it made the table
                self.handle.state.log.make_durable(snapshot.version)
                return Receipt(version=None, read_version=snapshot.version, txn_id="", operation="WRITE", already_committed=True)
            text = "There is a table already; append to it or overwrite it (the modes append and overwrite)"
            raise TableExists(text, table=self.handle.path, condition=named("DELTA_PATH_EXISTS", path=self.handle.path))
        if self.mode == "ignore":
            return Receipt(version=None, read_version=snapshot.version, txn_id="", operation="WRITE")
        if self.what.schema:
            return overwrites.overwrite_schema(self.handle, self.df, partition_by=self.partition_by, app=self.app, max_records=self.max_records)
        if _complete.get():
            check_partitions(snapshot, self.df, self.partition_by)
        creation.check_layout(snapshot, self.partition_by, columns_of_frame(self.df))
        if self.what.same:
            assert not isinstance(self.what.where, Column)
            if self.merge_schema and self._wider(snapshot) is not snapshot.metadata:
                why = "they have columns that the table lacks: drop them, or leave it out"
                raise overwrites.not_the_same(self.handle.path, why, "Change the Delta table schema")
            return overwrites.rearrange(self.handle, self.df, self.what.where)
        wider = self._wider if self.merge_schema else None
        if self.what.by_match:
            return overwrites.overwrite_matching(self.handle, self.df, self.what, metadata=wider, app=self.app, max_records=self.max_records)
        return self.handle.run("WRITE", self._plan, metadata=wider, app=self.app)

    def _wider(self, snapshot: Snapshot) -> Metadata:
        return widened_metadata(snapshot, columns_of_frame(self.df))

    def _plan(self, planner: Planner, snapshot: Snapshot) -> Planned:
        append = self.mode == "append"
        found = planner.append(snapshot, self.df, self.max_records) if append else planner.overwrite(snapshot, self.df, self.what, max_records=self.max_records)
        said = {"partitionBy": list(self.partition_by)} | ({"canMergeSchema": True} if self.merge_schema else {})
        return found[0], {**found[1], **said}  # what the write says, as with delta-spark: an INSERT names no partitions


def make_with_rows(
    handle: Handle,
    df: DataFrame,
    made: Made,
    *,
    replaces: bool,
    partition_by: Sequence[str],
    properties: Mapping[str, str],
    options: Mapping[str, Any],
) -> Receipt:
    """Makes a table with the columns and the rows of a DataFrame, as `made` says.  `options`: further arguments of `rowlock.write`.

    With `replaces` in place of the one that is there, in one commit: others' work of meanwhile is replaced, too.  Raises TableExists without it, with it
    ConcurrentDeleteReadException where the rows were read from the table itself and it is another by then; and what making a table raises.
    """
    check_names(df.columns, handle.path, of_table=True)
    layout: dict[str, Any] = {"partition_by": partition_by, "properties": properties}
    app, max_records = application(options.get("app_id"), options.get("app_version")), options.get("max_records_per_file")
    how = {"compression": options.get("compression"), "instead": optimizing(options.get("optimize_write"))}
    with handle.commits("create", options.get("user_metadata"), **how), step_of(handle.session, app) as step:
        listed = writer_features(handle.state.refresh().protocol) if replaces else frozenset()
        columns = overwrites.columns_of_new(df, properties, listed)
        if not replaces:
            stage = overwrites.stage_of(handle, df, max_records)
            return handle.compacted(create_with_rows(handle.state, columns, stage, **layout, mode="ErrorIfExists", app=step, made=made))
        metadata = metadata_of_rows(columns, handle.path, **layout, description=made.description, cluster_by=made.cluster_by)
        return replacement.replace_table(
            handle.state,
            metadata,
            cluster_by=made.cluster_by,
            operation=made.operation,
            managed=made.managed,
            write=overwrites.writer_of(handle, df, max_records),
            properties=properties,
            app=step,
        )


_CHANGED = "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS"


def frame_at(handle: Handle, version: int | None = None, timestamp: str | datetime.datetime | None = None) -> DataFrame:
    """The rows of a table; of its newest version, on an enabled session, as they are whenever the DataFrame runs, on any other as they are now."""
    snapshot, fixed = handle.at(version, timestamp), version is not None or timestamp is not None
    if handle.session.is_enabled:
        return handle.planner.scan(snapshot, columns_of(snapshot.metadata), fixed=fixed)
    return handle.planner.rows(snapshot, fixed=fixed)


def scan(spark: SparkSession, table: str, version: str | None, columns: str, hidden: str | None, versions: Any, condition: Any) -> Any:
    """The plan of a table's rows with its files, when a query runs: of `version`, of the version that the query reads already, or of the newest.

    Files in which `condition` (Spark's expression over the table's columns, or None) is true of no row are left out.

    `columns` is what the reader knows of the columns; with `hidden` the column `_metadata` of these fields, with commas between them, comes last.  `versions`
    (a Java map) holds the version of each table that the query reads already, and gets this one.

    Raises SchemaMismatch where the rows do not fit the columns that the reader knows, TableNotFound.
    """
    handle = Handle(spark, table)
    snapshot = handle.at(int(version)) if version is not None else _newest(handle, versions.get(table))
    if version is None:
        versions.put(table, snapshot.version)
        if (why := incompatible(columns, snapshot)) is not None:
            text = f"The table has changed since this DataFrame or view was made: version {snapshot.version} {why}. Make it anew"
            raise SchemaMismatch(text, table=table, condition=named(_CHANGED), version=snapshot.version)
    known = condition if columns == columns_of(snapshot.metadata) and len(snapshot.files) > 1 else None  # it was resolved for these columns and types
    return handle.planner.scanned(snapshot, names_in(columns), fixed=version is not None, hidden=hidden.split(",") if hidden else None, condition=known)


def _newest(handle: Handle, version: int | None) -> Snapshot:
    """The version that a query reads already, or the newest."""
    for known in (handle.state.laid_over, handle.state.known):
        if version is not None and known is not None and known.version == version:
            return known
    try:
        return handle.at(version)
    except TableNotFound as e:
        text = "The table is gone since this DataFrame or view of it was made: make it anew where the table is now"
        raise PathNotFound(text, table=handle.path, condition=named(_CHANGED)) from e
