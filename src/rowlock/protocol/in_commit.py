"""In-commit timestamps: a time in each commit that only ever goes up, whatever clocks and file systems do.

A table has them from the version on that its two enablement properties name, or from its first.  Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rowlock.protocol.actions import Metadata
from rowlock.protocol.properties import TableProperties

_VERSION = "delta.inCommitTimestampEnablementVersion"
_TIMESTAMP = "delta.inCommitTimestampEnablementTimestamp"


def stamped(info: Mapping[str, Any], configuration: Mapping[str, str], last_ms: int | None) -> dict[str, Any]:
    """A commitInfo with the time of its commit, later than that of the head; as it is where the table has no such times.

    `last_ms` is the head's time, None for the first commit of a table.  Made anew for every put.
    """
    if not TableProperties(configuration).in_commit_timestamps:
        return dict(info)
    at = info["timestamp"] if last_ms is None else max(info["timestamp"], last_ms + 1)
    return {"inCommitTimestamp": at, **info, "timestamp": at}


def enabled(before: Metadata, after: Metadata, version: int, timestamp_ms: int) -> Metadata:
    """The metadata of commit `version`, which says since when the table has such times if that is not since its beginning."""
    had, has = (TableProperties(m.configuration).in_commit_timestamps for m in (before, after))
    if not has:
        return after
    since = (
        {_VERSION: str(version), _TIMESTAMP: str(timestamp_ms)}
        if not had
        else {k: before.configuration[k] for k in (_VERSION, _TIMESTAMP) if k in before.configuration}
    )
    others = {k: v for k, v in after.configuration.items() if k not in (_VERSION, _TIMESTAMP)}  # RESTORE may bring old ones along
    return replace(after, configuration={**others, **since})
