"""A simulated local disk, below `storage/local` and `storage/lane`: names, files, what of both is durable, and the kernel's locks."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from rowlock.storage.local import FileStatus, SystemCalls
from rowlock_simulation.history import History
from rowlock_simulation.plan import FaultKind
from rowlock_simulation.scheduler import START_MS, Process, Scheduler, Task
from rowlock_simulation.wire import Wire

T = TypeVar("T")
ROOT = "/simulated/table"
ELSEWHERE = "elsewhere"
"""A link in the folder of a table to one that is none of its own, with a file as old as the table."""


class File:
    """A file's bytes, those that outlive the machine's end, and the time of the last change in virtual microseconds."""

    def __init__(self, now_us: int) -> None:
        self.data, self.durable, self.at_us = b"", b"", now_us


@dataclass(frozen=True)
class Name:
    """One name in a folder."""

    name: str
    folder: bool
    link: bool = False

    def is_dir(self) -> bool:
        return self.folder

    def is_symlink(self) -> bool:
        return self.link


class Disk:
    """What all processes of the machine share.  A folder is None among the names."""

    def __init__(self, history: History, scheduler: Scheduler, root: str = ROOT) -> None:
        self.history, self.scheduler, self.root = history, scheduler, root
        self.names: dict[str, File | None] = {"/simulated": None}
        self.durable = dict(self.names)
        self.locked: dict[str, tuple[Process, int]] = {}
        self.waiting: list[Task] = []

    def key(self, path: str) -> str:
        """The key in the table of a path."""
        return path.removeprefix(f"{self.root}/")

    def sync_folder(self, folder: str) -> None:
        """Makes the names in a folder durable."""
        for path in {p for p, _ in self.names.items() ^ self.durable.items() if _folder(p) == folder}:
            if path in self.names:
                self.durable[path] = self.names[path]
            else:
                self.durable.pop(path, None)

    def drop(self) -> None:
        """Moves the table's folder away."""
        for names in (self.names, self.durable):
            for path in [p for p in names if p == self.root or p.startswith(f"{self.root}/")]:
                del names[path]
        self.history.dropped()

    def lose_power(self) -> None:
        """Ends the machine: what was not synced is gone, names as well as bytes."""
        durable = {path: file for path, file in self.durable.items() if _above(path) <= self.durable.keys()}
        for path in sorted(self.names.keys() - durable.keys()):
            self.history.lost(self.key(path), self.scheduler.now_us)
        self.names, self.durable = dict(durable), dict(durable)
        for file in {id(f): f for f in durable.values() if f is not None}.values():
            file.data = file.durable

    def unlock(self, path: str, holder: tuple[Process, int]) -> None:
        """Releases a lock; those that wait try again."""
        if self.locked.get(path) == holder:
            del self.locked[path]
            waiting, self.waiting = self.waiting, []
            for task in waiting:
                self.scheduler.wake(task)


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _above(path: str) -> set[str]:
    parts = path.split("/")
    return {"/".join(parts[:n]) for n in range(2, len(parts))}


