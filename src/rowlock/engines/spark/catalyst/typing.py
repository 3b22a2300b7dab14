"""Parses the type of a column as users give it, a DataType or text such as 'BIGINT', and translates Spark's types into Delta's."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructField, StructType

from rowlock.conditions import named
from rowlock.exceptions import InvalidInput, WrongType
from rowlock.protocol import schema
from rowlock.protocol.char_varchar import KEY, bound_in


def parse_type(given: str | DataType) -> DataType:
    """The DataType that was given, as it is or parsed from text.  Raises InvalidInput for text that Spark's parser does not know."""
    if isinstance(given, DataType):
        return given
    if not isinstance(given, str):
        raise WrongType(f"A column's type (dataType) is a DataType or a string, not {type(given).__name__}")
    try:
        parsed = StructType.fromDDL(f"c {given}")
    except Exception as e:
        raise InvalidInput(f"{given!r} is not a type that Spark knows", condition=named("UNSUPPORTED_DATATYPE", typeName=f'"{given.upper()}"')) from e
    assert isinstance(parsed, StructType)
    return parsed.fields[0].dataType


def delta_schema(struct: StructType) -> schema.StructType:
    """Spark's columns as Delta's, with their comments and the bounds of char and varchar columns, and without other metadata."""
    columns = zip(_struct(struct).fields, struct.fields, strict=True)
    return schema.StructType(tuple(replace(column, metadata=_kept(f)) for column, f in columns))


def _kept(f: StructField) -> dict[str, object]:
    comment = {"comment": f.metadata["comment"]} if "comment" in f.metadata else {}
    return comment | ({KEY: f.metadata[KEY]} if bound_in(f.metadata.get(KEY)) else {})


def _struct(struct: StructType) -> schema.StructType:
    return schema.StructType(tuple(schema.StructField(f.name, delta_type(f.dataType), f.nullable) for f in struct.fields))


def delta_type(type_: DataType) -> schema.DataType:
    """Spark's type as Delta's.  One that Delta does not have, such as an interval, keeps Spark's name: it fits no column, and no table is made with it."""
    if isinstance(type_, StructType):
        return _struct(type_)
    if isinstance(type_, ArrayType):
        return schema.ArrayType(delta_type(type_.elementType), type_.containsNull)
    if isinstance(type_, MapType):
        return schema.MapType(delta_type(type_.keyType), delta_type(type_.valueType), type_.valueContainsNull)
    if isinstance(type_, DecimalType):
        return schema.DecimalType(type_.precision, type_.scale)
    said = type_.jsonValue()
    return schema.PrimitiveType(said if isinstance(said, str) else type_.simpleString())
