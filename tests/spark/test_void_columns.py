"""VOID columns, of which no file holds anything, and tables without columns: written on the driver and by Spark's jobs, beside others' commits."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import rowlock
from rowlock import DeltaTable
from rowlock.api.sql.answers import write_batch
from rowlock.exceptions import DeltaConcurrentModificationException, SchemaMismatch, UnsupportedFeature
from spark.support import set_limits, winner

pytestmark = pytest.mark.no_peers("deltalake and DuckDB do not read columns of type void")
ROWS = "SELECT id, NULL AS n FROM range(0, 6, 1, 1)"


def both(spark: SparkSession, path: str) -> list[tuple[object, ...]]:
    """The rows as Rowlock reads them, which are those that delta-spark reads."""
    ours, theirs = (sorted(map(tuple, frame.collect()), key=repr) for frame in (rowlock.read(spark, path), spark.read.format("delta").load(path)))
    assert ours == theirs
    return ours


@pytest.mark.parametrize("where", ["driver", "job"])
@pytest.mark.short("job", ci=("driver",), why="the same statements the other way; the ways themselves are compared in test_routes")
def test_every_statement_keeps_void_columns_beside_others(spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    if where == "job":
        set_limits(monkeypatch, small=-1, local=-1)
    rowlock.write(spark.sql(ROWS), table_path, properties={"delta.enableChangeDataFeed": "true"})
    table, other = DeltaTable.forPath(spark, table_path), DeltaTable.forPath(spark, table_path)
    with winner(lambda: other.update("id = 1", {"id": "11"})):
        table.update("id <= 2", {"id": "id + 10", "n": "NULL"})
    with winner(lambda: other.optimize().executeCompaction()):
        table.delete("id = 3 AND n IS NULL")
    source = spark.sql("SELECT 5L AS k, NULL AS n UNION ALL SELECT 7L, NULL").alias("s")
    with winner(lambda: rowlock.write(spark.sql("SELECT 8L AS id, NULL AS n"), table_path)):
        table.alias("t").merge(source, "s.k = t.id").whenMatchedDelete().whenNotMatchedInsert(values={"id": "s.k", "n": "s.n"}).execute()
    rowlock.append(table_path, pa.table({"id": [9], "n": pa.nulls(1)}))
    rowlock.append(table_path, pa.table({"id": [10]}))
    assert both(spark, table_path) == [(n, None) for n in sorted((4, 7, 8, 9, 10, 10, 11, 12), key=str)]
    assert rowlock.changes(spark, table_path, 1).where("n IS NULL").count() == rowlock.changes(spark, table_path, 1).count() > 8
    assert rowlock.to_arrow(table_path)["n"].null_count == 8


@pytest.mark.parametrize("where", ["driver", "job"])
@pytest.mark.short("job", ci=("driver",), why="the same statements the other way; the ways themselves are compared in test_routes")
def test_a_void_column_gets_a_type_beside_others(spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """I5: whoever was staged while the column had no type loses no row and doubles none."""
    if where == "job":
        set_limits(monkeypatch, small=-1, local=-1)
    rowlock.write(spark.sql(ROWS), table_path)
    table = DeltaTable.forPath(spark, table_path)
    typed = spark.sql("SELECT id, CAST(id AS STRING) AS n FROM range(20, 22, 1, 1)")
    try:
        with winner(lambda: rowlock.write(typed, table_path, merge_schema=True)):
            table.update("id < 2 OR id = 20", {"id": "id + 100"})
    except DeltaConcurrentModificationException:
        table.update("id < 2 OR id = 20", {"id": "id + 100"})
    with winner(lambda: DeltaTable.forPath(spark, table_path).update("id = 3", {"n": "'three'"})):
        table.delete("id = 2")
    assert both(spark, table_path) == [(100, None), (101, None), (120, "20"), (21, "21"), (3, "three"), (4, None), (5, None)]


@pytest.mark.parametrize("where", ["driver", "job"])
@pytest.mark.short(
    ci=(
        "job",
        "driver",
    ),
    why="columns by themselves stay",
)
def test_void_fields_of_structs_are_kept_beside_others(spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """They are null in every row and in no file, whoever writes and however."""
    if where == "job":
        set_limits(monkeypatch, small=-1, local=-1)
    row = "SELECT {} AS id, named_struct('n', NULL, 'a', {}, 'deep', named_struct('m', NULL, 'b', 'x')) AS s"
    rowlock.write(spark.sql(" UNION ALL ".join(row.format(n, n) for n in range(4))), table_path, properties={"delta.columnMapping.mode": "name"})
    table, other = DeltaTable.forPath(spark, table_path), DeltaTable.forPath(spark, table_path)
    with winner(lambda: other.update("id = 1", {"s.a": "10"})):
        table.update("id <= 1", {"s.deep.b": "'y'"})
    with winner(lambda: other.optimize().executeCompaction()):
        table.delete("id = 2 AND s.n IS NULL")
    table.alias("t").merge(spark.sql(row.format(7, 8)).alias("s"), "s.id = t.id").whenNotMatchedInsertAll().execute()
    rowlock.append(
        table_path,
        pa.table({"id": pa.array([9], pa.int32()), "s": [{"a": 9, "deep": {"b": "z"}}]}).cast(
            pa.schema([("id", pa.int32()), ("s", pa.struct([("a", pa.int32()), ("deep", pa.struct([("b", pa.string())]))]))])
        ),
    )
    found = [(r.id, r.s.n, r.s.a, r.s.deep.m, r.s.deep.b) for r in rowlock.read(spark, table_path).orderBy("id").collect()]
    assert found == [(0, None, 0, None, "y"), (1, None, 10, None, "y"), (3, None, 3, None, "x"), (7, None, 8, None, "x"), (9, None, 9, None, "z")]
    assert both(spark, table_path)
    assert [r["deep"] for r in rowlock.to_arrow(table_path).sort_by("id")["s"].to_pylist()][:2] == [{"m": None, "b": "y"}] * 2


def test_what_void_columns_cannot_be(spark: SparkSession, table_path: str) -> None:
    rowlock.write(spark.sql(ROWS), table_path)
    table = DeltaTable.forPath(spark, table_path)
    for type_ in ("array<void>", "map<string, void>", "struct<a: void>", "struct<a: array<struct<b: void, c: int>>>"):
        with pytest.raises(UnsupportedFeature, match="void"):
            table.addColumn("inner", type_)
    with pytest.raises(SchemaMismatch):
        rowlock.append(table_path, pa.table({"id": [9], "n": [1]}))
    assert both(spark, table_path) == [(n, None) for n in range(6)]


def test_a_table_without_columns_gets_them_from_its_first_rows(spark: SparkSession, table_path: str) -> None:
    DeltaTable.create(spark).location(table_path).execute()
    assert rowlock.to_arrow(table_path).shape == (0, 0)
    for reading in (lambda: rowlock.read(spark, table_path).collect(), lambda: rowlock.read(spark, table_path).count()):
        with pytest.raises(SchemaMismatch, match="no columns"):
            reading()
    with pytest.raises(SchemaMismatch):
        rowlock.append(table_path, pa.table({"id": [1]}))
    with winner(lambda: rowlock.append(table_path, pa.table({"id": [1]}), merge_schema=True)):
        DeltaTable.forPath(spark, table_path).addColumn("n", "string")
    assert both(spark, table_path) == [(1, None)]


def test_nulls_are_stored_in_void_columns_under_every_policy(spark: SparkSession, table_path: str) -> None:
    """I9: Spark's own rule for INSERT stores no null in a void column under STRICT; delta-spark does."""
    rowlock.write(spark.sql(ROWS), table_path)
    spark.conf.set("spark.sql.storeAssignmentPolicy", "STRICT")
    try:
        rowlock.sql(spark, f"INSERT INTO delta.`{table_path}` SELECT 7L, NULL")
        rowlock.sql(spark, f"INSERT INTO delta.`{table_path}` BY NAME SELECT NULL AS n, 8L AS id")
        with pytest.raises(AnalysisException, match="CANNOT_SAFELY_CAST"):
            rowlock.sql(spark, f"INSERT INTO delta.`{table_path}` SELECT 9L, 1")
    finally:
        spark.conf.unset("spark.sql.storeAssignmentPolicy")
    assert both(spark, table_path) == [(n, None) for n in (0, 1, 2, 3, 4, 5, 7, 8)]


def test_a_stream_writes_no_void_columns(spark: SparkSession, table_path: str) -> None:
    """Nor does delta-spark: what a stream lacks a type for is a mistake more often than a wish."""
    with pytest.raises(SchemaMismatch, match="type void") as e:
        write_batch(spark, spark.sql("SELECT 1 AS id, named_struct('a', 1, 'b', NULL) AS s"), 0, {"path": table_path}, [], "Append")
    assert e.value.getCondition() == "DELTA_NULL_SCHEMA_IN_STREAMING_WRITE" and not DeltaTable.isDeltaTable(spark, table_path)
