"""Manifests: text files that list a table's data files, for engines that read Parquet but not Delta's log.

Owns `_symlink_format_manifest/` in the table's folder: one file named `manifest` for each partition, with the location
of one data file in each line.  GENERATE writes them; with `delta.compatibility.symlinkFormatManifest.enabled` each commit does.  No commit depends on them (I10).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rowlock.conditions import named
from rowlock.exceptions import InvalidInput, StatementRefused
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import paths
from rowlock.protocol.actions import AddFile
from rowlock.protocol.column_mapping import is_mapped
from rowlock.storage.store import ObjectStore
from rowlock.transaction.state.shared import SharedState

MODE = "symlink_format_manifest"
FOLDER = f"_{MODE}"


def generate(store: ObjectStore, snapshot: Snapshot, mode: str) -> None:
    """Writes the manifests of a snapshot and deletes those of partitions that no longer exist.

    Raises InvalidInput for an unknown mode, and what `_write` raises.
    """
    if mode.strip().lower() != MODE:
        text = f"Specified mode '{mode}' is not supported. Supported modes are: {MODE}"
        raise InvalidInput(text, table=store.root, condition=named("DELTA_MODE_NOT_SUPPORTED", mode=mode, supportedModes=MODE))
    _write(store, snapshot, None)


def follow(state: SharedState, newest: Snapshot, version: int) -> None:
    """After the commit of a version: brings the manifests of the partitions that it touched to the newest one, where the table keeps manifests.

    Where others commit meanwhile it looks again, so that of several writers none leaves an older list behind.
    """
    if not newest.properties.writes_manifests:
        return
    written = version - 1
    while (head := state.refresh()).version > written:
        commits = state.log.commits(version - 1, head.version)
        places = [values for c in commits for values in (*(f.partition_values for f in c.adds), *(f.partition_values for f in c.removes))]
        known = [values for values in places if values is not None and values.keys() == set(head.partition_columns)]
        touched = {_key(head, values) for values in known} if len(known) == len(places) else None  # else some are not known, or of another partitioning
        if touched and not any(True for _ in state.store.list(FOLDER, recursive=True, limit=1)):
            touched = None
        if touched is None or touched:
            _write(state.store, head, touched)
        written = head.version


def _write(store: ObjectStore, snapshot: Snapshot, only: Collection[str] | None) -> None:
    """Writes the manifests with the keys `only`, by default all of them, and deletes those of partitions that have no files.

    Raises StatementRefused, before anything is written, where a reader of plain Parquet files would see wrong rows or columns (deletion vectors, column mapping).
    """
    manifests: dict[str, list[AddFile]] = {} if snapshot.partition_columns else {f"{FOLDER}/manifest": []}
    for file in sorted(snapshot.files.adds(), key=lambda f: f.path):
        key = _key(snapshot, file.partition_values)
        if only is None or key in only:
            manifests.setdefault(key, []).append(file)
    _check([file for files in manifests.values() for file in files], snapshot, store.root)
    for key, files in manifests.items():
        store.put(key, "".join(f"{paths.location(paths.join(store.root, f.path))}\n" for f in files).encode())
    there = [m.key for m in store.list(FOLDER, recursive=True)] if only is None else only
    for key in there:
        if key not in manifests and key.rsplit("/", 1)[-1] == "manifest":
            store.delete(key)


def _check(files: list[AddFile], snapshot: Snapshot, table: str) -> None:
    if marked := next((f.path for f in files if f.deletion_vector is not None), None):
        raise StatementRefused(
            f"A manifest cannot say which rows of a file are deleted, and {marked} has a deletion vector: run optimize().executeCompaction() first, "
            "and set delta.enableDeletionVectors to false if it is to stay so",
            what="deletion vectors",
            table=table,
            condition=named("DELTA_UNSUPPORTED_GENERATE_WITH_DELETION_VECTORS"),
        )
    if is_mapped(snapshot.metadata.configuration):
        text = "A manifest cannot say what the columns of a table that maps columns are called"
        raise StatementRefused(text, what="column mapping", table=table, condition=named("DELTA_UNSUPPORTED_MANIFEST_GENERATION_WITH_COLUMN_MAPPING"))


def _key(snapshot: Snapshot, values: Mapping[str, str | None]) -> str:
    """The manifest of a partition."""
    folder = paths.partition_directory({c: values.get(c) for c in snapshot.partition_columns})
    return f"{FOLDER}/{folder}/manifest" if folder else f"{FOLDER}/manifest"
