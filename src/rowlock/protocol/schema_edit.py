"""Changes of a schema at any depth: fields that are added, moved, renamed, dropped or described.

A path leads through structs by names, through arrays by `element` and through maps by `key` and `value`.  `table` is the one that errors name.  Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rowlock import display
from rowlock.conditions import Condition, named
from rowlock.exceptions import SchemaMismatch
from rowlock.protocol import char_varchar
from rowlock.protocol.schema import DataType, StructField, StructType, dotted, nullable, parts, quote, shared_parts, type_name, unresolved_column, with_parts


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a field among the others: first, or after the one that `after` names."""

    after: str | None = None


def added(schema: StructType, parent: Sequence[str], field: StructField, position: Position | None, table: str) -> StructType:
    """The schema with one more field in the struct at `parent`.  Raises SchemaMismatch for a name that is taken, or a place that is not there."""

    def add(struct: StructType) -> StructType:
        if struct.find(field.name) is not None:
            text = f"there is a column {'.'.join([*parent, field.name])!r} already, and two cannot have the same name"
            condition = named("FIELD_ALREADY_EXISTS", op="add", fieldNames=quote(field.name), struct=type_name(schema, sql=True))
            raise SchemaMismatch(text, table=table, condition=condition)
        return StructType(_placed(struct.fields, field, position, table))

    return _within(schema, parent, field.name, add, table)


def moved(schema: StructType, path: Sequence[str], position: Position, table: str) -> StructType:
    """The schema with a field at another position of its struct."""
    field = field_at(schema, path, table)
    if position.after is not None and position.after.lower() == field.name.lower():
        return schema
    if position.after is not None:
        field_at(schema, (*path[:-1], position.after), table)

    def move(struct: StructType) -> StructType:
        return StructType(_placed(tuple(f for f in struct.fields if f is not field), field, position, table))

    return _within(schema, path[:-1], field.name, move, table)


def with_field(schema: StructType, path: Sequence[str], change: Callable[[StructField], StructField | None], table: str) -> StructType:
    """The schema with a field replaced by what `change` makes of it; None drops it."""
    field = field_at(schema, path, table)
    changed = change(field)

    def swap(struct: StructType) -> StructType:
        if changed is not None and changed.name.lower() != field.name.lower() and struct.find(changed.name) is not None:
            condition = named("FIELD_ALREADY_EXISTS", op="rename", fieldNames=quote(changed.name), struct=type_name(schema, sql=True))
            raise SchemaMismatch(f"there is a column {'.'.join([*path[:-1], changed.name])!r} already", table=table, condition=condition)
        if not (left := tuple(f for f in (changed if f is field else f for f in struct.fields) if f is not None)):
            text = f"column {'.'.join(path)!r} is the only one of its {'table' if len(path) == 1 else 'struct'} and cannot be dropped"
            raise SchemaMismatch(text, table=table, condition=named("DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA", schema=", ".join(struct.names)))
        return StructType(left)

    return _within(schema, path[:-1], field.name, swap, table)


def owner(schema: StructType, path: Sequence[str]) -> tuple[StructField, int] | None:
    """The innermost field on a path through structs, arrays and maps, and how many parts of the path lead to it; None where the path leads nowhere."""
    found: tuple[StructField, int] | None = None
    here: DataType = schema
    for n, name in enumerate(path, 1):
        if isinstance(here, StructType):
            field = here.find(name)
            if field is None:
                return None
            found, here = (field, n), field.type
        elif (part := parts(here).get(name.lower())) is None:
            return None
        else:
            here = part
    return found


def field_at(schema: StructType, path: Sequence[str], table: str) -> StructField:
    """The field that a path leads to.  Raises SchemaMismatch where there is none."""
    found = owner(schema, path)
    if found is None or found[1] != len(path):
        name = ".".join(path)
        text = f"there is no column {name!r}; the table has {', '.join(schema.names)}{display.did_you_mean(name, schema.names)}"
        raise SchemaMismatch(text, table=table, condition=no_field(schema, path))
    return found[0]


def no_field(schema: StructType, path: Sequence[str]) -> Condition:
    """The condition of a path that leads to no field: that what it goes through is no struct, or has none of its name."""
    here: DataType | None = schema
    for n, name in enumerate(path):
        if isinstance(here, StructType):
            here = field.type if (field := here.find(name)) is not None else None
        elif here is not None and (here := parts(here).get(name.lower())) is None:
            return named("INVALID_FIELD_NAME", fieldName=dotted(path), path=dotted(path[:n]))
    return unresolved_column(path, schema.names) if here is None else named("INVALID_FIELD_NAME", fieldName=dotted(path), path=dotted(path[:-1]))


def with_part(type_: DataType, place: Sequence[str], new: DataType) -> DataType:
    """A type with another type at a place within its arrays and maps."""
    return _edited(type_, place, lambda _: new, place, None)


