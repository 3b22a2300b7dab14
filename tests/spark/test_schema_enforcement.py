"""Rows fit the table's schema or are refused before anything is written: no version, no file that a reader would see (I9, I10)."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest
from pyspark.sql import functions as F

import rowlock
import rowlock.spark.append as append_module
from rowlock import DeltaTable
from rowlock.exceptions import ConstraintViolated, InvalidInput, SchemaMismatch, UnsupportedFeature
from spark.support import delta_rows, read, unchanged, version

pytestmark = pytest.mark.spark


def create(spark, path):
    """A table with one row; id is NOT NULL, and so is the field inner.must."""
    table = (
        DeltaTable.create(spark)
        .location(path)
        .addColumn("Id", "INT", nullable=False)
        .addColumn("Name", "STRING")
        .addColumn("Total", "DECIMAL(10,2)")
        .addColumn("inner", "struct<must:int not null,may:string>")
        .execute()
    )
    rowlock.write(spark.sql("select 1 as Id, 'one' as Name, 1.00bd as Total, named_struct('must', 1, 'may', 'm') as inner"), path)
    return table


@pytest.fixture
def table(spark, table_path):
    return create(spark, table_path)


@pytest.fixture(scope="module")
def kept_path(spark, tmp_path_factory):
    """A table that no refused write changes."""
    path = str(tmp_path_factory.mktemp("kept") / "table")
    create(spark, path)
    return path


def frame(spark, select):
    return spark.sql(f"select {select}")


ACCEPTED = {
    "other case and order": ("'two' as NAME, 2 as ID", (2, "two", None, None)),
    "absent nullable columns": ("2 as id", (2, None, None, None)),
    "a narrower type": ("cast(2 as smallint) as id, cast(7 as int) as total", (2, None, Decimal("7.00"), None)),
    "a null without a type": ("2 as id, null as name, null as inner", (2, None, None, None)),
    "an absent nullable field": ("2 as id, named_struct('MUST', 5) as inner", (2, None, None, (5, None))),
    "fields in another order": ("2 as id, named_struct('may', 'x', 'must', 5) as inner", (2, None, None, (5, "x"))),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_rows_that_fit_are_made_to_fit(spark, table, table_path, name):
    select, expected = ACCEPTED[name]
    rowlock.write(frame(spark, select), table_path)
    assert expected in read(spark, table_path)
    assert read(spark, table_path) == delta_rows(spark, table_path)


REFUSED = {
    "an absent NOT NULL column": ("'two' as name", SchemaMismatch, "Id is NOT NULL"),
    "an unknown column": ("2 as id, 1 as surprise", SchemaMismatch, "surprise.*merge_schema"),
    "an unknown field": ("2 as id, named_struct('must', 1, 'surprise', 1) as inner", SchemaMismatch, "surprise"),
    "an absent NOT NULL field": ("2 as id, named_struct('may', 'x') as inner", SchemaMismatch, "inner.must"),
    "text for a number": ("'2' as id", SchemaMismatch, "Id is int .* string"),
    "a wider number": ("2L as id", SchemaMismatch, "Id is int .* bigint"),
    "a number for text": ("2 as id, 5 as name", SchemaMismatch, "Name is string .* int"),
    "a wider decimal": ("2 as id, cast(1 as decimal(12,3)) as total", SchemaMismatch, "Total"),
    "a number for a struct": ("2 as id, 5 as inner", SchemaMismatch, "inner"),
    "names that differ by case": ("2 as id, 3 as ID", SchemaMismatch, "differ"),
    "the same name twice": ("2 as id, 3 as id", SchemaMismatch, "differ"),
    "a null in a NOT NULL column": ("cast(null as int) as id", ConstraintViolated, "Id is NOT NULL"),
    "a null in a NOT NULL field": ("2 as id, named_struct('must', cast(null as int)) as inner", ConstraintViolated, "inner.must is NOT NULL"),
}  # fmt: skip


@pytest.mark.parametrize("route", ["driver", "spark"])
@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize("name", REFUSED)
def test_rows_that_do_not_fit_are_refused(spark, kept_path, monkeypatch, name, mode, route):
    if route == "spark":
        monkeypatch.setattr(append_module, "SMALL_ROWS", -1)
    select, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        rowlock.write(frame(spark, select), kept_path, mode=mode)
    assert version(kept_path) == 1
    assert read(spark, kept_path) == [(1, "one", Decimal("1.00"), (1, "m"))]


def test_a_refusal_by_the_schema_writes_no_file(spark, table, table_path):
    with unchanged(table_path), pytest.raises(SchemaMismatch):
        rowlock.write(frame(spark, "2 as id, 1 as surprise"), table_path)


def test_merge_schema_adds_but_does_not_change(spark, table, table_path):
    with unchanged(table_path):
        for select in ("2L as id, 1 as more", "2 as id, 'x' as total, 1 as more", "2 as id, 1 as More, 2 as mORE"):
            with pytest.raises(SchemaMismatch):
                rowlock.write(frame(spark, select), table_path, merge_schema=True)
        with pytest.raises(SchemaMismatch, match="bad name"):
            rowlock.write(frame(spark, "2 as id, 1 as `bad name`"), table_path, merge_schema=True)
        with pytest.raises(UnsupportedFeature, match="interval"):
            rowlock.write(frame(spark, "2 as id, interval 1 day as more"), table_path, merge_schema=True)
    rowlock.write(frame(spark, "2 as id, 'x' as more"), table_path, merge_schema=True)
    assert [r[-1] for r in delta_rows(spark, table_path)] == [None, "x"]
    assert [f.nullable for f in spark.read.format("delta").load(table_path).schema] == [False, True, True, True, True]


def test_a_not_null_column_survives_merge_schema(spark, table, table_path):
    rowlock.write(frame(spark, "2 as id, 'x' as more"), table_path, merge_schema=True)
    with pytest.raises(ConstraintViolated):
        rowlock.write(frame(spark, "cast(null as int) as id, 'x' as more"), table_path)


def test_what_no_new_table_may_have(spark, tmp_path):
    path = str(tmp_path / "new")
    for bad, options, message in (
        (frame(spark, "1 as a, 2 as A"), {}, "differ"),
        (frame(spark, "1 as `a b`"), {}, "a b"),
        (frame(spark, "1 as a"), {"partition_by": "a"}, "not a partition column"),
        (frame(spark, "1 as a, array(1) as b"), {"partition_by": "b"}, "partition"),
        (frame(spark, "1 as a, 2 as b"), {"partition_by": "c"}, "'c'"),
        (frame(spark, "named_struct('x', 1, 'X', 2) as s"), {}, "same name"),
    ):
        with pytest.raises(InvalidInput, match=message):
            rowlock.write(bad, path, **options)
    with pytest.raises(UnsupportedFeature):
        rowlock.write(frame(spark, "1 as a, null as b"), path)
    assert version(path) == -1


# ---- NOT NULL in every statement -------------------------------------------------------------


@pytest.mark.parametrize("set_", [{"id": "null"}, {"id": "nullif(id, 1)"}, {"inner.must": "null"}, {"inner": "named_struct('must', cast(null as int), 'may', 'x')"}])
def test_not_null_in_update(spark, table, table_path, set_):
    with unchanged(table_path), pytest.raises(ConstraintViolated, match="NOT NULL"):
        table.update(set=set_)
    table.update("id = 99", set_)
    assert table.lastReceipt.version is None


def test_a_null_struct_hides_its_not_null_fields(spark, table, table_path):
    table.update(set={"inner": "null"})
    assert delta_rows(spark, table_path)[0][3] is None


@pytest.mark.parametrize(
    "build",
    [
        lambda m: m.whenNotMatchedInsert(values={"name": "s.n"}),
        lambda m: m.whenNotMatchedInsert(values={"id": "s.k", "name": "s.n"}),
        lambda m: m.whenNotMatchedInsert(values={"id": "7", "inner": "named_struct('must', s.k, 'may', '')"}),
        lambda m: m.whenMatchedUpdate(set={"id": "nullif(t.id, 1)"}),
        lambda m: m.whenNotMatchedBySourceUpdate(set={"id": "null"}),
    ],
)
def test_not_null_in_merge(spark, table, table_path, build):
    rowlock.write(frame(spark, "50 as id, '' as name"), table_path)
    source = spark.createDataFrame([(1, "a"), (None, "b")], "k int, n string")
    with unchanged(table_path), pytest.raises(ConstraintViolated, match="NOT NULL"):
        build(table.alias("t").merge(source.alias("s"), "t.id = s.k")).execute()


def test_an_insert_that_does_not_happen_breaks_nothing(spark, table, table_path):
    source = spark.createDataFrame([(1, "a"), (None, "b")], "k int, n string")
    table.alias("t").merge(source.alias("s"), "t.id = s.k").whenMatchedUpdate(set={"name": "s.n"}).whenNotMatchedInsert("s.k is not null", {"id": "s.k"}).execute()
    assert read(spark, table_path)[0][1] == "a"


def test_not_null_partition_columns(spark, table_path):
    DeltaTable.create(spark).location(table_path).addColumn("id", "INT").addColumn("p", "STRING", nullable=False).partitionedBy("p").execute()
    rowlock.write(frame(spark, "1 as id, 'x' as p"), table_path)
    with unchanged(table_path):
        with pytest.raises(ConstraintViolated):
            rowlock.write(frame(spark, "1 as id, cast(null as string) as p"), table_path)
        with pytest.raises(ConstraintViolated):
            DeltaTable.forPath(spark, table_path).update(set={"p": "null"})


# ---- assignment casts ------------------------------------------------------------------------


def test_assignments_are_cast_or_refused(spark, table, table_path):
    with unchanged(table_path):
        for set_ in ({"id": "date'2026-01-01'"}, {"total": "array(1)"}, {"inner": "named_struct('x', 1)"}, {"inner": "1"}, {"id": "true"}):
            with pytest.raises(SchemaMismatch):
                table.update(set=set_)
        with pytest.raises(Exception, match=r"OVERFLOW|overflow"):
            table.update(set={"id": "3000000000L"})
        with pytest.raises(Exception, match=r"NUMERIC_VALUE_OUT_OF_RANGE|cannot be represented|OVERFLOW"):
            table.update(set={"total": "cast(123456789012.5 as decimal(20,2))"})
    table.update(set={"id": "2L", "name": "5", "total": "2.345"})
    assert read(spark, table_path) == [(2, "5", Decimal("2.35"), (1, "m"))] or read(spark, table_path) == [(2, "5", Decimal("2.34"), (1, "m"))]
    source = spark.createDataFrame([(2, datetime.datetime(2026, 1, 1))], "k bigint, at timestamp")
    table.alias("t").merge(source.alias("s"), "t.id = s.k").whenMatchedUpdate(set={"name": F.col("s.at").cast("date"), "id": "s.k + 1"}).execute()
    assert read(spark, table_path)[0][:2] == (3, "2026-01-01")
