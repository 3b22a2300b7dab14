"""One Delta table under arbitration: our writers, Delta's, and where either is stopped."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ReadTimeoutError

from contract.arbiter.delta_side import DeltaLogStore, Stopped
from rowlock.protocol import names
from rowlock.storage import ObjectStore, PutOutcome
from rowlock.storage.dynamodb import ArbitratedStore, Entry, EntryTable
from servers.dynamodb import DynamoDb
from servers.minio import options

TABLE = "delta_log"


@dataclass
class World:
    store: ObjectStore
    client: Any
    scheme: str | None = None
    ttl_s: int = 86_400
    conditional_copy: bool = True
    table_path: str = field(init=False)

    def __post_init__(self) -> None:
        self.table_path = self.store.root.replace("s3://", f"{self.scheme or 's3a'}://")

    def ours(self, *, store: ObjectStore | None = None, client: Any = None) -> ArbitratedStore:
        return ArbitratedStore(
            store or self.store, EntryTable(client or self.client, TABLE), scheme=self.scheme, ttl_s=self.ttl_s, conditional_copy=self.conditional_copy
        )

    def delta(self) -> DeltaLogStore:
        return DeltaLogStore(self.store, self.client, TABLE, self.table_path)

    def entry(self, version: int) -> Entry | None:
        return EntryTable(self.client, TABLE).get(self.table_path, f"{version:020d}.json")

    def commits(self) -> dict[int, bytes]:
        """What is in the files, whatever the entries say."""
        found = [names.parse(m.key) for m in self.store.list("_delta_log")]
        return {f.version: self.store.get(f.key) for f in found if f is not None and f.kind == "commit"}

    def ours_stopped_before(self, step: str) -> ArbitratedStore:
        """A writer of ours that is killed there: everything after is not done."""
        if step == "complete":
            return self.ours(client=Faulty(self.client, stop_at=lambda item: item["complete"]["S"] == "true"))
        if step == "claim":
            return self.ours(client=Faulty(self.client, stop_at=lambda item: True))
        return self.ours(store=NoCopy(self.store))


class Faulty:
    """A client that stops before some puts, or has no reply for some; what `lose` raises, it raises instead of asking."""

    def __init__(self, client: Any, *, stop_at: Any = None, lose: Any = None) -> None:
        self._client, self._stop_at, self._lose = client, stop_at, lose
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def call(**arguments: Any) -> Any:
            self.calls.append(name)
            if name == "put_item" and self._stop_at and self._stop_at(arguments["Item"]):
                raise Stopped
            moment = self._lose(name, arguments) if self._lose else None
            if moment == "before":
                raise ReadTimeoutError(endpoint_url="http://127.0.0.1")
            done = getattr(self._client, name)(**arguments)
            if moment == "after":
                raise ReadTimeoutError(endpoint_url="http://127.0.0.1")
            return done

        return call


class NoCopy:
    """A store whose caller is killed when it is about to put a commit in its place."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        raise Stopped


def around(minio_endpoint: str, dynamodb: DynamoDb, dynamodb_endpoint: str) -> dict[str, str]:
    """Storage options for tables on that S3 server with an arbiter behind that address."""
    keys = {f"{name.removesuffix('_DYNAMODB')}_DYNAMODB": value for name, value in dynamodb.storage_options.items()}
    return options(minio_endpoint) | keys | {"AWS_ENDPOINT_URL_DYNAMODB": dynamodb_endpoint, "AWS_S3_LOCKING_PROVIDER": "dynamodb"}
