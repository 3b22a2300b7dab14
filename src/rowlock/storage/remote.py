"""The store of a table on S3, Google Cloud Storage or Azure Blob Storage, through obstore.

A commit is one conditional put, sent once: If-None-Match on S3 and Azure, generation 0 on GCS; the server lets one
caller win (I1).  Only a clear answer is Committed or Lost; after a timeout, a broken connection, a 5xx or a
concurrent-write conflict (409) the outcome is Unknown (I2), and the caller reads the log back.  All other requests
are idempotent and are retried with pauses.  obstore's own retries are off: after a hidden retry a winner would get Lost (I2).  The tables of one
bucket share a client, and its connections, where their settings are equal.  A simulated server is another kind of `Requests`.
"""

from __future__ import annotations

import builtins
import itertools
import re
from bisect import bisect
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import obstore as obs
import obstore.exceptions
import orjson
from obstore.exceptions import AlreadyExistsError, BaseError, GenericError, PermissionDeniedError, PreconditionError, UnauthenticatedError
from obstore.store import AzureStore, GCSStore, S3Store

from rowlock import clock, threads
from rowlock.exceptions import InvalidInput
from rowlock.protocol.paths import check_key
from rowlock.storage.options import Address, Settings, environment_fingerprint, unknown_name
from rowlock.storage.store import Committed, Lost, NotFound, ObjectMeta, PutOutcome, StorageError, Unknown

Client = S3Store | GCSStore | AzureStore
_MAX_CLIENTS = 64
_clients: OrderedDict[tuple[str | None, ...], Client] = OrderedDict()
_lock = threads.module_lock()
_NO_RETRIES: Any = {"max_retries": 0, "retry_timeout": timedelta(seconds=60)}


def client_of(address: Address, settings: Settings) -> Client:
    """The process's client for the bucket of an address and settings, with its open connections; sends nothing yet.

    Raises InvalidInput for an option that is unknown or cannot be parsed.
    """
    key = address.kind, address.bucket, address.account, address.account_suffix, settings.fingerprint, environment_fingerprint()
    with _lock:
        known = _clients.pop(key, None)
    client = _create_client(address, settings) if known is None else known
    with _lock:
        _clients[key] = client
        while len(_clients) > _MAX_CLIENTS:
            _clients.popitem(last=False)
    return client


def _create_client(address: Address, settings: Settings) -> Client:
    problem: InvalidInput  # raised outside of `except`: the original error may contain a secret
    try:
        config, provider = _s3(settings) if address.kind == "s3" else (_azure(address, settings) if address.kind == "azure" else dict(settings.config), None)
        how: dict[str, Any] = {} if provider is None else {"credential_provider": provider}
        options: Any = dict(settings.client) or None  # empty client options would forbid the plain HTTP that a key file may ask for
        return _STORES[address.kind](address.bucket, config=config, client_options=options, retry_config=_NO_RETRIES, **how)
    except obstore.exceptions.UnknownConfigurationKeyError as e:
        problem = unknown_name(settings, str(e).split("'")[1])
    except (obstore.exceptions.BaseError, ValueError, TypeError) as e:
        problem = InvalidInput(f"storage_options cannot be used for {address.kind}: {settings.redacted(e).splitlines()[0]}", table=address.root)
    raise problem


_STORES: dict[str, Callable[..., Client]] = {"s3": S3Store, "gcs": GCSStore, "azure": AzureStore}


def _s3(settings: Settings) -> tuple[dict[str, Any], Any]:
    """The configuration for S3, and what gives the credentials; None where obstore finds them."""
    config: Any = {**settings.config, "conditional_put": "etag"}
    config.setdefault("disable_bulk_delete", "true")  # not every S3 server supports it
    if "endpoint" in config:
        config["aws_endpoint_url_s3"] = config["endpoint"]  # otherwise the environment's endpoint would take precedence
    provider: Any = None
    if settings.profile is not None:
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider

        provider = Boto3CredentialProvider(boto3.Session(profile_name=settings.profile))
    elif settings.keys is not None:  # set together, so that a session token from the environment is not combined with these keys
        key, secret, token = settings.keys
        provider = partial(dict, access_key_id=key, secret_access_key=secret, token=token, expires_at=None)
        for name in ("access_key_id", "secret_access_key", "session_token"):
            config.pop(name, None)
    return config, provider


