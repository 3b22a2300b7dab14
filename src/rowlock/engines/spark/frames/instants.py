"""Reads a timestamp from text as the user's session does, in its time zone."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from rowlock.engines.spark.read.scan import local_frame
from rowlock.exceptions import InvalidInput


def milliseconds(spark: SparkSession, text: str, table: str) -> int:
    """The milliseconds since 1970 (UTC) of the text, cast to a timestamp by the session.

    Raises InvalidInput for text that the session cannot cast.
    """
    held = local_frame(spark, pa.table({"text": [text]}), StructType([StructField("text", StringType())]))
    row = held.select(F.unix_millis(F.col("text").try_cast("timestamp_ltz"))).first()
    if row is None or row[0] is None:
        quoted = text.replace("\\", "\\\\").replace("'", "\\'")
        wording = f"The provided timestamp ('{quoted}') cannot be converted to a valid timestamp"
        raise InvalidInput(f"{wording}: write it like 2026-11-21 08:00:00 or 2026-11-21T08:00:00+01:00", table=table)
    return int(row[0])
