"""Spark's types: those that folders need which may not import pyspark, as users write them, as Delta's, with char(n) and varchar(n), and by which
policy of the session values are stored in them; and the columns that CREATE TABLE names, with what else it says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame, Row, SparkSession, functions as F
from pyspark.sql.types import ArrayType, CharType, DataType, DecimalType, MapType, StringType, StructField, StructType, VarcharType

from rowlock.arguments import is_set
from rowlock.conditions import named
from rowlock.engines.spark.catalyst.bridge import Catalyst, holds, with_parts
from rowlock.exceptions import InvalidInput, SchemaMismatch, WrongType
from rowlock.protocol import schema
from rowlock.protocol.char_varchar import KEY, as_varchar, bound_in, is_char, is_known
from rowlock.protocol.column_values import CURRENT_DEFAULT
from rowlock.protocol.schema import ColumnPath, quote

__all__ = ["Column", "DataFrame", "DataType", "Row", "SparkSession", "StructField", "StructType"]

_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)


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
    """Spark's columns as Delta's, with the comments of columns and fields and the bounds of char and varchar columns, and without other metadata."""
    bounds = [{k: v for k, v in (f.metadata or {}).items() if k == KEY} for f in struct.fields]
    columns = [(plain, replace(plain, metadata={**plain.metadata, **bound})) for plain, bound in zip(_struct(struct).fields, bounds, strict=True)]
    return schema.StructType(tuple(bounded if is_known(bounded) else plain for plain, bounded in columns))


def columns_of_frame(frame: DataFrame, *, defaults: bool = False) -> schema.StructType:
    """The columns that a table gets from a DataFrame: where the session does not fill up char values as they are read, char(n) becomes varchar(n).

    `defaults`: with the defaults of columns that the rows are read from, as for a table that is replaced and has the feature.
    """
    columns, spark = delta_schema(frame.schema), frame.sparkSession
    if defaults:
        defaults_of = [(f, (of.metadata or {}).get(CURRENT_DEFAULT)) for f, of in zip(columns.fields, frame.schema.fields, strict=True)]
        columns = schema.StructType(tuple(f if text is None else replace(f, metadata={**f.metadata, CURRENT_DEFAULT: text}) for f, text in defaults_of))
    if not any(KEY in f.metadata for f in columns.fields):  # the session is asked where it has a say
        return columns
    if is_set(spark, "spark.sql.readSideCharPadding", otherwise=True) and not char_is_varchar(spark):
        return columns
    return schema.StructType(tuple(replace(f, metadata={**f.metadata, KEY: as_varchar(f.metadata[KEY])}) if KEY in f.metadata else f for f in columns.fields))


def char_is_varchar(spark: SparkSession) -> bool:
    """Whether the session takes char(n) in a statement for varchar(n)."""
    return is_set(spark, "spark.sql.charAsVarchar")


def _struct(struct: StructType) -> schema.StructType:
    comments = [{k: v for k, v in (f.metadata or {}).items() if k == "comment"} for f in struct.fields]
    fields = zip(struct.fields, comments, strict=True)
    return schema.StructType(tuple(schema.StructField(f.name, delta_type(f.dataType), f.nullable, comment) for f, comment in fields))


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
    name = type_.jsonValue()
    return schema.PrimitiveType(name if isinstance(name, str) else type_.simpleString())


def new_column(name: str, given: str | DataType, nullable: bool = True, metadata: Mapping[str, Any] | None = None) -> StructField:
    """A column of a type as the user writes it, as a table's schema has it: a bounded string is a string, and the metadata says the bounds.  Raises InvalidInput."""
    type_ = parse_type(given)
    bounds = {KEY: _ddl(type_)} if holds(type_, lambda leaf: isinstance(leaf, (CharType, VarcharType))) else {}
    return StructField(name, unbounded(type_), nullable, {**(metadata or {}), **bounds})


def unbounded(type_: DataType) -> DataType:
    """The type with strings for those that have bounds."""
    if isinstance(type_, (CharType, VarcharType)):
        return StringType()
    return with_parts(type_, unbounded, lambda f: StructField(f.name, unbounded(f.dataType), f.nullable, f.metadata))


def _ddl(type_: DataType) -> str:
    """The type as Spark parses it from a column's metadata."""
    if isinstance(type_, StructType):
        return f"struct<{','.join(f'{f.name if _PLAIN.fullmatch(f.name) else quote(f.name)}:{_ddl(f.dataType)}' for f in type_.fields)}>"
    if isinstance(type_, ArrayType):
        return f"array<{_ddl(type_.elementType)}>"
    return f"map<{_ddl(type_.keyType)},{_ddl(type_.valueType)}>" if isinstance(type_, MapType) else type_.simpleString()


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


def marked(value: Column, field: StructField) -> Column:
    """A value by the name of its column, with the mark by which Spark fills up what a char column is compared with."""
    return value.alias(field.name, metadata={KEY: field.metadata[KEY]}) if KEY in field.metadata else value.alias(field.name)


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
            text = f"Column {name} is {type_}, and spark.sql.storeAssignmentPolicy=STRICT stores no {given} in it: cast the value"
            condition = named("CANNOT_UP_CAST_DATATYPE", expression=name, sourceType=given, targetType=type_, details="")
            raise SchemaMismatch(text, table=self._table, condition=condition)
        return self._bridge.ansi_cast(value, wanted, lenient=self._name == "LEGACY")


# ---- what CREATE TABLE says ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NewColumn:
    """A column of a table that is made.  `generated` is the expression of GENERATED ALWAYS AS, `default` that of DEFAULT, `identity` the start and
    the step of AS IDENTITY and whether it is BY DEFAULT."""

    name: str
    type_: DataType
    nullable: bool = True
    comment: str | None = None
    generated: str | None = None
    default: str | None = None
    identity: tuple[int, int, bool] | None = None


@dataclass(frozen=True, slots=True)
class Spec:
    """A table that is to be made.  `missing` names the first part of the statement that Rowlock does not support."""

    provider: str
    location: str | None = None
    comment: str | None = None
    columns: Sequence[NewColumn] = ()
    partitions: Sequence[str] = ()
    clusters: Sequence[ColumnPath] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    missing: str | None = None


@dataclass(frozen=True, slots=True)
class Like:
    """What CREATE TABLE ... LIKE says; `name` and `source` are parts of names, and `provider` is the format where it names one."""

    name: list[str] | None
    source: list[str] | None
    provider: str | None
    location: str | None
    if_not_exists: bool
    properties: Mapping[str, str]
