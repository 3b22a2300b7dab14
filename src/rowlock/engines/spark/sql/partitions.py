"""The static partitions of an INSERT ... PARTITION (column = value)."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rowlock.engines.spark.catalyst.bridge import bare, catalyst
from rowlock.engines.spark.read.scan import quote
from rowlock.exceptions import SchemaMismatch
from rowlock.protocol.paths import NULL_DIRECTORY


def partition_literal(table: DataFrame, name: str, value: str | None, path: str) -> tuple[Column, Column]:
    """(the value as a column of the type that the table's column has, the condition that the table's column is it).  Raises SchemaMismatch.

    The cast is ANSI's under every setting, as Spark has it for static partitions: a text that is no value of the type raises when it is computed, where
    null in its place would overwrite the null partition.
    """
    field = next((f for f in table.schema.fields if f.name.lower() == name.lower()), None)
    if field is None:
        raise SchemaMismatch(f"There is no column {name!r}; the table has {', '.join(table.columns)}", table=path)
    literal = catalyst(table.sparkSession).ansi_cast(F.lit(None if value == NULL_DIRECTORY else value), bare(field.dataType))
    return literal, F.col(quote(field.name)).eqNullSafe(literal)
