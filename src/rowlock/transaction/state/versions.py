"""Time travel: the snapshot that a caller asks for by version, by time, or the newest.

A time without a zone is local time, everywhere: text is in the time zone of the Spark session where there is one, else in that of the Python
process (which a session takes by default); a datetime is in that of the Python process, as PySpark gives and takes datetimes.
"""

from __future__ import annotations

import datetime
from typing import Any

from rowlock.conditions import named
from rowlock.exceptions import InvalidInput, WrongType
from rowlock.log.snapshot import Snapshot
from rowlock.transaction.state.shared import SharedState

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
WRITE_IT_LIKE = "write it like 2026-11-21 08:00:00 or 2026-11-21T08:00:00+01:00"


def snapshot_of(state: SharedState, version: int | None = None, timestamp_ms: int | None = None, zone: datetime.tzinfo | None = None) -> Snapshot:
    """The snapshot of a version, of the newest version at a time (milliseconds since the epoch), or by default of the newest of all.

    Errors name times in `zone`, by default that of this process.
    Raises TableNotFound, VersionNotFound, and InvalidInput where both are given.
    """
    if version is not None and timestamp_ms is not None:
        raise InvalidInput("Give a version or a timestamp, not both", table=state.store.root, condition=named("DELTA_ONEOF_IN_TIMETRAVEL"))
    if version is not None:
        return state.log.at(version)
    if timestamp_ms is not None:
        return state.log.at_timestamp(timestamp_ms, zone)
    return state.refresh_to_read()[1]


def local_milliseconds(timestamp: Any, table: str) -> int:
    """Milliseconds since the epoch of a datetime or of ISO text; without a zone both are in the zone of this process.  Parts of a millisecond are cut off.

    Raises InvalidInput for text that is no time and for a time out of range, WrongType for anything else.
    """
    if not isinstance(timestamp, (str, datetime.datetime)):
        raise WrongType(f"timestamp needs to be a string or a datetime but got {type(timestamp).__name__}", table=table)
    try:
        given = datetime.datetime.fromisoformat(timestamp) if isinstance(timestamp, str) else timestamp
        return (given.astimezone(datetime.UTC) - _EPOCH) // datetime.timedelta(milliseconds=1)
    except (ValueError, OverflowError, OSError) as e:
        raise InvalidInput(f"{str(timestamp)!r} is not a time that can be used: {WRITE_IT_LIKE}", table=table) from e
