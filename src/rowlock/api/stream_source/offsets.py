"""How far a stream has read a table, as the checkpoint of its query keeps it.

The text has the keys of delta-spark's offsets, so a query goes on from a checkpoint that delta-spark wrote.  One key more is in the offset that
ends a query's first batch: where that batch begins, which would be found anew after a restart.
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from rowlock.exceptions import InvalidInput

NOTHING, CHANGE, AFTER_CHANGE = -100, -20, -19
"""Indices before the first file of a version: nothing of it is read yet; its change of the columns comes next; that change was handed over."""
_NOTHING_IN_1 = -1


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in the files of a table: everything before it is read, and of `version` the files up to `index`, counted from 0.

    `initial` says that the files meant are those which the table has at the version, not those which the version adds.
    """

    version: int
    index: int = NOTHING
    initial: bool = False


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """An offset: the table's id, the position, and in the first batch's end the position that it began with."""

    table_id: str
    at: Position
    start: Position | None = None

    def text(self) -> str:
        """The offset as JSON; equal offsets have equal texts, by which Spark compares them."""
        said: dict[str, object] = {
            "sourceVersion": 3 if self.at.index in (CHANGE, AFTER_CHANGE) else 1,
            "reservoirId": self.table_id,
            "reservoirVersion": self.at.version,
            "index": _NOTHING_IN_1 if self.at.index == NOTHING else self.at.index,
            "isStartingVersion": self.at.initial,
        }
        if self.start is not None:
            said["rowlockStart"] = {"version": self.start.version, "isStartingVersion": self.start.initial}
        return orjson.dumps(said).decode()


def parse(text: str, table: str) -> StreamOffset:
    """The offset of a checkpoint.  Raises InvalidInput where it is none."""
    try:
        said = orjson.loads(text)
        form, index = int(said["sourceVersion"]), int(said["index"])
        start = said.get("rowlockStart")
        offset = StreamOffset(
            str(said["reservoirId"]),
            Position(int(said["reservoirVersion"]), NOTHING if index == _NOTHING_IN_1 else index, bool(said["isStartingVersion"])),
            None if start is None else Position(int(start["version"]), NOTHING, bool(start["isStartingVersion"])),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise InvalidInput(f"The checkpoint's offset {text} is not one of a Delta table: start the query with another checkpoint", table=table) from e
    if form not in (1, 3):
        raise InvalidInput(f"The checkpoint's offset {text} has another form than delta-spark's of today: start the query with another checkpoint", table=table)
    return offset
