"""What a table's protocol says, changed by name, under the names of `delta.tables`."""

from __future__ import annotations

from rowlock import arguments
from rowlock.api import table_properties
from rowlock.api.handle import Handle, Receipts, commits
from rowlock.api.optimize_builder import DeltaOptimizeBuilder
from rowlock.conditions import named
from rowlock.exceptions import StatementRefused
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.stale_files import files_with_older_types
from rowlock.protocol.actions import Metadata
from rowlock.protocol.column_mapping import MODE
from rowlock.protocol.feature_removal import COLUMN_MAPPING, DELETION_VECTORS, TYPE_WIDENING, has_type_changes, without_type_changes
from rowlock.transaction.definition import creation, feature_removal, protocol


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
            WrongType: A version is not an int.

        Examples:
            >>> t.upgradeTableProtocol(3, 7)
            >>> t.detail().first()["minWriterVersion"]
            7
        """
        for value, name in ((readerVersion, "readerVersion"), (writerVersion, "writerVersion")):
            arguments.number(value, name)
        self._receipts.last = protocol.raise_versions(self._handle.state, readerVersion, writerVersion)

    @commits("alter")
    def addFeatureSupport(self, featureName: str) -> None:
        """Lists a feature in the table's protocol, so that it can be used.  Runs no Spark job.

        Args:
            featureName: The feature's name, such as `changeDataFeed`.

        Raises:
            UnsupportedFeature: This version could not write the table then; the feature is named.
            StatementRefused: The table cannot have the feature: it is partitioned, and the feature is `clustering`.
            WrongType: The name is not a string.

        Examples:
            >>> t.addFeatureSupport("changeDataFeed")
            >>> "changeDataFeed" in t.detail().first()["tableFeatures"]
            True
        """
        arguments.text(featureName, "featureName")
        self._receipts.last = protocol.add_feature(self._handle.state, featureName)

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
            WrongType: An argument is of another type.

        Examples:
            >>> t.addFeatureSupport("vacuumProtocolCheck")
            >>> t.dropFeatureSupport("vacuumProtocolCheck")
        """
        arguments.text(featureName, "featureName")
        if truncateHistory is not None:
            arguments.flag(truncateHistory, "truncateHistory")
        self._receipts.last = feature_removal.drop_feature(
            self._handle.state, featureName, lambda feature: _clear(self._handle, feature), truncate_history=bool(truncateHistory)
        )


def _clear(handle: Handle, feature: str) -> None:
    """Writes again what data files hold of a feature, and takes it from the columns.  Runs Spark jobs where there are many rows."""
    if feature == DELETION_VECTORS:
        DeltaOptimizeBuilder(handle, Receipts())._purge()
    elif feature == COLUMN_MAPPING:
        table_properties.unset_properties(handle, [MODE])
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
