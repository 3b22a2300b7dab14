"""The store of a table on a file system of Hadoop that renames atomically and never onto an existing file, such as HDFS.

A commit is a complete, synced file that is renamed to its name: the file system lets one caller win, and readers never see a partial file
(I1).  The calls go through `HadoopFiles`, which an engine with a Hadoop client registers; without one such tables are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from rowlock import clock
from rowlock.exceptions import InvalidInput
from rowlock.storage.store import Committed, FolderStore, Lost, NotFound, ObjectMeta, PutOutcome, StorageError, Unknown, named, tag_of

_CLAIM_MS = 30_000
"""After this time, by the file system's clock, the claim of a writer that ended within `replace_if` may be deleted by others."""


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One file or folder in a listing."""

    name: str
    is_folder: bool
    size_bytes: int
    modified_ms: int


class HadoopFiles(Protocol):
    """Calls of a Hadoop client on whole paths.  They raise FileNotFoundError, FileExistsError, PermissionError or another OSError.  Safe to call from any thread."""

    @property
    def root(self) -> str:
        """The table's folder as a URI with its authority."""

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """A file's bytes from `start`, at most `length` of them."""

    def write(self, path: str, parts: Iterable[bytes]) -> None:
        """Creates a file and its folders; the bytes are durable on return."""

    def rename(self, source: str, target: str, *, replace: bool) -> None:
        """Renames a file atomically; without `replace` it raises FileExistsError if the target exists."""

    def info(self, path: str) -> FileInfo | None:
        """The file or folder at a path; None if there is none."""

    def entries(self, folder: str) -> list[FileInfo]:
        """The files and folders in a folder."""

    def delete(self, path: str) -> None:
        """Deletes a file; does nothing if there is none."""


_open: Callable[[str], HadoopFiles] | None = None
_s3_options: Callable[[str], Mapping[str, str]] | None = None


def serve(open_files: Callable[[str], HadoopFiles], s3_options: Callable[[str], Mapping[str, str]]) -> None:
    """Registers a Hadoop client: the function that opens a folder (or raises InvalidInput), and the one for its options for a bucket on S3."""
    global _open, _s3_options
    _open, _s3_options = open_files, s3_options


def s3_options(bucket: str) -> Mapping[str, str]:
    """The registered Hadoop client's options for a bucket on S3, with its keys, under obstore's names; empty without a client."""
    return {} if _s3_options is None else _s3_options(bucket)


def open_hadoop(uri: str) -> HadoopStore:
    """The store of a table's URI.  Raises InvalidInput if this process has no Hadoop client, or the file system cannot hold tables."""
    if _open is None:
        scheme = uri.partition(":")[0]
        raise InvalidInput(
            f"{scheme}: tables are reached through the Hadoop client of a Spark session, and this process has not given Rowlock one: "
            "use them through rowlock.enable(spark) or rowlock.DeltaTable; without Spark there are a local path, file:, s3:, gs:, az:, abfss: and memory:",
            table=uri,
        )
    return HadoopStore(_open(uri))


