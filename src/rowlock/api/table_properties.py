"""Sets and unsets table properties, and changes by name what a table's protocol says, under the names of `delta.tables`.

Turning column mapping off writes all data files again, under the names that the columns have now, in one commit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from rowlock import arguments, clock
from rowlock.api.handle import Handle, Receipts, commits
from rowlock.api.optimize_builder import DeltaOptimizeBuilder
from rowlock.conditions import named
from rowlock.exceptions import StatementRefused
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.files import files_with_older_types
from rowlock.protocol import clustering, column_mapping, row_tracking, schema as schemas
from rowlock.protocol.actions import AddFile, Metadata
from rowlock.protocol.column_mapping import MODE
from rowlock.protocol.delta_properties import spelled
from rowlock.protocol.feature_removal import COLUMN_MAPPING, DELETION_VECTORS, TYPE_WIDENING, has_type_changes, with_properties, without_type_changes
from rowlock.protocol.properties import is_true, validate_properties, validate_together
from rowlock.transaction.definition import creation, table_features
from rowlock.transaction.definition.head_commit import HeadActions, StagedFiles, commit_from_head
from rowlock.transaction.state.receipt import Receipt

_OPERATION = "REMOVE COLUMN MAPPING"


def set_properties(handle: Handle, properties: Mapping[str, str]) -> Receipt:
    """Sets table properties.  Raises what `backfill.set_properties` and `_turn_off` raise."""
    properties = spelled(properties)
    if _turns_off(handle, properties):
        return _turn_off(handle, properties)
    return table_features.set_properties(handle.state, handle.table.engine, properties)


def unset_properties(handle: Handle, keys: Sequence[str]) -> Receipt:
    """Removes table properties; names that are not set are passed over."""
    keys = list(spelled(dict.fromkeys(keys)))
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
        return HeadActions(
            adds=tuple(files.adds),
            removes=tuple(f.removed(deletion_timestamp_ms=now, data_change=False) for f in head.files.adds()),
            protocol=creation.upgraded(head.protocol, metadata.configuration),
            metadata=creation.stored(metadata),
            domains=(clustering.clustering_domain(head.clustering_columns),) if clustering.DOMAIN in head.domains else (),
        )

    with StagedFiles(handle.state.store) as files:
        return commit_from_head(handle.state, _OPERATION, {}, make, reads_rows=True)


def _unmapped(head: Snapshot, properties: Mapping[str, str], unset: Collection[str]) -> Metadata:
    """The head's metadata without column mapping, and with the properties.  Raises SchemaMismatch, StatementRefused, InvalidInput."""
    after = with_properties(head.metadata, {**properties, **dict.fromkeys(unset)})
    validate_together(configuration := after.configuration, head.table, given=properties)
    if is_true(configuration, row_tracking.ENABLED):
        text = "Column mapping cannot be turned off while rows keep their ids, which files that are written again would lose: set delta.enableRowTracking=false first"
        raise StatementRefused(text, what="turning off column mapping", table=head.table)
    schemas.check_characters(head.schema, head.table, schemas.REMOVING_MAPPING)
    metadata = column_mapping.without_mapping(after)
    schemas.validate_new_schema(schemas.parse_schema(metadata.schema_string), metadata.partition_columns, table=head.table)
    return metadata


def _rewritten(handle: Handle, head: Snapshot, metadata: Metadata) -> list[AddFile]:
    """The rows of the head in new data files, under other metadata."""
    rows = handle.planner.rows(head, fixed=True)
    written = handle.engine.write_frame(rows, snapshot=creation.draft_snapshot(metadata, handle.path), gives_generated=True)
    return [replace(add, data_change=False) for add in written]


