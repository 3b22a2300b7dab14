"""Checks the defaults of columns: an expression over no column, of a type that can be stored in the column's (I9).

Runs when a default is defined, before anything is written.
"""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from rowlock.conditions import named
from rowlock.engines.spark.catalyst.analysis import analyzed
from rowlock.engines.spark.catalyst.bridge import bare, catalyst, class_name
from rowlock.engines.spark.catalyst.generation_rules import uses_variables
from rowlock.exceptions import InvalidInput
from rowlock.protocol.defaults import CURRENT_DEFAULT
from rowlock.protocol.generated import GENERATION_EXPRESSION
from rowlock.protocol.identity import START


def default_value(text: str | None, type_: DataType) -> Column:
    """A default as a value of the column's type; null for None."""
    return F.lit(None).cast(type_) if text is None else F.expr(text).cast(type_)


def check_defaults(spark: SparkSession, schema: StructType, table: str) -> None:
    """Raises InvalidInput for a column's default that Spark or delta-spark would refuse, Spark's ParseException for what is no expression."""
    for field in schema.fields:
        if (text := field.metadata.get(CURRENT_DEFAULT)) is not None:
            if GENERATION_EXPRESSION in field.metadata:
                raise _bad(field.name, str(text), "the column is generated from others", "GENERATED_COLUMN_WITH_DEFAULT_VALUE", table)
            if START in field.metadata:
                raise _bad(field.name, str(text), "the column is an identity column", "IDENTITY_COLUMN_WITH_DEFAULT_VALUE", table)
            check_default(spark, field.name, field.dataType, str(text), table)


def check_default(spark: SparkSession, name: str, type_: DataType, text: str, table: str) -> None:
    """Raises InvalidInput where `text` cannot be the default of a column of this type, Spark's ParseException for what is no expression."""
    bridge, inputs = catalyst(spark), spark.createDataFrame([], StructType([]))
    try:
        frame = inputs.select(F.expr(text).alias(name))
    except AnalysisException as e:
        if (e.getCondition() or "").startswith("UNRESOLVED_COLUMN"):
            raise _bad(name, text, "a default may use no column", "INVALID_DEFAULT_VALUE.UNRESOLVED_EXPRESSION", table) from e
        raise
    plan = analyzed(frame)
    if uses_variables(bridge, plan):
        raise _bad(name, text, "a default may use no variable of a session", "INVALID_DEFAULT_VALUE.UNRESOLVED_EXPRESSION", table)
    if not plan.subqueriesAll().isEmpty() or any(bridge.subquery.hasSubquery(e) for e in bridge.list(plan.expressions())):
        raise _bad(name, text, "it has a subquery", "INVALID_DEFAULT_VALUE.SUBQUERY_EXPRESSION", table)
    if class_name(plan) != "Project" or class_name(plan.child()) != class_name(analyzed(inputs)) or len(frame.columns) != 1:
        raise _bad(name, text, "it is no value of one row: an aggregate, a window or a generator", "INVALID_DEFAULT_VALUE.NOT_CONSTANT", table)
    if not plan.deterministic():
        raise _bad(name, text, "it is not deterministic, so that two tries of one statement would differ", "INVALID_DEFAULT_VALUE.NON_DETERMINISTIC", table)
    actual, wanted, types = bare(frame.schema.fields[0].dataType), bare(type_), bridge.data_type
    if not bridge.cast.canANSIStoreAssign(types.fromJson(actual.json()), types.fromJson(wanted.json())):
        raise _bad(name, text, f"its type is {actual.simpleString()}, and the column's is {wanted.simpleString()}", "INVALID_DEFAULT_VALUE.DATA_TYPE", table)
    if actual != wanted and _is_lost(spark, text, wanted):
        raise _bad(name, text, f"it is no value of the column's type {wanted.simpleString()}", "INVALID_DEFAULT_VALUE.DATA_TYPE", table)


def _is_lost(spark: SparkSession, text: str, type_: DataType) -> bool:
    """Whether the value of an expression over no column is none of a type."""
    found = spark.sql("SELECT 1 AS one").select((F.expr(text).isNotNull() & F.expr(text).try_cast(type_).isNull()).alias("lost")).first()
    return found is not None and bool(found["lost"])


def _bad(name: str, text: str, what: str, error_class: str, table: str) -> InvalidInput:
    return InvalidInput(f"Column {name!r} cannot have the default {text!r}: {what}", table=table, condition=named(error_class))
