"""What a statement may not contain in Delta is refused by name, and what a table needs that is not supported too (I9); nothing is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from pyspark.sql.window import Window

import rowlock
from rowlock import DeltaTable
from rowlock.exceptions import InvalidInput, MultipleMatches, StatementRefused, UnsupportedFeature
from spark.support import delta_rows, make, read, unchanged, version

pytestmark = pytest.mark.spark

ROWS = [(1, 10, "a"), (2, 20, "b"), (3, 30, "c")]


@pytest.fixture(scope="module")
def fixed_path(spark, tmp_path_factory):
    """A table that every refused statement leaves as it is."""
    path = str(tmp_path_factory.mktemp("fixed") / "table")
    make(spark, path, ROWS, "id int, v int, s string")
    spark.range(3).createOrReplaceTempView("other_rows")
    return path


SOURCE = "s.k = t.id"
REFUSED = {
    "a subquery in DELETE": (lambda t, m: t.delete("id in (select id from other_rows)"), "subquery"),
    "an EXISTS in DELETE": (lambda t, m: t.delete("exists (select 1 from other_rows)"), "subquery"),
    "a scalar subquery in DELETE": (lambda t, m: t.delete("id = (select max(id) from other_rows)"), "subquery"),
    "a subquery in UPDATE's condition": (lambda t, m: t.update("id in (select id from other_rows)", {"v": "1"}), "subquery"),
    "a subquery in UPDATE's value": (lambda t, m: t.update(set={"v": "(select max(id) from other_rows)"}), "subquery"),
    "a subquery in MERGE's ON": (lambda t, m: m("t.id = s.k and t.id in (select id from other_rows)").whenMatchedDelete().execute(), "subquery"),
    "a subquery in a clause": (lambda t, m: m(SOURCE).whenMatchedDelete("t.id in (select id from other_rows)").execute(), "subquery"),
    "a subquery in an insert": (lambda t, m: m(SOURCE).whenNotMatchedInsert(values={"id": "(select max(id) from other_rows)"}).execute(), "subquery"),
    "rand() in DELETE": (lambda t, m: t.delete("rand() < 0.5"), r"rand\(\)"),
    "rand() in UPDATE's condition": (lambda t, m: t.update(F.rand() < 0.5, {"v": "1"}), r"rand\(\)"),
    "rand() in UPDATE's value": (lambda t, m: t.update(set={"v": "cast(rand() * 10 as int)"}), r"rand\(\)"),
    "uuid() in UPDATE's value": (lambda t, m: t.update(set={"s": "uuid()"}), r"uuid\(\)"),
    "monotonically_increasing_id()": (lambda t, m: t.update(set={"v": F.monotonically_increasing_id().cast("int")}), "monotonically_increasing_id"),
    "rand() in MERGE's ON": (lambda t, m: m("t.id = s.k and rand() < 2").whenMatchedDelete().execute(), r"DELTA_NON_DETERMINISTIC_FUNCTION.* rand\(\)"),
    "rand() in a clause": (lambda t, m: m(SOURCE).whenMatchedDelete("rand() < 2").execute(), r"rand\(\)|non-deterministic"),
    "a number as a clause's condition": (lambda t, m: m(SOURCE).whenMatchedDelete("s.k").execute(), "FILTER_NOT_BOOLEAN.*Filter expression \"k\""),
    "an aggregate in DELETE": (lambda t, m: t.delete("id = max(id)"), "aggregate|AGGREGATE|Aggregate|INVALID_WHERE"),
    "an aggregate in UPDATE": (lambda t, m: t.update(set={"v": "max(v)"}), "aggregate|Aggregate"),
    "a window in UPDATE": (lambda t, m: t.update(set={"v": F.row_number().over(Window.orderBy("id"))}), "window|Window"),
    "a window in DELETE": (lambda t, m: t.delete(F.row_number().over(Window.orderBy("id")) > 1), "window|WINDOW"),
    "explode in UPDATE": (lambda t, m: t.update(set={"v": "explode(array(1, 2))"}), "generator|Generate|GENERATOR"),
    "explode in DELETE": (lambda t, m: t.delete("explode(array(true, false))"), "generator|GENERATOR|Generate"),
    "an aggregate in MERGE": (lambda t, m: m(SOURCE).whenMatchedUpdate(set={"v": "sum(t.v)"}).execute(), "aggregate|Aggregate|MISSING_GROUP_BY"),
    "an aggregate in an insert": (lambda t, m: m(SOURCE).whenNotMatchedInsert(values={"id": "max(s.k)"}).execute(), "aggregate|Aggregate|MISSING_GROUP_BY"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.short(
    "a subquery in DELETE",
    "a subquery in UPDATE's value",
    "a subquery in a clause",
    "rand() in DELETE",
    "uuid() in UPDATE's value",
    "rand() in MERGE's ON",
    "a number as a clause's condition",
    "an aggregate in DELETE",
    "a window in UPDATE",
    "explode in UPDATE",
    "an aggregate in an insert",
    why="each expression in another place",
)
def test_refused_in_a_statement(spark, fixed_path, name):
    run, message = REFUSED[name]
    table = DeltaTable.forPath(spark, fixed_path)
    source = spark.createDataFrame([(1,), (9,)], "k int").alias("s")
    with unchanged(fixed_path), pytest.raises((StatementRefused, AnalysisException), match=message):
        run(table, lambda on: table.alias("t").merge(source, on))
    assert delta_rows(spark, fixed_path) == ROWS


def test_a_refusal_says_what_to_do(spark, fixed_path):
    with pytest.raises(StatementRefused, match="use MERGE") as e:
        DeltaTable.forPath(spark, fixed_path).delete("id in (select id from other_rows)")
    assert e.value.what == "a subquery"
    assert e.value.table == fixed_path


# ---- two source rows for one target row --------------------------------------------------------

RAISES = {
    "update": lambda m: m.whenMatchedUpdate(set={"v": "s.n"}),
    "a condition that one row fails": lambda m: m.whenMatchedUpdate("s.n = 1", {"v": "s.n"}),
    "a condition that both fail": lambda m: m.whenMatchedUpdate("false", {"v": "s.n"}),
    "a conditional delete": lambda m: m.whenMatchedDelete("s.n = 1"),
    "a delete after another clause": lambda m: m.whenMatchedUpdate("s.n = 77", {"v": "0"}).whenMatchedDelete(),
    "with inserts": lambda m: m.whenMatchedUpdate(set={"v": "s.n"}).whenNotMatchedInsert(values={"id": "s.k"}),
}
PASSES = {
    "an unconditional delete": (lambda m: m.whenMatchedDelete(), ROWS[1:]),
    "an unconditional delete and inserts": (lambda m: m.whenMatchedDelete().whenNotMatchedInsert(values={"id": "s.k"}), [*ROWS[1:], (9, None, None), (9, None, None)]),
    "inserts only": (lambda m: m.whenNotMatchedInsert(values={"id": "s.k", "v": "s.n"}), [*ROWS, (9, 3, None), (9, 4, None)]),
    "by source only": (lambda m: m.whenNotMatchedBySourceUpdate(set={"v": "0"}), [(1, 10, "a"), (2, 0, "b"), (3, 0, "c")]),
}  # fmt: skip


@pytest.fixture
def doubled(spark):
    return spark.createDataFrame([(1, 1), (1, 2), (9, 3), (9, 4)], "k int, n int").alias("s")


@pytest.mark.parametrize("name", RAISES)
def test_a_second_match_raises_whatever_the_conditions_say(spark, fixed_path, doubled, name):
    table = DeltaTable.forPath(spark, fixed_path)
    with unchanged(fixed_path), pytest.raises(MultipleMatches, match="DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"):
        RAISES[name](table.alias("t").merge(doubled, SOURCE)).execute()


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.short("an unconditional delete and inserts", "by source only", why="the other two are parts of the first")
def test_a_second_match_passes_where_it_changes_nothing(spark, table_path, doubled, name):
    table = make(spark, table_path, ROWS, "id int, v int, s string")
    build, expected = PASSES[name]
    build(table.alias("t").merge(doubled, SOURCE)).execute()
    assert read(spark, table_path) == delta_rows(spark, table_path) == sorted(expected, key=repr)


def test_a_doubled_delete_counts_each_row_once(spark, table_path, doubled):
    table = make(spark, table_path, ROWS, "id int, v int, s string")
    answer = table.alias("t").merge(doubled, SOURCE).whenMatchedDelete().execute().first()
    assert (answer.num_affected_rows, answer.num_deleted_rows) == (1, 1)


def test_a_dead_row_is_no_second_match(spark, table_path, doubled):
    table = make(spark, table_path, [*ROWS, (5, 50, "e")], "id int, v int, s string")
    table.delete("id = 1")
    table.alias("t").merge(doubled.where("k = 1"), SOURCE).whenMatchedUpdate(set={"v": "0"}).whenNotMatchedInsert(values={"id": "s.k"}).execute()
    assert [r[0] for r in read(spark, table_path)] == [1, 1, 2, 3, 5]


# ---- append-only tables, features, properties --------------------------------------------------


def test_append_only_tables_take_only_appends(spark, table_path):
    table = make(spark, table_path, ROWS, "id int, v int, s string", files=3, **{"delta.appendOnly": "true"})
    source = spark.createDataFrame([(1,), (9,)], "k int").alias("s")
    with unchanged(table_path):
        for refused in (
            lambda: table.delete("id = 1"),
            lambda: table.delete("id = 12345"),
            lambda: table.update("id = 1", {"v": "0"}),
            lambda: table.update("id = 12345", {"v": "0"}),
            lambda: rowlock.write(spark.createDataFrame(ROWS, "id int, v int, s string"), table_path, mode="overwrite"),
            lambda: table.alias("t").merge(source, SOURCE).whenMatchedDelete().execute(),
        ):
            with pytest.raises(StatementRefused, match="appendOnly"):
                refused()
    table.alias("t").merge(source, SOURCE).whenNotMatchedInsert(values={"id": "s.k"}).execute()
    table.alias("t").merge(source, "s.k = t.id + 100").whenMatchedDelete().execute()
    table.optimize().executeCompaction()
    assert sorted(r[0] for r in delta_rows(spark, table_path)) == [1, 2, 3, 9]
    table.setProperties({"delta.appendOnly": "false"})
    table.delete("id = 9")
    assert [r[0] for r in read(spark, table_path)] == [1, 2, 3]


@pytest.mark.no_peers("no engine may write a table with a feature that it does not know")
def test_a_table_that_may_not_be_written_is_refused_by_the_features_name(spark, tmp_path):
    """I9: a feature of writers alone leaves readers be."""
    path = str(tmp_path / "theirs")
    make(spark, path, ROWS, "id int, v int, s string")
    rows = len(read(spark, path))
    add_protocol(path, {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["tomorrow"]})
    before = version(path)
    for write in (
        lambda: DeltaTable.forPath(spark, path).delete("id = 1"),
        lambda: DeltaTable.forPath(spark, path).update(set={"id": "id"}),
        lambda: DeltaTable.forPath(spark, path).optimize().executeCompaction(),
        lambda: rowlock.write(spark.createDataFrame([(1,)], "id int"), path),
        lambda: DeltaTable.forPath(spark, path).merge(spark.range(1).selectExpr("id as k"), "id = k").whenMatchedDelete().execute(),
        lambda: DeltaTable.forPath(spark, path).setProperties({"mine": "1"}),
    ):
        with pytest.raises(UnsupportedFeature, match="tomorrow") as e:
            write()
        assert e.value.access == "write"
    assert version(path) == before and len(read(spark, path)) == rows


def add_protocol(path, protocol):
    """A commit of another engine, which gives the table a protocol."""
    actions = ({"commitInfo": {"operation": "TEST"}}, {"protocol": protocol})
    Path(path, "_delta_log", f"{version(path) + 1:020}.json").write_text("".join(json.dumps(a) + "\n" for a in actions))


@pytest.mark.no_peers("no engine may read a table with a feature that it does not know")
def test_an_unknown_feature_is_refused_for_reading_too(spark, tmp_path):
    path = str(tmp_path / "theirs")
    make(spark, path, ROWS, "id int, v int, s string")
    features = ["deletionVectors", "tomorrow"]
    add_protocol(path, {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features})
    with pytest.raises(UnsupportedFeature, match="tomorrow") as e:
        read(spark, path)
    assert e.value.access == "read"


PROPERTIES = {
    "a level that never was": ({"rowlock.isolation": "dirty"}, "rowlock.isolation = 'dirty'.*serializable, write_serializable, snapshot"),
    "a policy that needs row ids": ({"rowlock.onConflict": "lockless"}, "rowlock.onConflict = 'lockless'.*delta.enableRowTracking"),
    "a policy that never was": ({"rowlock.onConflict": "hope"}, "rowlock.onConflict = 'hope'.*repair"),
    "a lock": ({"rowlock.lock": "all"}, "rowlock.lock = 'all'.*none, writes, table, partition, auto"),
    "an unknown knob": ({"rowlock.speed": "high"}, "rowlock.speed"),
    "another spelling": ({"rowlock.onconflict": "fail"}, "rowlock.onconflict"),
    "Delta's name with a wrong value": ({"delta.appendOnly": "perhaps"}, "delta.appendOnly = 'perhaps'.*true"),
    "a wrong number": ({"delta.checkpointInterval": "0"}, "delta.checkpointInterval"),
    "an unknown name of Delta's": ({"delta.nothing": "1"}, "delta.nothing"),
}  # fmt: skip


@pytest.mark.parametrize("name", PROPERTIES)
def test_property_values_are_refused_by_name(spark, fixed_path, tmp_path, name):
    properties, message = PROPERTIES[name]
    with unchanged(fixed_path), pytest.raises(InvalidInput, match=message):
        DeltaTable.forPath(spark, fixed_path).setProperties(properties)
    new = str(tmp_path / "new")
    with pytest.raises(InvalidInput, match=message):
        rowlock.write(spark.range(1), new, properties=properties)
    builder = DeltaTable.create(spark).location(new).addColumn("id", "INT")
    for key, value in properties.items():
        builder = builder.property(key, value)
    with pytest.raises(InvalidInput, match=message):
        builder.execute()
    assert version(new) == -1


@pytest.mark.parametrize("properties", [{"delta.enableIcebergCompatV2": "true"}, {"delta.enableIcebergCompatV3": "true"}])
def test_properties_that_need_what_is_not_supported(spark, fixed_path, tmp_path, properties):
    with unchanged(fixed_path), pytest.raises(UnsupportedFeature):
        DeltaTable.forPath(spark, fixed_path).setProperties(properties)
    with pytest.raises(UnsupportedFeature):
        rowlock.write(spark.range(1), str(tmp_path / "new"), properties=properties)
    assert version(str(tmp_path / "new")) == -1
