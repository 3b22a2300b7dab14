"""Sets and unsets table properties.  Turning column mapping off writes all data files again, under the names that the columns have now, in one commit."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from rowlock import clock
from rowlock.api.handle import Handle
from rowlock.engines.spark.frames.reading import read_frame
from rowlock.engines.spark.read.scan import table_schema
from rowlock.engines.spark.statements.append import append_blocks, conform
from rowlock.exceptions import StatementRefused
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import clustering, column_mapping, row_tracking
from rowlock.protocol import schema as schemas
from rowlock.protocol.actions import AddFile, Metadata
from rowlock.protocol.properties import validate_properties, validate_together
from rowlock.transaction.definition import backfill, creation
from rowlock.transaction.definition.head_commit import HeadActions, StagedFiles, commit_from_head
from rowlock.transaction.state.receipt import Receipt

_OPERATION = "REMOVE COLUMN MAPPING"


def set_properties(handle: Handle, properties: Mapping[str, str]) -> Receipt:
    """Sets table properties.  Raises what `backfill.set_properties` and `_turn_off` raise."""
    if _turns_off(handle, properties):
        return _turn_off(handle, properties)
    return backfill.set_properties(handle.state, handle.table.engine, properties)


def unset_properties(handle: Handle, keys: Sequence[str]) -> Receipt:
    """Removes table properties; names that are not set are passed over."""
    return _turn_off(handle, {}, keys) if _turns_off(handle, {}, keys) else creation.unset_properties(handle.state, keys)


def _turns_off(handle: Handle, properties: Mapping[str, str], unset: Collection[str] = ()) -> bool:
    """Whether setting and unsetting these properties turns off the column mapping that the table has."""
    asked = column_mapping.MODE in unset or properties.get(column_mapping.MODE, "").strip().lower() == "none"
    return asked and column_mapping.is_mapped(handle.state.refresh().metadata.configuration)


def _turn_off(handle: Handle, properties: Mapping[str, str], unset: Collection[str] = ()) -> Receipt:
    """Sets and unsets these properties, and writes every data file again under the columns' names.  Runs Spark jobs.

    Where others commit first it is done anew at their version.  Raises SchemaMismatch for names that need column mapping, StatementRefused on a table
    that keeps row ids, and what setting properties raises.
    """
    validate_properties(properties, handle.path)

    def make(head: Snapshot) -> HeadActions:
        files.discard()
        metadata, now = _unmapped(head, properties, unset), clock.now_ms()
        files.adds = _rewritten(handle, head, metadata)
        keys = clustering.logical_columns(head.domains, head.schema, head.table)
        return HeadActions(
            adds=tuple(files.adds),
            removes=tuple(f.removed(deletion_timestamp_ms=now, data_change=False) for f in head.files.adds()),
            protocol=creation.upgraded(head.protocol, metadata.configuration),
            metadata=creation.stored(metadata),
            domains=(clustering.clustering_domain(keys),) if clustering.DOMAIN in head.domains else (),
        )

    with StagedFiles(handle.state.store) as files:
        return commit_from_head(handle.state, _OPERATION, {}, make, reads_rows=True)


def _unmapped(head: Snapshot, properties: Mapping[str, str], unset: Collection[str]) -> Metadata:
    """The head's metadata without column mapping, and with the properties.  Raises SchemaMismatch, StatementRefused, InvalidInput."""
    configuration = {k: v for k, v in {**head.metadata.configuration, **properties}.items() if k not in unset}
    validate_together(configuration, head.table, given=properties)
    if row_tracking.asks_for_tracking(configuration):
        text = "Column mapping cannot be turned off while rows keep their ids, which files that are written again would lose: set delta.enableRowTracking=false first"
        raise StatementRefused(text, what="turning off column mapping", table=head.table)
    schemas.check_characters(head.schema, head.table, schemas.REMOVING_MAPPING)
    metadata = column_mapping.without_mapping(replace(head.metadata, configuration=configuration))
    schemas.validate_new_schema(schemas.parse_schema(metadata.schema_string), metadata.partition_columns, table=head.table)
    return metadata


def _rewritten(handle: Handle, head: Snapshot, metadata: Metadata) -> list[AddFile]:
    """The rows of the head in new data files, under other metadata."""
    draft, evaluator = creation.draft_snapshot(metadata, handle.path), handle.evaluator
    rows = conform(read_frame(evaluator, head, fixed=True), table_schema(draft), handle.path)
    written = handle.table.engine.write(append_blocks(evaluator, draft, rows, gives_generated=True), snapshot=draft, vectors_allowed=True)
    return [replace(s.add, data_change=False) for s in written]
