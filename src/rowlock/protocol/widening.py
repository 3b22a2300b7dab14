"""Lossless type conversions: which types may be appended to a column, which type a column may be widened to, and how the schema records that.  Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rowlock.protocol.schema import (
    TYPE_CHANGES,
    ArrayType,
    DataType,
    DecimalType,
    PrimitiveType,
    StructField,
    StructType,
    shared_parts,
    type_name,
    with_parts,
)

Widening = Callable[[DataType, DataType], bool]
"""Whether a column of one type may be widened to another."""

_WIDTH = {"byte": 1, "short": 2, "integer": 4, "long": 8}
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}


def is_wider(actual: DataType, wanted: DataType) -> bool:
    """Whether every value of type `actual` converts to type `wanted` without loss."""
    if actual == PrimitiveType("void"):
        return True
    if isinstance(actual, DecimalType):
        return isinstance(wanted, DecimalType) and wanted.scale >= actual.scale and wanted.precision - wanted.scale >= actual.precision - actual.scale
    if isinstance(actual, ArrayType) and isinstance(wanted, ArrayType):
        return is_wider(actual.element, wanted.element) or same_shape(actual.element, wanted.element)
    return isinstance(actual, PrimitiveType) and _is_wider_number(actual.name, wanted)


def _is_wider_number(actual: str, wanted: DataType) -> bool:
    if actual == "float":
        return wanted == PrimitiveType("double")
    width = _WIDTH.get(actual)
    if width is None:
        return False
    if isinstance(wanted, DecimalType):
        return wanted.precision - wanted.scale >= _DIGITS[actual]
    if not isinstance(wanted, PrimitiveType):
        return False
    return width <= _WIDTH.get(wanted.name, {"double": 4, "float": 2}.get(wanted.name, 0))


def same_shape(a: DataType, b: DataType) -> bool:
    """Whether two types are equal apart from nullability and metadata; struct field names must match exactly."""
    if isinstance(a, StructType) and isinstance(b, StructType):
        return len(a.fields) == len(b.fields) and all(x.name == y.name and same_shape(x.type, y.type) for x, y in zip(a.fields, b.fields, strict=True))
    inner = shared_parts(a, b).values()
    return all(same_shape(x, y) for x, y in inner) if inner else a == b


def may_become(old: DataType, new: DataType) -> bool:
    """Whether ALTER COLUMN may widen a column of one type to another: whole numbers, decimals, byte, short or int to double or a decimal of 10 digits, and date
    to timestamp_ntz."""
    if old == PrimitiveType("date"):
        return new == PrimitiveType("timestamp_ntz")
    if isinstance(new, DecimalType) and isinstance(old, PrimitiveType):
        return old.name in _WIDTH and new.precision - new.scale >= (
            20 if old.name == "long" else 10
        )  # the decimals as which Parquet's readers take these types
    if isinstance(old, PrimitiveType) and isinstance(new, PrimitiveType) and new.name in ("double", "float"):
        return new.name == "double" and old.name in ("byte", "short", "integer", "float")
    return old != new and not isinstance(old, ArrayType) and old != PrimitiveType("void") and is_wider(old, new)


def stays_in_family(old: DataType, new: DataType) -> bool:
    """Whether a column may be widened to a type of the same kind: no whole number to a decimal or a double."""
    return (
        may_become(old, new)
        and (isinstance(old, DecimalType) == isinstance(new, DecimalType))
        and (old == PrimitiveType("float") or new != PrimitiveType("double"))
    )


def with_type(field: StructField, wanted: DataType, may: Widening) -> StructField:
    """The field with the wanted type wherever in it `may` lets the present type become that, and with these changes in its metadata.

    Fields of structs record their own changes; those of the elements, keys and values of arrays and maps stand at the field, by their place in it.
    """
    changes: list[dict[str, str]] = []

    def at(old: DataType, new: DataType, *place: str) -> DataType:
        if isinstance(old, StructType) and isinstance(new, StructType):
            return StructType(tuple(f if (found := new.find(f.name)) is None else with_type(f, found.type, may) for f in old.fields))
        if inner := shared_parts(old, new):
            return with_parts(old, {name: at(a, b, *place, name) for name, (a, b) in inner.items()})
        if not may(old, new):
            return old
        changes.append({"toType": type_name(new), "fromType": type_name(old)} | ({"fieldPath": ".".join(place)} if place else {}))
        return new

    widened = replace(field, type=at(field.type, wanted))
    return replace(widened, metadata={**field.metadata, TYPE_CHANGES: [*field.metadata.get(TYPE_CHANGES, ()), *changes]}) if changes else widened
