"""Rows fit the table or are refused before anything is written: the rules of Spark's frames, for Arrow's types (I9)."""

from __future__ import annotations

import datetime as dt
import functools
import itertools
import json
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql.types import StructType as SparkStruct

import rowlock
from rowlock.engines.appends.source import Fitting
from rowlock.engines.spark.catalyst.bridge import to_arrow
from rowlock.engines.spark.statements.append import conform
from rowlock.exceptions import ConstraintViolated, SchemaMismatch, WrongType
from rowlock.protocol import schema_fit
from rowlock.protocol.arrow_types import to_arrow_type
from rowlock.protocol.schema import ArrayType, DecimalType, MapType, PrimitiveType, StructField, StructType, schema_json, type_name
from rowlock.transaction.definition.identity import Numbers
from support.appends import create, data_files, rows
from support.turning_down import turn_down

P = PrimitiveType
SAMPLES: dict[Any, Any] = {
    P("byte"): 7,
    P("short"): 300,
    P("integer"): 70_000,
    P("long"): 2**40,
    P("float"): 1.5,
    P("double"): 0.1,
    P("boolean"): True,
    P("string"): "x",
    P("binary"): b"y",
    P("date"): dt.date(2026, 1, 2),
    P("timestamp"): dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC),
    P("timestamp_ntz"): dt.datetime(2026, 1, 2, 3),
    P("void"): None,
    **{DecimalType(p, s): Decimal(7).scaleb(-s) for p, s in ((3, 0), (5, 0), (5, 2), (10, 0), (10, 2), (12, 2), (20, 0), (22, 2), (38, 18))},
    ArrayType(P("integer")): [1, None],
    ArrayType(P("long"), contains_null=False): [2**40],
    ArrayType(StructType((StructField("a", P("integer")),))): [{"a": 1}],
    MapType(P("string"), P("integer")): [("k", 1)],
    MapType(P("string"), P("long")): [("k", 2**40)],
    StructType((StructField("a", P("integer")),)): {"a": 1},
    StructType((StructField("A", P("byte")),)): {"A": 7},
}
"""A value of each type that the two engines are asked about."""
TYPES = {type_name(t): t for t in SAMPLES}
WIDENED = """
short: byte
integer: byte short
long: byte short integer
float: byte short
double: byte short integer float
timestamp_ntz: date
decimal(3,0): byte
decimal(5,0): byte short decimal(3,0)
decimal(5,2): byte decimal(3,0)
decimal(10,0): byte short integer decimal(3,0) decimal(5,0)
decimal(10,2): byte short decimal(3,0) decimal(5,0) decimal(5,2)
decimal(12,2): byte short integer decimal(3,0) decimal(5,0) decimal(5,2) decimal(10,0) decimal(10,2)
decimal(20,0): byte short integer long decimal(3,0) decimal(5,0) decimal(10,0)
decimal(22,2): byte short integer long decimal(3,0) decimal(5,0) decimal(5,2) decimal(10,0) decimal(10,2) decimal(12,2) decimal(20,0)
decimal(38,18): byte short integer long decimal(3,0) decimal(5,0) decimal(5,2) decimal(10,0) decimal(10,2) decimal(12,2) decimal(20,0) decimal(22,2)
array<long>: array<integer>
map<string,long>: map<string,integer>
struct<a:integer>: struct<A:byte>
"""
"""Column type: the other types whose rows are cast to it.  Nulls without a type fit every column; every pair that is not here is refused."""


def verdicts() -> dict[tuple[str, str], str]:
    """(the column's type, the rows' type) -> same, widened or refused, for every pair."""
    widened = {wanted: set(given.split()) for wanted, given in (line.split(": ") for line in WIDENED.strip().splitlines())}

    def one(wanted: str, given: str) -> str:
        return "same" if given == wanted else "widened" if given == "void" or given in widened.get(wanted, ()) else "refused"

    return {(wanted, given): one(wanted, given) for wanted, given in itertools.product(TYPES, TYPES)}


def columns(type_: Any) -> StructType:
    return StructType((StructField("c", type_),))


def verdict(call: Any) -> str:
    try:
        call()
    except SchemaMismatch as e:
        assert "in the table and" in str(e)
        assert "in the rows" in str(e)
        return "refused"
    return "fits"


