# ruff: noqa: PTH102, PTH105, PTH108, PTH110, PTH116, PTH121, PTH123 - descriptors and links are what this module is about
"""The system calls of the store on a local disk: the seam below `local` and `lane`, which a simulated disk can fill."""

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
    """The calls of the operating system; each raises OSError as the kernel says it."""

    def open(self, path: str, flags: int = os.O_RDONLY) -> int:
        """Opens a file or folder; a file that is created may be read by all."""
        return os.open(path, flags, 0o644)

    def close(self, descriptor: int) -> None:
        """Closes a descriptor, and gives back its lock."""
        os.close(descriptor)

    def write(self, descriptor: int, data: memoryview) -> int:
        """Writes some of the data; returns how many bytes."""
        return os.write(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        """Makes what was written, or the names in a folder, outlive the machine's end."""
        os.fsync(descriptor)

    def flock(self, descriptor: int, operation: int) -> None:
        """Takes or gives back the kernel's lock on what is open."""
        fcntl.flock(descriptor, operation)

    def link(self, source: str, target: str) -> None:
        """Gives a file a second name, which must not be taken."""
        os.link(source, target)

    def replace(self, source: str, target: str) -> None:
        """Renames a file, in the place of one that is there."""
        os.replace(source, target)

    def unlink(self, path: str) -> None:
        """Takes a name away."""
        os.unlink(path)

    def mkdir(self, path: str) -> None:
        """Makes a folder."""
        os.mkdir(path)

    def lexists(self, path: str) -> bool:
        """Whether a name is taken."""
        return os.path.lexists(path)

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder."""
        return os.path.exists(path)

    def samefile(self, one: str, other: str) -> bool:
        """Whether two names are of one file."""
        return os.path.samefile(one, other)

    def status(self, path: str) -> FileStatus:
        """Size and time of a file, through links."""
        found = os.stat(path)
        return FileStatus(found.st_size, found.st_mtime_ns)

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """The bytes of a file, or some of them."""
        with open(path, "rb", buffering=0) as f:
            if start:
                f.seek(start)
            return f.readall() if length is None else f.read(length)

    def entries(self, path: str) -> Sequence[DirectoryEntry]:
        """The names in a folder."""
        with os.scandir(path) as found:
            return list(found)


SYSTEM = SystemCalls()
