"""Where a compaction put the rows of a removed file: the tags `compactedInto` and `compactionInfo` of the remove.

The rows that are live under the remove's deletion vector stand contiguously in the output, in their old order,
from position `offset`.  Only placements written by Rowlock in the current format are trusted: the first format
assumed the row order of large outputs, which was wrong in partitioned tables.  Rows without a trusted placement
are rebased, which only costs time.  Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from rowlock.protocol.actions import RemoveFile

_INTO, _INFO, _WRITER, _FORMAT = "compactedInto", "compactionInfo", "rowlock", 2


@dataclass(frozen=True, slots=True)
class Placement:
    """`rows` live rows of a removed file are in the file `into`, from position `offset`."""

    into: str
    offset: int
    rows: int

    def tags(self) -> dict[str, str]:
        """The placement as tags of a remove action."""
        info = {"writer": _WRITER, "format": _FORMAT, "offset": self.offset, "rows": self.rows}
        return {_INTO: self.into, _INFO: orjson.dumps(info).decode()}


def placement_of(remove: RemoveFile) -> Placement | None:
    """The placement that a remove's tags describe; None if there is none that can be trusted."""
    tags: Mapping[str, str] = remove.tags or {}
    if _INTO not in tags or _INFO not in tags:
        return None
    try:
        info = orjson.loads(tags[_INFO])
    except orjson.JSONDecodeError:
        return None
    if not isinstance(info, dict) or info.get("writer") != _WRITER or info.get("format") != _FORMAT:
        return None
    offset, rows = info.get("offset"), info.get("rows")
    return Placement(tags[_INTO], offset, rows) if isinstance(offset, int) and isinstance(rows, int) else None
