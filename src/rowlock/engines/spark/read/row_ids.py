"""Row ids and commit versions (row tracking) of rows in Parquet files: reads those that a file holds, and keeps them where Spark rewrites rows (I6).

On the driver the id of a row is found by its address.  In Spark it travels as one more column, under its name in data
files.  Tables without row tracking are read unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from rowlock.boundary.row_identity import columns_of
from rowlock.engines.spark.read.scan import PATH, POSITION, Scanner, VectorOf, local_frame
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddFile
from rowlock.protocol.row_tracking import MaterializedColumns
from rowlock.protocol.schema import quote

_FILE, _BASE, _VERSION = "__rowlock_file", "__rowlock_base_row_id", "__rowlock_commit_version"
_FILES = StructType([StructField(_FILE, StringType()), StructField(_BASE, LongType()), StructField(_VERSION, LongType())])


def tracked_frame(
    scanner: Scanner,
    snapshot: Snapshot,
    files: Sequence[AddFile],
    vector_of: VectorOf | None,
    columns: MaterializedColumns,
    *,
    strict: bool = False,
    hidden: bool = False,
) -> DataFrame:
    """The rows of files with their addresses, and with their ids and commit versions under the names of these columns in data files.

    Both are null for a row of a file that is not committed yet, unless the file holds them.
    """
    frame = scanner.frame(snapshot, files, vector_of, address=True, strict=strict, carried=columns.names, hidden=hidden)
    if not files:
        return frame
    known = pa.table(
        {
            _FILE: pa.array([scanner.uri(f) for f in files], pa.string()),
            _BASE: pa.array([f.base_row_id for f in files], pa.int64()),
            _VERSION: pa.array([f.default_row_commit_version for f in files], pa.int64()),
        }
    )
    joined = frame.join(F.broadcast(local_frame(scanner.spark, known, _FILES)), F.col(PATH) == F.col(_FILE))
    row_id = F.coalesce(F.col(quote(columns.row_id)), F.col(_BASE) + F.col(POSITION)).alias(columns.row_id)
    version = F.coalesce(F.col(quote(columns.commit_version)), F.col(_VERSION)).alias(columns.commit_version)
    return joined.select(*(F.col(quote(n)) for n in frame.columns if n not in columns.names), row_id, version)


def moving_frame(scanner: Scanner, snapshot: Snapshot, files: Sequence[AddFile], vector_of: VectorOf) -> DataFrame:
    """Rows with their addresses, to be written unchanged into new files: with ids and commit versions where the table tracks rows."""
    if (columns := columns_of(snapshot)) is None:
        return scanner.frame(snapshot, files, vector_of, address=True)
    return tracked_frame(scanner, snapshot, files, vector_of, columns)


def changing_frame(scanner: Scanner, snapshot: Snapshot, files: Sequence[AddFile], vector_of: VectorOf) -> DataFrame:
    """Rows with their addresses, to be written with new values into new files: with ids as last column where the table tracks rows."""
    if (columns := columns_of(snapshot)) is None:
        return scanner.frame(snapshot, files, vector_of, address=True)
    return tracked_frame(scanner, snapshot, files, vector_of, columns).drop(columns.commit_version)


def outputs_with_ids(bridge: Any, snapshot: Snapshot, outputs: Any, child: Any) -> Any:
    """The outputs of a statement (a Scala Seq) over a plan of `changing_frame`, followed by the rows' ids where the table tracks rows."""
    if (columns := columns_of(snapshot)) is None:
        return outputs
    found = [a for a in bridge.list(child.output()) if a.name() == columns.row_id]
    assert len(found) == 1, "the rows have no ids"
    return bridge.seq([*bridge.list(outputs), found[0]])