FITS = {pair: "refused" if said == "refused" else "fits" for pair, said in verdicts().items()}
CAST = [(wanted, given) for (wanted, given), said in verdicts().items() if said != "refused" and wanted != "void"]
"""Pairs whose rows are stored.  No table with a void column is written."""


def as_cast(wanted: str, given: str) -> Any:
    """The sample of `given` as a column of the type `wanted` holds it."""
    value = SAMPLES[TYPES[given]]
    if value is None:
        return None
    if wanted.startswith("decimal"):
        return Decimal(value)
    if (wanted, given) == ("timestamp_ntz", "date"):
        return dt.datetime.combine(value, dt.time())
    return {"a": value["A"]} if (wanted, given) == ("struct<a:integer>", "struct<A:byte>") else float(value) if wanted in ("float", "double") else value


def no_numbers(identities: Any) -> Numbers:
    """There are no identity columns here."""
    assert not identities
    return Numbers(None, ())  # type: ignore[arg-type]


def test_the_rule_says_what_the_table_of_pairs_says() -> None:
    found = {(w, g): verdict(lambda w=w, g=g: schema_fit.fit(columns(TYPES[g]), columns(TYPES[w]), "t")) for w, g in FITS}
    assert {pair: said for pair, said in found.items() if said != FITS[pair]} == {}
    assert {schema_fit.same_shape(TYPES[w], TYPES[g]) == (said == "same") for (w, g), said in verdicts().items()} == {True}
    assert 60 < len(CAST) < len(FITS) // 4


def test_arrow_fits_and_casts_by_the_table_of_pairs() -> None:
    given = {name: pa.table([pa.array([SAMPLES[t]], to_arrow_type(t))], names=["C"]) for name, t in TYPES.items()}
    found = {(w, g): verdict(lambda w=w, g=g: Fitting(given[g].schema, columns(TYPES[w]), "t", no_numbers)) for w, g in FITS}
    assert {pair: said for pair, said in found.items() if said != FITS[pair]} == {}
    cast = {(w, g): Fitting(given[g].schema, columns(TYPES[w]), "t", no_numbers)(given[g]).column("c") for w, g in CAST}
    assert {pair: c.to_pylist()[0] for pair, c in cast.items()} == {pair: as_cast(*pair) for pair in CAST}


@pytest.mark.spark
def test_spark_fits_and_casts_by_the_table_of_pairs(spark: Any) -> None:
    """All pairs that fit are cast in one frame; what is compared are the values as Arrow has them."""
    schema = spark_schema(*(StructField(name, t) for name, t in TYPES.items()))
    every = spark.createDataFrame([tuple(dict(v) if isinstance(TYPES[n], MapType) else v for n, v in zip(TYPES, SAMPLES.values(), strict=True))], schema)
    given = {name: every.select(every[f"`{name}`"].alias("C")) for name in TYPES}
    found = {(w, g): verdict(lambda w=w, g=g: conform(given[g], spark_schema(*columns(TYPES[w]).fields), "t")) for w, g in FITS}
    assert {pair: said for pair, said in found.items() if said != FITS[pair]} == {}
    wide = every.select(*(every[f"`{g}`"].alias(f"c{n}") for n, (_, g) in enumerate(CAST)))
    wanted = spark_schema(*(StructField(f"C{n}", TYPES[w]) for n, (w, _) in enumerate(CAST)))
    cast = to_arrow(conform(wide, wanted, "t"))
    assert {pair: cast.column(n).to_pylist()[0] for n, pair in enumerate(CAST)} == {pair: as_cast(*pair) for pair in CAST}


def spark_schema(*fields: StructField) -> SparkStruct:
    return SparkStruct.fromJson(json.loads(schema_json(StructType(fields))))


INNER = StructType((StructField("must", P("integer"), nullable=False), StructField("may", P("string"))))
COLUMNS = (
    StructField("Id", P("integer"), nullable=False),
    StructField("Name", P("string")),
    StructField("Total", DecimalType(10, 2)),
    StructField("inner", INNER),
    StructField("free", StructType((StructField("may", P("string")),))),
    StructField("at", P("timestamp")),
    StructField("list", ArrayType(P("long"))),
    StructField("wide", P("double")),
    StructField("day", P("date")),
    StructField("raw", P("binary")),
    StructField("pairs", ArrayType(StructType((StructField("a", P("long")), StructField("b", P("string")))))),
    StructField("named", MapType(P("string"), ArrayType(StructType((StructField("a", P("long")), StructField("b", P("string"))))))),
)
NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
ID = pa.array([2], pa.int32())
PAIRS = pa.list_(pa.struct([("B", pa.string()), ("a", pa.int32())]))
"""Fields in another order, of other case and type."""
MUST = pa.array([{"must": 1, "may": "m"}], pa.struct([("must", pa.int32()), ("may", pa.string())]))


