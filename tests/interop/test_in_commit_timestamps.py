"""In-commit timestamps beside delta-spark, which refuses to go on where a commit lacks one."""

from __future__ import annotations

from itertools import pairwise

import pytest
from pyspark.sql import SparkSession

import rowlock
from interop.peer_tables import sql
from interop.readers import commit_files, commit_info, rows_by_all
from spark.support import make, winner

pytestmark = [pytest.mark.spark, pytest.mark.soak("20 s of turns with delta-spark; the times of commits are asked in tests/unit/transaction")]


def test_in_turns(spark: SparkSession, table_path: str) -> None:
    """Turned on by delta-spark while an append is staged; then each goes on over the other's commits."""
    table = make(spark, table_path, spark.sql("select id, id as v from range(5)"))
    with winner(lambda: sql(spark, table_path, "ALTER TABLE T SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')")):
        rowlock.write(spark.sql("select 9L as id, 9L as v"), table_path)
    sql(spark, table_path, "UPDATE T SET v = 7 WHERE id = 1")
    table.update("id = 2", {"v": "8"})
    table.setProperties({"delta.checkpointInterval": "20"})
    sql(spark, table_path, "INSERT INTO T VALUES (10, 10)")
    table.delete("id = 0")
    assert len(rows_by_all(spark, table_path)) == 6
    times = [t for c in commit_files(table_path) if (t := commit_info(c).get("inCommitTimestamp"))]
    assert len(times) == 7 and all(a < b for a, b in pairwise(times))
    assert rowlock.read(spark, table_path, version=3).count() == 6


def test_new_and_turned_on_by_us(spark: SparkSession, table_path: str) -> None:
    rowlock.write(spark.range(3), f"{table_path}/a", properties={"delta.enableInCommitTimestamps": "true"})
    table = make(spark, f"{table_path}/b", spark.sql("select id from range(3)"))
    table.setProperties({"delta.enableInCommitTimestamps": "true"})
    for name in ("a", "b"):
        sql(spark, f"{table_path}/{name}", "INSERT INTO T VALUES (7)")
        history = spark.sql(f"DESCRIBE HISTORY delta.`{table_path}/{name}`").collect()
        assert len(history) == len(commit_files(f"{table_path}/{name}"))
