"""The answer of VACUUM in SQL: the table's path, or in a dry run those of the files that would be deleted."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from rowlock.engines.spark.read.scan import rows_frame
from rowlock.protocol.paths import location

PATH = StructType([StructField("path", StringType())])


def path_frame(spark: SparkSession, places: Sequence[str]) -> DataFrame:
    """One row for each path, as Spark spells it."""
    return rows_frame(spark, PATH, ((location(p),) for p in places))