class Upgrades:
    """The methods of `DeltaTable` that change the table's protocol."""

    _handle: Handle
    _receipts: Receipts

    @commits("alter")
    def upgradeTableProtocol(self, readerVersion: int, writerVersion: int) -> None:
        """Raises the versions of the table's protocol; where they are as high already nothing is done.  Runs no Spark job.

        Args:
            readerVersion: The least reader version, 1 to 3.
            writerVersion: The least writer version, 1 to 7.

        Raises:
            InvalidInput: The versions do not go together.
            UnsupportedFeature: This version could not write the table then.

        Examples:
            >>> t.upgradeTableProtocol(3, 7)
            >>> t.detail().first()["minWriterVersion"]
            7
        """
        for value, name in ((readerVersion, "readerVersion"), (writerVersion, "writerVersion")):
            arguments.number(value, name)
        self._receipts.last = table_features.raise_versions(self._handle.state, readerVersion, writerVersion)

    @commits("alter")
    def addFeatureSupport(self, featureName: str) -> None:
        """Lists a feature in the table's protocol, so that it can be used.  Runs no Spark job.

        Args:
            featureName: The feature's name, such as `changeDataFeed`.

        Raises:
            UnsupportedFeature: This version could not write the table then; the feature is named.
            StatementRefused: The table cannot have the feature: it is partitioned, and the feature is `clustering`.

        Examples:
            >>> t.addFeatureSupport("changeDataFeed")
            >>> "changeDataFeed" in t.detail().first()["tableFeatures"]
            True
        """
        arguments.text(featureName, "featureName")
        self._receipts.last = table_features.add_feature(self._handle.state, featureName)

    @commits("alter")
    def dropFeatureSupport(self, featureName: str, truncateHistory: bool | None = None) -> None:
        """Removes a feature from the table's protocol, and what the table holds of it.  Where data files hold some, a Spark job writes them again.

        Args:
            featureName: The feature's name.
            truncateHistory: Whether the older versions that use the feature are deleted, too, once they are older than
                `delta.dropFeatureTruncateHistory.retentionDuration` (24 hours by default): the first call ends with an error that says to wait, a later
                one drops the feature.  Otherwise the feature goes at once, and `checkpointProtection` keeps the checkpoints that hide these versions.

        Raises:
            StatementRefused: The feature is not there, cannot be dropped, is the user's to take away first, or older versions use it still; it is named.

        Examples:
            >>> t.addFeatureSupport("vacuumProtocolCheck")
            >>> t.dropFeatureSupport("vacuumProtocolCheck")
        """
        arguments.text(featureName, "featureName")
        arguments.optional(arguments.flag, truncateHistory, "truncateHistory")
        self._receipts.last = table_features.drop_feature(
            self._handle.state, featureName, lambda feature: _clear(self._handle, feature), truncate_history=bool(truncateHistory)
        )


def _clear(handle: Handle, feature: str) -> None:
    """Writes again what data files hold of a feature, and takes it from the columns.  Runs Spark jobs where there are many rows."""
    if feature == DELETION_VECTORS:
        DeltaOptimizeBuilder(handle, Receipts())._purge()
    elif feature == COLUMN_MAPPING:
        unset_properties(handle, [MODE])
    elif feature.startswith(TYPE_WIDENING):
        DeltaOptimizeBuilder(handle, Receipts())._rewrite(files_with_older_types, "rewriteTypeWidening")
        creation.change_metadata(handle.state, "DROP FEATURE", {"featureName": feature}, lambda head: _unwidened(handle, head))


def _unwidened(handle: Handle, head: Snapshot) -> Metadata:
    """The head's metadata whose columns say of no other types.  Raises StatementRefused where another writer brought a file with an older type back."""
    if has_type_changes(head.metadata) and (older := files_with_older_types(handle.state.store, head.files.adds(), head)):
        text = f"Feature {TYPE_WIDENING} cannot be dropped: another writer brought back {older[0].path}, which holds a type that was widened; run it again"
        condition = named("DELTA_FEATURE_DROP_CONFLICT_REVALIDATION_FAIL", concurrentCommit=head.version)
        raise StatementRefused(text, what=TYPE_WIDENING, table=head.table, condition=condition)
    return without_type_changes(head.metadata)
