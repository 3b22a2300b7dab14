"""DeltaTable has delta.tables' surface: the same names, arguments and answers, so that a pipeline moves by changing one import (I3 for one writer)."""

from __future__ import annotations

import datetime
import inspect
import json
from decimal import Decimal
from pathlib import Path

import delta.tables as theirs
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

import rowlock
import rowlock.tables as ours
from rowlock import DeltaTable
from rowlock.exceptions import InvalidInput, SchemaMismatch, TableExists, TableNotFound, UnsupportedFeature, VersionNotFound
from spark.support import delta_rows, make, read, rows, unchanged, version

pytestmark = pytest.mark.spark

SUPPORTED = {
    "DeltaTable": "forPath forName isDeltaTable create createIfNotExists createOrReplace replace toDF alias history detail delete update merge optimize "
    "vacuum generate convertToDelta restoreToVersion restoreToTimestamp upgradeTableProtocol addFeatureSupport dropFeatureSupport clone cloneAtVersion cloneAtTimestamp",
    "DeltaTableBuilder": "tableName location comment addColumn addColumns partitionedBy clusterBy property execute",
    "DeltaMergeBuilder": "whenMatchedUpdate whenMatchedUpdateAll whenMatchedDelete whenNotMatchedInsert whenNotMatchedInsertAll whenNotMatchedBySourceUpdate "
    "whenNotMatchedBySourceDelete withSchemaEvolution execute",
    "DeltaOptimizeBuilder": "where executeCompaction executeZOrderBy",
}


@pytest.mark.parametrize(("name", "method"), [(c, m) for c, methods in SUPPORTED.items() for m in methods.split()])
def test_signatures_are_those_of_delta_tables(name, method):
    def shape(module):
        found = inspect.signature(getattr(getattr(module, name), method)).parameters.values()
        return [(p.name, p.kind, p.default is inspect.Parameter.empty) for p in found if p.name not in ("storage_options", "default")]  # ours, beyond theirs

    assert shape(ours) == shape(theirs)


def test_every_class_of_delta_tables_has_its_name():
    public = {n for n, c in vars(theirs).items() if inspect.isclass(c) and c.__module__ == "delta.tables"}
    assert public <= set(ours.__all__)


# ---- making tables -------------------------------------------------------------------------


@pytest.mark.soak("a second engine reads what was recorded; the parts are asked without Spark", ci=True)
def test_create_records_everything_that_was_said(spark, table_path):
    table = (
        DeltaTable.create(spark)
        .location(table_path)
        .addColumn("id", "BIGINT", nullable=False, comment="the key")
        .addColumn("region", StringType())
        .addColumns([StructField("n", IntegerType())])
        .addColumns(StructType([StructField("extra", StringType(), True, {"comment": "free"})]))
        .partitionedBy("region")
        .property("delta.checkpointInterval", "7")
        .property("team", "oars")
        .comment("sales of the day")
        .execute()
    )
    assert isinstance(table, DeltaTable)
    detail = table.detail().first()
    assert (detail.format, detail.description, detail.partitionColumns, detail.numFiles) == ("delta", "sales of the day", ["region"], 0)
    assert detail.properties["delta.checkpointInterval"] == "7"
    assert detail.properties["team"] == "oars"
    assert detail.properties["delta.enableDeletionVectors"] == "true"
    schema = spark.read.format("delta").load(table_path).schema
    assert schema.fieldNames() == ["id", "region", "n", "extra"]
    assert schema["id"].metadata == {"comment": "the key"}
    assert schema["extra"].metadata == {"comment": "free"}
    assert table.toDF().schema["id"].metadata == {"comment": "the key"}
    described = spark.sql(f"DESCRIBE DETAIL delta.`{table_path}`").first()
    assert (described.partitionColumns, described.description) == (["region"], "sales of the day")


def test_partitioned_by_takes_names_and_lists(spark, tmp_path):
    for n, given in enumerate([("a", "b"), (["a", "b"],), (("a", "b"),)]):
        table = DeltaTable.create(spark).location(str(tmp_path / str(n))).addColumns(StructType.fromDDL("a int, b int, c int")).partitionedBy(*given).execute()
        assert table.detail().first().partitionColumns == ["a", "b"]


def test_cluster_by_is_recorded(spark, table_path):
    table = DeltaTable.create(spark).location(table_path).addColumn("id", "BIGINT").addColumn("Day", "DATE").clusterBy("day", "id").execute()
    assert table.detail().first().clusteringColumns == ["Day", "id"]
    assert spark.sql(f"DESCRIBE DETAIL delta.`{table_path}`").first().clusteringColumns == ["Day", "id"]
    rowlock.write(spark.range(3).selectExpr("id", "date'2026-01-01' as Day"), table_path)
    table.delete("id = 1")
    assert table.detail().first().clusteringColumns == ["Day", "id"]
    assert len(delta_rows(spark, table_path)) == 2


def test_cluster_by_an_unknown_column_is_refused(spark, table_path):
    with pytest.raises(InvalidInput, match="nothere"):
        DeltaTable.create(spark).location(table_path).addColumn("id", "BIGINT").clusterBy("nothere").execute()
    with pytest.raises(InvalidInput, match="partitioned or clustered"):
        DeltaTable.create(spark).location(table_path).addColumn("id", "BIGINT").addColumn("p", "INT").clusterBy("id").partitionedBy("p").execute()
    assert version(table_path) == -1


def test_builders_by_what_is_there(spark, table_path):
    def builder(make_one):
        return make_one(spark).location(table_path).addColumn("id", "BIGINT")

    with pytest.raises(TableNotFound, match="createOrReplace"):
        builder(DeltaTable.replace).execute()
    builder(DeltaTable.createIfNotExists).execute()
    with pytest.raises(TableExists, match="createOrReplace"):
        builder(DeltaTable.create).execute()
    rowlock.write(spark.range(3), table_path)
    assert len(rows(builder(DeltaTable.createIfNotExists).addColumn("ignored", "INT").execute().toDF())) == 3
    replaced = builder(DeltaTable.replace).addColumn("name", "STRING").execute()
    assert replaced.toDF().columns == ["id", "name"]
    assert rows(replaced.toDF()) == []
    again = DeltaTable.createOrReplace(spark).location(table_path).addColumn("only", "STRING").partitionedBy().execute()
    assert again.toDF().columns == ["only"]
    assert spark.read.format("delta").load(table_path).columns == ["only"]
    assert [r.operation for r in again.history().collect()] == ["CREATE OR REPLACE TABLE", "REPLACE TABLE", "WRITE", "CREATE TABLE"]


