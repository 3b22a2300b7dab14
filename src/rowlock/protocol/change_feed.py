"""The change data feed: which tables have one, and the `cdc` action of a change data file.

All changes of a version come from its `cdc` files or, if it has none, from its add and remove actions.
Clause "Add CDC File" of the protocol.  Pure.
"""

from __future__ import annotations

from typing import Literal

from rowlock.protocol import paths
from rowlock.protocol.actions import AddCdcFile, AddFile, Metadata, Protocol
from rowlock.protocol.features import writer_features
from rowlock.protocol.properties import is_true

FEATURE = "changeDataFeed"
ENABLED = "delta.enableChangeDataFeed"
FORMER_NAME = "delta.enableChangeDataCapture"
FOLDER = "_change_data"
CHANGE_TYPE = "_change_type"
ChangeType = Literal["insert", "update_preimage", "update_postimage", "delete"]


def is_enabled(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether the change data feed is on: the feature is listed and the property is set."""
    name = ENABLED if ENABLED in metadata.configuration else FORMER_NAME
    return FEATURE in writer_features(protocol) and is_true(metadata.configuration, name)


def cdc_action(file: AddFile) -> AddCdcFile:
    """The `cdc` action of a change data file, which was written like a data file."""
    return AddCdcFile({"path": paths.encode(file.path), "partitionValues": dict(file.partition_values), "size": file.size_bytes, "dataChange": False})
