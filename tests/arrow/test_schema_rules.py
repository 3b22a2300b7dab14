"""Rows fit the table or are refused before anything is written: the rules of Spark's frames, for Arrow's types (I9)."""

from __future__ import annotations

import datetime as dt
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
from arrow.support import create, data_files, rows
from rowlock.engines.spark.statements import append as spark_rules
from rowlock.exceptions import ConstraintViolated, SchemaMismatch, UnsupportedFeature, WrongType
from rowlock.protocol import widening
from rowlock.protocol.schema import ArrayType, DecimalType, MapType, PrimitiveType, StructField, StructType, schema_json, type_name
from turning_down import turn_down

P = PrimitiveType
TYPES: list[Any] = [
    *map(P, ("byte", "short", "integer", "long", "float", "double", "boolean", "string", "binary", "date", "timestamp", "timestamp_ntz", "void")),
    *(DecimalType(p, s) for p, s in ((3, 0), (5, 0), (5, 2), (10, 0), (10, 2), (12, 2), (20, 0), (22, 2), (38, 18))),
    ArrayType(P("integer")),
    ArrayType(P("long"), contains_null=False),
    ArrayType(StructType((StructField("a", P("integer")),))),
    MapType(P("string"), P("integer")),
    MapType(P("string"), P("long")),
    StructType((StructField("a", P("integer")),)),
    StructType((StructField("A", P("integer")),)),
]


def test_the_rule_for_types_is_sparks_rule() -> None:
    """Every pair of types, in both rules; the table of them is the test."""
    pairs = list(itertools.product(TYPES, TYPES))
    spark = SparkStruct.fromJson(json.loads(schema_json(StructType(tuple(StructField(f"c{n}", t) for n, t in enumerate(TYPES))))))
    theirs = [(spark_rules.is_wider(x, y), spark_rules.same_shape(x, y)) for x, y in itertools.product([f.dataType for f in spark.fields], repeat=2)]
    ours = [(widening.is_wider(a, b), widening.same_shape(a, b)) for a, b in pairs]
    assert [(type_name(a), type_name(b), o, t) for (a, b), o, t in zip(pairs, ours, theirs, strict=True) if o != t] == []
    assert 40 < sum(o[0] for o in ours) < len(pairs) // 2


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
)
NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
ID = pa.array([2], pa.int32())
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
    "an absent NOT NULL field": (one(id=ID, inner=pa.array([{"may": "x"}])), SchemaMismatch, "inner.must is NOT NULL"),
    "an absent struct with a NOT NULL field": (one(id=ID), SchemaMismatch, "inner.must is NOT NULL"),
    "text for a number": (one(id="2", inner=MUST), SchemaMismatch, "Id is integer .* string"),
    "a wider number": (one(id=pa.array([2], pa.int64()), inner=MUST), SchemaMismatch, "Id is integer .* long"),
    "a wider number without a sign": (one(id=pa.array([2], pa.uint32()), inner=MUST), SchemaMismatch, "Id is integer .* long"),
    "a number that no column holds": (one(id=ID, wide=pa.array([2], pa.uint64()), inner=MUST), SchemaMismatch, "wide has the Arrow type uint64"),
    "a number for text": (one(id=ID, name=5, inner=MUST), SchemaMismatch, "Name is string .* long"),
    "a number of more digits": (one(id=ID, total=7, inner=MUST), SchemaMismatch, "Total is decimal.* long"),
    "a long number for a double": (one(id=ID, wide=7, inner=MUST), SchemaMismatch, "wide is double .* long"),
    "a wider decimal": (one(id=ID, total=pa.array([Decimal("1")], pa.decimal128(12, 3)), inner=MUST), SchemaMismatch, "Total"),
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
    with pytest.raises(SchemaMismatch, match="Id is integer"):
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
    naive = pa.table({"at": pa.array([NOON.replace(tzinfo=None)])})
    for bad, options, error, message in (
        (pa.table([ID, ID], names=["a", "A"]), {}, SchemaMismatch, "differ"),
        (pa.table([ID], names=["a b"]), {}, SchemaMismatch, "a b"),
        (pa.table({"a": ID}), {"partition_by": "a"}, SchemaMismatch, "not a partition column"),
        (pa.table({"a": ID, "b": MUST}), {"partition_by": "b"}, SchemaMismatch, "partition"),
        (pa.table({"a": ID}), {"partition_by": "c"}, SchemaMismatch, "'c'"),
        (pa.table({"a": ID, "b": pa.nulls(1)}), {}, UnsupportedFeature, "void"),
        (naive, {}, UnsupportedFeature, "without a zone.*tz_localize"),
        ([{"a": 1}], {}, WrongType, "not list"),
    ):
        with pytest.raises(error, match=message):
            rowlock.append(path, bad, **options)
    assert data_files(path) == set()
