"""uuid(), rand() and their like in the values of a MERGE: drawn once for each row, by every way and after every rebase, and never one value twice (I3)."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession, functions as F

import rowlock
from rowlock import DeltaTable
from rowlock.exceptions import InvalidInput, StatementRefused
from rowlock.transaction.state.phases import use_observer
from spark.support import ROUTES, Interloper, make, read, take_route, unchanged, winner

pytestmark = pytest.mark.spark
FEED = {"delta.enableChangeDataFeed": "true"}
COPIES = {**FEED, "delta.enableDeletionVectors": "false"}
BY_CELL = {"delta.enableRowTracking": "true", "delta.enableDeletionVectors": "true", "rowlock.onConflict": "lockless"}


def keyed(spark: SparkSession, path: str, **properties: str) -> DeltaTable:
    """Rows 0 to 29 whose key `k` is null, and `g`, which is computed from it."""
    made = DeltaTable.create(spark).location(path).addColumn("id", "bigint").addColumn("k", "string").addColumn("n", "bigint")
    made = made.addColumn("g", "string", generatedAlwaysAs="concat(k, '!')")
    for name, value in properties.items():
        made = made.property(name, value)
    made.execute()
    for first in (0, 10, 20):
        rowlock.write(spark.range(first, first + 10, 1, 1).selectExpr("id", "cast(null as string) as k", "-id - 1 as n"), path)
    return DeltaTable.forPath(spark, path)


def give_keys(table: DeltaTable, source: Any) -> None:
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdate(set={"k": "uuid()", "n": "monotonically_increasing_id()"})
    merge = merge.whenNotMatchedInsert(values={"id": "s.id", "k": "uuid()", "n": "1000000 + monotonically_increasing_id()"})
    merge.whenNotMatchedBySourceUpdate("t.id < 10", {"k": F.concat(F.lit("r"), F.rand())}).execute()


def images(spark: SparkSession, path: str) -> set[tuple[Any, ...]]:
    """Every new image in the change feed, without the table's first rows."""
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 4).load(path)
    return {(r["id"], r["k"], r["n"], r["g"]) for r in feed.where("_change_type in ('insert', 'update_postimage')").collect()}


class Staged(Interloper):
    """Remembers the rows on the driver that a transaction has staged, by their ids, before the other writers come."""

    rows: dict[int, Any]

    def phase(self, name: str, txn: Any) -> None:
        if name == "staged" and not self.busy:
            tables = [table for b in txn.effects.blocks if b.kind != "matched" for table in b.payload.tables]
            self.rows = {r["id"]: r["k"] for table in tables for r in table.to_pylist()}
        super().phase(name, txn)


@pytest.mark.parametrize(
    ("route", "properties"), [*((route, FEED) for route in ROUTES), ("large", COPIES), ("driver", BY_CELL), ("mixed", {"rowlock.onConflict": "rerun"})]
)
@pytest.mark.short(
    "driver-properties0",
    "large-properties2",
    ci=(
        "driver-properties4",
        "mixed-properties5",
    ),
    why="one more layout",
)
def test_every_row_has_a_key_of_its_own_after_a_rebase(spark, tmp_path, monkeypatch, route, properties) -> None:
    """Beside the MERGE others take rows that it matched, so that their source rows insert, change some, and add some that it matches then."""
    path = str(tmp_path / "t")
    with monkeypatch.context() as patch:
        table = keyed(spark, path, **properties)
        take_route(patch, route)
        others = (
            () if "lockless" in properties.values() else (lambda: rowlock.write(spark.range(40, 43, 1, 1).selectExpr("id", "'theirs' as k", "-id as n"), path),)
        )
        with winner(lambda: DeltaTable.forPath(spark, path).delete("id in (20, 21)"), lambda: DeltaTable.forPath(spark, path).delete("id = 22"), *others):
            give_keys(table, spark.range(15, 45))
    rows = {r["id"]: r for r in rowlock.read(spark, path).collect()}
    assert sorted(rows) == [n for n in range(45) if n not in ((20, 21, 22) if "lockless" in properties.values() else ())]
    drawn = [r for n, r in rows.items() if n < 10 or n >= 15]
    assert all(r["k"] is not None and r["g"] == r["k"] + "!" for r in drawn)
    assert len({r["k"] for r in drawn}) == len(drawn) and "theirs" not in {r["k"] for r in drawn}
    assert len({r["n"] for r in rows.values()}) == len(rows)
    if FEED.keys() <= properties.keys():
        assert {(n, r["k"], r["n"], r["g"]) for n, r in rows.items() if r in drawn} <= images(spark, path)


def test_what_was_staged_stays(spark, table_path) -> None:
    table = keyed(spark, table_path)
    staged = Staged(lambda: DeltaTable.forPath(spark, table_path).update("id in (16, 17)", {"n": "7"}))
    with use_observer(staged):
        give_keys(table, spark.range(15, 35))
    rows = {r["id"]: r["k"] for r in rowlock.read(spark, table_path).collect()}
    changed = {n for n, k in staged.rows.items() if rows[n] != k}
    assert len(staged.rows) == 30 and changed == {16, 17}, "only rows that another writer changed are drawn anew"


