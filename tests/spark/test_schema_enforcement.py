"""Rows fit the table's schema or are refused before anything is written: no version, no file that a reader would see (I9, I10)."""

from __future__ import annotations

import datetime
from decimal import Decimal

import delta.tables
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, IntegerType, MapType, StringType, StructField, StructType

import rowlock
from rowlock import DeltaTable
from rowlock.exceptions import ConstraintViolated, InvalidInput, SchemaMismatch, UnsupportedFeature
from spark.support import delta_rows, read, rows, take_route, unchanged, version
from support.turning_down import turn_down

pytestmark = pytest.mark.spark


INNER = "named_struct('must', 1, 'may', 'm') as inner"


def create(spark, path):
    """A table with one row; id is NOT NULL, and so is the field inner.must, of which a null inner has none."""
    table = (
        DeltaTable.create(spark)
        .location(path)
        .addColumn("Id", "INT", nullable=False)
        .addColumn("Name", "STRING")
        .addColumn("Total", "DECIMAL(10,2)")
        .addColumn("inner", "struct<must:int not null,may:string>")
        .addColumn("free", "struct<may:string>")
        .execute()
    )
    rowlock.write(spark.sql(f"select 1 as Id, 'one' as Name, 1.00bd as Total, {INNER}, named_struct('may', 'f') as free"), path)
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
    "other case and order": (f"{INNER}, 'two' as NAME, 2 as ID", (2, "two", None, (1, "m"), None)),
    "absent nullable columns": (f"2 as id, {INNER}", (2, None, None, (1, "m"), None)),
    "a narrower type": (f"cast(2 as smallint) as id, cast(7 as smallint) as total, {INNER}", (2, None, Decimal("7.00"), (1, "m"), None)),
    "a null without a type": (f"2 as id, null as name, null as free, {INNER}", (2, None, None, (1, "m"), None)),
    "an absent nullable field": ("2 as id, named_struct('MUST', 5) as inner", (2, None, None, (5, None), None)),
    "fields in another order": ("2 as id, named_struct('may', 'x', 'must', 5) as inner", (2, None, None, (5, "x"), None)),
}


@pytest.mark.parametrize("name", ACCEPTED)
@pytest.mark.short(
    "other case and order", "a null without a type", "absent nullable columns", why="3 s each; the pairs of types are asked in tests/unit/engines/appends"
)
def test_rows_that_fit_are_made_to_fit(spark, table, table_path, name):
    select, expected = ACCEPTED[name]
    rowlock.write(frame(spark, select), table_path)
    assert expected in read(spark, table_path)
    assert read(spark, table_path) == delta_rows(spark, table_path)


REFUSED = {
    "an absent NOT NULL column": ("'two' as name", SchemaMismatch, "Id is NOT NULL"),
    "an unknown column": ("2 as id, 1 as surprise", SchemaMismatch, "surprise.*merge_schema"),
    "an unknown field": ("2 as id, named_struct('must', 1, 'surprise', 1) as inner", SchemaMismatch, "surprise"),
    "an absent NOT NULL field": ("2 as id, named_struct('may', 'x') as inner", SchemaMismatch, "inner.must is NOT NULL"),
    "an absent struct with a NOT NULL field": ("2 as id", SchemaMismatch, "inner.must is NOT NULL"),
    "text for a number": ("'2' as id", SchemaMismatch, "Id is int .* string"),
    "a wider number": ("2L as id", SchemaMismatch, "Id is int .* bigint"),
    "a number for text": ("2 as id, 5 as name", SchemaMismatch, "Name is string .* int"),
    "a number of more digits": ("2 as id, 7 as total", SchemaMismatch, "Total is decimal.* int"),
    "a wider decimal": ("2 as id, cast(1 as decimal(12,3)) as total", SchemaMismatch, "Total"),
    "a number for a struct": ("2 as id, 5 as inner", SchemaMismatch, "inner"),
    "names that differ by case": ("2 as id, 3 as ID", SchemaMismatch, "differ"),
    "the same name twice": ("2 as id, 3 as id", SchemaMismatch, "differ"),
    "a null in a NOT NULL column": (f"cast(null as int) as id, {INNER}", ConstraintViolated, "Id is NOT NULL"),
    "a null struct with a NOT NULL field": ("2 as id, cast(null as struct<must:int,may:string>) as inner", ConstraintViolated, "inner.must is NOT NULL"),
    "a null without a type for such a struct": ("2 as id, null as inner", ConstraintViolated, "inner.must is NOT NULL"),
    "a null in a NOT NULL field": ("2 as id, named_struct('must', cast(null as int)) as inner", ConstraintViolated, "inner.must is NOT NULL"),
}  # fmt: skip


