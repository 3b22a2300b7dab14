"""The requests of a remote store, the errors for their answers, and the obstore clients that send them.  A simulated server implements the same protocol.

There is one client per address and settings.  obstore's own retries are off: after a hidden retry a winner would get Lost (I2).
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

import obstore as obs
import obstore.exceptions
from obstore.exceptions import AlreadyExistsError, GenericError, PreconditionError
from obstore.store import AzureStore, GCSStore, S3Store

from rowlock import threads
from rowlock.exceptions import InvalidInput, StorageError
from rowlock.storage.options import Address, Settings, environment_fingerprint, unknown_name

if TYPE_CHECKING:
    from collections.abc import Callable

Client = S3Store | GCSStore | AzureStore
_MAX_CLIENTS = 64
_clients: OrderedDict[tuple[Address, str, str], Client] = OrderedDict()
_lock = threads.module_lock()
_NO_RETRIES: Any = {"max_retries": 0, "retry_timeout": timedelta(seconds=60)}


def client_of(address: Address, settings: Settings) -> Client:
    """The process's client for an address and settings, with its open connections; sends nothing yet.

    Raises InvalidInput for an option that is unknown or cannot be parsed.
    """
    key = address, settings.fingerprint, environment_fingerprint()
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
        return {"s3": _s3, "gcs": _gcs, "azure": _azure}[address.kind](address, settings)
    except obstore.exceptions.UnknownConfigurationKeyError as e:
        problem = unknown_name(settings, str(e).split("'")[1])
    except (obstore.exceptions.BaseError, ValueError, TypeError) as e:
        problem = InvalidInput(f"storage_options cannot be used for {address.kind}: {settings.redacted(e).splitlines()[0]}", table=address.root)
    raise problem


def _s3(address: Address, settings: Settings) -> Client:
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
        provider = _static_credentials(*settings.keys)
        for name in ("access_key_id", "secret_access_key", "session_token"):
            config.pop(name, None)
    return S3Store(
        address.bucket, prefix=address.prefix, config=config, client_options=_client_options(settings), retry_config=_NO_RETRIES, credential_provider=provider
    )


def _static_credentials(access_key: str, secret_key: str, token: str | None) -> Callable[[], dict[str, Any]]:
    return lambda: {"access_key_id": access_key, "secret_access_key": secret_key, "token": token, "expires_at": None}


def _gcs(address: Address, settings: Settings) -> Client:
    config: Any = dict(settings.config)
    return GCSStore(address.bucket, prefix=address.prefix, config=config, client_options=_client_options(settings), retry_config=_NO_RETRIES)


def _azure(address: Address, settings: Settings) -> Client:
    config: Any = dict(settings.config)
    if address.account is not None:
        if config.get("account_name", address.account) != address.account:
            raise InvalidInput(f"storage_options name the account {config['account_name']!r}, the path names {address.account!r}", table=address.root)
        config["account_name"] = address.account
        if address.account_suffix and "core.windows.net" not in address.account_suffix:
            config.setdefault("endpoint", f"https://{address.account}.{address.account_suffix.replace('dfs.', 'blob.', 1)}")
    return AzureStore(address.bucket, prefix=address.prefix, config=config, client_options=_client_options(settings), retry_config=_NO_RETRIES)


def _client_options(settings: Settings) -> Any:
    return dict(settings.client) or None  # empty client options would forbid the plain HTTP that a key file may ask for


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
