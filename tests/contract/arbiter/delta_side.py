"""What a Spark job with S3DynamoDBLogStore does to the files and the entries, re-enacted from what the Java does.

It writes to the store without a condition (S3A looks, then puts), speaks DynamoDB's older `Expected` and
never deletes a temporary file.  `stop_before` ends a write there, as a killed job would.
"""

from __future__ import annotations

import time
import uuid
from typing import Any, Literal

from botocore.exceptions import ClientError

from rowlock.storage import NotFound, ObjectStore

Step = Literal["claim", "copy", "complete"]


class Stopped(Exception):
    """The job was killed here."""


class DeltaLogStore:
    def __init__(self, store: ObjectStore, client: Any, table: str, table_path: str) -> None:
        self.store, self.client, self.table, self.table_path = store, client, table, table_path

    def write(self, version: int, data: bytes, stop_before: Step | None = None) -> None:
        """Commits; raises FileExistsError for the loser, OSError where the version before is not there."""
        name = f"{version:020d}.json"
        if self.store.head(f"_delta_log/{name}") is not None:
            raise FileExistsError(name)
        if version > 0:
            before = self.entry(version - 1)
            if before is not None and before["complete"]["S"] != "true":
                self.fix(before)
            elif self.store.head(f"_delta_log/{version - 1:020d}.json") is None:
                raise OSError(f"version {version - 1} is not there")
        else:
            old = self.entry(0)
            if old is not None and old["complete"]["S"] == "true" and self.store.head(f"_delta_log/{name}") is None:
                raise OSError("old entries")
        temp = f".tmp/{name}.{uuid.uuid4()}"
        self.store.put(f"_delta_log/{temp}", data)
        if stop_before == "claim":
            raise Stopped
        item = {"tablePath": {"S": self.table_path}, "fileName": {"S": name}, "tempPath": {"S": temp}, "complete": {"S": "false"}}
        try:
            self.client.put_item(TableName=self.table, Item=item, Expected={"fileName": {"Exists": False}})
        except ClientError as e:
            assert e.response["Error"]["Code"] == "ConditionalCheckFailedException"
            raise FileExistsError(name) from None
        if stop_before == "copy":
            raise Stopped
        self._copy(item)
        if stop_before == "complete":
            raise Stopped
        self._complete(item)

    def fix(self, item: dict[str, Any]) -> None:
        """Up to four times, as Delta tries."""
        for n in range(4):
            try:
                if self.store.head(f"_delta_log/{item['fileName']['S']}") is None:
                    self._copy(item)
                self._complete(item)
                return
            except NotFound:
                if n == 3:
                    raise

    def list(self) -> list[str]:
        """The commits' names, after the newest was finished."""
        query = {"KeyConditions": {"tablePath": {"ComparisonOperator": "EQ", "AttributeValueList": [{"S": self.table_path}]}}}
        newest = self.client.query(TableName=self.table, ConsistentRead=True, ScanIndexForward=False, Limit=1, **query)["Items"]
        if newest and newest[0]["complete"]["S"] != "true":
            self.fix(newest[0])
        return [m.key.rpartition("/")[2] for m in self.store.list("_delta_log")]

    def entry(self, version: int) -> dict[str, Any] | None:
        key = {"tablePath": {"S": self.table_path}, "fileName": {"S": f"{version:020d}.json"}}
        found = self.client.get_item(TableName=self.table, Key=key, ConsistentRead=True).get("Item")
        return dict(found) if found else None

    def _copy(self, item: dict[str, Any]) -> None:
        data = self.store.get(f"_delta_log/{item['tempPath']['S']}")
        key = f"_delta_log/{item['fileName']['S']}"
        if self.store.head(key) is None:
            self.store.put(key, data)

    def _complete(self, item: dict[str, Any]) -> None:
        self.client.put_item(TableName=self.table, Item=item | {"complete": {"S": "true"}, "expireTime": {"N": str(int(time.time()) + 86_400)}})
