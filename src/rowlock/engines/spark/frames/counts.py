"""The answer of UPDATE and DELETE in SQL: how many rows were affected."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from rowlock.engines.spark.read.scan import rows_frame

AFFECTED = StructType([StructField("num_affected_rows", LongType())])


def affected_frame(spark: SparkSession, rows: int) -> DataFrame:
    """One row with the number."""
    return rows_frame(spark, AFFECTED, [(rows,)])
