# ruff: noqa: PTH102, PTH105, PTH108, PTH110, PTH116, PTH121, PTH123 - descriptors and links are what this module is about
"""The system calls of the local store and the commit lane.  A simulated disk implements the same calls."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from typing import NamedTuple, Protocol


class FileStatus(NamedTuple):
    """Size and time of the last change of a file."""

    size_bytes: int
    modified_ns: int


class DirectoryEntry(Protocol):
    """One name in a folder, as `os.scandir` gives it."""

    @property
    def name(self) -> str: ...

    def is_dir(self) -> bool: ...

    def is_symlink(self) -> bool: ...


class SystemCalls:
    """The calls of the operating system; each raises the kernel's OSError."""

    def open(self, path: str, flags: int = os.O_RDONLY) -> int:
        """Opens a file or folder; a file that is created may be read by all."""
        return os.open(path, flags, 0o644)

    def close(self, descriptor: int) -> None:
        """Closes a descriptor, which releases its lock."""
        os.close(descriptor)

    def write(self, descriptor: int, data: memoryview) -> int:
        """Writes some of the data; returns how many bytes."""
        return os.write(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        """Makes written bytes, or the names in a folder, durable."""
        os.fsync(descriptor)

    def flock(self, descriptor: int, operation: int) -> None:
        """Acquires or releases `flock` on an open file."""
        fcntl.flock(descriptor, operation)

    def link(self, source: str, target: str) -> None:
        """Gives a file a second name, which must not be taken."""
        os.link(source, target)

    def replace(self, source: str, target: str) -> None:
        """Renames a file, replacing an existing one."""
        os.replace(source, target)

    def unlink(self, path: str) -> None:
        """Removes a name of a file."""
        os.unlink(path)

    def mkdir(self, path: str) -> None:
        """Creates a folder."""
        os.mkdir(path)

    def lexists(self, path: str) -> bool:
        """Whether a name exists, be it a broken link."""
        return os.path.lexists(path)

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder."""
        return os.path.exists(path)

    def samefile(self, one: str, other: str) -> bool:
        """Whether two names are of one file."""
        return os.path.samefile(one, other)

    def status(self, path: str) -> FileStatus:
        """Size and time of a file, through links."""
        status = os.stat(path)
        return FileStatus(status.st_size, status.st_mtime_ns)

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """The bytes of a file, or some of them."""
        with open(path, "rb", buffering=0) as f:
            if start:
                f.seek(start)
            return f.readall() if length is None else f.read(length)

    def entries(self, path: str) -> Sequence[DirectoryEntry]:
        """The names in a folder."""
        with os.scandir(path) as entries:
            return list(entries)


SYSTEM = SystemCalls()
