"""The arbiter's entries: one row of a DynamoDB table per commit, in the layout of Delta's S3DynamoDBLogStore.

    tablePath (HASH)   the table's location as Hadoop spells it, such as s3a://bucket/sales
    fileName (RANGE)   00000000000000000042.json
    tempPath           where the commit's bytes were put first, relative to _delta_log
    complete           "true" once the commit file exists, else "false"
    expireTime         seconds since the epoch (UTC) after which a complete entry may be deleted

Owns the requests and the meaning of their errors.  The outcome of a claim whose reply was lost is found by its
tempPath, which no other writer uses (I2).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeAlias, TypeVar

from rowlock import clock
from rowlock.exceptions import CorruptLog, InvalidInput
from rowlock.protocol.names import LOG_DIRECTORY
from rowlock.protocol.paths import SCHEME
from rowlock.storage.store import StorageError

T = TypeVar("T")
CLAIM_TRIES = 5
TOGETHER_TRIES = 10
_IF_ABSENT = {"ConditionExpression": "attribute_not_exists(fileName)"}
_DENIED = frozenset(
    {"AccessDeniedException", "UnrecognizedClientException", "InvalidSignatureException", "ExpiredTokenException", "MissingAuthenticationTokenException"}
)
_TRANSIENT = frozenset({
    "ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded", "InternalServerError", "InternalFailure",
    "ServiceUnavailable", "TransactionInProgressException", "TransactionConflictException", "RequestTimeout", "RequestTimeoutException",
})  # fmt: skip
_URI = re.compile(rf"^(?P<scheme>{SCHEME})://(?:[^/@]*@)?(?P<authority>[^/]*)(?P<path>.*)$", re.DOTALL)
S3_SCHEMES = ("s3a", "s3")
"""The schemes that one S3 table may have in the entries, the most common first."""


class ArbiterUnreachable(StorageError):
    """DynamoDB did not answer, or not clearly: the request may or may not have been carried out."""


class _ConditionFailed(Exception):
    """The condition of a request does not hold; `item` is the existing row, if the server returned it."""

    def __init__(self, item: Mapping[str, Any] | None) -> None:
        self.item = item


class _Cancelled(Exception):
    """A transaction was not carried out; `reasons` has one for each of its items, in their order."""

    def __init__(self, reasons: Sequence[Mapping[str, Any]]) -> None:
        self.reasons = reasons


Client: TypeAlias = Any
"""boto3's client of DynamoDB, which has no types of its own."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The entry of one commit: its writer (known by `temp_path`), and whether its file exists."""

    table_path: str
    file_name: str
    temp_path: str
    complete: bool = False
    expire_time_s: int | None = None

    @property
    def key(self) -> str:
        """The commit file's key in the table's store."""
        return f"{LOG_DIRECTORY}/{self.file_name}"

    @property
    def temp_key(self) -> str:
        """The key of the temporary file, in the table's store."""
        return f"{LOG_DIRECTORY}/{self.temp_path}"

    def item(self) -> dict[str, dict[str, str]]:
        """The row, in DynamoDB's JSON."""
        out = {
            "tablePath": {"S": self.table_path},
            "fileName": {"S": self.file_name},
            "tempPath": {"S": self.temp_path},
            "complete": {"S": "true" if self.complete else "false"},
        }
        return out if self.expire_time_s is None else out | {"expireTime": {"N": str(self.expire_time_s)}}


def entry_of(item: Mapping[str, Any]) -> Entry:
    """The entry that a row holds; raises CorruptLog if the row has another layout."""
    try:
        expires = item.get("expireTime")
        table, file, temporary = (item[name]["S"] for name in ("tablePath", "fileName", "tempPath"))
        return Entry(table, file, temporary, item["complete"]["S"] == "true", None if expires is None else int(expires["N"]))
    except (KeyError, TypeError, ValueError) as e:
        where = {name: (item.get(name) or {}).get("S") for name in ("tablePath", "fileName")}
        raise CorruptLog(f"an entry of the DynamoDB arbiter cannot be read: {type(e).__name__}: {e}", table=where["tablePath"], file=where["fileName"]) from e


