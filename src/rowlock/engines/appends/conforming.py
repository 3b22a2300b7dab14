"""Rows from outside made to fit the table's columns, by the rules that hold for Spark's frames (see `engines.spark.statements.append`).

Columns are matched without regard to case; what is absent is null; a type fits where every value of it is
one of the column's.  What a schema tells is refused before a row is read, and what only values tell
(moments between two microseconds) before a commit names a row.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rowlock.exceptions import SchemaMismatch, UnsupportedFeature
from rowlock.parquet.physical import nullable_schema
from rowlock.protocol.arrow_types import from_arrow_type, to_arrow
from rowlock.protocol.schema import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType, type_name, zoneless_column
from rowlock.protocol.widening import is_wider, same_shape


def schema_of_rows(schema: pa.Schema, table: str) -> StructType:
    """The columns that rows bring, all nullable with all that is in them.

    Raises SchemaMismatch for a type that no column can hold, and where two names differ at most by case.
    """
    check_names(schema.names, table)
    return StructType(tuple(StructField(f.name, _column_type(f, table)) for f in schema))


def check_names(names: Iterable[str], table: str) -> None:
    """Raises SchemaMismatch where two columns differ only by case, or not at all."""
    seen: dict[str, str] = {}
    for name in names:
        if (before := seen.setdefault(name.lower(), name)) is not name:
            raise SchemaMismatch(f"The rows have two columns that differ at most by case, {before!r} and {name!r}; rename or drop one", table=table)


def _column_type(field: pa.Field, table: str) -> DataType:
    if pa.types.is_null(field.type):
        return PrimitiveType("void")
    try:
        return _nullable(from_arrow_type(field.type))
    except UnsupportedFeature:
        raise SchemaMismatch(
            f"Column {field.name} has the Arrow type {field.type}, which no column of a Delta table holds; cast or drop it", table=table
        ) from None


def _nullable(type_: DataType) -> DataType:
    if isinstance(type_, StructType):
        return StructType(tuple(StructField(f.name, _nullable(f.type)) for f in type_.fields))
    if isinstance(type_, ArrayType):
        return ArrayType(_nullable(type_.element))
    if isinstance(type_, MapType):
        return MapType(_nullable(type_.key), _nullable(type_.value))
    return type_


def check_new_columns(columns: StructType, table: str) -> None:
    """Raises UnsupportedFeature for columns that a table of others may have and that this version does not make."""
    if found := zoneless_column(columns):
        text = f"column {'.'.join(found)} holds times without a zone, which rowlock.append does not make yet: make the column by a statement on Spark, or give them one (pandas: dt.tz_localize('UTC'); pyarrow: cast to timestamp('us', 'UTC'))"
        raise UnsupportedFeature(text, feature="timestampNtz", access="write", table=table)


def merged_schema(table: StructType, rows: StructType) -> StructType:
    """The table's schema with the columns that it lacks added at the end."""
    have = {f.name.lower() for f in table.fields}
    return StructType((*table.fields, *(f for f in rows.fields if f.name.lower() not in have)))


class Fitting:
    """How rows of one schema become rows of a table; made once, used for every batch."""

    def __init__(self, rows: pa.Schema, table: StructType, path: str) -> None:
        """Raises SchemaMismatch for an unknown column, an absent NOT NULL column, or a type that does not fit."""
        have = {f.name.lower(): f for f in schema_of_rows(rows, path).fields}
        if unknown := [f.name for name, f in have.items() if table.find(name) is None]:
            raise SchemaMismatch(
                f"The table has no column {unknown[0]!r}; it has {', '.join(table.names)}. Drop the column, or pass merge_schema=True to add it", table=path
            )
        for f in table.fields:
            given = have.get(f.name.lower())
            if given is not None:
                _check(given.type, f.type, f.name, path)
            elif (must := required_in(f)) is not None:
                raise SchemaMismatch(f"Column {must} is NOT NULL and the rows do not have it", table=path)
        self._path = path
        self._schema = nullable_schema(to_arrow(table))
        self._given = {f.name: have[f.name.lower()].name if f.name.lower() in have else None for f in table.fields}

    @property
    def columns(self) -> tuple[str, ...]:
        """The table's columns for which the rows have values."""
        return tuple(name for name, given in self._given.items() if given is not None)

    def __call__(self, rows: pa.Table) -> pa.Table:
        """Rows under the table's names, order and types, all nullable.  Raises SchemaMismatch where a value does not fit."""
        columns = [pa.nulls(rows.num_rows, f.type) if (given := self._given[f.name]) is None else self._column(rows.column(given), f) for f in self._schema]
        return pa.Table.from_arrays(columns, schema=self._schema)

    def _column(self, values: pa.ChunkedArray, wanted: pa.Field) -> pa.ChunkedArray:
        if values.type == wanted.type:
            return values
        try:
            return pa.chunked_array([_cast(chunk, wanted.type) for chunk in values.chunks], wanted.type)
        except pa.ArrowInvalid as e:
            raise SchemaMismatch(f"A value of column {wanted.name} does not fit {wanted.type} exactly: {e}; round or cast it", table=self._path) from None
        except pa.ArrowNotImplementedError as e:
            raise SchemaMismatch(
                f"Column {wanted.name} is {values.type} in the rows, which Arrow cannot make {wanted.type}: {e}; cast it", table=self._path
            ) from None


def _cast(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Values of a type that fits; struct fields are matched without regard to case."""
    if pa.types.is_dictionary(values.type):
        return pa.DictionaryArray.from_arrays(values.indices, values.dictionary.cast(wanted)).dictionary_decode()
    if not (pa.types.is_struct(wanted) and pa.types.is_struct(values.type)):
        return values.cast(wanted)
    at = {f.name.lower(): n for n, f in enumerate(values.type)}
    parts = [_cast(pc.struct_field(values, [at[f.name.lower()]]), f.type) if f.name.lower() in at else pa.nulls(len(values), f.type) for f in wanted]
    return pa.StructArray.from_arrays(parts, fields=list(wanted), mask=pc.is_null(values))


def _check(actual: DataType, wanted: DataType, name: str, table: str) -> None:
    """Raises SchemaMismatch where a value of one type is not always one of the other."""
    if isinstance(actual, StructType) and isinstance(wanted, StructType):
        check_names(actual.names, table)
        have = {f.name.lower(): f for f in actual.fields}
        if extra := set(have) - {f.name.lower() for f in wanted.fields}:
            raise SchemaMismatch(f"Column {name} has no field {min(extra)!r}", table=table)
        for f in wanted.fields:
            given = have.get(f.name.lower())
            if given is not None:
                _check(given.type, f.type, f"{name}.{f.name}", table)
            elif (must := required_in(f)) is not None:
                raise SchemaMismatch(f"Field {name}.{must} is NOT NULL and the rows do not have it", table=table)
    elif not (same_shape(actual, wanted) or is_wider(actual, wanted)):
        raise SchemaMismatch(f"Column {name} is {type_name(wanted)} in the table and {type_name(actual)} in the rows; cast it", table=table)


def required_in(field: StructField) -> str | None:
    """What must not be null in a field that is absent: itself, or a field in its structs."""
    if not field.nullable:
        return field.name
    inner: Any = field.type.fields if isinstance(field.type, StructType) else ()
    return next((f"{field.name}.{found}" for f in inner if (found := required_in(f)) is not None), None)
