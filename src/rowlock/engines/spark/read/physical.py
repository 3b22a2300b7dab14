"""Renames columns of DataFrames to their names in data files, which differ under column mapping (see `parquet.physical`)."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField
from pyspark.sql.types import StructType as SparkStruct

from rowlock.engines.spark.catalyst.bridge import bare, nullable
from rowlock.engines.spark.read.scan import physical_schema, reshaped, table_schema, without_void
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.schema import VOID, StructType, quote, type_names


def file_column(snapshot: Snapshot, name: str) -> Column:
    """A column of a DataFrame with the physical name, the physical names of its nested fields and the field ids of data files."""
    made = _spark_field(snapshot, name)
    value = reshaped(F.col(quote(name)), *(bare(t) for t in _types(snapshot, name)))
    nested = isinstance(made.dataType, (SparkStruct,)) or made.dataType.typeName() in ("array", "map")
    return (value.cast(made.dataType) if nested else value).alias(made.name, metadata=made.metadata)


def stored_columns(snapshot: Snapshot) -> dict[str, Column]:
    """By logical name, the columns of a DataFrame that hold void fields in structs, without these."""
    names = [f.name for f in snapshot.schema.fields if isinstance(f.type, StructType) and VOID in type_names(f.type)]
    return {n: reshaped(F.col(quote(n)), *(bare(t) for t in _types(snapshot, n))).alias(n) for n in names}


def _types(snapshot: Snapshot, name: str) -> tuple[DataType, DataType]:
    """A column's type in the table, and in data files."""
    own = SparkStruct([f for f in table_schema(snapshot).fields if f.name == name])
    return own.fields[0].dataType, next((f.dataType for f in without_void(own).fields), own.fields[0].dataType)


def _spark_field(snapshot: Snapshot, name: str) -> StructField:
    own = without_void(SparkStruct([f for f in table_schema(snapshot).fields if f.name == name]))
    return nullable(physical_schema(own, "id"), metadata=True).fields[0]
