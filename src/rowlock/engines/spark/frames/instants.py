"""Reads a timestamp from text as the user's session does, in its time zone."""

from __future__ import annotations

import datetime

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from rowlock.conditions import named
from rowlock.engines.spark.read.scan import local_frame
from rowlock.engines.spark.session.connect_server import is_connect
from rowlock.exceptions import InvalidInput
from rowlock.time_zones import zone_of
from rowlock.transaction.state.versions import WRITE_IT_LIKE, local_milliseconds


def milliseconds(spark: SparkSession, timestamp: str | datetime.datetime, table: str) -> int:
    """Milliseconds since 1970 (UTC) of a datetime, or of text that the session casts to a timestamp.

    Raises InvalidInput for text that the session cannot cast.
    """
    if not isinstance(timestamp, str):
        return local_milliseconds(timestamp, table)
    if is_connect(spark):
        told = spark.sql("SELECT unix_millis(try_cast(:text AS timestamp_ltz))", args={"text": timestamp})
    else:
        held = local_frame(spark, pa.table({"text": [timestamp]}), StructType([StructField("text", StringType())]))
        told = held.select(F.unix_millis(F.col("text").try_cast("timestamp_ltz")))
    row = told.first()
    if row is None or row[0] is None:
        quoted = timestamp.replace("\\", "\\\\").replace("'", "\\'")
        wording = f"The provided timestamp ('{quoted}') cannot be converted to a valid timestamp"
        raise InvalidInput(f"{wording}: {WRITE_IT_LIKE}", table=table, condition=named("DELTA_TIMESTAMP_INVALID", expr=f"'{quoted}'"))
    return int(row[0])


def session_zone(spark: SparkSession) -> datetime.tzinfo:
    """The time zone of a session; UTC where Python does not know its name."""
    try:
        return zone_of(str(spark.conf.get("spark.sql.session.timeZone", "UTC")))
    except ValueError:
        return datetime.UTC
