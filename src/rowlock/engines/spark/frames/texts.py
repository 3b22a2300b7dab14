"""Answers of DESCRIBE and SHOW: few rows of text, as Spark gives them."""

from __future__ import annotations

from pyspark.sql.types import StringType, StructField, StructType

from rowlock.engines.spark.catalyst.bridge import bare
from rowlock.engines.spark.read.scan import table_schema
from rowlock.log.snapshot import Snapshot

_TEXT = StringType()
DESCRIPTION = StructType([StructField("col_name", _TEXT, False), StructField("data_type", _TEXT, False), StructField("comment", _TEXT)])
INFO = StructType([StructField("info_name", _TEXT, False), StructField("info_value", _TEXT, False)])
PAIRS = StructType([StructField("key", _TEXT, False), StructField("value", _TEXT, False)])
ONE_COLUMN = StructType([StructField("col_name", _TEXT, False)])
STATEMENT = StructType([StructField("createtab_stmt", _TEXT, False)])


def partition_types(snapshot: Snapshot) -> StructType:
    """The table's partition columns."""
    known = {f.name: f for f in table_schema(snapshot).fields}
    return StructType([StructField(n, bare(known[n].dataType), True) for n in snapshot.partition_columns])
