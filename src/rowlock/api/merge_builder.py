"""MERGE's builders, under the names of `delta.tables`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rowlock import display
from rowlock.api import arguments
from rowlock.api.handle import Handle, Receipts, Runner
from rowlock.api.row_writes import widened_metadata
from rowlock.engines.spark.catalyst.analysis import Expression
from rowlock.engines.spark.catalyst.types import DataFrame
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.frames.descriptions import merge_frame
from rowlock.engines.spark.statements.evolution import columns_set, evolving
from rowlock.engines.spark.statements.merge_plan import Clause, Clauses, merge_statement
from rowlock.exceptions import UnsupportedFeature, WrongType
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import Metadata
from rowlock.transaction.run import Planned


class DeltaMergeBuilder:
    """Clauses of a MERGE, in the order in which they are tried.  Each method gives a new builder."""

    def __init__(
        self,
        handle: Runner,
        receipts: Receipts,
        source: DataFrame,
        condition: Expression,
        alias: str | None,
        clauses: Clauses | None = None,
        *,
        evolves: bool = False,
    ) -> None:
        if not isinstance(source, DataFrame):
            raise WrongType(f"source must be DataFrame, not {type(source).__name__}", table=handle.path)
        arguments.expression(condition, "condition", optional=False)
        self._handle, self._receipts, self._source, self._condition, self._alias = handle, receipts, source, condition, alias
        self._clauses, self._evolves = clauses or Clauses(), evolves

    def __repr__(self) -> str:
        groups = (
            ("whenMatched", self._clauses.matched),
            ("whenNotMatched", self._clauses.not_matched),
            ("whenNotMatchedBySource", self._clauses.not_matched_by_source),
        )
        clauses = [_clause_text(name, clause) for name, found in groups for clause in found]
        parts = [repr(self._handle.path), f"on={_expression_text(self._condition)}", f"clauses=[{', '.join(clauses)}]"]
        return display.call("DeltaMergeBuilder", *parts, alias=self._alias, schema_evolution=self._evolves or None)

    def _with(self, where: str, clause: Clause) -> DeltaMergeBuilder:
        arguments.expression(clause.condition, "condition")
        clauses = replace(self._clauses, **{where: (*getattr(self._clauses, where), clause)})
        return DeltaMergeBuilder(self._handle, self._receipts, self._source, self._condition, self._alias, clauses, evolves=self._evolves)

    def whenMatchedUpdate(self, condition: Expression | None = None, set: Mapping[Any, Expression] | None = None) -> DeltaMergeBuilder:
        return self._with("matched", Clause("update", condition, arguments.assignments(condition, set, "set", self._handle.path)))

    def whenMatchedUpdateAll(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        return self._with("matched", Clause("update", condition, all_columns=True))

    def whenMatchedDelete(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        return self._with("matched", Clause("delete", condition))

    def whenNotMatchedInsert(self, condition: Expression | None = None, values: Mapping[Any, Expression] | None = None) -> DeltaMergeBuilder:
        return self._with("not_matched", Clause("insert", condition, arguments.assignments(condition, values, "values", self._handle.path)))

    def whenNotMatchedInsertAll(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        return self._with("not_matched", Clause("insert", condition, all_columns=True))

    def whenNotMatchedBySourceUpdate(self, condition: Expression | None = None, set: Mapping[Any, Expression] | None = None) -> DeltaMergeBuilder:
        return self._with("not_matched_by_source", Clause("update", condition, arguments.assignments(condition, set, "set", self._handle.path)))

    def whenNotMatchedBySourceDelete(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        return self._with("not_matched_by_source", Clause("delete", condition))

    def whenMatched(self, condition: Expression | None = None) -> DeltaMergeMatchedActionBuilder:
        return DeltaMergeMatchedActionBuilder(self, condition)

    def whenNotMatched(self, condition: Expression | None = None) -> DeltaMergeNotMatchedActionBuilder:
        return DeltaMergeNotMatchedActionBuilder(self, condition)

    def whenNotMatchedBySource(self, condition: Expression | None = None) -> DeltaMergeNotMatchedBySourceActionBuilder:
        return DeltaMergeNotMatchedBySourceActionBuilder(self, condition)

    def withSchemaEvolution(self) -> DeltaMergeBuilder:
        """Columns of the source that the clauses set and the table lacks are added to it, at the end, in the same commit."""
        return DeltaMergeBuilder(self._handle, self._receipts, self._source, self._condition, self._alias, self._clauses, evolves=True)

    def execute(self) -> DataFrame:
        """Runs the MERGE as one transaction, rebased over what others commit meanwhile.

        Returns one row: num_affected_rows, num_updated_rows, num_deleted_rows, num_inserted_rows.
        Raises MultipleMatches where two source rows match one target row, Spark's AnalysisException,
        SchemaMismatch, StatementRefused, ConstraintViolated, and by policy DeltaConcurrentModificationException.
        """
        pinned: list[Any] = []
        clauses = evolving(self._clauses) if self._evolves else self._clauses

        def wider(snapshot: Snapshot) -> Metadata:
            return widened_metadata(snapshot, columns_set(self._source, clauses, self._alias))

        def plan(evaluator: Evaluator, snapshot: Snapshot) -> Planned:
            statement = merge_statement(evaluator, snapshot, self._source, self._condition, clauses, self._alias, pinned[-1] if pinned else None)
            if not any(source is statement.payload.source for source in pinned):
                pinned.append(statement.payload.source)
            return [statement], statement.parameters

        self._receipts.last = None
        with self._handle.holding(pinned):
            if not self._evolves:
                receipt = self._handle.run("MERGE", plan)
            elif isinstance(self._handle, Handle):
                receipt = self._handle.run("MERGE", plan, metadata=wider)
            else:
                text = "A MERGE with schema evolution is a transaction of its own in this version: run it outside of the block, or add the columns first"
                raise UnsupportedFeature(text, feature="schema evolution in a transaction of several statements", access="write", table=self._handle.path)
        self._receipts.last = receipt
        return merge_frame(self._handle.spark, receipt.metrics)


def _expression_text(expression: Expression) -> str:
    """A condition as it was written; a Column's text is the JVM's, which is not asked for it."""
    return repr(expression) if isinstance(expression, str) else "<Column>"


def _clause_text(name: str, clause: Clause) -> str:
    condition = "" if clause.condition is None else f"({_expression_text(clause.condition)})"
    return f"{name}{condition} {clause.kind}{' all' if clause.all_columns else ''}"


def _action_text(name: str, builder: DeltaMergeBuilder, condition: Expression | None) -> str:
    parts = [repr(builder)] if condition is None else [repr(builder), f"condition={_expression_text(condition)}"]
    return display.call(name, *parts)


class DeltaMergeMatchedActionBuilder:
    """What to do with matched rows."""

    def __init__(self, builder: DeltaMergeBuilder, condition: Expression | None) -> None:
        self._builder, self._condition = builder, condition

    def __repr__(self) -> str:
        return _action_text("DeltaMergeMatchedActionBuilder", self._builder, self._condition)

    def update(self, set: Mapping[Any, Expression]) -> DeltaMergeBuilder:
        return self._builder.whenMatchedUpdate(self._condition, set)

    def updateAll(self) -> DeltaMergeBuilder:
        return self._builder.whenMatchedUpdateAll(self._condition)

    def delete(self) -> DeltaMergeBuilder:
        return self._builder.whenMatchedDelete(self._condition)


class DeltaMergeNotMatchedActionBuilder:
    """What to do with source rows that match nothing."""

    def __init__(self, builder: DeltaMergeBuilder, condition: Expression | None) -> None:
        self._builder, self._condition = builder, condition

    def __repr__(self) -> str:
        return _action_text("DeltaMergeNotMatchedActionBuilder", self._builder, self._condition)

    def insert(self, values: Mapping[Any, Expression]) -> DeltaMergeBuilder:
        return self._builder.whenNotMatchedInsert(self._condition, values)

    def insertAll(self) -> DeltaMergeBuilder:
        return self._builder.whenNotMatchedInsertAll(self._condition)


class DeltaMergeNotMatchedBySourceActionBuilder:
    """What to do with target rows that no source row matches."""

    def __init__(self, builder: DeltaMergeBuilder, condition: Expression | None) -> None:
        self._builder, self._condition = builder, condition

    def __repr__(self) -> str:
        return _action_text("DeltaMergeNotMatchedBySourceActionBuilder", self._builder, self._condition)

    def update(self, set: Mapping[Any, Expression]) -> DeltaMergeBuilder:
        return self._builder.whenNotMatchedBySourceUpdate(self._condition, set)

    def delete(self) -> DeltaMergeBuilder:
        return self._builder.whenNotMatchedBySourceDelete(self._condition)