def _azure(address: Address, settings: Settings) -> dict[str, Any]:
    """The configuration for Azure, whose account a path may name."""
    config = dict(settings.config)
    if address.account is not None:
        if config.get("account_name", address.account) != address.account:
            raise InvalidInput(f"storage_options name the account {config['account_name']!r}, the path names {address.account!r}", table=address.root)
        config["account_name"] = address.account
        if address.account_suffix and "core.windows.net" not in address.account_suffix:
            config.setdefault("endpoint", f"https://{address.account}.{address.account_suffix.replace('dfs.', 'blob.', 1)}")
    return config


ObjectInfo = Mapping[str, Any]
"""An object's metadata as the server gives it: `path`, `size`, `last_modified` (a datetime), `e_tag`, `version`."""
PART_BYTES = 16 << 20
_PARTS_AT_ONCE = 4
_used = _forked_after_use = False


def _note_fork() -> None:
    global _forked_after_use
    _forked_after_use = _used


threads.after_fork(_note_fork)


class Requests:
    """The requests for one folder of a bucket, each sent once by an obstore client.  They raise obstore's errors; FileNotFoundError is among them."""

    def __init__(self, client: Client, table: str, folder: str) -> None:
        self._of_client, self._table, self._folder = client, table, f"{folder}/" if folder else ""

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
        """Writes an object, replacing an existing one."""
        obs.put(self._client, self._folder + key, data, chunk_size=PART_BYTES)

    def put_parts(self, key: str, parts: Iterable[bytes]) -> None:
        """Writes an object from parts, of which few are in memory at a time."""
        left, held, size = iter(parts), list[bytes](), 0
        for part in left:
            held.append(part)
            size += len(part)
            if size > PART_BYTES:
                obs.put(self._client, self._folder + key, itertools.chain(held, left), chunk_size=PART_BYTES, max_concurrency=_PARTS_AT_ONCE)
                return
        self.put(key, b"".join(held))  # one request

    def put_if(self, key: str, data: bytes, mode: Any) -> ObjectInfo:
        """Writes an object if there is none (`create`), or if it has this tag and version (a mapping)."""
        return obs.put(self._client, self._folder + key, data, mode=mode)

    def get(self, key: str) -> tuple[bytes, ObjectInfo]:
        """An object's bytes and metadata."""
        answer = obs.get(self._client, self._folder + key)
        return answer.bytes().to_bytes(), answer.meta

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """A part of an object."""
        return obs.get_range(self._client, self._folder + key, start=start, length=length).to_bytes()

    def head(self, key: str) -> ObjectInfo:
        """An object's metadata."""
        return obs.head(self._client, self._folder + key)

    def list(self, prefix: str | None, *, offset: str | None = None, chunk_size: int = 50) -> Iterable[Sequence[ObjectInfo]]:
        """The objects below a prefix, page by page."""
        after = None if offset is None else self._folder + offset
        return map(self._named, obs.list(self._client, self._folder + (prefix or ""), offset=after, chunk_size=chunk_size))

    def list_folder(self, prefix: str | None) -> Sequence[ObjectInfo]:
        """The objects of one folder, without those below its subfolders."""
        return self._named(obs.list_with_delimiter(self._client, self._folder + (prefix or ""))["objects"])

    def _named(self, objects: Iterable[ObjectInfo]) -> Sequence[ObjectInfo]:
        """The objects with paths below the folder."""
        return [{**m, "path": m["path"][len(self._folder) :]} for m in objects]

    def delete(self, key: str) -> None:
        """Deletes an object."""
        obs.delete(self._client, self._folder + key)


_ERRORS = {404: FileNotFoundError, 409: AlreadyExistsError, 412: PreconditionError}


