"""Rows as plain values that compare exactly: NaN is itself, -0.0 is not 0.0, times are integers."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Row = tuple[Any, ...]


def plain(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of a column."""
    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in plain(chunk)]
    kind = column.type
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).to_pylist()
    if pa.types.is_date(kind):
        return column.cast(pa.date32()).cast(pa.int32()).to_pylist()
    if pa.types.is_struct(kind):
        parts = [plain(pc.struct_field(column, n)) for n in range(kind.num_fields)]
        rows = list(zip(*parts, strict=True))
        return [None if gone else row for gone, row in zip(column.is_null().to_pylist(), rows, strict=True)]
    if pa.types.is_map(kind):
        return [None if v is None else tuple(sorted(v, key=repr)) for v in column.to_pylist()]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):  # Spark casts binary to text that is no UTF-8
        return [None if v is None else v.decode(errors="surrogateescape") for v in column.cast(pa.large_binary()).to_pylist()]
    return [_exact(v, single=pa.types.is_float32(kind)) for v in column.to_pylist()]


def _exact(value: Any, *, single: bool = False) -> Any:
    if isinstance(value, float):
        return "NaN" if value != value else "-0.0" if value == 0 and struct.pack(">d", value)[0] else value
    if isinstance(value, list):
        return tuple(_exact(v) for v in value)
    return value


def rows_of(table: pa.Table, names: Sequence[str]) -> list[Row]:
    return list(zip(*(plain(table.column(n)) for n in names), strict=True)) if names else []


def bag(table: pa.Table, names: Sequence[str]) -> Counter[Row]:
    """Rows without order."""
    return Counter(rows_of(table, names))


def difference(found: Counter[Row], wanted: Counter[Row], names: Sequence[str]) -> str:
    """What a reader of a failure needs: which rows are too many and which are missing."""

    def shown(rows: Counter[Row]) -> str:
        return "; ".join(str(dict(zip(names, row, strict=True))) for row in list(rows.elements())[:3])

    more, less = found - wanted, wanted - found
    return f"{sum(found.values())} rows, {sum(wanted.values())} expected; {sum(more.values())} should not be: {shown(more)}; {sum(less.values())} are missing: {shown(less)}"
