"""Replaces the rows of a table together with its columns and its partitioning (Delta's overwriteSchema), in one commit.

It is a change of the table's definition: properties, name and protocol stay, and whatever rows others committed meanwhile are replaced, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rowlock import clock
from rowlock.boundary import row_identity
from rowlock.conditions import named
from rowlock.conflict.rules import is_harmless
from rowlock.conflict.value import conflict_with
from rowlock.exceptions import SchemaMismatch, StatementRefused
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import clustering, column_mapping, row_tracking
from rowlock.protocol import schema as schemas
from rowlock.protocol.actions import AddFile, Commit, DomainMetadata, Metadata, SetTransaction
from rowlock.transaction.definition import creation
from rowlock.transaction.definition.head_commit import HeadActions, commit_from_head
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import SharedState


def overwritten_metadata(head: Snapshot, schema: schemas.StructType, partition_by: Sequence[str]) -> Metadata:
    """The table's metadata with other columns and another partitioning.  Raises SchemaMismatch and UnsupportedFeature for what no table may have."""
    if not schema.fields:
        raise SchemaMismatch("The rows have no columns, so they do not replace the table", table=head.table, condition=named("DELTA_EMPTY_DATA"))
    schemas.check_no_collation(schema.fields, head.table)
    mapped = column_mapping.is_mapped(head.metadata.configuration)
    schemas.validate_new_schema(schema, partition_by, column_mapping=mapped, table=head.table)
    if missing := [c for c in partition_by if schema.find(c) is None]:
        raise SchemaMismatch(
            f"There is no column {missing[0]!r} to partition by; the rows have {', '.join(schema.names)}",
            table=head.table,
            condition=named("DELTA_PARTITION_COLUMN_NOT_FOUND", columnName=f"`{missing[0]}`", schemaMap=", ".join(schema.names)),
        )
    names = tuple(found.name for c in partition_by if (found := schema.find(c)) is not None)
    if schemas.schema_json(schema) == head.metadata.schema_string and names == head.metadata.partition_columns:
        return head.metadata
    fresh = replace(head.metadata, schema_string=schemas.schema_json(schema), partition_columns=names)
    metadata = column_mapping.with_column_ids(fresh, clock.new_id)
    creation.check_new_table(metadata, head.table)
    return metadata


def overwrite(
    state: SharedState,
    base: Snapshot,
    metadata: Metadata,
    adds: Sequence[AddFile],
    *,
    app: SetTransaction | None = None,
    parameters: Mapping[str, Any],
    derived_from: Sequence[int] = (),
) -> Receipt:
    """Commits `metadata`, made of `base`, with the files `adds` in place of all rows.

    `derived_from`: the versions of this very table that the rows were read from.  Raises ConcurrentDeleteReadException where it is another by now,
    MetadataChangedException where others changed the table's definition, StatementRefused on an append-only table, and under `fail`
    DeltaConcurrentModificationException.
    """

    def make(head: Snapshot) -> HeadActions | None:
        if app is not None and (step := head.txns.get(app.app_id)) is not None and step.version >= app.version:
            return None
        if other := [v for v in derived_from if v != head.version]:
            text = f"The new rows were read from version {other[0]} of this table, and version {head.version} would be replaced."
            raise conflict_with(Commit(head.version), "rows read", what=text).exception(head.table)
        if head.metadata != base.metadata and not is_harmless(base.metadata, head.metadata, head.protocol):
            text = "Another commit changed the table's definition while the rows were written that replace it."
            raise conflict_with(Commit(head.version), "metadata", what=text).exception(head.table)
        if head.properties.append_only:
            raise StatementRefused(
                "The table is append-only (delta.appendOnly=true); unset the property to replace rows",
                what="removing rows",
                table=head.table,
                condition=named("DELTA_CANNOT_MODIFY_APPEND_ONLY", table_name=head.table, config="delta.appendOnly"),
            )
        fresh = replace(head.metadata, schema_string=metadata.schema_string, partition_columns=metadata.partition_columns)
        if column_mapping.MAX_ID in metadata.configuration:
            fresh = replace(fresh, configuration={**fresh.configuration, column_mapping.MAX_ID: metadata.configuration[column_mapping.MAX_ID]})
        protocol = creation.widest(head.protocol, creation.protocol_for(fresh))
        mark = row_tracking.high_water_mark(head.domains, head.table)
        born, marks = row_identity.assign_row_ids_under(protocol, fresh, adds, mark=mark, version=head.version + 1, count=creation.refuse_uncounted)
        now = clock.now_ms()
        return HeadActions(
            adds=born,
            metrics={**creation.append_metrics(adds), "numRemovedFiles": len(head.files), "numRemovedBytes": head.files.total_size_bytes},
            removes=tuple(f.removed(deletion_timestamp_ms=now, data_change=True) for f in head.files.adds()),
            protocol=protocol if protocol != head.protocol else None,
            metadata=fresh if fresh != head.metadata else None,
            domains=(*_clustering(head, fresh), *marks),
            txns=() if app is None else (replace(app, last_updated_ms=now),),
        )

    receipt = commit_from_head(state, "WRITE", parameters, make, removes_rows=True)
    return replace(receipt, already_committed=True) if receipt.version is None else receipt


def _clustering(head: Snapshot, metadata: Metadata) -> list[DomainMetadata]:
    """The removal of the clustering columns, where the table will not have all of them."""
    stored, schema = clustering.stored_columns(head.domains, head.table), schemas.parse_schema(metadata.schema_string)
    there = {schema.physical_path(path) for path, _ in schema.leaves()}
    if not stored or (set(stored) <= there and not metadata.partition_columns):
        return []
    return [replace(head.domains[clustering.DOMAIN], removed=True)]
