"""DeltaTable with the surface of `delta.tables.DeltaTable`: move a pipeline by changing one import."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rowlock.exceptions import TableNotFound, UnsupportedFeature, WrongType
from rowlock.log.snapshot import Snapshot
from rowlock.spark.analysis import Expression
from rowlock.spark.descriptions import detail_frame, history_frame
from rowlock.spark.plane import Plane
from rowlock.spark.reading import read_frame
from rowlock.spark.row_statements import delete_statement, update_statement
from rowlock.spark.types import DataFrame, SparkSession
from rowlock.storage.open import open_store
from rowlock.tables import arguments
from rowlock.tables.handle import Handle, Planned, Receipts
from rowlock.tables.merge_builder import DeltaMergeBuilder
from rowlock.tables.not_yet import NotYet
from rowlock.tables.optimize_builder import DeltaOptimizeBuilder
from rowlock.tables.table_builder import DeltaTableBuilder
from rowlock.transaction import creation
from rowlock.transaction.receipt import Receipt
from rowlock.transaction.table_state import state_of

if TYPE_CHECKING:
    from collections.abc import Callable


class DeltaTable(NotYet):
    """A handle on a Delta table, for one SparkSession.  Make it with `forPath` or a builder."""

    def __init__(self, handle: Handle, *, alias: str | None = None, receipts: Receipts | None = None) -> None:
        self._handle, self._alias = handle, alias
        self._receipts = receipts if receipts is not None else Receipts()

    # ---- opening and making ----------------------------------------------------------------

    @classmethod
    def forPath(cls, sparkSession: SparkSession, path: str, hadoopConf: Mapping[str, str] | None = None) -> DeltaTable:
        """The table at a path.  Raises TableNotFound, UnsupportedFeature, CorruptLog."""
        handle = Handle(sparkSession, path)
        handle.state.refresh()
        return cls(handle)

    @classmethod
    def forName(cls, sparkSession: SparkSession, tableOrViewName: str) -> DeltaTable:
        """Tables by catalog name are not supported by this version; `delta.`/path`` is."""
        name = tableOrViewName.strip()
        if name.lower().startswith("delta.`") and name.endswith("`"):
            return cls.forPath(sparkSession, name[7:-1])
        raise UnsupportedFeature(f"This version opens tables by path, not by the catalog name {tableOrViewName!r}: use DeltaTable.forPath", feature="catalog tables", access="read")

    @classmethod
    def isDeltaTable(cls, sparkSession: SparkSession, identifier: str) -> bool:
        """Whether there is a Delta table at the path."""
        return bool(state_of(open_store(identifier)).log.exists())

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
        frame = read_frame(self._handle.plane, self._handle.state.refresh())
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
        return detail_frame(self._handle.spark, self._handle.state.refresh())

    @property
    def lastReceipt(self) -> Receipt | None:
        """The receipt of the last statement through this handle or its aliases, in this thread."""
        return self._receipts.last

    # ---- changing --------------------------------------------------------------------------

    def delete(self, condition: Expression | None = None) -> None:
        """Deletes the rows for which `condition` is true, or all.  Rebased over what others commit meanwhile.

        Raises Spark's AnalysisException, StatementRefused, and by policy DeltaConcurrentModificationException.
        """
        arguments.expression(condition, "condition")
        self._run("DELETE", lambda plane, snapshot: _one(delete_statement(plane, snapshot, condition, self._alias)))

    def update(self, condition: Expression | None = None, set: Mapping[Any, Expression] | None = None) -> None:
        """Sets columns of the rows for which `condition` is true, or of all.  Rebased over what others commit meanwhile.

        Raises Spark's AnalysisException, SchemaMismatch, StatementRefused, ConstraintViolated, and by
        policy DeltaConcurrentModificationException.
        """
        assigned = arguments.assignments(condition, set, "set", self._handle.path)
        self._run("UPDATE", lambda plane, snapshot: _one(update_statement(plane, snapshot, condition, assigned, self._alias)))

    def merge(self, source: DataFrame, condition: Expression) -> DeltaMergeBuilder:
        """A MERGE of `source` into this table; add clauses, then `execute()`."""
        return DeltaMergeBuilder(self._handle, self._receipts, source, condition, self._alias)

    def optimize(self) -> DeltaOptimizeBuilder:
        """Compaction: `optimize().executeCompaction()`."""
        return DeltaOptimizeBuilder(self._handle, self._receipts)

    def setProperties(self, properties: Mapping[str, Any]) -> None:
        """Sets table properties, Delta's and `rowlock.*`.  Raises InvalidInput, naming what is allowed."""
        self._receipts.last = creation.set_properties(self._handle.state, {str(k): v if isinstance(v, str) else str(v).lower() for k, v in properties.items()})

    def unsetProperties(self, keys: Sequence[str]) -> None:
        """Removes table properties."""
        self._receipts.last = creation.unset_properties(self._handle.state, list(keys))

    def _run(self, operation: str, plan: Callable[[Plane, Snapshot], Planned]) -> None:
        self._receipts.last = None
        self._receipts.last = self._handle.run(operation, plan)


def _one(statement: Any) -> Planned:
    return [statement], statement.parameters


__all__ = ["DeltaTable", "TableNotFound"]
