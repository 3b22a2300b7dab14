"""`with table.transaction()`, `rowlock.run`, steps of applications and what a transaction read: the surface, on Spark.

I3: each result is that of a serial run.  I10: a transaction that is given up leaves the table as it was.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, functions as F

import rowlock
from rowlock import DeltaTable
from rowlock.exceptions import (
    ConcurrentTransactionException,
    ConstraintViolated,
    DeltaConcurrentModificationException,
    InvalidInput,
    MultipleMatches,
    SchemaMismatch,
    TableExists,
)
from spark.support import add

pytestmark = pytest.mark.spark


def frame(spark: SparkSession, *rows: tuple[int, int | None]) -> DataFrame:
    return spark.createDataFrame(list(rows), "k bigint, v bigint")


@pytest.fixture
def table(spark: SparkSession, table_path: str) -> DeltaTable:
    add(spark, table_path, [(1, 10), (2, 20), (3, 30)], "k bigint, v bigint")
    return DeltaTable.forPath(spark, table_path)


def rows(source: Any) -> list[tuple[int, int | None]]:
    return sorted((row["k"], row["v"]) for row in source.toDF().collect())


def upsert(target: Any, source: DataFrame) -> None:
    merge = target.alias("t").merge(source.alias("s"), "t.k = s.k")
    merge.whenMatchedUpdate(set={"v": "t.v + s.v"}).whenNotMatchedInsertAll().execute()


def test_statements_become_one_commit_that_each_sees_those_before(spark: SparkSession, table: DeltaTable) -> None:
    other = DeltaTable.forPath(spark, table.detail().first()["location"].removeprefix("file:"))
    with table.transaction() as txn:
        txn.update("k = 1", {"v": "v + 1"})
        txn.append(frame(spark, (4, 40)))
        txn.update("k in (1, 4)", {"v": "v * 2"})
        txn.delete("k = 2")
        assert rows(txn) == [(1, 22), (3, 30), (4, 80)]
        assert rows(other) == [(1, 10), (2, 20), (3, 30)], "private until the block ends"
    assert rows(other) == [(1, 22), (3, 30), (4, 80)]
    assert txn.receipt is not None and table.lastReceipt == txn.receipt
    assert txn.receipt.version == 1 and txn.receipt.read_version == 0
    assert table.history().select("version").count() == 2


@pytest.mark.soak("more statements of one transaction; that each sees those before is in the test before it, and in memory in test_rebase_in_memory", ci=True)
def test_a_merge_meets_rows_that_the_transaction_inserted_updated_and_appended(spark: SparkSession, table: DeltaTable) -> None:
    with table.transaction() as txn:
        upsert(txn, frame(spark, (3, 1), (5, 50)))
        txn.append(frame(spark, (6, 60)))
        upsert(txn, frame(spark, (3, 1), (5, 1), (6, 1), (7, 70)))
        txn.alias("t").merge(frame(spark, (7, 0)).alias("s"), "t.k = s.k").whenNotMatchedBySourceDelete("t.k = 5").execute()
    assert rows(table) == [(1, 10), (2, 20), (3, 32), (6, 61), (7, 70)]


def test_what_merge_execute_answers_inside_a_transaction(spark: SparkSession, table: DeltaTable) -> None:
    with table.transaction() as txn:
        merge = txn.alias("t").merge(frame(spark, (1, 1), (9, 90)).alias("s"), "t.k = s.k")
        answer = merge.whenMatchedDelete().whenNotMatchedInsertAll().execute().first()
    assert answer is not None and tuple(answer) == (2, 0, 1, 1)


def test_an_exception_leaves_the_table_as_it_was(spark: SparkSession, table: DeltaTable, table_path: str) -> None:
    with pytest.raises(RuntimeError, match="changed my mind"), table.transaction() as txn:
        txn.delete()
        txn.append(frame(spark, (9, 90)))
        raise RuntimeError("changed my mind")
    assert rows(table) == [(1, 10), (2, 20), (3, 30)]
    assert [f for f in os.listdir(f"{table_path}/_delta_log") if f.endswith(".json")] == [f"{0:020}.json"]
    with pytest.raises(InvalidInput, match="over"):
        txn.delete()


def test_a_statement_that_fails_leaves_the_others_staged(spark: SparkSession, table: DeltaTable) -> None:
    with table.transaction() as txn:
        txn.update("k = 1", {"v": "0"})
        with pytest.raises(MultipleMatches):
            upsert(txn, frame(spark, (2, 1), (2, 2)))
        with pytest.raises(SchemaMismatch):
            txn.append(spark.range(1))
        txn.delete("k = 3")
    assert rows(table) == [(1, 0), (2, 20)]


def test_it_needs_a_block_of_its_own(table: DeltaTable) -> None:
    txn = table.transaction()
    with pytest.raises(InvalidInput, match="in a with statement"):
        txn.delete()
    with txn:
        pass
    with pytest.raises(InvalidInput, match="own"), txn:
        pass
    assert txn.receipt is not None and txn.receipt.version is None, "nothing was changed"


@pytest.mark.parametrize(
    ("knobs", "named"),
    [
        ({"isolation": "chaos"}, "write_serializable"),
        ({"on_conflict": "pray"}, "repair"),
        ({"granularity": "table"}, "file"),
        ({"app_id": "a"}, "app_version"),
        ({"app_id": "a", "app_version": -1}, "0 or more"),
    ],
)
def test_a_wrong_knob_is_refused_when_it_is_set(table: DeltaTable, knobs: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        table.transaction(**knobs)


def test_the_argument_wins_over_the_property(spark: SparkSession, table: DeltaTable) -> None:
    table.setProperties({"rowlock.onConflict": "fail"})
    with table.transaction(on_conflict="repair") as txn:
        txn.update("k = 1", {"v": "v + 1"})
        table.update("k = 1", {"v": "100"})
    assert rows(table)[0] == (1, 101)
    with pytest.raises(DeltaConcurrentModificationException), table.transaction() as txn:
        txn.update("k = 1", {"v": "v + 1"})
        table.update("k = 1", {"v": "200"})
    assert rows(table)[0] == (1, 200)


def test_several_statements_are_rebased_over_winners(spark: SparkSession, table: DeltaTable) -> None:
    """An insert dies, its later image with it; a match comes to life and goes through what follows."""
    with table.transaction() as txn:
        upsert(txn, frame(spark, (2, 1), (8, 80)))
        txn.update("k = 8", {"v": "v + 5"})
        upsert(txn, frame(spark, (8, 1), (2, 1)))
        table.delete("k = 2")
        rowlock.write(frame(spark, (8, 800)), table.detail().first()["location"].removeprefix("file:"))
        table.optimize().executeCompaction()
    assert rows(table) == [(1, 10), (2, 2), (3, 30), (8, 886)]
    assert txn.receipt is not None and txn.receipt.rounds == 1 and txn.receipt.rows_rebased > 0


@pytest.mark.soak("statements by themselves are in test_write_options, several in one transaction above", ci=True)
def test_overwrite_and_replace_where(spark: SparkSession, table: DeltaTable, table_path: str) -> None:
    with table.transaction() as txn:
        txn.append(frame(spark, (4, 40)))
        txn.overwrite(frame(spark, (3, 0), (5, 0)), replace_where="k >= 3")
        with pytest.raises(ConstraintViolated, match="replace_where"):
            txn.overwrite(frame(spark, (1, 0)), replace_where="k >= 3")
        rowlock.write(frame(spark, (7, 70), (0, 0)), table_path)
    assert rows(table) == [(0, 0), (1, 10), (2, 20), (3, 0), (5, 0)]
    rowlock.write(frame(spark, (1, 1)), table_path, mode="overwrite", replace_where=F.col("k") < 3)
    assert rows(table) == [(1, 1), (3, 0), (5, 0)]
    with table.transaction() as txn:
        txn.append(frame(spark, (6, 6)))
        txn.overwrite(frame(spark, (9, 9)))
    assert rows(table) == [(9, 9)]


@pytest.mark.soak("half a million rows; the same ways with limits turned down are in test_routes and the swarm")
def test_large_results_pass_through_later_statements(spark: SparkSession, table_path: str) -> None:
    """Over 100,000 rows are written by Spark where they will live; later statements and winners still change them."""
    rowlock.write(spark.range(300_000).selectExpr("id as k", "0L as v"), table_path)
    table = DeltaTable.forPath(spark, table_path)
    with table.transaction() as txn:
        txn.update("k < 250000", {"v": "v + 1"})
        txn.append(spark.range(300_000, 450_000).selectExpr("id as k", "0L as v"))
        txn.update("k % 2 = 0", {"v": "v + 10"})
        txn.alias("t").merge(
            spark.range(440_000, 600_000).selectExpr("id as k", "100L as v").alias("s"), "t.k = s.k"
        ).whenMatchedDelete().whenNotMatchedInsertAll().execute()
        assert txn.toDF().agg(F.count("*"), F.sum("v")).first() == (590_000, 250_000 + 2_200_000 + 15_000_000)
    with table.transaction() as txn:
        txn.update("k < 200000", {"v": "v + 1"})
        txn.update("k < 200000 and k % 2 = 1", {"v": "v + 2"})
        table.delete("k < 1000")
        table.update("k = 1001", {"v": "500"})
        table.optimize().executeCompaction()
    found = table.toDF().selectExpr("count(*)", "sum(v)", "max(case when k = 1001 then v end)").first()
    assert found is not None
    assert tuple(found) == (589_000, 17_450_000 - 1000 - 5000 + 499 + (200_000 - 1000) + 2 * (100_000 - 500), 503)


@pytest.mark.soak("9 s for a source at the limit; limits turned down are asked in test_routes", ci=True)
def test_a_source_as_large_as_it_may_be_meets_staged_rows(spark: SparkSession, table: DeltaTable) -> None:
    with table.transaction() as txn:
        txn.update("k = 1", {"v": "v + 1"})
        upsert(txn, spark.range(1, 150_001).selectExpr("id as k", "1L as v"))
    assert table.toDF().count() == 150_000
    assert rows(table)[:4] == [(1, 12), (2, 21), (3, 31), (4, 1)]


# ---- what was read --------------------------------------------------------------------------


def test_run_runs_again_where_what_was_read_has_changed(spark: SparkSession, table: DeltaTable) -> None:
    calls = []

    def to_the_mean(txn: Any) -> None:
        mean = int(txn.toDF().agg(F.avg("v")).first()[0])
        txn.update(set={"v": str(mean)})
        if not calls:
            table.update("k = 1", {"v": "v + 30"})
        calls.append(mean)

    receipt = rowlock.run(table, to_the_mean)
    assert calls == [20, 30] and receipt.version == 2
    assert rows(table) == [(1, 30), (2, 30), (3, 30)]


@pytest.mark.soak("that it runs again is in the test before it", ci=True)
def test_run_gives_up_after_its_retries_and_at_once_under_fail(table: DeltaTable) -> None:
    calls = []

    def always_too_late(txn: Any) -> None:
        calls.append(txn.toDF().count())
        txn.update(set={"v": "v + 1"})
        table.update("k = 1", {"v": "v + 1"})

    with pytest.raises(DeltaConcurrentModificationException, match="read the table"):
        rowlock.run(table, always_too_late, retries=2)
    assert len(calls) == 3
    with pytest.raises(DeltaConcurrentModificationException):
        rowlock.run(table, always_too_late, on_conflict="fail")
    assert len(calls) == 4


def test_a_move_is_no_change_of_what_was_read(spark: SparkSession, table: DeltaTable, table_path: str) -> None:
    rowlock.write(frame(spark, (4, 40)), table_path)
    with table.transaction() as txn:
        highest = txn.toDF().agg(F.max("k")).first()[0]
        txn.append(frame(spark, (highest + 1, 0)))
        table.optimize().executeCompaction()
    assert rows(table)[-1] == (5, 0)
    assert txn.receipt is not None and txn.receipt.rounds == 1


def test_a_source_that_reads_the_target_is_validated(spark: SparkSession, table: DeltaTable, table_path: str) -> None:
    """Rowlock's frames stay at the version that they were made at; a statement over another one would mix two."""
    table.toDF().createOrReplaceTempView("same")
    sources = [
        rowlock.read(spark, table_path).where("k = 1"),
        table.toDF().groupBy("k").agg(F.sum("v").alias("v")),
        spark.sql("select 1L as k, (select max(v) from same) as v"),
    ]
    merges = [table.alias("t").merge(source.alias("s"), "t.k = s.k").whenMatchedUpdate(set={"v": "s.v + 1"}) for source in sources]
    merges[0].execute()
    assert rows(table)[0] == (1, 11)
    for merge, source in zip(merges, sources, strict=True):
        with pytest.raises(DeltaConcurrentModificationException, match="read from this table at version 0"):
            merge.execute()
        with pytest.raises(DeltaConcurrentModificationException, match="read from this table at version 0"):
            rowlock.write(source, table_path)
    rowlock.write(table.toDF().selectExpr("k + 10 as k", "v"), table_path)
    assert table.toDF().count() == 6
    assert table.history(1).first()["isBlindAppend"] is False


