"""char(n) and varchar(n) as Spark's types: how they stand in a table's schema, what they are called, and values that are put into them."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import CharType, StringType, StructField, VarcharType

from rowlock.engines.spark.catalyst.bridge import holds
from rowlock.exceptions import UnsupportedFeature
from rowlock.protocol.char_varchar import FEATURE, KEY, bound_in, is_char


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
