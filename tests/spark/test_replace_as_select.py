"""CREATE OR REPLACE TABLE ... AS SELECT of a table that is there: its rows and columns in one commit, beside delta-spark and other writers (I1, I3)."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import rowlock
from interop.readers import rows_by_all
from rowlock import DeltaTable
from rowlock.exceptions import ConcurrentDeleteReadException, DeltaConcurrentModificationException
from spark.support import data_files, make, read, version, winner

pytestmark = pytest.mark.spark


def test_rows_and_columns_are_replaced_in_one_commit_and_delta_spark_goes_on(spark: SparkSession, table_path: str) -> None:
    t = f"delta.`{table_path}`"
    make(spark, table_path, [(1, "a"), (2, "b")], "id int, s string", **{"delta.enableRowTracking": "true"})
    with winner(lambda: rowlock.append(table_path, pa.table({"id": pa.array([9], pa.int32())}))):  # replaced with the rest
        rowlock.sql(
            spark,
            f"CREATE OR REPLACE TABLE {t} USING delta PARTITIONED BY (p) TBLPROPERTIES ('delta.enableRowTracking' = 'true') AS SELECT id AS k, id % 2 AS p FROM range(4)",
        )
    assert read(spark, table_path) == [(0, 0), (1, 1), (2, 0), (3, 1)]
    assert DeltaTable.forPath(spark, table_path).history(1).first()["operation"] == "CREATE OR REPLACE TABLE AS SELECT"
    spark.sql(f"INSERT INTO {t} VALUES (4, 0)")
    spark.sql(f"CREATE OR REPLACE TABLE {t} USING delta AS SELECT k, 'theirs' AS who FROM {t} WHERE p = 0")
    rowlock.sql(spark, f"REPLACE TABLE {t} USING delta AS SELECT k + 10 AS k, who FROM {t}")
    assert rows_by_all(spark, table_path) == [(10, "theirs"), (12, "theirs"), (14, "theirs")]
    assert len(rowlock.read(spark, table_path, version=version(table_path) - 1).collect()) == 3


def test_a_table_that_is_made_of_its_own_rows_loses_nobodys_commit(spark: SparkSession, table_path: str) -> None:
    """What was read is what is replaced: where others committed meanwhile, the conflict is raised and nothing is written."""
    t = f"delta.`{table_path}`"
    make(spark, table_path, [(1,), (2,)], "id int")
    statement = f"CREATE OR REPLACE TABLE {t} USING delta AS SELECT id * 10 AS id FROM {t}"
    with (
        winner(lambda: rowlock.append(table_path, pa.table({"id": pa.array([3], pa.int32())}))),
        pytest.raises(ConcurrentDeleteReadException, match="would be replaced"),
    ):
        rowlock.sql(spark, statement)
    assert read(spark, table_path) == [(1,), (2,), (3,)]
    rowlock.sql(spark, statement)
    assert rows_by_all(spark, table_path) == [(10,), (20,), (30,)]
    with winner(lambda: rowlock.append(table_path, pa.table({"id": pa.array([4], pa.int32())}))):  # a version that is named is what it was
        rowlock.sql(spark, f"CREATE OR REPLACE TABLE {t} USING delta AS SELECT id FROM {t} VERSION AS OF 1")
    assert rows_by_all(spark, table_path) == [(1,), (2,)]


def test_defaults_and_comments_stay_where_a_table_is_replaced_by_its_own_rows(spark: SparkSession, table_path: str) -> None:
    """A table without the feature gets no defaults from the columns that it is made of."""
    t = f"delta.`{table_path}`"
    columns = "id INT COMMENT 'the key', n BIGINT DEFAULT 5"
    rowlock.sql(spark, f"CREATE TABLE {t} ({columns}) USING delta TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')")

    def said() -> tuple[object, ...]:
        schema = DeltaTable.forPath(spark, table_path).toDF().schema
        return schema["id"].metadata.get("comment"), schema["n"].metadata.get("CURRENT_DEFAULT")

    before = said()
    assert before == ("the key", "5")
    rowlock.sql(spark, f"CREATE OR REPLACE TABLE {t} USING delta AS SELECT * FROM {t} WHERE id > 1")
    assert said() == before
    rowlock.write(rowlock.read(spark, table_path), table_path, mode="overwrite", overwrite_schema=True)
    assert said() == before
    rowlock.write(rowlock.read(spark, table_path), table_path + "/copy")
    assert "CURRENT_DEFAULT" not in rowlock.read(spark, table_path + "/copy").schema["n"].metadata


def test_whatever_fails_leaves_no_files(spark: SparkSession, table_path: str) -> None:
    """I10, and sooner: what is not committed takes the new rows with it."""
    make(spark, table_path, [(1,), (2,)], "id int", **{"rowlock.onConflict": "fail"})
    before = data_files(table_path)
    with winner(lambda: rowlock.append(table_path, pa.table({"id": pa.array([3], pa.int32())}))), pytest.raises(DeltaConcurrentModificationException):
        rowlock.sql(spark, f"CREATE OR REPLACE TABLE delta.`{table_path}` USING delta AS SELECT id AS k FROM range(4)")
    assert len(data_files(table_path) - before) == 1, "that of the winner"