@pytest.mark.parametrize("reader", ["rowlock", "delta"])
@pytest.mark.short(
    ci=(
        "rowlock",
        "delta",
    ),
    why="such a source is validated in the test before it, and read once in test_semantics",
)
def test_a_source_that_reads_the_target_meets_a_winner(spark: SparkSession, table: DeltaTable, table_path: str, reader: str) -> None:
    with pytest.raises(DeltaConcurrentModificationException, match="concurrent commit changed what it read"), table.transaction() as txn:
        source = spark.read.format("delta").load(table_path) if reader == "delta" else table.toDF()
        txn.append(source.selectExpr("k + 10 as k", "v"))
        table.update("k = 2", {"v": "v + 1"})
    assert rows(table) == [(1, 10), (2, 21), (3, 30)]
    source = spark.read.format("delta").load(table_path) if reader == "delta" else table.toDF()
    rowlock.write(source, table_path, mode="overwrite")
    assert rows(table) == [(1, 10), (2, 21), (3, 30)]


def test_a_blind_append_says_so_and_only_it(spark: SparkSession, table: DeltaTable) -> None:
    def blind() -> Any:
        return table.history(1).first()["isBlindAppend"]

    with table.transaction() as txn:
        txn.append(frame(spark, (7, 70)))
    assert blind() is True
    with table.transaction() as txn:
        txn.append(frame(spark, (8, 80)))
        txn.toDF()
    assert blind() is False
    with table.transaction() as txn:
        txn.update("k = 1000", {"v": "0"})
        txn.append(frame(spark, (9, 90)))
    assert blind() is False


