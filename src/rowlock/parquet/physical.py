"""Translates between a table's logical columns and the physical columns of its data files (column mapping).

Without column mapping both are the same.  Only names and field ids change here, never values: buffers are shared,
or copied once where names of nested fields change.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rowlock.log.snapshot import Snapshot
from rowlock.protocol.arrow_types import is_list, is_variant, to_arrow, to_arrow_type
from rowlock.protocol.schema import ArrayType, DataType, MapType, StructField, StructType

_FIELD_ID = b"PARQUET:field_id"


class Doubtful(Exception):
    """It is not certain which values Spark would read from a file; `feature` names the cause."""

    def __init__(self, message: str, feature: str) -> None:
        self.feature = feature
        super().__init__(message)


@contextlib.contextmanager
def doubting() -> Iterator[None]:
    """A block that reads a file of which Spark may read more than Arrow: what Arrow calls damage, or too much for it, is raised as Doubtful."""
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
        raise Doubtful(str(e), "files that Arrow does not read") from e


def names_in_files(snapshot: Snapshot) -> dict[str, str]:
    """The physical name of each column, by its logical name: the one used in files, statistics and partition values."""
    return {f.name: f.physical_name for f in snapshot.schema.fields}


def file_schema(snapshot: Snapshot, names: Sequence[str]) -> pa.Schema:
    """The Arrow schema of the columns `names` in data files: physical names, field ids, all nullable."""
    return pa.schema([_arrow_field(f) for n in names if (f := snapshot.schema.find(n)) is not None])


def _arrow_field(f: StructField) -> pa.Field:
    field = pa.field(f.physical_name, _arrow_type(f.type), True)
    return field if f.column_id is None else field.with_metadata({_FIELD_ID: str(f.column_id).encode()})


def _arrow_type(t: DataType) -> pa.DataType:
    if isinstance(t, StructType):
        return pa.struct([_arrow_field(f) for f in t.fields])
    if isinstance(t, ArrayType):
        return pa.list_(pa.field("element", _arrow_type(t.element), True))
    if isinstance(t, MapType):
        return pa.map_(pa.field("key", _arrow_type(t.key), False), pa.field("value", _arrow_type(t.value), True))
    return to_arrow_type(t)


def rows_schema(snapshot: Snapshot) -> pa.Schema:
    """The Arrow schema of rows under the table's columns, all nullable."""
    return nullable_schema(to_arrow(snapshot.schema))


