"""DeltaTable with the surface of `delta.tables.DeltaTable`: move a pipeline by changing one import."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from rowlock import display
from rowlock.api import arguments
from rowlock.api.changes import Changes
from rowlock.api.convert import convert
from rowlock.api.definitions import Definitions
from rowlock.api.handle import Handle, Receipts
from rowlock.api.not_yet import NotYet
from rowlock.api.optimize_builder import DeltaOptimizeBuilder
from rowlock.api.placement import open_by_name
from rowlock.api.restore import restored
from rowlock.api.table_builder import DeltaTableBuilder
from rowlock.api.transaction import DeltaTransaction
from rowlock.api.upgrades import Upgrades
from rowlock.engines.spark.catalyst.types import DataFrame, SparkSession, StructType
from rowlock.engines.spark.frames.descriptions import detail_frame, history_frame
from rowlock.engines.spark.frames.instants import milliseconds
from rowlock.engines.spark.frames.reading import read_frame
from rowlock.exceptions import TableNotFound, WrongType
from rowlock.maintenance import manifest, vacuum
from rowlock.storage.open import open_store
from rowlock.transaction.definition import backfill, creation
from rowlock.transaction.state.options import Granularity, Isolation, Lock, OnConflict, application
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import state_of
from rowlock.transaction.state.versions import snapshot_of
from rowlock.transaction.transaction import Options


class DeltaTable(Changes, Definitions, Upgrades, NotYet):
    """A handle on a Delta table, for one SparkSession.  Make it with `forPath`, `forName` or a builder."""

    def __init__(self, handle: Handle, *, alias: str | None = None, receipts: Receipts | None = None) -> None:
        self._handle, self._runner, self._alias = handle, handle, alias
        self._receipts = receipts if receipts is not None else Receipts()

    def __repr__(self) -> str:
        known = self._handle.state.known
        version, columns = (None, []) if known is None else (known.version, known.schema.names)
        partitions = list(known.partition_columns) if known is not None and known.partition_columns else None
        parts = [repr(self._handle.path), *([] if known is None else [f"version={version}", f"columns={display.some_names(columns)}"])]
        return display.call("DeltaTable", *parts, partitioned_by=partitions, name=self._handle.name, alias=self._alias)

    # ---- opening and making ----------------------------------------------------------------

    @classmethod
    def forPath(
        cls, sparkSession: SparkSession, path: str, hadoopConf: Mapping[str, str] | None = None, *, storage_options: Mapping[str, str] | None = None
    ) -> DeltaTable:
        """The table at a path, on a cloud with `storage_options` (`AWS_ENDPOINT_URL`, ...), else with those of the environment.

        `hadoopConf` is taken and not looked at.  Raises TableNotFound, UnsupportedFeature, CorruptLog, InvalidInput.
        """
        handle = Handle(sparkSession, path, storage_options=storage_options)
        handle.state.refresh()
        return cls(handle)

    @classmethod
    def forName(cls, sparkSession: SparkSession, tableOrViewName: str) -> DeltaTable:
        """The table of a name in the session's catalog, or of delta.`/path`.

        Raises TableNotFound, which is Spark's AnalysisException too, for a name without a Delta table (a temporary view has none).
        """
        handle = open_by_name(sparkSession, arguments.text(tableOrViewName, "tableOrViewName"))
        handle.state.refresh()
        return cls(handle)

    @classmethod
    def isDeltaTable(cls, sparkSession: SparkSession, identifier: str, *, storage_options: Mapping[str, str] | None = None) -> bool:
        """Whether there is a Delta table at the path."""
        return bool(state_of(open_store(identifier, storage_options)).log.exists())

    @classmethod
    def convertToDelta(
        cls, sparkSession: SparkSession, identifier: str, partitionSchema: StructType | str | None = None, *, storage_options: Mapping[str, str] | None = None
    ) -> DeltaTable:
        """Makes a table of the Parquet files in parquet.`/path`, without writing them again; `partitionSchema` says the columns of their folders.

        A table that is there is left as it is.  Raises InvalidInput, SchemaMismatch, UnsupportedFeature.
        """
        handle = convert(sparkSession, identifier, partitionSchema, storage_options)
        handle.state.refresh()
        return cls(handle)

    @classmethod
    def create(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """A builder; `execute` raises TableExists where there is a table."""
        return DeltaTableBuilder(cls, sparkSession, "create")

    @classmethod
    def createIfNotExists(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """A builder; `execute` opens the table that is there, as it is."""
        return DeltaTableBuilder(cls, sparkSession, "createIfNotExists")

    @classmethod
    def replace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """A builder; `execute` raises TableNotFound where there is no table."""
        return DeltaTableBuilder(cls, sparkSession, "replace")

    @classmethod
    def createOrReplace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """A builder for a table that is made, or made anew."""
        return DeltaTableBuilder(cls, sparkSession, "createOrReplace")

    # ---- reading ---------------------------------------------------------------------------

    def toDF(self) -> DataFrame:
        """The table at its newest version, under the handle's alias."""
        frame = read_frame(self._handle.evaluator, self._handle.state.refresh())
        return frame.alias(self._alias) if self._alias else frame

    def alias(self, aliasName: str) -> DeltaTable:
        """The same table under a name for use in expressions."""
        return DeltaTable(self._handle, alias=arguments.text(aliasName, "aliasName"), receipts=self._receipts)

    def history(self, limit: int | None = None) -> DataFrame:
        """The commits that the log holds, newest first."""
        if limit is not None and not isinstance(limit, int):
            raise WrongType(f"limit must be an int, not {type(limit).__name__}")
        log = self._handle.state.log
        return history_frame(self._handle.spark, log.history(limit), dict(log.commit_times()))

    def detail(self) -> DataFrame:
        """One row about the table: files, size, properties, protocol."""
        return detail_frame(self._handle.spark, self._handle.state.refresh(), self._handle.name)

    def generate(self, mode: Literal["symlink_format_manifest"]) -> None:
        """Writes manifests for engines that read Parquet files without the log; `mode` is 'symlink_format_manifest'.

        Raises InvalidInput, and StatementRefused for tables with deletion vectors or mapped columns.
        """
        manifest.generate(self._handle.state.store, self._handle.state.refresh(), arguments.text(mode, "mode"))

    @property
    def lastReceipt(self) -> Receipt | None:
        """The receipt of the last statement through this handle or its aliases, in this thread."""
        return self._receipts.last

    # ---- changing --------------------------------------------------------------------------

    def optimize(self) -> DeltaOptimizeBuilder:
        """Compaction: `optimize().executeCompaction()`."""
        return DeltaOptimizeBuilder(self._handle, self._receipts)

    def vacuum(self, retentionHours: float | None = None) -> DataFrame:
        """Deletes files in the table's folder that no version within the retention names, by default a week; live deletion vectors stay.

        Returns an empty DataFrame, as delta-spark does.  Raises InvalidInput for a retention shorter than the table's
        (delta.deletedFileRetentionDuration), unless spark.databricks.delta.retentionDurationCheck.enabled is false.
        """
        if retentionHours is not None and (isinstance(retentionHours, bool) or not isinstance(retentionHours, (int, float))):
            raise WrongType(f"retentionHours must be a number, not {type(retentionHours).__name__}")
        checks = self._handle.spark.conf.get("spark.databricks.delta.retentionDurationCheck.enabled", "true")
        vacuum.vacuum(self._handle.state.log, retention_hours=retentionHours, check_retention=str(checks).lower() != "false")
        return self._handle.spark.createDataFrame([], "path string").select()

    def restoreToVersion(self, version: int) -> DataFrame:
        """Brings an older version's rows, columns and properties back, as a new version.  Made again from the head where others commit first.

        One row: files and bytes, in the table now, removed and restored.  Raises VersionNotFound; InvalidInput for the newest
        version; StatementRefused where its files were vacuumed or the table is append-only; by policy
        DeltaConcurrentModificationException.
        """
        target = snapshot_of(self._handle.state, arguments.number(version, "version"))
        return restored(self._handle, self._receipts, target, version=version)

    def restoreToTimestamp(self, timestamp: str | datetime.datetime) -> DataFrame:
        """The same for the version that was the newest at a time: text as Spark casts it, in the session's time zone where it names none,
        or a datetime, in the zone of the Python process where it has none.

        Raises InvalidInput for text that is no time, VersionNotFound where the log does not reach to that time.
        """
        asked = timestamp.isoformat() if isinstance(timestamp, datetime.datetime) else arguments.text(timestamp, "timestamp")
        time_ms = milliseconds(self._handle.spark, timestamp, self._handle.path)
        return restored(self._handle, self._receipts, snapshot_of(self._handle.state, timestamp_ms=time_ms), timestamp=asked)

    def setProperties(self, properties: Mapping[str, Any]) -> None:
        """Sets table properties, Delta's and `rowlock.*`.

        Enabling delta.enableRowTracking gives every row that is there an id first, in commits of their own,
        while others go on writing.  Raises InvalidInput, naming what is allowed.
        """
        self._receipts.last = backfill.set_properties(
            self._handle.state, self._handle.table.engine, {str(k): v if isinstance(v, str) else str(v).lower() for k, v in properties.items()}
        )

    def unsetProperties(self, keys: Sequence[str]) -> None:
        """Removes table properties."""
        self._receipts.last = creation.unset_properties(self._handle.state, list(keys))

    # ---- several statements ----------------------------------------------------------------

    def transaction(
        self,
        isolation: Isolation | None = None,
        on_conflict: OnConflict | None = None,
        granularity: Granularity | None = None,
        app_id: str | None = None,
        app_version: int | None = None,
        lock: Lock | None = None,
        lock_timeout: float | None = None,
    ) -> DeltaTransaction:
        """Several statements as one commit: `with t.transaction() as txn:`, private until the block ends.

        The knobs are those of the properties `rowlock.isolation`, `rowlock.onConflict`, `rowlock.granularity` and
        `rowlock.lock` (with `lock_timeout` in seconds, after which it goes on without a lease); what is given here wins.  With `app_id` and `app_version` (0, 1, ...) the transaction is a step of an
        application: a step that is in the log already is left out, so that a batch given twice counts once.
        Raises InvalidInput for a value that is not allowed.
        """
        options = Options(isolation=isolation, on_conflict=on_conflict, granularity=granularity, lock=lock, lock_timeout=lock_timeout)
        return DeltaTransaction(self._handle, options, application(app_id, app_version), self._receipts, self._alias)


__all__ = ["DeltaTable", "TableNotFound"]
