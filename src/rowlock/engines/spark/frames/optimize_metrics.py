"""The result of OPTIMIZE as a DataFrame: the table's path and delta-spark's OptimizeMetrics, with the same fields and types.

Files are counted from what was committed: bins that another compaction took first count as skipped.  Two fields follow their
documentation where delta-spark does not: endTimeMs is set, and numTableColumnsWithStats is never -1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BooleanType, DataType, DoubleType, LongType, StringType, StructField, StructType

from rowlock.engines.spark.catalyst.bridge import arrow_schema
from rowlock.engines.spark.read.scan import local_frame
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddFile
from rowlock.protocol.clustering import cube_of
from rowlock.protocol.paths import location
from rowlock.protocol.schema import ColumnPath
from rowlock.transaction.state.receipt import Rewritten


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
ANSWER = _struct({"path": StringType(), "metrics": _METRICS})


@dataclass(frozen=True, slots=True)
class Optimized:
    """What is known of a finished OPTIMIZE.

    snapshot      the snapshot that it was planned against
    considered    the live files of the partitions that it was asked for
    rewritten     what it committed
    clustered_by  the table's clustering columns, by the table's names; empty without clustering
    span_ms       start and end, in milliseconds since 1970 (UTC)
    """

    snapshot: Snapshot
    considered: Sequence[AddFile]
    rewritten: Rewritten
    z_ordered: bool
    clustered_by: Sequence[ColumnPath]
    span_ms: tuple[int, int]


def optimize_frame(spark: SparkSession, done: Optimized) -> DataFrame:
    """One row: `path` and `metrics`."""
    values = {"path": location(done.snapshot.table), "metrics": _metrics(done, spark.sparkContext.defaultParallelism)}
    return local_frame(spark, pa.Table.from_pylist([values], schema=arrow_schema(ANSWER)), ANSWER)


def _metrics(done: Optimized, parallelism: int) -> dict[str, Any]:
    out, columns = done.rewritten, len(done.snapshot.schema.fields)
    indexed = done.snapshot.properties.num_indexed_columns
    return {
        "numFilesAdded": len(out.added),
        "numFilesRemoved": len(out.removed),
        "filesAdded": _sizes(out.added),
        "filesRemoved": _sizes(out.removed),
        "partitionsOptimized": out.partitions,
        "zOrderStats": _z_order(out) if done.z_ordered else None,
        "clusteringStats": _clustering(done) if done.clustered_by else None,
        "numBins": out.bins,
        "numBatches": 1,
        "totalConsideredFiles": len(done.considered),
        "totalFilesSkipped": len(done.considered) - len(out.removed),
        "preserveInsertionOrder": False,
        "numFilesSkippedToReduceWriteAmplification": 0,
        "numBytesSkippedToReduceWriteAmplification": 0,
        "startTimeMs": done.span_ms[0],
        "endTimeMs": done.span_ms[1],
        "totalClusterParallelism": parallelism,
        "totalScheduledTasks": 0,
        "autoCompactParallelismStats": None,
        "deletionVectorStats": {"numDeletionVectorsRemoved": out.vectors, "numDeletionVectorRowsRemoved": out.vector_rows} if out.vectors else None,
        "numTableColumns": columns,
        "numTableColumnsWithStats": columns if indexed < 0 else min(indexed, columns),
    }


def _sizes(sizes: Sequence[int]) -> dict[str, Any]:
    total = sum(sizes)
    return {
        "min": min(sizes, default=None),
        "max": max(sizes, default=None),
        "avg": total / len(sizes) if sizes else 0.0,
        "totalFiles": len(sizes),
        "totalSize": total,
    }


def _z_order(out: Rewritten) -> dict[str, Any]:
    """zOrderStats: every file is sorted anew, so that no input file counts as part of a cube."""
    files = {"num": len(out.removed), "size": sum(out.removed)}
    return {
        "strategyName": "all", "inputCubeFiles": {"num": 0, "size": 0}, "inputOtherFiles": files, "inputNumCubes": 0,
        "mergedFiles": files, "numOutputCubes": out.partitions, "mergedNumCubes": None,
    }  # fmt: skip


def _clustering(done: Optimized) -> dict[str, Any]:
    """clusteringStats: files are in a cube by the tags that both engines write."""
    cubes = {f.path: cube for f in done.considered if (cube := cube_of(f, done.clustered_by)) is not None}
    inside, other = [f.size_bytes for f in done.considered if f.path in cubes], [f.size_bytes for f in done.considered if f.path not in cubes]
    return {
        "inputZCubeFiles": {"numFiles": len(inside), "size": sum(inside)},
        "inputOtherFiles": {"numFiles": len(other), "size": sum(other)},
        "inputNumZCubes": len(set(cubes.values())),
        "mergedFiles": {"numFiles": len(done.rewritten.removed), "size": sum(done.rewritten.removed)},
        "numOutputZCubes": done.rewritten.bins,
    }
