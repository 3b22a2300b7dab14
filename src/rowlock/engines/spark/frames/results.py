"""What commands return, as DataFrames with delta-spark's columns: history, detail, texts, paths, counts, and the figures of MERGE, RESTORE and OPTIMIZE."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, BooleanType, DataType, DoubleType, IntegerType, LongType, MapType, StringType, StructField, StructType, TimestampType

from rowlock import display
from rowlock.engines.spark.catalyst.bridge import arrow_schema
from rowlock.engines.spark.read.scan import local_frame, rows_frame
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import Commit
from rowlock.protocol.features import all_features
from rowlock.protocol.paths import location
from rowlock.protocol.schema import column_name
from rowlock.transaction.publish.metrics import operation_parameters as texts

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


def _history_row(commit: Commit, time_ms: int | None) -> tuple[Any, ...]:
    raw: Mapping[str, Any] = commit.info.raw if commit.info else {}
    known = {
        "version": commit.version,
        "timestamp": display.utc(time_ms if time_ms is not None or commit.info is None else commit.info.timestamp_ms),
        **{name: texts(held) if isinstance(held := raw.get(name), Mapping) else None for name in ("operationParameters", "operationMetrics")},
        **dict.fromkeys(("job", "notebook")),
    }
    return tuple(known[name] if name in known else raw.get(name) for name in _HISTORY.names)


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
"""The columns of what each statement returns, by the class of its plan or the kind of Delta's own; the others return nothing."""


@dataclass(frozen=True, slots=True)
class Results:
    """What commands return, on one session."""

    spark: SparkSession

    @staticmethod
    def columns(statement: str) -> StructType:
        """The columns of what a statement returns; none where it returns nothing."""
        return _COLUMNS.get(statement, StructType([]))

    def of(self, statement: str = "", rows: Iterable[Sequence[Any]] = ()) -> DataFrame:
        """The rows that a statement returns; without columns where it returns nothing."""
        columns = self.columns(statement)
        return rows_frame(self.spark, columns, rows) if columns.fields else rows_frame(self.spark, _PATH, []).select()

    def of_history(self, commits: Sequence[Commit], times: Mapping[int, int]) -> DataFrame:
        """One row for each commit, in the order given.  `times`: from version to the milliseconds since 1970 (UTC) by which time travel finds it."""
        return self.of("HISTORY", (_history_row(c, times.get(c.version)) for c in commits))

    def of_detail(self, snapshot: Snapshot, name: str | None = None) -> DataFrame:
        """One row that describes the table at the snapshot; `name` is its name in the catalog."""
        m, protocol, clustering = snapshot.metadata, snapshot.protocol, [column_name(c) for c in snapshot.clustering_columns]
        row = (
            "delta", m.id, name or m.name, m.description, location(snapshot.table), display.utc(m.created_time_ms), display.utc(snapshot.timestamp_ms), list(m.partition_columns), clustering,
            len(snapshot.files), snapshot.files.total_size_bytes, dict(m.configuration), protocol.min_reader_version, protocol.min_writer_version, sorted(all_features(protocol)),
        )  # fmt: skip
        return self.of("DETAIL", [row])

    def of_counts(self, statement: str, metrics: Mapping[str, int]) -> DataFrame:
        """The result of RESTORE or of CLONE: one row of the metrics, `num_removed_files` is numRemovedFiles; no row without metrics."""
        by_lower = {name.lower(): count for name, count in metrics.items()}
        return self.of(statement, [tuple(by_lower[name.replace("_", "")] for name in self.columns(statement).names)] if metrics else [])

    def of_figures(self, statement: str, figures: Mapping[str, Any]) -> DataFrame:
        """One row of figures by their names, those in structs, too."""
        columns = self.columns(statement)
        return local_frame(self.spark, pa.Table.from_pylist([figures], schema=arrow_schema(columns)), columns)
