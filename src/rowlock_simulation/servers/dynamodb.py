"""A simulated DynamoDB table of the arbiter's entries, below `storage/dynamodb`: rows, conditions and consistent reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rowlock.storage.dynamodb.answers import condition_failed, error_of
from rowlock_simulation.servers.network import Network
from rowlock_simulation.wire import Wire

Item = Mapping[str, Mapping[str, str]]
Key = tuple[str, str]


def _key(item: Item) -> Key:
    return item["tablePath"]["S"], item["fileName"]["S"]


class DynamoDbRequests:
    """The client of one process; `rows` is what all share.  It has those methods of boto3's client that the arbiter calls."""

    def __init__(self, rows: dict[Key, Item], wire: Wire) -> None:
        self._rows = rows
        self._send = Network(wire, error_of).send

    def get_item(self, *, Key: Item, **_: Any) -> Any:
        def do() -> Any:
            found = self._rows.get(_key(Key))
            return {"Item": found} if found is not None else {}

        return self._send("get entry", f"_delta_log/{_key(Key)[1]}", do)

    def put_item(self, *, Item: Item, ConditionExpression: str, ExpressionAttributeValues: Any = None, **_: Any) -> Any:
        def do() -> Any:
            there = self._rows.get(_key(Item))
            if ConditionExpression == "attribute_not_exists(fileName)":
                if there is not None:
                    raise condition_failed(there)
            elif there is None or there["tempPath"] != ExpressionAttributeValues[":ours"]:
                raise condition_failed(None)
            self._rows[_key(Item)] = Item
            return {}

        claims = ConditionExpression.startswith("attribute_not_exists")
        return self._send("claim" if claims else "complete", f"_delta_log/{_key(Item)[1]}", do, ("late request", "sent twice", "conflict"))

    def query(self, *, ExpressionAttributeValues: Any, ScanIndexForward: bool = True, Limit: int | None = None, **_: Any) -> Any:
        def do() -> Any:
            table = ExpressionAttributeValues[":table"]["S"]
            keys = sorted((k for k in self._rows if k[0] == table), reverse=not ScanIndexForward)
            return {"Items": [self._rows[k] for k in keys[:Limit]]}

        return self._send("query entries", "_delta_log/", do)

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError(f"the simulated DynamoDB has no {name}")
