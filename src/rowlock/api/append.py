"""`rowlock.append`: rows into a table with no Spark and no JVM; one call, one commit.

What all appends to one table in this process share is cached for some tables, so that a steady writer
asks the store for little more than what is new.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rowlock import arguments, progress
from rowlock.api.row_writes import create_with_rows, head_or_created, widened_metadata
from rowlock.boundary.engine import Statement
from rowlock.caches import TABLES, Cache
from rowlock.engines.appends.engine import ArrowEngine, stage_rows
from rowlock.engines.appends.source import Fitting, Rows, rows_of, schema_of_rows
from rowlock.exceptions import InvalidInput, SchemaMismatch, UnsupportedFeature
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.blocks import file_block
from rowlock.protocol.actions import AddFile, Metadata, SetTransaction
from rowlock.storage.open import open_store
from rowlock.transaction import transaction
from rowlock.transaction.definition import creation
from rowlock.transaction.definition.identity import Numbers
from rowlock.transaction.state import call
from rowlock.transaction.state.options import application
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import SharedState, state_of
from rowlock.transaction.transaction import Table

_open_tables: Cache[SharedState] = Cache(TABLES, lambda _: 1)


def append(
    path: str | os.PathLike[str],
    data: Any,
    *,
    storage_options: Mapping[str, str] | None = None,
    partition_by: str | Sequence[str] | None = None,
    merge_schema: bool | None = None,
    properties: Mapping[str, str] | None = None,
    app_id: str | None = None,
    app_version: int | None = None,
    user_metadata: str | None = None,
    max_records_per_file: int | None = None,
) -> Receipt:
    """Adds rows to a table, which is made where there is none; one commit, safe beside any other writer.  Needs no Spark and no JVM.

    May be called from any number of threads and processes.

    Args:
        path: A local path or a URL: `s3://`, `gs://`, `az://` and their other forms.
        data: A pyarrow Table, RecordBatch or RecordBatchReader (which is read piece by piece and may be larger than memory), a pandas or polars DataFrame, or
            anything else with `__arrow_c_stream__`.  Columns are matched by name without regard to case; absent ones are null; a type fits where no
            value of it can be lost.
        storage_options: How to reach a cloud (`AWS_ENDPOINT_URL`, ...); what is not given is taken from the environment, under the same names.
        partition_by: Columns to partition a table by that is made; of one that is there, they must be its own.
        merge_schema: Whether columns that the table lacks are added to it.  What is left out here, of `app_id` and `user_metadata`, and of the properties of a
            table that is made, is as Delta's settings say of the Spark session, in a process that uses Rowlock with one.
        properties: Table properties of a table that is made; ignored where the table is there.
        app_id: The name of an application; with `app_version` the append is a step of it.
        app_version: The step's number, 0 or more.  A step that is in the log already is not appended again, however often it is given.
        user_metadata: A text of your own, which the commit carries as `userMetadata` and `history()` shows; such an append shares its version with no other.
        max_records_per_file: How many rows a data file holds at most; 0: no limit.  By default as the session's `spark.sql.files.maxRecordsPerFile` says,
            in a process that uses Rowlock with one.

    Returns:
        The receipt of the commit.

    Raises:
        SchemaMismatch: The rows do not fit the table; nothing is committed.
        ConstraintViolated: A row has null in a column that is NOT NULL, or breaks a CHECK constraint; nothing is committed.
        InvalidInput: An argument is not possible, or two do not go together.
        UnsupportedFeature: This version, or a writer without Spark, cannot write the table (generated columns, CHECK constraints that are more than comparisons with literals).
        CorruptLog: The table's log is damaged.
        CommitUnknown: The store did not say whether the commit landed, and the log cannot be read.

    Examples:
        >>> rows = pa.table({"id": [4, 5], "region": ["us", "eu"]})
        >>> rowlock.append(path, rows, app_id="loader", app_version=7).version
        1
        >>> rowlock.append(path, rows, app_id="loader", app_version=7).already_committed
        True
    """
    app = application(app_id, app_version)
    arguments.optional(arguments.flag, merge_schema, "merge_schema")
    columns, wanted = arguments.one_or_more_names(partition_by, "partition_by"), arguments.properties(properties, "properties")
    arguments.optional(arguments.text, user_metadata, "user_metadata")
    state, rows = opened(path, storage_options), rows_of(data)
    most = arguments.optional_portion(max_records_per_file, "max_records_per_file")
    with progress.work("append to", state.store.root), _call(user_metadata, app) as step:
        evolves = call.settings().flag("schema.autoMerge.enabled") if merge_schema is None else merge_schema
        writer = _Writer(state, rows, step, call.most_records(most))
        head = head_or_created(state.newest, state, lambda: writer.create(columns, wanted))
        if isinstance(head, Receipt):
            return head
        try:
            creation.check_layout(head, columns)
            return writer.append(head, evolves)
        except (SchemaMismatch, InvalidInput, UnsupportedFeature):  # by what was known of the table: it may have been altered a moment ago
            now = state.refresh()
            if (now.metadata, now.protocol) == (head.metadata, head.protocol):
                raise
            creation.check_layout(now, columns)
            return writer.append(now, evolves)


@contextmanager
def _call(user_metadata: str | None, app: SetTransaction | None) -> Iterator[SetTransaction | None]:
    """The block of an append, by the settings of the Spark session of this process where Rowlock's part for Spark is loaded; the step that it is."""
    handles: Any = sys.modules.get("rowlock.api.handle")
    session = None if handles is None else handles.Session.of_process()
    if session is None:
        with call.calling(user_metadata):
            yield app
        return
    with handles.by_settings_of(session, "write", user_metadata), handles.step_of(session, app) as step:
        yield step


