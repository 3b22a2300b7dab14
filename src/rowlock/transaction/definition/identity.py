"""Reserves numbers of identity columns, by commits that move high-water marks and nothing else (I3, I5).

Rows are staged with their numbers in them, so the numbers are taken before: by a commit of their own, which is not lost for long and
conflicts with no writer, ours or delta-spark's.  A statement that fails after that leaves a gap.  No two writers ever reserve one number,
for the mark of each reservation is computed from the head that its commit lands on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rowlock.conflict.value import conflict_with
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import column_values
from rowlock.protocol.actions import Commit
from rowlock.protocol.column_values import Identity, identity_columns
from rowlock.transaction.definition.alteration import described
from rowlock.transaction.definition.head_commit import HeadActions, commit_from_head
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import SharedState

_TAGS = {column_values.MARKS_ONLY_TAG: "true"}


class Numbers:
    """The numbers of one statement's new rows: `take(n)` gives the first number of the next n rows, for each of `columns`."""

    def __init__(self, state: SharedState, columns: Sequence[Identity]) -> None:
        self._state, self._columns = state, tuple(columns)
        self._next: dict[str, int] = {}
        self._left = self._taken = 0

    def take(self, count: int, beyond: Mapping[str, int] | None = None) -> Mapping[str, int]:
        """By column, the first of `count` numbers past those in `beyond`, the others in steps after it.  One commit, and fewer where rows come in many pieces."""
        if not self._columns or not count:
            return {c.name: c.start for c in self._columns}
        if count > self._left:
            wanted = max(count, self._taken)
            self._next, self._left = dict(reserve(self._state, [c.name for c in self._columns], wanted, beyond or {})), wanted
        first = dict(self._next)
        self._next = {c.name: self._next[c.name] + c.step * count for c in self._columns}
        self._left -= count
        self._taken += count
        return first


def reserve(state: SharedState, names: Sequence[str], count: int, beyond: Mapping[str, int]) -> Mapping[str, int]:
    """Reserves `count` numbers of each of these columns, past those in `beyond`, and returns the first of each, in one commit.

    Raises MetadataChangedException where one is no identity column at the head: the rows are staged again, under the table's new definition.
    """
    firsts: dict[str, int] = {}

    def make(head: Snapshot) -> HeadActions:
        found = {i.name: i.past(beyond.get(i.name), head.table) for i in identity_columns(head.schema) if i.name in names}
        if gone := [n for n in names if n not in found]:
            text = f"Another commit changed the table's definition while numbers of {', '.join(gone)} were being reserved."
            raise conflict_with(Commit(head.version), "metadata", columns=tuple(gone), what=text).exception(head.table)
        firsts.update({n: i.first_of_next() for n, i in found.items()})
        marks = {n: column_values.last_of(i, count, head.table) for n, i in found.items()}
        return HeadActions(metadata=column_values.with_marks(head.metadata, marks), tags=_TAGS)

    commit_from_head(state, "RESERVE IDENTITY", {"columns": list(names), "count": count}, make)
    return firsts


def sync(state: SharedState, name: str, furthest: Callable[[Snapshot, Identity], int | None]) -> Receipt:
    """Moves the mark of an identity column to the furthest number in its rows, which statements may have set; `furthest` reads it.  The mark never moves back."""

    told: dict[str, Any] = {}

    def make(head: Snapshot) -> HeadActions | None:
        column = next(i for i in identity_columns(head.schema) if i.name.lower() == name.lower())
        told["column"] = next(described(f, ()) for f in head.schema.fields if f.name == column.name)
        synced = column.past(furthest(head, column), head.table)
        if synced.mark is None or synced == column:
            return None
        return HeadActions(metadata=column_values.with_marks(head.metadata, {column.name: synced.mark}), tags=_TAGS)

    return commit_from_head(state, "CHANGE COLUMN", told, make, reads_rows=True)  # as delta-spark calls it