class HadoopStore(FolderStore):
    """The store of one folder, which need not exist yet.  Its methods are documented in `ObjectStore`."""

    is_remote = True

    def __init__(self, files: HadoopFiles) -> None:
        super().__init__(files.root)
        self.files = files

    def _error(self, what: str, key: str, error: OSError) -> StorageError:
        remedy = "give the user of this process access to the folder" if isinstance(error, PermissionError) else "the call may be run again once it answers"
        return StorageError(f"could not {what} {key or 'the folder'}: {error}; {remedy}", table=self.root, file=key or None)

    @named("write")
    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        path = self._path(key)
        if self.files.info(path) is not None:
            return Lost()
        temporary = self._write_temporary(path, (data,))
        try:
            self.files.rename(temporary, path, replace=False)
        except FileExistsError:
            self._discard(temporary)
            return Lost()
        except OSError as e:
            return Unknown(f"{path} may have got its name, or not: {e}")
        return Committed(tag_of(data))

    def _write_temporary(self, path: str, parts: Iterable[bytes], durable: bool = True) -> str:
        folder, _, name = path.rpartition("/")
        temporary = f"{folder}/.{name}.{clock.new_id()}.tmp"
        try:
            self.files.write(temporary, parts)
        except BaseException:
            self._discard(temporary)
            raise
        return temporary

    def _replace(self, source: str, target: str, durable: bool = True) -> None:
        self.files.rename(source, target, replace=True)

    def _discard(self, path: str) -> None:
        with suppress(OSError):
            self.files.delete(path)

    def _read(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        try:
            return self.files.read(self._path(key), start, length)
        except FileNotFoundError:
            raise NotFound(key, self.root) from None

    @named("write")
    def replace_if(self, key: str, data: bytes, tag: str) -> PutOutcome:
        """Claims the state with this tag by a file of that name, compares the tag again, and renames the claim onto the object.

        A state has one claim at a time.  A claim that is too old is deleted by others, and another writer may then use its name: so the object is read back after the rename.
        """
        path = self._path(key)
        folder, _, name = path.rpartition("/")
        claim = f"{folder}/.{name}.{tag[:32]}.claim"
        if self.tag(key) != tag:
            return Lost()
        temporary = self._write_temporary(path, (data,))
        try:
            self.files.rename(temporary, claim, replace=False)
        except FileExistsError:
            self._give_up(claim, temporary)
            return Lost()
        if self.tag(key) != tag:
            self._discard(claim)
            return Lost()
        try:
            self.files.rename(claim, path, replace=True)
        except FileNotFoundError:
            return Unknown(f"the claim {claim} was given up, or renamed by the writer that gave it up")
        except OSError as e:
            return Unknown(f"{path} may have been replaced, or not: {e}")
        if self.tag(key) != tag_of(data):
            return Unknown(f"{path} has changed since the claim {claim} was renamed, which may have been another writer's")
        return Committed(tag_of(data))

    def _give_up(self, claim: str, temporary: str) -> None:
        """Deletes a claim that is much older than the new file `temporary`, as its writer has ended; and `temporary`."""
        theirs, ours = self.files.info(claim), self.files.info(temporary)
        if theirs is not None and ours is not None and ours.modified_ms - theirs.modified_ms > _CLAIM_MS:
            self._discard(claim)
        self._discard(temporary)

    def _size_and_time(self, key: str) -> tuple[int, int] | None:
        info = self.files.info(self._path(key))
        return None if info is None or info.is_folder else (info.size_bytes, info.modified_ms)

    def sync(self, key: str) -> None:
        """Nothing: the name node logs a name before it shows it, and the bytes were synced before."""

    @named("list")
    def list(self, prefix: str = "", *, start_after: str | None = None, recursive: bool = False, limit: int | None = None) -> Iterator[ObjectMeta]:
        listed = sorted(self._walk(prefix, recursive), key=lambda m: m.key)
        return iter([m for m in listed if start_after is None or m.key > start_after][:limit])

    def _walk(self, prefix: str, recursive: bool) -> Iterator[ObjectMeta]:
        try:
            entries = self.files.entries(self._path(prefix) if prefix else self.root)
        except FileNotFoundError:
            return
        for entry in entries:
            key = f"{prefix}/{entry.name}" if prefix else entry.name
            if not entry.is_folder:
                if not (entry.name.startswith(".") and entry.name.endswith(".claim" if recursive else (".tmp", ".claim"))):
                    yield ObjectMeta(key, entry.size_bytes, entry.modified_ms)
            elif recursive:
                yield from self._walk(key, True)

    @named("delete")
    def delete(self, key: str) -> None:
        self.files.delete(self._path(key))

    @named("look at")
    def exists(self, key: str = "") -> bool:
        return self.files.info(self._path(key) if key else self.root) is not None
