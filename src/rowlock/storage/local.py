# ruff: noqa: PTH100, PTH103, PTH105, PTH108, PTH110, PTH116, PTH120, PTH121, PTH123 - descriptors and links are what this module is about
"""A table's folder on a local disk.

A commit is link(2) of a finished, synced file to its name: the kernel lets one caller win, and what
appears is whole (I1).  Never a rename onto a name of the log.  Nothing outside of the root is written.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from rowlock import clock
from rowlock.protocol.paths import check_key
from rowlock.storage.store import Committed, Lost, NotFound, ObjectMeta, PutOutcome, StorageError, Unknown, tag_of


class LocalStore:
    """The store of one local folder, which need not exist yet."""

    def __init__(self, root: str | Path) -> None:
        self._root = os.path.abspath(os.fspath(root))

    @property
    def root(self) -> str:
        return self._root

    @property
    def identity(self) -> str:
        return self._root

    @property
    def is_remote(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"LocalStore({self._root!r})"

    def _place(self, key: str) -> str:
        return f"{self._root}/{check_key(key)}"

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        place = self._place(key)
        if os.path.lexists(place):
            return Lost()
        temporary = self._write_temporary(place, data)
        try:
            os.link(temporary, place)
        except FileExistsError:
            return Lost()
        except OSError as e:
            return self._after_failed_link(temporary, place, e)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        try:
            _sync_directory(os.path.dirname(place))
        except OSError as e:
            return Unknown(f"the commit is there but could not be made durable: {e}")
        return Committed(tag_of(data))

    def _after_failed_link(self, temporary: str, place: str, error: OSError) -> PutOutcome:
        """On network disks a link may be made and its reply lost: two names on one file tell."""
        try:
            if os.path.samefile(temporary, place):
                _sync_directory(os.path.dirname(place))
                return Committed()
            return Lost()
        except FileNotFoundError:
            raise StorageError(f"{place} could not be made: {error}") from error
        except OSError as e:
            return Unknown(f"{error}; then {e}")

    def _write_temporary(self, place: str, data: bytes) -> str:
        folder, name = os.path.split(place)
        temporary = f"{folder}/.{name}.{clock.new_id()}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
        try:
            descriptor = os.open(temporary, flags, 0o644)
        except FileNotFoundError:
            os.makedirs(folder, exist_ok=True)
            descriptor = os.open(temporary, flags, 0o644)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        finally:
            os.close(descriptor)
        return temporary

    def put(self, key: str, data: bytes) -> None:
        place = self._place(key)
        temporary = self._write_temporary(place, data)
        try:
            os.replace(temporary, place)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        _sync_directory(os.path.dirname(place))

    def get(self, key: str) -> bytes:
        try:
            with open(self._place(key), "rb", buffering=0) as f:
                return f.readall()
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(key) from None

    def get_range(self, key: str, start: int, length: int) -> bytes:
        try:
            with open(self._place(key), "rb", buffering=0) as f:
                f.seek(start)
                return f.read(length)
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(key) from None

    def get_tagged(self, key: str) -> tuple[bytes, str]:
        data = self.get(key)
        return data, tag_of(data)

    def replace_if(self, key: str, data: bytes, tag: str) -> PutOutcome:
        """One at a time, by a lock of the kernel's on the folder: it ends with its holder's process."""
        folder = os.path.dirname(self._place(key))
        try:
            descriptor = os.open(folder, os.O_RDONLY)
        except (FileNotFoundError, NotADirectoryError):
            return Lost()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            try:
                if tag_of(self.get(key)) != tag:
                    return Lost()
            except NotFound:
                return Lost()
            self.put(key, data)
            return Committed()
        finally:
            os.close(descriptor)

    def head(self, key: str) -> int | None:
        try:
            return os.stat(self._place(key)).st_size
        except (FileNotFoundError, NotADirectoryError):
            return None

    def tag(self, key: str) -> str | None:
        try:
            return tag_of(self.get(key))
        except NotFound:
            return None

    def modified_ms(self, key: str) -> int | None:
        try:
            return os.stat(self._place(key)).st_mtime_ns // 1_000_000
        except (FileNotFoundError, NotADirectoryError):
            return None

    def list(self, prefix: str = "", *, start_after: str | None = None, recursive: bool = False) -> Iterator[ObjectMeta]:
        found = list(self._walk(prefix, recursive, start_after))
        found.sort(key=lambda meta: meta.key)
        return iter(found)

    def _walk(self, prefix: str, recursive: bool, start_after: str | None) -> Iterator[ObjectMeta]:
        folder = self._place(prefix) if prefix else self._root
        try:
            entries = list(os.scandir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in entries:
            key = f"{prefix}/{entry.name}" if prefix else entry.name
            if entry.is_dir():
                if recursive and not entry.is_symlink():  # what a link leads to may lie outside of the table
                    yield from self._walk(key, True, start_after)
            elif not _is_ours_or_hadoops(entry.name) and (start_after is None or key > start_after):
                with contextlib.suppress(FileNotFoundError):
                    stat = entry.stat()
                    yield ObjectMeta(key, stat.st_size, stat.st_mtime_ns // 1_000_000)

    def delete(self, key: str) -> None:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(self._place(key))

    def exists(self, key: str = "") -> bool:
        return os.path.exists(self._place(key) if key else self._root)


def _is_ours_or_hadoops(name: str) -> bool:
    """Unfinished files of this store, and the checksums that Hadoop puts beside every file."""
    return name.startswith(".") and name.endswith((".tmp", ".crc"))


def _sync_directory(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
