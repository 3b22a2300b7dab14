"""Inventories of a table's folder for VACUUM: reports of a store, with the columns that delta-spark wants."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from rowlock.conditions import named
from rowlock.engines.spark.catalyst.bridge import to_arrow
from rowlock.exceptions import InvalidInput
from rowlock.storage.store import ObjectMeta

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
