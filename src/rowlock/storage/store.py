"""The contract of an object store: objects below one table's root, and put-if-absent as the commit primitive; and an object as a file, by byte ranges.

`put_if_absent` alone decides who commits (I1).  Its outcome is a value, Unknown if it cannot be determined (I2).
Keys are relative to the root, use `/` and never leave the root.  `rowlock.storage` has the implementations;
all pass the same contract tests.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, TypeVar, cast

import orjson

from rowlock import clock
from rowlock.exceptions import StorageError as StorageError
from rowlock.limits import limits
from rowlock.protocol.paths import check_key
from rowlock.threads import R, T, side_by_side

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Committed:
    """The object was written by this call and is durable.  `tag` is its tag (see `ObjectStore.tag`), if the store returned one."""

    tag: str | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Lost:
    """Another object was there already (or had changed); nothing was written."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The object may have been written, may be written later, or not at all: read the log back before doing anything else."""

    reason: str


PutOutcome: TypeAlias = Committed | Lost | Unknown


@dataclass(frozen=True, slots=True)
class ObjectMeta:
    """One object in a listing."""

    key: str
    size_bytes: int
    modified_ms: int


def tag_of(data: bytes) -> str:
    """A tag for stores without entity tags: a digest of the object's bytes.

    Equal bytes have equal tags, so a cell that may return to an old value must contain a counter (an epoch).
    """
    return hashlib.sha256(data).hexdigest()


class NotFound(StorageError, KeyError):
    """There is no object under the key."""

    def __init__(self, key: str, table: str | None = None) -> None:
        self.key = key
        super().__init__("there is no such file", table=table, file=key)

    def __str__(self) -> str:
        return str(self.args[0])


_REMEDIES = {
    errno.EACCES: "the user of this process may not: give it access to the table's folder and to all in it",
    errno.EPERM: "the user of this process may not: give it access to the table's folder and to all in it",
    errno.EROFS: "the file system is mounted read-only",
    errno.ENOSPC: "the disk is full: make room, then run the call again",
    errno.EDQUOT: "the user's quota of the disk is full: make room, then run the call again",
    errno.ENOTDIR: "a part of the table's path is a file: a table is a folder of files",
    errno.EEXIST: "a part of the table's path is a file: a table is a folder of files",
    errno.ENOENT: "a folder of the table's path is gone, or is a link that leads nowhere: correct the path, or make what it leads to",
    errno.ELOOP: "a link in the table's path leads to itself: correct the path, or the link",
    errno.ENAMETOOLONG: "the path is longer than the file system allows: choose a shorter one",
    errno.EMFILE: "this process has too many files open: raise its limit (ulimit -n)",
}


def storage_error(what: str, table: str, key: str, error: OSError) -> StorageError:
    """The StorageError for an OSError on a file in a table's folder, with the remedy."""
    remedy = _REMEDIES.get(error.errno or 0, "the call may be run again once the disk answers")
    return StorageError(f"could not {what} {key or 'the folder'}: {error.strerror or error}; {remedy}", table=table, file=key or None)


class ObjectStore(Protocol):
    """One table's folder. All methods are safe to call from any thread and run on the driver."""

    @property
    def root(self) -> str:
        """The table's location: an absolute local path, or a URI."""

    @property
    def identity(self) -> str:
        """Distinguishes stores in one process that have the same root but another endpoint or other credentials; contains no secret."""

    @property
    def is_remote(self) -> bool:
        """Whether each call is a network request, so that optional calls are better left out."""

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        """Creates the object atomically unless it exists: of many callers exactly one gets Committed."""

    def put(self, key: str, data: bytes) -> None:
        """Writes the object atomically, replacing an existing one; durable on return."""

    def put_briefly(self, key: str, data: bytes) -> None:
        """Writes the object as `put` does; the machine's power may take it."""

    def put_parts(self, key: str, parts: Callable[[], Iterable[bytes]]) -> None:
        """Writes the object as `put` does, from parts of which few are in memory at a time; `parts` is called again for each retry."""

    def get(self, key: str) -> bytes:
        """The object's bytes; raises NotFound."""

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """`length` bytes of the object from byte `start`, fewer at its end; raises NotFound."""

    def get_tagged(self, key: str) -> tuple[bytes, str]:
        """The object's bytes and the tag of exactly this state; raises NotFound."""

    def replace_if(self, key: str, data: bytes, tag: str) -> PutOutcome:
        """Replaces the object if it still has this tag: of many callers with the same tag exactly one gets Committed.

        Lost if it has changed or is gone.  For registers (leases, turns), never for the log.
        """

    def head(self, key: str) -> int | None:
        """The object's size in bytes; None if it does not exist."""

    def tag(self, key: str) -> str | None:
        """The tag of the object's current state, as in `get_tagged` and `Committed`; None if it does not exist."""

    def modified_ms(self, key: str) -> int | None:
        """When the object was last written, by the store's clock, in milliseconds (in some stores truncated to seconds); None if it does not exist."""

    def sync(self, key: str) -> None:
        """Makes an object that can be read durable: one whose put was Unknown may be lost with the machine's power.  Does nothing where every put is durable."""

    def list(self, prefix: str = "", *, start_after: str | None = None, recursive: bool = False, limit: int | None = None) -> Iterator[ObjectMeta]:
        """The objects in the folder `prefix` (without a trailing slash; '' is the root), sorted by key.

        Only keys that sort after `start_after`; with `recursive` also those in subfolders; with `limit` the first ones alone, for which a
        remote store is asked for as many pages as these take.  A missing folder is empty.
        """

    def delete(self, key: str) -> None:
        """Deletes the object; does nothing if it does not exist."""

    def exists(self, key: str = "") -> bool:
        """Whether the key is an object or a folder; by default the table's folder itself."""


