"""Row ids and commit versions (row tracking) of rows in Parquet files: reads those that a file holds, and keeps them where Spark rewrites rows (I6).

On the driver the id of a row is found by its address.  In Spark it travels as one more column, under its name in data
files.  Tables without row tracking are read unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, functions as F
from pyspark.sql.types import LongType

from rowlock.boundary.row_identity import columns_of
from rowlock.engines.spark.read.scan import POSITION, Constants, Scanner, VectorOf
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddFile
from rowlock.protocol.row_tracking import MaterializedColumns
from rowlock.protocol.schema import quote

_BASE, _VERSION = "__rowlock_base_row_id", "__rowlock_commit_version"


def tracked_frame(
    scanner: Scanner,
    snapshot: Snapshot,
    files: Sequence[AddFile],
    vector_of: VectorOf | None,
    columns: MaterializedColumns,
    *,
    strict: bool = False,
    hidden: bool = False,
    told: Constants | None = None,
) -> DataFrame:
    """The rows of files with their addresses, and with their ids and commit versions under the names of these columns in data files.

    Both are null for a row of a file that is not committed yet, unless the file holds them.
    """
    own: Constants = {_BASE: (LongType(), lambda f: f.base_row_id), _VERSION: (LongType(), lambda f: f.default_row_commit_version)}
    frame = scanner.frame(snapshot, files, vector_of, address=True, strict=strict, carried=columns.names, hidden=hidden, told={**(told or {}), **own})
    row_id = F.coalesce(F.col(quote(columns.row_id)), F.col(_BASE) + F.col(POSITION)).alias(columns.row_id)
    version = F.coalesce(F.col(quote(columns.commit_version)), F.col(_VERSION)).alias(columns.commit_version)
    return frame.select(*(F.col(quote(n)) for n in frame.columns if n not in (*columns.names, *own)), row_id, version)


def moving_frame(scanner: Scanner, snapshot: Snapshot, files: Sequence[AddFile], vector_of: VectorOf, told: Constants | None = None) -> DataFrame:
    """Rows with their addresses, to be written unchanged into new files: with ids and commit versions where the table tracks rows."""
    if (columns := columns_of(snapshot)) is None:
        return scanner.frame(snapshot, files, vector_of, address=True, told=told)
    return tracked_frame(scanner, snapshot, files, vector_of, columns, told=told)


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
