"""Columns of type char(n) and varchar(n): strings with a bound, which is in the column's metadata as Spark writes it.

Values are at most n characters; spaces at the end that are too many are cut off, and a char(n) is filled up with spaces, when it is written and
when it is read: other engines store it as it came.  So no file is skipped by the statistics of a char column.  Columns with bounds inside of
other types are read, and writing them is refused by `features`.  Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rowlock.conditions import named
from rowlock.exceptions import SchemaMismatch
from rowlock.protocol.generated import GENERATION_EXPRESSION
from rowlock.protocol.schema import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType, quote, type_name

KEY = "__CHAR_VARCHAR_TYPE_STRING"
FEATURE = "char and varchar columns"
_ATOM = re.compile(r"\s*[A-Za-z_][A-Za-z0-9_ ]*(\([\d, ]+\))?")
_TEXT = re.compile(r"(char|varchar)\((\d+)\)")


@dataclass(frozen=True, slots=True)
class Bound:
    """How many characters a string has: exactly (`char`) or at most (`varchar`)."""

    kind: str
    length: int

    def __str__(self) -> str:
        return f"{self.kind}({self.length})"


def bound_in(text: object) -> Bound | None:
    """The bound that the text in a column's metadata says; None for no text, and for a type with bounds inside."""
    found = _TEXT.fullmatch(str(text).strip().lower()) if text is not None else None
    return None if found is None else Bound(found[1], int(found[2]))


def bounds(schema: StructType) -> dict[str, Bound]:
    """The columns that have a bound, by name."""
    return {f.name: found for f in schema.fields if (found := bound_in(f.metadata.get(KEY))) is not None}


def is_char(text: object) -> bool:
    """Whether the text in a column's metadata says char(n)."""
    return (found := bound_in(text)) is not None and found.kind == "char"


Inner = Bound | dict[str, "Inner"] | list["Inner"] | None


def inner_chars(field: StructField) -> Inner:
    """The char(n) inside of a column of another type: by field of a struct, by element of an array, by key and value of a map; None where there is none.

    Raises ValueError for a text in the metadata that does not describe the column's type.
    """
    text = str(field.metadata.get(KEY, ""))
    if isinstance(field.type, PrimitiveType) or "char(" not in text.lower().replace("varchar(", ""):
        return None
    found, rest = _inner(text, field.type)
    if rest:
        raise ValueError(f"{text!r} goes on where the type {type_name(field.type)} ends")
    return found


def _inner(text: str, type_: DataType) -> tuple[Inner, str]:
    """(the bounds in the type that the text begins with, the rest of the text)"""
    if isinstance(type_, StructType):
        fields: dict[str, Inner] = {}
        text = _without(text, "struct<")
        for n, f in enumerate(type_.fields):
            text = text if n == 0 else _without(text, ",")
            spelled = next((s for s in (f.name, f"`{f.name}`") if text.startswith(f"{s}:")), text.partition(":")[0])
            fields[f.name], text = _inner(_without(text[len(spelled) :], ":"), f.type)
        return fields, _without(text, ">")
    if isinstance(type_, ArrayType):
        element, text = _inner(_without(text, "array<"), type_.element)
        return [element], _without(text, ">")
    if isinstance(type_, MapType):
        key, text = _inner(_without(text, "map<"), type_.key)
        value, text = _inner(_without(text, ","), type_.value)
        return [key, value], _without(text, ">")
    found = _ATOM.match(text)
    if found is None:
        raise ValueError(f"{text!r} is no type")
    bound = bound_in(found[0])
    return (bound if bound is not None and bound.kind == "char" else None), text[found.end() :]


def _without(text: str, start: str) -> str:
    text = text.lstrip()
    if not text.lower().startswith(start):
        raise ValueError(f"{text!r} does not begin with {start}")
    return text[len(start) :]


def unknown_bounds(schema: StructType, partition_columns: Sequence[str]) -> Iterator[str]:
    """Dotted names of the fields whose bounds are not enforced: inside of other types, of no known form, of a generated column, and char columns by which
    the table is partitioned, where one value may have several spellings."""
    for path, f in schema.all_fields():
        if len(path) == 1 and f.name in partition_columns and is_char(f.metadata.get(KEY)):
            yield f.name
        elif KEY in f.metadata and (
            len(path) > 1 or bound_in(f.metadata[KEY]) is None or f.type != PrimitiveType("string") or GENERATION_EXPRESSION in f.metadata
        ):
            yield ".".join(path)


def without_char_partitions(schema: StructType, partition_columns: Sequence[str]) -> StructType:
    """The schema of a new table, whose partition columns are strings where the rows have char(n): these are refused for writing."""
    partitions = {c.lower() for c in partition_columns}
    return StructType(
        tuple(
            replace(f, metadata={k: v for k, v in f.metadata.items() if k != KEY}) if f.name.lower() in partitions and is_char(f.metadata.get(KEY)) else f
            for f in schema.fields
        )
    )


def conditions(schema: StructType) -> Iterator[tuple[str, str]]:
    """(name, SQL expression) of what each bound demands of a row."""
    for name, bound in bounds(schema).items():
        quoted = quote(name)
        yield f"{bound} of {name}", f"{quoted} IS NULL OR length({quoted}) <= {bound.length}"


def rebound(field: StructField, wanted: Bound | None, table: str) -> StructField:
    """The string column with another bound, or with none.  Raises SchemaMismatch where values that are there might not fit, as Spark does."""
    before = bound_in(field.metadata.get(KEY))
    if wanted == before:
        return field
    if wanted is not None and (before is None or wanted.kind == "char" or wanted.length < before.length):
        raise SchemaMismatch(
            f"Column {field.name} is {before or 'string'} and cannot become {wanted}: only a longer varchar, or string, has room for all values ",
            table=table,
            condition=named("NOT_SUPPORTED_CHANGE_COLUMN"),
        )
    others = {k: v for k, v in field.metadata.items() if k != KEY}
    return replace(field, metadata=others if wanted is None else {**others, KEY: str(wanted)})
