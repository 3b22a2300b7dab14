"""The answer of VACUUM in SQL: the table's path, or in a dry run those of the files that would be deleted."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from rowlock.engines.spark.read.scan import local_frame
from rowlock.protocol.paths import location

PATH = StructType([StructField("path", StringType())])


def path_frame(spark: SparkSession, places: Sequence[str]) -> DataFrame:
    """One row for each path, as Spark spells it."""
    return local_frame(spark, pa.table({"path": pa.array([location(p) for p in places], pa.string())}), PATH)
