"""MERGE with schema evolution: the columns and rows that delta-spark would make, in one commit, also where others commit meanwhile."""

from __future__ import annotations

import delta.tables as theirs
import pytest

import rowlock
from rowlock import DeltaTable
from rowlock.exceptions import SchemaMismatch, UnsupportedFeature
from spark.support import ROUTES, delta_rows, make, rows, take_route, unchanged, version, winner

pytestmark = pytest.mark.spark

ROWS = [(1, "a"), (2, "b"), (3, "c")]

FORMS = {
    "all": lambda m: m.whenMatchedUpdateAll().whenNotMatchedInsertAll(),
    "set one, insert all": lambda m: m.whenMatchedUpdate(set={"extra": "-1"}).whenNotMatchedInsertAll(),
    "only what is set is added": lambda m: m.whenMatchedUpdate(set={"extra": "s.extra * 2"}),
    "an insert of some": lambda m: m.whenNotMatchedInsert(values={"id": "s.id", "more": "s.more"}),
    "nothing is added": lambda m: m.whenMatchedDelete().whenNotMatchedInsert(values={"id": "s.id", "v": "'n'"}),
    "by source": lambda m: m.whenMatchedUpdateAll().whenNotMatchedBySourceUpdate(set={"v": "'gone'"}),
    "a condition on a new column": lambda m: m.whenMatchedUpdateAll("more = 'x'").whenNotMatchedInsertAll("extra > 20"),
}


def source(spark):
    return spark.createDataFrame([(1, 10, "x"), (4, 40, "y")], "id int, extra int, more string")


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.short(ci=("all",), why="each form is asked of delta-spark too; what columns are added is also tested without it")
def test_as_delta_spark_does_it(spark, table_path, tmp_path, name):
    twin = str(tmp_path / "twin")
    for path in (table_path, twin):
        make(spark, path, ROWS, "id int, v string", files=2)
    for module, path in ((DeltaTable, table_path), (theirs.DeltaTable, twin)):
        table = module.forPath(spark, path).alias("t")
        FORMS[name](table.merge(source(spark).alias("s"), "t.id = s.id")).withSchemaEvolution().execute()
    ours, expected = (spark.read.format("delta").load(p) for p in (table_path, twin))
    assert ours.columns == expected.columns
    assert rows(ours) == rows(expected) == rows(rowlock.read(spark, table_path))
    assert version(table_path) == version(twin)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.short("large", ci=("mixed",), why="the way between; the ways themselves are compared in test_routes")
def test_on_every_route(spark, table_path, monkeypatch, route):
    table = make(spark, table_path, [(n, "v") for n in range(12)], "id int, v string", files=2)
    take_route(monkeypatch, route)
    table.alias("t").merge(source(spark).alias("s"), "t.id = s.id").whenMatchedUpdateAll(
        "more >= 'x'"
    ).whenNotMatchedInsertAll().withSchemaEvolution().execute()
    assert [r for r in delta_rows(spark, table_path) if r[2] is not None] == [(1, "v", 10, "x"), (4, "v", 40, "y")]


def test_a_winner_that_appends_meets_the_new_columns(spark, table_path):
    table = make(spark, table_path, ROWS, "id int, v string")
    merge = table.alias("t").merge(source(spark).alias("s"), "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().withSchemaEvolution()
    with winner(lambda: rowlock.write(spark.createDataFrame([(4, "late")], "id int, v string"), table_path)):
        merge.execute()
    assert delta_rows(spark, table_path) == sorted([(1, "a", 10, "x"), (2, "b", None, None), (3, "c", None, None), (4, "late", 40, "y")], key=repr)


def test_a_winner_that_adds_the_same_columns(spark, table_path):
    table = make(spark, table_path, ROWS, "id int, v string")
    merge = table.alias("t").merge(source(spark).alias("s"), "t.id = s.id").whenNotMatchedInsertAll().withSchemaEvolution()
    with winner(lambda: rowlock.write(spark.createDataFrame([(9, 9)], "id int, extra int"), table_path, merge_schema=True)):
        merge.execute()
    assert spark.read.format("delta").load(table_path).columns == ["id", "v", "extra", "more"]
    assert delta_rows(spark, table_path) == sorted(
        [(1, "a", None, None), (2, "b", None, None), (3, "c", None, None), (4, None, 40, "y"), (9, None, 9, None)], key=repr
    )


def test_what_evolution_refuses_before_anything_is_written(spark, table_path):
    table = make(spark, table_path, ROWS, "id int, v string")
    doubled = spark.createDataFrame([(1, 1, 2)], ["id", "x", "X"])
    with unchanged(table_path):
        with pytest.raises(SchemaMismatch):
            table.alias("t").merge(doubled.alias("s"), "t.id = s.id").whenNotMatchedInsertAll().withSchemaEvolution().execute()
        with pytest.raises(UnsupportedFeature, match="transaction of its own"), table.transaction() as txn:
            txn.alias("t").merge(source(spark).alias("s"), "t.id = s.id").whenNotMatchedInsertAll().withSchemaEvolution().execute()
        with pytest.raises(SchemaMismatch, match="extra"):
            table.alias("t").merge(source(spark).alias("s"), "t.id = s.id").whenMatchedUpdate(set={"extra": "1"}).execute()


NOT_YET = {
    "ON": ("t.extra = s.extra", lambda m: m.whenMatchedUpdateAll().whenNotMatchedInsertAll()),
    "condition": ("t.id = s.id", lambda m: m.whenMatchedUpdateAll("t.extra is null")),
    "value": ("t.id = s.id", lambda m: m.whenMatchedUpdate(set={"extra": "t.extra + s.extra"})),
    "by source": ("t.id = s.id", lambda m: m.whenMatchedUpdateAll().whenNotMatchedBySourceDelete("t.extra is null")),
}


@pytest.mark.parametrize("name", NOT_YET)
def test_a_column_that_the_merge_adds_is_no_part_of_its_conditions_and_values(spark, table_path, name):
    """As null it would match nothing, and a misspelled ON insert every row again; delta-spark refuses it, too."""
    make(spark, table_path, ROWS, "id int, v string")
    on, form = NOT_YET[name]
    for module in (DeltaTable, theirs.DeltaTable):
        merge = form(module.forPath(spark, table_path).alias("t").merge(source(spark).alias("s"), on)).withSchemaEvolution()
        with unchanged(table_path), pytest.raises(Exception, match="UNRESOLVED"):
            merge.execute()
