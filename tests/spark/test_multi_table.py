"""`rowlock.transaction([a, b])` on Spark: every verb, SQL, sources that read the other table, run, read_together; read by delta-spark, deltalake and DuckDB (I1, I3)."""

from __future__ import annotations

import datetime
import os
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import rowlock
from rowlock import DeltaTable
from rowlock.api import handle
from rowlock.exceptions import DeltaConcurrentModificationException, InvalidInput, UnsupportedFeature, WrongType
from rowlock.storage.open import open_store
from rowlock.transaction.state.phases import Observer, use_observer
from support.arbiter import arbitrated

Made = Callable[..., DeltaTable]


@pytest.fixture
def make(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    arbitrated(monkeypatch)

    def made(name: str, **columns: Any) -> DeltaTable:
        path = str(tmp_path / name)
        rowlock.append(path, pa.table(columns), properties={"delta.enableDeletionVectors": "true"})
        return DeltaTable.forPath(spark, path)

    return made


@pytest.fixture
def tables(make: Made) -> tuple[DeltaTable, DeltaTable]:
    return make("orders", id=[1, 2], sku=[7, 8], n=[1, 1]), make("stock", sku=[7, 8, 9], n=[10, 10, 10])


def rows(t: DeltaTable) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, t.toDF().collect()), key=str)


def path(t: DeltaTable) -> str:
    return t._handle.path


def test_every_verb_in_one_transaction(spark: SparkSession, tables: tuple[DeltaTable, DeltaTable]) -> None:
    orders, stock = tables
    with rowlock.transaction([orders, stock], user_metadata="a sale") as txn:
        txn[stock].update("sku = 7", {"n": "n - 1"})
        txn[stock].delete("sku = 9")
        txn[orders].append(spark.createDataFrame([(3, 7, 1)], "id bigint, sku bigint, n bigint"))
        source = spark.createDataFrame([(2, 5), (4, 5)], "id bigint, n bigint").alias("s")
        txn[orders].alias("t").merge(source, "t.id = s.id").whenMatchedUpdate(set={"n": "s.n"}).whenNotMatchedInsert(
            values={"id": "s.id", "n": "s.n"}
        ).execute()
        assert txn[orders].toDF().count() == 4 and rows(orders) == [(1, 7, 1), (2, 8, 1)], "the block sees its own changes, and nobody else does"
        assert txn.receipt is None
    assert rows(orders) == [(1, 7, 1), (2, 8, 5), (3, 7, 1), (4, None, 5)]
    assert rows(stock) == [(7, 9), (8, 10)]
    receipt = txn.receipt
    assert receipt is not None and receipt.versions == {path(orders): 1, path(stock): 1} and receipt.pending == ()
    for t in tables:
        last = t.history(1).first()
        assert last is not None and last["userMetadata"] == "a sale"
        assert deltalake.DeltaTable(path(t)).version() == 1
        seen = duckdb.sql(f"select count(*) from delta_scan('{path(t)}')").fetchone()
        assert seen is not None and seen[0] == t.toDF().count() == spark.read.format("delta").load(path(t)).count()
    assert "committed together" in repr(receipt) and "MultiTableTransaction" in repr(txn)