def one(**columns: Any) -> pa.Table:
    return pa.table({name: value if isinstance(value, pa.Array) else pa.array([value]) for name, value in columns.items()})


ACCEPTED: dict[str, tuple[pa.Table, dict[str, Any]]] = {
    "other case and order": (one(INNER=MUST, NAME="two", ID=ID), {"Name": "two"}),
    "absent nullable columns": (one(id=ID, inner=MUST), {"Name": None, "free": None, "list": None}),
    "a narrower whole number": (one(id=pa.array([2], pa.int8()), total=pa.array([7], pa.int16()), inner=MUST), {"Total": Decimal("7.00")}),
    "whole numbers without a sign": (one(id=pa.array([2], pa.uint16()), wide=pa.array([200], pa.uint8()), inner=MUST), {"wide": 200.0}),
    "a whole number for a double": (one(id=ID, wide=pa.array([2**31 - 1], pa.int32()), inner=MUST), {"wide": 2147483647.0}),
    "a shorter float": (one(id=ID, wide=pa.array([1.5], pa.float32()), inner=MUST), {"wide": 1.5}),
    "half a float": (one(id=ID, wide=pa.array(np.array([1.5], np.float16())), inner=MUST), {"wide": 1.5}),
    "a narrower decimal": (one(id=ID, total=pa.array([Decimal("1.5")], pa.decimal128(5, 1)), inner=MUST), {"Total": Decimal("1.50")}),
    "a decimal of 256 bits": (one(id=ID, total=pa.array([Decimal("1.5")], pa.decimal256(5, 1)), inner=MUST), {"Total": Decimal("1.50")}),
    "a null without a type": (one(id=ID, name=pa.nulls(1), free=pa.nulls(1), list=pa.nulls(1), inner=MUST), {"Name": None, "list": None}),
    "fields in another order and case": (one(id=ID, inner=pa.array([{"MAY": "x", "must": 5}])).set_column(1, "inner", pa.array([{"MAY": "x", "must": 5}], pa.struct([("MAY", pa.large_string()), ("must", pa.int16())]))), {"inner": {"must": 5, "may": "x"}}),
    "an absent nullable field": (one(id=ID, inner=pa.array([{"MUST": 5}], pa.struct([("MUST", pa.int32())]))), {"inner": {"must": 5, "may": None}}),
    "structs in lists": (one(id=ID, pairs=pa.array([[{"a": 0}], [{"B": "x", "a": 1}, None]], PAIRS)[1:], inner=MUST), {"pairs": [{"a": 1, "b": "x"}, None]}),
    "structs in lists that lack fields": (one(id=ID, pairs=pa.array([[{"b": "x"}]]), inner=MUST), {"pairs": [{"a": None, "b": "x"}]}),
    "structs in maps": (one(id=ID, named=pa.array([[("k", [{"a": 1}])]], pa.map_(pa.string(), PAIRS)), inner=MUST), {"named": [("k", [{"a": 1, "b": None}])]}),
    "structs in large lists": (one(id=ID, pairs=pa.array([[{"a": 1}]]).cast(pa.large_list(pa.struct([("a", pa.int64())]))), inner=MUST), {"pairs": [{"a": 1, "b": None}]}),
    "long text": (one(id=ID, name=pa.array(["x"], pa.large_string()), inner=MUST), {"Name": "x"}),
    "views of text": (one(id=ID, name=pa.array(["x"], pa.string_view()), raw=pa.array([b"y"], pa.binary_view()), inner=MUST), {"Name": "x", "raw": b"y"}),
    "text in a dictionary": (one(id=ID, name=pa.array(["x"]).dictionary_encode(), inner=MUST), {"Name": "x"}),
    "bytes of a fixed size": (one(id=ID, raw=pa.array([b"ab"], pa.binary(2)), inner=MUST), {"raw": b"ab"}),
    "large lists of narrower numbers": (one(id=ID, list=pa.array([[1, None]], pa.large_list(pa.int16())), inner=MUST), {"list": [1, None]}),
    "lists of a fixed size": (one(id=ID, list=pa.array([[1, 2]], pa.list_(pa.int64(), 2)), inner=MUST), {"list": [1, 2]}),
    "a moment in another zone": (one(id=ID, at=pa.array([NOON], pa.timestamp("us", "Asia/Tokyo")), inner=MUST), {"at": NOON}),
    "a moment in seconds": (one(id=ID, at=pa.array([NOON], pa.timestamp("s", "UTC")), inner=MUST), {"at": NOON}),
    "a moment in whole microseconds": (one(id=ID, at=pa.array([NOON], pa.timestamp("ns", "UTC")), inner=MUST), {"at": NOON}),
    "a day in milliseconds": (one(id=ID, day=pa.array([dt.date(2026, 1, 2)], pa.date64()), inner=MUST), {"day": dt.date(2026, 1, 2)}),
}  # fmt: skip

