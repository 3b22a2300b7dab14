"""OPTIMIZE beside statements, where Spark writes and where Arrow does: every row is followed to the place that it really has (I3, I5)."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rowlock
from rowlock import DeltaTable
from rowlock.api.append import opened
from rowlock.exceptions import CorruptLog
from spark.support import read, set_limits, version, winner
from support.turning_down import turn_down

SCHEMAS = {"string": "id long, v long, p string", "timestamp": "id long, v long, p timestamp", "none": "id long, v long, p string"}
VALUES: dict[str, tuple[Any, ...]] = {
    "string": (None, "a b%2=1", "ä/'"),
    "timestamp": (None, dt.datetime(2024, 3, 10, 2, 30), dt.datetime(1900, 1, 1, 0, 0, 0, 7)),
    "none": (None, "x"),
}
FILE_ROWS, FILES, NEW = 40, 3, 100_001
MAPPED = {"delta.columnMapping.mode": "name"}
TRACKED = {"delta.enableRowTracking": "true"}

Model = dict[int, tuple[int, Any]]


CASES: dict[str, tuple[str, dict[str, str], dict[str, str]]] = {
    "strings": ("string", {}, {}),
    "timestamps": ("timestamp", {}, {}),
    "no partitions": ("none", {}, {}),
    "mapped": ("string", MAPPED, {}),
    "tracked": ("timestamp", TRACKED, {}),
    "several outputs": ("string", {}, {"spark.sql.files.maxRecordsPerFile": "40"}),
}
"""By name: how the table is partitioned, its properties, settings of the session."""

BY_ARROW = ", by Arrow"
CASES |= {case + BY_ARROW: CASES[case] for case in ("mapped", "tracked", "several outputs")}
RACES = [(case, "delete") for case in CASES] + [("strings", "update"), ("strings", "merge"), ("several outputs", "update")]
RACES += [(f"tracked{BY_ARROW}", "update"), (f"mapped{BY_ARROW}", "merge")]


@pytest.fixture
def settings(spark: SparkSession) -> Iterator[dict[str, str]]:
    wanted: dict[str, str] = {}
    yield wanted
    for name in wanted:
        spark.conf.unset(name)


def a_table(spark: SparkSession, path: str, kind: str, properties: dict[str, str]) -> Model:
    """Several files in each partition, of several sizes, every second one with a vector."""
    partitions = [] if kind == "none" else ["p"]
    rowlock.write(spark.createDataFrame([], SCHEMAS[kind]), path, partition_by=partitions, properties=properties)
    model: Model = {}
    for n in range(FILES):
        held = [(len(VALUES[kind]) * (100 * n + i) + j, n, p) for j, p in enumerate(VALUES[kind]) for i in range(FILE_ROWS - 7 * n, 0, -1)]
        rowlock.write(spark.createDataFrame(held, SCHEMAS[kind]).coalesce(1), path)
        model |= {i: (v, p) for i, v, p in held}
    DeltaTable.forPath(spark, path).delete("id % 5 = 0 AND v % 2 = 1")
    return {i: (v, p) for i, (v, p) in model.items() if not (i % 5 == 0 and v % 2 == 1)}


def after(statement: str, model: Model) -> Model:
    """What the table holds when the statement has run alone."""
    if statement == "delete":
        return {i: row for i, row in model.items() if i % 7 != 1}
    if statement == "update":
        return {i: (v + 1000 if i % 7 == 1 else v, p) for i, (v, p) in model.items()}
    return {i: (v + 1000 if i % 4 == 1 else v, p) for i, (v, p) in model.items() if i % 4 != 2} | {NEW: (5, None)}


def run(table: DeltaTable, statement: str, spark: SparkSession) -> None:
    if statement == "delete":
        table.delete("id % 7 = 1")
    elif statement == "update":
        table.update("id % 7 = 1", {"v": "v + 1000"})
    else:
        source = spark.range(2000).where("id % 4 IN (1, 2)").unionAll(spark.range(NEW, NEW + 1))
        merge = table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedDelete("s.id % 4 = 2").whenMatchedUpdate(set={"v": "t.v + 1000"})
        merge.whenNotMatchedInsert(f"s.id = {NEW}", values={"id": "s.id", "v": "5"}).execute()


def wanted(model: Model) -> list[tuple[Any, ...]]:
    return sorted(((i, v, p) for i, (v, p) in model.items()), key=repr)


def ids(spark: SparkSession, path: str) -> dict[int, int]:
    return {r["id"]: r["_row_id"] for r in rowlock.read(spark, path, with_row_ids=True).collect()}


@pytest.mark.parametrize("optimize_first", [True, False], ids=["optimize first", "optimize last"])
@pytest.mark.parametrize(("case", "statement"), RACES)
@pytest.mark.short(
    "strings-merge-optimize last",
    "tracked, by Arrow-update-optimize first",
    ci=(
        "tracked-delete-optimize last",
        "several outputs-update-optimize first",
    ),
    why="each statement once, over three layouts, and both ways to move rows; the swarm follows rows through compactions too",
)
def test_what_runs_beside_optimize_changes_its_own_rows(
    spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], case: str, statement: str, optimize_first: bool
) -> None:
    """I3, I5: in either order the table holds what one after the other gives, row by row; where rows are tracked they keep their ids (I6)."""
    kind, properties, wanted_settings = CASES[case]
    settings.update(wanted_settings)
    for name, value in settings.items():
        spark.conf.set(name, value)
    model = a_table(spark, table_path, kind, properties)
    before = ids(spark, table_path) if properties is TRACKED else {}
    set_limits(monkeypatch, small=100_000, local=0)
    if case.endswith(BY_ARROW):
        turn_down(monkeypatch, moved_bytes=1 << 40)
    table, other = DeltaTable.forPath(spark, table_path), DeltaTable.forPath(spark, table_path)
    if optimize_first:
        with winner(lambda: other.optimize().executeCompaction()):
            run(table, statement, spark)
        assert table.lastReceipt is not None and (table.lastReceipt.rows_followed > 0) == (not settings)
    else:
        with winner(lambda: run(other, statement, spark)):
            table.optimize().executeCompaction()
    assert read(spark, table_path) == wanted(after(statement, model))
    if before:
        assert {i: n for i, n in ids(spark, table_path).items() if i in before} == {i: n for i, n in before.items() if i in after(statement, model)}


def test_a_bin_that_holds_other_rows_than_the_log_says_is_not_moved(
    spark: SparkSession, table_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I9: where the log counts a file's rows wrongly, positions are not guessed; nothing is committed."""
    a_table(spark, table_path, "none", {})
    log = Path(table_path) / "_delta_log" / f"{1:020}.json"
    assert 'numRecords\\":80' in log.read_text()
    other = str(tmp_path / "other")
    shutil.copytree(table_path, other)
    (Path(other) / "_delta_log" / log.name).write_text(log.read_text().replace('numRecords\\":80', 'numRecords\\":79'))
    set_limits(monkeypatch, small=100_000, local=0)
    with pytest.raises(CorruptLog, match="hold other rows than the log says"):
        DeltaTable.forPath(spark, other).optimize().executeCompaction()
    assert version(other) == version(table_path)


