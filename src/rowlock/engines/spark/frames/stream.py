"""The rows of a batch of a stream, and the columns that a stream has."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from rowlock.engines.spark.catalyst.bridge import bare, nullable
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.frames.change_feed import COLUMNS, each_file_once, refuse_its_columns
from rowlock.engines.spark.read.scan import table_schema
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddFile


def columns_of_stream(snapshot: Snapshot, *, with_changes: bool) -> StructType:
    """The columns of a stream of a table's rows, or of its changes.  All may be null: older files may lack a column, or the table its NOT NULL.

    Raises InvalidInput where the table has a column that its changes have themselves.
    """
    own = [
        StructField(f.name, bare(f.dataType), True, {k: v for k, v in f.metadata.items() if not k.startswith("delta.")}) for f in table_schema(snapshot).fields
    ]
    if not with_changes:
        return nullable(StructType(own), metadata=True)
    refuse_its_columns(snapshot)
    return nullable(StructType([*own, *COLUMNS]), metadata=True)


def same_columns(one: StructType, other: StructType) -> bool:
    """Whether two schemas have the same names and types, in the same order."""
    return [(f.name.lower(), nullable_bare(f)) for f in one.fields] == [(f.name.lower(), nullable_bare(f)) for f in other.fields]


def nullable_bare(field: StructField) -> StructField:
    """A field without metadata, and all in it nullable."""
    return nullable(StructType([StructField("it", bare(field.dataType))])).fields[0]


def rows_of_files(evaluator: Evaluator, snapshot: Snapshot, files: Iterable[AddFile]) -> DataFrame:
    """The live rows of files, under the columns of `snapshot`; a file that is given twice is read twice, each time with its own deletion vector."""
    frames = [evaluator.scanner.frame(snapshot, some, evaluator.vectors.of) for some in each_file_once(files, lambda f: f.path) or [[]]]
    return functools.reduce(DataFrame.unionAll, frames)