class SimulatedCalls(SystemCalls):
    """The system calls of one process on a simulated disk; each is a scheduling point."""

    def __init__(self, disk: Disk, wire: Wire) -> None:
        self._disk, self._wire = disk, wire
        self._open: dict[int, str] = {}
        self._next = 3
        wire.process.on_end.append(self._ended)

    def _ended(self) -> None:
        for descriptor, path in self._open.items():
            self._disk.unlock(path, (self._wire.process, descriptor))

    def _call(self, what: str, path: str, do: Callable[[], T], possible: Sequence[FaultKind] = ()) -> T:
        wire, s = self._wire, self._wire.scheduler
        fault = wire.depart(what, path, (*possible, "disk error"))
        kind = fault.kind if fault is not None else None
        if kind == "disk error":
            raise OSError(errno.EIO, "Input/output error", path)
        if kind == "disk full":
            raise OSError(errno.ENOSPC, "No space left on device", path)
        answer = do()
        s.note(f"{what} {path.removeprefix(f'{ROOT}/')}")
        if kind == "crash after":
            wire.die()
        if kind == "done and denied":  # a network disk that lost its answer
            raise OSError(errno.EIO, "Input/output error", path)
        return answer

    def _now_us(self) -> int:
        return self._wire.scheduler.now_us

    def _file(self, path: str) -> File:
        if path not in self._disk.names:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        file = self._disk.names[path]
        if file is None:
            raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
        return file

    def _check_folder(self, path: str) -> None:
        if self._disk.names.get(path, ...) is not None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)

    # ---- descriptors ------------------------------------------------------------------------------

    def open(self, path: str, flags: int = os.O_RDONLY) -> int:
        def do() -> int:
            if flags & os.O_CREAT:
                self._check_folder(_folder(path))
                if path in self._disk.names:
                    raise FileExistsError(errno.EEXIST, "File exists", path)
                self._disk.names[path] = File(self._now_us())
            elif path not in self._disk.names:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
            self._next += 1
            self._open[self._next] = path
            return self._next

        return self._call("open", path, do)

    def close(self, descriptor: int) -> None:
        path = self._open.pop(descriptor, None)
        if path is not None:
            self._disk.unlock(path, (self._wire.process, descriptor))

    def write(self, descriptor: int, data: memoryview) -> int:
        path = self._open[descriptor]

        def do() -> int:
            file = self._file(path)
            file.data, file.at_us = file.data + bytes(data), self._now_us()
            return len(data)

        return self._call("write", path, do, ("disk full",))

    def fsync(self, descriptor: int) -> None:
        path = self._open[descriptor]

        def do() -> None:
            file = self._disk.names.get(path)
            if file is None:
                self._disk.sync_folder(path)
            else:
                file.durable = file.data

        self._call("fsync", path, do)

    def flock(self, descriptor: int, operation: int) -> None:
        path, holder = self._open[descriptor], (self._wire.process, descriptor)
        if operation & fcntl.LOCK_UN:
            self._disk.unlock(path, holder)
            return
        self._call("flock", path, lambda: None)
        while self._disk.locked.get(path, holder) != holder:
            if operation & fcntl.LOCK_NB:
                raise BlockingIOError(errno.EWOULDBLOCK, "Resource temporarily unavailable", path)
            task = self._wire.scheduler.current
            assert task is not None, "a lock is held while no actor runs"
            self._disk.waiting.append(task)
            self._wire.scheduler.block()
        self._disk.locked[path] = holder

    # ---- names ------------------------------------------------------------------------------------

    def link(self, source: str, target: str) -> None:
        def do() -> None:
            file = self._file(source)
            if target in self._disk.names:
                raise FileExistsError(errno.EEXIST, "File exists", target)
            self._disk.names[target] = file
            self._disk.history.written(self._disk.key(target), file.data, self._now_us())

        self._call("link", target, do, ("done and denied",))

    def replace(self, source: str, target: str) -> None:
        def do() -> None:
            file = self._file(source)
            del self._disk.names[source]
            self._disk.names[target] = file
            self._disk.history.written(self._disk.key(target), file.data, self._now_us())

        self._call("rename", target, do, ("done and denied",))

    def unlink(self, path: str) -> None:
        def do() -> None:
            self._file(path)
            del self._disk.names[path]
            self._disk.history.deleted(self._disk.key(path), self._now_us())
            if f"/{ELSEWHERE}/" in path:
                self._disk.history.violations.append(f"I10: {path} was deleted, which lies behind a link")

        self._call("unlink", path, do)

    def mkdir(self, path: str) -> None:
        def do() -> None:
            self._check_folder(_folder(path))
            if path in self._disk.names:
                raise FileExistsError(errno.EEXIST, "File exists", path)
            self._disk.names[path] = None
            if path == self._disk.root:
                self._disk.names |= {f"{path}/{ELSEWHERE}": None, f"{path}/{ELSEWHERE}/file.json": File(self._now_us())}

        self._call("mkdir", path, do)

    def lexists(self, path: str) -> bool:
        return self._call("look at", path, lambda: path in self._disk.names)

    def exists(self, path: str) -> bool:
        return self.lexists(path)

    def samefile(self, one: str, other: str) -> bool:
        return self._call("compare", other, lambda: self._file(one) is self._file(other))

    def status(self, path: str) -> FileStatus:
        def do() -> FileStatus:
            file = self._file(path)
            return FileStatus(len(file.data), START_MS * 1_000_000 + file.at_us * 1000)

        return self._call("status", path, do)

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        return self._call("read", path, lambda: self._file(path).data[start : None if length is None else start + length])

    def entries(self, path: str) -> Sequence[Name]:
        def do() -> Sequence[Name]:
            self._check_folder(path)
            return [Name(p[len(path) + 1 :], file is None, p.endswith(f"/{ELSEWHERE}")) for p, file in self._disk.names.items() if _folder(p) == path]

        return self._call("scan", path, do)