@pytest.mark.parametrize("route", ["driver", "spark"])
@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.short(
    "an absent NOT NULL column-append-driver",
    "an unknown field-append-spark",
    "text for a number-overwrite-spark",
    "a wider decimal-overwrite-spark",
    "a number for a struct-append-spark",
    "names that differ by case-overwrite-driver",
    "the same name twice-append-driver",
    "a null struct with a NOT NULL field-append-spark",
    "a null in a NOT NULL field-append-driver",
    ci=(
        "an unknown column-overwrite-spark",
        "an absent NOT NULL field-overwrite-driver",
        "an absent struct with a NOT NULL field-append-driver",
        "a wider number-append-spark",
        "a number for text-overwrite-driver",
        "a number of more digits-append-driver",
        "a null in a NOT NULL column-overwrite-spark",
        "a null without a type for such a struct-overwrite-driver",
    ),
    why="other values of the same kinds; every kind stays, and tests/unit/engines/appends/test_schema_rules.py asks more of them without Spark",
)
def test_rows_that_do_not_fit_are_refused(spark, kept_path, monkeypatch, name, mode, route):
    if route == "spark":
        turn_down(monkeypatch, driver_rows=-1)
    select, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        rowlock.write(frame(spark, select), kept_path, mode=mode)
    assert version(kept_path) == 1
    assert read(spark, kept_path) == [(1, "one", Decimal("1.00"), (1, "m"), ("f",))]


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
    rowlock.write(frame(spark, f"2 as id, 'x' as more, {INNER}"), table_path, merge_schema=True)
    assert [r[-1] for r in delta_rows(spark, table_path)] == [None, "x"]
    assert [f.nullable for f in spark.read.format("delta").load(table_path).schema] == [False, True, True, True, True, True]


def test_a_not_null_column_survives_merge_schema(spark, table, table_path):
    rowlock.write(frame(spark, f"2 as id, 'x' as more, array(1) as l, {INNER}"), table_path, merge_schema=True)
    with pytest.raises(ConstraintViolated, match="Id is NOT NULL"):
        rowlock.write(frame(spark, f"cast(null as int) as id, 'x' as more, {INNER}"), table_path)
    rowlock.write(frame(spark, f"3 as id, array(1, null) as l, {INNER}"), table_path)  # what was added is nullable with all that is in it
    assert read(spark, table_path) == delta_rows(spark, table_path)


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
        rowlock.write(frame(spark, "1 as a, array(null) as b"), path)
    assert version(path) == -1


# ---- NOT NULL in every statement -------------------------------------------------------------


@pytest.mark.parametrize(
    "set_",
    [{"id": "null"}, {"id": "nullif(id, 1)"}, {"inner.must": "null"}, {"inner": "named_struct('must', cast(null as int), 'may', 'x')"}, {"inner": "null"}],
)
@pytest.mark.short(
    "set_0",
    "set_3",
    ci=(
        "set_1",
        "set_2",
        "set_4",
    ),
    why="more assignments of the same kinds",
)
def test_not_null_in_update(spark, table, table_path, set_):
    with unchanged(table_path), pytest.raises(ConstraintViolated, match="NOT NULL"):
        table.update(set=set_)
    table.update("id = 99", set_)
    assert table.lastReceipt.version is None


def test_a_nullable_struct_may_be_null(spark, table, table_path):
    table.update(set={"free": "null"})
    assert delta_rows(spark, table_path)[0][4] is None


