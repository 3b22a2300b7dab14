"""Tables in DynamoDB, made on request; the arbiter's in Delta's layout, with expired entries deleted by DynamoDB where it can."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rowlock import clock
from rowlock.exceptions import InvalidInput
from rowlock.storage.dynamodb import settings
from rowlock.storage.dynamodb.entries import ArbiterUnreachable, Client, explain

KEY = {"tablePath": "HASH", "fileName": "RANGE"}
_WAIT_S = 120.0


@dataclass(frozen=True, slots=True)
class CreatedTable:
    """`created`: it was not there before.  `expires`: DynamoDB deletes what has expired; else that is the owner's work."""

    name: str
    created: bool
    expires: bool


def create_table(options: Mapping[str, str] | None = None, *, name: str | None = None, client: Client | None = None) -> CreatedTable:
    """Makes the arbiter's table where there is none, and waits until it can be used.

    Raises InvalidInput where there is a table of that name in another layout, StorageError where DynamoDB refuses,
    ArbiterUnreachable where it does not answer or takes longer than two minutes.
    """
    client = client or settings.client_of(options)
    table = name or settings.option(options, settings.TABLE_NAME) or settings.DEFAULT_TABLE_NAME
    created = make_table(client, table, KEY, f"name another with {settings.TABLE_NAME}")
    return CreatedTable(table, created, _expire(client, table))


def make_table(client: Client, table: str, keys: Mapping[str, str], remedy: str) -> bool:
    """Makes a table with text keys, billed by request, and waits until it can be used; whether it was not there before.

    Raises as `create_table` does; `remedy` is for a table of that name in another layout.
    """
    found = _describe(client, table)
    created = found is None and _create(client, table, keys)
    deadline = clock.monotonic_s() + _WAIT_S
    while found is None or found["TableStatus"] != "ACTIVE":
        if clock.monotonic_s() > deadline:
            raise ArbiterUnreachable(f"the DynamoDB table {table} is still being made")
        clock.sleep(0.05 if found is None else 0.5)
        found = _describe(client, table)
    layout = {key["AttributeName"]: key["KeyType"] for key in found["KeySchema"]}
    if layout != keys:
        raise InvalidInput(f"there is a DynamoDB table {table} already, with the key {layout} instead of {keys}: {remedy}")
    return created


def _describe(client: Client, table: str) -> Any:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return client.describe_table(TableName=table)["Table"]
    except (ClientError, BotoCoreError) as e:
        if isinstance(e, ClientError) and e.response["Error"]["Code"] == "ResourceNotFoundException":
            return None
        explain(e, table, "describe_table")


def _create(client: Client, table: str, keys: Mapping[str, str]) -> bool:
    """Whether it was we who made it."""
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
        explain(e, table, "create_table")
    return True


def _expire(client: Client, table: str) -> bool:
    """Whether expired entries go by themselves.  Not every server that speaks DynamoDB can; the arbiter is right without it."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        now = client.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
        if now.get("TimeToLiveStatus") not in ("ENABLED", "ENABLING"):
            client.update_time_to_live(TableName=table, TimeToLiveSpecification={"Enabled": True, "AttributeName": "expireTime"})
            return True
        return bool(now.get("AttributeName", "expireTime") == "expireTime")
    except (ClientError, BotoCoreError):
        return False
