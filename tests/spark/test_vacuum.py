"""VACUUM deletes what nobody needs and nothing else; readers of every engine find the same rows after it (I10)."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import rowlock
from rowlock import DeltaTable
from rowlock.cli.main import app
from rowlock.engines.spark.frames.reading import files_of
from rowlock.exceptions import InvalidInput, WrongType
from spark.support import data_files, make, read, take_route

pytestmark = pytest.mark.spark
ROWS = [(n, n * 10, "ab"[n % 2]) for n in range(40)]
SCHEMA = "id int, v int, _p string"
AN_HOUR_AGO = time.time() - 3600


def aged(path: str) -> None:
    """Everything in the folder is an hour older."""
    for folder, _, names in os.walk(path):
        for name in names:
            os.utime(os.path.join(folder, name), (AN_HOUR_AGO, AN_HOUR_AGO))


def test_what_goes_and_what_stays(spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    take_route(monkeypatch, "large")
    table = make(spark, table_path, ROWS, SCHEMA, files=3, partition_by=["_p"], **{"delta.enableChangeDataFeed": "true"})
    table.update("id % 3 = 0", {"v": "v + 1"})
    source = spark.range(36, 44, 1, 1).selectExpr("cast(id as int) as id", "7 as v", "'a' as _p").alias("s")
    table.alias("t").merge(source, "t.id = s.id").whenMatchedUpdate(set={"v": "s.v"}).whenNotMatchedInsertAll().execute()
    table.delete("id % 7 = 0")
    table.optimize().executeCompaction()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine.parquet").write_text("x")
    for name in ("left.parquet", "_hidden/kept.parquet", ".kept", "_p=a/left.parquet", "sub/left.txt", "_rowlock/kept.json"):
        place = Path(table_path) / name
        place.parent.mkdir(exist_ok=True)
        place.write_text("x")
    (Path(table_path) / "link").symlink_to(outside)
    aged(table_path)
    young = Path(table_path) / "staged.parquet"
    young.write_text("of a writer that has not committed yet")
    before, log = read(spark, table_path), sorted(os.listdir(f"{table_path}/_delta_log"))
    live = {os.path.join(table_path, f.path) for f in table._handle.state.refresh().files.adds()}
    assert table.vacuum().columns == []
    assert len(data_files(table_path)) > len(live) + 5, "nothing is as old as a week"
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    table.vacuum(0.5)
    left = {os.path.relpath(os.path.join(d, n), table_path) for d, _, names in os.walk(table_path) for n in names if "_delta_log" not in d}
    assert {p for p in left if "left" in p} == set(), "files of nobody are gone, in partition folders too"
    assert {"staged.parquet", ".kept", "_hidden/kept.parquet", "_rowlock/kept.json"} <= left
    assert not [p for p in left if p.endswith("_SUCCESS")], "Spark's writer leaves none"
    assert (outside / "mine.parquet").exists(), "what lies behind a link is not of this table"
    assert live <= data_files(table_path)
    assert sorted(os.listdir(f"{table_path}/_delta_log")) == log
    assert read(spark, table_path) == before
    assert [p for p in left if p.startswith(("part-", "rl-")) or "/part-" in p], "what was removed within the retention stays for older versions"
    time.sleep(0.01)
    young.unlink()
    table.vacuum(0)
    assert data_files(table_path) - {os.path.join(table_path, "_hidden/kept.parquet")} == live
    assert read(spark, table_path) == before
    table.update("id = 1", {"v": "0"})


def test_a_retention_that_is_too_short_is_refused(spark: SparkSession, table_path: str) -> None:
    table = make(spark, table_path, ROWS, SCHEMA)
    table.delete("id < 20")
    there = data_files(table_path)
    before = spark.conf.get("spark.databricks.delta.retentionDurationCheck.enabled", None)
    try:
        spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "true")
        for wrong, error in ((1, InvalidInput), (-1, InvalidInput), ("soon", WrongType)):
            with pytest.raises(error):
                table.vacuum(wrong)  # type: ignore[arg-type]
    finally:
        spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", before or "false")
    with pytest.raises(InvalidInput):
        table.vacuum(-1)
    assert data_files(table_path) == there
    table.setProperties({"delta.deletedFileRetentionDuration": "interval 0 hours"})
    table.vacuum()
    assert data_files(table_path) < there or len(there) == 1


def test_a_writer_in_flight_keeps_what_it_staged(spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the table's own retention a vacuum beside a transaction that has staged files takes none of them away."""
    take_route(monkeypatch, "large")
    table = make(spark, table_path, ROWS, SCHEMA)
    with table.transaction() as txn:
        txn.update("id < 30", {"v": "-1"})
        DeltaTable.forPath(spark, table_path).vacuum()
    assert sum(r["v"] == -1 for r in rowlock.read(spark, table_path).collect()) == 30


def test_an_inventory_names_a_bucket_as_hadoop_does(spark: SparkSession) -> None:
    """Nothing went where it said s3a, as Spark does, for Rowlock says s3."""
    names = ("s3a://b/t/x y", "s3://b/t/p=1/z", "s3n://b/t/w", "s3a://b/tt/x", "gs://b/t/x")
    rows = spark.createDataFrame([(name, 1, False, 5) for name in names], "path string, length long, isDir boolean, modificationTime long")
    assert sorted(m.key for m in files_of(rows, "s3://b/t", "t")) == ["p=1/z", "w", "x y"]
    assert [m.key for m in files_of(rows, "gs://b/t", "t")] == ["x"]


def test_on_the_command_line(spark: SparkSession, table_path: str) -> None:
    table = make(spark, table_path, ROWS, SCHEMA)
    (Path(table_path) / "left.parquet").write_text("12345")
    aged(table_path)
    run = CliRunner().invoke
    said = run(app, ["vacuum", table_path, "--retention-hours", "0.5"])
    assert said.exit_code == 2 and "shorter than the table's own" in said.output
    said = run(app, ["vacuum", table_path, "--retention-hours", "0.5", "--unsafe", "--dry-run"])
    assert said.exit_code == 0 and "left.parquet" in said.output and "1 file (5 bytes) would be deleted" in said.output
    assert (Path(table_path) / "left.parquet").exists()
    said = run(app, ["vacuum", table_path, "--retention-hours", "0.5", "--unsafe"])
    assert "1 file (5 bytes) was deleted" in said.output and not (Path(table_path) / "left.parquet").exists()
    assert table.toDF().count() == 40
