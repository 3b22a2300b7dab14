"""Tables on the local disk under an arbiter in memory.  A path asks for an arbiter on S3 alone; there a session needs Hadoop's connector."""

from __future__ import annotations

from typing import Any

import pytest

from rowlock.api import handle
from rowlock.storage import LocalStore
from rowlock.storage.dynamodb import ArbitratedStore, EntryTable
from rowlock_simulation.servers.dynamodb import DynamoDbTable


def arbitrated(patch: pytest.MonkeyPatch) -> EntryTable:
    """From now on handles open every table under one arbiter, whose entries are returned."""
    client: Any = DynamoDbTable()
    entries = EntryTable(client, "delta_log")
    patch.setattr(handle, "open_store", lambda path, _=None: ArbitratedStore(LocalStore(path), entries))
    return entries