@pytest.mark.parametrize(
    "build",
    [
        lambda m: m.whenNotMatchedInsert(values={"name": "s.n"}),
        lambda m: m.whenNotMatchedInsert(values={"id": "s.k", "name": "s.n", "inner": "named_struct('must', 1, 'may', '')"}),
        lambda m: m.whenNotMatchedInsert(values={"id": "7", "name": "s.n"}),
        lambda m: m.whenNotMatchedInsert(values={"id": "7", "inner": "named_struct('must', s.k, 'may', '')"}),
        lambda m: m.whenMatchedUpdate(set={"id": "nullif(t.id, 1)"}),
        lambda m: m.whenNotMatchedBySourceUpdate(set={"id": "null"}),
    ],
)
@pytest.mark.short("<lambda>0", "<lambda>4", ci=("<lambda>2",), why="one clause more")
def test_not_null_in_merge(spark, table, table_path, build):
    rowlock.write(frame(spark, f"50 as id, '' as name, {INNER}"), table_path)
    source = spark.createDataFrame([(1, "a"), (None, "b")], "k int, n string")
    with unchanged(table_path), pytest.raises(ConstraintViolated, match="NOT NULL"):
        build(table.alias("t").merge(source.alias("s"), "t.id = s.k")).execute()


def test_an_insert_that_does_not_happen_breaks_nothing(spark, table, table_path):
    source = spark.createDataFrame([(1, "a"), (None, "b")], "k int, n string")
    table.alias("t").merge(source.alias("s"), "t.id = s.k").whenMatchedUpdate(set={"name": "s.n"}).whenNotMatchedInsert(
        "s.k is not null", {"id": "s.k"}
    ).execute()
    assert read(spark, table_path)[0][1] == "a"


@pytest.mark.parametrize("route", ["driver", "large"])
@pytest.mark.short("large", why="the same statement the other way; the ways themselves are compared in test_routes")
def test_not_null_partition_columns(spark, table_path, monkeypatch, route):
    """An empty text as a partition value is a null to every reader of the log."""
    take_route(monkeypatch, route)
    table = DeltaTable.create(spark).location(table_path).addColumn("id", "INT").addColumn("p", "STRING", nullable=False).partitionedBy("p").execute()
    rowlock.write(frame(spark, "1 as id, 'x' as p"), table_path)
    source = frame(spark, "7 as k").alias("s")
    for empty in ("cast(null as string)", "''", "trim(' ')"):
        for write in (
            lambda v: rowlock.write(frame(spark, f"1 as id, {v} as p"), table_path),
            lambda v: rowlock.write(frame(spark, f"1 as id, {v} as p").repartition(1), table_path),
            lambda v: table.update(set={"p": v}),
            lambda v: table.alias("t").merge(source, "t.id = s.k").whenNotMatchedInsert(values={"id": "s.k", "p": v}).execute(),
        ):
            with pytest.raises(ConstraintViolated, match="Column p is NOT NULL"):
                write(empty)
    assert read(spark, table_path) == delta_rows(spark, table_path) == [(1, "x")]


WITHIN = [
    StructField("l", ArrayType(StructType([StructField("must", IntegerType(), False)]))),
    StructField("l", ArrayType(ArrayType(IntegerType(), False))),
    StructField("m", MapType(StringType(), StructType([StructField("must", IntegerType(), False)]))),
    StructField("m", MapType(StructType([StructField("must", IntegerType(), False)]), IntegerType())),
    StructField("s", StructType([StructField("l", ArrayType(StructType([StructField("must", IntegerType(), False)])))])),
]


@pytest.mark.parametrize("field", WITHIN, ids=lambda f: f.dataType.simpleString())
def test_not_null_within_arrays_and_maps_is_refused_for_new_tables(spark, tmp_path, field):
    for face, error, path in ((DeltaTable, SchemaMismatch, "ours"), (delta.tables.DeltaTable, AnalysisException, "theirs")):
        with pytest.raises(error, match="DELTA_NESTED_NOT_NULL_CONSTRAINT"):
            face.create(spark).location(str(tmp_path / path)).addColumn("id", "INT").addColumns(StructType([field])).execute()
    assert version(str(tmp_path / "ours")) == -1


