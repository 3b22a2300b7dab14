"""`rowlock.to_arrow` of what depends on a zone, on field ids, on bounds inside of types, and of variants.  I9."""

from __future__ import annotations

import datetime as dt
import decimal
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rowlock
from rowlock.exceptions import InvalidInput, UnsupportedFeature, WrongType
from rowlock.protocol.actions import AddFile, CommitInfo, Protocol
from rowlock.protocol.commits import serialize_commit
from rowlock.protocol.schema import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType
from support.appends import create

STRING, LONG, VARIANT = PrimitiveType("string"), PrimitiveType("long"), PrimitiveType("variant")


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "table")


def table_of_others(
    path: str, fields: list[StructField], rows: pa.Table, *, partitions: dict[str, str] | None = None, mapping: str = "none", features: tuple[str, ...] = ()
) -> None:
    """A table with one file, `rows`, as another writer may have left it."""
    state = create(path, StructField("id", LONG))
    before = state.refresh()
    made = replace(
        before.metadata,
        schema_string=orjson.dumps({"type": "struct", "fields": [_json(f) for f in fields]}).decode(),
        partition_columns=tuple(partitions or ()),
        configuration={"delta.columnMapping.mode": mapping},
    )
    pq.write_table(rows, f"{path}/f.parquet", store_schema=False)
    listed = frozenset({*features, *(("columnMapping",) if mapping != "none" else ())})
    add = AddFile("f.parquet", partitions or {}, Path(path, "f.parquet").stat().st_size, 1, True, None)
    info = CommitInfo({"timestamp": 1, "operation": "WRITE"})
    state.log.put(1, serialize_commit(info, metadata=made, protocol=Protocol(3, 7, listed, listed), adds=[add]))


def _json(f: StructField) -> dict[str, Any]:
    return {"name": f.name, "type": _type(f.type), "nullable": True, "metadata": dict(f.metadata)}


def _type(t: DataType) -> Any:
    if isinstance(t, StructType):
        return {"type": "struct", "fields": [_json(f) for f in t.fields]}
    if isinstance(t, ArrayType):
        return {"type": "array", "elementType": _type(t.element), "containsNull": True}
    if isinstance(t, MapType):
        return {"type": "map", "keyType": _type(t.key), "valueType": _type(t.value), "valueContainsNull": True}
    return t.name


# ---- zones -----------------------------------------------------------------------------------

ZONES = [
    ("2020-07-01 08:00:00", "Europe/Vienna", dt.datetime(2020, 7, 1, 6)),
    ("2020-01-01 08:00:00", "Europe/Vienna", dt.datetime(2020, 1, 1, 7)),
    ("2020-03-29 02:30:00", "Europe/Vienna", dt.datetime(2020, 3, 29, 1, 30)),  # a gap: later by the gap
    ("2020-10-25 02:30:00", "Europe/Vienna", dt.datetime(2020, 10, 25, 0, 30)),  # twice: the first
    ("2020-07-01T08:00:00Z", "Europe/Vienna", dt.datetime(2020, 7, 1, 8)),
    ("0001-01-01 00:00:00", "UTC", dt.datetime(1, 1, 1)),
]


@pytest.mark.parametrize(("text", "zone", "expected"), ZONES)
def test_a_zone_for_partition_values(path: str, text: str, zone: str, expected: dt.datetime) -> None:
    """As a Spark session in that zone reads them."""
    table_of_others(path, [StructField("n", LONG), StructField("p", PrimitiveType("timestamp"))], pa.table({"n": [1]}), partitions={"p": text})
    assert rowlock.to_arrow(path, time_zone=zone)["p"].to_pylist() == [expected.replace(tzinfo=dt.UTC)]


@pytest.mark.parametrize("zone", ["Europe/Vienna", "UTC"])
def test_years_that_python_does_not_have(path: str, zone: str) -> None:
    table_of_others(
        path, [StructField("n", LONG), StructField("p", PrimitiveType("timestamp"))], pa.table({"n": [1]}), partitions={"p": "+12020-07-01 08:00:00"}
    )
    micros = rowlock.to_arrow(path, time_zone=zone)["p"].cast(pa.int64()).to_pylist()[0]
    days = 146_097 * 25  # ten thousand years later
    at = dt.datetime(2020, 7, 1, 6 if zone != "UTC" else 8, tzinfo=dt.UTC)
    assert micros == int(at.timestamp()) * 1_000_000 + days * 86_400_000_000


