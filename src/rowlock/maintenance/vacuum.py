"""VACUUM: deletes the files in a table's folder that no version within retention names.

Kept are data files and deletion vectors of live entries, those of entries that were removed within the
retention, whatever is younger than it (it may be staged by a writer that has not committed yet, I10), the
log, and everything hidden: names that begin with `_` or `.`, save partition folders and the change data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rowlock import clock
from rowlock.exceptions import InvalidInput
from rowlock.log.snapshot import Snapshot
from rowlock.log.table_log import TableLog
from rowlock.protocol import paths
from rowlock.protocol.actions import AddFile, RemoveFile
from rowlock.protocol.change_feed import FOLDER
from rowlock.storage.store import ObjectMeta

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """The files that were deleted (or would be), as keys below the table's root, and their bytes."""

    files: tuple[str, ...]
    size_bytes: int


def vacuum(log: TableLog, *, retention_hours: float | None = None, check_retention: bool = True, dry_run: bool = False, tell: Callable[[int, int], object] | None = None) -> Vacuumed:
    """Deletes what is no longer needed; `tell` hears how many of how many are gone.

    Raises InvalidInput for a retention that is negative or, with `check_retention`, shorter than the table's own
    (delta.deletedFileRetentionDuration): files that a reader or a writer still needs could go.
    """
    head = log.latest()
    own_ms = head.properties.deleted_file_retention_ms
    retention_ms = own_ms if retention_hours is None else int(retention_hours * _HOUR_MS)
    if retention_ms < 0:
        raise InvalidInput(f"A retention of {retention_hours} hours is not possible: 0 or more", table=head.table)
    if check_retention and retention_ms < own_ms:
        raise InvalidInput(
            f"A retention of {retention_hours} hours is shorter than the table's own, {own_ms / _HOUR_MS:g} hours: a reader or a writer may still need what would be deleted. "
            "Give a longer one, or set spark.databricks.delta.retentionDurationCheck.enabled=false where you are certain that nobody does",
            table=head.table,
        )
    horizon = clock.now_ms() - retention_ms
    needed = needed_paths(head, [r for r in log.tombstones(head) if (r.deletion_timestamp_ms or 0) >= horizon])
    partitions = {f.physical_name for f in head.schema.fields if f.name in head.metadata.partition_columns}
    garbage = [m for m in log.store.list(recursive=True) if m.key not in needed and m.modified_ms < horizon and _may_go(m, partitions)]
    for n, meta in enumerate(() if dry_run else garbage, 1):
        log.store.delete(meta.key)
        if tell is not None:
            tell(n, len(garbage))
    return Vacuumed(tuple(m.key for m in garbage), sum(m.size_bytes for m in garbage))


def needed_paths(head: Snapshot, removed: Iterable[RemoveFile]) -> set[str]:
    """What live entries and these removed ones name, as keys below the root."""
    out: set[str] = set()
    entries: list[AddFile | RemoveFile] = [*head.files.adds(), *removed]
    for entry in entries:
        out.add(paths.relative_to(head.table, entry.path))
        vector = entry.deletion_vector
        if vector is not None and vector.path is not None:
            out.add(paths.relative_to(head.table, vector.path))
    return out


def _may_go(meta: ObjectMeta, partitions: set[str]) -> bool:
    """Hidden files are other people's; a partition folder is not hidden, whatever its column is called."""
    parts = meta.key.split("/")
    hidden = [p for p in parts if p.startswith(("_", ".")) and not ("=" in p and p.split("=", 1)[0] in partitions)]
    return not hidden or (hidden == [FOLDER] and parts[0] == FOLDER)
