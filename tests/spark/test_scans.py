"""A scan has the files of a snapshot, their sizes and their times from the log: Spark lists nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, functions as F

import rowlock
from rowlock import DeltaTable
from rowlock.exceptions import CorruptLog
from rowlock.storage.open import open_store
from rowlock.transaction.state.shared import state_of
from spark.support import data_files, make, read, set_limits
from spark.test_session_settings import settings
from support.turning_down import turn_down

pytestmark = pytest.mark.spark


def test_what_a_scan_knows_of_its_files_comes_from_the_log(spark: SparkSession, table_path: str) -> None:
    make(spark, table_path, [(1, "a"), (2, "b")], "id int, p string", partition_by=["p"])
    files = {f.path.rpartition("/")[2]: f for f in state_of(open_store(table_path)).refresh().files.adds()}
    for place in data_files(table_path):
        os.utime(place, (1_000, 1_000))
    frame = rowlock.read(spark, table_path)
    shown = frame.select("_metadata.file_name", "_metadata.file_size", F.unix_millis("_metadata.file_modification_time").alias("ms"))
    assert {r.file_name: (r.file_size, r.ms) for r in shown.collect()} == {name: (f.size_bytes, f.modification_time_ms) for name, f in files.items()}
    for place in data_files(table_path):
        Path(place).unlink()
    assert {name.rpartition("/")[2] for name in rowlock.read(spark, table_path).inputFiles()} == set(files)


@pytest.mark.parametrize("with_vectors", [False, True])
def test_a_data_file_that_is_missing_is_named(spark: SparkSession, table_path: str, with_vectors: bool, monkeypatch: Any) -> None:
    """I9."""
    table = make(spark, table_path, [(1, 1), (2, 1), (3, 2)], "id int, p int", partition_by=["p"])
    if with_vectors:
        table.delete("id = 1")
    (place,) = (f for f in data_files(table_path) if "/p=1/" in f)
    Path(place).unlink()
    gone = Path(place).name
    assert [r.id for r in rowlock.read(spark, table_path).where("p = 2").collect()] == [3]
    with pytest.raises(Exception, match=gone):
        rowlock.read(spark, table_path).collect()
    set_limits(monkeypatch, small=0, local=0)
    before = read_log(table_path)
    with pytest.raises(CorruptLog, match=rf"A data file is not there.*file p=1/{gone}"):
        DeltaTable.forPath(spark, table_path).update("id > 1", {"id": "id + 1"})
    assert read_log(table_path) == before


def read_log(path: str) -> list[str]:
    """The names of the commits."""
    return sorted(f.name for f in (Path(path) / "_delta_log").glob("*.json"))


def test_no_condition_is_computed_on_a_dead_row(spark: SparkSession, table_path: str, monkeypatch: Any) -> None:
    """I3: under ANSI it may raise there; where Spark compiles a condition by itself, as in tables of many columns, it computes what is common to its parts first."""
    table = make(spark, table_path, [(n, n) for n in range(20)], "id int, v int", files=1)
    table.delete("id = 0")
    set_limits(monkeypatch, small=0, local=0)
    turn_down(monkeypatch, masked_rows=0, inspected_rows=0)
    with settings(spark, {"spark.sql.ansi.enabled": "true", "spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "CODEGEN_ONLY"}):
        found = rowlock.read(spark, table_path).where("1000 div id between 490 and 500")
        assert [r.id for r in found.collect()] == [2]
        assert "GreaterThan(id,3)]" in explained(rowlock.read(spark, table_path).where("id > 3 and 1000 div id between 100 and 200"))
        table.delete("1000 div id between 490 and 500")
        table.update("1000 div id between 300 and 340", {"v": "-1"})
    assert sorted(r[0] for r in read(spark, table_path)) == [1, *range(3, 20)]


def explained(frame: DataFrame) -> str:
    """The physical plan of a DataFrame."""
    return str(frame._jdf.queryExecution().executedPlan().toString())
