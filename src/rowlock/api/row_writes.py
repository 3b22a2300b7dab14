"""What writes of rows have in common, whether Spark or Arrow gives the rows: tables that are made with rows in them, columns that are added for rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rowlock.conditions import named
from rowlock.exceptions import InvalidInput, SchemaMismatch, TableExists, TableNotFound
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.files import file_of_others
from rowlock.protocol.actions import AddFile, Metadata, SetTransaction
from rowlock.protocol.constraints import check_retyped
from rowlock.protocol.schema import ColumnPath, StructType, nullable, schema_json
from rowlock.protocol.schema_fit import Widening, check_merged, may_become, merged_schema, stays_in_family
from rowlock.storage.open import check_is_folder
from rowlock.storage.store import ObjectStore
from rowlock.transaction.definition import creation
from rowlock.transaction.definition.creation import checked_columns
from rowlock.transaction.definition.head_commit import StagedFiles
from rowlock.transaction.state.call import settings
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import SharedState

AUTOMATIC = "typeWidening.allowAutomaticWidening"
_WIDENING: Mapping[str, Widening | None] = {"ALWAYS": may_become, "SAME_FAMILY_TYPE": stays_in_family, "NEVER": None}

Stage = Callable[[Snapshot], Sequence[AddFile]]
"""Writes all rows into data files of this snapshot's table, which no commit names yet."""


@dataclass(frozen=True, slots=True)
class Made:
    """A table as CREATE TABLE AS SELECT and saveAsTable make it: what they say of it beside its rows, and the name of the operation."""

    operation: str
    cluster_by: Sequence[ColumnPath] = ()
    description: str | None = None
    managed: bool = False


def head_or_created(newest: Callable[[], Snapshot], state: SharedState, create: Callable[[], Receipt]) -> Snapshot | Receipt:
    """What `newest` returns; where there is no table the receipt of `create`, or the table's head where another writer made the table first."""
    try:
        return newest()
    except TableNotFound:
        check_is_folder(state.store)
        _warn_of_hidden_files(state.store)  # the table is made outside of `except`: an error of `create` is not to drag a second traceback along
    try:
        return create()
    except TableExists:
        return state.refresh()


def _warn_of_hidden_files(store: ObjectStore) -> None:
    """Warns where a new table's folder holds Parquet files of another making, which no reader of the table sees; delta-spark writes such a table, too."""
    if (found := file_of_others(store, ".parquet")) is not None:
        text = f"{store.root} holds Parquet files, such as {found}, which are no part of the Delta table that is made there: its readers do not see them."
        warnings.warn(f"{text} CONVERT TO DELTA (DeltaTable.convertToDelta) makes a table of them instead", UserWarning, stacklevel=2)


def create_with_rows(
    state: SharedState,
    rows: StructType,
    stage: Stage,
    *,
    partition_by: Sequence[str],
    properties: Mapping[str, str],
    mode: str,
    app: SetTransaction | None,
    made: Made | None = None,
    where: object = None,
) -> Receipt:
    """Version 0 of a table with the columns of `rows`, all nullable, and with the rows that `stage` writes.  Runs on the driver.

    `mode` and `where` are parameters of the WRITE in the commit; `made`: the statement is one that makes a table, and says more of it.  Raises TableExists where another writer makes the table first, SchemaMismatch, InvalidInput and
    UnsupportedFeature for a table that may not be or that this version does not write, and what `stage` raises.
    """
    table = state.store.root
    cluster_by = made.cluster_by if made else ()
    metadata = metadata_of_rows(
        rows, table, partition_by=partition_by, properties=properties, description=made.description if made else None, cluster_by=cluster_by
    )
    parameters = {"mode": mode, "partitionBy": list(metadata.partition_columns)} if made is None else creation.parameters_of(metadata, cluster_by, made.managed)
    parameters |= {"predicate": where} if isinstance(where, str) else {}
    operation = "WRITE" if made is None else made.operation
    with StagedFiles(state.store) as files:
        files.adds = stage(creation.draft_snapshot(metadata, table))
        return creation.create_from(state, metadata, operation=operation, parameters=parameters, cluster_by=cluster_by, adds=files.adds, app=app)


def metadata_of_rows(
    rows: StructType,
    table: str,
    *,
    partition_by: Sequence[str],
    properties: Mapping[str, str],
    description: str | None = None,
    cluster_by: Sequence[ColumnPath] = (),
) -> Metadata:
    """The metadata of a new table with the columns of `rows`, all nullable.  Raises SchemaMismatch, InvalidInput and UnsupportedFeature."""
    if not rows.fields:
        raise SchemaMismatch("The rows have no columns, so no table is made of them", table=table, condition=named("DELTA_EMPTY_DATA"))
    creation.check_partition_columns(rows, partition_by, table)
    metadata = creation.new_metadata(schema_json(nullable(rows)), partition_by, properties, description=description, table=table)
    checked_columns(metadata, cluster_by, table)
    creation.check_new_table(metadata, table, clustered=bool(cluster_by))
    return metadata


def widened_metadata(snapshot: Snapshot, rows: StructType, *, casts: bool = False) -> Metadata:
    """The table's metadata with the columns, and the fields of structs, of the rows that it lacks, and with their wider types where it has type widening on.

    `casts`: the rows are those of a MERGE, which casts what Spark casts by itself, and no more.
    Raises SchemaMismatch, UnsupportedFeature for columns that no table may have, StatementRefused for a wider type of what a check or a generated column names.
    """
    found, merged = snapshot.metadata, merged_schema(snapshot.schema, rows, widening=widening(snapshot))
    if merged != snapshot.schema:
        check_retyped(snapshot.metadata, snapshot.schema, merged, snapshot.table, altered=False)
        found = creation.widened(snapshot.metadata, merged, snapshot.table)
    if casts:
        check_merged(rows, merged, snapshot.table)
    return found


def widening(snapshot: Snapshot) -> Widening | None:
    """Which types a write that evolves the schema widens into which; None for none.

    Raises InvalidInput for a value that the session's setting has not.
    """
    policy = (settings().text(AUTOMATIC) or "").upper()
    if policy not in _WIDENING:
        raise InvalidInput(f"The setting spark.databricks.delta.{AUTOMATIC} is one of {', '.join(_WIDENING)}, not {policy!r}", table=snapshot.table)
    return _WIDENING[policy] if snapshot.properties.type_widening else None
