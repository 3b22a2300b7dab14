"""A simulated S3 bucket with conditional puts, below `storage/remote`: what a server does, and what a network makes of it."""

from __future__ import annotations

import datetime
import functools
import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rowlock.storage.remote import ObjectInfo, Requests, error_of
from rowlock_simulation.history import POSTED, History
from rowlock_simulation.scheduler import START_MS
from rowlock_simulation.servers.network import Network
from rowlock_simulation.wire import Wire, is_commit

Stored = tuple[bytes, int, str]


class Bucket:
    """The objects of a bucket, as the server holds them: writes come one after another, and each is seen at once by all but a stale list."""

    def __init__(self, history: History, *, conditional_commits: bool = True, as_azure: bool = False) -> None:
        """`conditional_commits=False`: a create overwrites a commit file that is there, as on S3 before it had conditions; `as_azure`: it says 409 where S3 says 412."""
        self.history, self.conditional_commits = history, conditional_commits
        self.exists = (409, "BlobAlreadyExists") if as_azure else (412, "PreconditionFailed")
        self.objects: dict[str, Stored] = {}
        """Bytes, time of the last change in virtual microseconds, and tag, by key."""
        self._before: list[tuple[int, str, Stored | None]] = []

    def tag(self, key: str) -> str:
        return self.objects[key][2]

    def set(self, key: str, data: bytes, now_us: int) -> None:
        self._before.append((now_us, key, self.objects.get(key)))
        self.objects[key] = data, now_us, f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'
        self.history.written(key, data, now_us)

    def remove(self, key: str, now_us: int) -> None:
        if (before := self.objects.pop(key, None)) is not None:
            self._before.append((now_us, key, before))
            self.history.deleted(key, now_us)

    def drop(self) -> None:
        """Deletes everything at once."""
        self.objects, self._before = {}, []
        self.history.dropped()

    def sizes(self, folder: str, since_us: int | None = None) -> dict[str, tuple[int, int, str]]:
        """Size, time and tag of each object under a folder by key, as a listing shows them: now, or as it was before what has changed since a time."""
        objects = {key: stored for key, stored in self.objects.items() if key.startswith(folder)}
        for at_us, key, before in reversed(self._before if since_us is not None else []):
            if at_us < (since_us or 0):
                break
            if before is None:
                objects.pop(key, None)
            elif key.startswith(folder):
                objects[key] = before
        return {key: (len(data), at_us, tag) for key, (data, at_us, tag) in objects.items()}


class S3Requests(Requests):
    """The requests of one process to a simulated bucket."""

    def __init__(self, bucket: Bucket, wire: Wire, within: str = "") -> None:
        self._bucket, self._s = bucket, wire.scheduler
        self._send = Network(wire, error_of, within).send

    # ---- what the server does ---------------------------------------------------------------------

    def put(self, key: str, data: bytes) -> None:
        self._send("put", key, lambda: self._bucket.set(key, bytes(data), self._s.now_us), ("late request",))

    def put_parts(self, key: str, parts: Iterable[bytes]) -> None:
        self.put(key, b"".join(parts))

    def put_if(self, key: str, data: bytes, mode: Any) -> ObjectInfo:
        def create() -> ObjectInfo:
            if key in self._bucket.objects and (self._bucket.conditional_commits or not is_commit(key)):
                raise error_of(*self._bucket.exists)
            self._bucket.set(key, bytes(data), self._s.now_us)
            return self._info(key)

        def replace() -> ObjectInfo:
            if key not in self._bucket.objects:
                raise error_of(404, "NoSuchKey")
            if self._bucket.tag(key) != mode.get("e_tag"):
                raise error_of(412, "PreconditionFailed")
            self._bucket.set(key, bytes(data), self._s.now_us)
            return self._info(key)

        return self._send("create" if mode == "create" else "replace", key, create if mode == "create" else replace, ("late request", "sent twice", "conflict"))

    def get(self, key: str) -> tuple[bytes, ObjectInfo]:
        return self._send("get", key, lambda: (self._there(key)[0], self._info(key)))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._send("get", key, lambda: self._there(key)[0][start : start + length])

    def head(self, key: str) -> ObjectInfo:
        return self._send("head", key, lambda: self._info(key))

    def list(self, prefix: str | None, *, offset: str | None = None, chunk_size: int = 50) -> Iterable[Sequence[ObjectInfo]]:
        found = self._listed(prefix, lambda key: offset is None or key > offset)
        return [found[n : n + chunk_size] for n in range(0, len(found), chunk_size)]

    def list_folder(self, prefix: str | None) -> Sequence[ObjectInfo]:
        start = len(f"{prefix}/") if prefix else 0
        return self._listed(prefix, lambda key: "/" not in key[start:])

    def delete(self, key: str) -> None:
        self._send("delete", key, lambda: self._bucket.remove(key, self._s.now_us))

    def _there(self, key: str) -> Stored:
        found = self._bucket.objects.get(key)
        if found is None:
            raise error_of(404, "NoSuchKey")
        return found

    def _info(self, key: str) -> ObjectInfo:
        data, at_us, tag = self._there(key)
        return _info(key, len(data), at_us, tag)

    def _listed(self, prefix: str | None, wanted: Callable[[str], bool]) -> Sequence[ObjectInfo]:
        folder = f"{prefix}/" if prefix else ""
        self._bucket.history.looked_for_posts += folder == POSTED

        def shown(since_us: int | None = None) -> Sequence[ObjectInfo]:
            return [_info(key, *shown) for key, shown in sorted(self._bucket.sizes(folder, since_us).items()) if wanted(key)]

        return self._send("list", folder, shown, ("stale list",), shown)


@functools.lru_cache(64)
def _time(seconds: int) -> datetime.datetime:
    """A time as S3 says it, which has seconds."""
    return datetime.datetime.fromtimestamp(seconds, tz=datetime.UTC)


def _info(key: str, size: int, at_us: int, tag: str) -> ObjectInfo:
    return {"path": key, "size": size, "last_modified": _time((START_MS + at_us // 1000) // 1000), "e_tag": tag, "version": None}
