"""Where a compaction put the rows of a file that it removed: `compactedInto` and `compactionInfo` among the remove's tags.

A file's rows that live under the vector which the remove names lie in the output one after the other,
in their old order, from `offset` on.  Only placements that Rowlock wrote are believed, and of these only the ones
of the format that is written now: in an earlier one the order of large outputs was taken for granted, and
was wrong in partitioned tables.  What is not believed is rebased, which costs time and nothing else.  Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from rowlock.protocol.actions import RemoveFile

_INTO, _INFO, _WRITER, _FORMAT = "compactedInto", "compactionInfo", "rowlock", 2


@dataclass(frozen=True, slots=True)
class Placement:
    """`rows` live rows of a removed file lie in the file `into` from position `offset` on."""

    into: str
    offset: int
    rows: int

    def tags(self) -> dict[str, str]:
        info = {"writer": _WRITER, "format": _FORMAT, "offset": self.offset, "rows": self.rows}
        return {_INTO: self.into, _INFO: orjson.dumps(info).decode()}


def placement_of(remove: RemoveFile) -> Placement | None:
    """What a remove says of its rows' new place; None where it says nothing that can be relied on."""
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