def test_sql_on_names_and_paths(spark: SparkSession, tables: tuple[DeltaTable, DeltaTable]) -> None:
    orders, stock = tables
    with rowlock.transaction([orders, stock]) as txn:
        assert txn.sql(f"UPDATE delta.`{path(stock)}` SET n = n - :k WHERE sku = 8", {"k": 3}).collect()[0][0] == 1
        txn.sql(f"INSERT INTO delta.`{path(orders)}` SELECT 9, sku, 10 - n FROM delta.`{path(stock)}` WHERE n < 10")
        txn.sql(f"DELETE FROM delta.`{path(orders)}` WHERE id = 1")
        txn.sql(f"MERGE INTO delta.`{path(stock)}` t USING (SELECT 7 sku) s ON t.sku = s.sku WHEN MATCHED THEN UPDATE SET n = 0")
        assert txn.sql(f"SELECT sum(n) FROM delta.`{path(stock)}`").collect()[0][0] == 17
        with pytest.raises(InvalidInput, match="cannot be part of"):
            txn.sql(f"OPTIMIZE delta.`{path(stock)}`")
        with pytest.raises(InvalidInput, match="cannot be part of"):
            txn.sql(f"ALTER TABLE delta.`{path(stock)}` SET TBLPROPERTIES ('rowlock.lock' = 'none')")
    assert rows(orders) == [(2, 8, 1), (9, 8, 3)] and rows(stock) == [(7, 0), (8, 7), (9, 10)]


@pytest.mark.parametrize("how", ["frame", "sql", "frame of before"])
@pytest.mark.short(
    "sql",
    ci=(
        "frame",
        "frame of before",
    ),
    why="the same source as a frame",
)
def test_a_source_that_reads_the_other_table_is_a_read_of_it(spark: SparkSession, tables: tuple[DeltaTable, DeltaTable], how: str) -> None:
    """Orders are written from what stock said: where stock changes meanwhile, the transaction may not be committed, though it writes to orders alone."""
    orders, stock = tables
    before = stock.toDF()
    with pytest.raises(DeltaConcurrentModificationException) as raised, rowlock.transaction([orders, stock]) as txn:
        if how == "sql":
            txn.sql(f"INSERT INTO delta.`{path(orders)}` SELECT 5, sku, n FROM delta.`{path(stock)}` WHERE sku = 9")
        else:
            frame = txn[stock].toDF() if how == "frame" else before
            txn[orders].append(frame.selectExpr("5L AS id", "sku", "n").where("sku = 9"))
        stock.update("sku = 9", {"n": "0"})
    assert raised.value.table == path(stock)
    assert len(rows(orders)) == 2


def test_run_runs_again_and_the_second_time_sees_the_winner(spark: SparkSession, tables: tuple[DeltaTable, DeltaTable]) -> None:
    orders, stock = tables
    runs = []

    def order(txn: rowlock.MultiTableTransaction) -> None:
        left = txn[stock].toDF().where("sku = 7").first()
        assert left is not None
        txn[orders].append(spark.createDataFrame([(5, 7, left["n"])], "id bigint, sku bigint, n bigint"))
        runs.append(left["n"])
        if len(runs) == 1:
            stock.update("sku = 7", {"n": "4"})

    receipt = rowlock.run([orders, stock], order)
    assert runs == [10, 4] and (5, 7, 4) in rows(orders) and receipt.versions == {path(orders): 1}


@pytest.mark.soak("12 transfers by threads; the engine in memory does the same in tests/contract/arbiter", ci=True)
def test_transfers_by_threads_beside_a_reader(spark: SparkSession, make: Made) -> None:
    """I3: the sum over both tables is always the same for who reads them together."""
    a, b = make("a", k=[1, 2], v=[100, 100]), make("b", k=[1, 2], v=[100, 100])
    done = threading.Event()

    def write(n: int) -> None:
        source, target = (a, b) if n % 2 else (b, a)
        for i in range(3):

            def move(txn: rowlock.MultiTableTransaction, amount: int = n + i) -> None:
                txn[source].update(f"k = {n % 2 + 1}", {"v": f"v - {amount}"})
                txn[target].update(f"k = {n % 2 + 1}", {"v": f"v + {amount}"})

            rowlock.run([a, b], move)

    def read() -> int:
        seen = 0
        while not done.is_set():
            assert sum(frame.agg({"v": "sum"}).first()[0] for frame in rowlock.read_together([a, b])) == 400  # type: ignore[index]
            seen += 1
        return seen

    with ThreadPoolExecutor(5) as pool:
        reader = pool.submit(read)
        try:
            for each in [pool.submit(write, n) for n in range(4)]:
                each.result()
        finally:
            done.set()
        assert reader.result() > 0
    assert sum(v for t in (a, b) for _, v in rows(t)) == 400 and len(a.history().collect()) == 13


