"""Registers in DynamoDB: one item per cell, in a separate table, changed by conditional writes.

The DynamoDB table has the key `register` (a string: the Delta table's location and the cell's name) and may serve any
number of Delta tables.  Credentials, region and endpoint are found as for the arbiter (see storage.dynamodb.settings).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from rowlock.storage.dynamodb.settings import client_of, ensure_table
from rowlock.storage.registers.register import Cell
from rowlock.storage.store import Committed, Lost, PutOutcome, StorageError, Unknown


class DynamoDbRegisters:
    """The registers of the Delta table at `root`, in the DynamoDB table `table`."""

    def __init__(self, table: str, root: str, options: Mapping[str, str] | None = None) -> None:
        self._table, self._root, self._client = table, root, cast(Any, client_of(options))

    def __repr__(self) -> str:
        return f"DynamoDbRegisters({self._table!r}, {self._root!r})"

    def _key(self, name: str) -> dict[str, Any]:
        return {"register": {"S": f"{self._root}#{name}"}}

    def read(self, name: str) -> Cell | None:
        try:
            item = self._client.get_item(TableName=self._table, Key=self._key(name), ConsistentRead=True).get("Item")
        except Exception as e:
            raise StorageError(f"the register {name} could not be read from the DynamoDB table {self._table}: {e}") from e
        return None if item is None else Cell(bytes(item["content"]["B"]), item["tag"]["N"])

    def create(self, name: str, value: bytes) -> PutOutcome:
        item = {**self._key(name), "content": {"B": value}, "tag": {"N": "1"}}
        return self._write("attribute_not_exists(#r)", {"#r": "register"}, None, item)

    def swap(self, name: str, value: bytes, tag: str) -> PutOutcome:
        item = {**self._key(name), "content": {"B": value}, "tag": {"N": str(int(tag) + 1)}}
        return self._write("#t = :tag", {"#t": "tag"}, {":tag": {"N": tag}}, item)

    def _write(self, condition: str, names: dict[str, str], values: dict[str, Any] | None, item: dict[str, Any]) -> PutOutcome:
        from botocore.exceptions import ClientError

        more = {} if values is None else {"ExpressionAttributeValues": values}
        try:
            self._client.put_item(TableName=self._table, Item=item, ConditionExpression=condition, ExpressionAttributeNames=names, **more)
        except ClientError as e:
            code = e.response.get("Error", {}).get("Code")
            if code == "ConditionalCheckFailedException":
                return Lost()
            if code == "ResourceNotFoundException":
                raise StorageError(f"DynamoDB has no table {self._table}: rowlock.create_lock_table('dynamodb:{self._table}') creates it") from e
            return Unknown(f"DynamoDB, table {self._table}: {e}")
        except Exception as e:  # noqa: BLE001 - whatever error it is, the item may have been written
            return Unknown(f"DynamoDB, table {self._table}: {e}")
        return Committed()


def create_table(name: str, options: Mapping[str, str] | None = None) -> None:
    """Creates the DynamoDB table for leases, billed by request, if it does not exist, and waits until it can be used.

    Raises as `storage.dynamodb.settings.create_table` does.
    """
    ensure_table(client_of(options), name, {"register": "HASH"}, "name another table in the lock provider, dynamodb:TABLE")
