"""Columns of Parquet files by the parts of their names. I3: a bound is that of its own column, whatever its name looks like."""

from __future__ import annotations

import io
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rowlock.protocol import statistics
from rowlock.protocol.schema import ArrayType, DataType, PrimitiveType, StructField, StructType
from rowlock.protocol.statistics import leaves_of

LONG = PrimitiveType("long")
SCHEMA = StructType(
    (
        StructField("a.b", LONG),
        StructField("a", StructType((StructField("b", LONG), StructField("c.d", LONG), StructField("c", StructType((StructField("d", LONG),)))))),
        StructField("list", StructType((StructField("element", LONG),))),
        StructField("l", ArrayType(LONG)),
        StructField("l.list", StructType((StructField("element", LONG),))),
    )
)
ROWS = {
    "a.b": [7, 8],
    "a": [{"b": 100, "c.d": 200, "c": {"d": 300}}, {"b": 101, "c.d": 201, "c": {"d": None}}],
    "list": [{"element": 1}, {"element": 2}],
    "l": [[50], [60, None]],
    "l.list": [{"element": 3}, None],
}


def footer(table: pa.Table) -> pq.FileMetaData:
    out = io.BytesIO()
    pq.write_table(table, out)
    return pq.read_metadata(out)


def said(text: str) -> Any:
    return orjson.loads(text)


@pytest.mark.parametrize("order", [lambda names: names, lambda names: names[::-1]])
def test_a_dot_in_a_name_is_no_way_into_a_struct(order: Any) -> None:
    """I3: the footer's bounds are those of the rows, column by column."""
    rows = pa.table({n: ROWS[n] for n in order(list(ROWS))})
    leaves = statistics.indexed_leaves(SCHEMA, num_indexed=-1)
    by_footer, by_rows = said(statistics.from_parquet_metadata(footer(rows), leaves)), said(statistics.from_arrow(rows, leaves))
    assert by_footer["minValues"] == by_rows["minValues"] and by_footer["maxValues"] == by_rows["maxValues"]
    assert by_footer["minValues"]["a.b"] == 7 and by_footer["minValues"]["a"] == {"b": 100, "c.d": 200, "c": {"d": 300}}
    assert by_footer["nullCount"]["l.list"] == {"element": 1} and by_footer["nullCount"]["a"]["c"] == {"d": 1}


def test_statistics_columns_are_named_by_parts() -> None:
    """I3: `a.b` in back quotes is the column, without them the field of a struct."""
    assert [p for p, _ in statistics.indexed_leaves(SCHEMA, stats_columns=["`a.b`"])] == [("a.b",)]
    assert [p for p, _ in statistics.indexed_leaves(SCHEMA, stats_columns=["a.b", " a.`c.d`"])] == [("a", "b"), ("a", "c.d")]


def test_names_of_another_case() -> None:
    """I3: a column of another case gives its bounds under the table's name, and two that differ by case none."""
    leaves: list[tuple[tuple[str, ...], DataType]] = [(("id",), LONG), (("s", "x"), LONG), (("t",), LONG)]
    found = said(statistics.from_parquet_metadata(footer(pa.table({"ID": [1, 2], "S": [{"X": 3}, {"X": 4}], "t": [1, 2], "T": [5, 6]})), leaves))
    assert found["minValues"] == {"id": 1, "s": {"x": 3}} and found["nullCount"] == {"id": 0, "s": {"x": 0}}


def test_every_kind_of_leaf_is_found() -> None:
    """I3: leaves are counted as the footer counts them, through lists, maps, dictionaries and structs."""
    table = pa.table(
        {
            "m": pa.array([[("k", {"x": [1]})]], pa.map_(pa.string(), pa.struct([("x", pa.list_(pa.int64()))]))),
            "d": pa.array(["a"]).dictionary_encode(),
            "n": pa.nulls(1),
            "f": pa.array([[1, 2]], pa.list_(pa.int32(), 2)),
            "s": [{"p": {"q": 1}, "r": [{"t": 1}]}],
        }
    )
    assert [(leaf.path, leaf.repeated) for leaf in leaves_of(footer(table))] == [
        (("m",), True),
        (("m",), True),
        (("d",), False),
        (("n",), False),
        (("f",), True),
        (("s", "p", "q"), False),
        (("s", "r"), True),
    ]
