"""The contract that every provider of registers keeps, on real servers."""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rowlock.exceptions import InvalidInput
from rowlock.storage import Committed, LocalStore, Lost, MemoryStore, StorageError, open_store
from rowlock.storage.registers import Registers, create_lock_table, open_registers
from servers.dynamodb import DynamoDb
from servers.postgres import Postgres

PROVIDERS = ("memory", "local", "s3", "gcs", "azure", "dynamodb", "postgresql")
CLOUDS = {"s3": "minio", "gcs": "gcs", "azure": "azurite"}


def opened(provider: str, request: pytest.FixtureRequest, tmp_path: Path) -> Registers:
    """Registers of a table that nobody has used, through the public way."""
    if provider == "local":
        return open_registers(LocalStore(tmp_path / "table"))
    if provider in CLOUDS:
        server = request.getfixturevalue(CLOUDS[provider])
        return open_registers(open_store(server.fresh_root(), server.storage_options))
    store = MemoryStore(f"memory://{uuid.uuid4()}")
    if provider == "memory":
        return open_registers(store)
    if provider == "dynamodb":
        options = request.getfixturevalue("dynamodb").storage_options
        create_lock_table("dynamodb:rowlock_leases", options)
        return open_registers(store, "dynamodb:rowlock_leases", options)
    options = {"ROWLOCK_LOCK_DSN": request.getfixturevalue("postgres").dsn}
    create_lock_table("postgresql", options)
    return open_registers(store, "postgresql", options)


@pytest.fixture(params=PROVIDERS)
def registers(request: pytest.FixtureRequest, tmp_path: Path) -> Registers:
    return opened(request.param, request, tmp_path)


def test_a_cell_is_made_once_and_changed_by_its_tag(registers: Registers) -> None:
    assert registers.read("a") is None
    assert registers.swap("a", b"0", "1") == Lost(), "there is nothing to change"
    assert registers.create("a", b"1") == Committed()
    assert registers.create("a", b"2") == Lost()
    first = registers.read("a")
    assert first is not None and first.value == b"1" and registers.read("b") is None
    assert registers.swap("a", b"\x00\xff", first.tag) == Committed()
    assert registers.swap("a", b"3", first.tag) == Lost(), "its tag is old"
    second = registers.read("a")
    assert second is not None and second.value == b"\x00\xff" and second.tag != first.tag


def test_of_many_one_wins(registers: Registers) -> None:
    """8 threads make one cell and count in it to 40 together: none is lost."""
    barrier = threading.Barrier(8)

    def count(_: int) -> int:
        barrier.wait()
        made = registers.create("n", b"0") == Committed()
        for _ in range(5):
            while True:
                cell = registers.read("n")
                assert cell is not None
                if registers.swap("n", b"%d" % (int(cell.value) + 1), cell.tag) == Committed():
                    break
        return made

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(count, range(8))) == 1
    cell = registers.read("n")
    assert cell is not None and cell.value == b"40"


def test_tables_do_not_share_cells(dynamodb: DynamoDb, postgres: Postgres) -> None:
    for provider, options in (("dynamodb:rowlock_leases", dynamodb.storage_options), ("postgresql", {"ROWLOCK_LOCK_DSN": postgres.dsn})):
        create_lock_table(provider, options)
        create_lock_table(provider, options)  # it is there already
        one, other = (open_registers(MemoryStore(f"memory://{uuid.uuid4()}"), provider, options) for _ in range(2))
        assert one.create("a", b"1") == Committed() and other.read("a") is None and other.create("a", b"2") == Committed()


def test_a_provider_without_its_table_says_how_to_make_it(dynamodb: DynamoDb, postgres: Postgres) -> None:
    import psycopg

    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS bare")
        connection.execute("CREATE DATABASE bare")
    bare = {"ROWLOCK_LOCK_DSN": postgres.dsn.replace("dbname=postgres", "dbname=bare")}
    absent: list[tuple[str, Any]] = [("dynamodb:absent", dynamodb.storage_options), ("postgresql", bare)]
    for provider, options in absent:
        registers = open_registers(MemoryStore("memory://x"), provider, options)
        with pytest.raises(StorageError):
            registers.read("a")
    with pytest.raises(StorageError, match="create_lock_table"):
        registers.read("a")


def test_a_connection_that_broke_is_opened_again(postgres: Postgres) -> None:
    import psycopg

    options = {"ROWLOCK_LOCK_DSN": postgres.dsn + " application_name=breaks"}
    create_lock_table("postgresql", options)
    registers = open_registers(MemoryStore(f"memory://{uuid.uuid4()}"), "postgresql", options)
    assert registers.create("a", b"1") == Committed()
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'breaks'")
    with pytest.raises(StorageError):
        registers.read("a")
    cell = registers.read("a")
    assert cell is not None and cell.value == b"1"


SECRET = "hunter2"


@pytest.mark.parametrize("dsn", [f"postgresql://me:{SECRET}@127.0.0.1:1/x", f"host=127.0.0.1 port=1 password={SECRET}", f"nonsense {SECRET}"])
def test_how_to_connect_is_never_shown(dsn: str) -> None:
    registers = open_registers(MemoryStore("memory://x"), "postgresql", {"ROWLOCK_LOCK_DSN": dsn})
    assert SECRET not in repr(registers)
    with pytest.raises(StorageError) as e:
        registers.read("a")
    assert SECRET not in str(e.value) and e.value.__cause__ is None and e.value.__suppress_context__


def test_what_a_store_was_opened_with_reaches_the_provider(dynamodb: DynamoDb) -> None:
    """storage_options of a table on S3 say how to reach DynamoDB and PostgreSQL too."""
    options = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ALLOW_HTTP": "true", **dynamodb.storage_options}
    create_lock_table("dynamodb:rowlock_leases", options)
    registers = open_registers(open_store(f"s3://bucket/{uuid.uuid4()}", options), "dynamodb:rowlock_leases")
    assert registers.create("a", b"1") == Committed()
    other = open_store("s3://bucket/t", {**options, "ROWLOCK_LOCK_PROVIDER": "postgresql", "ROWLOCK_LOCK_DSN": f"password={SECRET}"})
    assert repr(open_registers(other)) == "PostgresRegisters('s3://bucket/t')" and SECRET not in repr(other)


def test_the_environment_wins_over_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWLOCK_LOCK_PROVIDER", "postgresql://me@127.0.0.1:1/x")
    assert repr(open_registers(MemoryStore("memory://x"), "object")) == "PostgresRegisters('memory://x')"
    for wrong in (f"mysql://{SECRET}@x", f"host=x password={SECRET}", SECRET):
        monkeypatch.setenv("ROWLOCK_LOCK_PROVIDER", wrong)
        with pytest.raises(InvalidInput, match=r"object, dynamodb:TABLE or postgresql") as e:
            open_registers(MemoryStore("memory://x"))
        assert SECRET not in str(e.value)
    with pytest.raises(InvalidInput, match="object"):
        create_lock_table("object")
