"""What the public API throws away is kept: statements run again, functions run again, blocks that are given up."""

from __future__ import annotations

import pytest

import rowlock
from rowlock import DeltaTable
from rowlock.advice import attempts
from rowlock.advice.history import History
from rowlock.advice.keys import hot_keys
from rowlock.advice.read_history import read_history
from rowlock.exceptions import DeltaConcurrentModificationException
from rowlock.storage.open import open_store

pytestmark = pytest.mark.spark


@pytest.fixture
def t(spark, table_path: str) -> DeltaTable:
    rowlock.write(spark.range(10).selectExpr("id", "0L as v"), table_path)
    return DeltaTable.forPath(spark, table_path)


def history(path: str) -> History:
    assert attempts.flush()
    return read_history(open_store(path))


def test_a_function_that_runs_again_says_what_it_threw_away(spark, t: DeltaTable, table_path: str) -> None:
    rival, tries = DeltaTable.forPath(spark, table_path), []

    def work(txn: rowlock.api.transaction.DeltaTransaction) -> None:
        total = txn.toDF().agg({"v": "sum"}).first()[0]
        if not tries:
            rival.update("id = 3", {"v": "5L"})
        tries.append(total)
        txn.update("id = 1", {"v": f"{total}L"})

    receipt = rowlock.run(t, work)
    found = history(table_path)
    assert tries == [0, 5]
    (failed,) = found.failed
    landed = found.by_version[receipt.version or 0]
    assert failed.outcome == "conflict" and failed.operation == "UPDATE" and failed.met[-1].rule == "rows read"
    assert landed.rerun_of == (failed.txn_id,) and landed.thrown_rows == 1 and landed.thrown_seconds > 0


def test_a_statement_that_runs_again_says_so(spark, t: DeltaTable, table_path: str) -> None:
    t.setProperties({"rowlock.onConflict": "rerun"})
    rival = DeltaTable.forPath(spark, table_path)
    from rowlock.transaction.state.phases import Observer, use_observer

    class Once(Observer):
        done = False

        def phase(self, name: str, txn: object) -> None:
            if name == "staged" and not self.done:
                self.done = True
                rival.update("id = 1", {"v": "v + 100"})

    with use_observer(Once()):
        t.update("id = 1", {"v": "v + 1"})
    found = history(table_path)
    (failed,) = found.failed
    assert t.lastReceipt is not None and found.by_version[t.lastReceipt.version or 0].rerun_of == (failed.txn_id,)
    (keys,) = hot_keys(found)
    assert (keys.column, keys.values) == ("id", (("1", 2),))
    assert failed.policy == "rerun" and failed.met[-1].rule == "rows changed by both" and failed.thrown_rows == 1


def test_a_block_that_is_given_up_is_kept_where_it_had_staged_something(spark, t: DeltaTable, table_path: str) -> None:
    with pytest.raises(ZeroDivisionError), t.transaction() as txn:
        1 // 0
    with pytest.raises(ZeroDivisionError), t.transaction() as txn:
        txn.update("id < 4", {"v": "1L"})
        txn.delete("id = 9")
        1 // 0
    (failed,) = history(table_path).failed
    assert (failed.outcome, failed.error, failed.operation, failed.thrown_rows) == ("abandoned", "ZeroDivisionError", "TRANSACTION", 4)


def test_a_block_that_meets_a_conflict_is_kept_once(spark, t: DeltaTable, table_path: str) -> None:
    with pytest.raises(DeltaConcurrentModificationException), t.transaction(on_conflict="fail") as txn:
        txn.update("id = 1", {"v": "v + 1"})
        DeltaTable.forPath(spark, table_path).update("id = 1", {"v": "v + 100"})
    (failed,) = history(table_path).failed
    assert failed.outcome == "conflict" and failed.policy == "fail"
