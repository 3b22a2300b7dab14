"""Translates between a table's logical columns and the physical columns of its data files (column mapping).

Without column mapping both are the same.  Only names and field ids change here, never values: buffers are shared,
or copied once where names of nested fields change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rowlock.log.snapshot import Snapshot
from rowlock.protocol.arrow_types import to_arrow_type
from rowlock.protocol.column_mapping import is_mapped
from rowlock.protocol.parquet_columns import names_ignoring_case
from rowlock.protocol.properties import column_mapping_mode
from rowlock.protocol.schema import ArrayType, DataType, MapType, StructType

_FIELD_ID = b"PARQUET:field_id"


class Doubtful(Exception):
    """It is not certain which values Spark would read from a file; `feature` names the cause."""

    def __init__(self, message: str, feature: str) -> None:
        self.feature = feature
        super().__init__(message)


def names_in_files(snapshot: Snapshot) -> dict[str, str]:
    """The physical name of each column, by its logical name: the one used in files, statistics and partition values."""
    of_file = is_mapped(snapshot.metadata.configuration)
    return {f.name: f.physical_name if of_file else f.name for f in snapshot.schema.fields}


def file_schema(snapshot: Snapshot, names: Sequence[str]) -> pa.Schema:
    """The Arrow schema of the columns `names` in data files: physical names, field ids, all nullable."""
    of_file = is_mapped(snapshot.metadata.configuration)
    fields = [f for n in names if (f := snapshot.schema.find(n)) is not None]
    return pa.schema([_arrow_field(f, of_file) for f in fields])


def _arrow_field(f: Any, of_file: bool) -> pa.Field:
    made = pa.field(f.physical_name if of_file else f.name, _arrow_type(f.type, of_file), True)
    return made.with_metadata({_FIELD_ID: str(f.column_id).encode()}) if of_file and f.column_id is not None else made


def _arrow_type(t: DataType, of_file: bool) -> pa.DataType:
    if isinstance(t, StructType):
        return pa.struct([_arrow_field(f, of_file) for f in t.fields])
    if isinstance(t, ArrayType):
        return pa.list_(pa.field("element", _arrow_type(t.element, of_file), True))
    if isinstance(t, MapType):
        return pa.map_(pa.field("key", _arrow_type(t.key, of_file), False), pa.field("value", _arrow_type(t.value, of_file), True))
    return to_arrow_type(t)


def nullable_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with all columns and nested fields nullable, because Arrow cannot cast a null struct that has non-nullable fields."""
    return pa.schema([pa.field(f.name, _nullable_type(f.type), True) for f in schema])


def _nullable_type(t: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(t):
        return pa.struct([pa.field(f.name, _nullable_type(f.type), True) for f in t])
    if pa.types.is_list(t):
        return pa.list_(pa.field(t.value_field.name, _nullable_type(t.value_type), True))
    if pa.types.is_map(t):
        return pa.map_(pa.field(t.key_field.name, _nullable_type(t.key_type), False), pa.field(t.item_field.name, _nullable_type(t.item_type), True))
    return t


def relabelled(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same values under a schema that differs only in names and field ids, also of nested fields."""
    return pa.Table.from_arrays([_relabelled(c, f) for c, f in zip(table.columns, schema, strict=True)], schema=schema)


def _relabelled(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    if column.type.equals(field.type):
        return column
    schema = pa.schema([field])
    batches = [pa.ipc.read_record_batch(b.serialize(), schema) for b in pa.table([column], names=[field.name]).to_batches()]
    return pa.Table.from_batches(batches, schema=schema).column(0)


def columns_in(there: pa.Schema, snapshot: Snapshot, names: Sequence[str], *, case_sensitive: bool = False) -> dict[str, str]:
    """The spelling in a file of each of the table's columns `names` that the file has.

    Names match without regard to case, as in Spark.  With `case_sensitive` (spark.sql.caseSensitive), Spark refuses or nulls
    a column whose case differs: then this raises Doubtful, as it does for two columns that differ only by case.
    """
    stored, held = names_in_files(snapshot), there.names
    return {n: found for n in names if (found := _matching_name(stored[n], held, case_sensitive)) is not None}


def _matching_name(name: str, there: Sequence[str], case_sensitive: bool) -> str | None:
    found = names_ignoring_case(name, there)
    if case_sensitive and found and found.count(name) != 1:
        raise Doubtful(f"column {name} is {found[0]} in the file, and spark.sql.caseSensitive is set", "columns that differ by case")
    if len(found) > 1 and not case_sensitive:
        raise Doubtful(f"the file has the columns {' and '.join(found)}, which Spark takes for one", "columns that differ by case")
    return name if case_sensitive and found else next(iter(found), None)


def spelled_as(have: pa.DataType, want: pa.DataType, *, case_sensitive: bool = False) -> pa.DataType:
    """The type `have` of a file's column, with nested fields spelled as in the table's type `want`.  Raises Doubtful (see `columns_in`)."""
    if pa.types.is_struct(have) and pa.types.is_struct(want):
        there = [f.name for f in have]
        known = {found: f for f in want if (found := _matching_name(f.name, there, case_sensitive)) is not None}
        return pa.struct(
            [
                pa.field(known[f.name].name, spelled_as(f.type, known[f.name].type, case_sensitive=case_sensitive), f.nullable) if f.name in known else f
                for f in have
            ]
        )
    if pa.types.is_list(have) and pa.types.is_list(want):
        return pa.list_(have.value_field.with_type(spelled_as(have.value_type, want.value_type, case_sensitive=case_sensitive)))
    if pa.types.is_map(have) and pa.types.is_map(want):
        key, item = (
            spelled_as(have.key_type, want.key_type, case_sensitive=case_sensitive),
            spelled_as(have.item_type, want.item_type, case_sensitive=case_sensitive),
        )
        return pa.map_(have.key_field.with_type(key), have.item_field.with_type(item), have.keys_sorted)
    return have


def found_by_id(source: pq.ParquetFile, snapshot: Snapshot) -> bool:
    """Whether finding a file's columns by name and by field id gives the same; True unless the column mapping mode is `id`."""
    if column_mapping_mode(snapshot.metadata.configuration) != "id":
        return True
    wanted = dict(_ids(file_schema(snapshot, snapshot.schema.names), ()))
    there = dict(_ids(source.schema_arrow, ()))
    places = {number: path for path, number in wanted.items() if number is not None}
    by_name = all(there[path] == number for path, number in wanted.items() if path in there)
    return by_name and all(number not in places or places[number] == path for path, number in there.items())


def _ids(fields: Any, where: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], bytes | None]]:
    for f in fields:
        yield (*where, f.name), (f.metadata or {}).get(_FIELD_ID)
        inner = f.type
        while pa.types.is_list(inner):
            inner = inner.value_type
        if pa.types.is_map(inner):
            yield from _ids([inner.key_field, inner.item_field], (*where, f.name))
        elif pa.types.is_struct(inner):
            yield from _ids(inner, (*where, f.name))
