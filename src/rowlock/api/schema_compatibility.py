"""Whether rows that were written under a table's earlier or later columns can be read under those of a snapshot."""

from __future__ import annotations

import orjson

from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import Metadata
from rowlock.protocol.properties import column_mapping_mode
from rowlock.protocol.schema import ArrayType, DataType, MapType, StructType, nullable_type, parse_schema, shared_parts, type_name
from rowlock.protocol.schema_fit import may_become


def unreadable(then: Metadata, shown: Snapshot) -> str | None:
    """The first difference that keeps rows written under `then` from being read under the columns of `shown`, as a phrase; None if there is none.

    Columns that only `shown` has are no reason: they are null in such rows.
    """
    now = {f.physical_name: f for f in shown.schema.fields}
    for f in parse_schema(then.schema_string, shown.table).fields:
        found = now.get(f.physical_name)
        if found is None:
            return f"had a column {f.name!r}, which is not there any more"
        if found.name != f.name:
            return f"called column {found.name!r} {f.name!r}"
        if not _holds(found.type, f.type):
            return f"had another type of column {f.name!r}"
    if then.partition_columns != shown.metadata.partition_columns:
        return "was partitioned by other columns"
    return None


def _holds(now: DataType, then: DataType) -> bool:
    """Whether values of an earlier type are read as the type that is there now: fields of structs may have come since, and a type may be a wider one."""
    if isinstance(now, StructType) and isinstance(then, StructType):
        fields = {f.physical_name: f for f in now.fields}
        found = [(fields.get(f.physical_name), f) for f in then.fields]
        return all(there is not None and there.name == f.name and _holds(there.type, f.type) for there, f in found)
    if inner := shared_parts(now, then):
        return all(_holds(a, b) for a, b in inner.values())
    return nullable_type(now) == nullable_type(then) or may_become(then, now)


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


# ---- plans that were analyzed before ----------------------------------------------------------


def columns_of(metadata: Metadata) -> str:
    """What a plan keeps of the columns that it was analyzed with, as JSON."""
    parts = [metadata.schema_string, column_mapping_mode(metadata.configuration), list(metadata.partition_columns)]
    return orjson.dumps(parts).decode()


def names_in(columns: str) -> list[str]:
    """The names of columns in the order in which a plan was analyzed with them."""
    return list(parse_schema(orjson.loads(columns)[0], "").names)


def incompatible(columns: str, now: Snapshot) -> str | None:
    """Why a plan that was analyzed with `columns` cannot read a snapshot, for the sentence "version 3 ..."; None where it can.  The rules are delta-spark's.

    Columns may have come since, and NOT NULL.  Under column mapping a column of the same name must be the same one.
    """
    then_string, then_mode, then_partitions = orjson.loads(columns)
    mode = column_mapping_mode(now.metadata.configuration)
    if then_string == now.metadata.schema_string and then_mode == mode and (mode == "none" or then_partitions == list(now.partition_columns)):
        return None
    then = parse_schema(then_string, now.table)
    if (why := _unfit(then, now.schema, mapped=then_mode != "none" and mode != "none", upgraded=then_mode == "none" and mode != "none")) is not None:
        return why
    if then_mode != "none" and mode == "none":
        return "does not map its columns any more"
    if mode != "none" and then_partitions != list(now.partition_columns):
        return "is partitioned by other columns"
    return None


def _unfit(then: StructType, now: StructType, *, mapped: bool, upgraded: bool) -> str | None:
    for f in then.fields:
        found = now.find(f.name)
        if found is None:
            return f"has no column {f.name!r}"
        if found.name != f.name:
            return f"calls column {f.name!r} {found.name!r}"
        if found.nullable and not f.nullable:
            return f"allows nulls in column {f.name!r}"
        if (mapped and found.physical_name != f.physical_name) or (upgraded and found.physical_name != f.name):
            return f"has another column {f.name!r}"
        if not _reads(f.type, found.type, mapped=mapped, upgraded=upgraded):
            return f"has another type of column {f.name!r}"
    return None


def _reads(then: DataType, now: DataType, *, mapped: bool, upgraded: bool) -> bool:
    """Whether values of the type that is there now are read as an earlier one."""
    if isinstance(then, StructType) and isinstance(now, StructType):
        return _unfit(then, now, mapped=mapped, upgraded=upgraded) is None
    if isinstance(then, ArrayType) and isinstance(now, ArrayType):
        return (then.contains_null or not now.contains_null) and _reads(then.element, now.element, mapped=mapped, upgraded=upgraded)
    if isinstance(then, MapType) and isinstance(now, MapType):
        pairs = (then.key, now.key), (then.value, now.value)
        return (then.value_contains_null or not now.value_contains_null) and all(_reads(a, b, mapped=mapped, upgraded=upgraded) for a, b in pairs)
    return then == now or type_name(then) == "void"
