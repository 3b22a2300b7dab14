"""The change data feed: which tables have one, and what an action of it holds.

All changes of a version come from its `cdc` files, or (where it has none) from what its adds and
removes say.  Clause "Add CDC File" of the protocol.  Pure.
"""

from __future__ import annotations

from typing import Literal

from rowlock.protocol import paths
from rowlock.protocol.actions import AddCdcFile, AddFile, Metadata, Protocol
from rowlock.protocol.features import writer_features

FEATURE = "changeDataFeed"
ENABLED = "delta.enableChangeDataFeed"
FOLDER = "_change_data"
CHANGE_TYPE = "_change_type"
ChangeType = Literal["insert", "update_preimage", "update_postimage", "delete"]


def is_enabled(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether writers must say what they changed."""
    return FEATURE in writer_features(protocol) and metadata.configuration.get(ENABLED, "").strip().lower() == "true"


def cdc_action(file: AddFile) -> AddCdcFile:
    """The action for a file of changes that was written as a data file is."""
    return AddCdcFile({"path": paths.encode(file.path), "partitionValues": dict(file.partition_values), "size": file.size_bytes, "dataChange": False})
