"""Row identity, commit by commit (I6): who each row is after a commit, against the commit's statements run by the plain interpreter.

A row that was there before keeps its id; its commit version is the commit's if a statement updated it and
what it was if not, wherever the row lies now.  All other rows are new: their ids were never given before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from rowlock.log.snapshot import Snapshot
from rowlock.protocol.row_tracking import high_water_mark
from rowlock_simulation.memory.sql.script import Script
from rowlock_simulation.serial import Row, SerialTable

ROW_ID, COMMIT_VERSION = "_row_id", "_row_commit_version"
TRACKED = {"delta.enableRowTracking": "true"}


class Interpreter(SerialTable):
    """Rows that carry who they are through statements: an updated row has no commit version, a new row no id."""

    def _set(self, row: Row, assignments: Iterable[tuple[str, str]], target: Row, source: Row | None = None) -> Row:
        after = super()._set(row, assignments, target, source)
        return {**after, COMMIT_VERSION: None} if ROW_ID in after else after


def check(columns: Sequence[str], before: tuple[Snapshot, list[Row]], after: tuple[Snapshot, list[Row]], scripts: Sequence[Script]) -> None:
    """`before` and `after`: a commit's neighbours, with all rows and who they are."""
    (head, old), (made, rows) = before, after
    assert made.version == head.version + 1
    mark = high_water_mark(head.domains)
    ids = [row[ROW_ID] for row in rows]
    assert len(set(ids)) == len(ids), f"a row id twice in version {made.version}: {sorted(ids)}"
    assert max([high_water_mark(head.domains), *ids]) <= high_water_mark(made.domains), "a row id above the high-water mark"
    serial = Interpreter(tuple(columns), rows=list(old))
    serial.run(*scripts)
    assert _bag(columns, rows, mark, made.version) == _bag(columns, serial.rows, mark, made.version), f"other rows kept their ids in version {made.version}"


def _bag(columns: Sequence[str], rows: Iterable[Row], mark: int, version: int) -> Counter[Any]:
    out = []
    for row in rows:
        row_id = row.get(ROW_ID)
        is_new = row_id is None or row_id > mark
        last = row.get(COMMIT_VERSION)
        out.append(("new" if is_new else row_id, version if last is None else last, *(row[c] for c in columns)))
    return Counter(out)


def check_feed(columns: Sequence[str], before: list[Row], after: tuple[Snapshot, list[Row]], feed: Iterable[tuple[str, Row]], data_change: bool) -> None:
    """The change data of a commit is the difference of its neighbours, row by row and net; it has none where rows were only moved."""
    made, rows = after
    found = Counter((change, *(row[c] for c in columns)) for change, row in feed)
    if not data_change:
        assert not found, "a compaction has changes"
        return
    old, new = ({row[ROW_ID]: row for row in side} for side in (before, rows))
    wanted: list[tuple[str, Row]] = [("delete", row) for row_id, row in old.items() if row_id not in new]
    for row_id, row in new.items():
        if row_id not in old:
            wanted.append(("insert", row))
        elif row[COMMIT_VERSION] == made.version:
            wanted += [("update_preimage", old[row_id]), ("update_postimage", row)]
    assert found == Counter((change, *(row[c] for c in columns)) for change, row in wanted), f"the change data of version {made.version} is not what changed"
