"""The lock knob through the public API: what waits, for what, and that it begins anew from what the holder left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

import rowlock
from rowlock import DeltaTable, clock
from rowlock.exceptions import InvalidInput
from rowlock.locks.lease import TABLE, Lease, Leases, Scope
from rowlock.storage import LocalStore
from rowlock.storage.registers import ObjectRegisters
from support.locks.clocks import TestClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark]
P1, P2 = (frozenset({("p", f"={n}")}) for n in (1, 2))


@pytest.fixture
def time() -> Iterator[TestClock]:
    with clock.use(TestClock()) as made:
        assert isinstance(made, TestClock)
        yield made


def make(spark: SparkSession, path: str, **properties: str) -> DeltaTable:
    frame = spark.createDataFrame([(1, 0, 1), (2, 0, 2)], "k long, v long, p long")
    rowlock.write(frame.coalesce(1), path, partition_by="p", properties={f"rowlock.{k}": v for k, v in properties.items()})
    return DeltaTable.forPath(spark, path)


def leases(path: str) -> Leases:
    return Leases(ObjectRegisters(LocalStore(path)), keep=False)


def held(path: str) -> Lease:
    lease = leases(path).acquire([TABLE], 0.0)
    assert lease is not None
    return lease


def scopes(path: str) -> set[Scope]:
    return {s for g in leases(path).holders().grants for s in g.scopes}


def change(t: Any, what: str) -> None:
    """One statement on a table or in a transaction."""
    spark = t._handle.spark
    source = spark.createDataFrame([(1, 7, 1), (3, 7, 2)], "k long, v long, p long").alias("s")
    match what:
        case "update":
            t.update("k = 1 AND p = 1", {"v": "v + 10"})
        case "delete":
            t.delete("p = 1 AND k = 99 OR p = 2 AND k = 99")
        case "merge":
            t.alias("t").merge(source, "t.k = s.k AND t.p = s.p AND t.p = 1").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()


def others_commit(path: str, spark: SparkSession, lease: Lease) -> list[Any]:
    """What happens while somebody waits: the holder commits, and gives its lease back."""

    def commit() -> None:
        rowlock.run(DeltaTable.forPath(spark, path), lambda txn: txn.update("k = 1", {"v": "v + 1"}), lock="none")

    return [commit, lease.release]


def test_a_statement_waits_before_it_works(spark: SparkSession, table_path: str, time: TestClock) -> None:
    t = make(spark, table_path, lock="writes")
    time.on_sleep = others_commit(table_path, spark, held(table_path))
    t.update("k = 1", {"v": "v + 10"})
    receipt = t.lastReceipt
    assert receipt is not None and (receipt.read_version, receipt.version, receipt.rounds) == (1, 2, 0) and receipt.seconds["lock"] > 0
    assert [r.v for r in t.toDF().orderBy("k").collect()] == [11, 0] and not scopes(table_path)


def test_a_transaction_waits_at_its_first_statement_that_changes_rows(spark: SparkSession, table_path: str, time: TestClock) -> None:
    t = make(spark, table_path)
    time.on_sleep = others_commit(table_path, spark, held(table_path))
    with t.transaction(lock="writes") as txn:
        change(txn, "update")
        assert scopes(table_path) == {TABLE} and not time.on_sleep
        change(txn, "merge")
    assert txn.receipt is not None and (txn.receipt.read_version, txn.receipt.version, txn.receipt.rounds) == (1, 2, 0) and txn.receipt.seconds["lock"] > 0
    assert [tuple(r) for r in t.toDF().orderBy("k").collect()] == [(1, 7, 1), (2, 0, 2), (3, 7, 2)] and not scopes(table_path)


def test_what_was_staged_before_is_kept(spark: SparkSession, table_path: str, time: TestClock) -> None:
    """An append waits for nobody; the update after it waits, and the append is not staged again."""
    t = make(spark, table_path)
    time.on_sleep = others_commit(table_path, spark, held(table_path))
    with t.transaction(lock="writes") as txn:
        txn.append(spark.createDataFrame([(9, 9, 9)], "k long, v long, p long"))
        assert len(time.on_sleep) == 2, "nobody waited"
        change(txn, "update")
        assert not time.on_sleep
    assert txn.receipt is not None and (txn.receipt.read_version, txn.receipt.rounds) == (0, 1)
    assert [r.v for r in t.toDF().orderBy("k").collect()] == [11, 0, 9]


def test_reading_the_table_waits_too(spark: SparkSession, table_path: str, time: TestClock) -> None:
    """What it reads decides what it writes, so what the holder commits must be in it."""
    t = make(spark, table_path)
    time.on_sleep = others_commit(table_path, spark, held(table_path))

    def fn(txn: Any) -> None:
        txn.append(txn.toDF().selectExpr("k + 10 as k", "v", "p"))
        assert scopes(table_path) == {TABLE}

    receipt = rowlock.run(t, fn, lock="writes")
    assert (receipt.read_version, receipt.rounds) == (1, 0)
    assert [r.v for r in t.toDF().orderBy("k").collect()] == [1, 0, 1, 0]


@pytest.mark.parametrize(("what", "pinned"), [("update", {P1}), ("delete", {P1, P2}), ("merge", {P1})])
@pytest.mark.short("merge-pinned2", "update-pinned0", why="DELETE finds its partitions as UPDATE does")
def test_partitions_that_a_statement_pins(spark: SparkSession, table_path: str, what: str, pinned: set[Scope]) -> None:
    t = make(spark, table_path)
    with t.transaction(lock="partition") as txn:
        change(txn, what)
        assert scopes(table_path) == pinned
    assert not scopes(table_path)


def test_a_block_that_raises_gives_its_leases_back(spark: SparkSession, table_path: str) -> None:
    t = make(spark, table_path)
    with pytest.raises(ZeroDivisionError), t.transaction(lock="table") as txn:
        txn.append(spark.createDataFrame([(9, 9, 9)], "k long, v long, p long"))
        assert scopes(table_path) == {TABLE}
        raise ZeroDivisionError
    assert not scopes(table_path)


def test_nobody_waits_for_ever(spark: SparkSession, table_path: str, time: TestClock) -> None:
    t = make(spark, table_path, lock="table", lockTerm="interval 5 minutes")
    held(table_path)
    with t.transaction(lock_timeout=3.0) as txn:
        change(txn, "update")
    assert txn.receipt is not None and txn.receipt.seconds["lock"] >= 3
    with pytest.raises(InvalidInput, match=r"rowlock.lock = 'all'.*none, writes"):
        t.transaction(lock="all")
