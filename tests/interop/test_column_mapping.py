"""Tables whose columns are mapped, by name and by id: both engines write in turns, and all readers find the same rows."""

from __future__ import annotations

import glob

import orjson
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import rowlock
from interop.peer_tables import sql
from interop.readers import assert_same_rows, by_delta_spark, by_rowlock, rows_by_all, rows_of
from rowlock import DeltaTable
from rowlock.exceptions import ConstraintViolated, InvalidInput
from rowlock.protocol.schema import parse_schema
from rowlock.storage.open import open_store
from rowlock.transaction.state.shared import state_of
from spark.support import take_route, unchanged

pytestmark = [
    pytest.mark.spark,
    pytest.mark.soak(
        "a minute of turns with delta-spark; what maps columns is asked without it in tests/unit and, by name, in tests/spark/test_change_feed.py"
    ),
]

COLUMNS = "id bigint, `a b` struct<x: int, y: array<struct<z: int>>>, v bigint NOT NULL, p string, m map<string, struct<w: int>>"
ROWS = "select id, named_struct('x', cast(id as int), 'y', array(named_struct('z', cast(id as int)))) as `a b`, id * 10 as v, concat('p ', id % 2) as p, map('k', named_struct('w', 1)) as m from range({}, {})"


def check_files(path: str) -> None:
    """Every column of every data file has the name and the id that the log gives it, and statistics speak of the names in files."""
    snapshot = state_of(open_store(path)).refresh()
    ids = {f.physical_name: f.column_id for f in snapshot.schema.fields}
    for add in snapshot.files.adds():
        schema = pq.ParquetFile(f"{path}/{add.path}").schema_arrow
        own = [f for f in schema if not f.name.startswith("__rowlock")]
        assert {f.name for f in own} <= set(ids)
        assert all(int(f.metadata[b"PARQUET:field_id"]) == ids[f.name] for f in own)
        assert set(add.partition_values) == {ids_name for ids_name in ids if ids_name in add.partition_values}
        assert len(add.partition_values) == len(snapshot.partition_columns)
        assert set(orjson.loads(add.stats)["nullCount"]) <= set(ids)


def statements(spark: SparkSession, path: str, table: DeltaTable) -> None:
    rowlock.write(spark.sql(ROWS.format(10, 14)), path)
    table.update("`a b`.x % 3 = 0", {"v": "v + 1", "`a b`.x": "`a b`.x + 100"})
    source = spark.sql(ROWS.format(12, 16)).alias("s")
    table.alias("t").merge(source, "t.id = s.id AND t.p = s.p").whenMatchedUpdate(set={"v": "s.v + 5", "m": "s.m"}).whenNotMatchedInsertAll().execute()
    table.delete("id = 1")
    with pytest.raises(ConstraintViolated, match="v is NOT NULL"):
        table.update("id = 2", {"v": "null"})


@pytest.mark.parametrize("route", ["driver", "large"])
@pytest.mark.parametrize(("mode", "vectors"), [("name", "true"), ("id", "false")])
@pytest.mark.short("id-false-driver", why="40 s for each product of mode, layout and way; by name: test_two_columns_change_names")
def test_in_turns(spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch, mode: str, vectors: str, route: str) -> None:
    take_route(monkeypatch, route)
    if mode == "name":  # made by delta-spark
        properties = f"'delta.columnMapping.mode' = '{mode}', 'delta.enableDeletionVectors' = '{vectors}'"
        sql(spark, table_path, f"CREATE TABLE T ({COLUMNS}) USING delta PARTITIONED BY (p) TBLPROPERTIES ({properties})")
    else:
        schema = spark.createDataFrame([], COLUMNS).schema
        schema["v"].nullable = False
        DeltaTable.create(spark).location(table_path).addColumns(schema).partitionedBy("p").property("delta.columnMapping.mode", mode).property(
            "delta.enableDeletionVectors", vectors
        ).execute()
    rowlock.write(spark.sql(ROWS.format(0, 6)), table_path)
    table = DeltaTable.forPath(spark, table_path)
    statements(spark, table_path, table)
    check_files(table_path)
    sql(
        spark,
        table_path,
        "ALTER TABLE T RENAME COLUMN v TO `the v`",
        "ALTER TABLE T ADD COLUMN note string",
        "UPDATE T SET `the v` = 7, note = 'n' WHERE id = 2",
    )
    table.update("id = 3", {"`the v`": "`the v` + 1", "note": "'us'"})
    sql(spark, table_path, "ALTER TABLE T RENAME COLUMN p TO part", "ALTER TABLE T DROP COLUMN m")
    table.update("part = 'p 0'", {"note": "'even'"})
    table.optimize().where("part = 'p 1'").executeCompaction()
    table.optimize().executeCompaction()
    check_files(table_path)
    found = rows_by_all(spark, table_path)
    assert len(found) == 11


