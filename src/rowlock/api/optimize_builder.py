"""OPTIMIZE's builder, under the name of `delta.tables`, and the figures that it returns.

Files are counted from what was committed: bins that another compaction took first count as skipped.  Two fields follow their documentation where
delta-spark does not: endTimeMs is set, and numTableColumnsWithStats is never -1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rowlock import arguments, clock, display
from rowlock.api.handle import Handle, Receipts
from rowlock.boundary.engine import Statement
from rowlock.engines.spark.catalyst.types import DataFrame
from rowlock.engines.spark.frames.results import Results
from rowlock.engines.spark.plan import Planner
from rowlock.log.snapshot import Snapshot
from rowlock.maintenance.optimize import Words, compaction, order_bins, order_columns, partition_types, purge_bins, target_bytes
from rowlock.parquet.curves import Order
from rowlock.parquet.files import files_with_dropped_columns
from rowlock.protocol.actions import AddFile
from rowlock.protocol.clustering import cube_of
from rowlock.protocol.paths import location
from rowlock.storage.store import ObjectStore
from rowlock.transaction.state.call import settings
from rowlock.transaction.state.receipt import Rewritten
from rowlock.transaction.transaction import Planned


class DeltaOptimizeBuilder:
    """An OPTIMIZE: chooses partitions and rewrites their files.  Made by `DeltaTable.optimize()`.

    Examples:
        >>> t.optimize().executeCompaction().select("metrics.numFilesAdded").first()[0]
        0
    """

    def __init__(self, handle: Handle, receipts: Receipts, condition: str | None = None) -> None:
        self._handle, self._receipts, self._condition = handle, receipts, condition

    def __repr__(self) -> str:
        return display.call("DeltaOptimizeBuilder", repr(self._handle.path), where=self._condition)

    def where(self, partitionFilter: str) -> DeltaOptimizeBuilder:
        """Limits the OPTIMIZE to partitions for which a filter is true.  Runs no Spark job.

        Args:
            partitionFilter: A condition on partition columns only, as SQL text.

        Returns:
            A builder with this filter in place of any before.

        Raises:
            WrongType: The filter is not a string.

        Examples:
            >>> t.optimize().where("region = 'eu'")
            DeltaOptimizeBuilder('...', where="region = 'eu'")
        """
        return DeltaOptimizeBuilder(self._handle, self._receipts, arguments.text(partitionFilter, "partitionFilter"))

    def executeCompaction(self) -> DataFrame:
        """Rewrites small files, and files with many deleted rows, into fewer; no other writer fails because of it, nor does it fail itself.

        A table with clustering columns is put in their order: its files that do not lie in it yet.  Few rows are rewritten on the driver, many by Spark jobs.

        Returns:
            A DataFrame of one row: the table's `path`, and delta-spark's `metrics`.

        Raises:
            StatementRefused: The filter names a column that is not a partition column.
            AnalysisException: Spark's: the filter cannot be resolved.
            UnsupportedFeature: The table needs a feature that this version cannot write.
            CommitUnknown: The store did not say whether the commit landed, and the log cannot be read.

        Examples:
            >>> _ = rowlock.write(updates, path)
            >>> metrics = t.optimize().executeCompaction().first()["metrics"]
            >>> metrics.numFilesAdded
            1
        """
        return self._compact()

    def _compact(self, *, full: bool = False) -> DataFrame:
        """`executeCompaction`; with `full` all files of a table with clustering columns are put in their order (OPTIMIZE FULL)."""

        return self._run(lambda snapshot, files: compaction(snapshot, files, settings(), full=full))

    def executeZOrderBy(self, *cols: str | list[str] | tuple[str, ...]) -> DataFrame:
        """Rewrites all files, those of a partition together, so that rows with near values of the columns lie near each other.

        Beside other writers it is as `executeCompaction`.  Few rows are rewritten on the driver, many by Spark jobs.

        Args:
            *cols: Names of the columns, one by one or as one list; none: as `executeCompaction`.

        Returns:
            A DataFrame of one row: the table's `path`, and delta-spark's `metrics`.

        Raises:
            InvalidInput: There is no such column.
            StatementRefused: A column is a partition column or has no statistics, or the table has clustering columns.
            UnsupportedFeature: The table needs a feature that this version cannot write.
            CommitUnknown: The store did not say whether the commit landed, and the log cannot be read.

        Examples:
            >>> t.optimize().executeZOrderBy("region", "id").select("metrics.numFilesAdded").first()[0]
            1
        """
        if not (wanted := arguments.names(cols, "a column to order by in cols")):
            return self._compact()

        def plan(snapshot: Snapshot, files: list[AddFile]) -> tuple[Statement, Words]:
            columns = order_columns(snapshot, wanted)
            order = Order(columns, target_bytes(snapshot, settings().size("optimize.maxFileSize")))
            return Statement("move", order, only=order_bins(files, partition_types(snapshot))), {"zOrderBy": [".".join(c) for c in columns]}

        return self._run(plan)

    def _purge(self) -> DataFrame:
        """REORG ... APPLY (PURGE): rewrites, one by one, the files that hold deleted rows or dropped columns; beside other writers it is as a compaction."""
        return self._rewrite(files_with_dropped_columns, "applyPurge")

    def _rewrite(self, stale: Callable[[ObjectStore, list[AddFile], Snapshot], list[AddFile]], word: str) -> DataFrame:
        """Rewrites, one by one, the files that hold deleted rows, and of the others those that are `stale`."""
        store = self._handle.state.store

        def plan(snapshot: Snapshot, files: list[AddFile]) -> tuple[Statement, Words]:
            plain = [f for f in files if f.deletion_vector is None]
            return Statement("move", None, only=purge_bins(files, stale(store, plain, snapshot))), {}

        return self._run(plan, "REORG", {word: True})

    def _run(
        self, choose: Callable[[Snapshot, list[AddFile]], tuple[Statement, Words]], operation: str = "OPTIMIZE", parameters: Mapping[str, Any] | None = None
    ) -> DataFrame:
        """Commits the rewriting that `choose` makes of a snapshot's files, and returns delta-spark's metrics."""
        planned: list[tuple[Snapshot, list[AddFile], Words]] = []
        started_ms = clock.now_ms()

        def plan(planner: Planner, snapshot: Snapshot) -> Planned:
            files = planner.files_where(snapshot, self._condition)
            statement, words = choose(snapshot, files)
            planned.append((snapshot, files, words))
            predicate = [planner.predicate_text(self._condition)] if self._condition else []
            return [statement], {"predicate": predicate, **(parameters or {"zOrderBy": [], "clusterBy": [], "auto": False, **words})}

        self._receipts.last = None
        receipt = self._handle.run(operation, plan)
        self._receipts.last = receipt
        snapshot, files, words = planned[-1]
        metrics = {
            **_metrics(snapshot, files, receipt.rewritten or Rewritten(), words),
            "startTimeMs": started_ms,
            "endTimeMs": clock.now_ms(),
            "totalClusterParallelism": self._handle.spark.sparkContext.defaultParallelism,
        }
        return Results(self._handle.spark).of_figures("OPTIMIZE", {"path": location(snapshot.table), "metrics": metrics})


def _metrics(snapshot: Snapshot, considered: Sequence[AddFile], out: Rewritten, words: Words) -> dict[str, Any]:
    """The figures of an OPTIMIZE that was planned against a snapshot, for the live files `considered`, and committed `out`."""
    columns, indexed = len(snapshot.schema.fields), snapshot.properties.num_indexed_columns
    return {
        "numFilesAdded": len(out.added),
        "numFilesRemoved": len(out.removed),
        "filesAdded": _sizes(out.added),
        "filesRemoved": _sizes(out.removed),
        "partitionsOptimized": out.partitions,
        "zOrderStats": _z_order(out) if "zOrderBy" in words else None,
        "clusteringStats": _clustering(snapshot, considered, out) if "clusterBy" in words and snapshot.clustering_columns else None,
        "numBins": out.bins,
        "numBatches": 1,
        "totalConsideredFiles": len(considered),
        "totalFilesSkipped": len(considered) - len(out.removed),
        "preserveInsertionOrder": False,
        **dict.fromkeys(("numFilesSkippedToReduceWriteAmplification", "numBytesSkippedToReduceWriteAmplification", "totalScheduledTasks"), 0),
        "autoCompactParallelismStats": None,
        "deletionVectorStats": {"numDeletionVectorsRemoved": out.vectors, "numDeletionVectorRowsRemoved": out.vector_rows} if out.vectors else None,
        "numTableColumns": columns,
        "numTableColumnsWithStats": columns if indexed < 0 else min(indexed, columns),
    }


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
