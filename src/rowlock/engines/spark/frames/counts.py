"""The answer of UPDATE and DELETE in SQL: how many rows were affected."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from rowlock.engines.spark.read.scan import local_frame

AFFECTED = StructType([StructField("num_affected_rows", LongType())])


def affected_frame(spark: SparkSession, rows: int) -> DataFrame:
    """One row with the number."""
    return local_frame(spark, pa.table({"num_affected_rows": pa.array([rows], pa.int64())}), AFFECTED)
