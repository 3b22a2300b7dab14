"""Column defaults: the values that new rows get in columns which a statement does not name.

A default is SQL text in a column's metadata, in use where the protocol lists the feature (`features` refuses one without
the other).  Rows that are there never change by it.  Any expression is evaluated by Spark; `constant` decides the plain ones without it.  Pure.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation

from rowlock.conditions import named
from rowlock.exceptions import InvalidInput
from rowlock.protocol.schema import INTEGER_BITS, DecimalType, PrimitiveType, StructField, StructType

FEATURE = "allowColumnDefaults"
CURRENT_DEFAULT = "CURRENT_DEFAULT"
_TEXT = re.compile(r"'[^'\\]*'")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
_DATE = re.compile(r"date\s*'(\d{4}-\d{2}-\d{2})'", re.IGNORECASE)
Constant = bool | int | float | Decimal | str | datetime.date | None


class NotConstant(ValueError):
    """A default that only Spark can evaluate."""


def default_of(path: Sequence[str], defaults: Mapping[str, str], required: Collection[str]) -> str:
    """The expression that DEFAULT means in an assignment to a column; null for a field inside of one.  Raises InvalidInput where it would be null and is `required`."""
    name = path[0]
    if len(path) == 1 and name not in defaults and name in required:
        condition = named("NO_DEFAULT_COLUMN_VALUE_AVAILABLE", colName=f"`{name}`")
        raise InvalidInput(f"Column {name} is NOT NULL and has no default: give a value", condition=condition)
    return defaults.get(name, "null") if len(path) == 1 else "null"


def column_defaults(schema: StructType) -> dict[str, str]:
    """The default of each column that has one, as SQL text, by the column's name in schema order."""
    return {f.name: str(text) for f in schema.fields if (text := f.metadata.get(CURRENT_DEFAULT)) is not None}


def inner_defaults(schema: StructType) -> Iterator[str]:
    """Dotted names of nested fields that claim a default; no writer gives them one."""
    return (".".join(path) for path, f in schema.all_fields() if len(path) > 1 and CURRENT_DEFAULT in f.metadata)


def constant(field: StructField) -> Constant:
    """The value of a column's default where it is a plain literal that every engine reads alike; None where it has none.

    Raises NotConstant for any other default.
    """
    text = str(field.metadata.get(CURRENT_DEFAULT, "null")).strip()
    lowered = text.lower()
    if lowered == "null":
        return None
    if field.type == PrimitiveType("boolean") and lowered in ("true", "false"):
        return lowered == "true"
    if field.type == PrimitiveType("string") and _TEXT.fullmatch(text):
        return text[1:-1]
    if field.type == PrimitiveType("date") and (found := _DATE.fullmatch(text)):
        return _date(found[1])
    if _NUMBER.fullmatch(text):
        return _number(text, field)
    raise NotConstant(text)


def _date(text: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise NotConstant(text) from None


def _number(text: str, field: StructField) -> Constant:
    """A number that is exactly one of the column's type."""
    if isinstance(field.type, DecimalType):
        try:
            value = Decimal(text)
            if value == (rounded := value.quantize(Decimal(1).scaleb(-field.type.scale))) and len(rounded.as_tuple().digits) <= field.type.precision:
                return rounded
        except InvalidOperation:
            pass
    elif isinstance(field.type, PrimitiveType) and "." not in text:
        if (bits := INTEGER_BITS.get(field.type.name)) is not None and -(1 << bits - 1) <= int(text) < 1 << bits - 1:
            return int(text)
        if field.type.name == "double" and abs(int(text)) <= 1 << 53:
            return float(text)
    raise NotConstant(text)
