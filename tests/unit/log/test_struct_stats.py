"""Checkpoints that hold statistics and partition values as structs, beside JSON or instead of it (I5, I9)."""

from __future__ import annotations

import datetime as dt
import io
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

import rowlock
from rowlock.log import struct_stats
from rowlock.log.table_log import TableLog
from rowlock.protocol import names
from rowlock.protocol.schema import DataType, DecimalType, PrimitiveType, StructField
from rowlock.storage.local import LocalStore

ROWS = pa.table(
    {
        "p": pa.array([1, 1], pa.int32()),
        "day": pa.array([dt.date(2024, 2, 29)] * 2),
        "n": pa.array([-5, 7], pa.int64()),
        "f": pa.array([0.5, 1.25], pa.float32()),
        "money": pa.array([Decimal("-1.25"), Decimal("99.99")], pa.decimal128(10, 2)),
        "wide": pa.array([Decimal("12345678901234567890.12"), None], pa.decimal128(30, 2)),
        "text": ['a\u2028"b', "\U0001f600" * 40],
        "t": pa.array([dt.datetime(1900, 1, 1, tzinfo=dt.UTC), dt.datetime(2024, 1, 1, 1, 2, 3, 456_789, dt.UTC)], pa.timestamp("us", "UTC")),
        "local": pa.array([dt.datetime(2, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)], pa.timestamp("us")),
        "d": pa.array([dt.date(1, 1, 3), dt.date(9999, 12, 29)]),
        "yes": [True, None],
        "raw": [b"\xff", b""],
        "list": [[1], None],
        "void": pa.nulls(2),
        "st": pa.array([{"a": 1, "b.c": {"x": "y"}}, None], pa.struct([("a", pa.int32()), ("b.c", pa.struct([("x", pa.string())]))])),
    }
)


def checkpoint(path: Path, policy: str) -> pa.Table:
    """The rows of the newest checkpoint that hold live files."""
    folder = path / "_delta_log"
    (file,) = (folder / "_sidecars").glob("*.parquet") if policy == "v2" else folder.glob("*.checkpoint.parquet")
    return pq.read_table(file, columns=["add"]).column("add").combine_chunks().drop_null()


@pytest.mark.parametrize("policy", ["classic", "v2"])
@pytest.mark.parametrize("as_json", ["true", "false"])
@pytest.mark.parametrize("mapping", ["none", "name"])
def test_what_is_written_is_read_again(tmp_path: Path, policy: str, as_json: str, mapping: str) -> None:
    properties = {
        "delta.checkpointPolicy": policy,
        "delta.checkpoint.writeStatsAsStruct": "true",
        "delta.checkpoint.writeStatsAsJson": as_json,
        "delta.checkpointInterval": "2",
        "delta.columnMapping.mode": mapping,
        **({"delta.dataSkippingNumIndexedCols": "-1"} if mapping == "none" else {"delta.dataSkippingStatsColumns": "st.`b.c`.x,n,t"}),
    }
    path = str(tmp_path / "t")
    rowlock.append(path, ROWS, partition_by=["p", "day"], properties=properties)
    rowlock.append(path, ROWS.slice(0, 1))
    before = {a.path: json.loads(a.stats or "", parse_float=Decimal) for a in TableLog(LocalStore(path)).latest().files.adds()}
    rowlock.append(path, ROWS.slice(1))
    adds = checkpoint(Path(path), policy)
    assert (adds.type.get_field_index("stats") < 0) is (as_json == "false"), "delta-spark takes structs only where there is no JSON"
    assert adds.field("stats_parsed").null_count == 0
    log = TableLog(LocalStore(path))
    schema = log.latest().schema
    p, day = (str(schema.find(name).physical_name) for name in ("p", "day"))  # type: ignore[union-attr]
    assert adds.field("partitionValues_parsed").to_pylist() == [{p: 1, day: dt.date(2024, 2, 29)}] * len(adds)
    for n in range(2):
        LocalStore(path).delete(names.commit_key(n))
    after = {a.path: json.loads(a.stats or "", parse_float=Decimal) for a in TableLog(LocalStore(path)).latest().files.adds()}
    for file, stats in before.items():
        assert normal(after[file]) == normal(stats)
    assert rowlock.to_arrow(path).num_rows == 4


def normal(stats: dict[str, Any]) -> dict[str, Any]:
    """Statistics whose times have one form, without empty parts."""

    def of(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: inner for k, v in value.items() if (inner := of(v)) not in ({}, None)}
        if isinstance(value, str) and "T" in value and value[:1].isdigit():
            return dt.datetime.fromisoformat(value)
        return value

    return of(stats)  # type: ignore[no-any-return]


