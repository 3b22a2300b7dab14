"""DEFAULT as a value: null, for tables with default values are not written by this version."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from rowlock.engines.spark.catalyst.bridge import JavaObject, class_name


def or_null(expression: JavaObject, column: Column) -> Column:
    """`column`, or null where the expression is the word DEFAULT, as Spark reads it whether or not a column has this name."""
    if class_name(expression) == "UnresolvedAttribute" and [str(p).upper() for p in expression.nameParts().mkString("\n").split("\n")] == ["DEFAULT"]:
        return F.lit(None)
    return column
