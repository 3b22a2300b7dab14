"""Columns of type char(n) and varchar(n), and such values inside of other types: strings with a bound, which is in the column's metadata as Spark writes it.

Values are at most n characters; spaces at the end that are too many are cut off, and a char(n) is filled up with spaces, when it is written and
when it is read: other engines store it as it came, also as the value of a partition, which then has two spellings.  So no file is skipped by a char
column.  Inside of other types nothing is cut, and values are filled up when they are read alone.  Bounds that do not fit the column's type are read, and writing them is refused by `features`.  Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from rowlock.conditions import named
from rowlock.exceptions import SchemaMismatch
from rowlock.protocol.column_values import GENERATION_EXPRESSION
from rowlock.protocol.schema import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType, quote, type_name

KEY = "__CHAR_VARCHAR_TYPE_STRING"
FEATURE = "char and varchar columns"
_ATOM = re.compile(r"\s*[A-Za-z_][A-Za-z0-9_ ]*(\([\d, ]+\))?")
_TEXT = re.compile(r"(char|varchar)\((\d+)\)")
_CHAR = re.compile(r"\bchar(?=\s*\()", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Bound:
    """The number of characters of a string: exactly (`char`) or at most (`varchar`)."""

    kind: str
    length: int

    def __str__(self) -> str:
        return f"{self.kind}({self.length})"


def bound_in(text: object) -> Bound | None:
    """The bound in the text of a column's metadata; None for no text, and for a type with bounds inside."""
    found = _TEXT.fullmatch(str(text).strip().lower()) if text is not None else None
    return None if found is None else Bound(found[1], int(found[2]))


def bounds(schema: StructType) -> dict[str, Bound]:
    """The columns that have a bound, by name."""
    return {f.name: found for f in schema.fields if (found := bound_in(f.metadata.get(KEY))) is not None}


def is_char(text: object) -> bool:
    """Whether the text in a column's metadata has a char(n), of the column or of a value inside of it."""
    return text is not None and _CHAR.search(str(text)) is not None


Inner = Bound | dict[str, "Inner"] | list["Inner"] | None


def inner_bounds(field: StructField, *, exact: bool = False) -> Inner:
    """The bounds inside of a column of another type: by field of a struct, by element of an array, by key and value of a map; None where there is none.

    Raises ValueError for a text in the metadata that does not describe the column's type; fields may have been renamed since, unless it must be `exact`.
    """
    text = str(field.metadata.get(KEY, ""))
    if isinstance(field.type, PrimitiveType) or not text:
        return None
    found, rest = _inner(text, field.type, exact)
    if rest:
        raise ValueError(f"{text!r} goes on where the type {type_name(field.type)} ends")
    return found


def _inner(text: str, type_: DataType, exact: bool) -> tuple[Inner, str]:
    """(the bounds in the type that the text begins with, the rest of the text)"""
    if isinstance(type_, StructType):
        fields: dict[str, Inner] = {}
        text = _without(text, "struct<")
        for n, f in enumerate(type_.fields):
            text = text if n == 0 else _without(text, ",")
            spelled = next((s for s in (f.name, f"`{f.name}`") if text.startswith(f"{s}:")), None)
            if spelled is None and exact:
                raise ValueError(f"{text!r} does not begin with the field {f.name}")
            fields[f.name], text = _inner(_without(text[len(spelled or text.partition(":")[0]) :], ":"), f.type, exact)
        return fields, _without(text, ">")
    if isinstance(type_, ArrayType):
        element, text = _inner(_without(text, "array<"), type_.element, exact)
        return [element], _without(text, ">")
    if isinstance(type_, MapType):
        key, text = _inner(_without(text, "map<"), type_.key, exact)
        value, text = _inner(_without(text, ","), type_.value, exact)
        return [key, value], _without(text, ">")
    found = _ATOM.match(text)
    if found is None:
        raise ValueError(f"{text!r} is no type")
    return bound_in(found[0]), text[found.end() :]


def respelled(schema: StructType) -> StructType:
    """The columns with bounds inside that name the fields as their types do: a field was renamed."""
    return StructType(
        tuple(
            replace(f, metadata={**f.metadata, KEY: _spelled(f.type, inner_bounds(f))}) if KEY in f.metadata and not isinstance(f.type, PrimitiveType) else f
            for f in schema.fields
        )
    )


