"""Rowlock reads what delta-spark and deltalake write: the same rows by every reader.  I5, I9."""

from __future__ import annotations

import datetime as dt

import pytest
from pyspark.sql import SparkSession

import rowlock
from interop import peer_tables
from interop.peer_tables import DELTA_SPARK, DELTALAKE, Maker
from interop.readers import assert_same_rows, commit_files, rows_by_all, rows_of
from support.corpus import GOLDEN

pytestmark = pytest.mark.spark

PEERS_THAT_CANNOT: dict[str, dict[str, str]] = {
    "all_types": {"deltalake": "INT96 beyond the year 2262 overflows"},
    "legacy_calendar": {"deltalake": "days of the old calendar are not shifted", "duckdb": "days of the old calendar are not shifted"},
    "mapped_name": {"duckdb": "a renamed partition column is null"},
    "mapped_id": {"duckdb": "a renamed partition column is null"},
    "cloned": {"duckdb": "takes an absolute path for a relative one"},
    "lengths": {"deltalake": "char columns are not padded", "duckdb": "char columns are not padded"},
}
"""Tables that a peer cannot read or reads otherwise than delta-spark, which made them, and what it does."""


@pytest.mark.parametrize("maker", [m for m in (*DELTA_SPARK, *DELTALAKE) if m is not peer_tables.checkpoints], ids=lambda m: m.__name__)
@pytest.mark.short(
    "all_types",
    "legacy_calendar",
    "rs_types",
    ci=("v2_checkpoint_parquet", "mapped_name"),
    why="one table of each thing that a reader must know; the golden tables and the tests of the log hold more of them",
)
def test_read(spark: SparkSession, table_path: str, maker: Maker) -> None:
    maker(spark, table_path)
    rows = rows_by_all(spark, table_path, without=PEERS_THAT_CANNOT.get(maker.__name__, {}))
    assert rows


@pytest.mark.parametrize("every", [pytest.param(n, marks=pytest.mark.soak("a third of the versions, or all seven, each by two engines")) for n in (3, 1)])
def test_every_version_and_time(spark: SparkSession, table_path: str, every: int) -> None:
    """Time travel gives what delta-spark gives, through vectors and checkpoints."""
    peer_tables.checkpoints(spark, table_path)
    assert len(rows_by_all(spark, table_path)) == 37
    commits = commit_files(table_path)
    assert len(commits) == 7
    for version, commit in list(enumerate(commits))[::every]:
        theirs = rows_of(spark.read.format("delta").option("versionAsOf", version).load(table_path).toArrow())
        assert_same_rows(rows_of(rowlock.read(spark, table_path, version=version).toArrow()), theirs, "rowlock", f"delta-spark at version {version}")
        when = dt.datetime.fromtimestamp(int(commit.stat().st_mtime * 1000) / 1000, dt.UTC)
        assert_same_rows(rows_of(rowlock.read(spark, table_path, timestamp=when).toArrow()), theirs, "rowlock", f"the version {version} of {when}")


@pytest.mark.soak("a table of delta-spark read in another zone; moments in partitions are in tests/spark/test_partition_values.py", ci=True)
def test_another_session_zone(spark: SparkSession, table_path: str) -> None:
    """Moments are the same whatever the session's zone, in partitions too."""
    peer_tables.typed_partitions(spark, table_path)
    before = rows_by_all(spark, table_path)
    spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    try:
        theirs = rows_of(spark.read.format("delta").load(table_path).toArrow())
        assert_same_rows(rows_of(rowlock.read(spark, table_path).toArrow()), theirs, "rowlock", "delta-spark")
        assert before == theirs
        zoned = str(GOLDEN / "kernel-timestamp-pst" / "delta")  # partition values that state no zone
        ours = rowlock.to_arrow(zoned, time_zone="America/Los_Angeles")
        assert_same_rows(rows_of(ours), rows_of(spark.read.format("delta").load(zoned).toArrow()), "to_arrow", "delta-spark")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
