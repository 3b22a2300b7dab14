"""Casts the rows of an INSERT to a table's columns exactly as Spark does for its own tables: by the session's store assignment policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from rowlock.engines.spark.catalyst.bridge import bare, catalyst, nullable
from rowlock.engines.spark.read.scan import empty_frame


def assigned(rows: DataFrame, columns: Sequence[StructField], table: str) -> DataFrame:
    """The rows under these columns, by position.  Raises Spark's AnalysisException for a type that may not be stored in a column's.

    Null is let through, for the table's own check of it; a value that does not fit raises when the rows are computed.
    """
    spark, bridge = rows.sparkSession, catalyst(rows.sparkSession)
    schema = nullable(StructType([StructField(f.name, bare(f.dataType), True) for f in columns]))
    wanted = empty_frame(spark, schema)._jdf.queryExecution().analyzed().output()
    resolver: Any = bridge.jvm.org.apache.spark.sql.catalyst.analysis.TableOutputResolver
    default = getattr(resolver, "resolveOutputColumns$default$6")()
    conf = spark._jsparkSession.sessionState().conf()
    plan = resolver.resolveOutputColumns(table, wanted, rows._jdf.queryExecution().analyzed(), False, conf, default)
    return bridge.dataframe(plan, spark).toDF(*[f.name for f in columns])
