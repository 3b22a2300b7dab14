"""What commands answer, as DataFrames with delta-spark's columns: history, detail, texts, paths, counts, and the figures of MERGE, RESTORE and OPTIMIZE.

OPTIMIZE's files are counted from what was committed: bins that another compaction took first count as skipped.  Two of its fields follow
their documentation where delta-spark does not: endTimeMs is set, and numTableColumnsWithStats is never -1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, BooleanType, DataType, DoubleType, IntegerType, LongType, MapType, StringType, StructField, StructType, TimestampType

from rowlock import display
from rowlock.engines.spark.catalyst.bridge import arrow_schema
from rowlock.engines.spark.read.scan import local_frame, rows_frame
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddFile, Commit
from rowlock.protocol.clustering import cube_of
from rowlock.protocol.features import all_features
from rowlock.protocol.paths import location
from rowlock.protocol.schema import column_name
from rowlock.transaction.publish.metrics import operation_parameters as texts
from rowlock.transaction.state.receipt import Rewritten

_TEXT, _MAP = StringType(), MapType(StringType(), StringType())


def _columns(fields: Mapping[str, DataType], nullable: Collection[str] | None = None) -> StructType:
    """A struct type of fields that may be null: all, or those named."""
    return StructType([StructField(name, type_, nullable is None or name in nullable) for name, type_ in fields.items()])


_HISTORY = _columns({
    "version": LongType(), "timestamp": TimestampType(), "userId": _TEXT, "userName": _TEXT, "operation": _TEXT, "operationParameters": _MAP,
    "job": _columns(dict.fromkeys(("jobId", "jobName", "jobRunId", "runId", "jobOwnerId", "triggerType"), _TEXT)),
    "notebook": _columns({"notebookId": _TEXT}), "clusterId": _TEXT, "readVersion": LongType(), "isolationLevel": _TEXT, "isBlindAppend": BooleanType(),
    "operationMetrics": _MAP, "userMetadata": _TEXT, "engineInfo": _TEXT,
})  # fmt: skip
_DETAIL = _columns({
    "format": _TEXT, "id": _TEXT, "name": _TEXT, "description": _TEXT, "location": _TEXT, "createdAt": TimestampType(), "lastModified": TimestampType(),
    "partitionColumns": ArrayType(_TEXT), "clusteringColumns": ArrayType(_TEXT), "numFiles": LongType(), "sizeInBytes": LongType(), "properties": _MAP,
    "minReaderVersion": IntegerType(), "minWriterVersion": IntegerType(), "tableFeatures": ArrayType(_TEXT),
})  # fmt: skip


def history_frame(spark: SparkSession, commits: Sequence[Commit], times: Mapping[int, int]) -> DataFrame:
    """One row for each commit, in the order given.  `times`: from version to the milliseconds since 1970 (UTC) by which time travel finds it."""
    return rows_frame(spark, _HISTORY, (_history_row(c, times.get(c.version)) for c in commits))


def _history_row(commit: Commit, time_ms: int | None) -> tuple[Any, ...]:
    raw: Mapping[str, Any] = commit.info.raw if commit.info else {}
    known = {
        "version": commit.version,
        "timestamp": display.utc(time_ms if time_ms is not None or commit.info is None else commit.info.timestamp_ms),
        **{name: texts(held) if isinstance(held := raw.get(name), Mapping) else None for name in ("operationParameters", "operationMetrics")},
        **dict.fromkeys(("job", "notebook")),
    }
    return tuple(known[name] if name in known else raw.get(name) for name in _HISTORY.names)


def detail_frame(spark: SparkSession, snapshot: Snapshot, name: str | None = None) -> DataFrame:
    """One row that describes the table at the snapshot; `name` is its name in the catalog."""
    m = snapshot.metadata
    clustering = [column_name(c) for c in snapshot.clustering_columns]
    features = sorted(all_features(snapshot.protocol))
    row = (
        "delta", m.id, name or m.name, m.description, location(snapshot.table), display.utc(m.created_time_ms), display.utc(snapshot.timestamp_ms), list(m.partition_columns), clustering,
        len(snapshot.files), snapshot.files.total_size_bytes, dict(m.configuration), snapshot.protocol.min_reader_version, snapshot.protocol.min_writer_version, features,
    )  # fmt: skip
    return rows_frame(spark, _DETAIL, [row])


def counts_frame(spark: SparkSession, statement: str, metrics: Mapping[str, int]) -> DataFrame:
    """The result of RESTORE or of CLONE: one row of the metrics, `num_removed_files` is numRemovedFiles; no row without metrics."""
    columns, by_lower = columns_of_answer(statement), {name.lower(): count for name, count in metrics.items()}
    return rows_frame(spark, columns, [tuple(by_lower[name.replace("_", "")] for name in columns.names)] if metrics else [])


def _struct(fields: dict[str, DataType], nullable: Sequence[str] = ()) -> StructType:
    """A struct type in which structs, text and the fields `nullable` may be null, other fields may not, as JVM encoders have it."""
    return StructType([StructField(n, t, isinstance(t, (StructType, StringType)) or n in nullable) for n, t in fields.items()])


def _numbers(*names: str, nullable: bool = False) -> StructType:
    return _struct(dict.fromkeys(names, LongType()), names if nullable else ())


_LONG = LongType()
_Z_FILES, _CLUSTER_FILES = _numbers("num", "size"), _numbers("numFiles", "size")
_SIZES = _struct({"min": _LONG, "max": _LONG, "avg": DoubleType(), "totalFiles": _LONG, "totalSize": _LONG}, ("min", "max"))
_Z_ORDER = _struct(
    {
        "strategyName": StringType(), "inputCubeFiles": _Z_FILES, "inputOtherFiles": _Z_FILES, "inputNumCubes": _LONG,
        "mergedFiles": _Z_FILES, "numOutputCubes": _LONG, "mergedNumCubes": _LONG,
    },
    ("mergedNumCubes",),
)  # fmt: skip
_CLUSTERING = _struct(
    {"inputZCubeFiles": _CLUSTER_FILES, "inputOtherFiles": _CLUSTER_FILES, "inputNumZCubes": _LONG, "mergedFiles": _CLUSTER_FILES, "numOutputZCubes": _LONG}
)
_PARALLELISM = _numbers(
    "maxClusterActiveParallelism", "minClusterActiveParallelism", "maxSessionActiveParallelism", "minSessionActiveParallelism", nullable=True
)
_METRICS = _struct(
    {
        "numFilesAdded": _LONG, "numFilesRemoved": _LONG, "filesAdded": _SIZES, "filesRemoved": _SIZES, "partitionsOptimized": _LONG,
        "zOrderStats": _Z_ORDER, "clusteringStats": _CLUSTERING, "numBins": _LONG, "numBatches": _LONG, "totalConsideredFiles": _LONG,
        "totalFilesSkipped": _LONG, "preserveInsertionOrder": BooleanType(), "numFilesSkippedToReduceWriteAmplification": _LONG,
        "numBytesSkippedToReduceWriteAmplification": _LONG, "startTimeMs": _LONG, "endTimeMs": _LONG, "totalClusterParallelism": _LONG,
        "totalScheduledTasks": _LONG, "autoCompactParallelismStats": _PARALLELISM,
        "deletionVectorStats": _numbers("numDeletionVectorsRemoved", "numDeletionVectorRowsRemoved"), "numTableColumns": _LONG, "numTableColumnsWithStats": _LONG,
    }
)  # fmt: skip
_OPTIMIZED = _struct({"path": StringType(), "metrics": _METRICS})


def _counts(names: str) -> StructType:
    return _numbers(*names.split(), nullable=True)


_PATH = _columns({"path": _TEXT})
_AFFECTED = _counts("num_affected_rows")
_COLUMNS: Mapping[str, StructType] = {
    "UpdateTable": _AFFECTED,
    "DeleteFromTable": _AFFECTED,
    "MergeIntoTable": _counts("num_affected_rows num_updated_rows num_deleted_rows num_inserted_rows"),
    "DescribeRelation": _columns({"col_name": _TEXT, "data_type": _TEXT, "comment": _TEXT}, ("comment",)),
    "DescribeColumn": _columns({"info_name": _TEXT, "info_value": _TEXT}, ()),
    "ShowTableProperties": _columns({"key": _TEXT, "value": _TEXT}, ()),
    "ShowColumns": _columns({"col_name": _TEXT}, ()),
    "ShowCreateTable": _columns({"createtab_stmt": _TEXT}, ()),
    "OPTIMIZE": _OPTIMIZED,
    "REORG": _OPTIMIZED,
    "VACUUM": _PATH,
    "HISTORY": _HISTORY,
    "DETAIL": _DETAIL,
    "RESTORE": _counts("table_size_after_restore num_of_files_after_restore num_removed_files num_restored_files removed_files_size restored_files_size"),
    "CLONE": _counts("source_table_size source_num_of_files num_removed_files num_copied_files removed_files_size copied_files_size"),
}
"""The columns of what each statement answers, by the class of its plan or the kind of Delta's own; the others answer nothing."""


