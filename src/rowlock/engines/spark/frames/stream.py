"""The rows of a batch of a stream, and the columns that a stream has."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from rowlock.engines.spark.catalyst.bridge import bare, nullable
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.frames.change_feed import COMMIT_TIMESTAMP, COMMIT_VERSION
from rowlock.engines.spark.read.scan import table_schema
from rowlock.exceptions import InvalidInput
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddFile
from rowlock.protocol.change_feed import CHANGE_TYPE

_OF_CHANGES = (StructField(CHANGE_TYPE, StringType()), StructField(COMMIT_VERSION, LongType()), StructField(COMMIT_TIMESTAMP, TimestampType()))


def columns_of_stream(snapshot: Snapshot, *, with_changes: bool) -> StructType:
    """The columns of a stream of a table's rows, or of its changes.  All may be null: older files may lack a column, or the table its NOT NULL.

    Raises InvalidInput where the table has a column that its changes have themselves.
    """
    own = [
        StructField(f.name, bare(f.dataType), True, {k: v for k, v in f.metadata.items() if not k.startswith("delta.")}) for f in table_schema(snapshot).fields
    ]
    if not with_changes:
        return nullable(StructType(own), metadata=True)
    if taken := [f.name for f in own if f.name.lower() in (c.name for c in _OF_CHANGES)]:
        raise InvalidInput(f"The table has a column {taken[0]!r} itself, which the change data feed adds: rename it first", table=snapshot.table)
    return nullable(StructType([*own, *_OF_CHANGES]), metadata=True)


def same_columns(one: StructType, other: StructType) -> bool:
    """Whether two schemas have the same names and types, in the same order."""
    return [(f.name.lower(), nullable_bare(f)) for f in one.fields] == [(f.name.lower(), nullable_bare(f)) for f in other.fields]


def nullable_bare(field: StructField) -> StructField:
    """A field without metadata, and all in it nullable."""
    return nullable(StructType([StructField("it", bare(field.dataType))])).fields[0]


def rows_of_files(evaluator: Evaluator, snapshot: Snapshot, files: Iterable[AddFile]) -> DataFrame:
    """The live rows of files, under the columns of `snapshot`; a file that is given twice is read twice, each time with its own deletion vector."""
    layers: list[dict[str, AddFile]] = []
    for file in files:
        layer = next((one for one in layers if file.path not in one), None)
        if layer is None:
            layers.append(layer := {})
        layer[file.path] = file
    frames = [evaluator.scanner.frame(snapshot, list(layer.values()), evaluator.vectors.of) for layer in layers or [{}]]
    return functools.reduce(DataFrame.unionAll, frames)
