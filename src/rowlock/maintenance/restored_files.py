"""Copies of the files of an old version that a VACUUM may be deleting right now: RESTORE brings these back under new names (I3, I10).

A VACUUM deletes files that were removed longer ago than the table's retention, and it may have listed them before RESTORE commits: an
existing file may be gone a moment later.  A copy is young, and VACUUM deletes no young files.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rowlock import clock
from rowlock.exceptions import InvalidInput
from rowlock.limits import limits
from rowlock.log.removed import SKEW_MS, removed_since
from rowlock.log.snapshot import Snapshot
from rowlock.maintenance.vacuum import needed_paths
from rowlock.protocol import paths
from rowlock.protocol.actions import AddFile, FileKey
from rowlock.storage.store import time_ms
from rowlock.transaction.state.shared import SharedState


class RestoredFiles:
    """The files of one RESTORE.  Each is copied once, however often the commit is computed anew."""

    def __init__(self, state: SharedState) -> None:
        self._state = state
        self._copies: dict[FileKey, AddFile] = {}

    def safe(self, files: Sequence[AddFile], head: Snapshot) -> tuple[AddFile, ...]:
        """The files with those that a VACUUM may delete replaced by copies, of a data file, of its deletion vector or of both.

        Files go through the driver, a large one in pieces.  Raises NotFound, CorruptLog if a file or its vector is gone already.
        """
        if not files:
            return ()
        retained = self._retained(head)
        return tuple(self._copy_of(f, retained) or f for f in files)

    def _retained(self, head: Snapshot) -> set[str]:
        """The files, as keys below the root, that no VACUUM deletes: live ones, and those that were removed within the retention."""
        try:
            retention_ms = head.properties.deleted_file_retention_ms
        except InvalidInput:  # then VACUUM refuses; another engine may take another retention
            retention_ms = 0
        store = self._state.store
        horizon = max(clock.now_ms(), time_ms(store) or 0) - retention_ms + SKEW_MS
        removed = removed_since(self._state.log, head, horizon)
        return needed_paths(head, [r for r in removed.entries if (r.deletion_timestamp_ms or 0) >= horizon])

    def _copy_of(self, file: AddFile, retained: set[str]) -> AddFile | None:
        key, vector = paths.relative_to(self._state.store.root, file.path), file.deletion_vector
        of_data = not paths.is_absolute(key) and key not in retained  # those of another table's folder are not this table's to vacuum
        in_file = vector.path if vector is not None else None
        of_vector = in_file is not None and not paths.is_absolute(name := paths.relative_to(self._state.store.root, in_file)) and name not in retained
        if not of_data and not of_vector:
            return None
        if file.key not in self._copies:
            self._copies[file.key] = self._copied(file, key if of_data else None, of_vector=of_vector)
        return replace(self._copies[file.key], base_row_id=file.base_row_id, default_row_commit_version=file.default_row_commit_version)

    def _copied(self, file: AddFile, key: str | None, *, of_vector: bool) -> AddFile:
        """The file under a new name, if a `key` is given, and with a new vector."""
        changes = dict[str, object]()
        if of_vector:
            (changes["deletion_vector"],) = self._state.vectors.store_all([self._state.vectors.of(file)])
        if key is not None:
            name = posixpath.join(posixpath.dirname(key), f"restored-{clock.new_id()}.parquet")
            self._copy(key, name, file.size_bytes)
            changes |= {"path": name, "log_path": None, "modification_time_ms": clock.now_ms()}
        return replace(file, **changes)  # type: ignore[arg-type]

    def _copy(self, key: str, name: str, size_bytes: int) -> None:
        """Writes the object `key` under another name as well."""
        store, most = self._state.store, limits().copied_piece_bytes
        if size_bytes <= most:
            store.put(name, store.get(key))
            return

        def pieces() -> Iterator[bytes]:
            at = 0
            while piece := store.get_range(key, at, most):
                yield piece
                at += len(piece)

        store.put_parts(name, pieces)
