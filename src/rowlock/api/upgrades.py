"""What a table's protocol says, changed by name, under the names of `delta.tables`."""

from __future__ import annotations

from typing import Any

from rowlock.api.handle import Handle, Receipts
from rowlock.exceptions import WrongType
from rowlock.transaction.definition import protocol


class Upgrades:
    """The methods of DeltaTable that change its protocol."""

    _handle: Handle
    _receipts: Receipts

    def upgradeTableProtocol(self, readerVersion: int, writerVersion: int) -> None:
        """Raises the versions of the table's protocol; where they are as high already nothing is done.

        Raises InvalidInput for versions that do not go together, UnsupportedFeature where this version could not write the table then.
        """
        for value, name in ((readerVersion, "readerVersion"), (writerVersion, "writerVersion")):
            _is(value, int, f"{name} needs to be an integer but got '{type(value)}'.")
        self._receipts.last = protocol.raise_versions(self._handle.state, readerVersion, writerVersion)

    def addFeatureSupport(self, featureName: str) -> None:
        """Lists a feature in the table's protocol.  Raises UnsupportedFeature, by its name, where this version could not write the table then."""
        _is(featureName, str, f"featureName needs to be a string but got '{type(featureName)}'.")
        self._receipts.last = protocol.add_feature(self._handle.state, featureName)

    def dropFeatureSupport(self, featureName: str, truncateHistory: bool | None = None) -> None:
        """Takes a feature of which the table holds no trace out of its protocol.  Raises StatementRefused, by its name, for any other."""
        _is(featureName, str, f"featureName needs to be a string but got '{type(featureName)}'.")
        if truncateHistory is not None:
            _is(truncateHistory, bool, f"truncateHistory needs to be a boolean but got '{type(truncateHistory)}'.")
        self._receipts.last = protocol.drop_feature(self._handle.state, featureName, truncate_history=bool(truncateHistory))


def _is(value: Any, kind: type, message: str) -> None:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise WrongType(message)