def test_one_draw_for_all_that_reads_it(spark: SparkSession, tmp_path: Path) -> None:
    """A struct is taken apart where its fields are cast, a bounded string is read several times, and both are the value that was drawn."""
    path = str(tmp_path / "t")
    made = DeltaTable.create(spark).location(path).addColumn("id", "bigint").addColumn("pair", "struct<a: bigint, b: bigint>").addColumn("c", "varchar(40)")
    made.addColumn("two", "array<string>").addColumn("sum", "bigint", generatedAlwaysAs="pair.a + pair.b").execute()
    values = {
        "id": "s.id",
        "pair": "element_at(transform(sequence(0, 99), x -> named_struct('a', x, 'b', -x)), cast(rand() * 100 as int) + 1)",
        "c": "uuid()",
        "two": "transform(array(1, 2), x -> cast(rand() as string))",
    }
    DeltaTable.forPath(spark, path).alias("t").merge(spark.range(50).alias("s"), "t.id = s.id").whenNotMatchedInsert(values=values).execute()
    rows = rowlock.read(spark, path).collect()
    assert len(rows) == 50 and all(r["pair"]["a"] == -r["pair"]["b"] and r["sum"] == 0 for r in rows)
    assert len({r["c"] for r in rows}) == 50 and len({v for r in rows for v in r["two"]}) == 100


@pytest.mark.soak("more functions; one of each way of drawing stays", ci=True)
def test_functions_of_every_kind(spark: SparkSession, table_path: str) -> None:
    """Each in two columns: two calls are two draws, also of functions of a user's own."""
    drawn = F.udf(lambda _: str(uuid.uuid4())).asNondeterministic()
    make(spark, table_path, [], "id bigint, a string, b string")
    table = DeltaTable.forPath(spark, table_path)
    kinds: list[Any] = ["uuid()", "randn()", "randstr(20)", "uniform(0d, 1d)", "reflect('java.util.UUID', 'randomUUID')"]
    pairs = [(k, k) for k in kinds] + [(drawn(F.col("s.id")), drawn(F.col("s.id"))), (drawn(F.rand()), drawn(F.rand()))]
    for n, (a, b) in enumerate(pairs):
        source = spark.range(n * 10, n * 10 + 3).alias("s")
        table.alias("t").merge(source, "t.id = s.id").whenNotMatchedInsert(values={"id": "s.id", "a": a, "b": b}).execute()
    rows = rowlock.read(spark, table_path).collect()
    assert len({v for r in rows for v in (r["a"], r["b"])}) == 2 * len(rows) == 6 * len(pairs)


def test_the_time_is_one_and_a_seed_repeats_itself(spark: SparkSession, table_path: str) -> None:
    make(spark, table_path, [], "id bigint, r double, at timestamp")
    table = DeltaTable.forPath(spark, table_path)
    for first in (0, 10):
        values = {"id": "s.id", "r": "rand(7)", "at": "current_timestamp()"}
        table.alias("t").merge(spark.range(first, first + 5).alias("s"), "t.id = s.id").whenNotMatchedInsert(values=values).execute()
    rows = rowlock.read(spark, table_path).collect()
    assert {r["r"] for r in rows if r["id"] < 10} == {r["r"] for r in rows if r["id"] >= 10}
    assert len({r["r"] for r in rows}) == 5 and len({r["at"] for r in rows}) == 2


@pytest.mark.soak("statements by themselves stay above", ci=True)
def test_several_statements_in_one_transaction(spark: SparkSession, table_path: str) -> None:
    table = keyed(spark, table_path)
    with table.transaction() as txn:
        for first in (0, 25):
            source = spark.range(first, first + 15).alias("s")
            merge = txn.alias("t").merge(source, "t.id = s.id").whenMatchedUpdate(set={"k": "uuid()"})
            merge.whenNotMatchedInsert(values={"id": "s.id", "k": "uuid()"}).execute()
        txn.update("id = 3", {"n": "length(k)"})
    rows = {r["id"]: r for r in rowlock.read(spark, table_path).collect()}
    drawn = [r["k"] for n, r in rows.items() if n < 15 or n >= 25]
    assert len(rows) == 40 and len(set(drawn)) == 30 and rows[3]["n"] == 36


@pytest.mark.parametrize(
    ("where", "value"), [("s.id > 0 and rand() < 2", "'a'"), (None, "input_file_name()"), (None, "uuid() || (select max(id) from range(3))")]
)
def test_refused_by_name(spark: SparkSession, table_path: str, where: str | None, value: str) -> None:
    table = make(spark, table_path, [(1, "a")], "id bigint, k string")
    with unchanged(table_path), pytest.raises(StatementRefused):
        table.alias("t").merge(spark.range(3).alias("s"), "t.id = s.id").whenMatchedUpdate(where, {"k": value}).whenNotMatchedInsert(
            values={"id": "s.id"}
        ).execute()


def test_no_assignments_are_a_statement_too(spark: SparkSession, table_path: str) -> None:
    """As with delta-spark an UPDATE of nothing counts its rows, an INSERT of no values adds nulls, and a clause that updates nothing of any row is no clause."""
    kept = make(spark, table_path, [(1, 2), (2, 3)], "a int, b int")
    kept.update("a = 1", {})
    assert kept.lastReceipt.metrics["numUpdatedRows"] == 1
    merge = kept.alias("t").merge(spark.sql("select 1 a union all select 9").alias("s"), "t.a = s.a")
    with pytest.raises(InvalidInput, match="WHEN"):
        merge.whenMatchedUpdate(set={}).execute()
    merge.whenMatchedUpdate("true", {}).whenMatchedDelete().whenNotMatchedBySourceUpdate(set={}).whenNotMatchedInsert(values={}).execute()
    assert read(spark, table_path) == [(1, 2), (2, 3), (None, None)]