def test_read_together_as_of_a_time_is_not_torn(spark: SparkSession, tables: tuple[DeltaTable, DeltaTable]) -> None:
    """The two files of a transaction have times of their own; where one is before the time asked for, both are read."""
    orders, stock = tables
    for n in (1, 2):
        with rowlock.transaction([orders, stock]) as txn:
            txn[orders].append(spark.createDataFrame([(10 + n, 7, n)], "id bigint, sku bigint, n bigint"))
            txn[stock].update("sku = 7", {"n": "n - 1"})
    for t, times in ((orders, (1_000, 2_000, 3_000)), (stock, (1_000, 2_050, 3_050))):
        for version, at in enumerate(times):
            os.utime(f"{path(t)}/_delta_log/{version:020d}.json", (1_700_000_000 + at, 1_700_000_000 + at))
    for at, wanted in ((2_010, (3, 9)), (1_500, (2, 10)), (2_990, (3, 9)), (3_010, (4, 8))):
        moment = datetime.datetime.fromtimestamp(1_700_000_000 + at, datetime.UTC)
        first, second = rowlock.read_together(tables, timestamp=moment)
        assert (first.count(), second.where("sku = 7").first()["n"]) == wanted  # type: ignore[index]


@pytest.mark.soak("the engine in memory leaves both in tests/contract/arbiter", ci=True)
def test_an_exception_in_the_block_leaves_both(spark: SparkSession, tables: tuple[DeltaTable, DeltaTable]) -> None:
    orders, stock = tables
    with pytest.raises(ZeroDivisionError), rowlock.transaction([orders, stock]) as txn:
        txn[stock].delete()
        txn[orders].delete()
        raise ZeroDivisionError
    assert len(rows(orders)) == 2 and len(rows(stock)) == 3 and txn.receipt is None


@pytest.mark.soak("steps of applications are in tests/contract/arbiter, on the engine in memory", ci=True)
def test_a_step_of_an_application(spark: SparkSession, tables: tuple[DeltaTable, DeltaTable]) -> None:
    orders, stock = tables
    for n in range(2):
        with rowlock.transaction([orders, stock], app_id="loader", app_version=3) as txn:
            txn[stock].update("sku = 7", {"n": "n - 1"})
            txn[orders].append(spark.createDataFrame([(3, 7, 1)], "id bigint, sku bigint, n bigint"))
        assert txn.receipt is not None and txn.receipt.already_committed == bool(n)
    assert rows(stock)[0] == (7, 9) and len(rows(orders)) == 3


@pytest.mark.soak("4 threads in line; the first statements stay", ci=True)
def test_leases_of_all_tables_are_taken_first(spark: SparkSession, tables: tuple[DeltaTable, DeltaTable]) -> None:
    orders, stock = tables

    def move(n: int) -> None:
        first, second = (orders, stock) if n % 2 else (stock, orders)
        with rowlock.transaction([first, second], lock="table", lock_timeout=60) as txn:
            txn[first].update(set={"n": "n + 1"})
            txn[second].update(set={"n": "n + 1"})
        assert txn.receipt is not None
        attempts.append(max(r.attempts for r in txn.receipt.tables.values()))

    attempts: list[int] = []
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(move, range(4)))
    assert attempts == [1] * 4 and rows(stock)[0] == (7, 14) and rows(orders)[0] == (1, 7, 5)


