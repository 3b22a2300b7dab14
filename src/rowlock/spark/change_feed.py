"""Files of changes: rows on the driver where they are few, else written by Spark in one job."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rowlock.arrow.blocks import DriverRows, FileRows, logical
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddCdcFile
from rowlock.protocol.change_feed import CHANGE_TYPE, FOLDER, cdc_action
from rowlock.spark.catalyst import nullable
from rowlock.spark.plane import Plane
from rowlock.spark.scan import local_frame, table_schema
from rowlock.spark.writer import write_native
from rowlock.transaction.change_feed import Change


def write_changes(plane: Plane, changes: Sequence[Change], snapshot: Snapshot) -> list[AddCdcFile]:
    """Writes the changed rows under `_change_data/`, each with its type of change."""
    tables = _on_driver(plane, changes, snapshot)
    if tables is not None:
        return [cdc_action(s.add) for s in plane.rows.write(pa.concat_tables(tables), snapshot, folder=FOLDER)]
    frames = [frame.withColumn(CHANGE_TYPE, F.lit(change.type)) for change in changes for frame in _frames(plane, change, snapshot)]
    written = write_native(functools.reduce(DataFrame.unionAll, frames), plane.store, snapshot, within=FOLDER)
    return [cdc_action(f) for _, f in written if f.num_records]


def _on_driver(plane: Plane, changes: Sequence[Change], snapshot: Snapshot) -> list[pa.Table] | None:
    """The changed rows, where they are few and Arrow reads them as Spark would."""
    blocks = [b for c in changes for b in c.blocks]
    slices = [s for c in changes for s in c.slices]
    if any(isinstance(b.payload, FileRows) for b in blocks) or sum(s.num_rows or 0 for s in slices) + sum(b.num_rows for b in blocks) > limits().driver_rows:
        return None
    out: list[pa.Table] = []
    for change in changes:
        for piece in change.slices:
            found = plane.rows.read_slice(piece, snapshot)
            if found is None:
                return None
            out.append(_typed(found[0], change))
        out += [_typed(logical(b.payload.table, snapshot), change) for b in change.blocks]
    return out


def _typed(table: pa.Table, change: Change) -> pa.Table:
    return table.append_column(CHANGE_TYPE, pa.repeat(pa.scalar(change.type, pa.string()), table.num_rows))


def _frames(plane: Plane, change: Change, snapshot: Snapshot) -> list[DataFrame]:
    out: list[DataFrame] = []
    if change.slices:
        dead = {s.path: plane.dead(s) for s in change.slices}
        out.append(plane.scanner.frame(snapshot, [s.file for s in change.slices], lambda f: dead[f.path]))
    for block in change.blocks:
        if isinstance(block.payload, DriverRows):
            out.append(local_frame(plane.scanner.spark, logical(block.payload.table, snapshot), StructType(nullable(table_schema(snapshot)).fields)))
        elif isinstance(block.payload, FileRows):
            out.append(_staged_frame(plane, block.payload, snapshot))
    return out


def _staged_frame(plane: Plane, rows: FileRows, snapshot: Snapshot) -> DataFrame:
    return plane.scanner.frame(snapshot, list(rows.files), lambda f: rows.dead.get(f.path) or plane.vectors.of(f))
