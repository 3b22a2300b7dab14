"""Columns of type char(n) and varchar(n): strings with a bound, which stands in the column's metadata as Spark writes it.

Values are at most n characters; spaces at the end that are too many are cut off, and a char(n) is filled up with spaces, when it is written and
when it is read: other engines store it as it came.  So no file is skipped by the statistics of a char column.  Bounds inside of other
types are refused by `features`.  Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rowlock.exceptions import SchemaMismatch
from rowlock.protocol.generated import GENERATION_EXPRESSION
from rowlock.protocol.schema import PrimitiveType, StructField, StructType

KEY = "__CHAR_VARCHAR_TYPE_STRING"
FEATURE = "char and varchar columns"
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


def conditions(schema: StructType) -> Iterator[tuple[str, str]]:
    """(name, SQL expression) of what each bound demands of a row."""
    for name, bound in bounds(schema).items():
        quoted = "`" + name.replace("`", "``") + "`"
        yield f"{bound} of {name}", f"{quoted} IS NULL OR length({quoted}) <= {bound.length}"


def rebound(field: StructField, wanted: Bound | None, table: str) -> StructField:
    """The string column with another bound, or with none.  Raises SchemaMismatch where values that are there might not fit, as Spark does."""
    before = bound_in(field.metadata.get(KEY))
    if wanted == before:
        return field
    if wanted is not None and (before is None or wanted.kind == "char" or wanted.length < before.length):
        raise SchemaMismatch(
            f"Column {field.name} is {before or 'string'} and cannot become {wanted}: only a longer varchar, or string, has room for all values "
            "[NOT_SUPPORTED_CHANGE_COLUMN]",
            table=table,
        )
    kept = {k: v for k, v in field.metadata.items() if k != KEY}
    return replace(field, metadata=kept if wanted is None else {**kept, KEY: str(wanted)})
