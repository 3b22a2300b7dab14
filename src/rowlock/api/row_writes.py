"""What writes of rows have in common, whether Spark or Arrow gives the rows: tables that are made with rows in them, columns that are added for rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rowlock.exceptions import SchemaMismatch, TableExists, TableNotFound
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddFile, Metadata, SetTransaction
from rowlock.protocol.schema import StructType, nullable, schema_json
from rowlock.protocol.schema_fit import merged_schema
from rowlock.storage.open import check_is_folder
from rowlock.transaction.definition import creation
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import SharedState

Stage = Callable[[Snapshot], Sequence[AddFile]]
"""Writes all rows into data files of this snapshot's table, which no commit names yet."""


def head_or_created(newest: Callable[[], Snapshot], state: SharedState, create: Callable[[], Receipt]) -> Snapshot | Receipt:
    """What `newest` returns; where there is no table the receipt of `create`, or the table's head where another writer made the table first."""
    try:
        return newest()
    except TableNotFound:
        check_is_folder(state.store)  # the table is made outside of `except`: an error of `create` is not to drag a second traceback along
    try:
        return create()
    except TableExists:
        return state.refresh()


def create_with_rows(
    state: SharedState,
    rows: StructType,
    stage: Stage,
    *,
    partition_by: Sequence[str],
    properties: Mapping[str, str],
    mode: str,
    app: SetTransaction | None,
) -> Receipt:
    """Version 0 of a table with the columns of `rows`, all nullable, and with the rows that `stage` writes.  Runs on the driver.

    `mode` is the parameter of the WRITE in the commit.  Raises TableExists where another writer makes the table first, SchemaMismatch, InvalidInput and
    UnsupportedFeature for a table that may not be or that this version does not write, and what `stage` raises.
    """
    table = state.store.root
    metadata = metadata_of_rows(rows, table, partition_by=partition_by, properties=properties)
    adds = stage(creation.draft_snapshot(metadata, table))
    parameters = {"mode": mode, "partitionBy": list(metadata.partition_columns)}
    return creation.create_from(state, metadata, operation="WRITE", parameters=parameters, adds=adds, app=app)


def metadata_of_rows(rows: StructType, table: str, *, partition_by: Sequence[str], properties: Mapping[str, str]) -> Metadata:
    """The metadata of a new table with the columns of `rows`, all nullable.  Raises SchemaMismatch, InvalidInput and UnsupportedFeature."""
    if missing := [c for c in partition_by if rows.find(c) is None]:
        raise SchemaMismatch(f"There is no column {missing[0]!r} to partition by; the rows have {', '.join(rows.names)}", table=table)
    metadata = creation.new_metadata(schema_json(nullable(rows)), partition_by, properties, table=table)
    creation.check_new_table(metadata, table)
    return metadata


def new_columns(columns: StructType, rows: StructType) -> StructType:
    """The columns of rows that a table lacks, as they are added to it."""
    return StructType(merged_schema(columns, rows).fields[len(columns.fields) :])


def widened_metadata(snapshot: Snapshot, rows: StructType) -> Metadata:
    """The table's metadata with the columns of the rows that it lacks.  Raises SchemaMismatch, UnsupportedFeature for columns that no table may have."""
    if not new_columns(snapshot.schema, rows).fields:
        return snapshot.metadata
    return creation.widened(snapshot.metadata, schema_json(merged_schema(snapshot.schema, rows)), snapshot.table)
