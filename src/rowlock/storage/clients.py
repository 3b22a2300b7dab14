"""obstore clients, one per address and settings.  obstore's own retries are off: after a hidden retry a winner would get Lost (I2)."""

from __future__ import annotations

from collections import OrderedDict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import obstore.exceptions
from obstore.store import AzureStore, GCSStore, S3Store

from rowlock import threads
from rowlock.exceptions import InvalidInput
from rowlock.storage.address import Address
from rowlock.storage.options import Settings, environment_fingerprint, unknown_name

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
