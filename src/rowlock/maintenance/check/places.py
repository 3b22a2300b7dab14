"""Finds the files of a table wherever its log names them: in its own folder, or by their whole path in that of another table (shallow clones)."""

from __future__ import annotations

import threading

from rowlock.exceptions import InvalidInput, StorageError
from rowlock.protocol import paths
from rowlock.storage.open import locate
from rowlock.storage.store import ObjectStore


class Places:
    """Opens the folders of a table's files, each once; those that cannot be opened or asked are named in `closed`.  Thread-safe."""

    def __init__(self, store: ObjectStore) -> None:
        self._store, self._lock = store, threading.Lock()
        self._opened: dict[str, ObjectStore | None] = {}
        self.closed: dict[str, str] = {}
        """Why files could not be looked at, by their paths."""

    def size(self, path: str) -> int | None:
        """A file's size in bytes; None if it does not exist, -1 if it could not be asked."""
        found = self.find(path)
        if found is None:
            return -1
        try:
            return found[0].head(found[1])
        except StorageError as e:
            if self.is_own(path):
                raise
            self._close(path, e)
            return -1

    def find(self, path: str) -> tuple[ObjectStore, str] | None:
        """(store, key) of a file that the table names by a decoded path; None for a folder that cannot be opened, which `closed` then says."""
        if self.is_own(path):
            return self._store, paths.relative_to(self._store.root, path)
        folder, _, name = path.rpartition("/")
        with self._lock:
            if folder not in self._opened:
                try:
                    self._opened[folder] = locate(self._store, path)[0]
                except (InvalidInput, StorageError) as e:
                    self._opened[folder] = None
                    self.closed[path] = str(e)
            store = self._opened[folder]
            if store is None:
                self.closed.setdefault(path, "its folder cannot be opened")
        return None if store is None else (store, name)

    def is_own(self, path: str) -> bool:
        """Whether the path is in the table's own folder."""
        return not paths.is_absolute(paths.relative_to(self._store.root, path))

    def _close(self, path: str, why: Exception) -> None:
        with self._lock:
            self.closed[path] = str(why)
