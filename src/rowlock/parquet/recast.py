"""Converts rows on the driver from the schema under which they were staged to a later schema of the table.

Columns are matched by column id where the table has column mapping, else by name.  Types must be the same in both:
after a type change the statement is staged again instead.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rowlock.parquet.physical import nullable_schema
from rowlock.protocol.arrow_types import to_arrow_type
from rowlock.protocol.schema import StructField, StructType


def recast(table: pa.Table, before: StructType, after: StructType) -> pa.Table:
    """The rows with the columns of `after`: new columns are null, dropped columns are left out."""
    rows = table.combine_chunks()
    columns = [
        _column(rows.column(before.fields.index(old)), old, f) if (old := _matching_field(before, f)) is not None else pa.nulls(rows.num_rows, _nullable(f))
        for f in after.fields
    ]
    return pa.Table.from_arrays(columns, schema=pa.schema([pa.field(f.name, c.type, True) for f, c in zip(after.fields, columns, strict=True)]))


def _matching_field(before: StructType, field: StructField) -> StructField | None:
    if field.column_id is not None:
        return next((f for f in before.fields if f.column_id == field.column_id), None)
    return before.find(field.name)


def _nullable(field: StructField) -> pa.DataType:
    return nullable_schema(pa.schema([pa.field("x", to_arrow_type(field.type))])).field(0).type


def _column(column: Any, old: StructField, new: StructField) -> Any:
    if not (isinstance(old.type, StructType) and isinstance(new.type, StructType)) or column.type == _nullable(new):
        return column
    held = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    held = held.chunk(0) if isinstance(held, pa.ChunkedArray) else held
    parts = []
    for f in new.type.fields:
        before = _matching_field(old.type, f)
        parts.append(pa.nulls(len(held), _nullable(f)) if before is None else _column(pc.struct_field(held, [old.type.fields.index(before)]), before, f))
    return pa.StructArray.from_arrays(
        parts, fields=[pa.field(f.name, p.type, True) for f, p in zip(new.type.fields, parts, strict=True)], mask=pc.is_null(held)
    )
