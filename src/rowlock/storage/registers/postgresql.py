"""Registers in PostgreSQL: one row per cell in the table `rowlock_registers`, changed by UPDATE ... WHERE tag = ....

The connection string is a secret: it comes from the caller or the environment, is never written into a Delta table,
and appears in no message and no repr.
"""

from __future__ import annotations

import threading
from typing import Any

from rowlock.exceptions import InvalidInput
from rowlock.storage.registers.register import Cell
from rowlock.storage.store import Committed, Lost, PutOutcome, StorageError, Unknown

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


def connect(dsn: str) -> Any:
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
            self._connection = connect(self._dsn)
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


def create_table(dsn: str) -> None:
    """Creates the table for leases and turns if it does not exist.  Raises StorageError."""
    connection = connect(dsn)
    try:
        connection.execute(_CREATE)
    except _client().Error as e:
        raise StorageError(f"PostgreSQL: the table {TABLE} could not be created: {type(e).__name__} ({e.sqlstate})") from None
    finally:
        connection.close()
