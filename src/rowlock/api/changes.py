"""The statements that change rows, under the names of `delta.tables`: on a table, and inside a transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rowlock.api import connect, expressions
from rowlock.api.handle import Handle, Plan, Receipts, Runner
from rowlock.api.merge_builder import DeltaMergeBuilder
from rowlock.engines.spark.catalyst.types import Column, DataFrame


class Changes:
    """The statements that change rows: on a table each is a commit of its own, in a transaction they are committed together."""

    _handle: Handle
    _runner: Runner
    _alias: str | None
    _receipts: Receipts

    @property
    def _called(self) -> str | None:
        """What expressions may call the table: its alias, else its name in the catalog."""
        return self._alias or self._handle.table_name

    def delete(self, condition: str | Column | None = None) -> None:
        """Deletes the rows for which a condition is true, or all rows.

        Rebased over what others commit meanwhile.  Files are chosen on the driver; rows are looked at there or by Spark jobs, by their number.

        Args:
            condition: A string or Column; None deletes all rows.

        Raises:
            AnalysisException: Spark's: the condition cannot be resolved.
            StatementRefused: Delta does not allow the condition here (an aggregate, for one), or the table is append-only.
            UnsupportedFeature: The table needs a feature that this version cannot write.
            DeltaConcurrentModificationException: Others changed what this statement works on, and the policy is to raise.
            CommitUnknown: The store did not say whether the commit landed, and the log cannot be read.

        Examples:
            >>> t.delete("amount < 15")
            >>> t.toDF().count()
            2
        """
        expressions.expression(condition, "condition")
        if self._handle.session.is_connect:
            self._receipts.last = None
            return connect.delete(self._handle, condition, self._called)
        self._run("DELETE", lambda planner, snapshot: planner.delete(snapshot, condition, self._called))

    def _truncate(self) -> None:
        """`delete` of all rows, under the name of TRUNCATE TABLE."""
        self._run("TRUNCATE", lambda planner, snapshot: (planner.delete(snapshot, None, None)[0], {}))

    def update(self, condition: str | Column | None = None, set: Mapping[Any, str | Column] | None = None) -> None:
        """Sets columns of the rows for which a condition is true, or of all rows.

        Rebased over what others commit meanwhile.  Files are chosen on the driver; rows are changed there or by Spark jobs, by their number.

        Args:
            condition: A string or Column; None updates all rows.
            set: The new values, a string or Column for each column's name; needed.  They see the row as it was.

        Raises:
            InvalidInput: `set` is missing.
            AnalysisException: Spark's: an expression cannot be resolved.
            SchemaMismatch: A value does not fit its column.
            StatementRefused: Delta does not allow an expression here, or the table is append-only.
            ConstraintViolated: A new row breaks NOT NULL or a CHECK constraint.
            UnsupportedFeature: The table needs a feature that this version cannot write.
            DeltaConcurrentModificationException: Others changed what this statement works on, and the policy is to raise.
            CommitUnknown: The store did not say whether the commit landed, and the log cannot be read.

        Examples:
            >>> t.update("region = 'eu'", {"amount": "amount + 1"})
            >>> t.toDF().agg({"amount": "sum"}).first()[0]
            62.0
        """
        assigned = expressions.assignments(condition, set, "set", self._handle.path)
        if self._handle.session.is_connect:
            self._receipts.last = None
            return connect.update(self._handle, condition, assigned, self._called)
        self._run("UPDATE", lambda planner, snapshot: planner.update(snapshot, condition, assigned, self._called))

    def merge(self, source: DataFrame, condition: str | Column) -> DeltaMergeBuilder:
        """Starts a MERGE of a DataFrame into this table; add clauses, then `execute()`.  Runs no Spark job before that.

        Args:
            source: The rows to merge; `source.alias("s")` gives them a name for expressions.
            condition: When a source row matches a table's row, a string or Column.

        Returns:
            A builder.

        Raises:
            WrongType: An argument is of another type.

        Examples:
            >>> merge = t.alias("t").merge(updates.alias("s"), "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll()
            >>> merge.execute().show()
            +-----------------+----------------+----------------+-----------------+
            |num_affected_rows|num_updated_rows|num_deleted_rows|num_inserted_rows|
            +-----------------+----------------+----------------+-----------------+
            |                2|               1|               0|                1|
            +-----------------+----------------+----------------+-----------------+
            <BLANKLINE>
        """
        return DeltaMergeBuilder(self._runner, self._receipts, source, condition, self._called)

    def _run(self, operation: str, plan: Plan) -> None:
        """Runs a statement through the runner and keeps its receipt; after an error there is none."""
        self._receipts.last = None
        self._receipts.last = self._runner.run(operation, plan)