class EntryTable:
    """The DynamoDB table that holds the entries of any number of Delta tables.  Thread-safe, as boto3's clients are."""

    def __init__(self, client: Client, name: str) -> None:
        self.client, self.name = client, name

    def __repr__(self) -> str:
        return f"EntryTable({self.name!r})"

    def get(self, table_path: str, file_name: str) -> Entry | None:
        """The entry of a commit, by a consistent read; None if there is none."""
        item = self._ask("get_item", Key=_key(table_path, file_name), ConsistentRead=True).get("Item")
        return entry_of(item) if item else None

    def latest(self, table_path: str) -> Entry | None:
        """The entry of the highest version, by a consistent read; None if there is none."""
        items = self._query(table_path, ScanIndexForward=False, Limit=1)["Items"]
        return entry_of(items[0]) if items else None

    def all(self, table_path: str) -> Iterator[Entry]:
        """Every entry of a table, oldest version first."""
        start: dict[str, Any] = {}
        while True:
            page = self._query(table_path, **start)
            yield from map(entry_of, page["Items"])
            if not page.get("LastEvaluatedKey"):
                return
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}

    def claim(self, entry: Entry) -> Entry:
        """Creates the entry unless the commit has one; returns the entry that exists then, this one or another writer's (I1).

        Another writer's entry has a different temp_path.  Retrying after a lost reply is safe: at worst it finds our own
        entry.  Raises ArbiterUnreachable if it remains unknown whether the claim was, or will be, carried out.
        """

        def attempt() -> Entry | None:
            try:
                self._call("put_item", **self._put_if_absent(entry.item()), ReturnValuesOnConditionCheckFailure="ALL_OLD")
            except _ConditionFailed as taken:
                return entry_of(taken.item) if taken.item else self.get(entry.table_path, entry.file_name)
            return entry

        held = _until_clear(CLAIM_TRIES, attempt)
        if held is None:
            raise ArbiterUnreachable(f"the entry of {entry.file_name} appears and disappears in the DynamoDB table {self.name}")
        return held

    def claim_all(self, entries: Sequence[Entry], absent: Sequence[Entry]) -> frozenset[int]:
        """Creates all entries if none of them, and none of `absent`, exists (I1): one TransactWriteItems.

        Returns which exist already, as positions in (*entries, *absent); empty where all were created.  A lost reply is resolved by asking for
        the entries, and by the same request again: DynamoDB carries it out once.
        Raises ArbiterUnreachable if it remains unknown whether the entries were, or will be, created.
        """
        token = clock.new_id()
        items: list[dict[str, Any]] = [{"Put": self._put_if_absent(e.item())} for e in entries]
        items += [{"ConditionCheck": {"TableName": self.name, "Key": _key(e.table_path, e.file_name), **_IF_ABSENT}} for e in absent]

        def attempt() -> frozenset[int] | None:
            try:
                self._call("transact_write_items", TransactItems=items, ClientRequestToken=token)
            except _Cancelled as cancelled:
                if refused := [r for r in cancelled.reasons if r.get("Code") in ("ValidationError", "ItemCollectionSizeLimitExceeded")]:
                    raise StorageError(f"transact_write_items on the DynamoDB table {self.name} failed: {refused[0].get('Message', '')}") from None
                taken = frozenset(i for i, reason in enumerate(cancelled.reasons) if reason.get("Code") == "ConditionalCheckFailed")
                if not taken:  # others were at work on the same entries
                    return None
                # An earlier request may have been carried out.  It has created all of them, or none.
                held = self.get(entries[0].table_path, entries[0].file_name)
                return frozenset() if held is not None and held.temp_path == entries[0].temp_path else taken
            return frozenset()

        taken = _until_clear(TOGETHER_TRIES, attempt)
        return frozenset(range(len(entries))) if taken is None else taken  # others were at work each time: it was never carried out

    def _put_if_absent(self, item: Mapping[str, Any]) -> dict[str, Any]:
        return {"TableName": self.name, "Item": item, **_IF_ABSENT}

    def complete(self, entry: Entry, ttl_s: int) -> None:
        """Marks the entry complete, to expire in `ttl_s` seconds; does nothing if it is gone or another writer's."""
        done = replace(entry, complete=True, expire_time_s=clock.now_ms() // 1000 + ttl_s)
        try:
            self._ask("put_item", Item=done.item(), ConditionExpression="tempPath = :ours", ExpressionAttributeValues={":ours": {"S": entry.temp_path}})
        except _ConditionFailed:
            return

    def forget(self, entry: Entry) -> bool:
        """Deletes the entry if it is unchanged; returns whether it was deleted."""
        key, same = _key(entry.table_path, entry.file_name), {":ours": {"S": entry.temp_path}, ":state": {"S": "true" if entry.complete else "false"}}
        try:
            self._ask("delete_item", Key=key, ConditionExpression="tempPath = :ours AND complete = :state", ExpressionAttributeValues=same)
        except _ConditionFailed:
            return False
        return True

    def _query(self, table_path: str, **how: Any) -> Any:
        return self._ask(
            "query", KeyConditionExpression="tablePath = :table", ExpressionAttributeValues={":table": {"S": table_path}}, ConsistentRead=True, **how
        )

    def _ask(self, what: str, **arguments: Any) -> Any:
        return self._call(what, TableName=self.name, **arguments)

    def _call(self, what: str, **arguments: Any) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return getattr(self.client, what)(**arguments)
        except (ClientError, BotoCoreError) as e:
            raise_for(e, self.name, what)


def raise_for(error: Exception, table: str, what: str) -> NoReturn:
    """Raises Rowlock's error for a boto3 error.  Messages of denied requests are left out: they may repeat secrets from the request."""
    from botocore.exceptions import ClientError, ConnectionError, HTTPClientError

    if isinstance(error, ClientError):
        code = str(error.response.get("Error", {}).get("Code", ""))
        if code == "TransactionCanceledException":
            raise _Cancelled(error.response.get("CancellationReasons", ())) from None
        if code == "ConditionalCheckFailedException":
            raise _ConditionFailed(error.response.get("Item")) from None
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if code in _TRANSIENT or status >= 500 or error.response.get("ResponseMetadata", {}).get("RetryAttempts"):
            raise ArbiterUnreachable(f"{what} on the DynamoDB table {table} failed: {code or status}") from error
        if code == "ResourceNotFoundException":
            text = f"there is no DynamoDB table {table} to arbitrate commits: create it with `rowlock arbiter create`, or name another with DELTA_DYNAMO_TABLE_NAME"
            raise InvalidInput(text) from None
        if code in _DENIED:
            raise StorageError(f"DynamoDB denies {what} on the table {table}: {code}; check the credentials and their permissions") from None
        raise StorageError(f"{what} on the DynamoDB table {table} failed: {code}: {error.response.get('Error', {}).get('Message', '')}") from error
    if isinstance(error, ConnectionError | HTTPClientError):
        raise ArbiterUnreachable(f"{what} on the DynamoDB table {table} got no answer: {type(error).__name__}") from error
    raise StorageError(f"{what} on the DynamoDB table {table} is not possible: {type(error).__name__}: {error}") from error


def _until_clear(tries: int, attempt: Callable[[], T | None]) -> T | None:
    """The first answer of `attempt`, which is asked again after a pause while it has none; None where it never had one.

    Raises ArbiterUnreachable if it remains unknown whether one of the requests was, or will be, carried out; what the first one raises, if that is refused.
    """
    unclear: ArbiterUnreachable | None = None
    for n in range(tries):
        try:
            if (answer := attempt()) is not None:
                return answer
        except ArbiterUnreachable as e:
            unclear = e
        except (StorageError, InvalidInput) as e:
            if unclear is None:
                raise
            unclear = ArbiterUnreachable(f"{unclear}; then {e}")  # an earlier request may have been carried out
        clock.back_off(n, clock.ARBITER)
    if unclear is not None:
        raise unclear
    return None


def _key(table_path: str, file_name: str) -> dict[str, dict[str, str]]:
    """The key of an entry's row, in DynamoDB's JSON."""
    return {"tablePath": {"S": table_path}, "fileName": {"S": file_name}}


def spellings(root: str, scheme: str | None = None) -> tuple[str, ...]:
    """The possible tablePaths of the table at `root`: the one with `scheme` if given, else on S3 one for each scheme.

    Delta writes Hadoop's Path of the folder: scheme, authority without user, decoded path with single slashes and no trailing one.
    Two spellings would be two arbiters.  On S3 the scheme is the one that the Spark job uses, usually s3a.
    """
    match = _URI.match(root)
    if match is None:
        return ("file:" + _path(root),)
    schemes = (scheme,) if scheme else S3_SCHEMES if match["scheme"].lower() in S3_SCHEMES else (match["scheme"],)
    return tuple(f"{scheme}://{match['authority']}{_path(match['path'])}" for scheme in schemes)


def _path(path: str) -> str:
    return "/" + "/".join(part for part in path.split("/") if part)
