"""Column mapping: columns known by an id and a name in files that stays, whatever they are called.

Owns who gets which id.  Names and ids are given once and never again: the highest id that was given
stands in the table's properties.  Pure: who asks brings what makes a fresh UUID.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from rowlock.exceptions import InvalidInput
from rowlock.protocol.actions import Metadata
from rowlock.protocol.features import column_mapping_mode
from rowlock.protocol.schema import COLUMN_ID, PHYSICAL_NAME, ArrayType, DataType, MapType, StructField, StructType, parse_schema, schema_json

MODE = "delta.columnMapping.mode"
MAX_ID = "delta.columnMapping.maxColumnId"


def is_mapped(configuration: Mapping[str, str]) -> bool:
    return column_mapping_mode(configuration) != "none"


def mapped(metadata: Metadata, fresh: Callable[[], str]) -> Metadata:
    """The metadata with an id and a name in files for every column that has none, where the table maps columns.

    `fresh` gives a UUID for each new name.
    """
    return _mapped(metadata, lambda field: f"col-{fresh()}")


def _mapped(metadata: Metadata, name_of: Callable[[StructField], str]) -> Metadata:
    if not is_mapped(metadata.configuration):
        return metadata
    schema = parse_schema(metadata.schema_string)
    given = [f.column_id for _, f in schema.all_fields() if f.column_id is not None]
    ids = _numbers(max([int(metadata.configuration.get(MAX_ID, "0")), *given]))
    named = _struct(schema, ids, name_of)
    highest = max([int(metadata.configuration.get(MAX_ID, "0")), *(f.column_id or 0 for _, f in named.all_fields())])
    return replace(metadata, schema_string=schema_json(named), configuration={**metadata.configuration, MAX_ID: str(highest)})


def changed_mode(before: Metadata, after: Metadata, table: str) -> Metadata:
    """The metadata of a table whose properties were set.  Raises InvalidInput for a change of mode that Delta does not allow."""
    old, new = column_mapping_mode(before.configuration), column_mapping_mode(after.configuration)
    if old == new:
        return after
    if (old, new) != ("none", "name"):
        raise InvalidInput(f"{MODE} cannot be changed from {old} to {new}; only from none to name", table=table)
    return _mapped(after, lambda field: field.name)  # as its data files have them


def _numbers(highest: int) -> Iterator[int]:
    while True:
        highest += 1
        yield highest


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