def as_json(value: Any) -> Any:
    """A value of a struct as the statistics' JSON has it, value by value: nulls and binary left out, decimals in full, times as ISO text in microseconds."""
    if isinstance(value, dict):
        return {k: inner for k, v in value.items() if (inner := as_json(v)) is not None}
    if isinstance(value, Decimal):
        return None if abs(value) in ((1 << 63) - 1, 1 << 63) else value
    if isinstance(value, dt.datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, dt.date):
        return value.isoformat()
    return None if isinstance(value, bytes) or (isinstance(value, float) and not math.isfinite(value)) else value


BOUNDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.int8(), st.integers(-128, 127)),
    (pa.bool_(), st.booleans()),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (pa.string(), st.text(st.characters(exclude_categories=["Cs"]))),
    (pa.binary(), st.binary()),
    (pa.date32(), st.dates(dt.date(1, 1, 2), dt.date(9999, 12, 29))),
    (pa.timestamp("us"), st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 29))),
    (pa.timestamp("us", "UTC"), st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 29), timezones=st.just(dt.UTC))),
    (pa.decimal128(38, 18), st.decimals(-(10**19), 10**19, places=18)),
    (pa.decimal128(38, 0), st.decimals(-(10**37), 10**37, places=0) | st.sampled_from([Decimal(s * (2**63 - n)) for s in (1, -1) for n in (0, 1, 2)])),
]


@given(st.data())
def test_structs_as_json(data: st.DataObject) -> None:
    """I5: bounds of every type are told by column as they are value by value, also of a part of a column, in structs, and by names that JSON escapes."""
    drawn = data.draw(st.lists(st.sampled_from(BOUNDS), max_size=4))
    inner = pa.struct([(name, type_) for name, (type_, _) in zip(("a", 'q"u\\', "b.c", "\x01"), drawn, strict=False)])
    type_ = pa.struct([("numRecords", pa.int64()), ("minValues", pa.struct([("s", inner), *inner])), ("tightBounds", pa.bool_())])
    row = st.fixed_dictionaries({f.name: st.none() | values for f, (_, values) in zip(inner, drawn, strict=True)})
    bounds = st.builds(lambda outer, s: {**outer, "s": s}, row, st.none() | row)
    rows = data.draw(st.lists(st.none() | st.fixed_dictionaries({"numRecords": st.none() | st.integers(0, 9), "minValues": st.none() | bounds}), max_size=6))
    start = data.draw(st.integers(0, 3))
    found = struct_stats.texts(pa.array(rows, type_).slice(start)).to_pylist()
    expected = [as_json(row) for row in pa.array(rows, type_).slice(start).to_pylist()]
    assert [text and json.loads(text, parse_float=Decimal, parse_int=Decimal) for text in found] == [exact(row) if row else None for row in expected]


def exact(value: Any) -> Any:
    """Numbers as decimals, so that those that a double does not tell apart are told apart."""
    if isinstance(value, dict):
        return {k: exact(v) for k, v in value.items()}
    return value if isinstance(value, (bool, str)) else Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


LEAVES: list[tuple[tuple[str, ...], DataType]] = [
    (("i",), PrimitiveType("integer")),
    (("x",), PrimitiveType("double")),
    (("t",), PrimitiveType("timestamp")),
    (("d",), PrimitiveType("date")),
    (("m",), DecimalType(16, 2)),
    (("s",), PrimitiveType("string")),
]