def _placed(fields: tuple[StructField, ...], field: StructField, position: Position | None, table: str) -> tuple[StructField, ...]:
    if position is None:
        return (*fields, field)
    if position.after is None:
        return (field, *fields)
    at = next((n for n, f in enumerate(fields) if f.name.lower() == position.after.lower()), None)
    if at is None:
        names = ", ".join(f.name for f in fields)
        missing = named("FIELD_NOT_FOUND", fieldName=position.after, fields=names)
        raise SchemaMismatch(f"there is no column {position.after!r} to come after; there are {names}", table=table, condition=missing)
    return (*fields[: at + 1], field, *fields[at + 1 :])


def _within(schema: StructType, path: Sequence[str], name: str, edit: Callable[[StructType], StructType], table: str) -> StructType:
    """The schema with the struct at a path, of which `name` is or will be a field, changed."""

    def changed(type_: DataType) -> DataType:
        if not isinstance(type_, StructType):
            condition = named("INVALID_FIELD_NAME", fieldName=dotted((*path, name)), path=dotted(path))
            raise SchemaMismatch(f"{'.'.join(path)!r} is no struct", table=table, condition=condition)
        return edit(type_)

    edited = _edited(schema, path, changed, path, table)
    assert isinstance(edited, StructType)
    return edited


def _edited(type_: DataType, path: Sequence[str], edit: Callable[[DataType], DataType], whole: Sequence[str], table: str | None) -> DataType:
    """A type with what is at a path below it changed."""
    if not path:
        return edit(type_)
    if isinstance(type_, StructType) and (found := type_.find(path[0])) is not None:
        edited = replace(found, type=_edited(found.type, path[1:], edit, whole, table))
        return StructType(tuple(edited if f is found else f for f in type_.fields))
    if (part := parts(type_).get(name := path[0].lower())) is not None:
        return with_parts(type_, {name: _edited(part, path[1:], edit, whole, table)})
    here = whole[: len(whole) - len(path) + 1]
    no_struct = named("INVALID_FIELD_NAME", fieldName=dotted(here), path=dotted(here[:-1]))
    condition = unresolved_column(here, type_.names) if isinstance(type_, StructType) else no_struct
    raise SchemaMismatch(f"there is no column {'.'.join(whole)!r}", table=table, condition=condition)


def with_columns(schema: StructType, columns: StructType, table: str, *, drops: bool = False) -> StructType:
    """The schema with the columns, at any depth, in the order and with the comments of `columns`, and with those that it adds, nullable.

    A column keeps its name, its metadata and its id, and becomes nullable where it is in `columns`.  Raises SchemaMismatch for one of another
    type, and where one is missing, which `drops` drops from structs that get no other.
    """
    edited = _with_fields(schema, columns, (), table, drops)
    assert isinstance(edited, StructType)
    return edited


def _with_fields(old: DataType, new: DataType, path: tuple[str, ...], table: str, drops: bool) -> DataType:
    if isinstance(old, StructType) and isinstance(new, StructType):
        names = [f.name.lower() for f in new.fields]
        gone = next((f.name for f in old.fields if f.name.lower() not in names), None)
        if gone and (not drops or any(old.find(f.name) is None for f in new.fields)):
            renamed = ", or be another's former name: rename it, or drop it, by a statement of its own" if drops else ""
            raise _not_replaced(f"column {'.'.join([*path, gone])!r} is missing, and would be dropped{renamed}", table)
        return StructType(tuple(_merged(old.find(f.name), f, path, table, drops) for f in new.fields))
    if inner := shared_parts(old, new):
        return with_parts(old, {name: _with_fields(*both, (*path, name), table, drops) for name, both in inner.items()})
    if old != new:
        raise _not_replaced(f"column {'.'.join(path)!r} is {type_name(old, sql=True)}, and cannot become {type_name(new, sql=True)}", table)
    return old


def _merged(old: StructField | None, new: StructField, path: tuple[str, ...], table: str, drops: bool) -> StructField:
    if old is None:
        return nullable(StructType((new,))).fields[0]
    type_ = _with_fields(old.type, new.type, (*path, old.name), table, drops)
    if (was := old.metadata.get(char_varchar.KEY)) != (wanted := new.metadata.get(char_varchar.KEY)):
        text = f"column {'.'.join([*path, old.name])!r} is {was or type_name(old.type, sql=True)}, and cannot become {wanted or type_name(new.type, sql=True)}"
        raise _not_replaced(text, table)
    return replace(old, type=type_, nullable=old.nullable or new.nullable, metadata={**old.metadata, **new.metadata})


def _not_replaced(why: str, table: str) -> SchemaMismatch:
    return SchemaMismatch(f"The columns cannot be replaced: {why}", table=table, condition=named("DELTA_UNSUPPORTED_ALTER_TABLE_REPLACE_COL_OP"))