def test_a_builder_needs_no_session_and_takes_delta_path_names(spark, table_path):
    table = DeltaTable.createOrReplace().tableName(f"delta.`{table_path}`").addColumn("id", "INT").execute()
    assert rows(DeltaTable.forName(spark, f"delta.`{table_path}`").toDF()) == rows(table.toDF()) == []


def test_what_builders_refuse(spark, table_path):
    with pytest.raises(InvalidInput, match="location"):
        DeltaTable.create(spark).addColumn("id", "INT").execute()
    with pytest.raises(InvalidInput, match="notatype"):
        DeltaTable.create(spark).addColumn("id", "notatype")
    with pytest.raises(InvalidInput, match="DELTA_INVALID_GENERATED_COLUMN_REFERENCES"):
        DeltaTable.create(spark).location(table_path).addColumn("id", "INT", generatedAlwaysAs="id + 1").execute()
    with pytest.raises(UnsupportedFeature, match="identity"):
        DeltaTable.create(spark).location(table_path).addColumn("id", "INT", generatedByDefaultAs=ours.IdentityGenerator())
    assert not Path(table_path).exists()


def test_deep_clones_are_refused_by_name(spark, table_path):
    """As by delta-spark's open source."""
    table = make(spark, table_path, spark.range(3))
    with unchanged(table_path):
        for call in (
            lambda: table.clone("/elsewhere"),
            lambda: table.cloneAtVersion(0, "/elsewhere"),
            lambda: table.cloneAtTimestamp("2026-01-01", "/elsewhere"),
        ):
            with pytest.raises(UnsupportedFeature, match="deep clones"):
                call()


# ---- opening, reading ----------------------------------------------------------------------


def test_opening_what_is_no_table(spark, tmp_path):
    missing = str(tmp_path / "nothing")
    with pytest.raises(TableNotFound, match="nothing"):
        DeltaTable.forPath(spark, missing)
    with pytest.raises(TableNotFound):
        rowlock.read(spark, missing)
    spark.range(3).write.parquet(str(tmp_path / "parquet"))
    with pytest.raises(TableNotFound):
        DeltaTable.forPath(spark, str(tmp_path / "parquet"))
    assert not DeltaTable.isDeltaTable(spark, missing)
    assert not DeltaTable.isDeltaTable(spark, str(tmp_path / "parquet"))
    assert not Path(missing).exists()
    with pytest.raises(InvalidInput, match="SparkSession"):
        DeltaTable.forPath("not a session", missing)


def test_for_path_takes_hadoop_settings(spark, table_path):
    make(spark, table_path, spark.range(3))
    assert DeltaTable.isDeltaTable(spark, table_path)
    assert len(rows(DeltaTable.forPath(spark, table_path, {"fs.any": "value"}).toDF())) == 3
    assert len(rows(DeltaTable.forPath(sparkSession=spark, path="file:" + table_path).toDF())) == 3
    assert len(rows(DeltaTable.forPath(spark, table_path + "/").toDF())) == 3


def test_to_df_and_alias(spark, table_path):
    table = make(spark, table_path, [(1, "a"), (2, "b")], "id int, name string")
    assert rows(table.toDF().alias("m").select("m.id", "m.name")) == [(1, "a"), (2, "b")]
    assert rows(table.alias("x").toDF().select("x.id")) == [(1,), (2,)]
    held = table.toDF()
    table.delete("id = 1")
    assert rows(table.toDF()) == [(2, "b")]
    assert rows(held) == [(1, "a"), (2, "b")]


def test_read_at_a_version_and_at_a_time(spark, table_path):
    table = make(spark, table_path, [(1,)], "id int")
    rowlock.write(spark.createDataFrame([(2,)], "id int"), table_path)
    times = {r.version: r.timestamp for r in table.history().collect()}
    assert rows(rowlock.read(spark, table_path)) == [(1,), (2,)]
    assert rows(rowlock.read(spark, table_path, version=1)) == [(1,)]
    assert rows(rowlock.read(spark, table_path, 0)) == []
    after = times[2] + datetime.timedelta(seconds=1)
    with pytest.raises(VersionNotFound):
        rowlock.read(spark, table_path, version=99)
    with pytest.raises(VersionNotFound):
        rowlock.read(spark, table_path, timestamp="2001-01-01")
    with pytest.raises(InvalidInput, match="not both"):
        rowlock.read(spark, table_path, version=1, timestamp=after)
    with pytest.raises(InvalidInput, match="cannot be converted to a valid timestamp"):
        rowlock.read(spark, table_path, timestamp="yesterday")
    second = datetime.datetime.fromtimestamp(times[2].timestamp(), tz=datetime.UTC)
    assert rows(rowlock.read(spark, table_path, timestamp=second)) == [(1,), (2,)]
    assert rows(rowlock.read(spark, table_path, timestamp=second.isoformat())) == [(1,), (2,)]


def test_history_has_deltas_columns(spark, table_path):
    table = make(spark, table_path, [(1,), (2,)], "id int")
    table.update("id = 1", {"id": "5"})
    table.delete("id = 5")
    table.merge(spark.range(1).selectExpr("cast(7 as int) as k"), "id = k").whenNotMatchedInsert(values={"id": "k"}).execute()
    frame = table.history()
    assert frame.columns == spark.sql(f"DESCRIBE HISTORY delta.`{table_path}`").columns
    found = frame.collect()
    assert [(r.version, r.operation) for r in found] == [(4, "MERGE"), (3, "DELETE"), (2, "UPDATE"), (1, "WRITE"), (0, "WRITE")]
    assert found[2].operationMetrics["numUpdatedRows"] == "1"
    assert found[1].operationMetrics["numDeletedRows"] == "1"
    assert found[0].operationMetrics["numTargetRowsInserted"] == "1"
    assert found[1].operationParameters["predicate"]
    assert [r.version for r in table.history(2).collect()] == [4, 3]
    assert [r.version for r in table.history(limit=1).collect()] == [4]
    for described in (frame, table.detail(), table.vacuum(200)):  # a list of pyspark's would start a worker of Python on an executor, which need not have one
        assert "LocalRelation" in described._jdf.queryExecution().toString() and "RDD" not in described._jdf.queryExecution().toString()
    theirs_read = spark.sql(f"DESCRIBE HISTORY delta.`{table_path}`").select("version", "operation", "operationMetrics").collect()
    assert [(r.version, r.operation) for r in theirs_read] == [(r.version, r.operation) for r in found]


