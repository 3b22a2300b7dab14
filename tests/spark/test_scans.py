"""A scan has the files of a snapshot, their sizes and their times from the log: Spark lists nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession, functions as F

import rowlock
from rowlock import DeltaTable
from rowlock.engines.spark.read import scan
from rowlock.exceptions import CorruptLog
from rowlock.storage.open import open_store
from rowlock.transaction.state.shared import state_of
from spark.support import calls_into_the_jvm, data_files, make, read, set_limits
from spark.test_session_settings import settings
from support.sql_session import run_steps
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


@pytest.mark.parametrize("in_task_bytes", [0, 1_000_000], ids=["broadcast", "in each task"])
def test_no_condition_is_computed_on_a_dead_row(spark: SparkSession, table_path: str, monkeypatch: Any, in_task_bytes: int) -> None:
    """I3: under ANSI it may raise there; where Spark compiles a condition by itself, as in tables of many columns, it computes what is common to its parts first."""
    monkeypatch.setattr(scan, "_IN_TASK_BYTES", in_task_bytes)
    scan._bits.clear()
    table = make(spark, table_path, [(n, n) for n in range(20)], "id int, v int", files=1)
    table.delete("id = 0")
    set_limits(monkeypatch, small=0, local=0)
    turn_down(monkeypatch, masked_rows=0, inspected_rows=0)
    with settings(spark, {"spark.sql.ansi.enabled": "true", "spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "CODEGEN_ONLY"}):
        found = rowlock.read(spark, table_path).where("1000 div id between 490 and 500")
        assert [r.id for r in found.collect()] == [2] and ("Broadcast" in explained(found)) == (in_task_bytes == 0)
        assert "GreaterThan(id,3)]" in explained(rowlock.read(spark, table_path).where("id > 3 and 1000 div id between 100 and 200"))
        table.delete("1000 div id between 490 and 500")
        table.update("1000 div id between 300 and 340", {"v": "-1"})
    assert sorted(r[0] for r in read(spark, table_path)) == [1, *range(3, 20)]


def explained(frame: DataFrame) -> str:
    """The physical plan of a DataFrame."""
    return str(frame._jdf.queryExecution().executedPlan().toString())


KEYS = [f"k{n}" for n in range(41, 53)]
QUERIES = [
    # (query, its rows, how many of the seven files it reads)
    ("SELECT id FROM t WHERE id = 25", [[25]], 1),
    ("SELECT id FROM t WHERE id IN (1, 59) OR d = DATE'2024-01-26'", [[1], [25], [59]], 3),
    ("SELECT count(*) FROM t WHERE n.x BETWEEN 18 AND 21 AND s LIKE 'k%'", [[4]], 2),
    ("SELECT id FROM t WHERE p = 1 AND id > 30", [[x] for x in range(31, 40)] + [[x] for x in range(50, 60)], 2),
    ("SELECT s FROM t WHERE id IS NULL", [["none"]], 1),
    ("SELECT id FROM t WHERE f > 1000", [[3]], 6),  # a NaN, which no bound names, may be in each file that has numbers
    ("SELECT id FROM t WHERE id = 1000", [], 1),  # so that the plan shows which version it read
    (f"SELECT id FROM t WHERE id IN ({', '.join(map(str, range(8, 23)))}) AND s < 'k2'", [[n] for n in range(10, 20)], 2),
    (f"SELECT id FROM t WHERE s IN ({', '.join(map(repr, KEYS))})", [[n] for n in range(41, 53)], 3),
    ("SELECT id FROM t WHERE id = 25 AND _metadata.row_index < 9", [[25]], 1),
    ("SELECT id FROM t WHERE id = 25 OR rand() > 1", [[25]], 7),
    ("SELECT id FROM t WHERE id = (SELECT max(id) FROM t WHERE id < 5)", [[4]], 7),
    ("SELECT a.id FROM t a JOIN t b ON a.id = b.id + 20 WHERE a.id = 25 AND b.id < 10", [[25]], 2),
    ("SELECT k FROM (SELECT id + 1 AS k, upper(s) AS u FROM t WHERE id < 30) WHERE k = 13", [[13]], 1),
    ("SELECT id FROM t VERSION AS OF 2 WHERE id > 10", [[x] for x in range(11, 20)], 1),
    ("SELECT id FROM t WHERE id BETWEEN 23 AND 25 UNION ALL SELECT id FROM t WHERE id = 31", [[23], [24], [25], [31]], 2),
    ("SELECT DISTINCT p FROM t WHERE id BETWEEN 12 AND 28 AND p IS NOT NULL", [[0], [1]], 2),
]


@pytest.mark.no_peers("one table, whose rows are read by each query")
def test_a_query_opens_only_files_in_which_its_condition_may_be_true(tmp_path: Path) -> None:
    """The bounds of the log skip files for a query, and for one whose rows a statement writes, as for the statement's own condition, and no row is missing (I3)."""
    value = "id, concat('k', id) AS s, named_struct('x', int(id)) AS n, date_add(DATE'2024-01-01', int(id)) AS d, IF(id = 3, double('NaN'), double(id)) AS f"
    made = ["CREATE TABLE t (id BIGINT, s STRING, n STRUCT<x: INT>, d DATE, f DOUBLE, p INT) USING delta PARTITIONED BY (p)"]
    made += [f"INSERT INTO t SELECT {value}, {n} % 2 FROM range({n * 10}, {n * 10 + 10})" for n in range(6)]
    made += ["INSERT INTO t (s) VALUES ('none')"]
    source = "__import__('rowlock.engines.spark.statements.sources', fromlist='*').frame_of_now(q)"
    asked = [f"py:(lambda q: [[len(f.inputFiles()), sorted([list(r) for r in f.collect()])] for f in (q, {source})])(spark.sql({q!r}))" for q, _, _ in QUERIES]
    outcomes = run_steps(tmp_path, [*made, *asked], [])[len(made) :]
    assert [outcome.get("rows", outcome) for outcome in outcomes] == [[[files, rows]] * 2 for _, rows, files in QUERIES]


