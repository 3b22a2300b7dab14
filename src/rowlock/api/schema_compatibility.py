"""Whether rows that were written under a table's earlier or later columns can be read under those of a snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import orjson

from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import Metadata
from rowlock.protocol.properties import column_mapping_mode
from rowlock.protocol.schema import TYPE_CHANGES, ArrayType, DataType, MapType, StructField, StructType, nullable_type, parse_schema, type_name


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
        if not _holds(found.type, f.type, _widenings(found)):
            return f"had another type of column {f.name!r}"
    if then.partition_columns != shown.metadata.partition_columns:
        return "was partitioned by other columns"
    return None


Widenings = Mapping[str, Sequence[tuple[str, str]]]
"""How the types within a field were widened, oldest first: (from, to) by the place within the field, such as "" or "element"."""


def _widenings(field: StructField) -> Widenings:
    out: dict[str, list[tuple[str, str]]] = {}
    for change in field.metadata.get(TYPE_CHANGES) or ():
        out.setdefault(str(change.get("fieldPath") or ""), []).append((str(change["fromType"]), str(change["toType"])))
    return out


def _holds(now: DataType, then: DataType, widened: Widenings, place: str = "") -> bool:
    """Whether values of an earlier type are read as the type that is there now: fields of structs may have come since, and numbers may have been widened."""
    if isinstance(now, StructType) and isinstance(then, StructType):
        fields = {f.physical_name: f for f in now.fields}
        found = [(fields.get(f.physical_name), f) for f in then.fields]
        return all(there is not None and there.name == f.name and _holds(there.type, f.type, _widenings(there)) for there, f in found)
    if isinstance(now, ArrayType) and isinstance(then, ArrayType):
        return _holds(now.element, then.element, widened, _within(place, "element"))
    if isinstance(now, MapType) and isinstance(then, MapType):
        return all(_holds(a, b, widened, _within(place, name)) for a, b, name in ((now.key, then.key, "key"), (now.value, then.value, "value")))
    return nullable_type(now) == nullable_type(then) or _was(type_name(then), type_name(now), widened.get(place, ()))


def _within(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _was(then: str, now: str, widenings: Sequence[tuple[str, str]]) -> bool:
    """Whether a type was widened step by step to the one that is there now: another type of the same name, before the first step, was not."""
    for before, after in reversed(widenings):
        if after != now:
            return False
        if before == then:
            return True
        now = before
    return False


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