@pytest.mark.parametrize("route", ["driver", "large"])
@pytest.mark.short("driver", why="the same statement the other way; the ways themselves are compared in test_routes")
def test_elements_that_may_not_be_null(spark, table_path, monkeypatch, route):
    """delta-spark refuses an UPDATE or MERGE whose type would allow a null here, and an append it takes and reads as 0; here the values are looked at."""
    take_route(monkeypatch, route)
    fields = [
        StructField("id", IntegerType()),
        StructField("l", ArrayType(IntegerType(), False)),
        StructField("m", MapType(StringType(), IntegerType(), False)),
    ]
    table = DeltaTable.create(spark).location(table_path).addColumns(StructType(fields)).execute()
    rowlock.write(
        spark.sql("select cast(id as int) id, array(1, nullif(3, cast(id as int))) l, map('k', cast(id as int)) m from range(3)").repartition(1), table_path
    )
    rowlock.write(frame(spark, "3 as id, cast(null as array<int>) as l"), table_path)
    for set_, place in (({"l": "array(1, null)"}, "l.element"), ({"l": "array(nullif(id, 2))"}, "l.element"), ({"m": "map('k', nullif(id, 2))"}, "m.value")):
        with pytest.raises(ConstraintViolated, match=f"Column {place} is NOT NULL"):
            table.update(set=set_)
        with pytest.raises(ConstraintViolated, match=f"Column {place} is NOT NULL"):
            table.alias("t").merge(frame(spark, "2 as k").alias("s"), "t.id = s.k").whenMatchedUpdate(set=set_).execute()
    for select in ("array(null, 5) as l", "map('a', 1, 'b', null) as m"):
        for few in (True, False):
            with pytest.raises(ConstraintViolated, match="NOT NULL"):
                rowlock.write(frame(spark, f"9 as id, {select}") if few else frame(spark, f"9 as id, {select}").repartition(1), table_path)
    table.update("id < 3", {"l": "array(id, nullif(5, 6))"})
    assert read(spark, table_path) == delta_rows(spark, table_path)
    assert sorted(r[1] or [] for r in read(spark, table_path)) == [[], [0, 5], [1, 5], [2, 5]]


@pytest.mark.soak("a frame of each type", ci=True)
def test_a_frame_says_of_nulls_what_the_table_says(spark, table, table_path):
    more = StructType([StructField("p", StringType(), False), StructField("q", IntegerType()), StructField("l", ArrayType(IntegerType(), False), False)])
    other = (
        DeltaTable.create(spark)
        .location(table_path + "_other")
        .addColumn("id", "INT", nullable=False, comment="key")
        .addColumns(more)
        .partitionedBy("p", "q")
        .execute()
    )

    def same(path):
        return (
            rowlock.read(spark, path).schema == spark.read.format("delta").load(path).schema
            and DeltaTable.forPath(spark, path).toDF().schema == rowlock.read(spark, path).schema
        )

    assert same(table_path)
    assert same(table_path + "_other")
    rowlock.write(
        frame(spark, "id, concat('p', id % 3) as p, if(id = 1, null, id) as q, array(id) as l from (select cast(id as int) id from range(30))"),
        table_path + "_other",
    )
    assert same(table_path + "_other")
    other.delete("id % 2 = 0 and id > 10")
    other.delete("q = 1")
    assert same(table_path + "_other")
    found = rowlock.read(spark, table_path + "_other").where("id is not null and p is not null and size(l) = 1")
    assert rows(found) == delta_rows(spark, table_path + "_other")


# ---- assignment casts ------------------------------------------------------------------------


