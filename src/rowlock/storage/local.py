"""The store of a table in a local folder, the commit lane of a table, and the system calls that both use.  A simulated disk implements the same calls.

A commit is link(2) of a complete, synced file to its name: the kernel lets one caller win, and readers never see
a partial file (I1).  Never a rename onto a file of the log.  Nothing outside the root is written.

In the lane writers on one machine put one after the other, instead of losing puts to each other.  Between threads it is a lock; between processes that
share a local folder it is the kernel's lock on the log's folder, which ends with its holder.  It only saves rounds and decides nothing (I7):
a writer that has waited long enough goes on without it, and put-if-absent alone decides who commits.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Protocol

from rowlock import clock, threads
from rowlock.protocol.paths import check_key
from rowlock.storage.store import (
    Committed,
    FolderStore,
    Lost,
    NotFound,
    ObjectMeta,
    ObjectStore,
    PutOutcome,
    StorageError,
    Unknown,
    named,
    storage_error,
    tag_of,
)

# ruff: noqa: PTH102, PTH105, PTH108, PTH110, PTH116, PTH121, PTH123 - descriptors and links are what this module is about


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


# ruff: noqa: PTH100, PTH120 - paths are text here, as the kernel takes them


_NO_SYNC_OF_FOLDERS = frozenset({errno.EINVAL, errno.EBADF, errno.ENOTSUP})
"""What file systems say that sync files alone, as some of network and user space do: there a name is as durable as they make it."""


class LocalStore(FolderStore):
    """The store of one local folder, which need not exist yet.  Its methods are documented in `ObjectStore`."""

    is_remote = False

    def __init__(self, root: str | Path, system: SystemCalls = SYSTEM) -> None:
        super().__init__(os.path.abspath(os.fspath(root)))
        self.system = system
        self._durable = set[str]()
        """Folders of which this process knows that their names are on disk."""

    def _error(self, what: str, key: str, error: OSError) -> StorageError:
        return storage_error(what, self.root, key, error)

    @named("write")
    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        path = self._path(key)
        if self.system.lexists(path):
            return Lost()
        temporary = self._write_temporary(path, (data,))
        try:
            self.system.link(temporary, path)
        except FileExistsError:
            return Lost()
        except OSError as e:
            return self._after_failed_link(temporary, path, e)
        finally:
            self._discard(temporary)
        try:
            self._sync_directory(os.path.dirname(path))
        except OSError as e:
            return Unknown(f"{path} was created but could not be synced to disk: {e}")
        return Committed(tag_of(data))

    def _after_failed_link(self, temporary: str, path: str, error: OSError) -> PutOutcome:
        """The outcome after link(2) failed: on a network disk the link may exist nevertheless; then both names are one file."""
        try:
            if self.system.samefile(temporary, path):
                self._sync_directory(os.path.dirname(path))
                return Committed()
            return Lost()
        except FileNotFoundError:
            text = f"{path} could not be created: {error}; where the file system has no hard links (link(2)), which make commits atomic, choose a folder on another"
            raise StorageError(text, table=self.root) from error
        except OSError as e:
            return Unknown(f"{error}; then {e}")

    def _write_temporary(self, path: str, parts: Iterable[bytes], durable: bool = True) -> str:
        folder, name = os.path.split(path)
        temporary = f"{folder}/.{name}.{clock.new_id()}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
        try:
            descriptor = self.system.open(temporary, flags)
        except FileNotFoundError:
            self._make_folders(folder)
            descriptor = self.system.open(temporary, flags)
        try:
            for data in parts:
                view = memoryview(data)
                while view:
                    view = view[self.system.write(descriptor, view) :]
            if durable:
                self._sync_names(folder)
                self.system.fsync(descriptor)
        except BaseException:
            self._discard(temporary)
            raise
        finally:
            self.system.close(descriptor)
        return temporary

    def _replace(self, source: str, target: str, durable: bool = True) -> None:
        self.system.replace(source, target)
        if durable:
            self._sync_directory(os.path.dirname(target))

    def _discard(self, path: str) -> None:
        with contextlib.suppress(OSError):
            self.system.unlink(path)

    def _make_folders(self, folder: str) -> None:
        """Creates a folder and its missing parents, each durable: a commit must not be lost with its folder."""
        if not self.system.exists(os.path.dirname(folder)):
            self._make_folders(os.path.dirname(folder))
        self._durable.discard(folder)
        with contextlib.suppress(FileExistsError):
            self.system.mkdir(folder)
            self._sync_name(folder)

    def _sync_names(self, folder: str) -> None:
        """Makes the names of a folder and of those above it, up to the table's, durable once: the process that made one may have ended before its name was."""
        if folder != self.root:
            self._sync_names(os.path.dirname(folder))
        if folder not in self._durable:
            self._sync_name(folder)

    def _sync_name(self, folder: str) -> None:
        with contextlib.suppress(PermissionError):  # a folder above that may be entered and not read
            self._sync_directory(os.path.dirname(folder))
        self._durable.add(folder)

    def _sync_directory(self, folder: str) -> None:
        descriptor = self.system.open(folder)
        try:
            self.system.fsync(descriptor)
        except OSError as e:
            if e.errno not in _NO_SYNC_OF_FOLDERS:
                raise
        finally:
            self.system.close(descriptor)

    def _read(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        try:
            return self.system.read(self._path(key), start, length)
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(key, self.root) from None

    @named("write")
    def replace_if(self, key: str, data: bytes, tag: str) -> PutOutcome:
        """Compares and replaces under the kernel's lock on the folder, which ends with the process that holds it."""
        folder = os.path.dirname(self._path(key))
        try:
            descriptor = self.system.open(folder)
        except (FileNotFoundError, NotADirectoryError):
            return Lost()
        try:
            self.system.flock(descriptor, fcntl.LOCK_EX)
            try:
                if tag_of(self.get(key)) != tag:
                    return Lost()
            except NotFound:
                return Lost()
            self.put(key, data)
            return Committed()
        finally:
            self.system.close(descriptor)

    def _size_and_time(self, key: str) -> tuple[int, int] | None:
        try:
            status = self.system.status(self._path(key))
        except (FileNotFoundError, NotADirectoryError):
            return None
        return status.size_bytes, status.modified_ns // 1_000_000

    @named("sync")
    def sync(self, key: str) -> None:
        self._sync_directory(os.path.dirname(self._path(key)))

    @named("list")
    def list(self, prefix: str = "", *, start_after: str | None = None, recursive: bool = False, limit: int | None = None) -> Iterator[ObjectMeta]:
        listed = list[ObjectMeta]()
        for key in sorted(self._walk(prefix and check_key(prefix), recursive, start_after)):
            if len(listed) == limit:
                break
            with contextlib.suppress(FileNotFoundError):
                status = self.system.status(f"{self.root}/{key}")
                listed.append(ObjectMeta(key, status.size_bytes, status.modified_ns // 1_000_000))
        return iter(listed)

    def _walk(self, prefix: str, recursive: bool, start_after: str | None) -> Iterator[str]:
        try:
            entries = self.system.entries(f"{self.root}/{prefix}" if prefix else self.root)
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in entries:
            key = f"{prefix}/{entry.name}" if prefix else entry.name
            try:
                is_folder = entry.is_dir()
            except OSError as e:
                if e.errno == errno.ELOOP:  # a link to itself leads nowhere, as one whose target is gone
                    continue
                raise self._error("list", key, e) from e
            if is_folder:
                if recursive and not entry.is_symlink():  # a link's target may be outside the table
                    yield from self._walk(key, True, start_after)
            elif entry.name.startswith(".") and entry.name.endswith(".crc" if recursive else (".tmp", ".crc")):
                continue  # the checksum that Hadoop puts beside its files; this store's temporary file, which VACUUM alone looks for
            elif start_after is None or key > start_after:
                yield key

    @named("delete")
    def delete(self, key: str) -> None:
        path = self._path(key)
        folder, name = os.path.split(path)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            self.system.unlink(path)
        self._discard(f"{folder}/.{name}.crc")  # the checksum file that Hadoop puts beside its files, which no listing names

    def exists(self, key: str = "") -> bool:
        return self.system.exists(self._path(key) if key else self.root)


PATIENCE_S = 1.0
"""How long a writer waits for writers of other processes."""
PAUSE_S = 10.0
"""How long a writer commits without the other processes' lock after it waited in vain, since the holder hangs or is busy."""
_FOLDER = "_delta_log"


class Lane:
    """A commit lane: a context manager that one thread holds at a time, and may enter again (re-entrant)."""

    def __init__(self, folder: str | None = None, system: SystemCalls = SYSTEM) -> None:
        self._threads = threads.reentrant_lock()
        self._folder, self._depth, self._without_until = folder, 0, float("-inf")
        self._held: int | None = None
        self._system = system

    def __enter__(self) -> Lane:
        return self.enter()

    def enter(self, before_wait: Callable[[], object] = lambda: None) -> Lane:
        """`__enter__`; calls `before_wait`, with the lock of this process's threads, where another process holds the lane."""
        depth = self._depth if self._threads._is_owned() else 0
        try:
            self._threads.acquire()
            if not depth and self._folder is not None:
                self._held = self._acquire_flock(self._folder, before_wait)
            self._depth = depth + 1
            return self
        except BaseException:  # an interrupt may come right after a lock was acquired and before that is recorded
            if not depth and self._threads._is_owned():
                self._depth = 0
                self._release()
            raise

    @property
    def excludes_processes(self) -> bool:
        """Whether its holder has the lock between processes too: not on a remote store, and not after a wait that was too long."""
        return self._held is not None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._depth -= 1
        if self._depth:
            self._threads.release()
        else:
            self._release()

    def _release(self) -> None:
        try:
            if self._held is not None:
                held, self._held = self._held, None
                _let_go(held, self._system)
        finally:
            self._threads.release()

    def _acquire_flock(self, folder: str, before_wait: Callable[[], object]) -> int | None:
        """Acquires the kernel's lock: returns the descriptor that holds it, None if it is not acquired in time."""
        if clock.monotonic_s() < self._without_until:
            return None
        try:
            descriptor = self._system.open(folder)
        except OSError:
            return None
        try:
            self._system.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            try:
                before_wait()
                waiter = _FlockWaiter(descriptor, self._system)
            except BaseException as e:
                self._system.close(descriptor)
                if isinstance(e, RuntimeError):  # no thread can be started, for example at interpreter exit
                    return None
                raise
            if waiter.acquired_within(PATIENCE_S):
                return descriptor
            self._without_until = clock.monotonic_s() + PAUSE_S
            return None
        except OSError:  # a file system without such locks
            self._system.close(descriptor)
            return None


def _let_go(descriptor: int, system: SystemCalls) -> None:
    """Releases the kernel's lock and closes its descriptor."""
    with contextlib.suppress(OSError):
        system.flock(descriptor, fcntl.LOCK_UN)  # closing is not enough: a forked child may have the descriptor too
        system.close(descriptor)


class _FlockWaiter:
    """Waits for the kernel's lock in a separate thread, since flock has no timeout; a lock that is acquired too late is released at once."""

    def __init__(self, descriptor: int, system: SystemCalls) -> None:
        self._descriptor, self._acquired, self._given_up = descriptor, threads.event(), False
        self._lock, self._system = threads.lock(), system
        threads.start(self._wait, "rowlock lane")

    def _wait(self) -> None:
        with contextlib.suppress(OSError):
            self._system.flock(self._descriptor, fcntl.LOCK_EX)
        with self._lock:
            if self._given_up:
                _let_go(self._descriptor, self._system)
            else:
                self._acquired.set()

    def acquired_within(self, seconds: float) -> bool:
        """Whether the lock was acquired in time; if not, or if the wait is interrupted, it is released as soon as it is acquired."""
        try:
            self._acquired.wait(seconds)
        finally:
            with self._lock:
                self._given_up = not self._acquired.is_set()
        return not self._given_up


def lane_of(store: ObjectStore) -> Lane:
    """A new commit lane for the table at a store's root; on a local disk it also orders the processes of this machine."""
    return Lane(f"{store.root}/{_FOLDER}", store.system) if isinstance(store, LocalStore) else Lane()
