"""Column mapping: assigns column ids and physical names, which stay the same when a column is renamed.

An id or physical name is never used twice: the table property `delta.columnMapping.maxColumnId` holds the
highest id so far.  Pure: the caller passes the function that makes new UUIDs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import orjson

from rowlock.conditions import named
from rowlock.exceptions import InvalidInput
from rowlock.protocol.actions import Metadata
from rowlock.protocol.properties import column_mapping_mode
from rowlock.protocol.schema import (
    COLUMN_ID,
    PHYSICAL_NAME,
    DataType,
    StructField,
    StructType,
    map_fields,
    nullable_type,
    parse_schema,
    schema_json,
    shared_parts,
    with_parts,
)

MODE = "delta.columnMapping.mode"
MAX_ID = "delta.columnMapping.maxColumnId"
_OF_MAPPING = "delta.columnMapping."
"""Begins the keys of a field's metadata that column mapping needs."""


def is_mapped(configuration: Mapping[str, str]) -> bool:
    """Whether column mapping is on, by name or by id."""
    return column_mapping_mode(configuration) != "none"


def with_column_ids(metadata: Metadata, fresh: Callable[[], str]) -> Metadata:
    """The metadata with an id and a physical name for every column that lacks them; without any if column mapping is off.

    `fresh` returns a new UUID for each physical name.
    """
    return _with_ids(metadata, lambda field: f"col-{fresh()}")


def keeping_ids(metadata: Metadata, before: Metadata) -> Metadata:
    """The metadata of a table that takes the place of `before`, where columns and fields of the same name and type keep their ids and physical names, as
    in delta-spark: so those who read it go on.  Others have no id yet (see `with_column_ids`)."""
    if not (is_mapped(metadata.configuration) and is_mapped(before.configuration)):
        return metadata
    bare = map_fields(parse_schema(metadata.schema_string), lambda f: replace(f, metadata={k: v for k, v in f.metadata.items() if k != COLUMN_ID}))
    kept, highest = _with_ids_of(bare, parse_schema(before.schema_string)), before.configuration.get(MAX_ID, "0")
    assert isinstance(kept, StructType)
    return replace(metadata, schema_string=schema_json(kept), configuration={**metadata.configuration, MAX_ID: highest})


def _with_ids_of(new: DataType, old: DataType) -> DataType:
    if not (isinstance(new, StructType) and isinstance(old, StructType)):
        return with_parts(new, {name: _with_ids_of(*both) for name, both in shared_parts(new, old).items()})
    fields = []
    for f in new.fields:
        if (was := old.find(f.name)) is not None:
            same = {k: was.metadata[k] for k in (COLUMN_ID, PHYSICAL_NAME) if k in was.metadata and nullable_type(f.type) == nullable_type(was.type)}
            f = replace(f, type=_with_ids_of(f.type, was.type), metadata={**f.metadata, **same})
        fields.append(f)
    return StructType(tuple(fields))


def _with_ids(metadata: Metadata, name_of: Callable[[StructField], str]) -> Metadata:
    if not is_mapped(metadata.configuration):
        return unmapped(metadata)
    schema = parse_schema(metadata.schema_string)
    given = [f.column_id for _, f in schema.all_fields() if f.column_id is not None]
    ids = itertools.count(1 + max([int(metadata.configuration.get(MAX_ID, "0")), *given]))

    def with_id(field: StructField) -> StructField:
        new = {name: make() for name, make in ((COLUMN_ID, lambda: next(ids)), (PHYSICAL_NAME, lambda: name_of(field))) if name not in field.metadata}
        return replace(field, metadata={**field.metadata, **new})

    named = map_fields(schema, with_id)
    assert isinstance(named, StructType)
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
        condition = named("DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE", oldMode=old, newMode=new)
        raise InvalidInput(f"{MODE} cannot be changed from {old} to {new}; only from none to name, and to none", table=table, condition=condition)
    return _with_ids(after, lambda field: field.name)  # existing data files have the logical names


def without_mapping(metadata: Metadata) -> Metadata:
    """The metadata without ids and physical names, for data files that know columns by their names."""
    return replace(unmapped(metadata), configuration={k: v for k, v in metadata.configuration.items() if k != MAX_ID})


def unmapped(metadata: Metadata) -> Metadata:
    """The metadata without ids and physical names in the schema: some writers left them where column mapping is off, and there they mean nothing."""
    if f'"{_OF_MAPPING}' not in metadata.schema_string:
        return metadata
    return replace(metadata, schema_string=orjson.dumps(_without_ids(orjson.loads(metadata.schema_string))).decode())


def _without_ids(part: Any) -> Any:
    if isinstance(part, dict):
        return {k: _without_ids(v) for k, v in part.items() if not k.startswith(_OF_MAPPING)}
    return [_without_ids(one) for one in part] if isinstance(part, list) else part
