"""Tables by their names in the session's catalog: what Rowlock enters, delta-spark finds, and the other way round; a name that will not do is refused before anything is written."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.errors import AnalysisException, ParseException, UnsupportedOperationException
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

import rowlock
from rowlock import DeltaTable
from rowlock.exceptions import InvalidInput, SchemaMismatch, TableExists, TableNotFound
from rowlock.tables import IdentityGenerator
from spark.support import rows, unchanged, version

pytestmark = pytest.mark.spark


@pytest.fixture
def name(spark, tmp_path):
    """A name that is free, in a schema whose tables lie below tmp_path, where the peers look for them."""
    schema, table = f"s{uuid4().hex[:12]}", f"t{uuid4().hex[:12]}"
    spark.sql(f"CREATE SCHEMA {schema} LOCATION '{tmp_path / 'house'}'")
    yield f"{schema}.{table}"
    spark.sql(f"DROP SCHEMA {schema} CASCADE")


@pytest.fixture
def kept(spark, tmp_path, name):
    """As `name`, and what the catalog owns is copied beside it for the peers before it is dropped."""
    yield name
    if (tmp_path / "house").exists():
        shutil.copytree(tmp_path / "house", tmp_path / "kept")


def folder_of(tmp_path: Path, name: str) -> str:
    return str(tmp_path / "house" / name.split(".")[1])


def builder(make, spark, name, columns="id int, v string"):
    return make(spark).tableName(name).addColumns(StructType.fromDDL(columns))


# ---- finding -----------------------------------------------------------------------------------


def test_for_name_opens_what_delta_spark_made(spark, tmp_path, kept):
    spark.createDataFrame([(1, "a"), (2, "b")], "id int, v string").write.format("delta").saveAsTable(kept)
    table = DeltaTable.forName(spark, kept)
    table.update("id = 1", {"v": "'x'"})
    assert rows(spark.table(kept)) == rows(table.toDF()) == [(1, "x"), (2, "b")]
    assert table.detail().first().name == f"spark_catalog.{kept}"
    assert rows(DeltaTable.forName(spark, f"spark_catalog.{kept}").alias("t").toDF().select("t.id")) == [(1,), (2,)]
    assert rows(DeltaTable.forName(spark, kept.upper()).toDF()) == rows(table.toDF())


def test_a_name_alone_is_one_in_the_current_schema(spark, tmp_path, kept):
    schema, table = kept.split(".")
    spark.sql(f"USE {schema}")
    try:
        builder(DeltaTable.create, spark, table).execute()
        assert DeltaTable.forName(spark, table).toDF().columns == ["id", "v"]
        assert version(folder_of(tmp_path, kept)) == 0
    finally:
        spark.sql("USE default")


def test_expressions_call_a_table_by_its_name(spark, kept):
    """As with delta-spark: `t.id`, `schema.t.id` and the whole name, in conditions and for the columns to set; an alias takes its place."""
    table = kept.split(".")[1]
    builder(DeltaTable.create, spark, kept).execute()
    t = DeltaTable.forName(spark, kept)
    spark.sql(f"INSERT INTO {kept} VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    t.update(f"{table}.id = 1", {f"{table}.v": f"concat({kept}.v, '!')"})
    t.delete(F.col(f"spark_catalog.{kept}.id") == 2)
    source = spark.sql("SELECT 3 AS id, 'z' AS v UNION ALL SELECT 4, 'new'").alias("s")
    merge = t.merge(source, F.col(f"{table}.id") == F.col("s.id")).whenMatchedUpdate(set={f"{kept}.v": f"concat({table}.v, s.v)"})
    merge.whenNotMatchedInsert(values={f"{table}.id": "s.id"}).whenNotMatchedBySourceUpdate(f"{table}.id = 1", {"v": f"upper({table}.v)"}).execute()
    with t.transaction() as txn:
        txn.update(f"{table}.id = 4", {"v": "'d'"})
    assert rows(t.toDF().select(f"{table}.id", f"{table}.v")) == [(1, "A!"), (3, "cz"), (4, "d")]
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        t.alias("x").delete(f"{table}.id = 1")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda spark, name: None, "cannot be found"),
        (lambda spark, name: spark.sql(f"CREATE TABLE {name} (id int) USING parquet"), "format parquet, not a Delta table"),
        (lambda spark, name: spark.sql(f"CREATE VIEW {name} AS SELECT 1 AS id"), "a view, not a Delta table"),
    ],
    ids=["nothing", "Parquet", "a view"],
)
def test_for_name_of_something_else(spark, name, make, text):
    make(spark, name)
    for caught in (TableNotFound, AnalysisException):
        with pytest.raises(caught, match=text) as e:
            DeltaTable.forName(spark, name)
        assert name in str(e.value)


def test_for_name_of_what_is_no_name_of_ours(spark, name):
    spark.range(3).createOrReplaceTempView("rows_of_a_view")
    with pytest.raises(TableNotFound, match="temporary view"):
        DeltaTable.forName(spark, "rows_of_a_view")
    with pytest.raises(InvalidInput, match="spark_catalog"):
        DeltaTable.forName(spark, "another_catalog.schema.table")
    with pytest.raises(ParseException):
        DeltaTable.forName(spark, "not a name")
    with pytest.raises(TypeError):
        DeltaTable.forName(spark, 7)


# ---- making ------------------------------------------------------------------------------------


def test_a_table_under_a_name_is_the_catalogs(spark, tmp_path, kept):
    table = builder(DeltaTable.create, spark, kept).partitionedBy("v").property("team", "oars").comment("sales").execute()
    rowlock.write(spark.createDataFrame([(1, "a")], "id int, v string"), folder_of(tmp_path, kept))
    spark.sql(f"INSERT INTO {kept} VALUES (2, 'b')")
    assert rows(table.toDF()) == rows(spark.table(kept)) == [(1, "a"), (2, "b")]
    described = spark.sql(f"DESCRIBE DETAIL {kept}").first()
    assert (described.name, described.description, described.partitionColumns, described.properties["team"]) == (
        f"spark_catalog.{kept}",
        "sales",
        ["v"],
        "oars",
    )
    assert table.history().where("version = 0").first().operationParameters["isManaged"] == "true"


def test_dropping_a_name_deletes_a_managed_folder_only(spark, tmp_path, name):
    outside = str(tmp_path / "outside")
    builder(DeltaTable.create, spark, name).execute()
    builder(DeltaTable.create, spark, f"{name}_2").location(outside).execute()
    assert DeltaTable.forName(spark, f"{name}_2").detail().first().location == f"file:{outside}"
    for made in (name, f"{name}_2"):
        spark.sql(f"DROP TABLE {made}")
    assert not Path(folder_of(tmp_path, name)).exists()
    assert version(outside) == 0


def test_clustering_columns_through_a_name(spark, kept):
    builder(DeltaTable.create, spark, kept).clusterBy("id").execute()
    assert spark.sql(f"DESCRIBE DETAIL {kept}").first().clusteringColumns == ["id"]


def test_the_four_builders_by_name(spark, tmp_path, kept):
    with pytest.raises(TableNotFound, match="cannot be found") as e:
        builder(DeltaTable.replace, spark, kept).execute()
    assert isinstance(e.value, AnalysisException)
    assert not Path(folder_of(tmp_path, kept)).exists()
    builder(DeltaTable.createIfNotExists, spark, kept).execute()
    with unchanged(folder_of(tmp_path, kept)):
        with pytest.raises(TableExists, match="already exists") as e:
            builder(DeltaTable.create, spark, kept).execute()
        assert isinstance(e.value, AnalysisException)
        assert builder(DeltaTable.createIfNotExists, spark, kept, "other int").execute().toDF().columns == ["id", "v"]
    assert builder(DeltaTable.replace, spark, kept, "other int").execute().toDF().columns == ["other"]
    assert builder(DeltaTable.createOrReplace, spark, kept, "third int").execute().toDF().columns == ["third"]
    assert spark.table(kept).columns == ["third"]
    assert version(folder_of(tmp_path, kept)) == 2


def test_create_or_replace_makes_a_table(spark, tmp_path, kept):
    builder(DeltaTable.createOrReplace, spark, kept).execute()
    assert spark.table(kept).columns == ["id", "v"]


def test_a_table_that_is_there_is_given_a_name(spark, tmp_path, name):
    path = str(tmp_path / "there")
    rowlock.write(spark.createDataFrame([(1, "a")], "id int, v string"), path)
    with unchanged(path):
        with pytest.raises(SchemaMismatch, match="columns are others"):
            builder(DeltaTable.create, spark, name, "id int").location(path).execute()
        with pytest.raises(SchemaMismatch, match="partitioned by nothing"):
            builder(DeltaTable.createIfNotExists, spark, name).partitionedBy("v").location(path).execute()
        for described in (builder(DeltaTable.create, spark, name), DeltaTable.createIfNotExists(spark).tableName(name)):
            with pytest.raises(SchemaMismatch, match="clustered by nothing"):
                described.clusterBy("v").location(path).execute()
        with pytest.raises(TableNotFound):
            DeltaTable.forName(spark, name)
        builder(DeltaTable.create, spark, name).location(path).execute()
        DeltaTable.createIfNotExists(spark).tableName(f"{name}_2").location(path).execute()
    assert rows(spark.table(name)) == rows(spark.table(f"{name}_2")) == [(1, "a")]


def test_a_managed_table_never_takes_a_folder_that_holds_something(spark, tmp_path, name):
    folder = folder_of(tmp_path, name)
    os.makedirs(folder)
    Path(folder, "letter.txt").write_text("keep me")
    for make in (DeltaTable.create, DeltaTable.createIfNotExists, DeltaTable.createOrReplace):
        with pytest.raises(TableExists, match=r"letter\.txt"):
            builder(make, spark, name).execute()
    assert os.listdir(folder) == ["letter.txt"]


def test_a_writer_that_stopped_before_the_name_was_entered(spark, tmp_path, kept):
    """The log is there and the name is not: createIfNotExists ends what was begun."""
    folder = folder_of(tmp_path, kept)
    DeltaTable.create(spark).location(folder).addColumns(StructType.fromDDL("id int, v string")).execute()
    with pytest.raises(TableExists, match="already"):
        builder(DeltaTable.create, spark, kept).execute()
    builder(DeltaTable.createIfNotExists, spark, kept).execute()
    assert spark.table(kept).columns == ["id", "v"]
    assert version(folder) == 0


def test_what_names_refuse_before_anything_is_written(spark, tmp_path, name):
    place, house = str(tmp_path / "place"), tmp_path / "house"
    builder(DeltaTable.create, spark, f"{name}_there").location(place).execute()
    cases = {
        "location": (InvalidInput, builder(DeltaTable.createOrReplace, spark, f"{name}_there").location(str(house / "x"))),
        "location ": (InvalidInput, builder(DeltaTable.create, spark, f"delta.`{house}/x`").location(str(house / "y"))),
        "SCHEMA_NOT_FOUND": (AnalysisException, builder(DeltaTable.create, spark, "no_such_schema.t")),
        "no name for a table": (InvalidInput, builder(DeltaTable.create, spark, "`../t`")),
        "spark_catalog": (InvalidInput, builder(DeltaTable.create, spark, "elsewhere.schema.t")),
        "cannot be generated": (AnalysisException, builder(DeltaTable.create, spark, name).addColumn("g", "int", generatedAlwaysAs="g + 1")),
    }
    for text, (kind, made) in cases.items():
        with pytest.raises(kind, match=text.strip()):
            made.execute()
    assert not house.exists() or os.listdir(house) == []
    assert version(place) == 0


def test_columns_that_spark_would_refuse_raise_what_spark_raises(spark):
    with pytest.raises(ParseException):
        DeltaTable.create(spark).addColumn("id", "1")
    with pytest.raises(UnsupportedOperationException, match="bigint"):
        DeltaTable.create(spark).addColumn("id", "int", generatedByDefaultAs=IdentityGenerator())
