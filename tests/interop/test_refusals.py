"""What this version cannot write is refused by its name, and nothing is written; what it can read of it, it reads.  I9."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

import rowlock
from interop.peer_tables import sql
from interop.readers import assert_same_rows, by_delta_spark, commit_files, rows_by_all, rows_of
from rowlock.exceptions import UnsupportedFeature

pytestmark = pytest.mark.spark

ROWS = "select id, id * 2 as v from range(10)"


def created(columns: str, layout: str = "") -> Callable[[SparkSession, str], None]:
    """A table whose columns are special; it holds the rows 0 to 9."""

    def by_delta_spark(spark: SparkSession, path: str) -> None:
        sql(spark, path, f"CREATE TABLE T ({columns}) USING delta {layout}", "INSERT INTO T (id, v) SELECT id, id * 2 FROM range(10)")

    return by_delta_spark


def renamed_within(spark: SparkSession, path: str) -> None:
    """A table whose bounds name a field that is called otherwise since."""
    created("id bigint, v bigint, c STRUCT<a: CHAR(3)>", "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")(spark, path)
    sql(spark, path, "ALTER TABLE T RENAME COLUMN c.a TO z")


WRITING: dict[str, tuple[str, Callable[[SparkSession, str], None]]] = {
    "lengths": ("char and varchar columns (the bounds of c would not be enforced)", renamed_within),
}


@pytest.mark.parametrize("name", WRITING)
def test_writing(spark: SparkSession, table_path: str, name: str) -> None:
    feature, maker = WRITING[name]
    maker(spark, table_path)
    before = commit_files(table_path)
    assert_same_rows(rows_of(rowlock.read(spark, table_path).toArrow()), rows_of(by_delta_spark(spark, table_path)), "rowlock", "delta-spark")
    table = rowlock.DeltaTable.forPath(spark, table_path)
    rows = rowlock.read(spark, table_path).limit(1)
    statements: dict[str, Callable[[], object]] = {
        "append": lambda: rowlock.write(rows, table_path),
        "overwrite": lambda: rowlock.write(rows, table_path, mode="overwrite"),
        "update": lambda: table.update("id = 1", {"v": "0"}),
        "delete": lambda: table.delete("id = 1"),
        "merge": lambda: table.alias("t").merge(rows.alias("s"), "t.id = s.id").whenMatchedDelete().execute(),
        "optimize": lambda: table.optimize().executeCompaction(),
        "setProperties": lambda: table.setProperties({"rowlock.granularity": "file"}),
    }
    for statement, run in statements.items():
        refused = refusal(run)
        assert refused is not None, f"{statement} was not refused"
        assert (refused.access, refused.feature) == ("write", feature), statement
        assert feature in str(refused) and table_path in str(refused)
    assert commit_files(table_path) == before


def refusal(run: Callable[[], object]) -> UnsupportedFeature | None:
    try:
        run()
    except UnsupportedFeature as e:
        return e
    return None


@pytest.mark.no_peers("deltalake and DuckDB do not read variants")
def test_variants_of_delta_spark_are_read(spark: SparkSession, table_path: str) -> None:
    sql(
        spark,
        table_path,
        "CREATE TABLE T (id bigint, x variant) USING delta",
        """INSERT INTO T SELECT id, parse_json('{"a": ' || id || ', "b": [null]}') FROM range(5)""",
        "INSERT INTO T VALUES (9, null)",
    )
    ours, theirs = (
        sorted(map(tuple, f.selectExpr("id", "to_json(x)").collect())) for f in (rowlock.read(spark, table_path), spark.read.format("delta").load(table_path))
    )
    assert ours == theirs and ours[1] == (1, '{"a":1,"b":[null]}') and ours[-1] == (9, None)
    assert rowlock.read(spark, table_path).where("variant_get(x, '$.a', 'int') = 3").count() == 1
    arrow = rowlock.to_arrow(table_path)
    whole = rowlock.read(spark, table_path).where("x IS NOT NULL").toArrow()  # PySpark itself fails where a variant is null
    assert rows_of(arrow.filter(arrow["x"].is_valid())) == rows_of(whole) and arrow["x"].null_count == 1


@pytest.mark.parametrize("name", ["lengths"])
def test_what_is_replaced_is_no_longer_in_the_way(spark: SparkSession, table_path: str, name: str) -> None:
    """REPLACE takes away what hindered, since the new definition does not have it; delta-spark goes on with the table."""
    WRITING[name][1](spark, table_path)
    rowlock.DeltaTable.replace(spark).location(table_path).addColumn("id", "bigint").addColumn("v", "bigint").execute()
    rowlock.write(spark.sql("select 1L as id, -5L as v"), table_path)
    sql(spark, table_path, "INSERT INTO T VALUES (2, 7)", "UPDATE T SET v = 8 WHERE id = 2")
    assert rows_by_all(spark, table_path) == [(1, -5), (2, 8)]


def test_features_that_are_listed_but_not_in_use_hinder_nobody(spark: SparkSession, table_path: str) -> None:
    listed = ["checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping", "identityColumns", "allowColumnDefaults", "inCommitTimestamp"]
    given = ", ".join(f"'delta.feature.{feature}' = 'supported'" for feature in listed)
    spark.sql(f"CREATE TABLE delta.`{table_path}` USING delta TBLPROPERTIES ({given}) AS {ROWS}")
    rowlock.DeltaTable.forPath(spark, table_path).update("id < 3", {"v": "v + 1"})
    sql(spark, table_path, "DELETE FROM T WHERE id = 2")
    assert rows_by_all(spark, table_path)[:3] == [(0, 1), (1, 3), (3, 6)]
