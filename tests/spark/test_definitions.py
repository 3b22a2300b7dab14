"""Columns and constraints changed through Rowlock, beside writers in flight; delta-spark reads what comes of it (I3, I9)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

import rowlock
from rowlock import DeltaTable
from rowlock.exceptions import ConstraintViolated, InvalidInput, SchemaMismatch, StatementRefused
from spark.support import delta_rows, make, read, unchanged, winner

pytestmark = pytest.mark.spark
ROWS = [(n, n * 10, "ab"[n % 2]) for n in range(6)]
SCHEMA = "id int, v int, p string"
MAPPED = {"delta.columnMapping.mode": "name"}


def test_a_constraint_is_asked_of_every_row_and_then_enforced(spark: SparkSession, table_path: str) -> None:
    table = make(spark, table_path, ROWS, SCHEMA, files=3)
    table.delete("id = 5")
    with unchanged(table_path), pytest.raises(ConstraintViolated, match="v < 40"):
        table.addConstraint("low", "v < 40")
    table.addConstraint("low", "v < 50")  # the row with 50 is deleted
    with pytest.raises(ConstraintViolated, match="low"):
        table.update("id = 1", {"v": "50"})
    with pytest.raises(Exception, match="CHECK constraint low"):
        spark.sql(f"UPDATE delta.`{table_path}` SET v = 50 WHERE id = 1")
    with unchanged(table_path), pytest.raises(InvalidInput, match="LOW"):
        table.addConstraint("LOW", "v < 100")
    table.dropConstraint("Low")
    with unchanged(table_path), pytest.raises(InvalidInput, match="no constraint"):
        table.dropConstraint("low")
    table.dropConstraint("low", ifExists=True)
    table.update("id = 1", {"v": "50"})
    assert (1, 50, "b") in delta_rows(spark, table_path)


@pytest.mark.parametrize("condition", ["v <", "nothing > 0", "v > (select 1)", "v > rand()", "v + 1", "max(v) > 0", "p", "v"])
@pytest.mark.short(
    "v <",
    "nothing > 0",
    "v > (select 1)",
    "v > rand()",
    "p",
    ci=(
        "v + 1",
        "max(v) > 0",
        "v",
    ),
    why="more texts that are no condition",
)
def test_a_condition_that_cannot_be_one_is_refused(spark: SparkSession, table_path: str, condition: str) -> None:
    table = make(spark, table_path, ROWS, SCHEMA)
    with unchanged(table_path), pytest.raises(StatementRefused):
        table.addConstraint("bad", condition)


@pytest.mark.parametrize(("brought", "fits"), [("100", False), ("30", True), ("null", False)])
@pytest.mark.short("100-False", "30-True", ci=("null-False",), why="one more value")
def test_rows_that_others_bring_meanwhile_are_asked_too(spark: SparkSession, table_path: str, brought: str, fits: bool) -> None:
    """A winner's rows, and only they, are looked at when the constraint loses a round."""
    table = make(spark, table_path, ROWS, SCHEMA, files=2)
    other = DeltaTable.forPath(spark, table_path)
    lost = winner(lambda: other.update("id = 3", {"v": brought}))
    if fits:
        with lost:
            table.addConstraint("low", "v < 60")
        assert table.lastReceipt is not None and table.lastReceipt.rounds == 1
    else:
        with lost, pytest.raises(ConstraintViolated, match="low"):
            table.addConstraint("low", "v < 60")
    assert ("delta.constraints.low" in table.detail().first()["properties"]) == fits


def test_a_column_is_added_beside_an_append(spark: SparkSession, table_path: str) -> None:
    table = make(spark, table_path, ROWS, SCHEMA)
    with winner(lambda: rowlock.write(spark.createDataFrame([(9, 90, "a")], SCHEMA), table_path)):
        table.addColumn("note", "string", comment="said of the row")
    with winner(lambda: DeltaTable.forPath(spark, table_path).addColumn("more", "struct<x: int>")):
        rowlock.write(spark.createDataFrame([(10, 100, "b", "new")], SCHEMA + ", note string"), table_path)
    assert rowlock.read(spark, table_path).columns == ["id", "v", "p", "note", "more"]
    assert (10, 100, "b", "new", None) in delta_rows(spark, table_path) and (9, 90, "a", None, None) in delta_rows(spark, table_path)
    with unchanged(table_path), pytest.raises(SchemaMismatch, match="same name"):
        table.addColumn("NOTE", "int")
    with unchanged(table_path), pytest.raises(InvalidInput):
        table.addColumn("other", "no such type")


def test_columns_are_renamed_and_dropped(spark: SparkSession, table_path: str) -> None:
    table = make(spark, table_path, ROWS, SCHEMA, partition_by=["p"], **MAPPED)
    table.renameColumn("v", "value")
    table.renameColumn("p", "part")
    rowlock.write(spark.createDataFrame([(7, 70, "a")], "id int, value int, part string"), table_path)
    assert rowlock.read(spark, table_path).columns == ["id", "value", "part"]
    assert sorted(r["value"] for r in rowlock.read(spark, table_path).where("part = 'a'").collect()) == [0, 20, 40, 70]
    refused: list[tuple[type[Exception], Callable[[], None]]] = [
        (StatementRefused, lambda: table.dropColumns("part")),
        (SchemaMismatch, lambda: table.dropColumns("nothing")),
        (SchemaMismatch, lambda: table.renameColumn("value", "ID")),
        (SchemaMismatch, lambda: table.dropColumns("id", "value")),
    ]
    for error, statement in refused:
        with unchanged(table_path), pytest.raises(error):
            statement()
    table.addConstraint("positive", "value >= 0")
    for statement in (lambda: table.dropColumns("value"), lambda: table.renameColumn("value", "v")):
        with unchanged(table_path), pytest.raises(StatementRefused, match="value"):
            statement()
    table.dropConstraint("positive")
    table.dropColumns("value")
    table.addColumn("value", "string")
    assert {r["value"] for r in rowlock.read(spark, table_path).collect()} == {None}, "a new column, whatever it is called"


