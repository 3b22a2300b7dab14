"""Casts the rows of an INSERT to a table's columns by the session's store assignment policy, as Spark does for its own tables.

Under the policy ANSI values of any type that can be cast are stored, too, as delta-spark does: '7' in a column of numbers.  A value that is none raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructField, StructType, VariantType

from rowlock.engines.spark.catalyst.bridge import Catalyst, bare, catalyst, nullable
from rowlock.engines.spark.catalyst.store_policy import store_policy
from rowlock.engines.spark.read.scan import empty_frame

_NESTED = (StructType, ArrayType, MapType)


def assigned(rows: DataFrame, columns: Sequence[StructField], table: str, *, by_name: bool = False, fills: bool = False) -> DataFrame:
    """The rows under these columns, by position; with `by_name`, fields within structs by their names.  With `fills` fields that structs lack are null.

    Raises Spark's AnalysisException for a type that may not be stored in a column's.

    Null is let through, for the table's own check of it; a value that does not fit raises when the rows are computed.
    """
    spark, bridge = rows.sparkSession, catalyst(rows.sparkSession)
    schema = nullable(StructType([StructField(f.name, bare(f.dataType), True) for f in columns]))
    wanted = empty_frame(spark, schema)._jdf.queryExecution().analyzed().output()
    conf = spark._jsparkSession.sessionState().conf()
    rows = _filled(rows, schema) if fills else rows
    rows = _castable(rows, schema, by_name, ansi=store_policy(spark) == "ANSI")
    if by_name and rows.columns != schema.names:  # spelled otherwise, which Spark heeds where the session does
        rows = rows.toDF(*schema.names)
    resolver: Any = bridge.jvm.org.apache.spark.sql.catalyst.analysis.TableOutputResolver
    default = getattr(resolver, "resolveOutputColumns$default$6")()
    plan = resolver.resolveOutputColumns(table, wanted, rows._jdf.queryExecution().analyzed(), by_name, conf, default)
    return bridge.dataframe(plan, spark).toDF(*[f.name for f in columns])


def _filled(rows: DataFrame, wanted: StructType) -> DataFrame:
    """The rows whose structs have all fields of the wanted ones, those that they lack as nulls."""
    bridge, names = catalyst(rows.sparkSession), rows.columns
    given = [bridge.column(a) for a in bridge.list(rows._jdf.queryExecution().analyzed().output())]
    columns = [_with_fields(c, have.dataType, want.dataType) for c, have, want in zip(given, rows.schema.fields, wanted.fields, strict=True)]
    changed = any(made is not held for made, held in zip(columns, given, strict=True))
    return rows.select(*(c.alias(n) for c, n in zip(columns, names, strict=True))) if changed else rows


def _with_fields(value: Column, have: DataType, want: DataType) -> Column:
    """A value whose structs have the fields of `want` that they lack, as nulls; those that only they have stay at the end."""
    if not (isinstance(have, StructType) and isinstance(want, StructType)):
        return value
    held, known = {f.name.lower(): f for f in have.fields}, {f.name.lower() for f in want.fields}
    if known <= held.keys() and not any(isinstance(f.dataType, StructType) for f in have.fields):
        return value
    fields = [
        F.lit(None).cast(w.dataType).alias(w.name)
        if (f := held.get(w.name.lower())) is None
        else _with_fields(value.getField(f.name), f.dataType, w.dataType).alias(f.name)
        for w in want.fields
    ]
    extra = [value.getField(f.name).alias(f.name) for f in have.fields if f.name.lower() not in known]
    return F.when(value.isNotNull(), F.struct(*fields, *extra))


def _castable(rows: DataFrame, wanted: StructType, by_name: bool, *, ansi: bool) -> DataFrame:
    """The rows with those columns cast whose type Spark would not store in the wanted one: NULL, which has no type, under every policy; all that can be under ANSI."""
    bridge = catalyst(rows.sparkSession)
    attributes = bridge.list(rows._jdf.queryExecution().analyzed().output())
    columns, names = [bridge.column(a) for a in attributes], rows.columns
    changed = False
    for n, (actual, field) in enumerate(zip(rows.schema.fields, wanted.fields, strict=True)):
        type_ = _stored_type(bridge, actual.dataType, field.dataType, by_name, ansi)
        if type_ != actual.dataType:
            columns[n], changed = bridge.ansi_cast(columns[n], type_).alias(names[n]), True
    return rows.select(*columns) if changed else rows


def _stored_type(bridge: Catalyst, actual: DataType, wanted: DataType, by_name: bool, ansi: bool) -> DataType:
    """The type of a value, with that of the wanted type in place of each part that `_castable` casts."""
    if isinstance(actual, NullType):
        return wanted
    if isinstance(actual, StructType) and isinstance(wanted, StructType) and len(actual.fields) == len(wanted.fields):
        known = {f.name.lower(): f for f in wanted.fields}
        into = [known.get(a.name.lower()) for a in actual.fields] if by_name else wanted.fields
        pairs = [
            (a, a.dataType if w is None else _stored_type(bridge, a.dataType, w.dataType, by_name, ansi)) for a, w in zip(actual.fields, into, strict=True)
        ]
        return StructType([StructField(a.name, t, a.nullable, a.metadata) for a, t in pairs])
    if isinstance(actual, ArrayType) and isinstance(wanted, ArrayType):
        return ArrayType(_stored_type(bridge, actual.elementType, wanted.elementType, by_name, ansi), actual.containsNull)
    if isinstance(actual, MapType) and isinstance(wanted, MapType):
        key, value = (_stored_type(bridge, *kinds, by_name, ansi) for kinds in ((actual.keyType, wanted.keyType), (actual.valueType, wanted.valueType)))
        return MapType(key, value, actual.valueContainsNull)
    if not ansi or actual == wanted or (isinstance(wanted, _NESTED) and (type(actual) is type(wanted) or isinstance(actual, VariantType))):
        return actual
    if isinstance(wanted, _NESTED):
        return wanted  # which no cast makes: Spark says so, as delta-spark has it
    types = bridge.data_type
    return actual if bridge.cast.canANSIStoreAssign(types.fromJson(actual.json()), types.fromJson(wanted.json())) else wanted