# ---- steps of applications ------------------------------------------------------------------


def test_the_same_batch_given_twice_counts_once(spark: SparkSession, table: DeltaTable, table_path: str) -> None:
    for _ in range(2):
        with table.transaction(app_id="stream", app_version=4) as txn:
            txn.update("k = 1", {"v": "v + 1"})
            txn.append(frame(spark, (4, 40)))
    assert txn.receipt is not None and txn.receipt.already_committed and txn.receipt.version is None
    for _ in range(2):
        receipt = rowlock.write(frame(spark, (5, 50)), table_path, app_id="stream", app_version=5)
    assert receipt.already_committed
    assert rows(table) == [(1, 11), (2, 20), (3, 30), (4, 40), (5, 50)]
    assert not rowlock.write(frame(spark, (6, 60)), table_path, app_id="another", app_version=0).already_committed
    assert spark.read.format("delta").load(table_path).count() == 6


def test_a_step_on_the_way_to_a_table_that_is_made(spark: SparkSession, table_path: str) -> None:
    for _ in range(2):
        receipt = rowlock.write(frame(spark, (1, 1)), table_path, app_id="loader", app_version=0)
    assert receipt.already_committed
    assert rowlock.write(frame(spark, (1, 1)), table_path, mode="error", app_id="loader", app_version=0).already_committed, "it made the table"
    with pytest.raises(TableExists):
        rowlock.write(frame(spark, (1, 1)), table_path, mode="error", app_id="loader", app_version=1)
    assert rowlock.read(spark, table_path).count() == 1