def test_detail_has_deltas_columns(spark, table_path):
    table = make(spark, table_path, [(1,), (2,)], "id int")
    ours_row, their_row = table.detail().first(), spark.sql(f"DESCRIBE DETAIL delta.`{table_path}`").first()
    for name in (
        "format",
        "id",
        "location",
        "partitionColumns",
        "clusteringColumns",
        "numFiles",
        "sizeInBytes",
        "properties",
        "minReaderVersion",
        "minWriterVersion",
    ):
        assert ours_row[name] == their_row[name], name
    assert sorted(ours_row.tableFeatures) == sorted(their_row.tableFeatures)


# ---- UPDATE, DELETE ------------------------------------------------------------------------

FOUR = [("a", 1), ("b", 2), ("c", 3), ("d", 4)]
KV = "key string, value int"


def test_delete_in_every_spelling(spark, table_path):
    table = make(spark, table_path, FOUR, KV)
    assert table.delete("key = 'a'") is None
    assert read(spark, table_path) == FOUR[1:]
    assert table.delete(F.col("key") == F.lit("b")) is None
    assert read(spark, table_path) == FOUR[2:]
    table.alias("t").delete(condition="t.key = 'c'")
    assert read(spark, table_path) == FOUR[3:]
    table.delete()
    assert read(spark, table_path) == delta_rows(spark, table_path) == []


def test_update_in_every_spelling(spark, table_path):
    table = make(spark, table_path, FOUR, KV)
    assert table.update("key = 'a' or key = 'b'", {"value": "value + 10"}) is None
    assert read(spark, table_path) == [("a", 11), ("b", 12), ("c", 3), ("d", 4)]
    table.update(F.expr("key = 'c'"), {"value": F.col("value") * 2})
    table.update(condition=F.col("KEY") == "d", set={"VALUE": F.lit(0)})
    assert read(spark, table_path) == [("a", 11), ("b", 12), ("c", 6), ("d", 0)]
    table.alias("t").update("t.value > 10", {"t.value": "t.value - 10", "key": F.upper("t.key")})
    assert read(spark, table_path) == [("A", 1), ("B", 2), ("c", 6), ("d", 0)]
    table.update(set={"value": "9"})
    assert read(spark, table_path) == delta_rows(spark, table_path) == [("A", 9), ("B", 9), ("c", 9), ("d", 9)]


def test_an_update_reads_the_old_row_in_every_assignment(spark, table_path):
    table = make(spark, table_path, [(1, 10, 100)], "a int, b int, c int")
    table.update(set={"a": "b", "b": "a", "c": "a + b + c"})
    assert read(spark, table_path) == [(10, 1, 111)]


def test_nulls_in_a_condition_are_not_true(spark, table_path):
    table = make(spark, table_path, [(1, None), (2, 5), (3, 6)], "id int, v int")
    table.delete("v > 5")
    table.update("v != 5", {"v": "0"})
    assert read(spark, table_path) == [(1, None), (2, 5)]
    table.delete("v is null or not (v <=> 5)")
    assert read(spark, table_path) == [(2, 5)]


def test_values_are_cast_as_on_assignment(spark, table_path):
    table = make(spark, table_path, [(1, Decimal("1.50"), "x", datetime.date(2026, 1, 1))], "i int, d decimal(10,2), s string, day date")
    table.update(set={"i": "7L", "d": "3", "s": "concat('n', 1)", "day": "timestamp'2026-05-05 10:00:00'"})
    assert read(spark, table_path) == [(7, Decimal("3.00"), "n1", datetime.date(2026, 5, 5))]
    table.update(set={"d": "null", "s": F.lit(None)})
    assert read(spark, table_path) == [(7, None, None, datetime.date(2026, 5, 5))]


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda t: t.delete(condition=1), TypeError),
        (lambda t: t.update({"value": "200"}), ValueError),
        (lambda t: t.update(condition="key = 'a'"), ValueError),
        (lambda t: t.update(set=1), TypeError),
        (lambda t: t.update(1, {"value": "1"}), TypeError),
        (lambda t: t.update(set={"value": 1}), TypeError),
        (lambda t: t.update(set={1: ""}), TypeError),
        (lambda t: t.merge(1, "key = k"), TypeError),
        (lambda t: t.merge(t.toDF(), 1), TypeError),
        (lambda t: t.merge(t.toDF(), "true").whenMatchedUpdate({"value": "v"}), ValueError),
        (lambda t: t.merge(t.toDF(), "true").whenMatchedUpdate(1, {"value": "v"}), TypeError),
        (lambda t: t.merge(t.toDF(), "true").whenMatchedUpdate("true", 1), TypeError),
        (lambda t: t.merge(t.toDF(), "true").whenMatchedUpdate(set={"value": 1}), TypeError),
        (lambda t: t.merge(t.toDF(), "true").whenMatchedUpdateAll(1), TypeError),
        (lambda t: t.merge(t.toDF(), "true").whenMatchedDelete(1), TypeError),
        (lambda t: t.merge(t.toDF(), "true").whenNotMatchedInsert(values={1: "v"}), TypeError),
        (lambda t: t.merge(t.toDF(), "true").whenNotMatchedInsert("true"), ValueError),
        (lambda t: t.merge(t.toDF(), "true").whenNotMatchedBySourceUpdate("true", None), ValueError),
        (lambda t: t.merge(t.toDF(), "true").whenNotMatchedBySourceDelete(1), TypeError),
        (lambda t: t.alias(1), TypeError),
        (lambda t: t.optimize().where(1), TypeError),
        (lambda t: t.history("1"), TypeError),
    ],
)
def test_wrong_arguments_raise_what_delta_tables_raises(spark, shared_table, call, kind):
    with pytest.raises(kind), unchanged(shared_table):
        call(DeltaTable.forPath(spark, shared_table))


