"""Whether rows that were written under a table's earlier or later columns can be read under those of a snapshot."""

from __future__ import annotations

from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import Metadata
from rowlock.protocol.schema import TYPE_CHANGES, ArrayType, DataType, MapType, StructType, nullable_type, parse_schema


def unreadable(then: Metadata, shown: Snapshot) -> str | None:
    """Why rows written under `then` cannot be read under the columns of `shown`, for the sentence "Version 3 ..."; None where they can.

    Columns that only `shown` has are no reason: they are null in such rows.
    """
    now = {f.physical_name: f for f in shown.schema.fields}
    for f in parse_schema(then.schema_string, shown.table).fields:
        found = now.get(f.physical_name)
        if found is None:
            return f"had a column {f.name!r}, which is not there any more"
        if found.name != f.name:
            return f"called column {found.name!r} {f.name!r}"
        if not _holds(found.type, f.type) and not found.metadata.get(TYPE_CHANGES):
            return f"had another type of column {f.name!r}"
    if then.partition_columns != shown.metadata.partition_columns:
        return "was partitioned by other columns"
    return None


def _holds(now: DataType, then: DataType) -> bool:
    """Whether values of an earlier type are read as the type that is there now: fields of structs may have come since."""
    if isinstance(now, StructType) and isinstance(then, StructType):
        fields = {f.physical_name: f for f in now.fields}
        return all((found := fields.get(f.physical_name)) is not None and found.name == f.name and _holds(found.type, f.type) for f in then.fields)
    if isinstance(now, ArrayType) and isinstance(then, ArrayType):
        return _holds(now.element, then.element)
    if isinstance(now, MapType) and isinstance(then, MapType):
        return _holds(now.key, then.key) and _holds(now.value, then.value)
    return nullable_type(now) == nullable_type(then)


def changed(later: Metadata, shown: Snapshot) -> str | None:
    """In what the columns of a later version are others than those of `shown`, for the sentence "Version 3 ..."; None where they are the same."""
    before = {f.physical_name: f for f in shown.schema.fields}
    after = {f.physical_name: f for f in parse_schema(later.schema_string, shown.table).fields}
    for physical, f in after.items():
        if physical not in before:
            return f"adds a column {f.name!r}"
        if before[physical].name != f.name:
            return f"renames column {before[physical].name!r} to {f.name!r}"
        if nullable_type(before[physical].type) != nullable_type(f.type):
            return f"changes the type of column {f.name!r}"
    if gone := [f.name for physical, f in before.items() if physical not in after]:
        return f"drops column {gone[0]!r}"
    if later.partition_columns != shown.metadata.partition_columns:
        return "is partitioned by other columns"
    return None
