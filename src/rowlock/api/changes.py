"""The statements that change rows, under the names of `delta.tables`: on a table, and inside a transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rowlock.api import arguments
from rowlock.api.handle import Plan, Receipts, Runner
from rowlock.api.merge_builder import DeltaMergeBuilder
from rowlock.engines.spark.catalyst.analysis import Expression
from rowlock.engines.spark.catalyst.types import DataFrame
from rowlock.engines.spark.statements.row_statements import delete_statement, update_statement
from rowlock.transaction.run import Planned


class Changes:
    """update, delete and merge through a runner."""

    _runner: Runner
    _alias: str | None
    _receipts: Receipts

    def delete(self, condition: Expression | None = None) -> None:
        """Deletes the rows for which `condition` is true, or all.  Rebased over what others commit meanwhile.

        Raises Spark's AnalysisException, StatementRefused, and by policy DeltaConcurrentModificationException.
        """
        arguments.expression(condition, "condition")
        self._run("DELETE", lambda evaluator, snapshot: _one(delete_statement(evaluator, snapshot, condition, self._alias)))

    def update(self, condition: Expression | None = None, set: Mapping[Any, Expression] | None = None) -> None:
        """Sets columns of the rows for which `condition` is true, or of all.  Rebased over what others commit meanwhile.

        Raises Spark's AnalysisException, SchemaMismatch, StatementRefused, ConstraintViolated, and by
        policy DeltaConcurrentModificationException.
        """
        assigned = arguments.assignments(condition, set, "set", self._runner.path)
        self._run("UPDATE", lambda evaluator, snapshot: _one(update_statement(evaluator, snapshot, condition, assigned, self._alias)))

    def merge(self, source: DataFrame, condition: Expression) -> DeltaMergeBuilder:
        """A MERGE of `source` into this table; add clauses, then `execute()`."""
        return DeltaMergeBuilder(self._runner, self._receipts, source, condition, self._alias)

    def _run(self, operation: str, plan: Plan) -> None:
        self._receipts.last = None
        self._receipts.last = self._runner.run(operation, plan)


def _one(statement: Any) -> Planned:
    return [statement], statement.parameters
