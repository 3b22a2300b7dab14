"""Columns that delta-spark gives a wider type: read as delta-spark reads them, written under the new type, also beside statements in flight (I3)."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import rowlock
from interop.peer_tables import sql
from interop.readers import assert_same_rows, by_delta_spark, rows_of
from rowlock import DeltaTable
from spark.support import read, take_route, winner

pytestmark = [
    pytest.mark.spark,
    pytest.mark.no_peers("deltalake and DuckDB do not read tables with type widening"),
    pytest.mark.soak("half a minute of turns with delta-spark; tests/spark/test_definitions.py widens a type"),
]

COLUMNS = {
    "b": ("tinyint", "int"),
    "i": ("int", "bigint"),
    "f": ("float", "double"),
    "d": ("decimal(6, 2)", "decimal(12, 4)"),
    "n": ("int", "double"),
    "w": ("smallint", "decimal(10, 0)"),
    "t": ("date", "timestamp_ntz"),
}
VALUES = "select cast(id as int) as k, cast(id as tinyint) as b, cast(id * 3 as int) as i, cast(id * 1.1 as float) as f, cast(id / 8 as decimal(6, 2)) as d, cast(id as int) as n, cast(id as smallint) as w, date_add(date'2020-01-01', cast(id as int)) as t from range({}, {})"


def made(spark: SparkSession, path: str) -> DeltaTable:
    columns = ", ".join(f"{n} {before}" for n, (before, _) in COLUMNS.items())
    sql(
        spark,
        path,
        f"CREATE TABLE T (k int, {columns}) USING delta TBLPROPERTIES ('delta.enableTypeWidening' = 'true', 'delta.enableDeletionVectors' = 'true', 'delta.feature.timestampNtz' = 'supported')",
    )
    sql(spark, path, "INSERT INTO T " + VALUES.format(0, 50))
    return DeltaTable.forPath(spark, path)


def widen(spark: SparkSession, path: str) -> None:
    sql(spark, path, *(f"ALTER TABLE T ALTER COLUMN {n} TYPE {after}" for n, (_, after) in COLUMNS.items()))


def same(spark: SparkSession, path: str) -> None:
    assert_same_rows(rows_of(rowlock.read(spark, path).toArrow()), rows_of(by_delta_spark(spark, path)), "rowlock", "delta-spark")


@pytest.mark.parametrize("route", ["driver", "mixed", "large"])
@pytest.mark.short("mixed", why="what differs with the way is in the ones that stay; all three are compared in test_routes")
def test_every_statement_over_old_and_new_files(spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch, route: str) -> None:
    take_route(monkeypatch, route)
    table = made(spark, table_path)
    widen(spark, table_path)
    same(spark, table_path)
    rowlock.write(
        spark.sql(
            "select 100 as k, 1000 as b, 5000000000L as i, 0.1d as f, cast(1234567.1234 as decimal(12, 4)) as d, 0.5d as n, cast(99999 as decimal(10, 0)) as w, timestamp_ntz'2020-01-01 12:00:00' as t"
        ),
        table_path,
    )
    table.update("i >= 60 and i < 5000000000", {"i": "i + 5000000000", "b": "b + 1000"})
    table.update("f > 1.1", {"d": "d + 0.0001"})
    table.delete("f = cast(cast(3.3 as float) as double) or n = 7")
    table.update("t >= timestamp_ntz'2020-02-18 00:00:00'", {"t": "t + interval 1 hour"})
    source = spark.sql("select cast(id * 2 as int) as k, id / 3 as n from range(30)")
    table.alias("t").merge(source.alias("s"), "t.k = s.k").whenMatchedUpdate(set={"n": "s.n"}).whenNotMatchedInsert(values={"k": "s.k", "n": "s.n"}).execute()
    same(spark, table_path)
    before = read(spark, table_path)
    table.optimize().executeCompaction()
    same(spark, table_path)
    assert read(spark, table_path) == before
    found = {r["k"]: r for r in rowlock.read(spark, table_path).collect()}
    assert 3 not in found and 7 not in found and found[20]["i"] == 5000000060 and found[100]["b"] == 1000 and str(found[2]["d"]) == "0.2501"


def test_files_are_not_skipped_by_bounds_of_another_type(spark: SparkSession, table_path: str) -> None:
    """The maximum 4.4 of a float column is 4.400000095... as a double, and is found as such."""
    table = made(spark, table_path)
    widen(spark, table_path)
    table.delete("f > 53.9 and k = 49")
    assert [r[0] for r in read(spark, table_path) if r[0] == 49] == []
    table.delete("f = cast(cast(4.4 as float) as double)")
    assert [r[0] for r in read(spark, table_path) if r[0] == 4] == []
    same(spark, table_path)


@pytest.mark.parametrize("statement", ["append", "update", "merge", "optimize"])
@pytest.mark.short("update", why="20 s each; rows that are staged again")
def test_a_winner_widens_a_column(spark: SparkSession, table_path: str, statement: str) -> None:
    """What was staged is kept or staged again, and the outcome is that of the statement after the change."""
    table = made(spark, table_path)
    sql(spark, table_path, "INSERT INTO T " + VALUES.format(50, 60))
    with winner(lambda: widen(spark, table_path)):
        if statement == "append":
            rowlock.write(spark.sql(VALUES.format(60, 70)), table_path)
        elif statement == "update":
            table.update("i >= 6", {"i": "i + 1"})
        elif statement == "merge":
            table.alias("t").merge(spark.sql(VALUES.format(55, 65)).alias("s"), "t.k = s.k").whenMatchedUpdate(
                set={"i": "s.i + 1"}
            ).whenNotMatchedInsertAll().execute()
        else:
            table.optimize().executeCompaction()
    same(spark, table_path)
    found = {r["k"]: r["i"] for r in rowlock.read(spark, table_path).collect()}
    expected = {
        k: k * 3 + (1 if (statement == "update" and k >= 2) or (statement == "merge" and 55 <= k < 60) else 0)
        for k in range({"append": 70, "merge": 65}.get(statement, 60))
    }
    assert found == expected
    sql(spark, table_path, "UPDATE T SET i = 7000000000 WHERE k = 1")
    same(spark, table_path)
