"""Casts the rows of an INSERT to a table's columns by the session's store assignment policy, as Spark does for its own tables.

Under the policy ANSI values of any type that can be cast are stored, too, as delta-spark does: '7' in a column of numbers.  A value that is none raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from rowlock.engines.spark.catalyst.bridge import Catalyst, bare, catalyst, nullable
from rowlock.engines.spark.read.scan import empty_frame


def assigned(rows: DataFrame, columns: Sequence[StructField], table: str) -> DataFrame:
    """The rows under these columns, by position.  Raises Spark's AnalysisException for a type that may not be stored in a column's.

    Null is let through, for the table's own check of it; a value that does not fit raises when the rows are computed.
    """
    spark, bridge = rows.sparkSession, catalyst(rows.sparkSession)
    schema = nullable(StructType([StructField(f.name, bare(f.dataType), True) for f in columns]))
    wanted = empty_frame(spark, schema)._jdf.queryExecution().analyzed().output()
    conf = spark._jsparkSession.sessionState().conf()
    if str(spark.conf.get("spark.sql.storeAssignmentPolicy", "ANSI")).upper() == "ANSI":
        rows = _castable(rows, schema)
    resolver: Any = bridge.jvm.org.apache.spark.sql.catalyst.analysis.TableOutputResolver
    default = getattr(resolver, "resolveOutputColumns$default$6")()
    plan = resolver.resolveOutputColumns(table, wanted, rows._jdf.queryExecution().analyzed(), False, conf, default)
    return bridge.dataframe(plan, spark).toDF(*[f.name for f in columns])


def _castable(rows: DataFrame, wanted: StructType) -> DataFrame:
    """The rows with those columns cast whose type Spark would not store in the wanted one."""
    bridge = catalyst(rows.sparkSession)
    attributes = bridge.list(rows._jdf.queryExecution().analyzed().output())
    columns, names = [bridge.column(a) for a in attributes], rows.columns
    changed = False
    for n, (actual, field) in enumerate(zip(rows.schema.fields, wanted.fields, strict=True)):
        type_ = _stored_type(bridge, actual.dataType, field.dataType)
        if type_ != actual.dataType:
            columns[n], changed = bridge.ansi_cast(columns[n], type_).alias(names[n]), True
    return rows.select(*columns) if changed else rows


def _stored_type(bridge: Catalyst, actual: DataType, wanted: DataType) -> DataType:
    """The type of a value, with that of the wanted type in place of each part that Spark would not store in it."""
    if isinstance(actual, StructType) and isinstance(wanted, StructType) and len(actual.fields) == len(wanted.fields):
        parts = [_stored_type(bridge, a.dataType, w.dataType) for a, w in zip(actual.fields, wanted.fields, strict=True)]
        return StructType([StructField(a.name, t, a.nullable, a.metadata) for a, t in zip(actual.fields, parts, strict=True)])
    if isinstance(actual, ArrayType) and isinstance(wanted, ArrayType):
        return ArrayType(_stored_type(bridge, actual.elementType, wanted.elementType), actual.containsNull)
    if isinstance(actual, MapType) and isinstance(wanted, MapType):
        key, value = _stored_type(bridge, actual.keyType, wanted.keyType), _stored_type(bridge, actual.valueType, wanted.valueType)
        return MapType(key, value, actual.valueContainsNull)
    nested = (StructType, ArrayType, MapType)
    if isinstance(wanted, nested) or actual == wanted:
        return actual
    types = bridge.data_type
    return actual if bridge.cast.canANSIStoreAssign(types.fromJson(actual.json()), types.fromJson(wanted.json())) else wanted
