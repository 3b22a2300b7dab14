"""The files removed since a given time, and whether the log proves that this list is complete.

A checkpoint retains removes for the table's retention at the time it was written, which may be shorter than the
period asked for.  The removes that it dropped are read from the commits before it, if these still exist.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from rowlock.limits import limits
from rowlock.log.replay import read_commit
from rowlock.log.segment import list_log
from rowlock.log.snapshot import Snapshot
from rowlock.log.table_log import TableLog
from rowlock.protocol.actions import RemoveFile
from rowlock.protocol.names import LogFile
from rowlock.threads import side_by_side

SKEW_MS = 3_600_000
"""How far the clock of the writer that removed a file may differ from the store's clock."""


@dataclass(frozen=True, slots=True)
class Removed:
    """The removes in the log, also older ones, each with a timestamp.

    is_complete   none since the time asked for is missing
    is_redefined  a commit that the log still holds changes the table's metadata: its retention may have been shorter before
    """

    entries: tuple[RemoveFile, ...]
    is_complete: bool
    is_redefined: bool = False


def removed_since(log: TableLog, snapshot: Snapshot, horizon_ms: int) -> Removed:
    """The removes up to the snapshot's version, and whether they are complete since `horizon_ms`."""
    base, retained, later = log.removes(snapshot)
    files = {f.version: f for f in list_log(log.store) if f.kind == "commit"}
    entries = [*(r for r in retained if r.deletion_timestamp_ms is not None), *_with_timestamps(later, files, snapshot.version)]
    if base < 0 or any(r.deletion_timestamp_ms is not None and r.deletion_timestamp_ms <= horizon_ms for r in retained):
        return Removed(tuple(entries), True)  # the checkpoint has an older remove, so it has dropped none since the horizon
    before: list[LogFile] = []
    version = base
    while (file := files.get(version)) is not None:
        if file.modified_ms < horizon_ms - SKEW_MS:
            break
        before.append(file)
        version -= 1
    commits = side_by_side(
        lambda f: read_commit(log.store, f.version, lambda line: b'"remove"' in line or b'"metaData"' in line), before, limits().request_threads
    )
    entries += [r for one in commits if one is not None for r in _with_timestamps(((one.version, r) for r in one.removes), files, one.version)]
    redefined = any(c.metadata is not None for c in (*log.commits(base, snapshot.version), *commits) if c is not None)
    return Removed(tuple(entries), (version < 0 or file is not None) and None not in commits, redefined)


def _with_timestamps(commits: Iterable[tuple[int, RemoveFile]], files: dict[int, LogFile], newest: int) -> Iterable[RemoveFile]:
    """The removes with a timestamp; one without gets that of its commit file."""
    for version, remove in commits:
        at = remove.deletion_timestamp_ms
        if at is None:
            file = files.get(version) or files.get(newest)
            at = 0 if file is None else file.modified_ms
        yield replace(remove, deletion_timestamp_ms=at)
