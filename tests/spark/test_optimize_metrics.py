"""What OPTIMIZE answers and what it says in the log: delta-spark's fields, counted as delta-spark counts them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from delta.tables import DeltaTable as Theirs
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, Row, SparkSession
from typer.testing import CliRunner

import rowlock
from rowlock import DeltaTable
from rowlock.cli.main import app
from rowlock.storage.open import open_store
from rowlock.transaction.state.phases import Observer, use_observer
from rowlock.transaction.state.shared import state_of
from rowlock.version import VERSION
from spark.support import make, read, take_route, version, winner

pytestmark = pytest.mark.spark
SCHEMA = "id int, x int, p string"
OWN = {"filesAdded", "startTimeMs", "endTimeMs"}
"""Bytes of our own files, and times."""


def some(start: int, end: int) -> list[tuple[int, int, str]]:
    return [(n, (n * 7919) % 100, "abc"[n % 3]) for n in range(start, end)]


def shared(spark: SparkSession, path: str, twin: str, **properties: str) -> tuple[DeltaTable, Theirs]:
    """One table, six files in three partitions, two of them with a vector; and a copy of it, byte for byte, for delta-spark."""
    names = ", ".join(f"{k} = {v}" for k, v in ({"delta.enableDeletionVectors": "true"} | properties).items())
    spark.sql(f"create table delta.`{path}` ({SCHEMA}) using delta partitioned by (p) tblproperties ({names})")
    for part in (0, 1):
        spark.createDataFrame(some(0, 60)[part * 30 : part * 30 + 30], SCHEMA).coalesce(1).write.format("delta").mode("append").save(path)
    spark.sql(f"delete from delta.`{path}` where id in (0, 3, 31)")
    spark.sql(f"create table delta.`{twin}` shallow clone delta.`{path}`")
    return DeltaTable.forPath(spark, path), Theirs.forPath(spark, twin)


def metrics(answer: DataFrame) -> dict[str, Any]:
    row = answer.first()
    assert isinstance(row, Row)
    found: dict[str, Any] = row["metrics"].asDict(recursive=True)
    return found


def sizes(path: str) -> list[int]:
    return sorted(f.size_bytes for f in state_of(open_store(path)).refresh().files.adds())


def logged(spark: SparkSession, path: str) -> dict[str, str]:
    row = Theirs.forPath(spark, path).history(1).first()
    assert row is not None and row["operation"] == "OPTIMIZE"
    found: dict[str, str] = row["operationMetrics"]
    return found


@pytest.mark.parametrize("condition", [None, "p != 'a'"])
@pytest.mark.parametrize("zorder", [True, False])
@pytest.mark.short(ci=("True-p != 'a'",), why="7 to 13 s each beside delta-spark; the figures are asked in the tests below")
def test_the_answer_is_that_of_delta_spark(spark: SparkSession, table_path: str, tmp_path: Path, zorder: bool, condition: str | None) -> None:
    table, theirs = shared(spark, table_path, str(tmp_path / "twin"), **{"delta.dataSkippingNumIndexedCols": "2"})
    before = sizes(table_path)
    answers = []
    for builder in (table.optimize(), theirs.optimize()):
        chosen = builder if condition is None else builder.where(condition)
        answers.append(chosen.executeZOrderBy("id", "x") if zorder else chosen.executeCompaction())
    ours, other = answers
    assert ours.schema == other.schema
    found, wanted = metrics(ours), metrics(other)
    assert {k: v for k, v in found.items() if k not in OWN} == {k: v for k, v in wanted.items() if k not in OWN}
    partitions = 3 if condition is None else 2
    assert found["numTableColumnsWithStats"] == 2 and found["totalFilesSkipped"] == 0 and found["partitionsOptimized"] == partitions
    assert found["deletionVectorStats"] == (
        {"numDeletionVectorsRemoved": 2, "numDeletionVectorRowsRemoved": 3}
        if condition is None
        else {"numDeletionVectorsRemoved": 1, "numDeletionVectorRowsRemoved": 1}
    )
    assert (found["zOrderStats"] or {}).get("numOutputCubes") == (partitions if zorder else None)
    row = ours.first()
    assert row is not None and row["path"] == "file:" + table_path
    if condition is None:
        now = sizes(table_path)
        assert found["filesAdded"] == {"min": now[0], "max": now[-1], "avg": sum(now) / 3, "totalFiles": 3, "totalSize": sum(now)}
        assert found["filesRemoved"]["totalSize"] == sum(before)
        log = logged(spark, table_path)
        assert log.keys() == logged(spark, str(tmp_path / "twin")).keys()
        assert [int(log[k]) for k in ("minFileSize", "p25FileSize", "p50FileSize", "p75FileSize", "maxFileSize")] == [now[0], now[0], now[1], now[2], now[2]]
        assert log["numDeletionVectorsRemoved"] == "2"
    assert 0 < found["startTimeMs"] <= found["endTimeMs"]


@pytest.mark.soak("two engines for 14 s; what OPTIMIZE answers is asked in the tests beside it")
def test_nothing_to_do(spark: SparkSession, table_path: str, tmp_path: Path) -> None:
    table, theirs = shared(spark, table_path, str(tmp_path / "twin"))
    table.optimize().executeCompaction()
    theirs.optimize().executeCompaction()
    newest = version(table_path)
    found, wanted = metrics(table.optimize().executeCompaction()), metrics(theirs.optimize().executeCompaction())
    times = ("startTimeMs", "endTimeMs")
    assert {k: v for k, v in found.items() if k not in times} == {k: v for k, v in wanted.items() if k not in times}
    assert found["filesAdded"]["min"] is None and found["totalFilesSkipped"] == found["totalConsideredFiles"] == 3
    assert version(table_path) == newest


@pytest.mark.soak("two engines for 18 s; clustered tables are in test_zorder")
def test_a_clustered_table(spark: SparkSession, table_path: str, tmp_path: Path) -> None:
    """Files that delta-spark clustered before are told from those that came since; ours are in a cube, too."""
    for path in (table_path, str(tmp_path / "twin")):
        spark.sql(f"create table delta.`{path}` ({SCHEMA}) using delta cluster by (x)")
        for start in (0, 20, 40):
            spark.createDataFrame(some(start, start + 20), SCHEMA).coalesce(1).write.format("delta").mode("append").save(path)
            if start == 20:
                spark.sql(f"optimize delta.`{path}`")
    ours = metrics(DeltaTable.forPath(spark, table_path).optimize().executeCompaction())
    theirs = metrics(Theirs.forPath(spark, str(tmp_path / "twin")).optimize().executeCompaction())
    counts = {k: v["numFiles"] if isinstance(v, dict) else v for k, v in ours["clusteringStats"].items()}
    assert counts == {k: v["numFiles"] if isinstance(v, dict) else v for k, v in theirs["clusteringStats"].items()}
    assert counts == {"inputZCubeFiles": 1, "inputOtherFiles": 1, "inputNumZCubes": 1, "mergedFiles": 2, "numOutputZCubes": 1}
    assert ours["zOrderStats"] is None
    after = metrics(DeltaTable.forPath(spark, table_path).optimize().executeCompaction())
    assert after["clusteringStats"] == {
        "inputZCubeFiles": {"numFiles": 1, "size": sizes(table_path)[0]}, "inputOtherFiles": {"numFiles": 0, "size": 0}, "inputNumZCubes": 1,
        "mergedFiles": {"numFiles": 0, "size": 0}, "numOutputZCubes": 0,
    }  # fmt: skip


def test_all_columns_have_statistics(spark: SparkSession, table_path: str) -> None:
    table = make(spark, table_path, some(0, 6), SCHEMA, files=2, **{"delta.dataSkippingNumIndexedCols": "-1"})
    assert metrics(table.optimize().executeZOrderBy("x"))["numTableColumnsWithStats"] == 3


def test_what_others_took_counts_as_skipped(spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bin that was given up is in no figure but the skipped files; an output that got a vector at once is still an output."""
    take_route(monkeypatch, "large")
    table, other = make(spark, table_path, some(0, 60), SCHEMA, files=2, partition_by=["p"]), DeltaTable.forPath(spark, table_path)
    with winner(lambda: other.optimize().where("p = 'a'").executeCompaction(), lambda: other.delete("id = 1")):
        found = metrics(table.optimize().executeZOrderBy("x"))
    counts = ("totalConsideredFiles", "totalFilesSkipped", "numFilesRemoved", "numFilesAdded", "partitionsOptimized", "numBins")
    assert [found[k] for k in counts] == [6, 2, 4, 2, 2, 2] and found["zOrderStats"]["numOutputCubes"] == 2
    assert sum(f.deletion_vector is not None for f in state_of(open_store(table_path)).refresh().files.adds()) == 1
    assert table.lastReceipt is not None and table.lastReceipt.rewritten is not None
    assert table.lastReceipt.metrics["numAddedFiles"] == 2 and table.lastReceipt.metrics["numAddedBytes"] == found["filesAdded"]["totalSize"] > 0
    with winner(lambda: other.optimize().executeZOrderBy("id")):
        found = metrics(table.optimize().executeZOrderBy("x"))
    assert [found[k] for k in counts] == [3, 3, 0, 0, 0, 0] and found["zOrderStats"]["mergedFiles"] == {"num": 0, "size": 0}