class Digested:
    """Tags for a store without entity tags: digests of the objects' bytes."""

    def get(self, key: str) -> bytes:
        raise NotImplementedError

    def get_tagged(self, key: str) -> tuple[bytes, str]:
        data = self.get(key)
        return data, tag_of(data)

    def tag(self, key: str) -> str | None:
        try:
            return tag_of(self.get(key))
        except NotFound:
            return None


def named(what: str) -> Callable[[F], F]:
    """Converts the OSError of a `FolderStore`'s method to StorageError, with table, file and remedy."""

    def decorate(method: F) -> F:
        @functools.wraps(method)
        def converted(self: FolderStore, *args: Any, **kwargs: Any) -> Any:
            try:
                return method(self, *args, **kwargs)
            except OSError as e:
                raise self._error(what, str(args[0]) if args else "", e) from e

        return cast(F, converted)

    return decorate


class FolderStore(Digested):
    """What the stores share whose table is a folder of a file system, which need not exist yet."""

    def __init__(self, root: str) -> None:
        self.root = self.identity = root

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.root!r})"

    def _error(self, what: str, key: str, error: OSError) -> StorageError:
        raise NotImplementedError

    def _path(self, key: str) -> str:
        return f"{self.root}/{check_key(key)}"

    @named("write")
    def put(self, key: str, data: bytes) -> None:
        self._put(key, (data,))

    @named("write")
    def put_briefly(self, key: str, data: bytes) -> None:
        self._put(key, (data,), durable=False)

    @named("write")
    def put_parts(self, key: str, parts: Callable[[], Iterable[bytes]]) -> None:
        self._put(key, parts())

    def _put(self, key: str, parts: Iterable[bytes], durable: bool = True) -> None:
        path = self._path(key)
        temporary = self._write_temporary(path, parts, durable)
        try:
            self._replace(temporary, path, durable)
        except BaseException:
            self._discard(temporary)
            raise

    def _write_temporary(self, path: str, parts: Iterable[bytes], durable: bool = True) -> str:
        """A complete file beside `path`, under a name that no listing of the store has."""
        raise NotImplementedError

    def _replace(self, source: str, target: str, durable: bool = True) -> None:
        """Renames a file, replacing an existing one."""
        raise NotImplementedError

    def _discard(self, path: str) -> None:
        """Deletes a file; one that cannot be deleted remains for VACUUM, under a name that no reader lists."""
        raise NotImplementedError

    @named("look at")
    def head(self, key: str) -> int | None:
        return None if (found := self._size_and_time(key)) is None else found[0]

    @named("look at")
    def modified_ms(self, key: str) -> int | None:
        return None if (found := self._size_and_time(key)) is None else found[1]

    def _size_and_time(self, key: str) -> tuple[int, int] | None:
        """The size of a file in bytes, and when it was last written, in milliseconds; None if there is none."""
        raise NotImplementedError

    @named("read")
    def get(self, key: str) -> bytes:
        return self._read(key)

    @named("read")
    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._read(key, start, length)

    def _read(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        raise NotImplementedError


def time_ms(store: ObjectStore) -> int | None:
    """The store's clock in milliseconds, by the modification time of a temporary file; None if the store gives none.

    Raises StorageError if nothing may be written.
    """
    key = f"_delta_log/.{clock.new_id()}.time"
    store.put(key, b"")
    try:
        return store.modified_ms(key)
    finally:
        discard(store, (key,))


def json_object(store: ObjectStore, key: str) -> dict[str, Any] | None:
    """The JSON object that a file holds; None where there is no such file, or it holds something else."""
    try:
        value = orjson.loads(store.get(key))
    except (NotFound, orjson.JSONDecodeError):
        return None
    return value if isinstance(value, dict) else None


def of_each(store: ObjectStore, read: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """What `read` finds in the store for each item: side by side where each takes a round trip, and else in turn, since threads would cost more than they save."""
    return side_by_side(read, items, limits().request_threads) if store.is_remote else [read(i) for i in items]


def discard(store: ObjectStore, keys: Iterable[str]) -> None:
    """Deletes files that no commit will name; those that cannot be deleted remain for VACUUM."""
    for key in keys:
        with contextlib.suppress(StorageError, OSError):
            store.delete(key)


class RangeFile(io.RawIOBase):
    """A file object that reads an object by byte ranges.  Not thread-safe: pyarrow reads one range after the other."""

    def __init__(self, store: ObjectStore, key: str, size_bytes: int) -> None:
        super().__init__()
        self._store, self._key, self._size, self._at = store, key, size_bytes, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def size(self) -> int:
        return self._size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._size - self._at)
        wanted = left if size is None or size < 0 else min(size, left)
        data = self._store.get_range(self._key, self._at, wanted) if wanted else b""
        self._at += len(data)
        return data
