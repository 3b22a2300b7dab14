"""The static partitions of an INSERT ... PARTITION (column = value)."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType

from rowlock.conditions import named
from rowlock.engines.spark.catalyst.bridge import bare, catalyst
from rowlock.exceptions import ConstraintViolated, SchemaMismatch
from rowlock.protocol.schema import quote


def partition_literal(table: DataFrame, name: str, value: str | None, path: str, *, replaces: bool = False) -> tuple[Column, Column]:
    """(the value as a column of the type that the table's column has, the condition that the table's column is it).  Raises SchemaMismatch.

    The cast is ANSI's under every setting, as Spark has it for static partitions: a text that is no value of the type raises when it is computed, where
    null in its place would overwrite the null partition.  `replaces`: the partition is to be overwritten, and ConstraintViolated is raised for the
    empty text, whose rows would lie in the null partition.
    """
    field = next((f for f in table.schema.fields if f.name.lower() == name.lower()), None)
    if field is None:
        raise SchemaMismatch(f"There is no column {name!r}; the table has {', '.join(table.columns)}", table=path)
    if replaces and value == "" and isinstance(field.dataType, (StringType, BinaryType)):
        text = f"{name} = '' is the null partition in the log, and which rows would be replaced is not certain: write {name} = NULL"
        condition = named("DELTA_REPLACE_WHERE_MISMATCH", replaceWhere=f"({name} = '')", message="the rows would lie in the null partition")
        raise ConstraintViolated(text, table=path, condition=condition)
    literal = catalyst(table.sparkSession).ansi_cast(F.lit(value), bare(field.dataType))
    return literal, F.col(quote(field.name)).eqNullSafe(literal)
