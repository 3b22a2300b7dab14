"""UPDATE, DELETE and MERGE through a temporary view change the rows that the view shows, or are refused (I5)."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rowlock
from rowlock.api.sql.answers import frame_of
from rowlock.exceptions import UnsupportedFeature
from spark.support import make, read, unchanged

pytestmark = pytest.mark.spark


def test_a_view_that_gives_columns_other_names_is_refused(spark: SparkSession, table_path: str) -> None:
    make(spark, table_path, [(1, 10), (2, 20)], "a int, b int")
    spark.sql(f"CREATE OR REPLACE TEMP VIEW swapped(a, b) AS SELECT b, a FROM delta.`{table_path}`")
    spark.sql("CREATE OR REPLACE TEMP VIEW of_swapped AS SELECT * FROM swapped")
    spark.sql(f"CREATE OR REPLACE TEMP VIEW whole AS SELECT * FROM delta.`{table_path}`")
    try:
        for view in ("swapped", "of_swapped"):
            with unchanged(table_path), pytest.raises(UnsupportedFeature, match="under their own names"):
                rowlock.sql(spark, f"DELETE FROM {view} WHERE a = 1")
        rowlock.sql(spark, "UPDATE whole SET b = 11 WHERE a = 1")
        assert read(spark, table_path) == [(1, 11), (2, 20)]
    finally:
        for view in ("swapped", "of_swapped", "whole"):
            spark.catalog.dropTempView(view)


def test_a_view_of_a_frames_own_columns_is_the_table(spark: SparkSession, table_path: str) -> None:
    """Such as `spark.sql("SELECT * FROM t").createOrReplaceTempView("v")`, whose plan is analyzed already."""
    make(spark, table_path, [(1, 10), (2, 20)], "a int, b int")
    whole = frame_of(spark, table_path, {})
    for view, frame in {"chosen": whole.select("b", "a"), "computed": whole.selectExpr("a", "b + 1 AS b"), "lacking": whole.select("a")}.items():
        frame.createOrReplaceTempView(view)
    try:
        rowlock.sql(spark, "UPDATE chosen SET b = 11 WHERE a = 1")
        for view in ("computed", "lacking"):
            with unchanged(table_path), pytest.raises(UnsupportedFeature, match="on a view"):
                rowlock.sql(spark, f"DELETE FROM {view} WHERE a = 1")
    finally:
        for view in ("chosen", "computed", "lacking"):
            spark.catalog.dropTempView(view)
    assert read(spark, table_path) == [(1, 11), (2, 20)]


def test_a_later_view_of_the_tables_name_changes_no_view(spark: SparkSession, table_path: str, tmp_path: Path) -> None:
    """A view goes on to show the table that it was made of, where a temporary view hides that table's name later."""
    other = str(tmp_path / "other")
    for path in (table_path, other):
        make(spark, path, [(1, 10), (2, 20)], "a int, b int")
    spark.sql(f"CREATE TABLE hidden_later USING delta LOCATION '{table_path}'")
    try:
        spark.sql("CREATE OR REPLACE TEMP VIEW shown AS SELECT * FROM hidden_later")
        spark.sql(f"CREATE OR REPLACE TEMP VIEW hidden_later AS SELECT * FROM delta.`{other}`")
        with unchanged(other):
            rowlock.sql(spark, "UPDATE shown SET b = -1 WHERE a = 1")
    finally:
        spark.catalog.dropTempView("hidden_later")
        spark.catalog.dropTempView("shown")
        spark.sql("DROP TABLE hidden_later")
    assert read(spark, table_path) == [(1, -1), (2, 20)]


@pytest.mark.parametrize(
    "statement",
    ["UPDATE {t} SET m = {m} WHERE id = 1", "MERGE INTO {t} t USING (SELECT 1 AS k, {m} AS m) s ON t.id = s.k WHEN MATCHED THEN UPDATE SET m = s.m"],
)
def test_keys_of_maps_that_are_structs_go_by_the_names_of_their_fields(spark: SparkSession, table_path: str, statement: str) -> None:
    make(spark, table_path, [(1, None)], "id int, m map<struct<a: int, b: int>, struct<c: int, d: int>>")
    rowlock.sql(spark, statement.format(t=f"delta.`{table_path}`", m="map(named_struct('b', 2, 'a', 1), named_struct('d', 4, 'c', 3))"))
    assert rowlock.sql(spark, f"SELECT map_keys(m)[0].a, map_values(m)[0].c FROM delta.`{table_path}`").collect() == [(1, 3)]
