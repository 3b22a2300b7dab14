"""Computes the scalar subqueries in the values of an UPDATE or a MERGE: each is run once, before the statement, and its value stands in its place.

Delta allows these in values alone, and only such as name no column of the statement's rows.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from rowlock.conditions import named
from rowlock.engines.spark.catalyst.bridge import JavaObject, to_arrow
from rowlock.engines.spark.catalyst.plans_of_now import frame_of_now
from rowlock.engines.spark.sql.nodes import Nodes
from rowlock.engines.spark.sql.replacing import replaced
from rowlock.exceptions import StatementRefused


class ScalarSubqueries:
    """The subqueries in the values of one statement.

    frames  their queries: what they read of the statement's own table is validated at its commit
    """

    def __init__(self, nodes: Nodes, statement: str, table: str | None) -> None:
        self._nodes, self._statement, self._table = nodes, statement, table
        self.frames: list[DataFrame] = []

    def computed(self, expression: JavaObject) -> JavaObject:
        """An unresolved expression with the values of its scalar subqueries in their places.

        Raises StatementRefused for more than one row, Spark's AnalysisException for a name that a subquery does not know, such as one of the statement's rows.
        """
        if not self._nodes.bridge.subquery.hasSubquery(expression):
            return expression
        return replaced(self._nodes.spark, expression.transformUp, ("ScalarSubquery",), self._value)

    def _value(self, subquery: JavaObject) -> JavaObject:
        bridge, frame = self._nodes.bridge, frame_of_now(self._nodes.frame(subquery.plan()))
        if len(frame.columns) != 1:
            raise self._refused(
                f"a subquery of {len(frame.columns)} columns as a value", "INVALID_SUBQUERY_EXPRESSION.SCALAR_SUBQUERY_RETURN_MORE_THAN_ONE_OUTPUT_COLUMN"
            )
        one = frame.toDF("value")
        rows = to_arrow(one.limit(2))
        if rows.num_rows > 1:
            raise self._refused("a subquery of more than one row as a value", "SCALAR_SUBQUERY_TOO_MANY_ROWS")
        self.frames.append(frame)
        if not rows.num_rows:
            return bridge.literal.create(None, bridge.data_type.fromJson(one.schema["value"].dataType.json()))
        local = bridge.frame_of(rows, one.schema.json(), self._nodes.spark._jsparkSession).queryExecution().analyzed()
        held = bridge.struct_literal(local.data().apply(0), bridge.data_type.fromJson(one.schema.json()))
        return bridge.struct_field(held, 0, bridge.none)  # a struct's value stays in the JVM: a number of its own would lose its type on the way

    def _refused(self, what: str, condition: str) -> StatementRefused:
        return StatementRefused(f"{self._statement} may not contain {what}", what="a subquery", table=self._table, condition=named(condition))
