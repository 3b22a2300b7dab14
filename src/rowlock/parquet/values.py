"""Values in Arrow tables: as Python's, including those that its own types cannot hold (years after 9999, invalid UTF-8); changed inside of nested columns;
and those of char and varchar columns.

Of these, spaces at the end that are too many are cut off, and char values are filled up with spaces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rowlock.parquet.physical import nullable_type
from rowlock.protocol.arrow_types import is_list
from rowlock.protocol.char_varchar import Bound, Inner


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
        if len(column) > 1:
            return [value for n in range(len(column)) for value in _plain(column.slice(n, 1))]
        return list(column.cast(bare_type(column.type)).to_pylist())


def bare_type(t: pa.DataType) -> pa.DataType:
    """The type, nullable, with integers for dates and times and bytes for text, so that Python can hold every value."""
    return nullable_type(t, _bare_leaf)


def _bare_leaf(t: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_timestamp(t) else pa.int32() if pa.types.is_date32(t) else pa.binary() if pa.types.is_string(t) else t


def leaves(values: Any) -> Iterator[Any]:
    """The arrays within an array that are not nested; itself where it is not."""
    t = values.type
    inner = values.flatten() if pa.types.is_struct(t) else [values.keys, values.items] if pa.types.is_map(t) else [values.values] if is_list(t) else []
    for part in inner:
        yield from leaves(part)
    if not inner:
        yield values


Parts = Callable[[Any], Any] | Mapping[str, Any] | Sequence[Any] | None
"""What is changed in a type: by a function, or by field of a struct, by the one part of a list or both of a map; None is left as it is."""


def with_changed_parts(column: pa.ChunkedArray, parts: Parts) -> pa.ChunkedArray:
    """The column with the functions of `parts` applied to the arrays there."""
    chunks = column.chunks or [pa.array([], column.type)]
    changed = [_changed(chunk, parts) for chunk in chunks]
    return pa.chunked_array(changed, changed[0].type)


def _changed(array: Any, parts: Parts) -> Any:
    if parts is None:
        return array
    if callable(parts):
        return parts(array)
    if array.offset:
        array = array.take(pa.array(range(len(array))))
    if isinstance(parts, Mapping):
        inner = [_changed(array.field(n), parts.get(f.name)) for n, f in enumerate(array.type)]
        fields = [pa.field(f.name, values.type) for f, values in zip(array.type, inner, strict=True)]
        return pa.StructArray.from_arrays(inner, fields=fields, mask=array.is_null())
    mask = array.is_null() if array.null_count else None
    if pa.types.is_map(array.type):
        return pa.MapArray.from_arrays(array.offsets, _changed(array.keys, parts[0]), _changed(array.items, parts[1]), mask=mask)
    values = _changed(array.values, parts[0])
    return pa.ListArray.from_arrays(array.offsets, values, type=pa.list_(pa.field("element", values.type)), mask=mask)


def fitted_text(values: Any, bound: Bound) -> Any:
    """The values as they are written; one that is too long for the bound stays as it is, for the table's check of it."""
    length = pc.utf8_length(values)
    fits = pc.less_equal(pc.utf8_length(pc.utf8_rtrim(values, " ")), bound.length)
    too_many = pc.fill_null(pc.and_(pc.greater(length, bound.length), fits), False)
    if pc.any(too_many, min_count=0).as_py():
        values = pc.if_else(too_many, pc.utf8_slice_codeunits(values, 0, bound.length), values)
    return padded(values, bound)


def padded(values: Any, bound: Bound) -> Any:
    """The values of a char column filled up with spaces, as Spark reads them; those of a varchar column as they are."""
    return pc.utf8_rpad(values, bound.length, " ") if bound.kind == "char" and not pa.types.is_null(values.type) else values


def padded_within(column: Any, inner: Inner) -> Any:
    """A column of another type with the char values inside of it filled up with spaces, as Spark reads them."""
    return with_changed_parts(column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column]), _parts(inner))


def _parts(inner: Inner) -> Parts:
    if isinstance(inner, Bound):
        return lambda values: padded(values, inner)
    if isinstance(inner, dict):
        return {name: _parts(of) for name, of in inner.items()}
    return None if inner is None else [_parts(of) for of in inner]
