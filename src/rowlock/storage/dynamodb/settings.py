"""Options of the arbiter, from `storage_options` or the environment, under delta-rs's names; the DynamoDB client; tables made on request.

    AWS_S3_LOCKING_PROVIDER    dynamodb: commits are arbitrated
    DELTA_DYNAMO_TABLE_NAME    default delta_log, as in Delta
    DELTA_DYNAMO_SCHEME        s3a or s3: the scheme of tablePath; default that of existing entries, else s3a
    DELTA_DYNAMO_TTL_SECONDS   seconds until a complete entry expires; default one day
    DELTA_DYNAMO_CONDITIONAL_COPY  false: for stores without put-if-absent
    AWS_ENDPOINT_URL_DYNAMODB, AWS_REGION_DYNAMODB, AWS_ACCESS_KEY_ID_DYNAMODB, AWS_SECRET_ACCESS_KEY_DYNAMODB, AWS_SESSION_TOKEN_DYNAMODB
                               default the same names without _DYNAMODB, else as boto3 finds them (profile, instance, ...)

The region defaults to us-east-1, as in Delta's LogStore.  Names are accepted in any case.  boto3 is imported only
when a client is created.  Keys and token are a group: if the options have one of them, none is taken from the
environment.  Nothing here shows a secret.  The arbiter's table is made with Delta's layout, and DynamoDB deletes its expired entries if it can.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from rowlock import clock, threads
from rowlock.exceptions import InvalidInput
from rowlock.storage.dynamodb.entries import ArbiterUnreachable, Client, raise_for
from rowlock.storage.store import StorageError

PROVIDER = "AWS_S3_LOCKING_PROVIDER"
TABLE_NAME = "DELTA_DYNAMO_TABLE_NAME"
SCHEME = "DELTA_DYNAMO_SCHEME"
TTL_SECONDS = "DELTA_DYNAMO_TTL_SECONDS"
CONDITIONAL_COPY = "DELTA_DYNAMO_CONDITIONAL_COPY"
DEFAULT_TABLE_NAME = "delta_log"
_ARGUMENTS = {
    "endpoint_url": ("AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL"),
    "region_name": ("AWS_REGION_DYNAMODB", "AWS_REGION", "AWS_DEFAULT_REGION"),
}
_CREDENTIALS = {
    "aws_access_key_id": ("AWS_ACCESS_KEY_ID_DYNAMODB", "AWS_ACCESS_KEY_ID"),
    "aws_secret_access_key": ("AWS_SECRET_ACCESS_KEY_DYNAMODB", "AWS_SECRET_ACCESS_KEY"),
    "aws_session_token": ("AWS_SESSION_TOKEN_DYNAMODB", "AWS_SESSION_TOKEN"),
}
_clients: dict[tuple[tuple[str, str], ...], Client] = {}
_lock = threads.module_lock()
threads.after_fork(_clients.clear)  # a child must not write into its parent's connections


def option(options: Mapping[str, str] | None, *names: str) -> str | None:
    """The value of the first of these names that is set in the options (in any case), else in the environment; None if none is."""
    return given(options, *names) or next((value for name in names if (value := os.environ.get(name))), None)


def given(options: Mapping[str, str] | None, *names: str) -> str | None:
    """The value of the first of these names that is set in the options (in any case); None if none is."""
    mine = {name.upper(): value for name, value in (options or {}).items()}
    return next((value for name in names if (value := mine.get(name))), None)


def client_of(options: Mapping[str, str] | None) -> Client:
    """The process's DynamoDB client for these options.  Raises InvalidInput if boto3 is missing."""
    credentials = {argument: value for argument, names in _CREDENTIALS.items() if (value := given(options, *names))}
    if not credentials and not given(options, "AWS_PROFILE"):
        credentials = {argument: value for argument, names in _CREDENTIALS.items() if (value := option(None, *names))}
    arguments = credentials | {argument: value for argument, names in _ARGUMENTS.items() if (value := option(options, *names))}
    arguments.setdefault("region_name", "us-east-1")
    profile = option(options, "AWS_PROFILE")
    key = tuple(sorted({**arguments, "profile": profile or ""}.items()))
    with _lock:
        if key not in _clients:
            _clients[key] = _client(arguments, profile)
        return _clients[key]


