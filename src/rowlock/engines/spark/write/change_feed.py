"""Writes the files of the change data feed: on the driver where the changed rows are few, else in one Spark job."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rowlock.boundary.row_changes import Change
from rowlock.engines.spark.catalyst.bridge import nullable
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.read.scan import local_frame, table_schema
from rowlock.engines.spark.write.writer import write_native
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.blocks import StagedRows, logical
from rowlock.protocol.actions import AddCdcFile
from rowlock.protocol.change_feed import CHANGE_TYPE, FOLDER, cdc_action


def write_changes(evaluator: Evaluator, changes: Sequence[Change], snapshot: Snapshot) -> list[AddCdcFile]:
    """Writes the changed rows, each with its `_change_type`, into files under `_change_data/`."""
    tables = _on_driver(evaluator, changes, snapshot)
    if tables is not None:
        return [cdc_action(s.add) for s in evaluator.rows.write(pa.concat_tables(tables), snapshot, folder=FOLDER)]
    frames = [frame.withColumn(CHANGE_TYPE, F.lit(change.type)) for change in changes for frame in _frames(evaluator, change, snapshot)]
    written = write_native(functools.reduce(DataFrame.unionAll, frames), evaluator.store, snapshot, within=FOLDER)
    return [cdc_action(f) for _, f in written if f.num_records]


def _on_driver(evaluator: Evaluator, changes: Sequence[Change], snapshot: Snapshot) -> list[pa.Table] | None:
    """The changed rows with their types; None where they are many or Arrow cannot read them as Spark would."""
    blocks = [b for c in changes for b in c.blocks]
    slices = [s for c in changes for s in c.slices]
    if any(b.payload.files for b in blocks) or sum(s.num_rows or 0 for s in slices) + sum(b.num_rows for b in blocks) > limits().driver_rows:
        return None
    out: list[pa.Table] = []
    for change in changes:
        for piece in change.slices:
            found = evaluator.rows.read_slice(piece, snapshot)
            if found is None:
                return None
            out.append(_typed(found[0], change))
        out += [_typed(logical(table, snapshot), change) for b in change.blocks for table in b.payload.tables]
    return out


def _typed(table: pa.Table, change: Change) -> pa.Table:
    return table.append_column(CHANGE_TYPE, pa.repeat(pa.scalar(change.type, pa.string()), table.num_rows))


def _frames(evaluator: Evaluator, change: Change, snapshot: Snapshot) -> list[DataFrame]:
    files = [s.file for s in change.slices]
    dead = {s.path: evaluator.dead_positions(s) for s in change.slices}
    out = [evaluator.scanner.frame(snapshot, files, lambda f: dead[f.path])] if files else []
    schema = StructType(nullable(table_schema(snapshot)).fields)
    for block in change.blocks:
        out += [local_frame(evaluator.scanner.spark, logical(table, snapshot), schema) for table in block.payload.tables]
        if block.payload.files:
            out.append(_staged_frame(evaluator, block.payload, snapshot))
    return out


def _staged_frame(evaluator: Evaluator, rows: StagedRows, snapshot: Snapshot) -> DataFrame:
    return evaluator.scanner.frame(snapshot, rows.files, lambda f: rows.dead.get(f.path) or evaluator.vectors.of(f))
