"""Columns of data files that differ from the table's by case are its columns. I5: no value is lost that nobody deleted; I9."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

import rowlock
from rowlock import DeltaTable
from rowlock.exceptions import UnsupportedFeature
from rowlock.protocol.names import commit_key
from rowlock.storage.open import open_store
from rowlock.transaction.state.shared import state_of
from spark.support import read, rows
from support.turning_down import turn_down

MAP = pa.map_(pa.string(), pa.struct([("K", pa.int64())]))
WAYS = {"driver": {}, "by position": {"local_rows": 0}, "large": {"driver_rows": 0, "local_rows": 0, "moved_bytes": 0, "masked_bytes": 0}}


@pytest.fixture
def folder(spark: SparkSession, table_path: str) -> str:
    """A table of two files, whose columns, and fields at every depth, differ by case alone: the second as another engine may add it."""
    Path(table_path).mkdir()
    for n, up in enumerate((str.lower, str.upper)):
        fields = {
            "id": [n * 10 + i for i in range(3)],
            "v": [n, n, n],
            "s": [{up("x"): n, up("y"): {up("z"): i}} for i in range(3)],
            "l": [[{up("e"): i}] for i in range(3)],
        }
        table = pa.table({up(k): v for k, v in fields.items()})
        maps = pa.array([[("a", i)] for i in range(3)], pa.map_(pa.string(), pa.int64()))
        structs = pa.StructArray.from_arrays([maps.items], [up("k")])
        table = table.append_column(up("m"), pa.MapArray.from_arrays(maps.offsets, maps.keys, structs))
        pq.write_table(table, path := f"{table_path}/{up('part')}.parquet")
        if n == 0:
            DeltaTable.convertToDelta(spark, f"parquet.`{table_path}`")
    add = {
        "path": "PART.parquet",
        "partitionValues": {},
        "size": Path(path).stat().st_size,
        "modificationTime": 0,
        "dataChange": True,
        "stats": '{"numRecords":3,"minValues":{"ID":10},"maxValues":{"ID":12},"nullCount":{"ID":0}}',
    }
    Path(table_path, commit_key(1)).write_text(json.dumps({"add": add}) + "\n")
    return table_path


def expected(spark: SparkSession, folder: str) -> list[tuple[object, ...]]:
    return rows(spark.read.schema("id long, v long, s struct<x:long,y:struct<z:long>>, l array<struct<e:long>>, m map<string,struct<k:long>>").parquet(folder))


@pytest.mark.no_peers("delta-rs finds columns in files by their exact names")
@pytest.mark.parametrize("way", sorted(WAYS))
@pytest.mark.short("by position", "large", ci=("driver",), why="the same files the other way")
def test_names_in_files_that_differ_by_case(spark: SparkSession, folder: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """I5: what the driver reads, and an UPDATE writes back, is what Spark reads."""
    turn_down(monkeypatch, **WAYS[way])
    before = expected(spark, folder)
    table = DeltaTable.forPath(spark, folder)
    assert read(spark, folder) == before
    arrow = rowlock.to_arrow(folder)
    assert sorted(arrow["id"].to_pylist()) == [0, 1, 2, 10, 11, 12] and not any(c.null_count for c in arrow.columns)
    assert sorted(arrow["s"].to_pylist(), key=repr) == sorted(({"x": n, "y": {"z": i}} for n in (0, 1) for i in range(3)), key=repr)
    assert sorted(dict(m)["a"]["k"] for m in arrow["m"].to_pylist()) == [0, 0, 1, 1, 2, 2] and sorted(x[0]["e"] for x in arrow["l"].to_pylist()) == [
        0,
        0,
        1,
        1,
        2,
        2,
    ]
    table.update("id in (1, 11)", {"v": "v + 100"})
    table.delete("id = 12 or s.y.z = 0")
    assert read(spark, folder) == sorted(((r[0], r[1] + 100 * (r[0] % 10 == 1), *r[2:]) for r in before if r[0] % 10 and r[0] != 12), key=repr)


@pytest.mark.no_peers("delta-rs finds columns in files by their exact names")
def test_a_converted_folder(spark: SparkSession, table_path: str) -> None:
    """I3, I5: convertToDelta of files whose columns differ by case: bounds of both stand under the table's names, and no id becomes null."""
    for n, names in enumerate((("id", "v"), ("ID", "V"))):
        spark.createDataFrame([(n * 10 + i, n) for i in range(3)], list(names)).coalesce(1).write.mode("append").parquet(table_path)
    table = DeltaTable.convertToDelta(spark, f"parquet.`{table_path}`")
    first, second = (f.parsed_stats() for f in state_of(open_store(table_path)).refresh().files.adds())
    assert first["minValues"].keys() == second["minValues"].keys() and len(first["minValues"]) == 2
    table.update("v = 1", {"v": "7"})
    assert read(spark, table_path) == [(0, 0), (1, 0), (10, 7), (11, 7), (12, 7), (2, 0)]