REFUSED: dict[str, tuple[pa.Table, type[Exception], str]] = {
    "an absent NOT NULL column": (one(name="two", inner=MUST), SchemaMismatch, "Id is NOT NULL"),
    "an unknown column": (one(id=ID, surprise=1, inner=MUST), SchemaMismatch, "surprise.*merge_schema"),
    "an unknown field": (one(id=ID, inner=pa.array([{"must": 1, "surprise": 1}])), SchemaMismatch, "surprise"),
    "an unknown field in a list": (one(id=ID, pairs=pa.array([[{"a": 1, "surprise": 1}]]), inner=MUST), SchemaMismatch, "pairs.element.*surprise"),
    "text for a number in a list": (one(id=ID, pairs=pa.array([[{"a": "1"}]]), inner=MUST), SchemaMismatch, "pairs.element.a is bigint .* string"),
    "an absent NOT NULL field": (one(id=ID, inner=pa.array([{"may": "x"}])), SchemaMismatch, "inner.must is NOT NULL"),
    "an absent struct with a NOT NULL field": (one(id=ID), SchemaMismatch, "inner.must is NOT NULL"),
    "text for a number": (one(id="2", inner=MUST), SchemaMismatch, "Id is int .* string"),
    "a wider number": (one(id=pa.array([2], pa.int64()), inner=MUST), SchemaMismatch, "Id is int .* bigint"),
    "a wider number without a sign": (one(id=pa.array([2], pa.uint32()), inner=MUST), SchemaMismatch, "Id is int .* bigint"),
    "a number that no column holds": (one(id=ID, wide=pa.array([2], pa.uint64()), inner=MUST), SchemaMismatch, "wide has the Arrow type uint64"),
    "a number for text": (one(id=ID, name=5, inner=MUST), SchemaMismatch, "Name is string .* bigint"),
    "a number of more digits": (one(id=ID, total=7, inner=MUST), SchemaMismatch, "Total is decimal.* bigint"),
    "a long number for a double": (one(id=ID, wide=7, inner=MUST), SchemaMismatch, "wide is double .* bigint"),
    "a wider decimal": (one(id=ID, total=pa.array([Decimal("1")], pa.decimal128(12, 3)), inner=MUST), SchemaMismatch, "Total"),
    "fields that differ by case": (one(id=ID, inner=pa.array([{"must": 1, "may": "x", "MAY": "y"}])), SchemaMismatch, "differ"),
    "a number for a struct": (one(id=ID, inner=5), SchemaMismatch, "inner is struct"),
    "a moment without a zone": (one(id=ID, at=pa.array([NOON.replace(tzinfo=None)]), inner=MUST), SchemaMismatch, "at is timestamp .* timestamp_ntz"),
    "a day for a moment": (one(id=ID, at=dt.date(2026, 1, 1), inner=MUST), SchemaMismatch, "at is timestamp .* date"),
    "a moment between microseconds": (one(id=ID, at=pa.array([1001], pa.timestamp("ns", "UTC")), inner=MUST), SchemaMismatch, "column at does not fit .* exactly"),
    "a span of time": (one(id=ID, name=pa.array([1], pa.duration("s")), inner=MUST), SchemaMismatch, "Name has the Arrow type duration|name has the Arrow type duration"),
    "names that differ by case": (pa.table([ID, ID], names=["id", "ID"]), SchemaMismatch, "differ"),
    "the same name twice": (pa.table([ID, ID], names=["id", "id"]), SchemaMismatch, "differ"),
    "a null in a NOT NULL column": (one(id=pa.nulls(1, pa.int32()), inner=MUST), ConstraintViolated, "Id is NOT NULL"),
    "a null struct with a NOT NULL field": (one(id=ID, inner=pa.nulls(1, MUST.type)), ConstraintViolated, "inner.must is NOT NULL"),
    "a null without a type for such a struct": (one(id=ID, inner=pa.nulls(1)), ConstraintViolated, "inner.must is NOT NULL"),
    "a null in a NOT NULL field": (one(id=ID, inner=pa.array([{"must": None, "may": "x"}], MUST.type)), ConstraintViolated, "inner.must is NOT NULL"),
}  # fmt: skip


