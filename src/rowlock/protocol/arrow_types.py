"""Conversion between Delta and Arrow types and schemas.

Timestamps are microseconds, with UTC for `timestamp` and without a zone for `timestamp_ntz`.  Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import pyarrow as pa

from rowlock.protocol.schema import VOID, ArrayType, DataType, DecimalType, MapType, PrimitiveType, StructField, StructType, unsupported_type

VARIANT = pa.struct([pa.field("value", pa.binary()), pa.field("metadata", pa.binary(), metadata={"variant": "true"})])
"""A variant as PySpark gives it to Arrow: the two binaries of Parquet's variant encoding, distinguished from any other struct by the mark at `metadata`."""
SPARK_VERSION = "org.apache.spark.version"
CALENDAR = {SPARK_VERSION: "4.0.0"}
"""Written into Parquet footers: Spark reads dates and times by the calendar of the writing version, and ours is that of Spark 3 and later."""
_LEGACY_TIMES, _LEGACY_INT96 = b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"
_TO_ARROW: dict[str, pa.DataType] = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "variant": VARIANT,
    "void": pa.null(),
}
_FROM_ARROW: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_int64, "long"),
    (pa.types.is_int32, "integer"),
    (pa.types.is_int16, "short"),
    (pa.types.is_int8, "byte"),
    (pa.types.is_uint8, "short"),
    (pa.types.is_uint16, "integer"),
    (pa.types.is_uint32, "long"),
    (pa.types.is_float64, "double"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float16, "float"),
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_date, "date"),
    (lambda t: bool(pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t)), "string"),
    (lambda t: bool(pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_fixed_size_binary(t) or pa.types.is_binary_view(t)), "binary"),
)


def is_variant(type_: pa.DataType) -> bool:
    """Whether an Arrow type is a variant and not a plain struct of two binaries."""
    return type_ == VARIANT and (type_.field("metadata").metadata or {}).get(b"variant") == b"true"


def to_arrow_type(type_: DataType) -> pa.DataType:
    """The Arrow type that holds a column of a Delta type."""
    if isinstance(type_, PrimitiveType):
        return _TO_ARROW[type_.name]
    if isinstance(type_, DecimalType):
        return pa.decimal128(type_.precision, type_.scale)
    if isinstance(type_, StructType):
        return pa.struct([_to_field(f) for f in type_.fields])
    if isinstance(type_, ArrayType):
        return pa.list_(pa.field("element", to_arrow_type(type_.element), type_.contains_null))
    value = pa.field("value", to_arrow_type(type_.value), type_.value_contains_null)
    return pa.map_(pa.field("key", to_arrow_type(type_.key), False), value)


def _to_field(f: StructField) -> pa.Field:
    return pa.field(f.name, to_arrow_type(f.type), f.nullable or f.type == PrimitiveType(VOID))


def to_arrow(schema: StructType) -> pa.Schema:
    """The Arrow schema of a table."""
    return pa.schema([_to_field(f) for f in schema.fields])


_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_list_view, pa.types.is_large_list_view)


def is_list(type_: pa.DataType) -> bool:
    """Whether a type is a list, in whichever of Arrow's forms: in files all are one."""
    return any(is_form(type_) for is_form in _LISTS)


def from_arrow_type(type_: pa.DataType) -> DataType:
    """The Delta type that holds the values of an Arrow type; raises UnsupportedFeature if there is none."""
    if pa.types.is_dictionary(type_):
        return from_arrow_type(type_.value_type)
    for matches, name in _FROM_ARROW:
        if matches(type_):
            return PrimitiveType(name)
    if pa.types.is_timestamp(type_):
        return PrimitiveType("timestamp" if type_.tz else "timestamp_ntz")
    if pa.types.is_decimal(type_) and type_.precision <= 38 and 0 <= type_.scale <= type_.precision:
        return DecimalType(type_.precision, type_.scale)
    if pa.types.is_struct(type_):
        return StructType(tuple(_from_field(type_.field(i)) for i in range(type_.num_fields)))
    if pa.types.is_map(type_):
        return MapType(from_arrow_type(type_.key_type), from_arrow_type(type_.item_type), type_.item_field.nullable)
    if is_list(type_) and not (pa.types.is_list_view(type_) or pa.types.is_large_list_view(type_)):  # which pyarrow 26 casts wrongly
        return ArrayType(from_arrow_type(type_.value_type), type_.value_field.nullable)
    raise unsupported_type(f"{type_} (Arrow)")


def _from_field(f: pa.Field) -> StructField:
    return StructField(f.name, from_arrow_type(f.type), f.nullable)


def from_arrow(schema: pa.Schema) -> StructType:
    """The Delta schema of a new table that is created from Arrow rows."""
    return StructType(tuple(_from_field(f) for f in schema))


def legacy_calendars(footer: Mapping[bytes, bytes]) -> tuple[bool, bool]:
    """Whether a Parquet file may count dates and times, and whether it may count INT96, in the calendar of Spark 2: by its footer's key-value metadata."""
    found = re.match(rb"(\d+)\.(\d+)", footer.get(SPARK_VERSION.encode(), b""))
    version = (int(found[1]), int(found[2])) if found else (4, 0)
    return version < (3, 0) or _LEGACY_TIMES in footer, version < (3, 1) or _LEGACY_INT96 in footer
