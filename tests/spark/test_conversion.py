"""convertToDelta: a folder of Parquet files becomes a table in place; every reader finds its rows, and no statistic of it is false."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import ParseException
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

import rowlock
from rowlock import DeltaTable
from rowlock.exceptions import InvalidInput, NameNotFound, SchemaMismatch, TableNotFound
from spark.support import data_files, delta_rows, read, rows, version

pytestmark = pytest.mark.spark


def convert(spark, path, *partitions):
    return DeltaTable.convertToDelta(spark, f"parquet.`{path}`", *partitions)


def added(table):
    return list(table._handle.state.refresh().files.adds())


def test_a_folder_becomes_a_table(spark, table_path):
    spark.range(10).selectExpr("id", "cast(id as string) as name", "struct(id as a) as s").repartition(3).write.parquet(table_path)
    before = data_files(table_path)
    table = convert(spark, table_path)
    assert data_files(table_path) == before
    assert len(added(table)) == len(before)
    assert len(delta_rows(spark, table_path)) == 10
    assert rows(table.toDF()) == delta_rows(spark, table_path)
    entry = table.history().first()
    assert (entry.operation, entry.operationParameters["numFiles"]) == ("CONVERT", str(len(before)))
    stats = [f.parsed_stats() for f in added(table)]
    assert sum(s["numRecords"] for s in stats) == 10
    assert (min(s["minValues"]["id"] for s in stats), max(s["maxValues"]["id"] for s in stats)) == (0, 9)
    table.update("id = 3", {"name": "'three'"})
    spark.sql(f"DELETE FROM delta.`{table_path}` WHERE id = 4")
    assert len(read(spark, table_path)) == 9


def test_a_table_that_is_there_is_left_as_it_is(spark, table_path):
    rowlock.write(spark.range(3), table_path)
    convert(spark, table_path)
    assert version(table_path) == 0
    assert DeltaTable.convertToDelta(spark, f"delta.`{table_path}`").toDF().count() == 3  # a path that is a table's, as delta-spark takes it
    assert version(table_path) == 0
    with pytest.raises(TableNotFound):
        DeltaTable.convertToDelta(spark, f"delta.`{table_path}/none`")


@pytest.mark.parametrize(
    "given", ["p string, q int", StructType([StructField("Q", IntegerType()), StructField("p", StringType())])], ids=["text", "a StructType"]
)
def test_partitions_come_from_the_folders(spark, table_path, given):
    source = spark.createDataFrame([(1, "a b", 1), (2, "c/d=e", 2), (3, None, 3), (4, "ü%", None)], "id int, p string, q int")
    source.write.partitionBy("p", "q").parquet(table_path)
    table = convert(spark, table_path, given)
    wanted = rows(source)
    assert rows(table.toDF().select("id", "p", "q")) == wanted
    assert rows(spark.read.format("delta").load(table_path).select("id", "p", "q")) == wanted
    assert sorted(c.lower() for c in table.detail().first().partitionColumns) == ["p", "q"]
    table.delete("q = 2")
    assert len(delta_rows(spark, table_path)) == 3


def test_every_partition_type(spark, table_path):
    row = spark.sql(
        "select 1 as id, date'2026-01-02' as d, timestamp'2026-01-02 03:04:05' as t, true as b, cast(1.50 as decimal(5,2)) as m, 2.5D as f, 7L as l"
    )
    row.write.partitionBy("d", "t", "b", "m", "f", "l").parquet(table_path)
    table = convert(spark, table_path, "d date, t timestamp, b boolean, m decimal(5,2), f double, l bigint")
    assert rows(table.toDF()) == delta_rows(spark, table_path) == rows(row)


def test_files_with_more_columns_than_others_are_one_table(spark, table_path):
    spark.range(2).write.parquet(table_path)
    spark.range(2, 4).selectExpr("id", "'x' as late").write.mode("append").parquet(table_path)
    assert rows(convert(spark, table_path).toDF()) == delta_rows(spark, table_path) == [(0, None), (1, None), (2, "x"), (3, "x")]


def test_narrower_integers_and_names_in_other_letters_are_one_column(spark, table_path):
    """I5: every engine reads the values of both kinds of files."""
    spark.sql("SELECT cast(1 AS tinyint) AS a, named_struct('x', cast(1 AS smallint), 'l', array(cast(1 AS tinyint))) AS s").write.parquet(table_path)
    spark.sql("SELECT 70000 AS A, named_struct('X', 70000, 'l', array(70000), 'y', 'new') AS s").write.mode("append").parquet(table_path)
    table = convert(spark, table_path)
    wanted = [(1, (1, [1], None)), (70000, (70000, [70000], "new"))]
    assert rows(table.toDF()) == delta_rows(spark, table_path) == wanted
    assert sorted(rowlock.to_arrow(table_path).column(0).to_pylist()) == [1, 70000]
    assert [f.dataType.simpleString().lower() for f in table.toDF().schema] == ["int", "struct<x:int,l:array<int>,y:string>"]
    assert table.toDF().where("a = 70000").count() == 1
    table.delete("a = 1")
    assert rows(table.toDF()) == delta_rows(spark, table_path) == wanted[1:]


def test_a_column_that_files_hold_as_well_has_the_values_of_the_folders(spark, table_path):
    spark.sql("SELECT 'in the file' AS P, 1 AS id, 5 AS q").write.parquet(f"{table_path}/p=7")
    table = convert(spark, table_path, "p int")
    assert rows(table.toDF()) == delta_rows(spark, table_path) == [(7, 1, 5)]
    assert rowlock.to_arrow(table_path).to_pylist() == [{"p": 7, "id": 1, "q": 5}]
    table.update("p = 7", {"q": "p + 1"})
    assert rows(table.toDF()) == delta_rows(spark, table_path) == [(7, 1, 8)]


def test_hidden_files_and_files_of_other_names(spark, table_path):
    spark.range(3).coalesce(1).write.parquet(table_path)
    os.makedirs(f"{table_path}/_hidden/deep")
    os.makedirs(f"{table_path}/sub[1] {{a}}%20")
    for place in ("_hidden/deep/x.parquet", ".hidden.parquet"):
        pq.write_table(pa.table({"id": [99]}), f"{table_path}/{place}")
    pq.write_table(pa.table({"id": [7]}), f"{table_path}/sub[1] {{a}}%20/no ending")
    table = convert(spark, table_path)
    assert rows(table.toDF()) == delta_rows(spark, table_path) == [(0,), (1,), (2,), (7,)]


def test_partitions_by_columns_with_names_that_hadoop_hides(spark, table_path):
    """I5: no row of them is left out."""
    spark.range(4).selectExpr("id", "id % 2 as _p", "id % 2 as `.q`").write.partitionBy("_p", ".q").parquet(table_path)
    assert rows(convert(spark, table_path, "_p long, `.q` long").toDF()) == delta_rows(spark, table_path) == [(i, i % 2, i % 2) for i in range(4)]


def test_columns_of_files_that_are_there_get_no_ids(spark, table_path):
    """I5: the files hold the columns by their names alone, so that under other names and ids every value would be null."""
    spark.range(2).write.parquet(table_path)
    spark.conf.set("spark.databricks.delta.properties.defaults.columnMapping.mode", "name")
    try:
        with pytest.raises(InvalidInput, match="columns have no ids"):
            convert(spark, table_path)
    finally:
        spark.conf.unset("spark.databricks.delta.properties.defaults.columnMapping.mode")
    assert not os.path.exists(f"{table_path}/_delta_log")


@pytest.mark.no_peers("deltalake and DuckDB know nothing of the calendar that Spark's older files are in")
def test_bounds_are_taken_only_where_the_calendar_is_known(spark, table_path, tmp_path):
    """A file for older readers counts old days otherwise than it says them."""
    old = datetime.date(1200, 3, 1)
    spark.conf.set("spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY")
    try:
        spark.createDataFrame([(old,)], "d date").coalesce(1).write.parquet(table_path)
    finally:
        spark.conf.unset("spark.sql.parquet.datetimeRebaseModeInWrite")
    table = convert(spark, table_path)
    assert [(f.num_records, f.parsed_stats()["minValues"]) for f in added(table)] == [(1, {})]
    assert rows(table.toDF().where("d = date'1200-03-01'")) == [(old,)]
    other = str(tmp_path / "other")
    os.makedirs(other)
    pq.write_table(pa.table({"id": [1, 2]}), f"{other}/by_arrow.parquet")
    assert [(f.num_records, f.parsed_stats()["minValues"]) for f in added(convert(spark, other))] == [(2, {})]


def test_comments_stay_and_what_another_log_said_does_not(spark, table_path):
    frame = spark.range(2)
    frame = frame.select(frame.id.alias("id", metadata={"comment": "the key", "delta.columnMapping.id": 4, "delta.columnMapping.physicalName": "col-x"}))
    frame.write.parquet(table_path)
    schema = convert(spark, table_path).toDF().schema
    assert (schema["id"].metadata, schema["id"].nullable) == ({"comment": "the key"}, True)
    assert delta_rows(spark, table_path) == [(0,), (1,)]


def test_what_cannot_be_converted_is_refused_before_anything_is_written(spark, table_path, tmp_path):
    plain, partitioned, mixed, broken, empty = (str(tmp_path / n) for n in ("plain", "partitioned", "mixed", "broken", "empty"))
    spark.range(2).write.parquet(plain)
    spark.range(2).selectExpr("id", "'x' as p").write.partitionBy("p").parquet(partitioned)
    spark.range(2).write.parquet(mixed)
    spark.range(2).selectExpr("cast(id as string) as id").write.mode("append").parquet(mixed)
    os.makedirs(broken)
    Path(broken, "x.parquet").write_text("not Parquet")
    os.makedirs(empty)
    cases = [
        (SchemaMismatch, r"\[p\]", lambda: convert(spark, partitioned)),
        (SchemaMismatch, r"\[\]", lambda: convert(spark, plain, "p string")),
        (SchemaMismatch, r"\[other\]", lambda: convert(spark, partitioned, "other string")),
        (InvalidInput, "'x', which is no int", lambda: convert(spark, partitioned, "p int")),
        (SchemaMismatch, "common", lambda: convert(spark, mixed)),
        (InvalidInput, r"x\.parquet is not", lambda: convert(spark, broken)),
        (InvalidInput, "no Parquet file", lambda: convert(spark, empty)),
        (InvalidInput, "no Parquet file", lambda: convert(spark, str(tmp_path / "nowhere"))),
        (NameNotFound, "some_table", lambda: DeltaTable.convertToDelta(spark, "some_table")),
        (ParseException, "not", lambda: convert(spark, partitioned, "p not a type")),
        (TypeError, "partitionSchema", lambda: convert(spark, partitioned, 7)),
        (TypeError, "identifier", lambda: DeltaTable.convertToDelta(spark, 7)),
    ]
    for kind, text, call in cases:
        with pytest.raises(kind, match=text):
            call()
    assert not list(tmp_path.rglob("_delta_log"))
    assert not (tmp_path / "nowhere").exists()


def test_partitions_that_the_catalog_knows_otherwise_are_refused(spark, tmp_path):
    """Rows of a partition elsewhere would go, and those of one that was dropped would come back."""
    frame = spark.createDataFrame([(1, 1), (2, 2)], "id int, p int")
    frame.write.partitionBy("p").format("parquet").option("path", str(tmp_path / "t")).saveAsTable("listed_partitions")
    try:
        spark.sql(f"ALTER TABLE listed_partitions ADD PARTITION (p = 3) LOCATION '{tmp_path / 'elsewhere'}'")
        with pytest.raises(InvalidInput, match="not below the table's folder"):
            DeltaTable.convertToDelta(spark, "listed_partitions")
        spark.sql("ALTER TABLE listed_partitions DROP PARTITION (p = 3)")
        spark.sql("ALTER TABLE listed_partitions DROP PARTITION (p = 2)")
        with pytest.raises(InvalidInput, match="knows no partition"):
            DeltaTable.convertToDelta(spark, "listed_partitions")
        assert not (tmp_path / "t" / "_delta_log").exists() and rows(spark.table("listed_partitions")) == [(1, 1)]
    finally:
        spark.sql("DROP TABLE listed_partitions")


def test_a_file_of_another_type_than_the_catalogs_is_refused(spark, tmp_path):
    spark.range(3).write.parquet(str(tmp_path / "t"))
    spark.sql(f"CREATE TABLE typed_otherwise (id INT, more STRING) USING parquet LOCATION '{tmp_path / 't'}'")
    try:
        with pytest.raises(SchemaMismatch, match="'id' is int in the catalog and bigint in files"):
            DeltaTable.convertToDelta(spark, "typed_otherwise")
    finally:
        spark.sql("DROP TABLE typed_otherwise")