def error_of(status: int | None, text: str) -> Exception:
    """The error that obstore raises for an answer with this status; None: there was no answer."""
    if status is None:
        return GenericError(f"Generic S3 error: {text}: error sending request: operation timed out")
    return _ERRORS.get(status, GenericError)(f"Generic S3 error: {text}: Server returned non-2xx status code: {status}: {text}")


T = TypeVar("T")
_TRIES = 8
_STATUS = re.compile(r"status code: (\d{3})")
_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|The specified bucket does not exist")
_NOT_BUILT = "HTTP error: builder error"
"""What obstore says of a request that it never sent."""
_HINTS = {
    re.compile("<Code>(ExpiredToken|TokenRefreshRequired)<"): "the session token has expired: give new keys, or a profile or a role whose keys are renewed",
    re.compile("<Code>RequestTimeTooSkewed<"): "the clock of this machine is wrong by more than the store allows: set it",
    re.compile(
        _NOT_BUILT
    ): "the request cannot be sent: an endpoint that begins with http:// needs the option AWS_ALLOW_HTTP=true (allow_http on other clouds)",
    re.compile("error sending request"): "no answer came: check the endpoint in the storage options or the environment, and the network",
}
_PAGE = 1000
"""Objects in one page of a listing."""
Failure = (BaseError, OSError, ValueError)
"""The errors that obstore raises; FileNotFoundError is among them."""


class RemoteStore:
    """The store of one folder in a bucket.  Safe to share between threads.  Its methods are documented in `ObjectStore`."""

    is_remote = True

    def __init__(self, address: Address, settings: Settings, requests: Requests | None = None) -> None:
        """`requests`: the sender of its requests; by default the process's client for these settings."""
        self.address, self.settings = address, settings
        self._requests = requests or Requests(client_of(address, settings), address.root, address.prefix)
        self.root, self._environment = address.root, environment_fingerprint()

    @property
    def identity(self) -> str:
        return f"{self.root} {self.settings.fingerprint} {self._environment}"  # obstore reads the environment, too

    def __repr__(self) -> str:
        return f"RemoteStore({self.root!r}, {self.settings!r})"

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        return self._conditional(key, data, "create")

    def replace_if(self, key: str, data: bytes, tag: str) -> PutOutcome:
        try:
            version: Any = {k: v for k, v in orjson.loads(tag).items() if v is not None}
        except (ValueError, AttributeError):
            return Lost()  # not a tag of this store
        return self._conditional(key, data, version)

    def _conditional(self, key: str, data: bytes, mode: Any) -> PutOutcome:
        """One conditional put, never retried.  Raises StorageError if the server refused the request, so that nothing was written."""
        check_key(key)
        try:
            return Committed(_tag(self._requests.put_if(key, data, mode)))
        except Failure as e:
            failure = e.with_traceback(None)  # which would hold this frame, that holds it, and those of all callers until the garbage is collected
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
        self._with_retries("put", key, lambda: self._requests.put(key, data))

    def put_briefly(self, key: str, data: bytes) -> None:
        self.put(key, data)

    def put_parts(self, key: str, parts: Callable[[], Iterable[bytes]]) -> None:
        self._with_retries("put", key, lambda: self._requests.put_parts(key, parts()))

    def get(self, key: str) -> bytes:
        return self.get_tagged(key)[0]

    def get_range(self, key: str, start: int, length: int) -> bytes:
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
        data, info = self._with_retries("read", key, lambda: self._requests.get(key))
        return data, _tag(info)

    def head(self, key: str) -> int | None:
        return self._looked_at(key, lambda info: int(info["size"]))

    def tag(self, key: str) -> str | None:
        return self._looked_at(key, _tag)

    def modified_ms(self, key: str) -> int | None:
        return self._looked_at(key, _modified_ms)

    def _looked_at(self, key: str, what: Callable[[ObjectInfo], T]) -> T | None:
        """A part of the object's metadata; None if there is no object."""
        try:
            return self._with_retries("look at", key, lambda: what(self._requests.head(key)))
        except NotFound:
            return None

    def sync(self, key: str) -> None:
        """Nothing: an object that can be read is durable."""

    def list(self, prefix: str = "", *, start_after: str | None = None, recursive: bool = False, limit: int | None = None) -> Iterator[ObjectMeta]:
        folder = f"{check_key(prefix)}/" if prefix else ""

        def is_asked_for(key: str) -> bool:
            return key.startswith(folder) and key != folder and (recursive or "/" not in key[len(folder) :]) and (start_after is None or key > start_after)

        def listed() -> builtins.list[ObjectMeta]:
            if start_after is None and not recursive and limit is None:
                pages: Any = [self._requests.list_folder(prefix or None)]
            else:  # obstore cannot list a single folder from a key on: this lists subfolders too
                pages = self._requests.list(prefix or None, offset=start_after, chunk_size=min(limit or _PAGE, _PAGE))
            found, before, in_order = list[ObjectMeta](), "", True
            for m in (m for page in pages for m in page):
                in_order = in_order and before <= m["path"]  # S3's directory buckets do not list by name: there the first ones may come last
                before = m["path"]
                if is_asked_for(before):
                    found.append(_meta(m))
                    if in_order and len(found) == limit:
                        return found
            found.sort(key=lambda m: m.key)
            keys = [m.key for m in found]
            return [m for m in found if m.size_bytes or not _marks_folder(m.key, keys)][:limit]

        return iter(self._with_retries("list", prefix, listed))

    def delete(self, key: str) -> None:
        try:
            self._with_retries("delete", key, lambda: self._requests.delete(key))
        except NotFound:
            return

    def exists(self, key: str = "") -> bool:
        if key and self.head(key) is not None:
            return True
        return self._with_retries("list", key, lambda: any(self._requests.list(key or None, chunk_size=1)))

    def _with_retries(self, what: str, key: str, call: Callable[[], T]) -> T:
        """Runs `call` for a key, retrying failures that may be transient; to list, the key may be '' for the folder.  Raises NotFound, StorageError, InvalidInput."""
        if key or what != "list":
            check_key(key)
        for n in range(_TRIES):
            try:
                return call()
            except Failure as e:
                failure = e.with_traceback(None)
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
        hint = next((f"{said}. " for pattern, said in _HINTS.items() if pattern.search(text)), "")
        if _NO_BUCKET.search(text):
            hint = f"the bucket {self.address.bucket!r} does not exist: create it, or correct the table's URI. "
        elif not hint and (isinstance(failure, (PermissionDeniedError, UnauthenticatedError)) or _status(failure) in (401, 403)):
            hint = "access was denied: check the credentials, and that they may read, write and list this bucket. "
        return hint + self.settings.redacted(" ".join(text.split()))[:600]