def nullable_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with all columns and nested fields nullable, because Arrow cannot cast a null struct that has non-nullable fields."""
    return pa.schema([pa.field(f.name, nullable_type(f.type), True) for f in schema])


def nullable_type(t: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType] = lambda t: t) -> pa.DataType:
    """The type with all that is in it nullable, but for keys of maps; each type in it that is not nested is changed by `leaf`."""
    if is_variant(t):
        return t
    if pa.types.is_struct(t):
        return pa.struct([pa.field(f.name, nullable_type(f.type, leaf), True) for f in t])
    if pa.types.is_list(t):
        return pa.list_(pa.field(t.value_field.name, nullable_type(t.value_type, leaf), True))
    if pa.types.is_map(t):
        return pa.map_(pa.field(t.key_field.name, nullable_type(t.key_type, leaf), False), pa.field(t.item_field.name, nullable_type(t.item_type, leaf), True))
    return leaf(t)


def without_void(table: pa.Table) -> pa.Table:
    """The rows without the fields of structs that have the type void, of which files hold nothing."""
    if not any(map(_holds_void, table.schema.types)):
        return table
    columns = [pa.chunked_array([_stripped(c) for c in column.chunks], _stripped_type(column.type)) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=pa.schema([f.with_type(c.type) for f, c in zip(table.schema, columns, strict=True)]))


def _holds_void(t: pa.DataType) -> bool:
    return bool(pa.types.is_struct(t) and any(pa.types.is_null(f.type) or _holds_void(f.type) for f in t))


def _stripped_type(t: pa.DataType) -> pa.DataType:
    return pa.struct([f.with_type(_stripped_type(f.type)) for f in t if not pa.types.is_null(f.type)]) if _holds_void(t) else t


def _stripped(column: Any) -> Any:
    if not _holds_void(column.type):
        return column
    present = [n for n, f in enumerate(column.type) if not pa.types.is_null(f.type)]
    parts = [_stripped(pc.struct_field(column, [n])) for n in present]
    return pa.StructArray.from_arrays(parts, fields=list(_stripped_type(column.type)), mask=pc.is_null(column))


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
    stored, held = names_in_files(snapshot), _by_folded_name(there.names)
    return {n: found for n in names if (found := _matching_name(stored[n], held, case_sensitive)) is not None}


def _by_folded_name(names: Iterable[str]) -> dict[str, list[str]]:
    out: dict[str, list[str]] = {}
    for name in names:
        out.setdefault(name.lower(), []).append(name)
    return out


def _matching_name(name: str, there: Mapping[str, Sequence[str]], case_sensitive: bool) -> str | None:
    found = there.get(name.lower(), ())
    if case_sensitive and found and found.count(name) != 1:
        raise Doubtful(f"column {name} is {found[0]} in the file, and spark.sql.caseSensitive is set", "columns that differ by case")
    if len(found) > 1 and not case_sensitive:
        raise Doubtful(f"the file has the columns {' and '.join(found)}, which Spark takes for one", "columns that differ by case")
    return name if case_sensitive and found else next(iter(found), None)


def spelled_as(have: pa.DataType, want: pa.DataType, *, case_sensitive: bool = False, by_id: bool = False) -> pa.DataType:
    """The type `have` of a file's column, with nested fields spelled as in the table's type `want`.  Raises Doubtful (see `columns_in`).

    With `by_id` fields are found by their ids; one that another field of the table has the name of gets a name of its own.
    """
    if is_variant(want):
        return have
    spelled = functools.partial(spelled_as, case_sensitive=case_sensitive, by_id=by_id)
    if pa.types.is_struct(have) and pa.types.is_struct(want):
        known = _fields_by_id(have, want) if by_id else _fields_by_name(have, want, case_sensitive)
        taken = {f.name for f in known.values()}
        others = [f.with_name(f"{f.name} ({n})") if f.name in taken else f for n, f in enumerate(have)]
        return pa.struct([pa.field(known[n].name, spelled(f.type, known[n].type), f.nullable) if n in known else others[n] for n, f in enumerate(have)])
    if is_list(have) and pa.types.is_list(want):
        held, size = have.value_field.with_type(spelled(have.value_type, want.value_type)), have.list_size if pa.types.is_fixed_size_list(have) else -1
        return pa.large_list(held) if pa.types.is_large_list(have) else pa.list_(held, size)
    if pa.types.is_map(have) and pa.types.is_map(want):
        key, item = spelled(have.key_type, want.key_type), spelled(have.item_type, want.item_type)
        return pa.map_(have.key_field.with_type(key), have.item_field.with_type(item), have.keys_sorted)
    return have


def _fields_by_name(have: pa.StructType, want: pa.StructType, case_sensitive: bool) -> dict[int, pa.Field]:
    """The table's field of each position of a file's struct that has one."""
    places = {f.name: n for n, f in reversed(list(enumerate(have)))}
    there = _by_folded_name(places)
    return {places[found]: f for f in want if (found := _matching_name(f.name, there, case_sensitive)) is not None}


def _fields_by_id(have: Iterable[pa.Field], want: Iterable[pa.Field]) -> dict[int, pa.Field]:
    """Like `_fields_by_name`, by field ids."""
    wanted = {number: f for f in want if (number := _field_id(f)) is not None}
    found = {n: wanted[number] for n, f in enumerate(have) if (number := _field_id(f)) in wanted}
    if len({f.name for f in found.values()}) < len(found):
        raise Doubtful("a file has two columns of one field id", "column mapping by id")
    return found


def _field_id(f: pa.Field) -> bytes | None:
    return (f.metadata or {}).get(_FIELD_ID)


def has_field_ids(there: Iterable[pa.Field]) -> bool:
    """Whether a file says by field ids which column is which."""
    return any(_field_id(f) for f in there)


def columns_by_id(there: pa.Schema, snapshot: Snapshot, names: Sequence[str]) -> dict[str, str]:
    """The name in a file of each of the table's columns `names` that the file has, where columns are found by field id.  Raises Doubtful as Spark fails."""
    if there.names and not has_field_ids(there):
        raise Doubtful("its columns have no field ids", "column mapping by id")
    by_stored = dict(zip((f.name for f in file_schema(snapshot, names)), names, strict=True))
    held = {by_stored[f.name]: there.field(n).name for n, f in _fields_by_id(there, file_schema(snapshot, names)).items()}
    if len({*there.names}) < len(there.names):
        raise Doubtful("a file has two columns of one name", "column mapping by id")
    return {n: held[n] for n in names if n in held}