@pytest.mark.parametrize("statement", ["OPTIMIZE delta.`{}`", "UPDATE delta.`{}` SET n = 0 WHERE sku = 8", "DELETE FROM delta.`{}` WHERE sku = 7"])
@pytest.mark.short(
    "UPDATE delta.`{}` SET n = 0 WHERE sku = 8",
    ci=(
        "OPTIMIZE delta.`{}`",
        "DELETE FROM delta.`{}` WHERE sku = 7",
    ),
    why="other statements of delta-spark as the winner",
)
def test_tables_on_a_local_disk_beside_delta_spark(spark: SparkSession, tmp_path: Path, statement: str) -> None:
    """Without an arbiter: what delta-spark does to a prepared table comes after the transaction, of which no other row is lost."""
    tracked = {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"}
    for name in ("a", "b"):
        for sku in (7, 8, 9):
            rowlock.append(str(tmp_path / name), pa.table({"sku": [sku], "n": [10]}), properties=tracked)
    home, other = sorted((DeltaTable.forPath(spark, str(tmp_path / name)) for name in ("a", "b")), key=lambda t: t._handle.state.refresh().metadata.id)
    text, met = statement.format(path(other)), []

    class Between(Observer):
        def phase(self, name: str, txn: Any) -> None:
            if name == "prepared" and not met:
                met.append(spark.sql(text).collect())

    with use_observer(Between()), rowlock.transaction([other, home]) as txn:
        txn[other].update("sku < 9", {"n": "n - 1"})
        txn[other].append(spark.createDataFrame([(10, 1)], "sku bigint, n bigint"))
        txn[home].delete("sku = 9")
    receipt = txn.receipt
    assert met and receipt is not None and len(receipt.versions) == 2 and receipt.pending == ()
    left = {"OPTIMIZE": [(10, 1), (7, 9), (8, 9), (9, 10)], "UPDATE": [(10, 1), (7, 9), (8, 0), (9, 10)], "DELETE": [(10, 1), (8, 9), (9, 10)]}[text.split()[0]]
    assert rows(other) == left and rows(home) == [(7, 10), (8, 10)]
    for t in (home, other):
        assert sorted(map(tuple, spark.read.format("delta").load(path(t)).collect()), key=str) == rows(t)
        assert sorted(duckdb.sql(f"select * from delta_scan('{path(t)}')").fetchall(), key=str) == rows(t)
    assert len({r["_row_id"] for r in rowlock.read(spark, path(other), with_row_ids=True).collect()}) == len(left)


def test_a_field_that_another_engine_adds_meanwhile(spark: SparkSession, tmp_path: Path) -> None:
    """The transaction was void in this table; model/test_two_phase.py has the other changes of columns."""
    home, part = str(tmp_path / "home"), str(tmp_path / "part")
    rowlock.append(home, pa.table({"sku": [1], "n": [1]}), properties={"rowlock.order": "-1"})
    properties = "'delta.enableDeletionVectors' = 'true', 'delta.enableRowTracking' = 'true'"
    spark.sql(f"CREATE TABLE delta.`{part}` (sku BIGINT, n INT, s STRUCT<x: INT>) USING delta TBLPROPERTIES ({properties})")
    spark.sql(f"INSERT INTO delta.`{part}` SELECT 7L, 1, named_struct('x', 1)")

    class Between(Observer):
        def phase(self, name: str, txn: Any) -> None:
            if name == "prepared":
                spark.sql(f"ALTER TABLE delta.`{part}` ADD COLUMNS (s.y INT)").collect()

    with use_observer(Between()), rowlock.transaction([DeltaTable.forPath(spark, p) for p in (part, home)]) as txn:
        txn.sql(f"INSERT INTO delta.`{part}` SELECT 9L, 5, named_struct('x', 1)").collect()
        txn[home].update(set={"n": "n + 1"})
    assert '"void":true' not in open_store(part).get("_delta_log/00000000000000000004.json").decode()
    assert sorted(r["sku"] for r in spark.read.format("delta").load(part).collect()) == [7, 9] == sorted(rowlock.to_arrow(part)["sku"].to_pylist())


FEATURES: dict[str, tuple[str, str, str]] = {
    "in-commit timestamps": ("sku BIGINT, n BIGINT", "", "'delta.enableInCommitTimestamps' = 'true'"),
    "column mapping": ("sku BIGINT, n BIGINT, `a b.c` STRING", "", "'delta.columnMapping.mode' = 'name'"),
    "partitions": ("sku BIGINT, n BIGINT, p DATE", "PARTITIONED BY (p)", ""),
    "clustering": ("sku BIGINT, n BIGINT", "CLUSTER BY (sku)", ""),
    "generated": ("sku BIGINT, n BIGINT, twice BIGINT GENERATED ALWAYS AS (n * 2)", "", ""),
    "check": ("sku BIGINT NOT NULL, n BIGINT", "", "'delta.constraints.positive' = 'n > 0'"),
    "V2 checkpoints": ("sku BIGINT, n BIGINT", "", "'delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '2'"),
    "nested": ("sku BIGINT, n BIGINT, s STRUCT<x: ARRAY<INT>, y: MAP<STRING, INT>>", "", ""),
}


_LONG = pytest.mark.soak(
    "twelve seconds of a processor for each kind of table; column mapping runs each time, the steps on each are in model/test_two_phase.py"
)


@pytest.mark.parametrize("feature", [pytest.param(name, marks=() if name == "column mapping" else _LONG) for name in FEATURES])
@pytest.mark.short(
    ci=("column mapping",), why="20 s; statements of a transaction over several tables stay above, and in tests/contract/arbiter/test_multi_table.py"
)
def test_what_was_prepared_is_what_the_statements_alone_would_be(spark: SparkSession, tmp_path: Path, feature: str) -> None:
    """On a table of each kind that is not the home, with an OPTIMIZE of another engine meanwhile and without; delta-spark and Rowlock read the same."""
    columns, layout, properties = FEATURES[feature]
    more = "".join(
        f", {value}"
        for name, value in {"p DATE": "DATE '2026-01-01'", "a b.c": "'x'", "s STRUCT": "struct(array(1) AS x, map('k', 1) AS y)"}.items()
        if name in columns
    )
    found = []
    for kind in ("alone", "together", "optimized meanwhile"):
        home, part = str(tmp_path / f"{kind} home"), str(tmp_path / kind)
        rowlock.append(home, pa.table({"sku": [1], "n": [1]}), properties={"rowlock.order": "-1"})
        tracked = "'delta.enableDeletionVectors' = 'true', 'delta.enableRowTracking' = 'true'" + (f", {properties}" if properties else "")
        rowlock.sql(spark, f"CREATE TABLE delta.`{part}` ({columns}) USING delta {layout} TBLPROPERTIES ({tracked})")
        named = "(sku, n)" if "GENERATED" in columns else ""
        for sku in (7, 8):
            rowlock.sql(spark, f"INSERT INTO delta.`{part}` {named} SELECT {sku}, 10{more}")
        statements = [
            f"UPDATE delta.`{part}` SET n = n + 1 WHERE sku = 7",
            f"INSERT INTO delta.`{part}` {named} SELECT 9, 5{more}",
            f"DELETE FROM delta.`{part}` WHERE sku = 8",
            f"UPDATE delta.`{part}` SET n = n * 3 WHERE sku > 8",
        ]
        met = []

        class Between(Observer):
            def phase(self, name: str, txn: Any) -> None:
                if name == "prepared" and kind == "optimized meanwhile":  # noqa: B023
                    met.append(spark.sql(f"OPTIMIZE delta.`{part}`").collect())  # noqa: B023

        if kind == "alone":
            for text in statements:
                rowlock.sql(spark, text)
        else:
            with use_observer(Between()), rowlock.transaction([DeltaTable.forPath(spark, p) for p in (part, home)]) as txn:
                for text in statements:
                    txn.sql(text).collect()
                txn[home].update(set={"n": "n + 1"})
            assert txn.receipt is not None and not txn.receipt.pending and set(txn.receipt.versions) == {part, home}
        assert len(met) == (kind == "optimized meanwhile")
        read = sorted(map(str, rowlock.read(spark, part).collect()))
        assert sorted(map(str, spark.read.format("delta").load(part).collect())) == read
        ids = [r["_row_id"] for r in rowlock.read(spark, part, with_row_ids=True).collect()]
        assert len(set(ids)) == len(ids) == 2
        found.append(read)
    assert found[0] == found[1] == found[2] and len(found[0]) == 2


def test_mistakes(spark: SparkSession, tables: tuple[DeltaTable, DeltaTable], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    orders, stock = tables
    rowlock.append(str(tmp_path / "plain"), pa.table({"k": [1]}))
    with monkeypatch.context() as patch:
        patch.setattr(handle, "open_store", open_store)
        plain = DeltaTable.forPath(spark, str(tmp_path / "plain"))
    with pytest.raises(UnsupportedFeature, match="without a common DynamoDB arbiter"), rowlock.transaction([orders, plain]) as both:
        both[orders].update("id = 1", {"n": "n + 1"})
        both[plain].update(set={"k": "k + 1"})
    for wrong in (orders, "x", 7):
        with pytest.raises(WrongType):
            rowlock.transaction(wrong)
    with pytest.raises(InvalidInput, match="at least two"), rowlock.transaction([orders]):
        pass
    with pytest.raises(InvalidInput, match="named twice"), rowlock.transaction([orders, stock, orders]):
        pass
    with pytest.raises(InvalidInput, match="wait 'everywhere else'"):
        rowlock.transaction([orders, stock], wait="everywhere else")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="wait is for"):
        rowlock.run(orders, lambda _: None, wait="decided")  # type: ignore[call-overload]
    txn = rowlock.transaction([orders, stock], wait="decided")
    with pytest.raises(InvalidInput, match="not begun"):
        txn[orders]
    with txn:
        with pytest.raises(InvalidInput, match="not over this table"):
            txn[plain]
        with pytest.raises(InvalidInput, match="not over this table"):
            txn.sql(f"DELETE FROM delta.`{path(plain)}`")
    with pytest.raises(InvalidInput, match="over"):
        txn[orders].delete()
    with pytest.raises(DeltaConcurrentModificationException), rowlock.transaction([orders, stock], on_conflict="fail", granularity="file") as txn:
        txn[stock].update("sku = 7", {"n": "0"})
        txn[orders].delete("id = 1")
        stock.update("sku = 8", {"n": "0"})
    assert len(rows(orders)) == 2


@pytest.mark.soak("every block of docs/multi-table.md; the calls are each in a test of their own", ci=True)
def test_the_code_of_the_guide_runs(spark: SparkSession, tables: tuple[DeltaTable, DeltaTable], make: Made, tmp_path: Path) -> None:
    orders, stock = tables
    orders.setProperties({"delta.enableChangeDataFeed": "true"})
    blocks = re.findall(r"```python\n(.*?)```", (Path(__file__).parents[2] / "docs" / "multi-table.md").read_text(), flags=re.DOTALL)
    names: dict[str, Any] = {"rowlock": rowlock, "spark": spark, "orders": orders, "stock": stock, "orders_path": path(orders)}
    names |= {
        "order": spark.createDataFrame([(3, 7, 1)], "id bigint, sku bigint, n bigint"),
        "bookmarks": make("bookmarks", job=["orders to stock"], version=[1]),
    }
    blocks = [b.replace("2026-11-20 08:00:00", datetime.datetime.now().isoformat(sep=" ")) for b in blocks]
    for block in [*blocks, *blocks, blocks[-1]]:  # the last time nothing is new
        exec(block, names)
    assert names["receipt"].versions == {}
    assert rows(names["bookmarks"]) == [("orders to stock", 3)] and rows(stock)[0] == (7, 6), "two sales, each counted once more by the pipeline"
