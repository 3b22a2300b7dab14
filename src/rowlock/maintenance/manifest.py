"""GENERATE symlink_format_manifest: text files that list a table's data files, for engines that read Parquet but not Delta's log.

Owns `_symlink_format_manifest/` in the table's folder: one file named `manifest` for each partition, with the location
of one data file in each line.  Manifests are not updated by later commits, and no commit depends on them.
"""

from __future__ import annotations

from rowlock.conditions import named
from rowlock.exceptions import InvalidInput, StatementRefused
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import paths
from rowlock.protocol.actions import AddFile
from rowlock.protocol.column_mapping import is_mapped
from rowlock.storage.store import ObjectStore

MODE = "symlink_format_manifest"
FOLDER = f"_{MODE}"


def generate(store: ObjectStore, snapshot: Snapshot, mode: str) -> None:
    """Writes the manifests of a snapshot and deletes those of partitions that no longer exist.

    Raises InvalidInput for an unknown mode.  Raises StatementRefused, before anything is written, for tables of which a
    reader of plain Parquet files would see wrong rows or columns (deletion vectors, column mapping).
    """
    if mode.strip().lower() != MODE:
        raise InvalidInput(
            f"Specified mode '{mode}' is not supported. Supported modes are: {MODE}",
            table=store.root,
            condition=named("DELTA_MODE_NOT_SUPPORTED", mode=mode, supportedModes=MODE),
        )
    files = sorted(snapshot.files.adds(), key=lambda f: f.path)
    _check(files, snapshot, store.root)
    manifests: dict[str, list[str]] = {} if snapshot.partition_columns else {_key(""): []}
    for file in files:
        folder = paths.partition_directory({c: file.partition_values.get(c) for c in snapshot.partition_columns})
        manifests.setdefault(_key(folder), []).append(paths.location(paths.join(store.root, file.path)))
    for key, lines in manifests.items():
        store.put(key, "".join(f"{line}\n" for line in lines).encode())
    for key in [m.key for m in store.list(FOLDER, recursive=True)]:
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
        raise StatementRefused("A manifest cannot say what the columns of a table that maps columns are called", what="column mapping", table=table)


def _key(folder: str) -> str:
    return f"{FOLDER}/{folder}/manifest" if folder else f"{FOLDER}/manifest"
