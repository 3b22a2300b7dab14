"""VACUUM: deletes files in a table's folder that no version within the retention needs.

Never deleted:
- data files and deletion vectors of live files, and of files that were removed within the retention;
- files younger than the retention: a writer may have staged them and not committed yet (I10); the store's clock decides if ours is ahead;
- the log and everything hidden (names that begin with `_` or `.`), except partition folders, change data and what killed writers leave;
- files below another table's folder inside this one.

On a local disk, folders in which nothing is left go, too, once they are as old: the VACUUM after the one that emptied them deletes them, as delta-spark's does.

With an inventory of the folder (VACUUM ... USING INVENTORY) nothing is listed.  It may be old and incomplete, so for each file to be
deleted the store is asked whether it exists, how old it is, and whether it is below another table's folder.

A retention longer than the table's own is longer than checkpoints keep remove actions, so older commits are read as well (`Removed`).
If these no longer reach back far enough, files that the log does not name are retained too: they may have been removed within
the retention.  The same holds if the table's own retention may have been raised since a checkpoint was written.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import posixpath
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rowlock import clock, progress
from rowlock.conditions import named
from rowlock.conflict.change_feed import FOLDER
from rowlock.exceptions import InvalidInput, StorageError, VersionNotFound
from rowlock.log.replay import read_commit
from rowlock.log.segment import list_log
from rowlock.log.snapshot import Snapshot
from rowlock.log.table_log import TableLog
from rowlock.protocol import paths
from rowlock.protocol.actions import AddFile, RemoveFile
from rowlock.protocol.features import check_features
from rowlock.protocol.names import LogFile
from rowlock.storage.hadoop import HadoopStore
from rowlock.storage.local import SYSTEM, LocalStore
from rowlock.storage.store import ObjectMeta, ObjectStore, of_each, time_ms

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
    commits = of_each(log.store, lambda f: read_commit(log.store, f.version, lambda line: b'"remove"' in line or b'"metaData"' in line), before)
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


logger = logging.getLogger("rowlock")

_HOUR_MS = 3_600_000
_SKEW_MS = 60_000
"""How far the clocks of this machine and of the store may differ without a warning; some stores cut their times to seconds."""
_LEFT_BEHIND = re.compile(r"^_rowlock/staging/.*|(^|/)(?:rl-[0-9a-f]{8}-[0-9a-f]{4}/_temporary/.*|\.[^/]+\.[0-9a-f-]{36}\.tmp)$")
"""What killed writers leave under hidden names: the source of a MERGE, files of the tasks of a Spark job, and the unfinished file of a store that is a folder."""
_OF_JOB = re.compile(r"^(?:.*/)?(?:rl-[0-9a-f]{8}-[0-9a-f]{4}|_rowlock/staging/[^/]+)(?=/)")
"""The folder of a Spark job, in which no other ever writes."""
_NESTED_LOG = "/_delta_log/"
"""Occurs in the keys of another table's log, if that table's folder is inside this one's."""


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """The files that were deleted (in a dry run: would be), as keys below the table's root, and their size in all.

    `unproven`: the number of files that were retained because the log no longer shows when they were removed.
    """

    files: tuple[str, ...]
    size_bytes: int
    unproven: int = 0


def vacuum(
    log: TableLog,
    *,
    retention_hours: float | None = None,
    check_retention: bool = True,
    dry_run: bool = False,
    only_known: bool = False,
    inventory: Sequence[ObjectMeta] | None = None,
) -> Vacuumed:
    """Deletes files that are no longer needed.

    `only_known`: only files that the log names, and none that a writer left behind uncommitted (VACUUM LITE); `inventory`: only these files, and the
    folder is not listed.

    Raises InvalidInput for a negative retention and, with `check_retention`, for one that is shorter than the table's own
    (delta.deletedFileRetentionDuration), under which files could be deleted that a reader or writer still needs; UnsupportedFeature for a
    feature of writers that this version does not know: it may have files of its own, as those for Iceberg's readers (PROTOCOL.md, VACUUM Protocol Check).
    """
    with progress.work("VACUUM", log.store.root):
        while True:
            head = log.latest()
            check_features(head.protocol, head.metadata, head.table)
            try:
                return _vacuumed(log, head, retention_hours, check_retention, dry_run, only_known, inventory)
            except VersionNotFound:  # a cleanup may have deleted the log up to this version meanwhile
                if log.latest().version == head.version:
                    raise


