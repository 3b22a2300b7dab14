"""VACUUM: deletes the files in a table's folder that no version within retention names.

Kept are data files and deletion vectors of live entries, those of entries that were removed within the
retention, whatever is younger than it (it may be staged by a writer that has not committed yet, I10), the
log, and everything hidden: names that begin with `_` or `.`, save partition folders and the change data.
With a retention longer than the table's own, which its checkpoints follow, the commits before them are read; where
these no longer reach back so far, files that nothing in the log names are kept too, for they may have been removed within it.
Kept, too, is what lies below the folder of another table inside this one's.
"""

from __future__ import annotations

import logging
import math
import os
import posixpath
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rowlock import clock
from rowlock.exceptions import InvalidInput
from rowlock.log.removed import removed_since
from rowlock.log.snapshot import Snapshot
from rowlock.log.table_log import TableLog
from rowlock.protocol import paths
from rowlock.protocol.actions import AddFile, RemoveFile
from rowlock.protocol.change_feed import FOLDER
from rowlock.storage.store import ObjectMeta

logger = logging.getLogger("rowlock")

_HOUR_MS = 3_600_000
_NESTED_LOG = "/_delta_log/"
"""In the key of what belongs to another table, whose folder lies in this one's."""


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """The files that were deleted (or would be), as keys below the table's root, and their bytes.

    `unproven`: how many were kept because the log no longer says when they were removed.
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
    tell: Callable[[int, int], object] | None = None,
) -> Vacuumed:
    """Deletes what is no longer needed; `tell` hears how many of how many are gone.

    Raises InvalidInput for a retention that is negative or, with `check_retention`, shorter than the table's own
    (delta.deletedFileRetentionDuration): files that a reader or a writer still needs could go.
    """
    head = log.latest()
    retention_ms = _retention_ms(head, retention_hours, check_retention)
    horizon = clock.now_ms() - retention_ms
    removed = removed_since(log, head, horizon)
    needed = needed_paths(head, [r for r in removed.entries if (r.deletion_timestamp_ms or 0) >= horizon])
    partitions = {f.physical_name for f in head.schema.fields if f.name in head.metadata.partition_columns}
    listed = list(log.store.list(recursive=True))
    nested = tuple({m.key.split(_NESTED_LOG, 1)[0] + "/" for m in listed if _NESTED_LOG in m.key})
    garbage = [m for m in listed if m.key not in needed and m.modified_ms < horizon and _may_go(m, partitions) and not m.key.startswith(nested)]
    unproven = 0
    if not removed.is_complete and not _is_own(head, retention_ms):
        known = paths_of(head, removed.entries)
        proven = [m for m in garbage if m.key in known or m.key.startswith(f"{FOLDER}/")]
        unproven, garbage = len(garbage) - len(proven), proven
    if unproven:
        logger.warning(
            "VACUUM of %s kept %d files: the log no longer says whether they were removed within the last %g hours",
            head.table,
            unproven,
            retention_ms / _HOUR_MS,
        )
    for n, meta in enumerate(() if dry_run else garbage, 1):
        log.store.delete(meta.key)
        if tell is not None:
            tell(n, len(garbage))
    return Vacuumed(tuple(m.key for m in garbage), sum(m.size_bytes for m in garbage), unproven)


def _retention_ms(head: Snapshot, retention_hours: float | None, check_retention: bool) -> int:
    if retention_hours is not None and not 0 <= retention_hours < math.inf:
        raise InvalidInput(f"A retention of {retention_hours} hours is not possible: 0 or more", table=head.table)
    if retention_hours is None:
        return _own_ms(head)
    retention_ms = int(retention_hours * _HOUR_MS)
    if check_retention and retention_ms < (own_ms := _own_ms(head)):
        raise InvalidInput(
            f"A retention of {retention_hours} hours is shorter than the table's own, {own_ms / _HOUR_MS:g} hours: a reader or a writer may still need what would be deleted. "
            "Give a longer one, or set spark.databricks.delta.retentionDurationCheck.enabled=false where you are certain that nobody does",
            table=head.table,
        )
    return retention_ms


def _own_ms(head: Snapshot) -> int:
    try:
        return head.properties.deleted_file_retention_ms
    except InvalidInput as e:
        raise InvalidInput(f"VACUUM deletes nothing: {e}", table=head.table) from None


def _is_own(head: Snapshot, retention_ms: int) -> bool:
    """Whether the table's checkpoints keep removes for as long, by its own properties."""
    try:
        return retention_ms <= _own_ms(head)
    except InvalidInput:
        return False


def needed_paths(head: Snapshot, removed: Iterable[RemoveFile]) -> set[str]:
    """What live entries and these removed ones name, as keys below the root."""
    return paths_of(head, [*head.files.adds(), *removed])


def paths_of(head: Snapshot, entries: Iterable[AddFile | RemoveFile]) -> set[str]:
    """The data files and deletion vectors of entries, as keys below the root, however the log spells them."""
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
    folders = {folder: _where_links_lead(root, folder) for folder in {posixpath.dirname(key) for key in keys}}
    return keys | {posixpath.join(folders[posixpath.dirname(key)], posixpath.basename(key)) for key in keys}


def _where_links_lead(root: str, folder: str) -> str:
    """A folder of a table at a `root` without links, by its key or its whole place, as a listing of the table has it."""
    real = os.path.realpath(posixpath.join(root, folder))
    return paths.relative_to(root, real) if real != root else ""


def _may_go(meta: ObjectMeta, partitions: set[str]) -> bool:
    """Hidden files are other people's; a partition folder is not hidden, whatever its column is called."""
    parts = meta.key.split("/")
    hidden = [p for p in parts if p.startswith(("_", ".")) and not ("=" in p and p.split("=", 1)[0] in partitions)]
    return not hidden or (hidden == [FOLDER] and parts[0] == FOLDER)
