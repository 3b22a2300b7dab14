"""OPTIMIZE's builder, under the name of `delta.tables`."""

from __future__ import annotations

from typing import Any

from rowlock.exceptions import UnsupportedFeature
from rowlock.log.snapshot import Snapshot
from rowlock.maintenance.optimize import choose_bins
from rowlock.spark.compaction import files_where, predicate_text
from rowlock.spark.descriptions import optimize_frame
from rowlock.spark.plane import Plane
from rowlock.spark.types import DataFrame
from rowlock.tables import arguments
from rowlock.tables.handle import Handle, Planned, Receipts
from rowlock.transaction.statements import Statement


class DeltaOptimizeBuilder:
    """Chooses which partitions to compact, and compacts."""

    def __init__(self, handle: Handle, receipts: Receipts, condition: str | None = None) -> None:
        self._handle, self._receipts, self._condition = handle, receipts, condition

    def where(self, partitionFilter: str) -> DeltaOptimizeBuilder:
        """Only partitions for which the filter holds; it may name partition columns only."""
        return DeltaOptimizeBuilder(self._handle, self._receipts, arguments.text(partitionFilter, "partitionFilter"))

    def executeCompaction(self) -> DataFrame:
        """Rewrites small files, and files with many deleted rows, into few; never makes a writer fail, nor fails itself.

        Returns one row: the table's path and the metrics.
        """
        considered: list[int] = []

        def plan(plane: Plane, snapshot: Snapshot) -> Planned:
            files = files_where(plane, snapshot, self._condition)
            considered.append(len(files))
            bins = choose_bins(files, snapshot)
            return [Statement("move", None, only=bins)], {"predicate": [predicate_text(plane, self._condition)] if self._condition else [], "zOrderBy": [], "auto": False}

        self._receipts.last = None
        receipt = self._handle.run("OPTIMIZE", plan)
        self._receipts.last = receipt
        partitions = receipt.metrics.get("numAddedFiles", 0)
        return optimize_frame(self._handle.spark, self._handle.path, receipt.metrics, considered[0], partitions)

    def executeZOrderBy(self, *cols: Any) -> DataFrame:
        raise UnsupportedFeature("This version has no ZORDER BY: use executeCompaction()", feature="ZORDER BY", access="write", table=self._handle.path)