def _vacuumed(
    log: TableLog, head: Snapshot, retention_hours: float | None, check_retention: bool, dry_run: bool, only_known: bool, inventory: Sequence[ObjectMeta] | None
) -> Vacuumed:
    now_ms = clock.now_ms()
    retention_ms = _retention_ms(head, retention_hours, check_retention)
    progress.step("listing files")
    if inventory is None:
        listed = list(log.store.list(recursive=True))
    else:
        listed = _looked_up(log.store, _garbage(log, head, inventory, now_ms, retention_ms, only_known)[0])
    garbage, unproven = _garbage(log, head, listed, now_ms, retention_ms, only_known)
    if garbage and not dry_run and (theirs := time_ms(log.store)) is not None and theirs < now_ms - _SKEW_MS:  # files have the store's times
        logger.warning("VACUUM of %s goes by the store's clock: that of this machine is %d s ahead of it", head.table, (now_ms - theirs) // 1000)
        now_ms = theirs
        garbage, unproven = _garbage(log, head, listed, now_ms, retention_ms, only_known)
    if unproven:
        text = "VACUUM of %s retained %d files: the log no longer shows whether they were removed within the last %g hours"
        logger.warning(text, head.table, unproven, retention_ms / _HOUR_MS)
    progress.step("deleting")

    def delete(meta: ObjectMeta) -> None:
        log.store.delete(meta.key)
        progress.one_more(len(garbage), "files")

    if not dry_run:
        of_each(log.store, delete, garbage)
        if isinstance(log.store, HadoopStore):
            _remove_folders(log.store.delete, [m.key for m in garbage])
        elif isinstance(log.store, LocalStore) and log.store.system is SYSTEM:
            _remove_folders(lambda folder: Path(log.store.root, folder).rmdir(), [m.key for m in garbage])
            _prune(log.store.root, (now_ms - retention_ms) / 1000)
    return Vacuumed(tuple(m.key for m in garbage), sum(m.size_bytes for m in garbage), unproven)


def _remove_folders(remove: Callable[[str], object], deleted: Sequence[str]) -> None:
    """Removes those folders of Spark's jobs in which nothing is left, where a store has folders; without that each job would leave one for good."""
    below = [(job.group(), key[job.end() + 1 :].split("/")[:-1]) for key in deleted if (job := _OF_JOB.match(key)) is not None]
    folders = {"/".join((job, *parts[:n])) for job, parts in below for n in range(len(parts) + 1)}
    for folder in sorted(folders, key=len, reverse=True):
        with contextlib.suppress(OSError, StorageError):  # not empty
            remove(folder)


def _prune(root: str, before_s: float) -> None:
    """Deletes the folders below a table's in which nothing is and nothing changed since a time, but for hidden ones and those of other tables."""
    for place, folders, _ in os.walk(root):
        folders[:] = [f for f in folders if f == FOLDER or not f.startswith(("_", "."))]
        if place != root and os.path.lexists(place + _NESTED_LOG[:-1]):
            folders.clear()
        elif place != root:
            with contextlib.suppress(OSError):  # most are not empty
                if (folder := Path(place)).stat().st_mtime < before_s:
                    folder.rmdir()


def _looked_up(store: ObjectStore, chosen: Sequence[ObjectMeta]) -> list[ObjectMeta]:
    """The existing files of an inventory, with their true times, and one log file of each table whose folder contains them."""
    sizes = {m.key: m.size_bytes for m in chosen if _is_plain(m.key)}
    inside = {folder for folder in {posixpath.dirname(key) for key in sizes} if _is_inside(store.root, folder)}
    keys = sorted(key for key in sizes if posixpath.dirname(key) in inside)
    times = of_each(store, store.modified_ms, keys)
    above = sorted({folder[:n] for folder in inside for n in (*(n for n, c in enumerate(folder) if c == "/"), len(folder)) if folder})
    logs = of_each(store, lambda folder: next(iter(store.list(folder + _NESTED_LOG[:-1], limit=1)), None), above)
    existing = (ObjectMeta(key, sizes[key], time) for key, time in zip(keys, times, strict=True) if time is not None)
    return [*existing, *(log_file for log_file in logs if log_file is not None)]


def _is_plain(key: str) -> bool:
    try:
        return bool(paths.check_key(key))
    except InvalidInput:
        return False


def _is_inside(root: str, folder: str) -> bool:
    """Whether no symbolic link leads to a folder of the table, since a listing follows none."""
    return not root.startswith("/") or _resolved_folder(os.path.realpath(root), folder) == folder


def _garbage(log: TableLog, head: Snapshot, listed: Sequence[ObjectMeta], now_ms: int, retention_ms: int, only_known: bool) -> tuple[list[ObjectMeta], int]:
    """(the files to delete at this time, the number of others whose removal the log no longer dates)."""
    horizon = now_ms - retention_ms
    removed = removed_since(log, head, horizon)
    needed = needed_paths(head, [r for r in removed.entries if (r.deletion_timestamp_ms or 0) >= horizon])
    partitions = {f.physical_name for f in head.schema.fields if f.name in head.metadata.partition_columns}
    nested = folders_of_tables(listed)
    garbage = [m for m in listed if m.key not in needed and m.modified_ms < horizon and _is_deletable(m, partitions) and not m.key.startswith(nested)]
    if garbage and head.table.startswith("/"):  # a disk that takes `p=a` and `p=A` for one folder lists it by the first name that it had
        also = set(map(_folded, needed))
        garbage = [m for m in garbage if _folded(m.key) not in also]
    is_dated = removed.is_complete or not (removed.is_redefined or not _is_within_own(head, retention_ms))
    if is_dated and not only_known:
        return garbage, 0
    known = paths_of(head, removed.entries)
    proven = [m for m in garbage if m.key in known or m.key.startswith(f"{FOLDER}/")]
    return proven, 0 if is_dated else len(garbage) - len(proven)


def _folded(key: str) -> str:
    """What keys have in common that are one name for some disks: they differ in case, or in how letters are composed."""
    return key if key.isascii() and key.islower() else unicodedata.normalize("NFD", unicodedata.normalize("NFD", key).casefold())


def folders_of_tables(listed: Iterable[ObjectMeta]) -> tuple[str, ...]:
    """The folders of other tables inside this one's, each with a slash at its end, by the files of their logs."""
    return tuple({m.key.split(_NESTED_LOG, 1)[0] + "/" for m in listed if _NESTED_LOG in m.key})


def _retention_ms(head: Snapshot, retention_hours: float | None, check_retention: bool) -> int:
    if retention_hours is not None and not 0 <= retention_hours < math.inf:
        text = f"A retention of {retention_hours} hours is not possible: 0 or more"
        raise InvalidInput(text, table=head.table, condition=named("DELTA_VACUUM_RETENTION_PERIOD_NEGATIVE"))
    if retention_hours is None:
        return _own_ms(head)
    retention_ms = int(retention_hours * _HOUR_MS)
    if check_retention and retention_ms < (own_ms := _own_ms(head)):
        raise InvalidInput(
            f"A retention of {retention_hours} hours is shorter than the table's own, {own_ms / _HOUR_MS:g} hours: a reader or a writer may still need what would be deleted. "
            "Give a longer one. If you are certain that none does, switch the check off: --unsafe on the command line, or spark.databricks.delta.retentionDurationCheck.enabled=false in Spark",
            table=head.table,
            condition=named("DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT", configuredRetentionHours=f"{own_ms / _HOUR_MS:g}"),
        )
    return retention_ms


def _own_ms(head: Snapshot) -> int:
    """The table's own retention (delta.deletedFileRetentionDuration).  Raises InvalidInput if it cannot be parsed."""
    try:
        return head.properties.deleted_file_retention_ms
    except InvalidInput as e:
        raise InvalidInput(f"VACUUM deletes nothing: {e}", table=head.table) from None


def _is_within_own(head: Snapshot, retention_ms: int) -> bool:
    """Whether the table's checkpoints retain remove actions for this long, which is at most the table's own retention."""
    try:
        return retention_ms <= _own_ms(head)
    except InvalidInput:
        return False


def needed_paths(head: Snapshot, removed: Iterable[RemoveFile]) -> set[str]:
    """The data files and deletion vectors of all live files and of these removed ones, as keys below the root."""
    return paths_of(head, [*head.files.adds(), *removed])


def paths_of(head: Snapshot, entries: Iterable[AddFile | RemoveFile]) -> set[str]:
    """The data files and deletion vectors of add and remove actions, as keys below the root, however the log spells their paths."""
    named: set[str] = set()
    for entry in entries:
        named.add(entry.path)
        vector = entry.deletion_vector
        if vector is not None and vector.path is not None:
            named.add(vector.path)
    keys = {paths.relative_to(head.table, path) for path in named}
    if not head.table.startswith("/"):
        return keys
    root = os.path.realpath(head.table)
    moved = {folder: real for folder in {posixpath.dirname(key) for key in keys} if (real := _resolved_folder(root, folder)) != folder}
    return keys | {posixpath.join(moved[folder], posixpath.basename(key)) for key in (keys if moved else ()) if (folder := posixpath.dirname(key)) in moved}


def _resolved_folder(root: str, folder: str) -> str:
    """The key of a table's folder after resolving symbolic links, as a listing of the table has it; `root` is resolved already."""
    real = os.path.realpath(posixpath.join(root, folder))
    return paths.relative_to(root, real) if real != root else ""


def _is_deletable(meta: ObjectMeta, partitions: set[str]) -> bool:
    """Whether VACUUM may delete the file by its name: a store's key, and not hidden.  A partition folder is never hidden, whatever its column is called."""
    parts = _LEFT_BEHIND.sub(r"\1left", meta.key).split("/")
    hidden = [p for p in parts if p.startswith(("_", ".")) and not ("=" in p and p.split("=", 1)[0] in partitions)]
    return _is_plain(meta.key) and (not hidden or (hidden == [FOLDER] and parts[0] == FOLDER))
