"""The version of a table that a caller asks for: by its number, by a time, or the newest."""

from __future__ import annotations

import datetime

from rowlock.exceptions import InvalidInput
from rowlock.log.snapshot import Snapshot
from rowlock.transaction.state.shared import SharedState


def snapshot_of(state: SharedState, version: int | None = None, timestamp: str | datetime.datetime | None = None) -> Snapshot:
    """The snapshot that was asked for; the newest by default.  A time is a datetime or ISO text, in UTC where it has no zone.

    Raises TableNotFound, VersionNotFound, and InvalidInput where both are given.
    """
    if version is not None and timestamp is not None:
        raise InvalidInput("Give a version or a timestamp, not both", table=state.store.root)
    if version is not None:
        return state.log.at(version)
    if timestamp is not None:
        return state.log.at_timestamp(_milliseconds(timestamp, state.store.root))
    return state.refresh()


def _milliseconds(timestamp: str | datetime.datetime, table: str) -> int:
    if isinstance(timestamp, str):
        try:
            timestamp = datetime.datetime.fromisoformat(timestamp)
        except ValueError as e:
            raise InvalidInput(f"{timestamp!r} is not a time; write it like 2026-11-21 08:00:00 or 2026-11-21T08:00:00+01:00", table=table) from e
    aware = timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=datetime.UTC)
    return int(aware.timestamp() * 1000)