def columns_of_answer(statement: str) -> StructType:
    """The columns of what a statement answers; none where it answers nothing."""
    return _COLUMNS.get(statement, StructType([]))


def answer(spark: SparkSession, statement: str = "", rows: Iterable[Sequence[Any]] = ()) -> DataFrame:
    """What a statement answers; without columns where it answers nothing."""
    columns = columns_of_answer(statement)
    return rows_frame(spark, columns, rows) if columns.fields else rows_frame(spark, _PATH, []).select()


def optimize_frame(
    spark: SparkSession, snapshot: Snapshot, considered: Sequence[AddFile], out: Rewritten, *, z_ordered: bool, clustered: bool, span_ms: tuple[int, int]
) -> DataFrame:
    """One row: `path` and `metrics` of an OPTIMIZE that was planned against a snapshot, for the live files `considered`, and committed `out`; `span_ms`: when it ran."""
    columns, indexed = len(snapshot.schema.fields), snapshot.properties.num_indexed_columns
    metrics = {
        "numFilesAdded": len(out.added),
        "numFilesRemoved": len(out.removed),
        "filesAdded": _sizes(out.added),
        "filesRemoved": _sizes(out.removed),
        "partitionsOptimized": out.partitions,
        "zOrderStats": _z_order(out) if z_ordered else None,
        "clusteringStats": _clustering(snapshot, considered, out) if clustered else None,
        "numBins": out.bins,
        "numBatches": 1,
        "totalConsideredFiles": len(considered),
        "totalFilesSkipped": len(considered) - len(out.removed),
        "preserveInsertionOrder": False,
        "numFilesSkippedToReduceWriteAmplification": 0,
        "numBytesSkippedToReduceWriteAmplification": 0,
        "startTimeMs": span_ms[0],
        "endTimeMs": span_ms[1],
        "totalClusterParallelism": spark.sparkContext.defaultParallelism,
        "totalScheduledTasks": 0,
        "autoCompactParallelismStats": None,
        "deletionVectorStats": {"numDeletionVectorsRemoved": out.vectors, "numDeletionVectorRowsRemoved": out.vector_rows} if out.vectors else None,
        "numTableColumns": columns,
        "numTableColumnsWithStats": columns if indexed < 0 else min(indexed, columns),
    }
    row = {"path": location(snapshot.table), "metrics": metrics}
    return local_frame(spark, pa.Table.from_pylist([row], schema=arrow_schema(_OPTIMIZED)), _OPTIMIZED)


