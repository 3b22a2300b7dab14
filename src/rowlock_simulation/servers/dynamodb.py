"""A simulated DynamoDB table of the arbiter's entries, below `storage/dynamodb`: rows, conditions, transactions and consistent reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rowlock_simulation.history import History
from rowlock_simulation.servers.dynamodb_errors import cancelled, condition_failed, error_of
from rowlock_simulation.servers.network import Network
from rowlock_simulation.wire import Wire

Item = Mapping[str, Mapping[str, str]]
Key = tuple[str, str]


def _key(item: Item) -> Key:
    return item["tablePath"]["S"], item["fileName"]["S"]


class DynamoDbTable:
    """The table on its server: those methods of boto3's client that the arbiter calls, each at once and as a whole."""

    def __init__(self) -> None:
        self._rows = dict[Key, Item]()
        self._carried_out = set[str]()
        self._cleared: History | None = None

    def clear(self, history: History) -> None:
        """Deletes all entries, as `rowlock arbiter forget` does for a table that was dropped."""
        self._rows.clear()
        self._cleared = history

    def get_item(self, *, Key: Item, **_: Any) -> Any:
        found = self._rows.get(_key(Key))
        return {"Item": found} if found is not None else {}

    def put_item(self, *, Item: Item, ConditionExpression: str, ExpressionAttributeValues: Any = None, **_: Any) -> Any:
        there = self._rows.get(_key(Item))
        if ConditionExpression == "attribute_not_exists(fileName)":
            if there is not None:
                raise condition_failed(there)
            table, file = _key(Item)
            if self._cleared is not None and (version := int(file[:20])) and (table, f"{version - 1:020}.json") not in self._rows:
                self._cleared.overtaken = True  # a claim of a writer of the table before
        elif there is None or there["tempPath"] != ExpressionAttributeValues[":ours"]:
            raise condition_failed(None)
        self._rows[_key(Item)] = Item
        return {}

    def transact_write_items(self, *, TransactItems: Sequence[Mapping[str, Any]], ClientRequestToken: str) -> Any:
        if ClientRequestToken in self._carried_out:
            return {}
        there = [self._rows.get(_key(i["Put"]["Item"] if "Put" in i else i["ConditionCheck"]["Key"])) for i in TransactItems]
        if any(row is not None for row in there):
            raise cancelled(there)
        self._rows.update({_key(i["Put"]["Item"]): i["Put"]["Item"] for i in TransactItems if "Put" in i})
        self._carried_out.add(ClientRequestToken)
        return {}

    def query(self, *, ExpressionAttributeValues: Any, ScanIndexForward: bool = True, Limit: int | None = None, **_: Any) -> Any:
        table = ExpressionAttributeValues[":table"]["S"]
        keys = sorted((k for k in self._rows if k[0] == table), reverse=not ScanIndexForward)
        return {"Items": [self._rows[k] for k in keys[:Limit]]}

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError(f"the simulated DynamoDB has no {name}")


class DynamoDbRequests:
    """The client of one process, whose requests go by a network to the table that all share."""

    def __init__(self, table: DynamoDbTable, wire: Wire) -> None:
        self._table = table
        self._network = Network(wire, error_of).send

    def get_item(self, **arguments: Any) -> Any:
        return self._send("get entry", _key(arguments["Key"]), lambda: self._table.get_item(**arguments))

    def put_item(self, **arguments: Any) -> Any:
        what = "claim" if arguments["ConditionExpression"].startswith("attribute_not_exists") else "complete"
        return self._send(what, _key(arguments["Item"]), lambda: self._table.put_item(**arguments), writes=True)

    def transact_write_items(self, **arguments: Any) -> Any:
        first = next(i["Put"]["Item"] for i in arguments["TransactItems"] if "Put" in i)
        return self._send("claim all", _key(first), lambda: self._table.transact_write_items(**arguments), writes=True)

    def query(self, **arguments: Any) -> Any:
        return self._send("query entries", (arguments["ExpressionAttributeValues"][":table"]["S"], ""), lambda: self._table.query(**arguments))

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError(f"the simulated DynamoDB has no {name}")

    def _send(self, what: str, entry: Key, do: Callable[[], Any], *, writes: bool = False) -> Any:
        table, file = entry
        return self._network(what, f"{table.rpartition('/')[2]}/_delta_log/{file}", do, ("late request", "sent twice", "conflict") if writes else ())