class _Between(Observer):
    """Another engine commits when the transaction's commit file is written and not put yet."""

    def __init__(self, work: Any) -> None:
        self.work = work

    def phase(self, name: str, txn: Any) -> None:
        if name == "before_put" and self.work is not None:
            work, self.work = self.work, None
            work()


def test_a_put_that_was_lost_leaves_no_figures(spark: SparkSession, table_path: str) -> None:
    table = make(spark, table_path, some(0, 30), SCHEMA, files=3)
    before = read(spark, table_path)
    with use_observer(_Between(lambda: spark.sql(f"optimize delta.`{table_path}`"))):
        found = metrics(table.optimize().executeZOrderBy("x"))
    receipt = table.lastReceipt
    assert receipt is not None and receipt.version is None and receipt.attempts == 1
    assert receipt.metrics["numAddedFiles"] == receipt.metrics["numRemovedFiles"] == found["numFilesAdded"] == 0
    assert read(spark, table_path) == before == sorted(rowlock.read(spark, table_path).collect(), key=repr)


def test_on_the_command_line(spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make(spark, table_path, some(0, 30), SCHEMA, files=2, partition_by=["p"])
    run, printed, pysparks = CliRunner().invoke, list[logging.LogRecord](), PySparkLogger.getLogger("SQLQueryContextLogger")
    monkeypatch.setattr(pysparks, "handlers", [(handler := logging.Handler())])
    monkeypatch.setattr(pysparks, "level", logging.NOTSET)
    monkeypatch.setattr(handler, "emit", printed.append)
    done = run(app, ["optimize", table_path, "--where", "p = 'a'"])
    assert done.exit_code == 0 and "OPTIMIZE: committed as version 3" in done.output, done.output
    assert run(app, ["optimize", table_path, "--zorder", "x, id"]).exit_code == 0
    assert version(table_path) == 4 and [tuple(r) for r in read(spark, table_path)] == sorted(some(0, 30), key=repr)
    for wrong, why in (
        (["--full", "--zorder", "x"], "give one of them"),
        (["--zorder", "nothere"], "nothere"),
        (["--where", "x = 1"], "x"),
        (["--where", "other = 1"], "other"),
    ):
        refused = run(app, ["optimize", table_path, *wrong])
        assert refused.exit_code == 2 and why in refused.output, refused.output
    assert not printed, "an error is printed once, by us"
    assert run(app, ["optimize", f"{table_path}/nothere"]).exit_code == 2
    assert version(table_path) == 4
    assert run(app, ["--version"]).output == f"rowlock {VERSION}\n"