@pytest.fixture(scope="module")
def shared_table(spark, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("shared") / "table")
    make(spark, path, FOUR, KV)
    return path


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda t: t.delete("nothere = 1"), AnalysisException),
        (lambda t: t.delete("key ="), AnalysisException),
        (lambda t: t.delete("value + 1"), AnalysisException),
        (lambda t: t.update("nothere = 1", {"value": "1"}), AnalysisException),
        (lambda t: t.update(set={"value": "nothere"}), AnalysisException),
        (lambda t: t.update(set={"nothere": "1"}), SchemaMismatch),
        (lambda t: t.update(set={"value": "1", "VALUE": "2"}), InvalidInput),
        (lambda t: t.update(set={"value": "array(1)"}), AnalysisException),
    ],
)
def test_statements_that_mean_nothing_write_nothing(spark, shared_table, call, kind):
    with pytest.raises(kind), unchanged(shared_table):
        call(DeltaTable.forPath(spark, shared_table))


# ---- MERGE ---------------------------------------------------------------------------------

SOURCE = [("a", -1), ("b", 0), ("e", -5), ("f", -6)]


@pytest.fixture
def four(spark, table_path):
    return make(spark, table_path, FOUR, KV)


@pytest.fixture
def kv(spark):
    return spark.createDataFrame(SOURCE, "k string, v int")


@pytest.fixture
def same(spark):
    return spark.createDataFrame(SOURCE, KV)


MERGES = {
    "every clause": (lambda m: m.whenMatchedUpdate(set={"value": "v + 0"}).whenNotMatchedInsert(values={"key": "k", "value": "v + 0"}).whenNotMatchedBySourceUpdate(set={"value": "value * 10"}),
                     [("a", -1), ("b", 0), ("c", 30), ("d", 40), ("e", -5), ("f", -6)], (6, 4, 0, 2)),
    "columns": (lambda m: m.whenMatchedUpdate(set={"value": F.col("v") + F.col("value")}).whenNotMatchedInsert(values={"key": "k", "value": F.col("v") + 0}),
                [("a", 0), ("b", 2), ("c", 3), ("d", 4), ("e", -5), ("f", -6)], (4, 2, 0, 2)),
    "two updates": (lambda m: m.whenMatchedUpdate("key = 'a'", {"value": "5"}).whenMatchedUpdate(set={"value": "0"}), [("a", 5), ("b", 0), ("c", 3), ("d", 4)], (2, 2, 0, 0)),
    "two deletes": (lambda m: m.whenMatchedDelete("key = 'a'").whenMatchedDelete(), [("c", 3), ("d", 4)], (2, 0, 2, 0)),
    "the first that applies": (lambda m: m.whenMatchedDelete("k = 'a'").whenMatchedUpdate("k = 'a'", {"value": "5"}).whenMatchedUpdate(set={"value": "6"}),
                               [("b", 6), ("c", 3), ("d", 4)], (2, 1, 1, 0)),
    "both sides in a condition": (lambda m: m.whenMatchedUpdate("value > v + 1", {"value": "value + v"}).whenMatchedDelete("value = v + 2"), [("a", 0), ("b", 2), ("c", 3), ("d", 4)], (2, 2, 0, 0)),
    "two inserts": (lambda m: m.whenNotMatchedInsert("k = 'e'", {"key": "k", "value": "5"}).whenNotMatchedInsert(F.col("v") < -5, {"key": F.upper("k")}),
                    [*FOUR, ("e", 5), ("F", None)], (2, 0, 0, 2)),
    "an insert that nothing meets": (lambda m: m.whenNotMatchedInsert("k = 'zzz'", {"key": "k"}), FOUR, (0, 0, 0, 0)),
    "by source only": (lambda m: m.whenNotMatchedBySourceDelete("value = 3").whenNotMatchedBySourceUpdate(set={"value": "value - 100"}), [("a", 1), ("b", 2), ("d", -96)], (2, 1, 1, 0)),
    "by source, columns": (lambda m: m.whenNotMatchedBySourceUpdate(condition=F.col("key") == "c", set={"value": F.col("value") + 1}).whenNotMatchedBySourceDelete(condition=F.expr("key = 'd'")),
                           [("a", 1), ("b", 2), ("c", 4)], (2, 1, 1, 0)),
    "a null condition": (lambda m: m.whenMatchedUpdate("v > cast(null as int)", {"value": "1"}).whenMatchedDelete("cast(null as boolean)").whenNotMatchedInsert("cast(null as boolean)", {"key": "k"}), FOUR, (0, 0, 0, 0)),
}  # fmt: skip


@pytest.mark.no_peers("delta-spark reads it here")
@pytest.mark.parametrize("name", MERGES)
@pytest.mark.short(
    "every clause",
    "by source, columns",
    "a null condition",
    ci=(
        "both sides in a condition",
        "two inserts",
    ),
    why="each form is asked of delta-spark too; those that stay hold every kind of clause",
)
def test_merge(spark, four, kv, table_path, name):
    build, expected, affected = MERGES[name]
    before = version(table_path)
    answer = build(four.merge(kv, "key = k")).execute()
    assert read(spark, table_path) == sorted(expected, key=repr)
    assert [tuple(r) for r in answer.collect()] == [affected]
    assert answer.columns == ["num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows"]
    assert {f.dataType for f in answer.schema.fields} == {LongType()}
    assert (four.lastReceipt.version is None) == (affected[0] == 0)
    assert version(table_path) == before + (affected[0] > 0)
    assert delta_rows(spark, table_path) == read(spark, table_path)


AFTER_ALL = [("a", -1), ("b", 0), ("c", 3), ("d", 4), ("e", -5), ("f", -6)]
ALL_FORMS = {
    "two aliases": (lambda t, s: t.alias("t").merge(s.alias("s"), "t.key = s.key").whenMatchedUpdateAll().whenNotMatchedInsertAll(), AFTER_ALL),
    "conditions": (lambda t, s: t.alias("t").merge(s.alias("s"), F.expr("t.key = s.key")).whenMatchedUpdateAll("s.key = 'a' and t.value = 1").whenNotMatchedInsertAll(F.expr("s.key = 'e'")),
                   [("a", -1), ("b", 2), ("c", 3), ("d", 4), ("e", -5)]),
    "alias of the source only": (lambda t, s: t.merge(s.alias("s"), "s.key = substring(s.key, 1) and s.value < -5").whenNotMatchedInsertAll(), [*FOUR, ("a", -1), ("b", 0), ("e", -5)]),
    "columns of frames": (lambda t, s: t.alias("t").merge(s, F.col("t.key") == s["key"]).whenMatchedUpdateAll().whenNotMatchedInsertAll(), AFTER_ALL),
    "one alias, mixed assignments": (lambda t, s: t.alias("t").merge(s.alias("s"), "t.key = s.key").whenMatchedUpdate(set={"t.value": "t.value + s.value", "key": "upper(s.key)"})
                                     .whenNotMatchedInsert("s.key = 'e'", {"t.key": "s.key", "value": "5"}).whenNotMatchedInsertAll(),
                                     [("A", 0), ("B", 2), ("c", 3), ("d", 4), ("e", 5), ("f", -6)]),
    "by source beside All": (lambda t, s: t.alias("t").merge(s.alias("s"), "t.key = s.key").whenMatchedUpdateAll().whenNotMatchedBySourceDelete("t.value > 3"), [("a", -1), ("b", 0), ("c", 3)]),
    "other case and order": (lambda t, s: t.alias("t").merge(s.selectExpr("value as VALUE", "key as Key").alias("s"), "t.KEY = s.key").whenMatchedUpdateAll().whenNotMatchedInsertAll(), AFTER_ALL),
    "more columns in the source": (lambda t, s: t.alias("t").merge(s.withColumn("more", F.lit(1)).alias("s"), "t.key = s.key and s.more = 1").whenMatchedUpdateAll().whenNotMatchedInsertAll(), AFTER_ALL),
}  # fmt: skip


