"""OPTIMIZE's builder, under the name of `delta.tables`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rowlock import clock, display
from rowlock.api import arguments
from rowlock.api.handle import Handle, Receipts
from rowlock.boundary.statements import Statement
from rowlock.engines.spark.catalyst.types import DataFrame
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.frames.optimize_metrics import Optimized, optimize_frame
from rowlock.engines.spark.statements.compaction import files_where, predicate_text
from rowlock.engines.spark.statements.z_order import Order
from rowlock.log.snapshot import Snapshot
from rowlock.maintenance.optimize import choose_bins, clustering_bins, order_bins, order_columns, target_bytes
from rowlock.protocol.actions import AddFile
from rowlock.protocol.clustering import logical_columns, stored_columns
from rowlock.protocol.schema import ColumnPath
from rowlock.transaction.run import Planned
from rowlock.transaction.state.receipt import Rewritten

Words = Mapping[str, list[str]]
"""Parameters of the operation beside its predicate."""


class DeltaOptimizeBuilder:
    """Chooses which partitions to compact, and compacts."""

    def __init__(self, handle: Handle, receipts: Receipts, condition: str | None = None) -> None:
        self._handle, self._receipts, self._condition = handle, receipts, condition

    def __repr__(self) -> str:
        return display.call("DeltaOptimizeBuilder", repr(self._handle.path), where=self._condition)

    def where(self, partitionFilter: str) -> DeltaOptimizeBuilder:
        """Only partitions for which the filter holds; it may name partition columns only."""
        return DeltaOptimizeBuilder(self._handle, self._receipts, arguments.text(partitionFilter, "partitionFilter"))

    def executeCompaction(self) -> DataFrame:
        """Rewrites small files, and files with many deleted rows, into few; never makes a writer fail, nor fails itself.

        A table with clustering columns is put in their order: its files that do not lie in it yet.
        Returns one row: the table's path and delta-spark's metrics.
        """

        def plan(snapshot: Snapshot, files: list[AddFile]) -> tuple[Statement, Words]:
            target, stored = target_bytes(snapshot), stored_columns(snapshot.domains, snapshot.table)
            columns = logical_columns(snapshot.domains, snapshot.schema, snapshot.table)
            if not columns:
                return Statement("move", None, only=choose_bins(files, target)), {}
            return Statement("move", Order(columns, target, stored), only=clustering_bins(files, stored, columns, target)), {"clusterBy": _names(columns)}

        return self._run(plan)

    def executeZOrderBy(self, *cols: str | list[str] | tuple[str, ...]) -> DataFrame:
        """Rewrites all files, those of a partition together, so that rows with near values of the columns lie near each other.

        Raises InvalidInput for unknown columns, StatementRefused for partition columns, columns without statistics and tables
        with clustering columns.  Beside other writers it is as `executeCompaction`.
        """
        wanted = arguments.names(cols, "a column to order by")

        def plan(snapshot: Snapshot, files: list[AddFile]) -> tuple[Statement, Words]:
            columns = order_columns(snapshot, wanted)
            return Statement("move", Order(columns, target_bytes(snapshot)), only=order_bins(files)), {"zOrderBy": _names(columns)}

        return self._run(plan)

    def _run(self, choose: Callable[[Snapshot, list[AddFile]], tuple[Statement, Words]]) -> DataFrame:
        planned: list[tuple[Snapshot, list[AddFile], Words]] = []
        started_ms = clock.now_ms()

        def plan(evaluator: Evaluator, snapshot: Snapshot) -> Planned:
            files = files_where(evaluator, snapshot, self._condition)
            statement, words = choose(snapshot, files)
            planned.append((snapshot, files, words))
            return [statement], {
                "predicate": [predicate_text(evaluator, self._condition)] if self._condition else [],
                "zOrderBy": [],
                "clusterBy": [],
                "auto": False,
                **words,
            }

        self._receipts.last = None
        receipt = self._handle.run("OPTIMIZE", plan)
        self._receipts.last = receipt
        snapshot, files, words = planned[-1]
        span = started_ms, clock.now_ms()
        done = Optimized(
            snapshot, files, receipt.rewritten or Rewritten(), z_ordered="zOrderBy" in words, clustered_by=words.get("clusterBy", []), span_ms=span
        )
        return optimize_frame(self._handle.spark, done)


def _names(columns: Sequence[ColumnPath]) -> list[str]:
    return [".".join(c) for c in columns]
