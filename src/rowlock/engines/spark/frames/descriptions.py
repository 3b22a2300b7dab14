"""DataFrames that describe a table and what commands did: history, detail, the results of MERGE and RESTORE; the columns are delta-spark's."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, BooleanType, IntegerType, LongType, MapType, StringType, StructField, StructType, TimestampType

from rowlock.engines.spark.read.scan import rows_frame
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import Commit
from rowlock.protocol.clustering import logical_columns
from rowlock.protocol.features import reader_features, writer_features
from rowlock.protocol.paths import location

_TEXT, _MAP = StringType(), MapType(StringType(), StringType())
_JOB = StructType([StructField(n, _TEXT) for n in ("jobId", "jobName", "jobRunId", "runId", "jobOwnerId", "triggerType")])
HISTORY = StructType(
    [
        StructField("version", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("userId", _TEXT),
        StructField("userName", _TEXT),
        StructField("operation", _TEXT),
        StructField("operationParameters", _MAP),
        StructField("job", _JOB),
        StructField("notebook", StructType([StructField("notebookId", _TEXT)])),
        StructField("clusterId", _TEXT),
        StructField("readVersion", LongType()),
        StructField("isolationLevel", _TEXT),
        StructField("isBlindAppend", BooleanType()),
        StructField("operationMetrics", _MAP),
        StructField("userMetadata", _TEXT),
        StructField("engineInfo", _TEXT),
    ]
)
DETAIL = StructType(
    [
        StructField("format", _TEXT),
        StructField("id", _TEXT),
        StructField("name", _TEXT),
        StructField("description", _TEXT),
        StructField("location", _TEXT),
        StructField("createdAt", TimestampType()),
        StructField("lastModified", TimestampType()),
        StructField("partitionColumns", ArrayType(_TEXT)),
        StructField("clusteringColumns", ArrayType(_TEXT)),
        StructField("numFiles", LongType()),
        StructField("sizeInBytes", LongType()),
        StructField("properties", _MAP),
        StructField("minReaderVersion", IntegerType()),
        StructField("minWriterVersion", IntegerType()),
        StructField("tableFeatures", ArrayType(_TEXT)),
    ]
)
MERGE = StructType([StructField(n, LongType()) for n in ("num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows")])
_RESTORE_METRICS = {
    "table_size_after_restore": "tableSizeAfterRestore",
    "num_of_files_after_restore": "numOfFilesAfterRestore",
    "num_removed_files": "numRemovedFiles",
    "num_restored_files": "numRestoredFiles",
    "removed_files_size": "removedFilesSize",
    "restored_files_size": "restoredFilesSize",
}
_CLONE_METRICS = {
    "source_table_size": "sourceTableSize",
    "source_num_of_files": "sourceNumOfFiles",
    "num_removed_files": "numRemovedFiles",
    "num_copied_files": "numCopiedFiles",
    "removed_files_size": "removedFilesSize",
    "copied_files_size": "copiedFilesSize",
}
CLONE = StructType([StructField(n, LongType()) for n in _CLONE_METRICS])
RESTORE = StructType([StructField(n, LongType()) for n in _RESTORE_METRICS])


def _time(ms: int | None) -> datetime.datetime | None:
    return None if ms is None else datetime.datetime.fromtimestamp(ms / 1000, tz=datetime.UTC)


def _strings(values: Any) -> dict[str, str | None] | None:
    if not isinstance(values, Mapping):
        return None
    return {str(k): v if v is None or isinstance(v, str) else orjson.dumps(v).decode() for k, v in values.items()}


def history_frame(spark: SparkSession, commits: Sequence[Commit], times: Mapping[int, int]) -> DataFrame:
    """One row for each commit, in the order given.  `times`: from version to the milliseconds since 1970 (UTC) by which time travel finds it."""
    return rows_frame(spark, HISTORY, (_history_row(c, times.get(c.version)) for c in commits))


def _history_row(commit: Commit, time_ms: int | None) -> tuple[Any, ...]:
    raw: Mapping[str, Any] = commit.info.raw if commit.info else {}
    text = raw.get
    return (
        commit.version,
        _time(time_ms if time_ms is not None or commit.info is None else commit.info.timestamp_ms),
        text("userId"),
        text("userName"),
        text("operation"),
        _strings(text("operationParameters")),
        None,
        None,
        text("clusterId"),
        text("readVersion"),
        text("isolationLevel"),
        text("isBlindAppend"),
        _strings(text("operationMetrics")),
        text("userMetadata"),
        text("engineInfo"),
    )


def detail_frame(spark: SparkSession, snapshot: Snapshot, name: str | None = None) -> DataFrame:
    """One row that describes the table at the snapshot; `name` is its name in the catalog."""
    m = snapshot.metadata
    clustering = [".".join(c) for c in logical_columns(snapshot.domains, snapshot.schema, snapshot.table)]
    features = sorted(reader_features(snapshot.protocol) | writer_features(snapshot.protocol))
    row = (
        "delta", m.id, name or m.name, m.description, location(snapshot.table), _time(m.created_time_ms), _time(snapshot.timestamp_ms), list(m.partition_columns), clustering,
        len(snapshot.files), snapshot.files.total_size_bytes, dict(m.configuration), snapshot.protocol.min_reader_version, snapshot.protocol.min_writer_version, features,
    )  # fmt: skip
    return rows_frame(spark, DETAIL, [row])


def merge_frame(spark: SparkSession, metrics: Mapping[str, int]) -> DataFrame:
    """The result of MERGE: the numbers of affected, updated, deleted and inserted rows."""
    updated, deleted, inserted = (metrics.get(f"numTargetRows{k}", 0) for k in ("Updated", "Deleted", "Inserted"))
    return rows_frame(spark, MERGE, [(updated + deleted + inserted, updated, deleted, inserted)])


def restore_frame(spark: SparkSession, metrics: Mapping[str, int]) -> DataFrame:
    """The result of RESTORE: files and bytes in the table now, removed, and restored; no row without metrics."""
    return _counts_frame(spark, metrics, _RESTORE_METRICS, RESTORE)


def clone_frame(spark: SparkSession, metrics: Mapping[str, int]) -> DataFrame:
    """The result of a clone: files and bytes of the source, and nothing removed or copied; no row without metrics."""
    return _counts_frame(spark, metrics, _CLONE_METRICS, CLONE)


def _counts_frame(spark: SparkSession, metrics: Mapping[str, int], names: Mapping[str, str], columns: StructType) -> DataFrame:
    """One row of metrics under other names; no row without metrics."""
    return rows_frame(spark, columns, [tuple(metrics[m] for m in names.values())] if metrics else [])
