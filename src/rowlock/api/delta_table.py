"""DeltaTable with the surface of `delta.tables.DeltaTable`: move a pipeline by changing one import."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rowlock import arguments, display
from rowlock.api import connect, expressions, table_properties
from rowlock.api.changes import Changes
from rowlock.api.clones import Clones, convert
from rowlock.api.connect import classic
from rowlock.api.definitions import Definitions
from rowlock.api.frames import frame_at
from rowlock.api.handle import Handle, Receipts, commits
from rowlock.api.maintenance import Maintenance
from rowlock.api.placement import open_by_name
from rowlock.api.table_builder import DeltaTableBuilder
from rowlock.api.table_properties import Upgrades
from rowlock.api.transaction import DeltaTransaction
from rowlock.engines.spark.catalyst.types import DataFrame, SparkSession, StructType
from rowlock.engines.spark.frames.results import Results
from rowlock.exceptions import TableNotFound
from rowlock.storage.open import open_store
from rowlock.transaction.state.options import Granularity, Isolation, Lock, OnConflict, asked
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import state_of


class DeltaTable(Changes, Maintenance, Definitions, Upgrades, Clones):
    """A Delta table on one SparkSession, with the methods of `delta.tables.DeltaTable`.

    Made by `forPath`, `forName`, `convertToDelta` or a builder (`create`, `createIfNotExists`, `replace`, `createOrReplace`), never by its constructor.
    A handle reads the table's newest version each time; it may be used by several threads.

    Examples:
        >>> t = DeltaTable.forPath(spark, path)
        >>> t.update("region = 'us'", {"amount": "amount * 2"})
        >>> t.toDF().orderBy("id").show()
        +---+------+------+
        | id|region|amount|
        +---+------+------+
        |  1|    eu|  10.0|
        |  2|    eu|  20.0|
        |  3|    us|  60.0|
        +---+------+------+
        <BLANKLINE>
    """

    def __init__(self, handle: Handle, *, alias: str | None = None, receipts: Receipts | None = None) -> None:
        self._handle, self._runner, self._alias = handle, handle, alias
        self._receipts = receipts if receipts is not None else Receipts()

    def __repr__(self) -> str:
        known = self._handle.state.known
        version, columns = (None, []) if known is None else (known.version, known.schema.names)
        partitions = list(known.partition_columns) if known is not None and known.partition_columns else None
        parts = [repr(self._handle.path), *([] if known is None else [f"version={version}", f"columns={display.some_names(columns)}"])]
        return display.call("DeltaTable", *parts, partitioned_by=partitions, name=self._handle.name, alias=self._alias)

    def _repr_html_(self) -> str:
        """What a notebook shows: what this process knows of the table; nothing is read for it."""
        return display.html_table(f"DeltaTable {self._handle.name or self._handle.path}", self._handle.facts())

    # ---- opening and making ----------------------------------------------------------------

    @classmethod
    def forPath(
        cls, sparkSession: SparkSession, path: str, hadoopConf: Mapping[str, str] | None = None, *, storage_options: Mapping[str, str] | None = None
    ) -> DeltaTable:
        """Opens the table at a path.  Reads the log on the driver; runs no Spark job.

        Args:
            sparkSession: A classic SparkSession (not Spark Connect).
            path: A local path, or a URL: `s3://`, `gs://`, `az://` and their other forms.
            hadoopConf: Taken for delta-spark's sake and not used.
            storage_options: How to reach a cloud (`AWS_ENDPOINT_URL`, ...); what is not given is taken from the environment, under the same names.

        Returns:
            A handle on the table.

        Raises:
            TableNotFound: There is no Delta table at the path.
            UnsupportedFeature: The table needs a feature that this version cannot read.
            CorruptLog: The table's log is damaged.
            InvalidInput: The path, an option or the session cannot be used.

        Examples:
            >>> DeltaTable.forPath(spark, path)
            DeltaTable('...', version=0, columns=[id, region, amount])
        """
        handle = Handle(sparkSession, path, storage_options=storage_options)
        handle.state.refresh()
        return cls(handle)

    @classmethod
    def forName(cls, sparkSession: SparkSession, tableOrViewName: str) -> DeltaTable:
        """Opens the table that has a name in the session's catalog.  Runs no Spark job.

        Args:
            sparkSession: A classic SparkSession (not Spark Connect).
            tableOrViewName: A name such as `sales` or `db.sales`, or delta.`/path`.

        Returns:
            A handle on the table.

        Raises:
            TableNotFound: No Delta table has the name (a temporary view is none).  It is Spark's AnalysisException, too.
            UnsupportedFeature: The table needs a feature that this version cannot read.
            CorruptLog: The table's log is damaged.

        Examples:
            >>> DeltaTable.forName(spark, f"delta.`{path}`")
            DeltaTable('...', version=0, columns=[id, region, amount])
        """
        expressions.session(sparkSession, "sparkSession")
        handle = open_by_name(sparkSession, arguments.text(tableOrViewName, "tableOrViewName"))
        handle.state.refresh()
        return cls(handle)

    @classmethod
    def isDeltaTable(cls, sparkSession: SparkSession, identifier: str, *, storage_options: Mapping[str, str] | None = None) -> bool:
        """Tells whether there is a Delta table at a path.  Runs no Spark job.

        Args:
            sparkSession: A SparkSession; taken for delta-spark's sake.
            identifier: A path or URL, as `forPath` takes it.
            storage_options: How to reach a cloud, as in `forPath`.

        Returns:
            True where the folder holds a Delta log.

        Raises:
            InvalidInput: The path or an option cannot be used.

        Examples:
            >>> DeltaTable.isDeltaTable(spark, path), DeltaTable.isDeltaTable(spark, folder)
            (True, False)
        """
        arguments.path(identifier, "identifier")
        return bool(state_of(open_store(identifier, storage_options)).log.exists())

    @classmethod
    def convertToDelta(
        cls, sparkSession: SparkSession, identifier: str, partitionSchema: StructType | str | None = None, *, storage_options: Mapping[str, str] | None = None
    ) -> DeltaTable:
        """Makes a Delta table of a folder of Parquet files, which stay as they are.

        Lists the folder and reads the files' footers on the driver; Spark infers the columns' types.  A folder that is a Delta table already is left as it is.

        Args:
            sparkSession: A classic SparkSession (not Spark Connect).
            identifier: parquet.`/path`, or the name of a Parquet table in the catalog.
            partitionSchema: The columns that the folders' names hold (`day=2026-01-01/`), as a StructType or text such as `day date`.
            storage_options: How to reach a cloud, as in `forPath`.

        Returns:
            A handle on the table.

        Raises:
            InvalidInput: The identifier names no folder of Parquet files, or the folders' names do not fit `partitionSchema`.
            SchemaMismatch: The files' columns do not fit each other.
            UnsupportedFeature: A column has a type that this version cannot write.

        Examples:
            >>> spark.range(3).write.parquet(folder + "/files")
            >>> DeltaTable.convertToDelta(spark, f"parquet.`{folder}/files`")
            DeltaTable('...', version=0, columns=[id])
        """
        connect.check_classic(sparkSession, "DeltaTable.convertToDelta")
        handle = convert(sparkSession, identifier, partitionSchema, storage_options)
        handle.state.refresh()
        return cls(handle)

    @classmethod
    def create(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """Starts a new table; `execute()` raises TableExists where there is one.  Runs no Spark job.

        Args:
            sparkSession: A classic SparkSession; by default the active one, or a new local one.

        Returns:
            A builder for the table's columns, place and properties.

        Examples:
            >>> t = DeltaTable.create(spark).location(folder + "/new").addColumn("id", "BIGINT").execute()
            >>> t
            DeltaTable('...', version=0, columns=[id])
        """
        return DeltaTableBuilder(cls, sparkSession, "create")

    @classmethod
    def createIfNotExists(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """Starts a new table; `execute()` opens the table that is there already, as it is.  Runs no Spark job.

        Args:
            sparkSession: A classic SparkSession; by default the active one, or a new local one.

        Returns:
            A builder for the table's columns, place and properties.

        Examples:
            >>> DeltaTable.createIfNotExists(spark).location(path).addColumn("id", "BIGINT").execute()
            DeltaTable('...', version=0, columns=[id, region, amount])
        """
        return DeltaTableBuilder(cls, sparkSession, "createIfNotExists")

    @classmethod
    def replace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """Starts the replacement of a table; `execute()` raises TableNotFound where there is none.  Runs no Spark job.

        The table gets new columns and properties and loses its rows, as a new version: older ones can be read and restored.

        Args:
            sparkSession: A classic SparkSession; by default the active one, or a new local one.

        Returns:
            A builder for the table's columns, place and properties.

        Examples:
            >>> DeltaTable.replace(spark).location(path).addColumn("name", "STRING").execute()
            DeltaTable('...', version=1, columns=[name])
        """
        return DeltaTableBuilder(cls, sparkSession, "replace")

    @classmethod
    def createOrReplace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """Starts a table that is created, or replaced where there is one.  Runs no Spark job.

        Args:
            sparkSession: A classic SparkSession; by default the active one, or a new local one.

        Returns:
            A builder for the table's columns, place and properties.

        Examples:
            >>> DeltaTable.createOrReplace(spark).location(path).addColumn("name", "STRING").execute()
            DeltaTable('...', version=1, columns=[name])
        """
        return DeltaTableBuilder(cls, sparkSession, "createOrReplace")

    # ---- reading ---------------------------------------------------------------------------

    @classic
    def toDF(self) -> DataFrame:
        """The table's newest version as a DataFrame, under the handle's alias or its name in the catalog.

        The log is read now, on the driver; the rows are read by Spark jobs when the DataFrame is used.  On a session with `rowlock.enable` these read the version
        that is the newest then, as delta-spark's do; on any other the DataFrame stays at the version of this moment.

        Returns:
            A DataFrame with the table's columns, as which conditions and values of its statements take them (`t.toDF().id`).

        Raises:
            TableNotFound: The table is gone.
            UnsupportedFeature: The table needs a feature that this version cannot read.
            CorruptLog: The table's log is damaged.

        Examples:
            >>> t.toDF().count()
            3
        """
        frame = frame_at(self._handle)
        return self._handle.planner.evaluator.shown(frame.alias(self._called) if self._called else frame)

    def alias(self, aliasName: str) -> DeltaTable:
        """The same table under a name that expressions can use.  Runs no Spark job.

        Args:
            aliasName: The name, such as `t` for `t.id`.

        Returns:
            A handle that shares everything with this one, `lastReceipt` too.

        Raises:
            WrongType: The name is not a string.

        Examples:
            >>> t.alias("t").delete("t.id = 1")
            >>> t.lastReceipt.metrics["numDeletedRows"]
            1
        """
        return DeltaTable(self._handle, alias=arguments.text(aliasName, "aliasName"), receipts=self._receipts)

    def history(self, limit: int | None = None) -> DataFrame:
        """The commits that the log still holds, newest first, in delta-spark's columns.  Read on the driver; runs no Spark job until the DataFrame is used.

        Args:
            limit: At most so many commits; by default all.

        Returns:
            A DataFrame of one row for each commit: version, timestamp, operation, operationParameters, operationMetrics and so on.

        Raises:
            CorruptLog: The table's log is damaged.

        Examples:
            >>> t.history(1).select("version", "operation").show()
            +-------+---------+
            |version|operation|
            +-------+---------+
            |      0|    WRITE|
            +-------+---------+
            <BLANKLINE>
        """
        arguments.optional(arguments.number, limit, "limit")
        state = self._handle.state
        commits = state.log.history(limit)  # first: it says what is wrong where there is no table
        return Results(self._handle.spark).of_history(commits, dict(state.log.commit_times(state.look())))

    def detail(self) -> DataFrame:
        """What the table is: place, size, properties and protocol.  Read on the driver; runs no Spark job until the DataFrame is used.

        Returns:
            A DataFrame of one row in delta-spark's columns; `sizeInBytes` and `numFiles` are those of the newest version.

        Raises:
            TableNotFound: The table is gone.
            UnsupportedFeature: The table needs a feature that this version cannot read.
            CorruptLog: The table's log is damaged.

        Examples:
            >>> t.detail().select("format", "numFiles").show()
            +------+--------+
            |format|numFiles|
            +------+--------+
            | delta|       1|
            +------+--------+
            <BLANKLINE>
        """
        return Results(self._handle.spark).of_detail(self._handle.state.refresh(), self._handle.name)

    @property
    def lastReceipt(self) -> Receipt | None:
        """The receipt of the last statement through this handle or its aliases, in this thread; None before the first.

        Examples:
            >>> t.delete("id = 1")
            >>> t.lastReceipt.version, t.lastReceipt.operation
            (1, 'DELETE')
        """
        return self._receipts.last

    # ---- changing --------------------------------------------------------------------------

    @commits("alter")
    def setProperties(self, properties: Mapping[str, Any]) -> None:
        """Sets table properties, Delta's and `rowlock.*`, in one commit.

        Enabling `delta.enableRowTracking` first gives every row that is there an id, in commits of their own, while others go on writing.  Setting
        `delta.columnMapping.mode` back to `none` writes every data file again, by Spark jobs; nothing else runs one.

        Args:
            properties: Values by name; numbers and bools are written as lower-case text (`True` as `true`).

        Raises:
            InvalidInput: A name under `delta.` or `rowlock.` is not known, a value is not possible (what is allowed is named), or two do not go together.
            UnsupportedFeature: A property needs a feature that this version cannot write.
            WrongType: It is no dict, or a name or a value in it is of another type.

        Examples:
            >>> t.setProperties({"rowlock.onConflict": "fail", "delta.appendOnly": False})
            >>> t.detail().first()["properties"]["rowlock.onConflict"]
            'fail'
        """
        wanted = arguments.properties(properties, "properties", optional=False)
        self._receipts.last = table_properties.set_properties(self._handle, wanted)

    @commits("alter")
    def unsetProperties(self, keys: Sequence[str]) -> None:
        """Removes table properties, in one commit; names that are not set are passed over.  Runs no Spark job.

        Args:
            keys: The properties' names.

        Raises:
            InvalidInput: What is left does not go together.
            WrongType: It is no list of names.

        Examples:
            >>> t.setProperties({"rowlock.onConflict": "fail"})
            >>> t.unsetProperties(["rowlock.onConflict"])
            >>> "rowlock.onConflict" in t.detail().first()["properties"]
            False
        """
        self._receipts.last = table_properties.unset_properties(self._handle, arguments.name_list(keys, "keys"))

    # ---- several statements ----------------------------------------------------------------

    @classic
    def transaction(
        self,
        isolation: Isolation | None = None,
        on_conflict: OnConflict | None = None,
        granularity: Granularity | None = None,
        app_id: str | None = None,
        app_version: int | None = None,
        lock: Lock | None = None,
        lock_timeout: float | None = None,
        user_metadata: str | None = None,
    ) -> DeltaTransaction:
        """Several statements as one commit: `with t.transaction() as txn:`.

        What the block does is private until it ends; an exception in it leaves the table as it was.  Runs no Spark job itself.  An argument wins over the
        table's property; None leaves it to that.

        Args:
            isolation: `serializable`, `write_serializable` or `snapshot` (property `rowlock.isolation`).
            on_conflict: What is done where others committed first (`rowlock.onConflict`): `repair` redoes what their change concerns, `rerun` and `fail` raise
                (`rowlock.run` runs the block again for `rerun`), `lockless` merges cell by cell.
            granularity: What counts as a conflict under `fail` and `rerun`: the same `row` or the same `file` (`rowlock.granularity`).
            app_id: The name of an application; with `app_version` the block is a step of it.
            app_version: The step's number, 0 or more.  A step that is in the log already is not committed again, so a batch given twice counts once.
            lock: Who waits in line before they work (`rowlock.lock`): `none`, `writes`, `table`, `partition` or `auto`.
            lock_timeout: For how many seconds to wait in line before going on without a lease, 0 or more.
            user_metadata: A text of your own, which the commit carries as `userMetadata` and `history()` shows.

        Returns:
            A transaction to be used in a `with` statement.

        Raises:
            InvalidInput: A value is not allowed, or two do not go together.

        Examples:
            >>> with t.transaction(isolation="serializable") as txn:
            ...     txn.delete("region = 'us'")
            ...     txn.append(updates)
            >>> txn.receipt.version
            1
        """
        options, app, text = asked(isolation, on_conflict, granularity, app_id, app_version, lock, lock_timeout, user_metadata)
        return DeltaTransaction(self._handle, options, app, self._receipts, self._alias, user_metadata=text)


__all__ = ["DeltaTable", "TableNotFound"]
