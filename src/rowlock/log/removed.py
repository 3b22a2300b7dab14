"""Which files were removed since a time, and whether the log still proves that these are all.

A checkpoint keeps removes for as long as the table's own retention asked when it was written, which may be
shorter than what is asked now, or may have been once.  The commits before it tell what it dropped, where they are still there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from rowlock.log.segment import list_log
from rowlock.log.snapshot import Snapshot
from rowlock.log.table_log import TableLog
from rowlock.protocol.actions import RemoveFile
from rowlock.protocol.commits import parse_commit
from rowlock.protocol.names import LogFile
from rowlock.storage.store import NotFound
from rowlock.threads import side_by_side

SKEW_MS = 3_600_000
"""By so much the clock of who removed a file may differ from that of the store."""
_READERS = 16


@dataclass(frozen=True, slots=True)
class Removed:
    """The removes that the log holds, older ones too; each has a time.  `is_complete`: whether none since the time asked for is missing."""

    entries: tuple[RemoveFile, ...]
    is_complete: bool


def removed_since(log: TableLog, snapshot: Snapshot, horizon_ms: int) -> Removed:
    """The removes up to the snapshot's version, complete from `horizon_ms` on where the log proves it."""
    base, kept, later = log.removes(snapshot)
    files = {f.version: f for f in list_log(log.store) if f.kind == "commit"}
    entries = [*(r for r in kept if r.deletion_timestamp_ms is not None), *_timed(later, files, snapshot.version)]
    if base < 0 or any(r.deletion_timestamp_ms is not None and r.deletion_timestamp_ms <= horizon_ms for r in kept):
        return Removed(tuple(entries), True)  # what dropped a younger remove would have dropped that one too
    before: list[LogFile] = []
    version = base
    while (file := files.get(version)) is not None:
        if file.modified_ms < horizon_ms - SKEW_MS:
            break
        before.append(file)
        version -= 1
    found = side_by_side(lambda f: _removes_of(log, f), before, _READERS)
    entries += [r for removes in found for r in removes or ()]
    return Removed(tuple(entries), (version < 0 or file is not None) and None not in found)


def _timed(commits: Iterable[tuple[int, RemoveFile]], files: dict[int, LogFile], newest: int) -> Iterable[RemoveFile]:
    """The removes of commits; one that does not say when is as old as its commit."""
    for version, remove in commits:
        at = remove.deletion_timestamp_ms
        if at is None:
            file = files.get(version) or files.get(newest)
            at = 0 if file is None else file.modified_ms
        yield replace(remove, deletion_timestamp_ms=at)


def _removes_of(log: TableLog, file: LogFile) -> list[RemoveFile] | None:
    """None where the commit has just been cleaned up."""
    try:
        data = log.store.get(file.key)
    except NotFound:
        return None
    commit = parse_commit(file.version, b"\n".join(line for line in data.split(b"\n") if b'"remove"' in line), log.table)
    return list(_timed(((file.version, r) for r in commit.removes), {file.version: file}, file.version))
