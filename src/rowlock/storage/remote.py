"""The store of a table on S3, Google Cloud Storage or Azure Blob Storage, through obstore.

A commit is one conditional put, sent once: If-None-Match on S3 and Azure, generation 0 on GCS; the server lets one
caller win (I1).  Only a clear answer is Committed or Lost; after a timeout, a broken connection, a 5xx or a
concurrent-write conflict (409) the outcome is Unknown (I2), and the caller reads the log back.  All other requests
are idempotent and are retried with pauses.
"""

from __future__ import annotations

import builtins
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, PreconditionError, UnauthenticatedError

from rowlock import clock
from rowlock.protocol.paths import check_key
from rowlock.storage.options import Address, Settings, environment_fingerprint
from rowlock.storage.requests import ObstoreRequests, Requests, client_of
from rowlock.storage.store import Committed, Lost, NotFound, ObjectMeta, PutOutcome, StorageError, Unknown

T = TypeVar("T")
_TRIES = 8
_STATUS = re.compile(r"status code: (\d{3})")
_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|The specified bucket does not exist")
_PAGE = 1000
"""Objects in one page of a listing."""
Failure = (BaseError, OSError, ValueError)
"""The errors that obstore raises; FileNotFoundError is among them."""


class RemoteStore:
    """The store of one folder in a bucket.  Safe to share between threads.  Its methods are documented in `ObjectStore`."""

    def __init__(self, address: Address, settings: Settings, requests: Requests | None = None) -> None:
        """`requests`: the sender of its requests; by default the process's client for these settings."""
        self.address, self.settings = address, settings
        self._requests = requests or ObstoreRequests(client_of(address, settings), address.root)
        self._environment = environment_fingerprint()

    @property
    def root(self) -> str:
        return self.address.root

    @property
    def identity(self) -> str:
        return f"{self.root} {self.settings.fingerprint} {self._environment}"  # obstore reads the environment, too

    @property
    def is_remote(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"RemoteStore({self.root!r}, {self.settings!r})"

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        return self._conditional(key, data, "create")

    def replace_if(self, key: str, data: bytes, tag: str) -> PutOutcome:
        try:
            version: Any = {k: v for k, v in json.loads(tag).items() if v is not None}
        except (ValueError, AttributeError):
            return Lost()  # not a tag of this store
        return self._conditional(key, data, version)

    def _conditional(self, key: str, data: bytes, mode: Any) -> PutOutcome:
        """One conditional put, never retried.  Raises StorageError if the server refused the request, so that nothing was written."""
        check_key(key)
        try:
            return Committed(_tag(self._requests.put_if(key, data, mode)))
        except Failure as e:
            failure = e
        status, text = _status(failure), self._describe(failure)
        if status == 412 or (status == 409 and "BlobAlreadyExists" in str(failure)):
            return Lost()
        if status == 404 and mode != "create" and not _NO_BUCKET.search(str(failure)):
            return Lost()  # the object to replace is gone
        if isinstance(failure, (AlreadyExistsError, PreconditionError)) and status is None:
            return Lost()
        if _is_refusal(failure, status):
            raise StorageError(f"{key} could not be put: {text}", table=self.root, file=key)
        return Unknown(text)

    def put(self, key: str, data: bytes) -> None:
        check_key(key)
        self._with_retries("put", key, lambda: self._requests.put(key, data))

    def put_parts(self, key: str, parts: Callable[[], Iterable[bytes]]) -> None:
        check_key(key)
        self._with_retries("put", key, lambda: self._requests.put_parts(key, parts()))

    def get(self, key: str) -> bytes:
        check_key(key)
        return self._with_retries("read", key, lambda: self._requests.get(key)[0])

    def get_range(self, key: str, start: int, length: int) -> bytes:
        check_key(key)

        def ranged() -> bytes:
            try:
                return self._requests.get_range(key, start, length)
            except BaseError as e:
                if _status(e) == 416:  # the object ends before `start`
                    return b""
                raise

        if length > 0:
            return self._with_retries("read", key, ranged)
        if self.head(key) is None:
            raise NotFound(key, self.root)
        return b""

    def get_tagged(self, key: str) -> tuple[bytes, str]:
        check_key(key)

        def tagged() -> tuple[bytes, str]:
            data, info = self._requests.get(key)
            return data, _tag(info)

        return self._with_retries("read", key, tagged)

    def head(self, key: str) -> int | None:
        check_key(key)
        try:
            return self._with_retries("look at", key, lambda: int(self._requests.head(key)["size"]))
        except NotFound:
            return None

    def tag(self, key: str) -> str | None:
        check_key(key)
        try:
            return self._with_retries("look at", key, lambda: _tag(self._requests.head(key)))
        except NotFound:
            return None

    def modified_ms(self, key: str) -> int | None:
        check_key(key)
        try:
            return self._with_retries("look at", key, lambda: int(self._requests.head(key)["last_modified"].timestamp() * 1000))
        except NotFound:
            return None

    def sync(self, key: str) -> None:
        """Nothing: an object that can be read is durable."""

    def list(self, prefix: str = "", *, start_after: str | None = None, recursive: bool = False, limit: int | None = None) -> Iterator[ObjectMeta]:
        folder = f"{check_key(prefix)}/" if prefix else ""

        def is_asked_for(key: str) -> bool:
            return key.startswith(folder) and (recursive or "/" not in key[len(folder) :]) and (start_after is None or key > start_after)

        def listed() -> builtins.list[ObjectMeta]:
            if start_after is None and not recursive:
                objects: Any = self._requests.list_folder(prefix or None)
            else:  # obstore cannot list a single folder from a key on: this lists subfolders too
                objects = [meta for chunk in self._requests.list(prefix or None, offset=start_after) for meta in chunk]
            return sorted((_meta(m) for m in objects if is_asked_for(m["path"])), key=lambda m: m.key)[:limit]

        def first() -> builtins.list[ObjectMeta]:
            out: builtins.list[ObjectMeta] = []
            before = ""
            for chunk in self._requests.list(prefix or None, offset=start_after, chunk_size=min(limit or _PAGE, _PAGE)):
                for m in chunk:
                    if m["path"] < before:  # such a store (S3's directory buckets) does not list by name: the first ones may come last
                        return listed()
                    before = m["path"]
                    if is_asked_for(before):
                        out.append(_meta(m))
                        if len(out) == limit:
                            return out
            return out

        return iter(self._with_retries("list", prefix, listed if limit is None else first))

    def delete(self, key: str) -> None:
        check_key(key)
        try:
            self._with_retries("delete", key, lambda: self._requests.delete(key))
        except NotFound:
            return

    def exists(self, key: str = "") -> bool:
        if key and self.head(key) is not None:
            return True

        def anything() -> bool:
            return any(chunk for chunk in self._requests.list(key or None, chunk_size=1))

        return self._with_retries("list", key, anything)

    def _with_retries(self, what: str, key: str, call: Callable[[], T]) -> T:
        """Runs `call`, retrying failures that may be transient.  Raises NotFound or StorageError."""
        for n in range(_TRIES):
            try:
                return call()
            except Failure as e:
                failure = e
            status = _status(failure)
            if status == 404 or isinstance(failure, FileNotFoundError):
                if _NO_BUCKET.search(str(failure)):
                    break
                raise NotFound(key, self.root)
            if _is_refusal(failure, status) or n == _TRIES - 1:
                break
            clock.back_off(n, clock.STORE)
        raise StorageError(f"could not {what} {key or 'the folder'}: {self._describe(failure)}", table=self.root, file=key or None)

    def _describe(self, failure: BaseException) -> str:
        """The failure as a short message without secrets, with a hint at the remedy."""
        text = str(failure).split("\n\nDebug source:")[0]
        hint = ""
        if _NO_BUCKET.search(text):
            hint = f"the bucket {self.address.bucket!r} does not exist: create it, or correct the table's URI. "
        elif isinstance(failure, (PermissionDeniedError, UnauthenticatedError)) or _status(failure) in (401, 403):
            hint = "access was denied: check the credentials, and that they may read, write and list this bucket. "
        return hint + self.settings.redacted(" ".join(text.split()))[:600]


def _meta(info: Mapping[str, Any]) -> ObjectMeta:
    return ObjectMeta(info["path"], info["size"], int(info["last_modified"].timestamp() * 1000))


def _tag(info: Mapping[str, Any]) -> str:
    """The tag of one state of an object: the server's entity tag, and its version or generation."""
    e_tag = info["e_tag"]
    if e_tag is not None and not e_tag.startswith(('"', "W/")):  # GCS servers leave out the quotes in their answer to a put
        e_tag = f'"{e_tag}"'
    return json.dumps({"e_tag": e_tag, "version": info["version"]})


def _status(failure: BaseException) -> int | None:
    """The HTTP status in obstore's message; None if there was no response."""
    match = _STATUS.search(str(failure))
    return int(match[1]) if match else None


def _is_refusal(failure: BaseException, status: int | None) -> bool:
    """Whether a retry would be refused as well: a 4xx other than timeout, load and races, or an invalid request."""
    if status is not None:
        return (400 <= status < 500 and status not in (408, 409, 412, 425, 429)) or status == 501
    return isinstance(failure, ValueError)