@pytest.mark.no_peers("delta-spark reads it here")
@pytest.mark.parametrize("name", ALL_FORMS)
@pytest.mark.short(
    "columns of frames",
    "more columns in the source",
    ci=(
        "two aliases",
        "by source beside All",
    ),
    why="each form is asked of delta-spark too; those that stay find the column in different ways",
)
def test_merge_with_columns_named_alike(spark, four, same, table_path, name):
    build, expected = ALL_FORMS[name]
    build(four, same).execute()
    assert read(spark, table_path) == delta_rows(spark, table_path) == sorted(expected, key=repr)


def test_merge_of_columns_named_alike_without_aliases_is_ambiguous(four, same, table_path):
    with pytest.raises(AnalysisException, match="AMBIGUOUS"), unchanged(table_path):
        four.merge(same, "key = key").whenMatchedUpdateAll().execute()


@pytest.mark.parametrize("clause", ["whenMatchedUpdateAll", "whenNotMatchedInsertAll"])
def test_a_source_with_two_columns_of_one_name(spark, four, table_path, clause):
    """Spark refuses the name that is ambiguous; where it heeds case the column of just the table's name is meant."""
    merge = getattr(four.alias("t").merge(spark.sql("SELECT 'a' key, 7 VALUE, 8 value").alias("s"), "t.key = s.key AND s.key = 'a'"), clause)()
    with pytest.raises(AnalysisException, match="AMBIGUOUS_REFERENCE"), unchanged(table_path):
        merge.execute()
    with pytest.raises(AnalysisException, match="DELTA_DUPLICATE_COLUMNS_FOUND"), unchanged(table_path):
        merge.withSchemaEvolution().execute()


def test_a_source_with_two_columns_that_differ_by_case(spark, four, table_path):
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        source = spark.sql("SELECT * FROM VALUES ('a', 7, 8), ('z', 7, 9) AS v(key, VALUE, value)")
        four.alias("t").merge(source.alias("s"), "t.key = s.key").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    assert read(spark, table_path) == [("a", 8), ("b", 2), ("c", 3), ("d", 4), ("z", 9)]


def test_merge_from_the_table_itself(spark, four, table_path):
    source = four.toDF().where("value < 3").selectExpr("key", "value + 100 as value")
    four.alias("t").merge(source.alias("s"), "t.key = s.key").whenMatchedUpdateAll().whenNotMatchedBySourceDelete("t.value = 4").execute()
    assert read(spark, table_path) == [("a", 101), ("b", 102), ("c", 3)]


def test_columns_of_to_df_are_the_tables(spark, tmp_path):
    """As with delta-spark a column may be asked of the table's DataFrame; one of a source that was made from it is the source's."""
    found = []
    for face, path in ((DeltaTable, str(tmp_path / "ours")), (theirs.DeltaTable, str(tmp_path / "theirs"))):
        spark.sql("SELECT id, id AS v, IF(id < 3, named_struct('x', id), NULL) AS s FROM range(1, 5)").write.format("delta").save(path)
        table, source = face.forPath(spark, path), spark.sql("SELECT 1 AS id, 100 AS v UNION ALL SELECT 9, 900")
        held = table.toDF()
        table.delete(held.id == 4)
        table.update(held["id"] == 2, {"v": held.v + held.s.x * 10})
        table.merge(source, held.id == source.id).whenMatchedUpdate((held.v < 50) & (source.v > 5), {"v": source.v + held.v}).whenNotMatchedInsert(
            values={"id": source.id, "v": source.v}
        ).whenNotMatchedBySourceUpdate(held.v == 3, {"v": -held.v}).execute()
        found.append(sorted((r.id, r.v) for r in table.toDF().collect()))
    assert found[0] == found[1] == [(1, 101), (2, 22), (3, -3), (9, 900)]
    table = DeltaTable.forPath(spark, str(tmp_path / "ours"))
    held = table.toDF()
    table.merge(held.where("id = 1").alias("one"), held.id == F.col("one.id")).whenMatchedUpdate(set={"v": F.lit(0)}).execute()
    other = table.toDF()
    table.alias("t").merge(other, F.col("t.id") == other.id).whenMatchedUpdate(set={"v": other.v + 1}).execute()
    with table.transaction() as txn:
        txn.delete(txn.toDF().id == 9)
        txn.update(txn.toDF().id == 1, {"v": txn.toDF().v + 5})
    assert read(spark, str(tmp_path / "ours")) == [(1, 6, (1,)), (2, 23, (2,)), (3, -2, None)]


def test_merge_with_null_keys(spark, table_path):
    table = make(spark, table_path, [(None, 1), (2, 2)], "id int, v int")
    source = spark.createDataFrame([(None, 10), (2, 20)], "id int, v int")
    table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert read(spark, table_path) == sorted([(None, 1), (2, 20), (None, 10)], key=repr)
    table.alias("t").merge(source.where("id is null").alias("s"), "t.id <=> s.id and t.v = 1").whenMatchedDelete().execute()
    assert read(spark, table_path) == delta_rows(spark, table_path) == sorted([(2, 20), (None, 10)], key=repr)


