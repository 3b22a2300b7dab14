"""Spark's types: those that folders need which may not import pyspark, as users write them, as Delta's, with char(n) and varchar(n), and by which
policy of the session values are stored in them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, CharType, DataType, DecimalType, MapType, StringType, StructField, StructType, VarcharType

from rowlock.conditions import named
from rowlock.engines.spark.catalyst.bridge import Catalyst, holds
from rowlock.exceptions import InvalidInput, SchemaMismatch, UnsupportedFeature, WrongType
from rowlock.protocol import schema
from rowlock.protocol.char_varchar import FEATURE, KEY, bound_in, is_char

__all__ = ["Column", "DataFrame", "DataType", "Row", "SparkSession", "StructField", "StructType"]


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


def stored_field(field: StructField) -> StructField:
    """The field as a table's schema has it: a bounded string is a string whose metadata says the bound.  Raises UnsupportedFeature for a bound inside."""
    if isinstance(field.dataType, (CharType, VarcharType)):
        return StructField(field.name, StringType(), field.nullable, {**field.metadata, KEY: field.dataType.simpleString()})
    if holds(field.dataType, lambda leaf: isinstance(leaf, (CharType, VarcharType))):
        raise UnsupportedFeature(
            f"Column {field.name!r} has char or varchar inside of another type, which this version of Rowlock does not enforce: use string",
            feature=FEATURE,
            access="write",
        )
    return field


def type_text(field: StructField) -> str:
    """What the type of a column is called, its bound in it."""
    bound = bound_in(field.metadata.get(KEY))
    return field.dataType.simpleString() if bound is None else str(bound)


def compared(field: StructField) -> StructField:
    """The nullable field of an attribute in expressions: a char column keeps the mark by which Spark fills up what it is compared with."""
    return StructField(field.name, field.dataType, True, {KEY: field.metadata[KEY]} if is_char(field.metadata.get(KEY)) else None)


def fitted_text(value: Column, field: StructField) -> Column:
    """A value as it is put into a column: cut and filled up with spaces where the column is bounded.

    One that is too long stays as it is, for the table's check of it.
    """
    bound = bound_in(field.metadata.get(KEY))
    if bound is None:
        return value
    cut = F.when((F.length(value) > bound.length) & (F.length(F.rtrim(value)) <= bound.length), F.substring(value, 1, bound.length))
    if bound.kind == "char":
        cut = cut.when(F.length(value) < bound.length, F.rpad(value, bound.length, " "))
    return cut.otherwise(value)


def padded(value: Column, field: StructField) -> Column:
    """A partition value of a char column as Spark reads those of other columns: filled up with spaces."""
    bound = bound_in(field.metadata.get(KEY))
    if bound is None or bound.kind != "char":
        return value
    return F.when(F.length(value) < bound.length, F.rpad(value, bound.length, " ")).otherwise(value)


def store_policy(spark: SparkSession) -> str:
    """ANSI, LEGACY or STRICT, as `spark.sql.storeAssignmentPolicy` says."""
    return str(spark.conf.get("spark.sql.storeAssignmentPolicy", "ANSI")).upper()


class StorePolicy:
    """The policy of a session for the values of one statement, which asks for it once, where a value has another type than its column."""

    def __init__(self, bridge: Catalyst, spark: SparkSession, table: str) -> None:
        self._bridge, self._spark, self._table = bridge, spark, table

    @cached_property
    def _name(self) -> str:
        return store_policy(self._spark)

    def stored(self, value: Column, actual: DataType, wanted: DataType, name: str) -> Column:
        """A value of a type as the type of the column `name`.  Raises SchemaMismatch where the policy is STRICT and a value may be lost so."""
        if self._name == "STRICT" and not self._bridge.can_up_cast(actual.json(), wanted.json()):
            given, type_ = actual.simpleString(), wanted.simpleString()
            raise SchemaMismatch(
                f"Column {name} is {type_}, and spark.sql.storeAssignmentPolicy=STRICT stores no {given} in it: cast the value",
                table=self._table,
                condition=named("CANNOT_UP_CAST_DATATYPE", expression=name, sourceType=given, targetType=type_, details=""),
            )
        return self._bridge.ansi_cast(value, wanted, lenient=self._name == "LEGACY")
