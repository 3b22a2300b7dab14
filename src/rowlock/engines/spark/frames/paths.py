"""The answer of VACUUM in SQL: the table's path."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from rowlock.engines.spark.read.scan import local_frame
from rowlock.protocol.paths import location

PATH = StructType([StructField("path", StringType())])


def path_frame(spark: SparkSession, table: str) -> DataFrame:
    """One row with the table's path."""
    return local_frame(spark, pa.table({"path": [location(table)]}), PATH)