def test_zones_that_are_none(path: str) -> None:
    rowlock.append(path, pa.table({"n": [1]}))
    for wrong, error in (("Middle/Earth", InvalidInput), ("../UTC", InvalidInput), ("", InvalidInput), (1, WrongType)):
        with pytest.raises(error, match="time_zone"):
            rowlock.to_arrow(path, time_zone=wrong)  # type: ignore[arg-type]


# ---- field ids -------------------------------------------------------------------------------


def mapped(name: str, number: int, type_: DataType = LONG) -> StructField:
    return StructField(name, type_, True, {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"})


def with_id(name: str, type_: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, type_, metadata={"PARQUET:field_id": str(number)})


def test_columns_are_found_by_field_id(path: str) -> None:
    """Of a table that maps by id the names in files say nothing: here two are swapped, at the top and in a struct, and a third is new."""
    inner = pa.struct([with_id("col-6", pa.int64(), 5), with_id("col-5", pa.int64(), 6)])
    schema = pa.schema([with_id("col-2", pa.int64(), 1), with_id("col-1", pa.int64(), 2), with_id("s", inner, 4)])
    file = pa.table([pa.array([1, 2]), pa.array([10, 20]), pa.array([{"col-6": 5, "col-5": 6}, None], inner)], schema=schema)
    fields = [mapped("a", 1), mapped("b", 2), mapped("c", 3), mapped("s", 4, StructType((mapped("x", 5), mapped("y", 6), mapped("z", 7))))]
    table_of_others(path, fields, file, mapping="id")
    found = rowlock.to_arrow(path)
    assert found.to_pydict() == {"a": [1, 2], "b": [10, 20], "c": [None, None], "s": [{"x": 5, "y": 6, "z": None}, None]}


def test_a_file_without_field_ids_is_refused(path: str) -> None:
    """As Spark refuses it."""
    table_of_others(path, [mapped("a", 1)], pa.table({"col-1": [1]}), mapping="id")
    with pytest.raises(UnsupportedFeature, match=r"f.parquet.*no field ids"):
        rowlock.to_arrow(path)


# ---- char inside of other types --------------------------------------------------------------


def test_char_values_inside_of_other_types_have_their_spaces(path: str) -> None:
    key = "__CHAR_VARCHAR_TYPE_STRING"
    inner = StructType((StructField("x", STRING), StructField("y", STRING), StructField("z", LONG)))
    fields = [
        StructField("a", ArrayType(STRING, True), True, {key: "array<char(3)>"}),
        StructField("s", inner, True, {key: "struct<x:char(4),y:varchar(5),z:bigint>"}),
        StructField("m", MapType(STRING, ArrayType(STRING, True), True), True, {key: "map<char(2),array<char(3)>>"}),
    ]
    texts = pa.list_(pa.string())
    rows = pa.table(
        {
            "a": pa.array([["a", None], None], texts),
            "s": pa.array([{"x": "q", "y": "r", "z": 1}, None], pa.struct([("x", pa.string()), ("y", pa.string()), ("z", pa.int64())])),
            "m": pa.array([[("k", ["v"])], None], pa.map_(pa.string(), texts)),
        }
    )
    table_of_others(path, fields, rows)
    assert rowlock.to_arrow(path).to_pydict() == {
        "a": [["a  ", None], None],
        "s": [{"x": "q   ", "y": "r", "z": 1}, None],
        "m": [[("k ", ["v  "])], None],
    }


@pytest.mark.parametrize("said", ["array<array<char(3)>>", "array<char(3)", "array<char(3)>>", "map<char(3),int>"])
def test_bounds_that_do_not_describe_the_column_are_refused(path: str, said: str) -> None:
    field = StructField("a", ArrayType(STRING, True), True, {"__CHAR_VARCHAR_TYPE_STRING": said})
    table_of_others(path, [StructField("n", LONG), field], pa.table({"n": [1], "a": pa.array([["a"]], pa.list_(pa.string()))}))
    assert rowlock.to_arrow(path, columns=["n"]).num_rows == 1
    with pytest.raises(UnsupportedFeature, match="column a holds char values"):
        rowlock.to_arrow(path)


# ---- variants --------------------------------------------------------------------------------

KEYS_AB = b"\x01\x02\x00\x01\x02ab"
"""A dictionary of the keys a and b."""
NO_KEYS = b"\x01\x00\x00"
ONE, TEXT = b"\x0c\x01", b"\x05x"
"""The whole number 1 and the text x."""


def variants_of(path: str, column: pa.Array) -> list[Any]:
    table_of_others(path, [StructField("v", VARIANT)], pa.table({"v": column}), features=("variantType", "variantShredding"))
    return list(rowlock.to_arrow(path)["v"].to_pylist())


def test_variants_are_two_binaries(path: str) -> None:
    given = [{"metadata": KEYS_AB, "value": b"\x02\x01\x00\x00\x02\x0c\x01"}, None]
    assert variants_of(path, pa.array(given, pa.struct([("metadata", pa.binary()), ("value", pa.binary())]))) == [given[0], None]
    assert rowlock.to_arrow(path).schema.field("v").type.field("metadata").metadata == {b"variant": b"true"}


def test_variants_inside_of_other_types(path: str) -> None:
    one = {"value": ONE, "metadata": NO_KEYS}
    pair = pa.struct([("value", pa.binary()), ("metadata", pa.binary())])
    fields = [
        StructField("a", ArrayType(VARIANT, True)),
        StructField("s", StructType((StructField("v", VARIANT), StructField("n", LONG)))),
        StructField("m", MapType(STRING, VARIANT, True)),
    ]
    rows = pa.table(
        {
            "a": pa.array([[one, None], None], pa.list_(pair)),
            "s": pa.array([{"v": one, "n": 1}, None], pa.struct([("v", pair), ("n", pa.int64())])),
            "m": pa.array([[("k", one)], None], pa.map_(pa.string(), pair)),
        }
    )
    table_of_others(path, fields, rows, features=("variantType",))
    assert rowlock.to_arrow(path).to_pydict() == {"a": [[one, None], None], "s": [{"v": one, "n": 1}, None], "m": [[("k", one)], None]}


SCALARS: list[tuple[pa.DataType, Any, bytes]] = [
    (pa.int64(), 1, ONE),
    (pa.int64(), 300, b"\x10\x2c\x01"),
    (pa.int32(), -70_000, b"\x14" + (-70_000).to_bytes(4, "little", signed=True)),
    (pa.string(), "x", TEXT),
    (pa.string(), "y" * 70, b"\x40\x46\x00\x00\x00" + b"y" * 70),
    (pa.binary(), b"z", b"\x3c\x01\x00\x00\x00z"),
    (pa.bool_(), True, b"\x04"),
    (pa.bool_(), False, b"\x08"),
    (pa.float64(), 0.5, b"\x1c\x00\x00\x00\x00\x00\x00\xe0\x3f"),
    (pa.float32(), 0.5, b"\x38\x00\x00\x00\x3f"),
    (pa.decimal128(12, 2), decimal.Decimal("1.25"), b"\x20\x02\x7d\x00\x00\x00"),
    (pa.date32(), dt.date(1970, 1, 2), b"\x2c\x01\x00\x00\x00"),
    (pa.timestamp("us", "UTC"), dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC), b"\x30\x40\x42\x0f\x00\x00\x00\x00\x00"),
    (pa.timestamp("us"), dt.datetime(1970, 1, 1, 0, 0, 1), b"\x34\x40\x42\x0f\x00\x00\x00\x00\x00"),
]


def shredded(typed: pa.DataType) -> pa.DataType:
    return pa.struct([pa.field("metadata", pa.binary()), pa.field("value", pa.binary()), pa.field("typed_value", typed)])


@pytest.mark.parametrize(("type_", "value", "expected"), SCALARS, ids=lambda v: str(v) if isinstance(v, pa.DataType) else "")
def test_shredded_scalars(path: str, type_: pa.DataType, value: Any, expected: bytes) -> None:
    """A row in its column, one that did not fit and is a value as before, null as variant's null, and null."""
    rows: list[dict[str, Any] | None] = [{"typed_value": value}, {"value": TEXT}, {"value": b"\x00"}, None]
    given = pa.array([None if row is None else {"metadata": NO_KEYS, **row} for row in rows], shredded(type_))
    assert [v and v["value"] for v in variants_of(path, given)] == [expected, TEXT, b"\x00", None]


def test_shredded_objects_and_arrays(path: str) -> None:
    """Fields in columns and the rest of the object are one object again, under a dictionary of the keys that it has."""
    part = pa.struct([("value", pa.binary()), ("typed_value", pa.int64())])
    type_ = shredded(pa.struct([pa.field("b", part)]))
    rest = b"\x02\x01\x00\x00\x02\x05x"  # {"a": "x"}
    rows: list[dict[str, Any]] = [
        {"typed_value": {"b": {"typed_value": 1}}, "value": rest},
        {"typed_value": {"b": {"value": TEXT}}},
        {"typed_value": {"b": {}}},
        {"value": TEXT},
    ]
    found = variants_of(path, pa.array([{"metadata": KEYS_AB, **row} for row in rows], type_))
    assert found[0] == {"metadata": b"\x01\x02\x00\x01\x02ba", "value": b"\x02\x02\x01\x00\x02\x00\x04\x0c\x01\x05x"}
    assert found[1] == {"metadata": b"\x01\x01\x00\x01b", "value": b"\x02\x01\x00\x00\x02\x05x"}
    assert found[2:] == [{"metadata": NO_KEYS, "value": b"\x02\x00\x00"}, {"metadata": NO_KEYS, "value": TEXT}]


def test_shredded_arrays(path: str) -> None:
    part = pa.struct([("value", pa.binary()), ("typed_value", pa.int64())])
    given = pa.array([{"metadata": NO_KEYS, "typed_value": [{"typed_value": 1}, {"value": TEXT}]}], shredded(pa.list_(part)))
    assert variants_of(path, given) == [{"metadata": NO_KEYS, "value": b"\x03\x02\x00\x02\x04\x0c\x01\x05x"}]


NESTED = b"\x03\x01\x00\x02"
MALFORMED = {
    "no value": {"metadata": NO_KEYS},
    "another version": {"metadata": b"\x02\x00\x00", "value": TEXT},
    "text that ends early": {"metadata": NO_KEYS, "value": b"\xfdx"},
    "a key that is not there": {"metadata": NO_KEYS, "value": b"\x02\x01\x07\x00\x02\x0c\x01"},
    "an unknown kind": {"metadata": NO_KEYS, "value": b"\xfc"},
    "no bytes": {"metadata": b"", "value": TEXT},
    "an object that goes on for ever": {"metadata": KEYS_AB, "value": b"\x03\xff" + b"\x00" * 256 + b"\x01"},
    "arrays in arrays": {"metadata": NO_KEYS, "value": b"\x03\x01\x00\x00" * 5_000},
}


@pytest.mark.parametrize("what", list(MALFORMED))
def test_what_is_no_variant_is_named(path: str, what: str) -> None:
    """Also where a forged value would make a very large one out of a small file."""
    with pytest.raises(UnsupportedFeature, match=r"f\.parquet.*shredded variant") as e:
        variants_of(path, pa.array([MALFORMED[what]], shredded(pa.int64())))
    assert e.value.feature == "a malformed variant"


def test_a_small_file_makes_no_large_value(path: str) -> None:
    """Arrays whose elements are all the same array, eight deep: 255 to the power of 8 elements."""
    value = ONE
    for _ in range(8):
        value = b"\x07\xff" + b"\x00\x00" * 256 + value
    with pytest.raises(UnsupportedFeature, match="parts of a value overlap"):
        variants_of(path, pa.array([{"metadata": NO_KEYS, "value": value}], shredded(pa.int64())))