def _spelled(type_: DataType, inner: Any) -> str:
    """A type with its bounds, as Spark has it in the metadata of a column."""
    if isinstance(type_, StructType):
        names = {f.name: f.name if re.fullmatch(r"[A-Za-z_]\w*", f.name, re.ASCII) else quote(f.name) for f in type_.fields}
        return f"struct<{','.join(f'{names[f.name]}:{_spelled(f.type, inner[f.name])}' for f in type_.fields)}>"
    if isinstance(type_, ArrayType):
        return f"array<{_spelled(type_.element, inner[0])}>"
    if isinstance(type_, MapType):
        return f"map<{_spelled(type_.key, inner[0])},{_spelled(type_.value, inner[1])}>"
    return str(inner or type_name(type_, sql=True))


def _without(text: str, start: str) -> str:
    text = text.lstrip()
    if not text.lower().startswith(start):
        raise ValueError(f"{text!r} does not begin with {start}")
    return text[len(start) :]


def is_known(field: StructField) -> bool:
    """Whether the column has no bound, or bounds that its type has room for."""
    if isinstance(field.type, PrimitiveType):
        return KEY not in field.metadata or (field.type == PrimitiveType("string") and bound_in(field.metadata[KEY]) is not None)
    try:
        inner_bounds(field, exact=True)
    except ValueError:
        return False
    return True


def unknown_bounds(schema: StructType) -> Iterator[str]:
    """Dotted names of the fields whose bounds are not enforced: of no known form, in the metadata of a field of a struct, and of a generated column."""
    for path, f in schema.all_fields():
        if KEY in f.metadata and (len(path) > 1 or not is_known(f) or GENERATION_EXPRESSION in f.metadata):
            yield ".".join(path)


def as_varchar(text: object) -> str:
    """The text of a column's metadata with varchar(n) for each char(n)."""
    return _CHAR.sub("varchar", str(text))


def conditions(schema: StructType) -> Iterator[tuple[str, str]]:
    """(name, SQL expression) of what the bounds of each column demand of a row."""
    for f in schema.fields:
        bound = bound_in(f.metadata.get(KEY))
        if bound is not None:
            yield name_of(f.name, bound), _demanded(quote(f.name), bound)
        elif KEY in f.metadata and is_known(f) and (text := _demanded(quote(f.name), inner_bounds(f))):
            yield f"char and varchar in {f.name}", text


def name_of(column: str, bound: Bound) -> str:
    """The name of the condition that a column's bound is."""
    return f"{bound} of {column}"


def _demanded(value: str, inner: Inner, depth: int = 0) -> str:
    """The condition on a value, as SQL; an empty text for none."""
    if isinstance(inner, Bound):
        return f"{value} IS NULL OR length({value}) <= {inner.length}"
    if isinstance(inner, dict):
        parts = [_demanded(f"{value}.{quote(name)}", of, depth) for name, of in inner.items()]
    elif inner is None:
        parts = []
    else:
        held, x = [value] if len(inner) == 1 else [f"map_keys({value})", f"map_values({value})"], f"x{depth}"
        each = [_demanded(x, of, depth + 1) for of in inner]
        parts = [f"{values} IS NULL OR forall({values}, {x} -> {demanded})" for values, demanded in zip(held, each, strict=True) if demanded]
    parts = [part for part in parts if part]
    return parts[0] if len(parts) == 1 else " AND ".join(f"({part})" for part in parts)


def rebound(field: StructField, wanted: object, table: str) -> StructField:
    """The column with the bound in a text, or with none.  Raises SchemaMismatch where values that are there might not fit, as Spark does, and for bounds
    inside of other types."""
    present = field.metadata.get(KEY)
    if wanted == present:
        return field
    before, after = bound_in(present), bound_in(wanted)
    widens = before is not None and (wanted is None or (after is not None and after.kind == "varchar" and after.length >= before.length))
    if not widens:
        raise not_rebound(field.name, str(present or type_name(field.type, sql=True)), wanted, table)
    others = {k: v for k, v in field.metadata.items() if k != KEY}
    return replace(field, metadata=others if wanted is None else {**others, KEY: str(after)})


def not_rebound(name: str, before: str, wanted: object, table: str) -> SchemaMismatch:
    """The error for a bound that existing values might not fit."""
    text = f"Column {name} is {before} and cannot become {wanted or 'without a bound'}: only a longer varchar, or string, has room for all values "
    return SchemaMismatch(text, table=table, condition=named("NOT_SUPPORTED_CHANGE_COLUMN"))
