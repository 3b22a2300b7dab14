"""Which files may be deleted: none that lives, none that was removed within the retention, and none that is committed afterwards (I10)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rowlock.protocol.actions import AddFile, Commit, RemoveFile
from rowlock.protocol.names import commit_key
from rowlock.protocol.properties import TableProperties
from rowlock_simulation.history import History
from rowlock_simulation.scheduler import START_MS

_SKEW_MS = 61_000
"""So far ahead of the store's clock VACUUM still goes by its own; some stores cut their times to seconds."""
_LOOK_US = 120_000_000
"""So long before its commit a writer may have looked for a file."""


def wrongly_deleted(properties: TableProperties, history: History, commits: Sequence[Commit]) -> list[str]:
    """The files of one table that were deleted while one of its versions within the retention named them, or before a version that names them.

    A file that is older than the retention when it is committed may be deleted between its writer's look and the put, or by a VACUUM that looked before the put: that cannot be
    excluded, and the table is not read anew.  RESTORE has no such excuse: it copies what a VACUUM may delete.
    """
    retention_ms = properties.deleted_file_retention_ms
    wrong, live, removed = list[str](), dict[str, tuple[str, ...]](), dict[str, int]()
    gone, late = dict[str, int](), dict[str, int]()  # when names were deleted; and committed, of files older than the retention
    left = list(commits)
    for at_us, key in sorted(history.deletions):
        while left and history.committed_us[commit_key(left[0].version)] <= at_us:
            wrong += _take(left.pop(0), live, removed, gone, late, history, retention_ms)
        if at_us - late.get(key, at_us - _LOOK_US) < _LOOK_US:
            history.overtaken = True
        elif key in {name for names in live.values() for name in names}:
            wrong.append(f"I10: {key} was deleted while it lived")
        elif removed.get(key, 0) >= START_MS + at_us // 1000 - retention_ms + _SKEW_MS:
            wrong.append(f"I10: {key} was deleted within the retention")
        gone[key] = at_us
    for commit in left:
        wrong += _take(commit, live, removed, gone, late, history, retention_ms)
    return wrong


def _take(
    commit: Commit, live: dict[str, tuple[str, ...]], removed: dict[str, int], gone: dict[str, int], late: dict[str, int], history: History, retention_ms: int
) -> Iterator[str]:
    """Takes a commit in; yields what is wrong with the files that it names."""
    for remove in commit.removes:
        live.pop(remove.path, None)
        removed |= {name: max(removed.get(name, 0), remove.deletion_timestamp_ms or 0) for name in _names(remove)}
    at_us = history.committed_us[commit_key(commit.version)]
    copies = commit.info is not None and commit.info.operation == "RESTORE"
    for add in commit.adds:
        live[add.path] = _names(add)
        if not copies and START_MS + at_us // 1000 - add.modification_time_ms > retention_ms:
            late |= dict.fromkeys(_names(add), at_us)
        if late.get(add.path) == at_us and at_us - gone.get(add.path, at_us - _LOOK_US) < _LOOK_US:
            history.overtaken = True
            continue
        yield from (f"I10: version {commit.version} adds {name}, which was deleted before" for name in _names(add) if name in gone)


def _names(file: AddFile | RemoveFile) -> tuple[str, ...]:
    """A data file and the file of its deletion vector."""
    vector = file.deletion_vector
    return (file.path,) if vector is None or vector.path is None else (file.path, vector.path)
