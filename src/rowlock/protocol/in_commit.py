"""In-commit timestamps: a commit time in each commit that always increases, whatever clocks and file systems do.

A table has them from the version that its two enablement properties name, or else from its first version.  Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rowlock.protocol.actions import Metadata
from rowlock.protocol.properties import TableProperties

ENABLEMENT_VERSION = "delta.inCommitTimestampEnablementVersion"
ENABLEMENT_TIMESTAMP = "delta.inCommitTimestampEnablementTimestamp"


def with_commit_timestamp(info: Mapping[str, Any], configuration: Mapping[str, str], last_ms: int | None) -> dict[str, Any]:
    """The commitInfo with an in-commit timestamp later than the head's; unchanged if the table has no in-commit timestamps.

    `last_ms` is the head's timestamp, None for the first commit of a table.  Computed again for every put.
    """
    if not TableProperties(configuration).in_commit_timestamps:
        return dict(info)
    at = info["timestamp"] if last_ms is None else max(info["timestamp"], last_ms + 1)
    return {"inCommitTimestamp": at, **info, "timestamp": at}


def first_version(configuration: Mapping[str, str]) -> int | None:
    """The first version whose commit has an in-commit timestamp; None if the table has none."""
    if not TableProperties(configuration).in_commit_timestamps:
        return None
    since = configuration.get(ENABLEMENT_VERSION, "0")
    return int(since) if since.isdigit() else 0


def with_enablement(before: Metadata, after: Metadata, version: int, timestamp_ms: int) -> Metadata:
    """The metadata of commit `version`, with the enablement properties if in-commit timestamps were not on from the first version."""
    had, has = (TableProperties(m.configuration).in_commit_timestamps for m in (before, after))
    if not has:
        return after
    since = (
        {ENABLEMENT_VERSION: str(version), ENABLEMENT_TIMESTAMP: str(timestamp_ms)}
        if not had
        else {k: before.configuration[k] for k in (ENABLEMENT_VERSION, ENABLEMENT_TIMESTAMP) if k in before.configuration}
    )
    others = {
        k: v for k, v in after.configuration.items() if k not in (ENABLEMENT_VERSION, ENABLEMENT_TIMESTAMP)
    }  # RESTORE may bring back old enablement properties
    return replace(after, configuration={**others, **since})