@pytest.mark.parametrize(
    ("low", "held"),
    [
        ({"i": 5, "x": 1, "d": "2024-01-01", "s": "a"}, {"i": 5, "x": 1.0, "d": dt.date(2024, 1, 1), "s": "a"}),
        ({"i": 1 << 40, "s": "a"}, {"s": "a"}),
        ({"d": "+12024-01-01", "i": 1}, {"i": 1}),
        ({"t": "1850-01-01T00:00:00.000+00:53", "i": 1}, {"i": 1}),
        ({"t": "2024-01-01T00:00:00.000+01:00"}, {"t": dt.datetime(2023, 12, 31, 23, tzinfo=dt.UTC)}),
        ({"t": "2024-01-01T00:00:00.000", "i": 1}, {"i": 1}),
        ({"m": 12345678901234.56, "i": 1}, {"i": 1, "m": Decimal("12345678901234.56")}),
        ({"m": 12345678901234.567, "i": 1}, {"i": 1}),
        ({"x": "NaN"}, None),
        ({"i": 1.5}, None),
        ({"i": {"a": 1}}, None),
    ],
)
def test_bounds_that_a_struct_cannot_hold(low: dict[str, Any], held: dict[str, Any] | None) -> None:
    """A bound that is not certain is left out of the struct; statistics of another form stay JSON as a whole."""
    texts = pa.array([orjson.dumps({"numRecords": 3, "minValues": low, "maxValues": {}, "nullCount": {"i": 0}}).decode(), None])
    found = struct_stats.structs(texts, struct_stats.struct_type(LEAVES))
    if held is None:
        assert found is None
        return
    assert found is not None
    one, none = found.to_pylist()
    assert none is None and one["numRecords"] == 3 and one["nullCount"]["i"] == 0 and one["tightBounds"] is None
    assert {k: v for k, v in one["minValues"].items() if v is not None} == held


def test_a_checkpoint_without_json_keeps_what_structs_cannot_hold(tmp_path: Path) -> None:
    """Others may have written such statistics; a time without a zone as partition value leaves those structs out, which DuckDB would else take for nulls."""
    path = str(tmp_path)
    rows = pa.table({"x": [1.5], "t": pa.array([dt.datetime(2024, 1, 1)], pa.timestamp("us", "UTC"))})
    rowlock.append(path, rows, partition_by=["t"], properties={"delta.checkpoint.writeStatsAsJson": "false", "delta.checkpointInterval": "1"})
    commit = (
        LocalStore(path).get(names.commit_key(0)).replace(b'\\"x\\":1.5', b'\\"x\\":\\"NaN\\"').replace(b"2024-01-01T00:00:00.000000Z", b"2024-01-01 00:00:00")
    )
    Path(path, names.commit_key(0)).write_bytes(commit)
    for file in Path(path, "_delta_log").glob("*.crc"):
        file.unlink()
    log = TableLog(LocalStore(path))
    log.write_checkpoint(log.latest())
    (add,) = pq.read_table(io.BytesIO(LocalStore(path).get(names.checkpoint_key(0)))).column("add").combine_chunks().drop_null().to_pylist()
    assert "NaN" in add["stats"] and add["stats_parsed"] is None and "partitionValues_parsed" not in add


@pytest.mark.parametrize(
    ("footer", "day"), [({}, "1500-03-01"), ({"org.apache.spark.legacyDateTime": ""}, None), ({"org.apache.spark.version": "3.0.1"}, None)]
)
def test_times_as_spark_writes_them(tmp_path: Path, footer: dict[str, str], day: str | None) -> None:
    """I5: Spark writes instants as INT96, which Arrow wraps around as nanoseconds; and says in the footer that it counted days in its former calendar."""
    path = str(tmp_path)
    times = {"d": pa.array([dt.date(1500, 3, 1)]), "t": pa.array([dt.datetime(9999, 1, 1, 1, 2, 3, 456_789, dt.UTC)], pa.timestamp("us", "UTC"))}
    rowlock.append(path, pa.table(times), properties={"delta.checkpoint.writeStatsAsJson": "false"})
    log = TableLog(LocalStore(path))
    log.write_checkpoint(log.latest())
    file = Path(path, names.checkpoint_key(0))
    with pq.ParquetFile(file) as ours:
        assert (ours.metadata.metadata or {})[b"org.apache.spark.version"] == b"4.0.0", "else readers take old dates for those of the former calendar"
    pq.write_table(pq.read_table(file).replace_schema_metadata(footer), file, use_deprecated_int96_timestamps=True)
    Path(path, names.commit_key(0)).unlink()
    (add,) = TableLog(LocalStore(path)).latest().files.adds()
    low = add.parsed_stats()["minValues"]
    assert low.get("d") == day and low["t"] == "9999-01-01T01:02:03.456000Z"


@pytest.mark.parametrize(("text", "type_"), [("123456.5", DecimalType(5, 2)), ("NaN", DecimalType(5, 2)), ("2023-02-29", PrimitiveType("date"))])
def test_partition_values_that_are_none_of_their_type(text: str, type_: DataType) -> None:
    """Others' texts end no checkpoint: it has no structs then (I9)."""
    values = pa.array([[("p", text)], [("p", None)]], pa.map_(pa.string(), pa.string()))
    assert struct_stats.partition_structs(values, [StructField("p", type_)]) is None
