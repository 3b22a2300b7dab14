"""MERGE's builders, under the names of `delta.tables`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rowlock import display
from rowlock.api import connect, expressions
from rowlock.api.handle import Receipts, Runner
from rowlock.api.row_writes import widened_metadata
from rowlock.engines.spark.catalyst.types import Column, DataFrame
from rowlock.engines.spark.frames.results import Results
from rowlock.engines.spark.plan import Planner
from rowlock.engines.spark.statements.merge_plan import Clause, Clauses
from rowlock.exceptions import UnsupportedFeature, WrongType
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import Metadata
from rowlock.protocol.schema import parse_schema
from rowlock.protocol.schema_fit import check_names
from rowlock.transaction.state.call import settings
from rowlock.transaction.transaction import Planned


class DeltaMergeBuilder:
    """A MERGE: clauses in the order in which they are tried, then `execute()`.

    Made by `DeltaTable.merge()`.  Each method returns a new builder and leaves this one as it is; none runs a Spark job before `execute()`.

    Examples:
        >>> merge = t.alias("t").merge(updates.alias("s"), "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll()
        >>> merge
        DeltaMergeBuilder('...', on='t.id = s.id', clauses=[whenMatched update all, whenNotMatched insert all], alias='t')
    """

    def __init__(
        self,
        runner: Runner,
        receipts: Receipts,
        source: DataFrame,
        condition: str | Column,
        alias: str | None,
        clauses: Clauses | None = None,
        *,
        evolves: bool = False,
    ) -> None:
        if not isinstance(source, DataFrame):
            raise WrongType(f"source must be DataFrame, not {type(source).__name__}", table=runner.handle.path)
        expressions.expression(condition, "condition", optional=False)
        self._runner, self._handle, self._receipts = runner, runner.handle, receipts
        self._source, self._condition, self._alias = source, condition, alias
        self._clauses, self._evolves = clauses or Clauses(), evolves

    def __repr__(self) -> str:
        groups = {"whenMatched": "matched", "whenNotMatched": "not_matched", "whenNotMatchedBySource": "not_matched_by_source"}
        clauses = ", ".join(_shown(name, clause) for name, group in groups.items() for clause in getattr(self._clauses, group))
        parts = [repr(self._handle.path), f"on={expressions.shown(self._condition)}", f"clauses=[{clauses}]"]
        return display.call("DeltaMergeBuilder", *parts, alias=self._alias, schema_evolution=self._evolves or None)

    def _with(self, where: str, clause: Clause) -> DeltaMergeBuilder:
        """A builder with one more clause at the end of the group `where`."""
        expressions.expression(clause.condition, "condition")
        group: dict[str, Any] = {where: (*getattr(self._clauses, where), clause)}
        clauses = replace(self._clauses, **group)
        return DeltaMergeBuilder(self._runner, self._receipts, self._source, self._condition, self._alias, clauses, evolves=self._evolves)

    def _update(self, where: str, condition: str | Column | None, set: Mapping[Any, str | Column] | None) -> DeltaMergeBuilder:
        assigned = expressions.assignments(condition, set, "set", self._handle.path)
        return self._with(where, Clause("update", condition, assigned)) if assigned or condition is not None else self  # as in delta-spark: no clause

    def whenMatchedUpdate(self, condition: str | Column | None = None, set: Mapping[Any, str | Column] | None = None) -> DeltaMergeBuilder:
        """Updates a table's row that a source row matches.  Runs no Spark job before `execute()`.

        Args:
            condition: Only where this is true as well, a string or Column; None: always.
            set: The new values, a string or Column for each column's name; needed.

        Returns:
            A builder with the clause.

        Raises:
            InvalidInput: `set` is missing.

        Examples:
            >>> t.merge(updates.alias("s"), "true").whenMatchedUpdate("s.amount > 0", {"amount": "s.amount"})
            DeltaMergeBuilder('...', on='true', clauses=[whenMatched('s.amount > 0') update])
        """
        return self._update("matched", condition, set)

    def whenMatchedUpdateAll(self, condition: str | Column | None = None) -> DeltaMergeBuilder:
        """Updates all columns of a table's row that a source row matches, from the source's columns of the same names.  Runs no Spark job before `execute()`.

        Args:
            condition: Only where this is true as well, a string or Column; None: always.

        Returns:
            A builder with the clause.

        Raises:
            WrongType: The condition is neither a string nor a Column.

        Examples:
            >>> t.merge(updates, "true").whenMatchedUpdateAll()
            DeltaMergeBuilder('...', on='true', clauses=[whenMatched update all])
        """
        return self._with("matched", Clause("update", condition, all_columns=True))

    def whenMatchedDelete(self, condition: str | Column | None = None) -> DeltaMergeBuilder:
        """Deletes a table's row that a source row matches.  Runs no Spark job before `execute()`.

        Args:
            condition: Only where this is true as well, a string or Column; None: always.

        Returns:
            A builder with the clause.

        Raises:
            WrongType: The condition is neither a string nor a Column.

        Examples:
            >>> t.merge(updates.alias("s"), "true").whenMatchedDelete("s.amount = 0")
            DeltaMergeBuilder('...', on='true', clauses=[whenMatched('s.amount = 0') delete])
        """
        return self._with("matched", Clause("delete", condition))

    def whenNotMatchedInsert(self, condition: str | Column | None = None, values: Mapping[Any, str | Column] | None = None) -> DeltaMergeBuilder:
        """Inserts a row for a source row that matches nothing.  Runs no Spark job before `execute()`.

        Args:
            condition: Only where this is true of the source row, a string or Column; None: always.
            values: The row's values, a string or Column for each column's name; needed.  Columns that are left out are null.

        Returns:
            A builder with the clause.

        Raises:
            InvalidInput: `values` is missing.

        Examples:
            >>> t.merge(updates.alias("s"), "true").whenNotMatchedInsert(values={"id": "s.id", "region": "'new'"})
            DeltaMergeBuilder('...', on='true', clauses=[whenNotMatched insert])
        """
        return self._with("not_matched", Clause("insert", condition, expressions.assignments(condition, values, "values", self._handle.path)))

    def whenNotMatchedInsertAll(self, condition: str | Column | None = None) -> DeltaMergeBuilder:
        """Inserts a source row that matches nothing, with all columns.  Runs no Spark job before `execute()`.

        Args:
            condition: Only where this is true of the source row, a string or Column; None: always.

        Returns:
            A builder with the clause.

        Raises:
            WrongType: The condition is neither a string nor a Column.

        Examples:
            >>> t.merge(updates, "true").whenNotMatchedInsertAll()
            DeltaMergeBuilder('...', on='true', clauses=[whenNotMatched insert all])
        """
        return self._with("not_matched", Clause("insert", condition, all_columns=True))

    def whenNotMatchedBySourceUpdate(self, condition: str | Column | None = None, set: Mapping[Any, str | Column] | None = None) -> DeltaMergeBuilder:
        """Updates a table's row that no source row matches.  Runs no Spark job before `execute()`.

        Args:
            condition: Only where this is true of the table's row, a string or Column; None: always.
            set: The new values, a string or Column for each column's name; needed.  They see the table's row only.

        Returns:
            A builder with the clause.

        Raises:
            InvalidInput: `set` is missing.

        Examples:
            >>> t.merge(updates, "true").whenNotMatchedBySourceUpdate(set={"region": "'old'"})
            DeltaMergeBuilder('...', on='true', clauses=[whenNotMatchedBySource update])
        """
        return self._update("not_matched_by_source", condition, set)

    def whenNotMatchedBySourceDelete(self, condition: str | Column | None = None) -> DeltaMergeBuilder:
        """Deletes a table's row that no source row matches.  Runs no Spark job before `execute()`.

        Args:
            condition: Only where this is true of the table's row, a string or Column; None: always.

        Returns:
            A builder with the clause.

        Raises:
            WrongType: The condition is neither a string nor a Column.

        Examples:
            >>> t.merge(updates, "true").whenNotMatchedBySourceDelete("amount < 5")
            DeltaMergeBuilder('...', on='true', clauses=[whenNotMatchedBySource('amount < 5') delete])
        """
        return self._with("not_matched_by_source", Clause("delete", condition))

    def whenMatched(self, condition: str | Column | None = None) -> DeltaMergeMatchedActionBuilder:
        """Starts a clause for a table's row that a source row matches.  Runs no Spark job.

        Args:
            condition: Only where this is true as well, a string or Column; None: always.

        Returns:
            A builder of the clause: `update`, `updateAll` or `delete`, which raise WrongType for a condition of another type.

        Examples:
            >>> t.merge(updates, "true").whenMatched().delete()
            DeltaMergeBuilder('...', on='true', clauses=[whenMatched delete])
        """
        return DeltaMergeMatchedActionBuilder(self, condition)

    def whenNotMatched(self, condition: str | Column | None = None) -> DeltaMergeNotMatchedActionBuilder:
        """Starts a clause for a source row that matches nothing.  Runs no Spark job.

        Args:
            condition: Only where this is true of the source row, a string or Column; None: always.

        Returns:
            A builder of the clause: `insert` or `insertAll`, which raise WrongType for a condition of another type.

        Examples:
            >>> t.merge(updates, "true").whenNotMatched().insertAll()
            DeltaMergeBuilder('...', on='true', clauses=[whenNotMatched insert all])
        """
        return DeltaMergeNotMatchedActionBuilder(self, condition)

    def whenNotMatchedBySource(self, condition: str | Column | None = None) -> DeltaMergeNotMatchedBySourceActionBuilder:
        """Starts a clause for a table's row that no source row matches.  Runs no Spark job.

        Args:
            condition: Only where this is true of the table's row, a string or Column; None: always.

        Returns:
            A builder of the clause: `update` or `delete`, which raise WrongType for a condition of another type.

        Examples:
            >>> t.merge(updates, "true").whenNotMatchedBySource("id > 3").delete()
            DeltaMergeBuilder('...', on='true', clauses=[whenNotMatchedBySource('id > 3') delete])
        """
        return DeltaMergeNotMatchedBySourceActionBuilder(self, condition)

    def withSchemaEvolution(self) -> DeltaMergeBuilder:
        """Adds the source's columns that the clauses set and the table lacks to the table, in the same commit.  Runs no Spark job before `execute()`.

        Returns:
            A builder that does so.

        Examples:
            >>> wider = updates.withColumn("note", F.lit("new")).alias("s")
            >>> _ = t.alias("t").merge(wider, "t.id = s.id").withSchemaEvolution().whenNotMatchedInsertAll().execute()
            >>> t.toDF().columns
            ['id', 'region', 'amount', 'note']
        """
        return DeltaMergeBuilder(self._runner, self._receipts, self._source, self._condition, self._alias, self._clauses, evolves=True)

    def execute(self) -> DataFrame:
        """Runs the MERGE as one commit, rebased over what others commit meanwhile.

        The source is computed by Spark jobs, on executors; rows are matched there, or on the driver where they are few.

        Returns:
            A DataFrame of one row: num_affected_rows, num_updated_rows, num_deleted_rows, num_inserted_rows; of none for a step that is in the log already.

        Raises:
            MultipleMatches: Two source rows change one table's row.
            AnalysisException: Spark's: an expression cannot be resolved.
            SchemaMismatch: A value does not fit its column.
            StatementRefused: Delta does not allow an expression here, or the table is append-only.
            ConstraintViolated: A new row breaks NOT NULL or a CHECK constraint.
            InvalidInput: There is no clause, or one that cannot be reached.
            UnsupportedFeature: The table needs a feature that this version cannot write, or the schema is to evolve inside of a transaction.
            DeltaConcurrentModificationException: Others changed what this statement works on, and the policy is to raise.
            CommitUnknown: The store did not say whether the commit landed, and the log cannot be read.

        Examples:
            >>> t.alias("t").merge(updates.alias("s"), "t.id = s.id").whenMatchedDelete().execute().first()["num_deleted_rows"]
            1
        """
        self._receipts.last = None
        self._clauses.check(self._handle.path)
        if self._handle.session.is_connect:
            return connect.merge(self._handle, self._source, self._condition, self._clauses, self._alias, evolves=self._evolves)
        pinned: list[Any] = []
        with self._handle.commits("merge"), self._runner.holding(pinned):
            return self._executed(self._evolves or settings().flag("schema.autoMerge.enabled"), pinned)

    def _executed(self, evolves: bool, pinned: list[Any]) -> DataFrame:
        clauses, new = self._clauses.evolving() if evolves else self._clauses, list[str]()
        if evolves:
            check_names(self._source.columns, self._handle.path)

        def wider(snapshot: Snapshot) -> Metadata:
            found = widened_metadata(snapshot, clauses.columns_set(self._source, self._alias), casts=True) if evolves else snapshot.metadata
            new[:] = [] if found is snapshot.metadata else [n for n in parse_schema(found.schema_string).names if snapshot.schema.find(n) is None]
            if found is not snapshot.metadata:
                self._handle.planner.check_columns_of_now(snapshot, self._source, self._condition, clauses, self._alias)
            return found

        def plan(planner: Planner, snapshot: Snapshot) -> Planned:
            if self._runner is not self._handle and wider(snapshot) is not snapshot.metadata:
                text = "A MERGE that adds columns is a transaction of its own in this version: run it outside of the block, or add the columns first"
                raise UnsupportedFeature(text, feature="schema evolution in a transaction of several statements", access="write", table=self._handle.path)
            return planner.merge(snapshot, self._source, self._condition, clauses, self._alias, pinned, new)

        self._receipts.last = receipt = self._runner.run("MERGE", plan, **({"metadata": wider} if evolves and self._runner is self._handle else {}))
        counts = [receipt.metrics.get(f"numTargetRows{kind}", 0) for kind in ("Updated", "Deleted", "Inserted")]
        return Results(self._handle.spark).of("MergeIntoTable", [] if receipt.already_committed else [(sum(counts), *counts)])


def _shown(name: str, clause: Clause) -> str:
    condition = "" if clause.condition is None else f"({expressions.shown(clause.condition)})"
    return f"{name}{condition} {clause.kind}{' all' if clause.all_columns else ''}"


class _ActionBuilder:
    def __init__(self, builder: DeltaMergeBuilder, condition: str | Column | None) -> None:
        self._builder, self._condition = builder, condition

    def __repr__(self) -> str:
        return display.call(type(self).__name__, repr(self._builder), *(f"condition={expressions.shown(c)}" for c in (self._condition,) if c is not None))


class _RowActionBuilder(_ActionBuilder):
    """What a MERGE does with a row of the table, by a clause of the group `_when`."""

    _when: str

    def update(self, set: Mapping[Any, str | Column]) -> DeltaMergeBuilder:
        """Updates the row.  Runs no Spark job before the merge's `execute()`.

        Args:
            set: The new values, a string or Column for each column's name.

        Returns:
            The merge's builder with the clause.

        Raises:
            InvalidInput: `set` is None or empty.

        Examples:
            >>> t.merge(updates.alias("s"), "true").whenMatched().update({"amount": "s.amount"})
            DeltaMergeBuilder('...', on='true', clauses=[whenMatched update])
        """
        return self._builder._update(self._when, self._condition, set)

    def delete(self) -> DeltaMergeBuilder:
        """Deletes the row.  Runs no Spark job before the merge's `execute()`.

        Returns:
            The merge's builder with the clause.

        Raises:
            WrongType: The clause's condition is neither a string nor a Column.

        Examples:
            >>> t.merge(updates, "true").whenNotMatchedBySource().delete()
            DeltaMergeBuilder('...', on='true', clauses=[whenNotMatchedBySource delete])
        """
        return self._builder._with(self._when, Clause("delete", self._condition))


class DeltaMergeMatchedActionBuilder(_RowActionBuilder):
    """What a MERGE does with a table's row that a source row matches; made by `DeltaMergeBuilder.whenMatched()`."""

    _when = "matched"

    def updateAll(self) -> DeltaMergeBuilder:
        """Updates all columns of the row, from the source's columns of the same names.  Runs no Spark job before the merge's `execute()`.

        Returns:
            The merge's builder with the clause.

        Raises:
            WrongType: The clause's condition is neither a string nor a Column.

        Examples:
            >>> t.merge(updates, "true").whenMatched().updateAll()
            DeltaMergeBuilder('...', on='true', clauses=[whenMatched update all])
        """
        return self._builder.whenMatchedUpdateAll(self._condition)


class DeltaMergeNotMatchedActionBuilder(_ActionBuilder):
    """What a MERGE does with a source row that matches nothing; made by `DeltaMergeBuilder.whenNotMatched()`."""

    def insert(self, values: Mapping[Any, str | Column]) -> DeltaMergeBuilder:
        """Inserts a row.  Runs no Spark job before the merge's `execute()`.

        Args:
            values: The row's values, a string or Column for each column's name; columns that are left out are null.

        Returns:
            The merge's builder with the clause.

        Raises:
            InvalidInput: `values` is None or empty.

        Examples:
            >>> t.merge(updates.alias("s"), "true").whenNotMatched().insert({"id": "s.id"})
            DeltaMergeBuilder('...', on='true', clauses=[whenNotMatched insert])
        """
        return self._builder.whenNotMatchedInsert(self._condition, values)

    def insertAll(self) -> DeltaMergeBuilder:
        """Inserts the source row with all columns.  Runs no Spark job before the merge's `execute()`.

        Returns:
            The merge's builder with the clause.

        Raises:
            WrongType: The clause's condition is neither a string nor a Column.

        Examples:
            >>> t.merge(updates, "true").whenNotMatched().insertAll()
            DeltaMergeBuilder('...', on='true', clauses=[whenNotMatched insert all])
        """
        return self._builder.whenNotMatchedInsertAll(self._condition)


class DeltaMergeNotMatchedBySourceActionBuilder(_RowActionBuilder):
    """What a MERGE does with a table's row that no source row matches; made by `DeltaMergeBuilder.whenNotMatchedBySource()`."""

    _when = "not_matched_by_source"