def test_merge_into_an_empty_table_and_from_an_empty_source(spark, table_path):
    table = make(spark, table_path, spark.createDataFrame([], KV))
    source = spark.createDataFrame(SOURCE, KV)
    table.alias("t").merge(source.alias("s"), "t.key = s.key").whenMatchedDelete().whenNotMatchedInsertAll().execute()
    assert read(spark, table_path) == SOURCE
    before = version(table_path)
    table.alias("t").merge(source.limit(0).alias("s"), "t.key = s.key").whenMatchedDelete().whenNotMatchedInsertAll().execute()
    assert version(table_path) == before
    table.alias("t").merge(source.limit(0).alias("s"), "t.key = s.key").whenNotMatchedBySourceDelete().execute()
    assert read(spark, table_path) == delta_rows(spark, table_path) == []


ON = {
    "a range": ("t.id between s.lo and s.hi", lambda t, lo, hi: lo <= t <= hi),
    "an or": ("t.id = s.lo or t.id = s.hi - 55", lambda t, lo, hi: t in (lo, hi - 55)),
    "an expression": ("t.id + 1 = s.lo + 1", lambda t, lo, hi: t == lo),
    "casts": ("cast(t.id as string) = cast(s.lo as string)", lambda t, lo, hi: t == lo),
    "a key and more": ("t.id = s.lo and t.name != 'n7' and s.hi > 0", lambda t, lo, hi: t == lo and t != 7),
    "each side alone": ("s.lo = 3 and t.id = 5", lambda t, lo, hi: (t, lo) == (5, 3)),
    "always": ("s.lo = 50 or false", lambda t, lo, hi: lo == 50),
    "never": ("false", lambda t, lo, hi: False),
}


@pytest.mark.no_peers("delta-spark reads it here")
@pytest.mark.parametrize("name", ON)
@pytest.mark.short(
    "a range",
    "each side alone",
    ci=(
        "a key and more",
        "never",
    ),
    why="each form is asked of delta-spark too; those that stay are joined in different ways",
)
def test_merge_on_any_condition(spark, table_path, name):
    on, matches = ON[name]
    pairs = [(3, 4), (7, 7), (50, 60)]
    table = make(spark, table_path, spark.range(10).selectExpr("id", "concat('n', id) as name"))
    source = spark.createDataFrame(pairs, "lo bigint, hi bigint")
    merge = (
        table.alias("t")
        .merge(source.alias("s"), on)
        .whenMatchedUpdate(set={"name": "concat(t.name, '-', s.hi)"})
        .whenNotMatchedInsert(values={"id": "s.lo", "name": "'new'"})
    )
    merge.execute()
    met = {t: [hi for lo, hi in pairs if matches(t, lo, hi)] for t in range(10)}
    expected = [(t, f"n{t}-{met[t][0]}" if met[t] else f"n{t}") for t in range(10)]
    expected += [(lo, "new") for lo, hi in pairs if not any(matches(t, lo, hi) for t in range(10))]
    assert read(spark, table_path) == delta_rows(spark, table_path) == sorted(expected, key=repr)


RICH = (
    "id int, big bigint, small smallint, tiny tinyint, f float, d double, dec decimal(20,4), s string, b boolean, bin binary, day date, at timestamp, wall timestamp_ntz, "
    "list array<int>, m map<string,int>, st struct<x:int,y:struct<z:string,w:array<struct<q:int>>>>"
)


def rich(spark, low, high):
    return spark.range(low, high).selectExpr(
        "cast(id as int) id", "id * 1000000000000 big", "cast(id as smallint) small", "cast(id as tinyint) tiny", "cast(id / 4 as float) f", "id / 7 d",
        "cast(id as decimal(20,4)) / 3 dec", "if(id % 3 = 0, null, concat('é', id)) s", "id % 2 = 0 b", "cast(concat('b', id) as binary) bin", "date_add(date'2020-02-28', cast(id as int)) day",
        "timestamp_seconds(1600000000.123456 + id) at", "cast('2020-01-01 00:00:00.000001' as timestamp_ntz) wall", "if(id = 1, null, array(cast(id as int), null)) list",
        "map('k', cast(id as int), 'n', null) m", "named_struct('x', cast(id as int), 'y', named_struct('z', concat('z', id), 'w', array(named_struct('q', cast(id as int))))) st",
    ).selectExpr("id", "big", "small", "tiny", "f", "d", "cast(dec as decimal(20,4)) dec", "s", "b", "bin", "day", "at", "wall", "list", "m", "st")  # fmt: skip


@pytest.mark.soak("every type by every statement; test_routes has each type once", ci=True)
def test_every_type_passes_through_every_statement(spark, table_path, tmp_path):
    twin = str(tmp_path / "twin")
    without = [c for c in rich(spark, 0, 1).columns if c != "wall"]
    make(spark, table_path, rich(spark, 0, 8).select(without))
    rich(spark, 0, 8).select(without).coalesce(1).write.format("delta").save(twin)
    for face, path in ((DeltaTable, table_path), (theirs.DeltaTable, twin)):
        table = face.forPath(spark, path)
        table.update(
            "id % 4 = 1",
            {
                "big": "big + 1",
                "st.y.z": "concat(st.y.z, '!')",
                "list": "array(9)",
                "m": "map('new', 1)",
                "at": "at + interval 1 day",
                "dec": "dec * 2",
                "bin": "x'00ff'",
            },
        )
        table.update("array_contains(list, 2) or m['k'] = 3", {"st.x": "-1", "day": "day + 1"})
        table.delete("bin = cast('b4' as binary) or at = timestamp_seconds(1600000005.123456)")
        merge = table.alias("t").merge(rich(spark, 6, 11).select(without).alias("s"), "t.id = s.id and t.day = s.day")
        merge.whenMatchedUpdate(
            "s.id = 6", {"t.st.y": "s.st.y", "m": "map_concat(t.m, map('q', 2))"}
        ).whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert read(spark, table_path) == delta_rows(spark, table_path) == delta_rows(spark, twin)


