"""Registers: small named cells of one table, each changed by compare-and-swap, which hold leases and turns outside the log.

They decide nothing about the data (I7), so a provider may fail, lose a reply or be unavailable; its calls must only return soon.  A cell is
never deleted, and its content has a counter that only grows.  Every provider passes the same contract tests:

object          the default: one object per cell in `_rowlock/locks/` of the table's own folder, which other engines and vacuum ignore
dynamodb:TABLE  one item per cell, in a separate table with the key `register` (a string: the Delta table's location and the cell's name), which
                may serve any number of Delta tables.  Credentials, region and endpoint are found as for the arbiter (see storage.dynamodb.settings)
postgresql      one row per cell in the table `rowlock_registers`, changed by UPDATE ... WHERE tag = ....  The connection string is a secret: it is
                never written into a Delta table nor read from one, and appears in no message and no repr; it comes from the caller or the
                environment: ROWLOCK_LOCK_DSN, or ROWLOCK_LOCK_PROVIDER itself, or libpq's own PGHOST, PGSERVICE and so on

ROWLOCK_LOCK_PROVIDER in the environment overrides the table's property.  `storage_options` may set the same names.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from rowlock import arguments
from rowlock.exceptions import InvalidInput
from rowlock.storage.options import Settings
from rowlock.storage.store import Committed, Lost, NotFound, ObjectStore, PutOutcome, StorageError, Unknown

PROVIDER_VARIABLE, DSN_VARIABLE = "ROWLOCK_LOCK_PROVIDER", "ROWLOCK_LOCK_DSN"
_POSTGRESQL = ("postgresql://", "postgres://")


class Cell(NamedTuple):
    """The value of a cell, and the tag of exactly this state."""

    value: bytes
    tag: str


class Registers(Protocol):
    """The cells of one table.  All methods are safe to call from any thread; any may raise StorageError."""

    def read(self, name: str) -> Cell | None:
        """The cell's value and tag; None if it does not exist yet."""

    def create(self, name: str, value: bytes) -> PutOutcome:
        """Creates the cell unless it exists: of many callers exactly one gets Committed."""

    def swap(self, name: str, value: bytes, tag: str) -> PutOutcome:
        """Changes the cell if it still has this tag: of many callers with the same tag exactly one gets Committed.

        After Lost and Unknown alike, read the cell back: after a client's own retry even the winner may get Lost.
        """


def written(registers: Registers, name: str, value: bytes, read: Cell | None) -> bool:
    """Puts a value in the place of what was read of a cell, None where there was none; whether that was certainly done."""
    outcome = registers.create(name, value) if read is None else registers.swap(name, value, read.tag)
    return isinstance(outcome, Committed)


FOLDER = "_rowlock/locks"


