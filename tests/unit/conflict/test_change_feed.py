"""Which rows a version changed, by its actions and by what its writer says of them."""

from __future__ import annotations

import pytest

from rowlock.conflict.change_feed import changed_rows
from rowlock.protocol.actions import AddFile, Commit, CommitInfo


@pytest.mark.parametrize(("updated", "expected"), [("0", []), ("1", ["delete", "insert"]), (None, ["delete", "insert"])])
def test_a_merge_of_delta_sparks_that_only_copied_rows_changed_none(updated: str | None, expected: list[str]) -> None:
    before, after = (AddFile(name, {}, 10, 0, True, '{"numRecords":3}') for name in "ab")
    metrics = {"numTargetRowsInserted": "0", "numTargetRowsUpdated": updated, "numTargetRowsDeleted": "0", "numTargetRowsCopied": "3"}
    commit = Commit(1, CommitInfo({"operation": "MERGE", "operationMetrics": metrics}), adds=(after,), removes=(before.removed(1, True),))
    assert [c.type for c in changed_rows(commit, lambda file: None, "/t")] == expected
