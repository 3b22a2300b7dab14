"""I10: what VACUUM has deleted is not committed, however long a transaction has slept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import rowlock
from model.schedules.in_memory import InMemory
from model.schedules.play import schema_string
from rowlock import clock
from rowlock.boundary.engine import Statement
from rowlock.engines.appends.engine import ArrowEngine, stage_rows
from rowlock.exceptions import ConcurrentWriteException
from rowlock.parquet.blocks import file_block
from rowlock.storage.local import LocalStore
from rowlock.storage.memory import MemoryStore
from rowlock.transaction.state.shared import state_of
from rowlock.transaction.transaction import Options, Table, Transaction
from rowlock_simulation.memory.sql.script import parse
from rowlock_simulation.memory.statements import run, statements_of


class Later(clock.SystemClock):
    """A clock that is put forward."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


@pytest.fixture
def later() -> Iterator[Later]:
    with clock.use(Later()) as c:
        yield c  # type: ignore[misc]


def staged(world: InMemory, script: str) -> Transaction:
    txn = world.table.begin()
    txn.execute(*statements_of(parse(script), world.table.refresh()))
    return txn


@pytest.mark.parametrize("script", ["APPEND (7, 1)", "UPDATE SET v = v + 1 WHERE k = 1"])
@pytest.mark.parametrize("hours", [0, 2])
def test_a_file_that_vacuum_deleted_before_the_last_put_is_not_committed(later: Later, script: str, hours: int) -> None:
    """The first put is lost; until the next one the file that was written for it becomes old, and goes (`dynamodb` 174,000,386)."""
    store = MemoryStore("memory://staged")
    world = InMemory(store=store)
    world.create(schema_string([("k", "long", True), ("v", "long", True)]), (), {})
    run(world.table, parse("APPEND (1, 10)"))
    txn = staged(world, script)
    before = {m.key for m in store.list("")}
    put, lost = store.put_if_absent, [True]

    def overtaken(key: str, data: bytes) -> object:
        if lost and "_delta_log" in key:
            lost.clear()
            run(InMemory(store=store).table, parse("APPEND (2, 20)"))  # of another process
            later.ahead_ms = hours * 3_600_000
            for path in {f.add.path for f in txn.staging.files} - before if hours else ():
                store.delete(path)
        return put(key, data)

    store.put_if_absent = overtaken  # type: ignore[method-assign, assignment]
    if hours:
        with pytest.raises(ConcurrentWriteException, match="Nothing was committed"):
            txn.commit("WRITE", {})
        assert world.rows() == [{"k": 1, "v": 10}, {"k": 2, "v": 20}]
    else:
        txn.commit("WRITE", {})
        assert len(world.rows()) == (3 if script.startswith("APPEND") else 2)


@pytest.mark.parametrize("alone", [True, False])
def test_a_file_that_vacuum_deleted_before_the_first_put_is_not_committed(later: Later, tmp_path: Path, alone: bool) -> None:
    """As of rows that are in files when they are staged, and of a transaction that is left open for long; together with others and alone."""
    store = LocalStore(tmp_path)
    rowlock.append(str(tmp_path), pa.table({"k": [1]}))
    table = Table(state_of(store).log, ArrowEngine(store), state=state_of(store))
    txn = table.begin(Options(group_commit=not alone))
    files = stage_rows(store, txn.base, [pa.table({"k": [2]})], lambda rows: rows)
    txn.execute(Statement("append", [file_block("appended", 0, files)], sets=("k",)))
    later.ahead_ms = 2 * 3_600_000
    store.delete(files[0].path)
    with pytest.raises(ConcurrentWriteException, match="Nothing was committed"):
        txn.commit("WRITE", {})
    assert rowlock.to_arrow(str(tmp_path)).to_pylist() == [{"k": 1}]