def test_what_needs_a_mapping_is_refused_without_one(spark: SparkSession, table_path: str) -> None:
    table = make(spark, table_path, ROWS, SCHEMA)
    for statement in (lambda: table.renameColumn("v", "w"), lambda: table.dropColumns("v")):
        with unchanged(table_path), pytest.raises(StatementRefused, match=r"delta\.columnMapping\.mode"):
            statement()


def test_not_null_is_asked_and_taken_back(spark: SparkSession, table_path: str) -> None:
    table = make(spark, table_path, [*ROWS, (8, None, "a")], SCHEMA, files=2)
    with unchanged(table_path), pytest.raises(ConstraintViolated, match="v"):
        table.alterColumn("v", nullable=False)
    table.delete("v is null")
    with winner(lambda: DeltaTable.forPath(spark, table_path).update("id = 1", {"v": "null"})), pytest.raises(ConstraintViolated):
        table.alterColumn("v", nullable=False)
    table.update("id = 1", {"v": "11"})
    table.alterColumn("v", nullable=False, comment="a number")
    field = rowlock.read(spark, table_path).schema["v"]
    assert field.metadata["comment"] == "a number"
    with pytest.raises(ConstraintViolated):
        table.update("id = 2", {"v": "null"})
    with pytest.raises(Exception, match="NOT NULL"):
        spark.sql(f"UPDATE delta.`{table_path}` SET v = null WHERE id = 2")
    table.alterColumn("v", nullable=True)
    table.update("id = 2", {"v": "null"})
    assert (2, None, "a") in delta_rows(spark, table_path)


@pytest.mark.no_peers("deltalake and DuckDB do not read tables with type widening")
def test_conditions_find_decimals_that_were_written_with_fewer_digits(spark: SparkSession, table_path: str) -> None:
    """Spark hands a condition to Parquet's readers cut to the digits of the file: 42949672.97 is 0.01 there, and in a file of Rowlock too long."""
    spark.sql(f"CREATE TABLE delta.`{table_path}` (d DECIMAL(9, 2)) USING delta TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    spark.sql(f"INSERT INTO delta.`{table_path}` VALUES (1.23)")  # as a whole number of 32 bits
    rowlock.sql(spark, f"INSERT INTO delta.`{table_path}` VALUES (4.56)")  # as bytes
    rowlock.sql(spark, f"ALTER TABLE delta.`{table_path}` ALTER COLUMN d TYPE DECIMAL(18, 2)")
    rowlock.sql(spark, f"INSERT INTO delta.`{table_path}` VALUES (9999999999999999.99)")
    found = {where: sorted(str(r.d) for r in rowlock.read(spark, table_path).where(where).collect()) for where in ("d < 42949672.97", "d > 42949672.97")}
    assert found == {"d < 42949672.97": ["1.23", "4.56"], "d > 42949672.97": ["9999999999999999.99"]}
    DeltaTable.forPath(spark, table_path).update("d < 42949672.97", {"d": "d + 1"})
    assert sorted(str(r.d) for r in rowlock.read(spark, table_path).collect()) == ["2.23", "5.56", "9999999999999999.99"]


@pytest.mark.no_peers("deltalake and DuckDB do not read tables with type widening")
def test_a_type_is_widened(spark: SparkSession, table_path: str) -> None:
    table = make(spark, table_path, ROWS, SCHEMA, **{"delta.enableTypeWidening": "true"})
    with winner(lambda: DeltaTable.forPath(spark, table_path).update("id = 1", {"v": "5"})):
        table.alterColumn("v", dataType="bigint")
    table.update("id = 2", {"v": "5000000000"})
    assert read(spark, table_path) == delta_rows(spark, table_path)
    assert {r["id"]: r["v"] for r in rowlock.read(spark, table_path).collect()} == {0: 0, 1: 5, 2: 5000000000, 3: 30, 4: 40, 5: 50}
    for wrong in ("int", "string", "float"):
        with unchanged(table_path), pytest.raises(SchemaMismatch):
            table.alterColumn("v", dataType=wrong)
    rowlock.sql(spark, f"ALTER TABLE delta.`{table_path}` REPLACE COLUMNS (id bigint, p string, v bigint)")
    assert rowlock.read(spark, table_path).dtypes == [("id", "bigint"), ("p", "string"), ("v", "bigint")]
    plain = make(spark, table_path + "_plain", ROWS, SCHEMA)
    with unchanged(table_path + "_plain"), pytest.raises(StatementRefused, match="enableTypeWidening"):
        plain.alterColumn("v", dataType="bigint")
