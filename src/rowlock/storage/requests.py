"""The requests of a remote store, and the errors for their answers.  A simulated server implements the same protocol."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import obstore as obs
from obstore.exceptions import AlreadyExistsError, GenericError, PreconditionError

from rowlock import threads
from rowlock.exceptions import StorageError
from rowlock.storage.clients import Client

ObjectInfo = Mapping[str, Any]
"""An object's metadata as the server gives it: `path`, `size`, `last_modified` (a datetime), `e_tag`, `version`."""
PART_BYTES = 16 << 20
_PARTS_AT_ONCE = 4
_used = _forked_after_use = False


def _note_fork() -> None:
    global _forked_after_use
    _forked_after_use = _used


threads.after_fork(_note_fork)


class Requests(Protocol):
    """The requests for one folder of a bucket, each sent once.  They raise obstore's errors; FileNotFoundError is among them."""

    def put(self, key: str, data: bytes) -> None:
        """Writes an object, replacing an existing one."""
        ...

    def put_parts(self, key: str, parts: Iterable[bytes]) -> None:
        """Writes an object from parts, of which few are in memory at a time."""
        ...

    def put_if(self, key: str, data: bytes, mode: Any) -> ObjectInfo:
        """Writes an object if there is none (`create`), or if it has this tag and version (a mapping)."""
        ...

    def get(self, key: str) -> tuple[bytes, ObjectInfo]:
        """An object's bytes and metadata."""
        ...

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """A part of an object."""
        ...

    def head(self, key: str) -> ObjectInfo:
        """An object's metadata."""
        ...

    def list(self, prefix: str | None, *, offset: str | None = None, chunk_size: int = 50) -> Iterable[Sequence[ObjectInfo]]:
        """The objects below a prefix, page by page."""
        ...

    def list_folder(self, prefix: str | None) -> Sequence[ObjectInfo]:
        """The objects of one folder, without those below its subfolders."""
        ...

    def delete(self, key: str) -> None:
        """Deletes an object."""
        ...


class ObstoreRequests:
    """The requests of an obstore client."""

    def __init__(self, client: Client, table: str) -> None:
        self._of_client, self._table = client, table

    @property
    def _client(self) -> Client:
        """The client.  Raises StorageError in a forked child of a process that has used one: it would wait for ever for threads that a fork does not copy."""
        global _used
        if _forked_after_use:
            raise StorageError(
                "This process was forked from one that had already sent requests to an object store, by a library (obstore) whose threads do not outlive a fork. "
                'Start such workers with multiprocessing.get_context("spawn") or "forkserver", or fork before the first request',
                table=self._table,
            )
        _used = True
        return self._of_client

    def put(self, key: str, data: bytes) -> None:
        obs.put(self._client, key, data, chunk_size=PART_BYTES)

    def put_parts(self, key: str, parts: Iterable[bytes]) -> None:
        left, held, size = iter(parts), list[bytes](), 0
        for part in left:
            held.append(part)
            size += len(part)
            if size > PART_BYTES:
                obs.put(self._client, key, itertools.chain(held, left), chunk_size=PART_BYTES, max_concurrency=_PARTS_AT_ONCE)
                return
        self.put(key, b"".join(held))  # one request

    def put_if(self, key: str, data: bytes, mode: Any) -> ObjectInfo:
        return obs.put(self._client, key, data, mode=mode)

    def get(self, key: str) -> tuple[bytes, ObjectInfo]:
        answer = obs.get(self._client, key)
        return answer.bytes().to_bytes(), answer.meta

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return obs.get_range(self._client, key, start=start, length=length).to_bytes()

    def head(self, key: str) -> ObjectInfo:
        return obs.head(self._client, key)

    def list(self, prefix: str | None, *, offset: str | None = None, chunk_size: int = 50) -> Iterable[Sequence[ObjectInfo]]:
        return obs.list(self._client, prefix, offset=offset, chunk_size=chunk_size)

    def list_folder(self, prefix: str | None) -> Sequence[ObjectInfo]:
        return obs.list_with_delimiter(self._client, prefix)["objects"]

    def delete(self, key: str) -> None:
        obs.delete(self._client, key)


_ERRORS = {404: FileNotFoundError, 409: AlreadyExistsError, 412: PreconditionError}


def error_of(status: int | None, text: str) -> Exception:
    """The error that obstore raises for an answer with this status; None: there was no answer."""
    if status is None:
        return GenericError(f"Generic S3 error: {text}: error sending request: operation timed out")
    return _ERRORS.get(status, GenericError)(f"Generic S3 error: {text}: Server returned non-2xx status code: {status}: {text}")