def _sizes(sizes: Sequence[int]) -> dict[str, Any]:
    total, ends = sum(sizes), {"min": min(sizes, default=None), "max": max(sizes, default=None)}
    return {**ends, "avg": total / len(sizes) if sizes else 0.0, "totalFiles": len(sizes), "totalSize": total}


def _z_order(out: Rewritten) -> dict[str, Any]:
    """zOrderStats: every file is sorted anew, so that no input file counts as part of a cube."""
    files = {"num": len(out.removed), "size": sum(out.removed)}
    return {
        "strategyName": "all", "inputCubeFiles": {"num": 0, "size": 0}, "inputOtherFiles": files, "inputNumCubes": 0,
        "mergedFiles": files, "numOutputCubes": out.partitions, "mergedNumCubes": None,
    }  # fmt: skip


def _clustering(snapshot: Snapshot, considered: Sequence[AddFile], out: Rewritten) -> dict[str, Any]:
    """clusteringStats: files are in a cube by the tags that both engines write."""
    cubes = {f.path: cube for f in considered if (cube := cube_of(f, snapshot.clustering_columns)) is not None}
    inside, other = [f.size_bytes for f in considered if f.path in cubes], [f.size_bytes for f in considered if f.path not in cubes]
    return {
        "inputZCubeFiles": {"numFiles": len(inside), "size": sum(inside)},
        "inputOtherFiles": {"numFiles": len(other), "size": sum(other)},
        "inputNumZCubes": len(set(cubes.values())),
        "mergedFiles": {"numFiles": len(out.removed), "size": sum(out.removed)},
        "numOutputZCubes": out.bins,
    }