def test_two_writers_of_one_application(spark: SparkSession, table: DeltaTable, table_path: str) -> None:
    """The later one finds its step in the log, or that its rival is at an earlier one."""
    with table.transaction(app_id="stream", app_version=7) as txn:
        txn.append(frame(spark, (7, 70)))
        rowlock.write(frame(spark, (7, 70)), table_path, app_id="stream", app_version=7)
    assert txn.receipt is not None and txn.receipt.already_committed
    assert table.toDF().where("k = 7").count() == 1
    with pytest.raises(ConcurrentTransactionException), table.transaction(app_id="stream", app_version=9) as txn:
        txn.append(frame(spark, (9, 90)))
        rowlock.write(frame(spark, (8, 80)), table_path, app_id="stream", app_version=8)
    with pytest.raises(ConcurrentTransactionException), table.transaction(app_id="stream", app_version=9, on_conflict="fail") as txn:
        txn.append(frame(spark, (9, 90)))
        rowlock.write(frame(spark, (9, 90)), table_path, app_id="stream", app_version=9)
    assert rows(table)[3:] == [(7, 70), (8, 80), (9, 90)]


# ---- rerun ----------------------------------------------------------------------------------


@pytest.mark.soak("a policy; on Spark it is in test_failed_attempts, too", ci=True)
def test_under_rerun_a_statement_runs_again(spark: SparkSession, table: DeltaTable) -> None:
    from rowlock.transaction.state.phases import Observer, use_observer

    table.setProperties({"rowlock.onConflict": "rerun"})
    staged = []

    class Winner(Observer):
        def phase(self, name: str, txn: Any) -> None:
            if name == "staged":
                staged.append(txn.read_version)
                if len(staged) == 1:
                    with use_observer(Observer()):
                        table.update("k = 1", {"v": "v + 100"})

    with use_observer(Winner()):
        table.update("k = 1", {"v": "v * 2"})
    assert rows(table)[0] == (1, 220)
    assert staged == [1, 2]
