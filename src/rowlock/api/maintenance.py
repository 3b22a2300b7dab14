"""Upkeep of a table through its handle: OPTIMIZE, VACUUM, RESTORE and manifests, with delta-spark's answers."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator, Sequence
from typing import Literal

from rowlock import arguments
from rowlock.api.connect import classic
from rowlock.api.handle import Handle, Receipts, commits
from rowlock.api.optimize_builder import DeltaOptimizeBuilder
from rowlock.conditions import named
from rowlock.engines.spark.catalyst.types import DataFrame
from rowlock.engines.spark.frames.results import Results
from rowlock.exceptions import VersionNotFound
from rowlock.log.snapshot import Snapshot
from rowlock.maintenance import vacuum
from rowlock.maintenance.restore import restore
from rowlock.maintenance.vacuum import Vacuumed
from rowlock.storage.store import ObjectMeta
from rowlock.transaction.publish import manifests
from rowlock.transaction.state.call import settings


class Maintenance:
    """The methods of `DeltaTable` that tidy a table up, or bring an older version back."""

    _handle: Handle
    _receipts: Receipts

    def generate(self, mode: Literal["symlink_format_manifest"]) -> None:
        """Writes manifests for engines that read Parquet files without the log.  Runs no Spark job.

        Args:
            mode: `symlink_format_manifest`, the only one.

        Raises:
            InvalidInput: The mode is another.
            StatementRefused: The table has deletion vectors or mapped columns, which such engines would read wrongly.

        Examples:
            >>> plain = {"delta.enableDeletionVectors": "false"}
            >>> _ = rowlock.write(updates, folder + "/plain", properties=plain)
            >>> DeltaTable.forPath(spark, folder + "/plain").generate("symlink_format_manifest")
        """
        manifests.generate(self._handle.state.store, self._handle.state.refresh(), arguments.text(mode, "mode"))

    @classic
    def optimize(self) -> DeltaOptimizeBuilder:
        """Starts an OPTIMIZE, which rewrites small files into fewer.  Runs no Spark job before the builder's `executeCompaction()` or `executeZOrderBy()`.

        Returns:
            A builder that may be limited to partitions by `where()`.

        Examples:
            >>> t.optimize()
            DeltaOptimizeBuilder('...')
        """
        return DeltaOptimizeBuilder(self._handle, self._receipts)

    def vacuum(self, retentionHours: float | None = None) -> DataFrame:
        """Deletes files in the table's folder that no version within the retention needs.  Lists and deletes on the driver; runs no Spark job.

        Files that are younger than the retention stay, for a writer may have staged them; so do live deletion vectors.

        Args:
            retentionHours: For how many hours versions and files are kept; by default as `delta.deletedFileRetentionDuration` says, else a week.

        Returns:
            An empty DataFrame, as delta-spark does.

        Raises:
            InvalidInput: The retention is negative, or shorter than the table's own while `spark.databricks.delta.retentionDurationCheck.enabled` is true.

        Examples:
            >>> t.vacuum(200).columns
            []
        """
        self._vacuumed(retentionHours)
        return Results(self._handle.spark).of()

    def _vacuumed(self, hours: float | None, *, dry_run: bool = False, only_known: bool = False, inventory: Sequence[ObjectMeta] | None = None) -> Vacuumed:
        """What VACUUM deleted, or would delete in a dry run; `only_known`: only files that the log names (VACUUM LITE); `inventory`: only these files."""
        if hours is not None:
            arguments.real(hours, "retentionHours", "hours")
        with self._handle.commits("vacuum"):
            current = settings()
            checked, lite = current.flag("retentionDurationCheck.enabled"), only_known or (inventory is None and current.flag("vacuum.lite.enabled"))
            self._handle.state.refresh()  # files that an open transaction over several tables has staged are live then, or garbage
            return vacuum.vacuum(self._handle.state.log, retention_hours=hours, check_retention=checked, dry_run=dry_run, only_known=lite, inventory=inventory)

    def restoreToVersion(self, version: int) -> DataFrame:
        """Brings an older version's rows, columns and properties back, as a new version.

        Made again from the newest version where others commit first.  Decided on the driver from the log; runs no Spark job, save for a table with a
        change data feed, whose changes are written.

        Args:
            version: The version to bring back, 0 or more.

        Returns:
            A DataFrame of one row with delta-spark's columns: files and bytes that the table has now, that were removed and that were restored.  No row
            where the version is the newest, so that there is nothing to do.

        Raises:
            VersionNotFound: The log does not hold the version.
            StatementRefused: Files of the version are no more (vacuumed), or the table is append-only.
            DeltaConcurrentModificationException: Others committed meanwhile, where `rowlock.onConflict` is `fail`.

        Examples:
            >>> t.delete()
            >>> _ = t.restoreToVersion(0)
            >>> t.toDF().count()
            3
        """
        with _restorable():
            target = self._handle.at(arguments.number(version, "version"))
        return self._restored(target, version=version)

    def restoreToTimestamp(self, timestamp: str | datetime.datetime) -> DataFrame:
        """Brings back the version that was the newest at a time, as `restoreToVersion` does.  Runs no Spark job, save as that does.

        Args:
            timestamp: Text that Spark can cast to a timestamp (`2026-01-31 12:00:00`), in the session's time zone where it names none; or a datetime, in the
                time zone of the Python process where it has none.

        Returns:
            A DataFrame of one row with delta-spark's columns; no row where the version is the newest.

        Raises:
            InvalidInput: The text is no time.
            VersionNotFound: The log does not reach to that time: it is before the oldest commit or after the newest.
            StatementRefused: Files of the version are no more (vacuumed), or the table is append-only.
            WrongType: The time is neither a string nor a datetime.
            DeltaConcurrentModificationException: Others committed meanwhile, where `rowlock.onConflict` is `fail`.

        Examples:
            >>> written_at = t.history().first()["timestamp"]
            >>> clock.sleep(0.01)
            >>> t.delete()
            >>> _ = t.restoreToTimestamp(written_at)
            >>> t.toDF().count()
            3
        """
        asked = timestamp.isoformat() if isinstance(timestamp, datetime.datetime) else arguments.text(timestamp, "timestamp")
        with _restorable():
            target = self._handle.at(timestamp=timestamp)
        return self._restored(target, timestamp=asked)

    @commits("restore")
    def _restored(self, target: Snapshot, *, version: int | None = None, timestamp: str | None = None) -> DataFrame:
        """Brings `target` back, which was asked for by `version` or by `timestamp`.  One row: delta-spark's metrics."""
        ignore_missing = arguments.is_set(self._handle.spark, "spark.sql.files.ignoreMissingFiles")
        self._receipts.last = None
        asked = {"version": version, "timestamp": timestamp}  # with null for the other, as delta-spark has it
        self._receipts.last = restore(self._handle.table, target, asked, ignore_missing=ignore_missing)
        return Results(self._handle.spark).of_counts("RESTORE", self._receipts.last.metrics)


@contextlib.contextmanager
def _restorable() -> Iterator[None]:
    """A block in which a version that is not there gets the condition that RESTORE has for it."""
    try:
        yield
    except VersionNotFound as e:
        had, given = ({}, "") if e.condition is None else (e.condition.parameters, e.condition.name)
        if given == "DELTA_VERSION_NOT_FOUND":
            e.condition = named("DELTA_CANNOT_RESTORE_TABLE_VERSION", version=had["userVersion"], startVersion=had["earliest"], endVersion=had["latest"])
        elif given == "DELTA_TIMESTAMP_GREATER_THAN_COMMIT":
            asked, newest = had["providedTimestamp"], had["lastCommitTimestamp"]
            e.condition = named("DELTA_CANNOT_RESTORE_TIMESTAMP_GREATER", requestedTimestamp=asked, latestTimestamp=newest)
        elif given:
            asked, oldest = had["userTimestamp"], had["commitTs"]
            e.condition = named("DELTA_CANNOT_RESTORE_TIMESTAMP_EARLIER", requestedTimestamp=asked, earliestTimestamp=oldest)
        if e.condition is not None:
            e.args = (str(e).replace(f"[{given}]", f"[{e.condition.name}]", 1),)
        raise