def test_a_frame_that_is_older_than_its_tables_columns_reads_them_all(tmp_path: Path) -> None:
    """A condition that was resolved for other columns skips nothing: its types and names may mean something else now (I9)."""
    steps = [
        "CREATE TABLE t (id INT, v INT) USING delta TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
        "INSERT INTO t VALUES (1, 1)",
        "INSERT INTO t VALUES (2, 2)",
        "CREATE TEMP VIEW v AS SELECT * FROM t WHERE id = 2",
        "ALTER TABLE t ADD COLUMNS (more INT)",
        "INSERT INTO t VALUES (2, 3, 4)",
        "py:sorted([list(r) for r in spark.table('v').collect()])",
    ]
    assert run_steps(tmp_path, steps, [])[-1].get("rows") == [[2, 2], [2, 3]]


@pytest.mark.parametrize("of", ["rows", "changes", "append"])
def test_columns_cost_no_calls(spark: SparkSession, table_path: str, of: str) -> None:
    """A scan, and an append, is made by as many calls into the JVM for a thousand columns as for ten: each Column of pyspark takes some."""
    properties = {"delta.enableChangeDataFeed": "true"} | ({} if of == "append" else {"delta.columnMapping.mode": "name"})

    def calls_of(columns: int) -> int:
        path, names = f"{table_path}-{columns}", [f"c{'_' if of == 'append' else ' '}{n}" for n in range(columns)]
        rowlock.append(path, pa.table({name: [n, -1] for n, name in enumerate(names)}), properties=properties)
        (table := DeltaTable.forPath(spark, path)).delete(f"`{names[0]}` = -1")
        deleted, held = table.lastReceipt.version, rowlock.read(spark, path)
        with calls_into_the_jvm(spark) as sent:
            if of == "append":
                rowlock.write(held, path, mode="append")
            row = (rowlock.changes(spark, path, deleted) if of == "changes" else rowlock.read(spark, path)).collect()[-1]
        assert [row[name] for name in names] == ([-1] * columns if of == "changes" else list(range(columns)))
        return len(sent)

    calls_of(3)
    assert calls_of(10) == calls_of(300)
