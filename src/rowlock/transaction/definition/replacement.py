"""Replaces what a table has: all of it (REPLACE TABLE), or its rows, columns and partitioning (Delta's overwriteSchema); RESTORE and clones share the parts.

The new rows are written once the commit has waited for its lease, and again only where the definition that they were written under is another.
Whatever others commit meanwhile is replaced, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rowlock import clock
from rowlock.boundary import row_identity
from rowlock.boundary.engine import refuse_on_append_only
from rowlock.conditions import named
from rowlock.conflict.rules import is_harmless
from rowlock.conflict.value import conflict_with
from rowlock.exceptions import SchemaMismatch
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import clustering, column_mapping, row_tracking, schema as schemas
from rowlock.protocol.actions import AddFile, Commit, DomainMetadata, Metadata, Protocol, SetTransaction
from rowlock.protocol.column_values import refuse_explicit, with_marks_of
from rowlock.protocol.properties import MANIFESTS, PROTECTION, is_true
from rowlock.protocol.schema import ColumnPath
from rowlock.transaction.definition import creation
from rowlock.transaction.definition.head_commit import HeadActions, StagedFiles, commit_from_head
from rowlock.transaction.state.call import settings
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import SharedState

Write = Callable[[Snapshot, Snapshot], tuple[Sequence[AddFile], Sequence[int]]]
"""Writes all new rows for a draft of the table, at a head; none where they are older.  Returns their files, and the versions of this very table that the rows were read from."""
_OUTLIVING = (
    "delta.enableDeletionVectors", "delta.checkpointPolicy", PROTECTION,
    row_tracking.ENABLED, row_tracking.ROW_ID_COLUMN, row_tracking.COMMIT_VERSION_COLUMN,
)  # fmt: skip
"""The properties that a replaced table keeps where neither the statement nor the session sets them."""


class _NewRows(StagedFiles):
    """The files of a replacement's rows; without a `write` there are none."""

    def __init__(self, state: SharedState, write: Write | None) -> None:
        super().__init__(state.store)
        self._write = write
        self._under: Metadata | None = None
        self._read: Sequence[int] = ()

    def discard(self) -> None:
        super().discard()
        self._under, self._read = None, ()

    def under(self, metadata: Metadata, head: Snapshot) -> Sequence[AddFile]:
        """The files, written again where this definition is another than theirs, or they were read from an older version of the table.

        Where they were read from a newer one, the put after this head is lost.  Raises ConcurrentDeleteReadException where they are of an older one still.
        """
        is_old = any(v < head.version for v in self._read)
        if self._write is not None and (self._under is None or is_old or not is_harmless(self._under, metadata, head.protocol)):
            self.discard()
            self.adds, self._read = self._write(creation.draft_snapshot(metadata, head.table), head)
            self._under = metadata
        if (oldest := min(self._read, default=head.version)) < head.version:
            text = f"The new rows were read from version {oldest} of this table, and version {head.version} would be replaced."
            raise conflict_with(Commit(head.version), "rows read", what=text).exception(head.table)
        return self.adds


def with_row_ids(actions: HeadActions, head: Snapshot, count: Callable[[AddFile], int] = creation.refuse_uncounted) -> HeadActions:
    """The actions with row ids for files that have none, where the table gives ids; `count` counts the rows of a file whose statistics do not."""
    protocol, metadata, mark = actions.protocol or head.protocol, actions.metadata or head.metadata, row_tracking.high_water_mark(head.domains, head.table)
    adds, marks = row_identity.assign_row_ids_under(protocol, metadata, actions.adds, mark=mark, version=head.version + 1, count=count)
    return replace(actions, adds=adds, domains=(*actions.domains, *marks))


def clustering_from(head: Snapshot, wanted: DomainMetadata | None) -> tuple[DomainMetadata, ...]:
    """What records these clustering columns, or with None that there are none, on top of a head."""
    now = head.domains.get(clustering.DOMAIN)
    return () if wanted == now else (wanted,) if wanted is not None else (replace(now, removed=True),) if now is not None else ()


def all_replaced(
    head: Snapshot, metadata: Metadata, protocol: Protocol, adds: Sequence[AddFile], clustered: DomainMetadata | None, *, with_rows: bool
) -> HeadActions:
    """The actions by which the files `adds` take the place of all files, under another definition; the protocol is never lowered."""
    now, removed = clock.now_ms(), {"numRemovedFiles": len(head.files), "numRemovedBytes": head.files.total_size_bytes}
    return HeadActions(
        adds=tuple(adds),
        removes=tuple(f.removed(deletion_timestamp_ms=now, data_change=True) for f in head.files.adds()),
        protocol=creation.widest(head.protocol, protocol),
        metadata=metadata,
        domains=clustering_from(head, clustered),
        metrics={**creation.append_metrics(adds), **removed} if with_rows else {},
    )


