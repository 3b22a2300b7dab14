"""What a table's protocol says, changed by name, under the names of `delta.tables`."""

from __future__ import annotations

from rowlock import arguments
from rowlock.api.handle import Handle, Receipts, commits
from rowlock.transaction.definition import protocol


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
        """Removes a feature from the table's protocol, where the table holds no trace of it.  Runs no Spark job.

        Args:
            featureName: The feature's name.
            truncateHistory: Whether to remove the history that the feature has left; refused by this version where there is some.

        Raises:
            StatementRefused: The feature is not there, cannot be dropped, or has left traces; it is named.
            WrongType: An argument is of another type.

        Examples:
            >>> t.addFeatureSupport("vacuumProtocolCheck")
            >>> t.dropFeatureSupport("vacuumProtocolCheck")
        """
        arguments.text(featureName, "featureName")
        if truncateHistory is not None:
            arguments.flag(truncateHistory, "truncateHistory")
        self._receipts.last = protocol.drop_feature(self._handle.state, featureName, truncate_history=bool(truncateHistory))
