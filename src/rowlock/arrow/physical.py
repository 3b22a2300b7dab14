"""Between a table's columns and the columns of its data files, which column mapping names differently.

A table that maps no columns has the same on both sides.  Rows change their names here and nothing
else: the bytes stay where they are, or are copied once where names inside of structs change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rowlock.log.snapshot import Snapshot
from rowlock.protocol.arrow_types import to_arrow_type
from rowlock.protocol.column_mapping import is_mapped
from rowlock.protocol.features import column_mapping_mode
from rowlock.protocol.schema import ArrayType, DataType, MapType, StructType

_FIELD_ID = b"PARQUET:field_id"


def names_in_files(snapshot: Snapshot) -> dict[str, str]:
    """The name in files, statistics and partition values of each of the table's columns."""
    of_file = is_mapped(snapshot.metadata.configuration)
    return {f.name: f.physical_name if of_file else f.name for f in snapshot.schema.fields}


def file_schema(snapshot: Snapshot, names: Sequence[str]) -> pa.Schema:
    """The Arrow schema under which data files hold the columns `names`, with their ids; all nullable."""
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
    """The same with all columns and fields nullable: Arrow cannot cast a null struct whose fields may not be null."""
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
    """The same values under a schema that differs by names and ids only."""
    if all(a.equals(b.type) for a, b in zip(table.schema.types, schema, strict=True)):
        return pa.Table.from_arrays(table.columns, schema=schema)
    batches = [pa.ipc.read_record_batch(b.serialize(), schema) for b in table.to_batches()]
    return pa.Table.from_batches(batches, schema=schema)


def found_by_id(source: pq.ParquetFile, snapshot: Snapshot) -> bool:
    """Whether a file's columns mean the same by their names as by their ids, which mode `id` goes by."""
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
