"""Answers of DESCRIBE and SHOW: few rows of text, as Spark gives them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from rowlock.engines.spark.catalyst.bridge import bare
from rowlock.engines.spark.read.scan import local_frame, table_schema
from rowlock.log.snapshot import Snapshot

_TEXT = StringType()
DESCRIPTION = StructType([StructField("col_name", _TEXT, False), StructField("data_type", _TEXT, False), StructField("comment", _TEXT)])
INFO = StructType([StructField("info_name", _TEXT, False), StructField("info_value", _TEXT, False)])
PAIRS = StructType([StructField("key", _TEXT, False), StructField("value", _TEXT, False)])
ONE_COLUMN = StructType([StructField("col_name", _TEXT, False)])
STATEMENT = StructType([StructField("createtab_stmt", _TEXT, False)])


def rows_frame(spark: SparkSession, columns: StructType, rows: Iterable[Sequence[str | None]]) -> DataFrame:
    """Rows of text as a DataFrame."""
    listed = list(rows)
    table = pa.table({f.name: pa.array([r[n] for r in listed], pa.string()) for n, f in enumerate(columns.fields)})
    return local_frame(spark, table, StructType([StructField(f.name, _TEXT, f.nullable) for f in columns.fields]))


def partition_types(snapshot: Snapshot) -> StructType:
    """The table's partition columns."""
    known = {f.name: f for f in table_schema(snapshot).fields}
    return StructType([StructField(n, bare(known[n].dataType), True) for n in snapshot.partition_columns])
