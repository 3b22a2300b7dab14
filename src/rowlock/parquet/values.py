"""Converts values of Arrow tables to Python, including values that Python's own types cannot hold (years after 9999, invalid UTF-8)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def row_keys(table: pa.Table) -> list[str]:
    """A string for each row; two strings are equal exactly if the rows are.  NaN equals NaN, -0.0 differs from 0.0, the order of map entries counts."""
    columns = [c.cast(bare_type(c.type)).to_pylist() for c in table.columns]
    return list(map(repr, zip(*columns, strict=True)))


def plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    """The rows as dicts.  A date or time after year 9999 becomes its number in the file, text that is not UTF-8 its bytes."""
    columns = [_plain(c) for c in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def stored_values(column: pa.Array) -> list[Any]:
    """The values of a column that is not nested: dates and times as their numbers in files (Python has no year 10,000), text that is not UTF-8 as bytes."""
    bare = column if pa.types.is_string(column.type) else column.cast(bare_type(column.type))
    return _plain(pa.chunked_array([bare]))


def _plain(column: pa.ChunkedArray) -> list[Any]:
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError):
        return [_plain_value(column.slice(n, 1)) for n in range(len(column))]


def _plain_value(one: pa.ChunkedArray) -> Any:
    try:
        return one.to_pylist()[0]
    except (ValueError, OverflowError):
        return one.cast(bare_type(one.type)).to_pylist()[0]


def bare_type(t: pa.DataType) -> pa.DataType:
    """The type with integers for dates and times and bytes for text, so that Python can hold every value."""
    if pa.types.is_timestamp(t):
        return pa.int64()
    if pa.types.is_date32(t):
        return pa.int32()
    if pa.types.is_string(t):
        return pa.binary()
    if pa.types.is_struct(t):
        return pa.struct([f.with_type(bare_type(f.type)) for f in t])
    if pa.types.is_list(t):
        return pa.list_(t.value_field.with_type(bare_type(t.value_type)))
    if pa.types.is_map(t):
        return pa.map_(t.key_field.with_type(bare_type(t.key_type)), t.item_field.with_type(bare_type(t.item_type)))
    return t
