"""RESTORE through a handle, with delta-spark's answer."""

from __future__ import annotations

from rowlock.api.handle import Handle, Receipts
from rowlock.engines.spark.catalyst.types import DataFrame
from rowlock.engines.spark.frames.descriptions import restore_frame
from rowlock.log.snapshot import Snapshot
from rowlock.maintenance.restore import restore


def restored(handle: Handle, receipts: Receipts, target: Snapshot, *, version: int | None = None, timestamp: str | None = None) -> DataFrame:
    """Brings `target` back, which was asked for by `version` or by `timestamp`.  One row: delta-spark's metrics."""
    ignore_missing = str(handle.spark.conf.get("spark.sql.files.ignoreMissingFiles", "false")).lower() == "true"
    receipts.last = None
    asked = {"version": version} if timestamp is None else {"timestamp": timestamp}
    receipts.last = restore(handle.table, target, asked, ignore_missing=ignore_missing)
    return restore_frame(handle.spark, receipts.last.metrics)
