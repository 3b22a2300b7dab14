"""Column mapping: assigns column ids and physical names, which stay the same when a column is renamed.

An id or physical name is never used twice: the table property `delta.columnMapping.maxColumnId` holds the
highest id so far.  Pure: the caller passes the function that makes new UUIDs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from rowlock.exceptions import InvalidInput
from rowlock.protocol.actions import Metadata
from rowlock.protocol.properties import column_mapping_mode
from rowlock.protocol.schema import COLUMN_ID, PHYSICAL_NAME, ArrayType, DataType, MapType, StructField, StructType, parse_schema, schema_json

MODE = "delta.columnMapping.mode"
MAX_ID = "delta.columnMapping.maxColumnId"
_OF_MAPPING = "delta.columnMapping."
"""Begins the keys of a field's metadata that column mapping needs."""


def is_mapped(configuration: Mapping[str, str]) -> bool:
    """Whether column mapping is on, by name or by id."""
    return column_mapping_mode(configuration) != "none"


def with_column_ids(metadata: Metadata, fresh: Callable[[], str]) -> Metadata:
    """The metadata with an id and a physical name for every column that lacks them; unchanged if column mapping is off.

    `fresh` returns a new UUID for each physical name.
    """
    return _with_ids(metadata, lambda field: f"col-{fresh()}")


def _with_ids(metadata: Metadata, name_of: Callable[[StructField], str]) -> Metadata:
    if not is_mapped(metadata.configuration):
        return metadata
    schema = parse_schema(metadata.schema_string)
    given = [f.column_id for _, f in schema.all_fields() if f.column_id is not None]
    ids = itertools.count(1 + max([int(metadata.configuration.get(MAX_ID, "0")), *given]))
    named = _struct(schema, ids, name_of)
    highest = max([int(metadata.configuration.get(MAX_ID, "0")), *(f.column_id or 0 for _, f in named.all_fields())])
    return replace(metadata, schema_string=schema_json(named), configuration={**metadata.configuration, MAX_ID: str(highest)})


def with_changed_mode(before: Metadata, after: Metadata, table: str) -> Metadata:
    """The metadata `after` a change of properties, with column ids if that turned column mapping on.

    Raises InvalidInput for a change of the mapping mode that Delta does not allow.
    """
    old, new = column_mapping_mode(before.configuration), column_mapping_mode(after.configuration)
    if old == new:
        return after
    if (old, new) != ("none", "name"):
        raise InvalidInput(f"{MODE} cannot be changed from {old} to {new}; only from none to name, and to none", table=table)
    return _with_ids(after, lambda field: field.name)  # existing data files have the logical names


def without_mapping(metadata: Metadata) -> Metadata:
    """The metadata without ids and physical names, for data files that know columns by their names."""
    schema = parse_schema(metadata.schema_string)
    kept = {k: v for k, v in metadata.configuration.items() if k != MAX_ID}
    return replace(metadata, schema_string=schema_json(StructType(tuple(map(_plain, schema.fields)))), configuration=kept)


def _plain(field: StructField) -> StructField:
    kept = {k: v for k, v in field.metadata.items() if not k.startswith(_OF_MAPPING)}
    return replace(field, metadata=kept, type=_plain_type(field.type))


def _plain_type(type_: DataType) -> DataType:
    if isinstance(type_, StructType):
        return StructType(tuple(map(_plain, type_.fields)))
    if isinstance(type_, ArrayType):
        return replace(type_, element=_plain_type(type_.element))
    if isinstance(type_, MapType):
        return replace(type_, key=_plain_type(type_.key), value=_plain_type(type_.value))
    return type_


def _struct(schema: StructType, ids: Iterator[int], name_of: Callable[[StructField], str]) -> StructType:
    return StructType(tuple(_field(f, ids, name_of) for f in schema.fields))


def _field(field: StructField, ids: Iterator[int], name_of: Callable[[StructField], str]) -> StructField:
    metadata = dict(field.metadata)
    if COLUMN_ID not in metadata:
        metadata[COLUMN_ID] = next(ids)
    if PHYSICAL_NAME not in metadata:
        metadata[PHYSICAL_NAME] = name_of(field)
    return replace(field, metadata=metadata, type=_type(field.type, ids, name_of))


def _type(type_: DataType, ids: Iterator[int], name_of: Callable[[StructField], str]) -> DataType:
    if isinstance(type_, StructType):
        return _struct(type_, ids, name_of)
    if isinstance(type_, ArrayType):
        return replace(type_, element=_type(type_.element, ids, name_of))
    if isinstance(type_, MapType):
        return replace(type_, key=_type(type_.key, ids, name_of), value=_type(type_.value, ids, name_of))
    return type_