class ObjectRegisters:
    """The registers of the table at a store's root."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def __repr__(self) -> str:
        return f"ObjectRegisters({self._store.root!r})"

    def read(self, name: str) -> Cell | None:
        try:
            return Cell(*self._store.get_tagged(_key(name)))
        except NotFound:
            return None

    def create(self, name: str, value: bytes) -> PutOutcome:
        return self._store.put_if_absent(_key(name), value)

    def swap(self, name: str, value: bytes, tag: str) -> PutOutcome:
        return self._store.replace_if(_key(name), value, tag)


def _key(name: str) -> str:
    return f"{FOLDER}/{name}.json"


class DynamoDbRegisters:
    """The registers of the Delta table at `root`, in the DynamoDB table `table`."""

    def __init__(self, table: str, root: str, options: Mapping[str, str] | None = None) -> None:
        from rowlock.storage.dynamodb.settings import client_of

        self._table, self._root, self._client = table, root, client_of(options)

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


TABLE = "rowlock_registers"
_CREATE = f"CREATE TABLE IF NOT EXISTS {TABLE} (register text PRIMARY KEY, content bytea NOT NULL, tag bigint NOT NULL)"
_READ = f"SELECT content, tag FROM {TABLE} WHERE register = %s"
_INSERT = f"INSERT INTO {TABLE} (register, content, tag) VALUES (%s, %s, 1) ON CONFLICT DO NOTHING"
_UPDATE = f"UPDATE {TABLE} SET content = %s, tag = tag + 1 WHERE register = %s AND tag = %s"
_WAITS = {"connect_timeout": 3, "tcp_user_timeout": 5000, "options": "-c statement_timeout=5000 -c lock_timeout=5000"}
"""Connection settings with short timeouts: a slow provider must not hold up a writer."""


def _client() -> Any:
    try:
        import psycopg
    except ImportError as e:
        raise InvalidInput("Leases in PostgreSQL need psycopg 3: pip install 'rowlock[postgresql]'") from e
    return psycopg


def _connect(dsn: str) -> Any:
    """A connection in autocommit mode.  Raises InvalidInput if psycopg is not installed, StorageError (without `dsn`) if it fails."""
    psycopg = _client()
    try:
        return psycopg.connect(dsn, autocommit=True, **_WAITS)
    except psycopg.OperationalError as e:
        raise StorageError(f"PostgreSQL cannot be reached: {type(e).__name__} ({e.sqlstate or 'no answer'})") from None
    except psycopg.Error as e:
        raise StorageError(f"The connection string for PostgreSQL cannot be used: {type(e).__name__}") from None


class PostgresRegisters:
    """The registers of the Delta table at `root`.  Uses one connection, opened on first use and again after it failed."""

    def __init__(self, dsn: str, root: str) -> None:
        self._dsn, self._root = dsn, root
        self._lock = threading.Lock()
        self._connection: Any = None

    def __repr__(self) -> str:
        return f"PostgresRegisters({self._root!r})"

    def _name(self, name: str) -> str:
        return f"{self._root}#{name}"

    def read(self, name: str) -> Cell | None:
        with self._lock:
            row = self._execute(_READ, (self._name(name),)).fetchone()
        return None if row is None else Cell(bytes(row[0]), str(row[1]))

    def create(self, name: str, value: bytes) -> PutOutcome:
        return self._write(_INSERT, (self._name(name), value))

    def swap(self, name: str, value: bytes, tag: str) -> PutOutcome:
        return self._write(_UPDATE, (value, self._name(name), int(tag)))

    def _write(self, statement: str, values: tuple[Any, ...]) -> PutOutcome:
        with self._lock:
            self._open()
            try:
                return Committed() if self._execute(statement, values).rowcount == 1 else Lost()
            except StorageError as e:
                return Unknown(str(e))

    def _open(self) -> Any:
        if self._connection is None or self._connection.closed:
            self._connection = _connect(self._dsn)
        return self._connection

    def _execute(self, statement: str, values: tuple[Any, ...]) -> Any:
        connection = self._open()
        try:
            return connection.execute(statement, values)
        except _client().Error as e:
            connection.close()  # after any error the next call opens a new connection
            if e.sqlstate == "42P01":
                raise StorageError(f"PostgreSQL has no table {TABLE}: rowlock.create_lock_table('postgresql') creates it") from None
            raise StorageError(f"PostgreSQL: {type(e).__name__} ({e.sqlstate or 'no answer'})") from None


def _create_postgresql_table(dsn: str) -> None:
    """Creates the table for leases and turns if it does not exist.  Raises StorageError."""
    connection = _connect(dsn)
    try:
        connection.execute(_CREATE)
    except _client().Error as e:
        raise StorageError(f"PostgreSQL: the table {TABLE} could not be created: {type(e).__name__} ({e.sqlstate})") from None
    finally:
        connection.close()


def open_registers(store: ObjectStore, provider: str = "object", options: Mapping[str, str] | None = None) -> Registers:
    """The registers of the table at a store's root, with the given provider (unless the environment names another).

    `options`: credentials and endpoints, under their names in the environment, in addition to those that the store
    was opened with.  Raises InvalidInput for an unknown provider, or one whose client is not installed.
    """
    options = {**_options_of(store), **(options or {})}
    known = {**os.environ, **options}
    chosen = known.get(PROVIDER_VARIABLE) or provider
    if chosen == "object":
        return ObjectRegisters(store)
    if chosen.startswith("dynamodb:"):
        return DynamoDbRegisters(chosen.removeprefix("dynamodb:"), store.root, options)
    if (dsn := _dsn(chosen, known)) is not None:
        return PostgresRegisters(dsn, store.root)
    raise _unknown_provider(chosen)


def create_lock_table(provider: str, storage_options: Mapping[str, str] | None = None) -> None:
    """Creates the table for leases, if it does not exist.  Needs no Spark.

    Args:
        provider: `dynamodb:TABLE`, `postgresql` (with the connection in the environment, ROWLOCK_LOCK_DSN or libpq's variables), or a `postgresql://` URL.
        storage_options: Credentials and endpoints under their names in the environment.

    Raises:
        InvalidInput: The provider is another (`object` needs no table), or its client is not installed.
        StorageError: The table cannot be created.

    Examples:
        >>> rowlock.create_lock_table("object")
        Traceback (most recent call last):
        ...
        rowlock.exceptions.InvalidInput: ...
    """
    arguments.text(provider, "provider")
    options = arguments.text_by_text(storage_options, "storage_options")
    if provider.startswith("dynamodb:"):
        from rowlock.storage.dynamodb.settings import client_of, ensure_table

        name = provider.removeprefix("dynamodb:")
        ensure_table(client_of(options or None), name, {"register": "HASH"}, "name another table in the lock provider, dynamodb:TABLE")
        return
    if (dsn := _dsn(provider, {**os.environ, **options})) is not None:
        return _create_postgresql_table(dsn)
    raise _unknown_provider(provider)


def _options_of(store: ObjectStore) -> Mapping[str, str]:
    """The storage options that a store was opened with, under the names of the environment."""
    settings = getattr(getattr(store, "inner", store), "settings", None)  # an arbitrated store wraps the store that was opened
    if not isinstance(settings, Settings):
        return {}
    keys = dict(zip(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"), settings.keys or (), strict=False))
    return {k: v for k, v in keys.items() if v} | {k.upper(): v for k, v in settings.given.items()}


def _dsn(provider: str, options: Mapping[str, str]) -> str | None:
    """The PostgreSQL connection string of a provider; None for another provider.  libpq takes missing parts from its own variables."""
    if provider == "postgresql":
        return options.get(DSN_VARIABLE, "")
    return provider if provider.startswith(_POSTGRESQL) else None


def _unknown_provider(provider: str) -> InvalidInput:
    kind = re.match(r"\w{1,20}(?=:)", provider)  # show only this much: the provider may be a connection string
    return InvalidInput(
        f"There is no lock provider {repr(kind[0] + ':...') if kind else 'of this name'}: choose object, dynamodb:TABLE or postgresql (with {DSN_VARIABLE} in the environment)"
    )
