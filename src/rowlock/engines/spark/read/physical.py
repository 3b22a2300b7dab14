"""Renames columns of DataFrames to their names in data files, which differ under column mapping (see `parquet.physical`)."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StructField
from pyspark.sql.types import StructType as SparkStruct

from rowlock.engines.spark.catalyst.bridge import nullable
from rowlock.engines.spark.read.scan import physical_schema, table_schema
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.schema import quote


def file_column(snapshot: Snapshot, name: str) -> Column:
    """A column of a DataFrame with the physical name, the physical names of its nested fields and the field ids of data files."""
    made = _spark_field(snapshot, name)
    value = F.col(quote(name))
    nested = isinstance(made.dataType, (SparkStruct,)) or made.dataType.typeName() in ("array", "map")
    return (value.cast(made.dataType) if nested else value).alias(made.name, metadata=made.metadata)


def _spark_field(snapshot: Snapshot, name: str) -> StructField:
    own = SparkStruct([f for f in table_schema(snapshot).fields if f.name == name])
    return nullable(physical_schema(own, "id"), metadata=True).fields[0]
