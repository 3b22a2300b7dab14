"""Log cleanup beside delta-spark: each reads what the other has cleaned, and goes on from there. I9."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pytest
from delta.tables import DeltaTable as SparkDelta
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import rowlock
from rowlock import DeltaTable
from rowlock.exceptions import VersionNotFound

pytestmark = [pytest.mark.spark, pytest.mark.soak("16 s of turns with delta-spark; tests/unit/log/test_cleanup.py asks what goes and what stays")]


def commits(path: str) -> list[int]:
    return sorted(int(f.name[:20]) for f in Path(path, "_delta_log").glob("0*.json"))


def age(path: str, *, through: int, days: float = 3.1) -> None:
    """Gives the log's files up to a version an older time."""
    for file in Path(path, "_delta_log").glob("0*"):
        if int(file.name[:20]) <= through:
            at = time.time() - days * 86_400 + int(file.name[:20])
            os.utime(file, (at, at))


def values(spark: SparkSession, path: str, version: int | None = None) -> list[int]:
    reader = spark.read.format("delta")
    return sorted(r.k for r in (reader if version is None else reader.option("versionAsOf", version)).load(path).collect())


def test_each_goes_on_from_what_the_other_has_cleaned(spark: SparkSession, table_path: str) -> None:
    """Commits and checkpoints of both, also the checksum files that Hadoop puts beside its own."""
    properties = "delta.checkpointInterval = 3, delta.logRetentionDuration = 'interval 2 days', delta.deletedFileRetentionDuration = 'interval 2 days'"
    spark.sql(f"CREATE TABLE delta.`{table_path}` (k BIGINT) USING delta TBLPROPERTIES ({properties})")
    for k in range(1, 5):
        spark.createDataFrame([(k,)], "k bigint").write.format("delta").mode("append").save(table_path)
    for k in range(5, 9):
        rowlock.append(table_path, pa.table({"k": [k]}))
    age(table_path, through=8)
    assert commits(table_path) == list(range(9))
    rowlock.append(table_path, pa.table({"k": [9]}))
    assert commits(table_path) == [6, 7, 8, 9]
    left = sorted(
        f.name for f in Path(table_path, "_delta_log").iterdir() if f.is_file() and f.name.lstrip(".").startswith("0") and int(f.name.lstrip(".")[:20]) < 6
    )
    assert left == [], "checksums of both kinds went with the commits"

    SparkDelta.forPath(spark, table_path)  # has the log in its memory
    spark.sql("CLEAR CACHE")
    assert values(spark, table_path) == list(range(1, 10))
    with pytest.raises(AnalysisException, match=r"\b6\b"):
        values(spark, table_path, 5)
    age(table_path, through=9, days=1)  # it does not travel to what is older than the removed files that it keeps
    assert values(spark, table_path, 6) == list(range(1, 7))
    assert [h.version for h in SparkDelta.forPath(spark, table_path).history().collect()] == [9, 8, 7, 6]

    for k in range(10, 15):
        spark.createDataFrame([(k,)], "k bigint").write.format("delta").mode("append").save(table_path)
    age(table_path, through=14)
    spark.createDataFrame([(15,)], "k bigint").write.format("delta").mode("append").save(table_path)
    assert commits(table_path) == [15], "it keeps less: what the table was at the horizon, version 14, can no longer be built"
    assert sorted(r.k for r in rowlock.read(spark, table_path).collect()) == list(range(1, 16))
    with pytest.raises(VersionNotFound, match="the oldest version is 15"):
        rowlock.read(spark, table_path, version=14)
    rowlock.append(table_path, pa.table({"k": [16]}))
    table = DeltaTable.forPath(spark, table_path)
    assert [h.version for h in table.history().collect()] == [16, 15]
    table.restoreToVersion(15)
    assert values(spark, table_path) == list(range(1, 16))