@pytest.mark.parametrize(("moved", "ordered"), [(0, False), (1 << 40, True)], ids=["by Spark", "in Z-order by Arrow"])
def test_a_bin_without_vectors_is_moved_anew_where_a_file_of_it_is_rewritten(
    spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch, moved: int, ordered: bool
) -> None:
    """I3, I5, I6, I8: what is left of the bin is compacted, in one file without the rows that are gone; who comes after it follows its rows."""
    properties = {**TRACKED, "delta.enableDeletionVectors": "false"}
    for n in range(4):
        rowlock.write(spark.range(10 * n, 10 * n + 10).selectExpr("id", "0 v").coalesce(1), table_path, properties=properties)
    before = ids(spark, table_path)
    set_limits(monkeypatch, small=100_000, local=0)
    turn_down(monkeypatch, moved_bytes=moved)
    table, other, later = (DeltaTable.forPath(spark, table_path) for _ in range(3))

    def optimize() -> None:
        with winner(lambda: other.delete("id = 13")):
            table.optimize().executeZOrderBy("id") if ordered else table.optimize().executeCompaction()
        assert table.lastReceipt is not None and (table.lastReceipt.version, len(opened(table_path).refresh().files)) == (5, 2)

    with winner(optimize):
        later.update("id IN (7, 38)", {"v": "1"})
    assert later.lastReceipt is not None and later.lastReceipt.rows_followed == 2
    assert sorted(read(spark, table_path)) == [(n, int(n in (7, 38))) for n in range(40) if n != 13]
    assert ids(spark, table_path) == {n: at for n, at in before.items() if n != 13}
