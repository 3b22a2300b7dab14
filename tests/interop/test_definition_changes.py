"""delta-spark changes the table's definition by ALTER TABLE while a statement of ours is staged: every cell of the matrix that is about it.  I3.

Each outcome is the serial one: the statement after the change.  Where the statement would have been refused
then, it is refused, the table stays readable, and nothing was published.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rowlock
from interop.peer_tables import sql
from interop.readers import rows_by_all
from rowlock import DeltaTable
from rowlock.exceptions import MetadataChangedException, SchemaMismatch
from rowlock.transaction.state.receipt import Receipt
from spark.support import read, take_route, winner

pytestmark = [
    pytest.mark.spark,
    pytest.mark.soak("ALTERs of delta-spark; what a winner's ALTER does to each statement is in tests/unit/conflict and the schedules"),
]

ROWS = "select id, id * 10 as v, concat('n', id) as note, named_struct('x', id, 'y', id) as s from range({}, {})"
Statement = Callable[[SparkSession, DeltaTable, str], Any]


def merge(spark: SparkSession, table: DeltaTable) -> Any:
    return table.alias("t").merge(spark.range(3, 8).selectExpr("id", "id + 1000 as v").alias("s"), "t.id = s.id")


OURS: dict[str, Statement] = {
    "append": lambda spark, table, path: rowlock.write(spark.sql("select id + 20 as id, id as v from range(3)"), path),
    "append of all": lambda spark, table, path: rowlock.write(spark.sql(ROWS.format(30, 32)), path),
    "update": lambda spark, table, path: table.update("id >= 4", {"v": "v + 1"}),
    "merge": lambda spark, table, path: (
        merge(spark, table).whenMatchedUpdate(set={"v": "s.v"}).whenNotMatchedInsert(values={"id": "s.id", "v": "s.v"}).execute()
    ),
    "optimize": lambda spark, table, path: table.optimize().executeCompaction(),
}
WINNERS = {
    "new columns, one of them filled": [
        "ALTER TABLE T ADD COLUMN extra string FIRST",
        "ALTER TABLE T ADD COLUMN s.z int",
        "UPDATE T SET extra = 'e' WHERE id = 4",
    ],
    "renamed column": ["ALTER TABLE T RENAME COLUMN note TO remark"],
    "dropped columns": ["ALTER TABLE T DROP COLUMN note", "ALTER TABLE T DROP COLUMN s.y"],
    "words, a constraint, a protocol": [
        "ALTER TABLE T ALTER COLUMN v COMMENT 'a number'",
        "ALTER TABLE T ADD CONSTRAINT small CHECK (v < 100000)",
        "ALTER TABLE T SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true', 'delta.checkpointInterval' = '20')",
    ],
}
REFUSED = {("append of all", "renamed column"), ("append of all", "dropped columns")}
"""The rows have a column that the table has no longer."""
STAGED_AGAIN = {"update", "merge"}


def make(spark: SparkSession, path: str) -> DeltaTable:
    rowlock.write(spark.sql(ROWS.format(0, 3)), path, properties={"delta.columnMapping.mode": "name"})
    rowlock.write(spark.sql(ROWS.format(3, 6)), path)
    return DeltaTable.forPath(spark, path)


@pytest.mark.parametrize("name", WINNERS)
@pytest.mark.soak(
    "20 s each, a table and a twin for each of five statements; what a winner's ALTER does to each is in tests/unit/conflict and the schedules",
)
def test_cell(spark: SparkSession, table_path: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    if name == "dropped columns":
        take_route(monkeypatch, "large")
    apart = tmp_path_factory.mktemp("apart")
    old, changed = str(apart / "old"), str(apart / "changed")
    make(spark, old)
    shutil.copytree(old, changed)  # a table is its folder
    sql(spark, changed, *WINNERS[name])
    for ours, statement in OURS.items():
        path, twin = f"{table_path}/{ours}", f"{apart}/{ours}"
        shutil.copytree(old, path)
        table = DeltaTable.forPath(spark, path)
        if (ours, name) in REFUSED:
            with winner(lambda path=path: sql(spark, path, *WINNERS[name])), pytest.raises(SchemaMismatch, match="note"):
                statement(spark, table, path)
            continue
        with winner(lambda path=path: sql(spark, path, *WINNERS[name])):
            got = statement(spark, table, path)
        receipt = got if isinstance(got, Receipt) else table.lastReceipt
        assert receipt.rounds == (0 if ours in STAGED_AGAIN and not name.startswith("words") else 1), (ours, name)
        shutil.copytree(changed, twin)
        statement(spark, DeltaTable.forPath(spark, twin), twin)
        assert read(spark, path) == read(spark, twin), (ours, name)


def test_a_transaction_of_a_block_names_the_column(spark: SparkSession, table_path: str) -> None:
    """It cannot be staged again by itself; given as a function it is."""
    table = make(spark, table_path)
    with pytest.raises(MetadataChangedException, match="note") as lost, table.transaction() as txn:
        txn.update("id = 1", {"v": "v + 1"})
        sql(spark, table_path, "ALTER TABLE T RENAME COLUMN note TO remark")
    assert lost.value.conflict.columns == ("note",)
    winners = iter(["ALTER TABLE T DROP COLUMN remark"])

    def work(txn: Any) -> None:
        txn.update("id = 1", {"v": "v + 1"})
        if (statement := next(winners, None)) is not None:
            sql(spark, table_path, statement)

    rowlock.run(table, work)
    assert [r[1] for r in rows_by_all(spark, table_path) if r[0] == 1] == [11]


def test_a_wider_write_meets_a_new_column(spark: SparkSession, table_path: str) -> None:
    """Both add columns: ours is added to what the winner made, and ids are given once."""
    make(spark, table_path)
    with winner(lambda: sql(spark, table_path, "ALTER TABLE T ADD COLUMN theirs int")):
        rowlock.write(spark.sql("select 9L as id, 'us' as ours"), table_path, merge_schema=True)
    assert (9, None, None, None, None, "us") in read(spark, table_path)
    ids = [f.column_id for f in rowlock.DeltaTable.forPath(spark, table_path)._handle.state.refresh().schema.fields]
    assert len(set(ids)) == len(ids) == 6


def test_an_optimize_under_a_new_name(spark: SparkSession, table_path: str) -> None:
    """Rows that were taken together before their column got another name and another one came."""
    table = make(spark, table_path)
    with winner(lambda: sql(spark, table_path, "ALTER TABLE T RENAME COLUMN note TO remark", "ALTER TABLE T ADD COLUMN extra int AFTER id")):
        table.optimize().executeCompaction()
    assert table.lastReceipt.rounds == 1
    assert (2, None, 20, "n2", (2, 2)) in read(spark, table_path)