@pytest.mark.no_peers("delta-rs finds columns in files by their exact names")
def test_a_session_that_heeds_case_reads_as_spark_does(spark: SparkSession, folder: str) -> None:
    """I9: with spark.sql.caseSensitive a column of another case is not the table's to Spark, nor to the driver."""
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        table = DeltaTable.forPath(spark, folder)
        assert sorted(r[0] for r in rows(table.toDF()) if r[0] is not None) == [0, 1, 2]
        table.update("id = 1", {"v": "v + 1"})
        table.update("id is null", {"v": "5"})
        assert sorted((r[0], r[1]) for r in rows(table.toDF()) if r[0] is not None) == [(0, 0), (1, 1), (2, 0)]
        assert [r[:2] for r in rows(table.toDF()) if r[0] is None] == [(None, 5)] * 3
    finally:
        spark.conf.set("spark.sql.caseSensitive", "false")


@pytest.mark.no_peers("what such a file holds the peers do not agree on")
@pytest.mark.usual_limits("it writes over a file of the driver's, which has no checksum beside it")
def test_two_columns_that_are_one_to_spark(spark: SparkSession, table_path: str) -> None:
    """I9: Spark refuses a file with columns that differ by case; so does `to_arrow`, by the file's name, instead of choosing one."""
    rowlock.write(spark.sql("select 1L id, 1L v"), table_path)
    (file,) = state_of(open_store(table_path)).refresh().files.adds()
    pq.write_table(pa.table({"id": [1], "ID": [2], "v": [1]}), f"{table_path}/{file.path}")
    log, size = Path(table_path) / commit_key(0), (Path(table_path) / file.path).stat().st_size
    log.write_text(log.read_text().replace(f'"size":{file.size_bytes}', f'"size":{size}'))
    Path(table_path).rename(other := f"{table_path}-twin")
    with pytest.raises(UnsupportedFeature, match=file.path):
        rowlock.to_arrow(other)
    with pytest.raises(Py4JJavaError, match="duplicate field"):
        DeltaTable.forPath(spark, other).update("v = 1", {"v": "2"})
    assert rowlock.to_arrow(other, columns=["v"]).num_rows == 1


@pytest.mark.parametrize("way", sorted(WAYS))
@pytest.mark.short("by position", "large", ci=("driver",), why="the same files the other way")
def test_a_dot_in_a_name(spark: SparkSession, table_path: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """I3: column `a.b` and field b of struct a have bounds of their own, by each writer; a DELETE finds its rows by either."""
    turn_down(monkeypatch, append_driver_bytes=0 if way == "large" else 1 << 20, **WAYS[way])
    frame = (
        spark.range(6)
        .selectExpr("id + 7 as `a.b`", "named_struct('b', id + 100, 'c', named_struct('d', id + 200)) as a", "id + 300 as `a.c.d`", "id")
        .coalesce(1)
    )
    rowlock.write(frame, table_path)
    (file,) = state_of(open_store(table_path)).refresh().files.adds()
    assert file.parsed_stats()["minValues"] == {"a.b": 7, "a": {"b": 100, "c": {"d": 200}}, "a.c.d": 300, "id": 0}
    table = DeltaTable.forPath(spark, table_path)
    for condition in ("`a.b` = 7", "a.b = 101", "a.c.d = 202", "`a.c.d` = 303"):
        table.delete(condition)
    table.update("`a.b` = 11", {"`a.b`": "1000"})
    assert [(r[0], r[3]) for r in read(spark, table_path)] == [(1000, 4), (12, 5)]
    assert sorted(rowlock.to_arrow(table_path)["a.b"].to_pylist()) == [12, 1000]