def _marks_folder(key: str, keys: Sequence[str]) -> bool:
    """Whether an object without bytes is no file, but how consoles and Hadoop say that there is a folder: one of these sorted keys lies below it."""
    after = bisect(keys, f"{key}/")
    return after < len(keys) and keys[after].startswith(f"{key}/")


def _meta(info: ObjectInfo) -> ObjectMeta:
    return ObjectMeta(info["path"], info["size"], _modified_ms(info))


def _modified_ms(info: ObjectInfo) -> int:
    return int(info["last_modified"].timestamp() * 1000)


def _tag(info: ObjectInfo) -> str:
    """The tag of one state of an object: the server's entity tag, and its version or generation."""
    e_tag = info["e_tag"]
    if e_tag is not None and not e_tag.startswith(('"', "W/")):  # GCS servers leave out the quotes in their answer to a put
        e_tag = f'"{e_tag}"'
    return orjson.dumps({"e_tag": e_tag, "version": info["version"]}).decode()


def _status(failure: BaseException) -> int | None:
    """The HTTP status in obstore's message; None if there was no response."""
    match = _STATUS.search(str(failure))
    return int(match[1]) if match else None


def _is_refusal(failure: BaseException, status: int | None) -> bool:
    """Whether a retry would be refused as well: a 4xx other than timeout (which S3 says by 400), load and races, or an invalid request."""
    if status is not None:
        return (400 <= status < 500 and status not in (408, 409, 412, 425, 429) and "<Code>RequestTimeout</Code>" not in str(failure)) or status == 501
    return isinstance(failure, ValueError) or _NOT_BUILT in str(failure)
