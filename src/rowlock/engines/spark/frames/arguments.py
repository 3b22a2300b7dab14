"""Arguments that only Spark can read: a timestamp as text, in the session's time zone; the inventory of a table's folder for VACUUM."""

from __future__ import annotations

import datetime

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from rowlock.conditions import named
from rowlock.engines.spark.catalyst.bridge import to_arrow
from rowlock.engines.spark.read.scan import local_frame
from rowlock.engines.spark.session.connect import is_connect
from rowlock.exceptions import InvalidInput
from rowlock.storage.store import ObjectMeta
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


_COLUMNS = StructType(
    [StructField("path", StringType()), StructField("length", LongType()), StructField("isDir", BooleanType()), StructField("modificationTime", LongType())]
)


def files_of(rows: DataFrame, location: str, table: str) -> list[ObjectMeta]:
    """The files of an inventory below the table's location, a URI, by their keys.  One Spark job.  Raises InvalidInput for other columns."""
    types = {f.name: f.dataType for f in rows.schema.fields}
    if any(types.get(f.name) != f.dataType for f in _COLUMNS.fields):
        wanted = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in _COLUMNS.fields)
        raise InvalidInput(
            f"An inventory has the columns {wanted}; this one has {rows.schema.simpleString()[7:-1]}",
            table=table,
            condition=named("DELTA_INVALID_INVENTORY_SCHEMA", expectedSchema=wanted),
        )
    below = rows.where(
        F.startswith(F.col("path"), F.lit(f"{location}/")) & ~F.col("isDir") & F.col("length").isNotNull() & F.col("modificationTime").isNotNull()
    )
    found = to_arrow(below.select(F.substring("path", len(location) + 2, 2**31 - 1).alias("path"), "length", "modificationTime"))
    return [ObjectMeta(*row) for row in zip(*(c.to_pylist() for c in found.columns), strict=True)]
