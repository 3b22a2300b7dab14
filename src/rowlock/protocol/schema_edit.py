"""Changes of a schema at any depth: fields that are added, moved, renamed, dropped or described.

A path leads through structs by names, through arrays by `element` and through maps by `key` and `value`.  Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rowlock.exceptions import SchemaMismatch
from rowlock.protocol.schema import ArrayType, DataType, MapType, StructField, StructType


@dataclass(frozen=True, slots=True)
class Position:
    """Where a field stands among the others: first, or after the one that `after` names."""

    after: str | None = None


def added(schema: StructType, parent: Sequence[str], field: StructField, position: Position | None) -> StructType:
    """The schema with one more field in the struct at `parent`.  Raises SchemaMismatch for a name that is taken, or a place that is not there."""

    def add(struct: StructType) -> StructType:
        if struct.find(field.name) is not None:
            raise SchemaMismatch(f"there is a column {'.'.join([*parent, field.name])!r} already")
        return StructType(_placed(struct.fields, field, position))

    return _within(schema, parent, add, parent)


def moved(schema: StructType, path: Sequence[str], position: Position) -> StructType:
    """The schema with a field at another position of its struct."""

    def move(struct: StructType) -> StructType:
        field = _field(struct, path)
        if position.after is not None and position.after.lower() == field.name.lower():
            raise SchemaMismatch(f"column {'.'.join(path)!r} cannot come after itself")
        return StructType(_placed(tuple(f for f in struct.fields if f is not field), field, position))

    return _within(schema, path[:-1], move, path)


def with_field(schema: StructType, path: Sequence[str], change: Callable[[StructField], StructField | None]) -> StructType:
    """The schema with a field replaced by what `change` makes of it; None drops it."""

    def swap(struct: StructType) -> StructType:
        field = _field(struct, path)
        made = change(field)
        if made is not None and made.name.lower() != field.name.lower() and struct.find(made.name) is not None:
            raise SchemaMismatch(f"there is a column {'.'.join([*path[:-1], made.name])!r} already")
        kept = [made if f is field else f for f in struct.fields]
        if not (left := tuple(f for f in kept if f is not None)):
            raise SchemaMismatch(f"column {'.'.join(path)!r} is the last one of its struct and cannot be dropped")
        return StructType(left)

    return _within(schema, path[:-1], swap, path)


def _field(struct: StructType, path: Sequence[str]) -> StructField:
    found = struct.find(path[-1])
    if found is None:
        raise SchemaMismatch(f"there is no column {'.'.join(path)!r}; there are {', '.join(struct.names)}")
    return found


def _placed(fields: tuple[StructField, ...], field: StructField, position: Position | None) -> tuple[StructField, ...]:
    if position is None:
        return (*fields, field)
    if position.after is None:
        return (field, *fields)
    at = next((n for n, f in enumerate(fields) if f.name.lower() == position.after.lower()), None)
    if at is None:
        raise SchemaMismatch(f"there is no column {position.after!r} to come after; there are {', '.join(f.name for f in fields)}")
    return (*fields[: at + 1], field, *fields[at + 1 :])


def _within(type_: DataType, path: Sequence[str], edit: Callable[[StructType], StructType], whole: Sequence[str]) -> StructType:
    made = _edited(type_, path, edit, whole)
    assert isinstance(made, StructType)
    return made


def _edited(type_: DataType, path: Sequence[str], edit: Callable[[StructType], StructType], whole: Sequence[str]) -> DataType:
    """A type with the struct at a path below it changed."""
    if not path:
        if not isinstance(type_, StructType):
            raise SchemaMismatch(f"{'.'.join(whole)!r} is no field of a struct")
        return edit(type_)
    name, rest = path[0], path[1:]
    if isinstance(type_, StructType):
        found = type_.find(name)
        if found is None:
            raise SchemaMismatch(f"there is no column {'.'.join(whole)!r}")
        made = replace(found, type=_edited(found.type, rest, edit, whole))
        return StructType(tuple(made if f is found else f for f in type_.fields))
    if isinstance(type_, ArrayType) and name.lower() == "element":
        return replace(type_, element=_edited(type_.element, rest, edit, whole))
    if isinstance(type_, MapType) and name.lower() == "key":
        return replace(type_, key=_edited(type_.key, rest, edit, whole))
    if isinstance(type_, MapType) and name.lower() == "value":
        return replace(type_, value=_edited(type_.value, rest, edit, whole))
    raise SchemaMismatch(f"there is no column {'.'.join(whole)!r}")
