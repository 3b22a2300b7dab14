"""Lossless type conversions: which types may be appended to a column, and which types a widened column's old files may have.  Pure."""

from __future__ import annotations

from rowlock.protocol.schema import ArrayType, DataType, DecimalType, MapType, PrimitiveType, StructType

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
    if isinstance(a, ArrayType) and isinstance(b, ArrayType):
        return same_shape(a.element, b.element)
    if isinstance(a, MapType) and isinstance(b, MapType):
        return same_shape(a.key, b.key) and same_shape(a.value, b.value)
    return a == b