def test_nested_fields_are_set_one_by_one(spark, table_path):
    frame = spark.sql(
        "select 1 as id, named_struct('a', 1, 'b', named_struct('c', 'x', 'd', 2)) as s union all select 2, cast(null as struct<a:int,b:struct<c:string,d:int>>)"
    ).coalesce(1)
    table = make(spark, table_path, frame)
    table.update("id = 1", {"s.a": "s.a + 1", "s.b.c": "'y'", "S.B.D": "s.b.d + s.a"})
    assert read(spark, table_path)[0] == (1, (2, ("y", 3)))
    source = spark.sql("select 1 as id, named_struct('a', 100, 'b', named_struct('c', 'm', 'd', 0)) as s")
    table.alias("t").merge(source.alias("s2"), "t.id = s2.id").whenMatchedUpdate(set={"t.s.b": "s2.s.b", "t.s.a": "t.s.a + s2.s.a"}).execute()
    assert read(spark, table_path)[0] == (1, (102, ("m", 0)))
    with pytest.raises(InvalidInput, match="overlap"):
        table.update(set={"s.b": "s.b", "s.b.c": "'z'"})
    with pytest.raises(SchemaMismatch, match="nested"):
        table.alias("t").merge(source.alias("s2"), "t.id = s2.id + 50").whenNotMatchedInsert(values={"id": "3", "s.a": "1"}).execute()


@pytest.mark.soak("a twin that delta-spark changes; nested fields are set in the test before it", ci=True)
def test_a_nested_field_of_a_null_struct_is_set_as_delta_sets_it(spark, table_path, tmp_path):
    frame = spark.sql("select 1 as id, cast(null as struct<a:int,b:int>) as s").coalesce(1)
    twin = str(tmp_path / "twin")
    frame.write.format("delta").save(twin)
    make(spark, table_path, frame)
    for face, path in ((DeltaTable, table_path), (theirs.DeltaTable, twin)):
        face.forPath(spark, path).update(set={"s.a": "5"})
    assert read(spark, table_path) == delta_rows(spark, twin)


def test_a_merge_needs_clauses_in_order(four, kv, table_path):
    with unchanged(table_path):
        with pytest.raises(InvalidInput, match="WHEN"):
            four.merge(kv, "key = k").execute()
        with pytest.raises(InvalidInput, match="last WHEN MATCHED"):
            four.merge(kv, "key = k").whenMatchedDelete().whenMatchedUpdate("true", {"value": "1"}).execute()
        with pytest.raises(SchemaMismatch, match="value"):
            four.alias("t").merge(kv.select(F.col("k").alias("key")).alias("s"), "t.key = s.key").whenMatchedUpdateAll().execute()
        with pytest.raises(AnalysisException):
            four.merge(kv, "key = k").whenNotMatchedInsert(values={"key": "key"}).execute()
        with pytest.raises(AnalysisException):
            four.merge(kv, "key = k").whenNotMatchedBySourceUpdate(set={"value": "v"}).execute()


def test_merge_takes_a_source_with_columns_that_nobody_names(spark, four, table_path):
    source = spark.createDataFrame([("a", 1, 2)], ["k", "x", "x"])
    four.merge(source, "key = k").whenMatchedDelete().execute()
    assert read(spark, table_path) == FOUR[1:]


# ---- OPTIMIZE, properties, receipts ----------------------------------------------------------


def test_optimize_answers_as_delta_does(spark, table_path):
    table = make(spark, table_path, spark.range(12).selectExpr("id", "id % 2 as p"), files=3, partition_by=["p"])
    before = table.detail().first().numFiles
    answer = table.optimize().where("p = 0").executeCompaction()
    assert answer.columns == ["path", "metrics"]
    found = answer.first()
    assert (found.metrics.numFilesRemoved, found.metrics.numFilesAdded) == (3, 1)
    assert table.detail().first().numFiles == before - 2
    assert table.optimize().executeCompaction().first().metrics.numFilesRemoved == 3
    assert table.detail().first().numFiles == 2
    assert table.lastReceipt.operation == "OPTIMIZE"
    table.optimize().executeCompaction()
    assert table.lastReceipt.version is None
    assert read(spark, table_path) == delta_rows(spark, table_path) == sorted(((n, n % 2) for n in range(12)), key=repr)
    with unchanged(table_path):
        for other in ("id = 1", "p = 0 and id = 1"):
            with pytest.raises(InvalidInput, match=r"non-partition column 'id'.*\[p\]"):
                table.optimize().where(other).executeCompaction()
        with pytest.raises(AnalysisException):
            table.optimize().where("nothere = 1").executeCompaction()
    table.optimize().where("p = 1").executeZOrderBy("id")
    assert table.lastReceipt.metrics["numRemovedFiles"] == 1


def test_optimize_of_partitions_by_any_condition(spark, table_path):
    frame = spark.range(12).selectExpr("id", "concat('p', id % 3) as p", "date_add(date'2026-01-01', cast(id div 6 as int)) as day")
    table = make(spark, table_path, frame, files=2, partition_by=["p", "day"])
    for condition, removed in (("p like '%1' or p in ('p9')", 4), ("day > '2026-01-01' and length(p) = 2", 4), ("p is null", 0), ("p = 'p1'", 0), (None, 4)):
        optimize = table.optimize() if condition is None else table.optimize().where(condition)
        assert optimize.executeCompaction().first().metrics.numFilesRemoved == removed, condition
    assert read(spark, table_path) == rows(frame)


def test_properties_are_set_and_unset(spark, table_path):
    table = make(spark, table_path, [(1,)], "id int")
    table.setProperties({"delta.checkpointInterval": "3", "rowlock.onConflict": "fail", "mine": "1", "delta.appendOnly": False})
    assert table.lastReceipt.version == version(table_path) == 2
    found = table.detail().first().properties
    assert (found["delta.checkpointInterval"], found["rowlock.onConflict"], found["mine"], found["delta.appendOnly"]) == ("3", "fail", "1", "false")
    assert spark.sql(f"SHOW TBLPROPERTIES delta.`{table_path}` ('rowlock.onConflict')").first().value == "fail"
    table.setProperties({"mine": "1"})
    assert table.lastReceipt.version is None
    table.unsetProperties(["mine", "rowlock.onConflict", "never.was"])
    assert not {"mine", "rowlock.onConflict"} & set(table.detail().first().properties)
    table.unsetProperties(["mine"])
    assert table.lastReceipt.version is None