def replace_table(
    state: SharedState,
    metadata: Metadata,
    *,
    cluster_by: Sequence[ColumnPath] = (),
    operation: str = "CREATE OR REPLACE TABLE",
    managed: bool = False,
    write: Write | None = None,
    properties: Mapping[str, str],
    app: SetTransaction | None = None,
) -> Receipt:
    """Replaces the definition of a table and all its rows in one commit, computed again where others commit first.

    `properties`: those that the statement sets; the table keeps what it has of _OUTLIVING beside them, as in delta-spark.

    Raises UnsupportedFeature, TableNotFound, StatementRefused on an append-only table with rows, ConcurrentDeleteReadException where the rows were read from the
    table itself and it is another by then, and under `fail` DeltaConcurrentModificationException.
    """
    given, rows = settings().table_defaults(properties), _NewRows(state, write)

    def make(head: Snapshot) -> HeadActions:
        if len(head.files):
            refuse_on_append_only(head, "replace the table")
        adds = rows.under(new := column_mapping.with_column_ids(column_mapping.keeping_ids(metadata, head.metadata), clock.new_id), head)
        left_out = {*given, *(["delta.enableDeletionVectors"] if is_true(given, MANIFESTS) else ())}  # a manifest cannot say which rows are deleted
        retained = {k: v for k, v in head.metadata.configuration.items() if k in _OUTLIVING and k not in left_out}
        configuration = row_tracking.with_column_names({**new.configuration, **retained}, clock.new_id)
        fresh = with_marks_of(replace(new, id=head.metadata.id, configuration=configuration), head.metadata, head.table)
        protocol, fresh = creation.protocol_for(fresh, clustered=bool(cluster_by)), creation.stored(fresh)
        clustered = creation.clustering_by(fresh, cluster_by, head.table)
        return with_row_ids(all_replaced(head, fresh, protocol, adds, clustered, with_rows=write is not None), head)

    return _committed_once(state, operation, creation.parameters_of(metadata, cluster_by, managed), make, rows, app, replaces=True)


def overwrite_schema(
    state: SharedState, schema: schemas.StructType, partition_by: Sequence[str], write: Write, *, app: SetTransaction | None = None
) -> Receipt:
    """Replaces all rows of a table, its columns and its partitioning in one commit; its properties and its name stay.

    Raises SchemaMismatch and UnsupportedFeature for columns that no table may have, StatementRefused on an append-only table and for always generated numbers,
    ConcurrentDeleteReadException where the rows were read from the table itself and it is another by then, and under `fail` DeltaConcurrentModificationException.
    """
    rows = _NewRows(state, write)
    made_of: tuple[Metadata, Metadata] | None = None

    def make(head: Snapshot) -> HeadActions:
        nonlocal made_of
        refuse_on_append_only(head, "replace rows")
        refuse_explicit(head.schema, {name.lower() for name in schema.names}, head.table)
        if made_of is None or not is_harmless(made_of[0], head.metadata, head.protocol):
            made_of = head.metadata, _overwritten_metadata(head, schema, partition_by)
        metadata = made_of[1]
        adds = rows.under(metadata, head)
        fresh = replace(head.metadata, schema_string=metadata.schema_string, partition_columns=metadata.partition_columns)
        if column_mapping.MAX_ID in metadata.configuration:
            fresh = replace(fresh, configuration={**fresh.configuration, column_mapping.MAX_ID: metadata.configuration[column_mapping.MAX_ID]})
        return with_row_ids(all_replaced(head, fresh, creation.protocol_for(fresh), adds, _clustering_left(head, fresh), with_rows=True), head)

    parameters: dict[str, Any] = {"mode": "Overwrite", "partitionBy": list(creation.spelled(schema, partition_by)), "canOverwriteSchema": True}
    return _committed_once(state, "WRITE", parameters, make, rows, app)


def _committed_once(
    state: SharedState,
    operation: str,
    parameters: Mapping[str, Any],
    make: Callable[[Snapshot], HeadActions],
    rows: _NewRows,
    app: SetTransaction | None,
    *,
    replaces: bool = False,
) -> Receipt:
    """Commits what `make` gives for the head as the step `app` of an application; nothing where that step is in the log already."""

    def step(head: Snapshot) -> HeadActions | None:
        if app is None:
            return make(head)
        if head.has_step(app):
            state.log.make_durable(head.version)
            rows.discard()
            return None
        return replace(make(head), txns=(replace(app, last_updated_ms=clock.now_ms()),))

    with rows:
        receipt = commit_from_head(state, operation, parameters, step, removes_rows=True, replaces=replaces)
    return replace(receipt, already_committed=True) if receipt.version is None else receipt


def _overwritten_metadata(head: Snapshot, schema: schemas.StructType, partition_by: Sequence[str]) -> Metadata:
    """The table's metadata with other columns and another partitioning.  Raises SchemaMismatch and UnsupportedFeature for what no table may have."""
    if not schema.fields:
        raise SchemaMismatch("The rows have no columns, so they do not replace the table", table=head.table, condition=named("DELTA_EMPTY_DATA"))
    schemas.check_no_collation(schema.fields, head.table)
    mapped = column_mapping.is_mapped(head.metadata.configuration)
    schemas.validate_new_schema(schema, partition_by, column_mapping=mapped, table=head.table)
    creation.check_partition_columns(schema, partition_by, head.table)
    names = creation.spelled(schema, partition_by)
    if schemas.schema_json(schema) == head.metadata.schema_string and names == head.metadata.partition_columns:
        return head.metadata
    fresh = replace(head.metadata, schema_string=schemas.schema_json(schema), partition_columns=names)
    metadata = column_mapping.with_column_ids(column_mapping.keeping_ids(fresh, head.metadata), clock.new_id)
    creation.check_new_table(metadata, head.table)
    return metadata


def _clustering_left(head: Snapshot, metadata: Metadata) -> DomainMetadata | None:
    """The record of the clustering columns, where the table will have all of them."""
    stored, schema = clustering.stored_columns(head.domains, head.table), schemas.parse_schema(metadata.schema_string)
    there = {schema.physical_path(path) for path, _ in schema.leaves()}
    return head.domains.get(clustering.DOMAIN) if not stored or (set(stored) <= there and not metadata.partition_columns) else None