def opened(path: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> SharedState:
    """What this process knows of a table; kept for the tables that were asked for last."""
    state = state_of(open_store(path, storage_options))
    _open_tables.put(state, state)
    return state


class _Writer:
    """One append on its way."""

    def __init__(self, state: SharedState, rows: Rows, app: SetTransaction | None, max_records: int | None) -> None:
        self._state, self._path, self._rows, self._app, self._max_records = state, state.store.root, rows, app, max_records
        self._engine: ArrowEngine = state.shared("arrow engine", lambda: ArrowEngine(state.store))

    def append(self, head: Snapshot, merge_schema: bool) -> Receipt:
        """Commits the rows to a table that is there; `head` is what is known of it."""
        table = Table(self._state.log, self._engine, state=self._state)
        return transaction.run(table, "WRITE", self._plan, metadata=self._wider if merge_schema else None, app=self._app, snapshot=head)

    def _plan(self, snapshot: Snapshot) -> transaction.Planned:
        """Stages the rows under a snapshot's schema, as one append statement."""
        self._engine.check_appendable(snapshot)
        fitting = self._fitting(snapshot)
        files = stage_rows(self._state.store, snapshot, self._rows.tables(), fitting, self._max_records)
        blocks = [file_block("appended", 0, files)] if files else []
        return [Statement("append", blocks, sets=fitting.columns)], {"mode": "Append", "partitionBy": []}

    def _fitting(self, snapshot: Snapshot) -> Fitting:
        return Fitting(self._rows.schema, snapshot.schema, self._path, lambda columns: Numbers(self._state, columns))

    def _wider(self, snapshot: Snapshot) -> Metadata:
        """The snapshot's metadata with the columns of the rows that the table lacks."""
        return widened_metadata(snapshot, schema_of_rows(self._rows.schema, self._path))

    def create(self, partition_columns: Sequence[str], properties: Mapping[str, str]) -> Receipt:
        """Version 0 with the rows in it.  Raises TableExists where another writer made the table first."""
        rows = schema_of_rows(self._rows.schema, self._path)

        def stage(draft: Snapshot) -> list[AddFile]:
            self._engine.check_appendable(draft)
            return stage_rows(self._state.store, draft, self._rows.tables(), self._fitting(draft), self._max_records)

        return create_with_rows(self._state, rows, stage, partition_by=partition_columns, properties=properties, mode="Append", app=self._app)