def test_two_columns_change_names(spark: SparkSession, table_path: str) -> None:
    """What is kept on the driver of a file is kept under the columns' ids, so to say: a becomes b and b becomes a."""
    rowlock.write(spark.sql("select id, id as a, id * 100 as b from range(5)"), table_path, properties={"delta.columnMapping.mode": "name"})
    table = DeltaTable.forPath(spark, table_path)
    table.update("id = 1", {"a": "a"})
    sql(spark, table_path, "ALTER TABLE T RENAME COLUMN a TO c", "ALTER TABLE T RENAME COLUMN b TO a", "ALTER TABLE T RENAME COLUMN c TO b")
    table.update("a = 300", {"b": "b + 1"})
    assert (3, 4, 300) in rows_by_all(spark, table_path)


def test_a_table_that_begins_to_map(spark: SparkSession, table_path: str) -> None:
    """Columns keep their names in files, new ones get names of their own; a wider write gives ids."""
    rowlock.write(spark.sql("select id, id as v from range(5)"), table_path)
    table = DeltaTable.forPath(spark, table_path)
    table.setProperties({"delta.columnMapping.mode": "name"})
    with pytest.raises(InvalidInput, match="from name to id"):
        table.setProperties({"delta.columnMapping.mode": "id"})
    rowlock.write(spark.sql("select 9L as id, 9L as v, named_struct('x', 1) as `new one`"), table_path, merge_schema=True)
    table.update("id < 2", {"v": "v + 1"})
    schema = parse_schema(state_of(open_store(table_path)).refresh().metadata.schema_string)
    assert [f.column_id for f in schema.fields] == [1, 2, 3] and schema.fields[1].physical_name == "v" and schema.fields[2].physical_name.startswith("col-")
    sql(spark, table_path, "ALTER TABLE T DROP COLUMN v", "ALTER TABLE T ADD COLUMN v bigint", "UPDATE T SET v = 5 WHERE id = 3")
    table.update("id = 4", {"v": "6"})
    found = rows_of(by_rowlock(spark, table_path))
    assert_same_rows(found, rows_of(by_delta_spark(spark, table_path), ["id", "new one", "v"]), "rowlock", "delta-spark")
    assert sum(row[2] is not None for row in found) == 2
    assert not glob.glob(f"{table_path}/_delta_log/*.tmp")


def test_files_that_delta_spark_clustered_lie_in_order(spark: SparkSession, table_path: str) -> None:
    """It says of which columns by the table's own names, in back quotes where they need them."""
    sql(
        spark, table_path,
        "CREATE TABLE T (id bigint, `a b` struct<x: int>) USING delta CLUSTER BY (`a b`.x, id) TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "INSERT INTO T SELECT id, named_struct('x', cast(id % 3 as int)) FROM range(50)",
        "OPTIMIZE T ",
    )  # fmt: skip
    table = DeltaTable.forPath(spark, table_path)
    with unchanged(table_path):
        table.optimize().executeCompaction()
    sql(spark, table_path, "ALTER TABLE T CLUSTER BY (id)")
    with unchanged(table_path):  # files of other columns stay until OPTIMIZE FULL, as in delta-spark
        table.optimize().executeCompaction()
    stats = rowlock.sql(spark, f"OPTIMIZE delta.`{table_path}` FULL").first().metrics.clusteringStats
    assert stats.mergedFiles.numFiles == 1
