"""rowlock.sql: the same statements on any session, here one with delta-spark, without a class of Rowlock's in the JVM (I3, I9)."""

from __future__ import annotations

import pytest

import rowlock
from rowlock.exceptions import StatementRefused, TableNotFound, UnsupportedFeature


@pytest.fixture
def sales(spark, table_path):
    rowlock.write(spark.createDataFrame([(1, "eu", 10.0), (2, "eu", 20.0), (3, "us", 30.0)], "id bigint, region string, amount double"), table_path)
    return f"delta.`{table_path}`"


def rows(frame):
    return [tuple(r) for r in frame.collect()]


def test_statements_and_queries(spark, sales):
    assert rows(rowlock.sql(spark, f"UPDATE {sales} AS t SET amount = t.amount + 1 WHERE t.region = :r", {"r": "us"})) == [(1,)]
    assert rows(rowlock.sql(spark, f"DELETE FROM {sales} WHERE id = ?", [1])) == [(1,)]
    merge = f"WITH s AS (SELECT id + 1 AS id FROM {sales}) MERGE INTO {sales} t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET region = 'met' WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)"
    assert rows(rowlock.sql(spark, merge)) == [(2, 1, 0, 1)]
    assert rows(rowlock.sql(spark, f"INSERT INTO {sales} SELECT 9, 'new', 1")) == []
    found = rowlock.sql(spark, f"SELECT id, region, amount FROM {sales} WHERE id IN (SELECT id FROM {sales}) ORDER BY id")
    assert rows(found) == [(2, "eu", 20.0), (3, "met", 31.0), (4, None, None), (9, "new", 1.0)]
    assert rows(rowlock.sql(spark, f"SELECT count(*) FROM {sales} VERSION AS OF 0")) == [(3,)]
    assert [r.operation for r in rowlock.sql(spark, f"DESCRIBE HISTORY {sales} LIMIT 2").collect()] == ["WRITE", "MERGE"]
    rowlock.sql(spark, f"OPTIMIZE {sales}")
    assert rowlock.sql(spark, f"DESCRIBE DETAIL {sales}").first()["numFiles"] == 1


def test_what_is_not_on_a_delta_table_is_left_to_spark(spark, sales, tmp_path):
    with pytest.raises(UnsupportedFeature, match=r"Use spark\.sql"):
        rowlock.sql(spark, f"INSERT OVERWRITE DIRECTORY '{tmp_path}/x' USING parquet SELECT 1")
    with pytest.raises(TableNotFound):
        rowlock.sql(spark, f"OPTIMIZE delta.`{tmp_path}/none`")
    assert rows(rowlock.sql(spark, "SELECT 1 AS one")) == [(1,)]


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("UPDATE {t} SET amount = (SELECT 1)", StatementRefused),
        ("DELETE FROM {t} WHERE id IN (SELECT 1)", StatementRefused),
        ("TRUNCATE TABLE {t} PARTITION (region = 'eu')", UnsupportedFeature),
        ("FROM {t} INSERT INTO {t} SELECT * INSERT INTO {t} SELECT *", UnsupportedFeature),
        ("REORG TABLE {t} APPLY (PURGE)", UnsupportedFeature),
        ("DROP TABLE {t}", UnsupportedFeature),
    ],
)
def test_refused_by_name(spark, sales, statement, error):
    with pytest.raises(error):
        rowlock.sql(spark, statement.replace("{t}", sales))
    assert rows(rowlock.sql(spark, f"SELECT count(*) FROM {sales}")) == [(3,)]


def test_enable_is_refused_beside_delta_spark(spark):
    with pytest.raises(UnsupportedFeature, match="delta-spark's JAR"):
        rowlock.enable(spark)