def test_assignments_are_cast_or_refused(spark, table, table_path):
    with unchanged(table_path):
        for set_ in ({"id": "date'2026-01-01'"}, {"total": "array(1)"}, {"inner": "named_struct('x', 1)"}, {"inner": "1"}):
            with pytest.raises((SchemaMismatch, AnalysisException)):
                table.update(set=set_)
        with pytest.raises(Exception, match=r"OVERFLOW|overflow"):
            table.update(set={"id": "3000000000L"})
        with pytest.raises(Exception, match=r"NUMERIC_VALUE_OUT_OF_RANGE|cannot be represented|OVERFLOW"):
            table.update(set={"total": "cast(123456789012.5 as decimal(20,2))"})
    table.update(set={"id": "true", "total": "'7'"})  # what can be cast is, as delta-spark does
    assert read(spark, table_path)[0][::2][:2] == (1, Decimal("7.00"))
    table.update(set={"id": "2L", "name": "5", "total": "2.345"})
    assert read(spark, table_path) == [(2, "5", Decimal("2.35"), (1, "m"), ("f",))]
    source = spark.createDataFrame([(2, datetime.datetime(2026, 1, 1))], "k bigint, at timestamp")
    table.alias("t").merge(source.alias("s"), "t.id = s.k").whenMatchedUpdate(set={"name": F.col("s.at").cast("date"), "id": "s.k + 1"}).execute()
    assert read(spark, table_path)[0][:2] == (3, "2026-01-01")


SWAPPED, WIDER = "named_struct('b', 7, 'a', 8)", "named_struct('b', 7L, 'a', 8L)"
INSERTED = {
    "(id, s, l, m) SELECT 1, {0}, array({0}), map('k', {0})": ((7, 8), (8, 7), (8, 7)),
    "(l, id) SELECT array({0}, NULL), 1": (None, (8, 7), None),
    "(id, s) SELECT 1, {0}": ((7, 8), None, None),
    "SELECT 1, {0}, array({0}), map('k', {0})": ((7, 8), (7, 8), (7, 8)),
    "SELECT 1 AS id, {0} AS s, array({0}) AS l, map('k', {0}) AS m": ((8, 7), (8, 7), (8, 7)),
    "(id, l) SELECT 1L, array({0})": (None, (7, 8), None),
    "(id, l) SELECT 1, array({1})": (None, (7, 8), None),
    "(id, s, l) SELECT 1, {1}, array({0})": ((7, 8), (7, 8), None),
    "(Id, L) SELECT 1, array({0})": (None, (7, 8), None),
}
"""What an INSERT has after the table, and (s, l[0], m['k']) of its row, as delta-spark has them on Spark 4.2."""


def test_fields_of_structs_go_by_position_or_by_name_as_with_delta_spark(spark, table_path):
    spark.sql(
        f"CREATE TABLE delta.`{table_path}` (id INT, s STRUCT<a: INT, b: INT>, l ARRAY<STRUCT<a: INT, b: INT>>, m MAP<STRING, STRUCT<a: INT, b: INT>>) USING delta"
    )
    for text, expected in INSERTED.items():
        rowlock.sql(spark, f"INSERT OVERWRITE delta.`{table_path}` " + text.format(SWAPPED, WIDER))
        row = rowlock.read(spark, table_path).selectExpr("id", "s", "l[0]", "m['k']").first()
        assert tuple(row) == (1, *expected), text


@pytest.mark.parametrize(("widens", "said"), [("false", "DELTA_FAILED_TO_MERGE_FIELDS"), ("true", "DELTA_METADATA_MISMATCH")])
def test_an_error_says_whether_mergeschema_would_take_a_wider_type(spark, table_path, widens, said):
    """Programs that write again with mergeSchema ask for Delta's condition, also of a field of a struct."""
    rowlock.append(table_path, pa.table({"s": [{"a": 1}]}, pa.schema([("s", pa.struct([("a", pa.int32())]))])), properties={"delta.enableTypeWidening": widens})
    with pytest.raises(SchemaMismatch, match="int in the table and bigint in the rows") as e:
        rowlock.write(frame(spark, "named_struct('a', 5L) as s"), table_path)
    assert e.value.getCondition() == said and version(table_path) == 0
