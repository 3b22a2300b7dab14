"""Changes a table's protocol by name: raises versions, adds a feature.  How one is dropped: `feature_removal`.

Owns no rules of what a protocol means (`protocol/features.py` has them).  Never commits a protocol under which
this version could not write the table any more (I9).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rowlock.conditions import named
from rowlock.exceptions import StatementRefused, UnsupportedFeature
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import features
from rowlock.protocol.actions import Protocol
from rowlock.transaction.definition.head_commit import HeadActions, commit_from_head
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import SharedState

_UPGRADE = "UPGRADE PROTOCOL"


def raise_versions(state: SharedState, reader: int, writer: int) -> Receipt:
    """Raises the versions of the protocol; commits nothing where they are as high already.  Raises InvalidInput, UnsupportedFeature."""
    return _commit(state, _UPGRADE, {"readerVersion": reader, "writerVersion": writer}, lambda head: features.with_versions(head.protocol, reader, writer))


def add_feature(state: SharedState, name: str) -> Receipt:
    """Adds a table feature, by its name in any case.  Raises UnsupportedFeature where this version of Rowlock cannot write a table with it."""
    spelled = next((n for n in features.WRITABLE if n.lower() == name.lower()), None)
    if spelled is None:
        raise UnsupportedFeature(
            f"This version of Rowlock cannot write tables with feature {name!r}, so it is not added; known are {', '.join(sorted(features.WRITABLE))}",
            feature=name,
            access="write",
            table=state.store.root,
            condition=named("DELTA_UNSUPPORTED_FEATURES_IN_CONFIG", configs=f"delta.feature.{name}"),
        )

    def change(head: Snapshot) -> Protocol:
        if spelled == "clustering" and head.partition_columns:
            raise StatementRefused("A partitioned table cannot be clustered, so feature clustering is not added", what=spelled, table=head.table)
        return features.with_feature(head.protocol, spelled)

    return _commit(state, _UPGRADE, {"featureName": spelled}, change)


def _commit(state: SharedState, operation: str, parameters: Mapping[str, Any], change: Callable[[Snapshot], Protocol]) -> Receipt:
    def make(head: Snapshot) -> HeadActions | None:
        protocol = change(head)
        return None if protocol == head.protocol else HeadActions(protocol=protocol)

    return commit_from_head(state, operation, parameters, make)