@pytest.fixture(scope="module")
def kept_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table that no refused append changes."""
    path = str(tmp_path_factory.mktemp("kept") / "table")
    create(path, *COLUMNS)
    return path


@pytest.mark.parametrize("name", ACCEPTED)
def test_rows_that_fit_are_made_to_fit(tmp_path, name: str) -> None:
    path = str(tmp_path / "table")
    create(path, *COLUMNS)
    given, expected = ACCEPTED[name]
    rowlock.append(path, given)
    (row,) = rowlock.to_arrow(path).to_pylist()
    assert {"Id": 2, **{k: row[k] for k in expected}} == {"Id": row["Id"], **expected}


@pytest.mark.parametrize("name", REFUSED)
def test_rows_that_do_not_fit_are_refused(kept_path: str, name: str) -> None:
    given, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        rowlock.append(kept_path, given)
    with pytest.raises(error, match=message):
        rowlock.append(kept_path, pa.RecordBatchReader.from_batches(given.schema, given.to_batches()))
    assert rows(kept_path) == []
    assert data_files(kept_path) == set()


ARROW_ALONE = frozenset(
    (
        "whole numbers without a sign",
        "half a float",
        "a decimal of 256 bits",
        "views of text",
        "text in a dictionary",
        "bytes of a fixed size",
        "large lists of narrower numbers",
        "structs in large lists",
        "lists of a fixed size",
        "a day in milliseconds",
        "a moment in whole microseconds",
        "a wider number without a sign",
        "a number that no column holds",
        "a moment between microseconds",
        "a moment without a zone",
        "a span of time",
    )
)
"""Cases whose Arrow types no frame of Spark has, or whose values become others when a frame is made of them."""


@pytest.mark.spark
@pytest.mark.parametrize("name", sorted(ACCEPTED.keys() - ARROW_ALONE))
def test_spark_makes_the_same_rows_fit(spark: Any, tmp_path, name: str) -> None:
    path = str(tmp_path / "table")
    create(path, *COLUMNS)
    given, expected = ACCEPTED[name]
    rowlock.write(spark.createDataFrame(given), path)
    (row,) = rowlock.to_arrow(path).to_pylist()
    assert {k: row[k] for k in expected} == expected


@pytest.mark.spark
@pytest.mark.parametrize("name", sorted(REFUSED.keys() - ARROW_ALONE))
def test_spark_refuses_the_same_rows(spark: Any, kept_path: str, name: str) -> None:
    given, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        rowlock.write(spark.createDataFrame(given), kept_path)
    assert rows(kept_path) == []
    assert data_files(kept_path) == set()


def test_a_late_refusal_leaves_no_file(tmp_path, monkeypatch) -> None:
    """A stream whose second batch breaks NOT NULL: what the first one wrote is deleted again."""
    path = str(tmp_path / "table")
    create(path, StructField("id", P("long"), nullable=False), StructField("p", P("long")), partition_by=("p",))
    schema = pa.schema([("id", pa.int64()), ("p", pa.int64())])
    batches = [
        pa.record_batch({"id": pa.array([1, 2]), "p": pa.array([1, 2])}, schema),
        pa.record_batch({"id": pa.array([None], pa.int64()), "p": pa.array([1])}, schema),
    ]
    turn_down(monkeypatch, append_held_bytes=1)
    with pytest.raises(ConstraintViolated):
        rowlock.append(path, pa.RecordBatchReader.from_batches(schema, batches))
    assert data_files(path) == set()


@pytest.mark.usual_limits("it counts files")
def test_merge_schema_adds_but_does_not_change(tmp_path) -> None:
    path = str(tmp_path / "table")
    create(path, *COLUMNS)
    with pytest.raises(SchemaMismatch, match="Id is int"):
        rowlock.append(path, one(id=2, more=1, inner=MUST), merge_schema=True)
    with pytest.raises(SchemaMismatch, match="bad name"):
        rowlock.append(path, pa.table([ID, MUST, ID], names=["id", "inner", "bad name"]), merge_schema=True)
    rowlock.append(path, one(id=ID, more="x", inner=MUST), merge_schema=True)
    rowlock.append(path, one(id=ID, inner=MUST))
    assert rowlock.to_arrow(path, columns=["MORE"]).to_pydict() == {"more": ["x", None]}


def test_pandas_frames(tmp_path) -> None:
    path = str(tmp_path / "table")
    frame = pd.DataFrame(
        {"n": [1, 2], "kind": pd.Categorical(["a", "b"]), "at": pd.to_datetime([NOON, None], utc=True), "maybe": pd.array([True, None], "boolean")},
        index=[7, 8],
    )
    rowlock.append(path, frame)
    rowlock.append(path, frame.astype({"kind": object, "n": "Int32"}))
    assert rows(path) == sorted([(1, "a", NOON, True), (2, "b", None, None)] * 2, key=repr)
    with pytest.raises(SchemaMismatch, match="no form in Arrow"):
        rowlock.append(path, pd.DataFrame({"n": [1, "two"]}))


def test_polars_frames(tmp_path) -> None:
    path = str(tmp_path / "table")
    frame = pl.DataFrame({"n": [1, 2], "kind": pl.Series(["a", "b"], dtype=pl.Categorical), "list": [["x"], None], "day": [dt.date(2026, 1, 1), None]})
    rowlock.append(path, frame)
    rowlock.append(path, frame.with_columns(kind=pl.col("kind").cast(pl.String)))
    assert rows(path) == sorted([(1, "a", ["x"], dt.date(2026, 1, 1)), (2, "b", None, None)] * 2, key=repr)
    with pytest.raises(WrongType, match="LazyFrame"):
        rowlock.append(path, frame.lazy())


def test_what_no_new_table_may_have(tmp_path) -> None:
    path = str(tmp_path / "new")
    for bad, options, error, message in (
        (pa.table([ID, ID], names=["a", "A"]), {}, SchemaMismatch, "differ"),
        (pa.table([ID, ID], names=["a", "a"]), {}, SchemaMismatch, "differ"),
        (pa.table([ID], names=["a b"]), {}, SchemaMismatch, "a b"),
        (pa.table({"a": ID}), {"partition_by": "a"}, SchemaMismatch, "not a partition column"),
        (pa.table({"a": ID, "b": MUST}), {"partition_by": "b"}, SchemaMismatch, "partition"),
        (pa.table({"a": ID}), {"partition_by": "c"}, SchemaMismatch, "'c'"),
        (pa.table({"b": pa.nulls(1)}), {}, SchemaMismatch, "void"),
        (pa.table({}), {}, SchemaMismatch, "no columns"),
        ([{"a": 1}], {}, WrongType, "not list"),
    ):
        with pytest.raises(error, match=message):
            rowlock.append(path, bad, **options)
    assert data_files(path) == set()


@pytest.mark.parametrize(("nest", "most"), [(lambda type_: pa.struct([("f", type_)]), 80), (pa.list_, 40)], ids=["structs", "arrays"])
def test_columns_nested_deeper_than_readers_take_are_refused_before_anything_is_written(tmp_path, nest: Any, most: int) -> None:
    """I9: fifty arrays within each other were written, and then read by nobody."""
    type_ = functools.reduce(lambda inner, _: nest(inner), range(most), pa.int64())
    rowlock.append(str(tmp_path / "deep"), pa.table({"a": pa.nulls(1, type_)}))
    assert rowlock.to_arrow(str(tmp_path / "deep")).num_rows == 1
    with pytest.raises(SchemaMismatch, match="Column a is nested in more than 80 levels"):
        rowlock.append(str(tmp_path / "deeper"), pa.table({"a": pa.nulls(1, nest(type_))}))
    assert not (tmp_path / "deeper").exists()
