"""The word DEFAULT as a value in SQL: which expressions it is, and what it stands for in the rows of an INSERT, by Spark's own rule."""

from __future__ import annotations

from collections.abc import Callable

from rowlock.engines.spark.catalyst.analysis import DEFAULT
from rowlock.engines.spark.catalyst.bridge import JavaObject, class_name
from rowlock.engines.spark.read.scan import empty_frame, table_schema
from rowlock.engines.spark.sql.nodes import Nodes
from rowlock.log.snapshot import Snapshot


def is_default(expression: JavaObject) -> bool:
    """Whether an expression is the word DEFAULT, as Spark reads it whether or not a column has this name."""
    return class_name(expression) == "UnresolvedAttribute" and [str(p).upper() for p in expression.nameParts().mkString("\n").split("\n")] == [DEFAULT]


def with_defaults(nodes: Nodes, insert: JavaObject, newest: Callable[[], Snapshot]) -> JavaObject:
    """The query of an INSERT with the word DEFAULT replaced by the default of the column that it is for; null where it has none."""
    if DEFAULT not in str(insert.query().toString()).upper():
        return insert.query()
    relation = empty_frame(nodes.spark, table_schema(newest()))._jdf.queryExecution().analyzed()
    parts = [relation if n == 0 else insert.productElement(n) for n in range(insert.productArity())]
    analysis = nodes.bridge.jvm.org.apache.spark.sql.catalyst.analysis
    rule = analysis.ResolveColumnDefaultInCommandInputQuery(nodes.spark._jsparkSession.sessionState().catalogManager())
    return rule.apply(insert.copy(*parts)).query()