def _client(arguments: Mapping[str, str], profile: str | None) -> Client:
    try:
        from boto3.session import Session
        from botocore.config import Config
    except ImportError:
        raise InvalidInput("DynamoDB (arbiter or leases) needs boto3: pip install 'rowlock[dynamodb]'") from None
    how = Config(connect_timeout=5, read_timeout=10, max_pool_connections=64, retries={"mode": "standard", "total_max_attempts": 4})
    session: Any = Session(profile_name=None if "aws_access_key_id" in arguments else profile)
    return session.client("dynamodb", config=how, **arguments)


KEY = {"tablePath": "HASH", "fileName": "RANGE"}
_WAIT_S = 120.0


@dataclass(frozen=True, slots=True)
class CreatedTable:
    """The result of `create_table`: `created`, whether it was missing; `expires`, whether DynamoDB deletes expired entries by itself."""

    name: str
    created: bool
    expires: bool


def create_table(options: Mapping[str, str] | None = None, *, name: str | None = None, client: Client | None = None) -> CreatedTable:
    """Creates the arbiter's table if it does not exist, and waits until it can be used.

    Raises InvalidInput if there is a table of that name with another layout, StorageError if DynamoDB refuses,
    ArbiterUnreachable if it does not answer or takes longer than two minutes.
    """
    client = client or client_of(options)
    table = name or option(options, TABLE_NAME) or DEFAULT_TABLE_NAME
    created = ensure_table(client, table, KEY, f"name another with {TABLE_NAME}")
    return CreatedTable(table, created, _enable_expiry(client, table))


def ensure_table(client: Client, table: str, keys: Mapping[str, str], remedy: str) -> bool:
    """Creates a table with text keys, billed by request, and waits until it can be used; returns whether it was missing.

    Raises as `create_table` does; `remedy` is the advice in the error for a table with another layout.
    """
    describe = partial(_ask, client, table, "describe_table", "ResourceNotFoundException")
    created, found = False, describe()
    if found is None:
        schema = [{"AttributeName": attribute, "KeyType": kind} for attribute, kind in keys.items()]
        types = [{"AttributeName": attribute, "AttributeType": "S"} for attribute in keys]
        how = {"KeySchema": schema, "AttributeDefinitions": types, "BillingMode": "PAY_PER_REQUEST"}
        created = _ask(client, table, "create_table", "ResourceInUseException", **how) is not None  # else another process did it meanwhile
    deadline = clock.monotonic_s() + _WAIT_S
    while found is None or found["Table"]["TableStatus"] != "ACTIVE":
        if clock.monotonic_s() > deadline:
            raise ArbiterUnreachable(f"the DynamoDB table {table} was not ready after {_WAIT_S:.0f} s; try again later")
        clock.sleep(0.05 if found is None else 0.5)
        found = describe()
    layout = {key["AttributeName"]: key["KeyType"] for key in found["Table"]["KeySchema"]}
    if layout != keys:
        raise InvalidInput(f"the DynamoDB table {table} exists already, with the key {layout} instead of {keys}: {remedy}")
    return created


def _ask(client: Client, table: str, what: str, unless: str = "", **how: Any) -> Any:
    """The answer to a request about a table; None where it is refused with the code `unless`."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return getattr(client, what)(TableName=table, **how)
    except (ClientError, BotoCoreError) as e:
        if isinstance(e, ClientError) and e.response["Error"]["Code"] == unless:
            return None
        raise_for(e, table, what)


def _enable_expiry(client: Client, table: str) -> bool:
    """Turns on deletion of expired entries; returns whether it is on.  Some DynamoDB-compatible servers lack it; the arbiter works without it."""
    try:
        now = _ask(client, table, "describe_time_to_live")["TimeToLiveDescription"]
        if now.get("TimeToLiveStatus") not in ("ENABLED", "ENABLING"):
            _ask(client, table, "update_time_to_live", TimeToLiveSpecification={"Enabled": True, "AttributeName": "expireTime"})
            return True
        return bool(now.get("AttributeName", "expireTime") == "expireTime")
    except (StorageError, InvalidInput):
        return False
