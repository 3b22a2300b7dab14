"""Reads of a table that a plan names without its files (`Scan` in sql/scans.java): they are chosen when the plan runs, so DataFrames and views follow the table."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from rowlock.boundary.row_identity import columns_of
from rowlock.engines.spark.catalyst.bridge import JavaObject, bare
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.frames.reading import read_frame, read_tracked
from rowlock.engines.spark.read.scan import check_names, table_schema
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.schema import quote

_METADATA = "_metadata"
_OF_FILES = (
    "file_path: string, file_name: string, file_size: bigint, file_block_start: bigint, file_block_length: bigint, file_modification_time: timestamp, "
    "row_index: bigint"
)
"""The fields of Spark's column `_metadata`."""
_OF_ROWS = ("row_id", "row_commit_version")
"""Those that it has more in tables that track their rows."""


def scan_frame(evaluator: Evaluator, snapshot: Snapshot, columns: str, *, fixed: bool = False) -> DataFrame:
    """The rows of a table under the columns of a snapshot, read when the DataFrame runs: of the newest version, with `fixed` of the snapshot's.

    `columns` is what the rows are compared with then (see `api.schema_compatibility`).
    """
    check_names(snapshot)
    version = str(snapshot.version) if fixed else None
    partitions = evaluator.bridge.array_list()
    for name in snapshot.partition_columns:
        partitions.add(name)
    plan = evaluator.bridge.scans.plan(
        evaluator.spark._jsparkSession,
        evaluator.store.root,
        evaluator.root,
        version,
        columns,
        _shown(snapshot).json(),
        partitions,
        columns_of(snapshot) is not None,
    )
    return evaluator.bridge.dataframe(plan, evaluator.spark)


def _shown(snapshot: Snapshot) -> StructType:
    """The columns as a query sees them, without what Delta alone keeps with them."""
    fields = table_schema(snapshot).fields
    return StructType([StructField(f.name, bare(f.dataType), f.nullable, {k: v for k, v in f.metadata.items() if not k.startswith("delta.")}) for f in fields])


def scanned_plan(evaluator: Evaluator, snapshot: Snapshot, names: list[str], *, fixed: bool, hidden: list[str] | None) -> JavaObject:
    """The plan of the rows of a snapshot, with its files, for a scan of these columns; with `hidden` the column `_metadata` of these fields comes last."""
    columns = [F.col(quote(n)) for n in names]
    if hidden is None:
        frame = read_frame(evaluator, snapshot, fixed=fixed)
        return analyzed(frame if list(snapshot.schema.names) == names else frame.select(*columns))
    tracked = columns_of(snapshot) if _OF_ROWS[0] in hidden else None
    frame = read_frame(evaluator, snapshot, fixed=fixed) if tracked is None else read_tracked(evaluator, snapshot, tracked)
    if not len(snapshot.files):
        more = "".join(f", {n}: bigint" for n in _OF_ROWS if n in hidden)
        return analyzed(frame.select(*columns, F.lit(None).cast(f"struct<{_OF_FILES}{more}>").alias(_METADATA)))
    found = frame.metadataColumn(_METADATA)
    if _OF_ROWS[0] not in hidden:
        return analyzed(frame.select(*columns, found.alias(_METADATA)))
    ids = [F.lit(None).cast("bigint")] * 2 if tracked is None else [F.col(quote(n)) for n in tracked.names]
    fields = [found.getField(n).alias(n) for n in hidden if n not in _OF_ROWS]
    return analyzed(frame.select(*columns, F.struct(*fields, *(v.alias(n) for n, v in zip(_OF_ROWS, ids, strict=True))).alias(_METADATA)))


def analyzed(frame: DataFrame) -> JavaObject:
    """The resolved plan of a DataFrame."""
    return frame._jdf.queryExecution().analyzed()
