"""Creates DynamoDB tables on request; the arbiter's has Delta's layout, and DynamoDB deletes its expired entries if it can."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rowlock import clock
from rowlock.exceptions import InvalidInput
from rowlock.storage.dynamodb import settings
from rowlock.storage.dynamodb.entries import ArbiterUnreachable, Client, raise_for

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
    client = client or settings.client_of(options)
    table = name or settings.option(options, settings.TABLE_NAME) or settings.DEFAULT_TABLE_NAME
    created = ensure_table(client, table, KEY, f"name another with {settings.TABLE_NAME}")
    return CreatedTable(table, created, _enable_expiry(client, table))


def ensure_table(client: Client, table: str, keys: Mapping[str, str], remedy: str) -> bool:
    """Creates a table with text keys, billed by request, and waits until it can be used; returns whether it was missing.

    Raises as `create_table` does; `remedy` is the advice in the error for a table with another layout.
    """
    description = _describe(client, table)
    created = description is None and _create(client, table, keys)
    deadline = clock.monotonic_s() + _WAIT_S
    while description is None or description["TableStatus"] != "ACTIVE":
        if clock.monotonic_s() > deadline:
            raise ArbiterUnreachable(f"the DynamoDB table {table} was not ready after {_WAIT_S:.0f} s; try again later")
        clock.sleep(0.05 if description is None else 0.5)
        description = _describe(client, table)
    layout = {key["AttributeName"]: key["KeyType"] for key in description["KeySchema"]}
    if layout != keys:
        raise InvalidInput(f"the DynamoDB table {table} exists already, with the key {layout} instead of {keys}: {remedy}")
    return created


def _describe(client: Client, table: str) -> Any:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return client.describe_table(TableName=table)["Table"]
    except (ClientError, BotoCoreError) as e:
        if isinstance(e, ClientError) and e.response["Error"]["Code"] == "ResourceNotFoundException":
            return None
        raise_for(e, table, "describe_table")


def _create(client: Client, table: str, keys: Mapping[str, str]) -> bool:
    """Creates the table; False if another process created it meanwhile."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        client.create_table(
            TableName=table,
            KeySchema=[{"AttributeName": attribute, "KeyType": kind} for attribute, kind in keys.items()],
            AttributeDefinitions=[{"AttributeName": attribute, "AttributeType": "S"} for attribute in keys],
            BillingMode="PAY_PER_REQUEST",
        )
    except (ClientError, BotoCoreError) as e:
        if isinstance(e, ClientError) and e.response["Error"]["Code"] == "ResourceInUseException":
            return False
        raise_for(e, table, "create_table")
    return True


def _enable_expiry(client: Client, table: str) -> bool:
    """Turns on deletion of expired entries; returns whether it is on.  Some DynamoDB-compatible servers lack it; the arbiter works without it."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        now = client.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
        if now.get("TimeToLiveStatus") not in ("ENABLED", "ENABLING"):
            client.update_time_to_live(TableName=table, TimeToLiveSpecification={"Enabled": True, "AttributeName": "expireTime"})
            return True
        return bool(now.get("AttributeName", "expireTime") == "expireTime")
    except (ClientError, BotoCoreError):
        return False