def test_receipts(spark, table_path):
    table = make(spark, table_path, FOUR, KV)
    assert table.lastReceipt is None
    table.update("key = 'a'", {"value": "7"})
    receipt = table.lastReceipt
    assert (receipt.version, receipt.read_version, receipt.operation, receipt.attempts, receipt.rounds) == (2, 1, "UPDATE", 1, 0)
    assert receipt.metrics["numUpdatedRows"] == 1
    assert (receipt.rows_rebased, receipt.rows_dropped, receipt.conflicts, receipt.overwritten) == (0, 0, (), ())
    assert {"plan", "stage", "put"} <= set(receipt.seconds)
    assert receipt.txn_id
    alias = table.alias("t")
    assert alias.lastReceipt is receipt
    alias.delete("t.key = 'b'")
    assert table.lastReceipt is alias.lastReceipt
    assert table.lastReceipt.version == 3
    table.delete("key = 'nobody'")
    assert (table.lastReceipt.version, table.lastReceipt.metrics["numDeletedRows"]) == (None, 0)
    assert version(table_path) == 3
    table.update("key = 'nobody'", {"value": "1"})
    assert table.lastReceipt.version is None
    assert DeltaTable.forPath(spark, table_path).lastReceipt is None
    first = json.loads(Path(table_path, "_delta_log", "00000000000000000003.json").read_text().splitlines()[0])["commitInfo"]
    assert first["txnId"]
    assert first["rowlock"]["attempts"] == 1


def test_a_receipt_belongs_to_its_thread(spark, table_path):
    import threading

    table = make(spark, table_path, FOUR, KV)
    table.delete("key = 'a'")
    seen = []
    thread = threading.Thread(target=lambda: seen.append(table.lastReceipt))
    thread.start()
    thread.join()
    assert seen == [None]


def test_a_failed_statement_leaves_no_receipt(spark, four):
    four.delete("key = 'a'")
    with pytest.raises(AnalysisException):
        four.delete("nothere = 1")
    assert four.lastReceipt is None


# ---- writing -------------------------------------------------------------------------------


def test_spark_gives_the_session_that_is_there(spark):
    assert rowlock.spark() is spark or rowlock.spark()._jsparkSession.equals(spark._jsparkSession)


def test_write_modes(spark, table_path):
    one, two = spark.createDataFrame([(1, "a")], "id int, s string"), spark.createDataFrame([(2, "b")], "id int, s string")
    assert rowlock.write(one, table_path).version == 0
    receipt = rowlock.write(two, table_path)
    assert (receipt.version, receipt.operation, receipt.metrics["numOutputRows"]) == (1, "WRITE", 1)
    assert read(spark, table_path) == [(1, "a"), (2, "b")]
    for mode in ("error", "errorifexists"):
        with pytest.raises(TableExists), unchanged(table_path):
            rowlock.write(one, table_path, mode=mode)
    with unchanged(table_path):
        assert rowlock.write(one, table_path, mode="ignore").version is None
    assert rowlock.write(two, table_path, "overwrite").version == 2
    assert rowlock.write(two, f"{table_path}-new", "overwrite").metrics["numRemovedFiles"] == 0
    assert not DeltaTable.forPath(spark, f"{table_path}-new").history(1).first()["isBlindAppend"], "as delta-spark has it of an overwrite"
    assert "numRemovedFiles" not in rowlock.write(two, f"{table_path}-part", "overwrite", replace_where="id = 2").metrics, "of its rows alone it removes none"
    assert read(spark, table_path) == delta_rows(spark, table_path) == [(2, "b")]
    with pytest.raises(InvalidInput, match="mode"), unchanged(table_path):
        rowlock.write(one, table_path, mode="upsert")
    assert [r.operationParameters["mode"] for r in DeltaTable.forPath(spark, table_path).history().collect()] == ["Overwrite", "Append", "Append"]


@pytest.mark.parametrize("mode", ["append", "overwrite", "error", "ignore"])
@pytest.mark.short(
    "overwrite",
    "ignore",
    ci=(
        "append",
        "error",
    ),
    why="the modes are one way in; append and error are asked in test_write_modes",
)
def test_every_mode_makes_the_table(spark, table_path, mode):
    receipt = rowlock.write(spark.range(3), table_path, mode=mode, properties={"delta.checkpointInterval": "5", "rowlock.granularity": "row"})
    assert receipt.version == 0
    assert DeltaTable.forPath(spark, table_path).detail().first().properties["delta.checkpointInterval"] == "5"
    assert delta_rows(spark, table_path) == [(0,), (1,), (2,)]


def test_write_partitioned(spark, table_path):
    frame = spark.sql(
        "select * from values (1, 'x/y=z', date'2026-01-01'), (2, null, null), (3, '', date'2026-01-02'), (4, 'ü %', date'2026-01-02') as t(id, p, day)"
    )
    rowlock.write(frame, table_path, partition_by=["P", "day"])
    expected = sorted(
        [(1, "x/y=z", datetime.date(2026, 1, 1)), (2, None, None), (3, None, datetime.date(2026, 1, 2)), (4, "ü %", datetime.date(2026, 1, 2))], key=repr
    )
    assert read(spark, table_path) == delta_rows(spark, table_path) == expected
    rowlock.write(frame, table_path, partition_by=["p", "day"])
    with pytest.raises(InvalidInput, match="partitioned by"), unchanged(table_path):
        rowlock.write(frame, table_path, partition_by="day")
    table = DeltaTable.forPath(spark, table_path)
    table.update("p = 'x/y=z'", {"p": "'moved to'", "id": "id * 10"})
    table.delete("p is null and day is null")
    table.update("p is null", {"id": "33"})
    assert read(spark, table_path) == delta_rows(spark, table_path)
    assert {r[0] for r in read(spark, table_path)} == {10, 33, 4}


def test_merge_schema_adds_columns(spark, table_path):
    rowlock.write(spark.createDataFrame([(1,)], "id int"), table_path)
    receipt = rowlock.write(spark.createDataFrame([("n", 2, 5)], "name string, ID int, extra bigint"), table_path, merge_schema=True)
    assert receipt.version == 1
    assert read(spark, table_path) == delta_rows(spark, table_path) == sorted([(1, None, None), (2, "n", 5)], key=repr)
    assert spark.read.format("delta").load(table_path).columns == ["id", "name", "extra"]
    rowlock.write(spark.createDataFrame([(9, 8)], "more int, id int"), table_path, mode="overwrite", merge_schema=True)
    assert read(spark, table_path) == [(8, None, None, 9)]
    DeltaTable.forPath(spark, table_path).update(set={"name": "'set'", "extra": "1"})
    assert delta_rows(spark, table_path) == [(8, "set", 1, 9)]


def test_an_empty_append_is_a_commit(spark, table_path):
    rowlock.write(spark.range(1), table_path)
    assert rowlock.write(spark.range(0), table_path).version == 1
    assert read(spark, table_path) == [(0,)]
