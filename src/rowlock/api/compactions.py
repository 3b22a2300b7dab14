"""What OPTIMIZE makes of a table's files, asked for or by itself after a commit of rows (auto compaction)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rowlock import clock
from rowlock.boundary.engine import Statement
from rowlock.conditions import named
from rowlock.exceptions import StatementRefused
from rowlock.log.snapshot import Snapshot
from rowlock.maintenance.optimize import choose_bins, clustering_bins, open_cube, small_files, target_bytes
from rowlock.parquet.curves import Order
from rowlock.protocol.actions import AddFile
from rowlock.protocol.clustering import Clustering, logical_columns, stored_columns
from rowlock.protocol.schema import ColumnPath, column_name
from rowlock.protocol.session_settings import Settings

Words = Mapping[str, Any]
"""Parameters of the operation beside its predicate."""


def compaction(snapshot: Snapshot, files: Sequence[AddFile], settings: Settings, *, full: bool = False) -> tuple[Statement, Words]:
    """The rewriting of small files, and of files with many deleted rows, into fewer; in the order of the clustering columns where there are some.

    `full`: all files of a table with clustering columns.  Raises StatementRefused for a table without.
    """
    columns = logical_columns(snapshot.domains, snapshot.schema, snapshot.table)
    if full and not columns:
        text = "OPTIMIZE FULL is for tables with clustering columns, and this one has none"
        raise StatementRefused(text, what="OPTIMIZE FULL", table=snapshot.table, condition=named("DELTA_OPTIMIZE_FULL_NOT_SUPPORTED"))
    target = target_bytes(snapshot, settings.size("optimize.maxFileSize"))
    if not columns:
        return Statement("move", None, only=choose_bins(files, target, settings.size("optimize.minFileSize"))), {}
    return _clustered(snapshot, columns, files, target, full=full), {"clusterBy": [column_name(c) for c in columns], "isFull": full}


def auto_compaction(snapshot: Snapshot, written: Sequence[AddFile], settings: Settings) -> Statement | None:
    """The rewriting of the small files of those partitions in which `written` lie, where there are enough of them; None where nothing is to be done."""
    target = settings.size("autoCompact.maxFileSize") or int(settings.text("autoCompact.maxFileSize") or 0)
    below, least = settings.size("autoCompact.minFileSize") or target // 2, int(settings.text("autoCompact.minNumFiles") or 0)
    files = small_files(snapshot.files.adds(), written, below, least)
    if not files:
        return None
    if columns := logical_columns(snapshot.domains, snapshot.schema, snapshot.table):
        return _clustered(snapshot, columns, files, target)
    bins = choose_bins(files, target, below)
    return Statement("move", None, only=bins) if bins else None


def _clustered(snapshot: Snapshot, columns: tuple[ColumnPath, ...], files: Sequence[AddFile], target: int, *, full: bool = False) -> Statement:
    stored = stored_columns(snapshot.domains, snapshot.table)
    bins = clustering_bins(files, stored, columns, full=full)
    cube = open_cube(files, (path for group in bins for path in group), columns) or clock.new_id()
    return Statement("move", Order(columns, target, Clustering(stored, columns, cube, clock.new_id())), only=bins)
