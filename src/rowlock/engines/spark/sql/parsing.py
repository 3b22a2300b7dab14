"""Parses SQL with Spark's parser from Python, and replaces names in its plans, where no class of Rowlock's is in the JVM."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from rowlock.engines.spark.catalyst.bridge import JavaObject, class_name
from rowlock.engines.spark.sql.nodes import Nodes
from rowlock.engines.spark.sql.replacing import replaced
from rowlock.exceptions import WrongType

_NAMES = ("UnresolvedRelation", "RelationTimeTravel", "UnresolvedTableValuedFunction")


class Replaced(Nodes):
    """The nodes of a session whose queries get Rowlock's plans in place of Delta tables."""

    def __init__(self, spark: SparkSession, plan_of: Callable[[JavaObject], JavaObject | None]) -> None:
        super().__init__(spark)
        self._plan_of = plan_of

    def frame(self, plan: JavaObject) -> DataFrame:
        """See `Nodes`."""
        return super().frame(replaced(self.spark, plan.transformUpWithSubqueries, _NAMES, self._plan_of))


def parsed(nodes: Nodes, text: str, args: Mapping[str, Any] | Sequence[Any] | None) -> JavaObject:
    """The parsed plan of a text, with the CTEs of its statement at their places.  Raises Spark's ParseException."""
    parser: Any = nodes.bridge.jvm.org.apache.spark.sql.execution.SparkSqlParser()  # Spark's own: delta-spark's drops parameters
    analysis: Any = nodes.bridge.jvm.org.apache.spark.sql.catalyst.analysis
    if args is None:
        return analysis.CTESubstitution.apply(parser.parsePlan(text))
    if tuple(map(int, nodes.spark.version.split(".")[:2])) < (4, 1):
        plan, named = analysis.CTESubstitution.apply(parser.parsePlan(text)), isinstance(args, Mapping)
        values = nodes.bridge.seq(_literals(nodes, list(args.values() if isinstance(args, Mapping) else args)))
        bound = analysis.NameParameterizedQuery(plan, nodes.bridge.seq([*map(str, args)]), values) if named else analysis.PosParameterizedQuery(plan, values)
        return analysis.BindParameters.apply(bound)
    contexts: Any = nodes.bridge.jvm.org.apache.spark.sql.catalyst.parser
    if isinstance(args, Mapping):
        by_name = nodes.bridge.jvm.java.util.HashMap()
        for name, literal in zip(args, _literals(nodes, list(args.values())), strict=True):
            by_name.put(str(name), literal)
        context = contexts.NamedParameterContext(nodes.bridge.jvm.PythonUtils.toScalaMap(by_name))
    else:
        context = contexts.PositionalParameterContext(nodes.bridge.seq(_literals(nodes, args)))
    return analysis.CTESubstitution.apply(parser.parsePlanWithParameters(text, context))


def _literal(value: Any) -> Column:
    """A value of Python as Spark's literal.  Raises WrongType."""
    try:
        return F.lit(value)
    except (AttributeError, TypeError, Py4JError) as e:  # what pyspark raises for an object that is none of Spark's values
        raise WrongType(f"args holds a value of type '{type(value)}', which Spark knows no literal of") from e


def _literals(nodes: Nodes, values: Sequence[Any]) -> list[JavaObject]:
    """Python values as resolved literals."""
    if not values:
        return []
    frame = nodes.spark.range(1).select(*[_literal(v).alias(f"v{n}") for n, v in enumerate(values)])
    return [e.child() for e in nodes.items(frame._jdf.queryExecution().analyzed().projectList())]


def is_command(nodes: Nodes, plan: JavaObject) -> bool:
    """Whether a plan is a statement and no query."""
    return nodes.bridge.is_a(plan, "org.apache.spark.sql.catalyst.plans.logical.Command") or class_name(plan) in ("InsertIntoStatement", "InsertIntoDir")


def has_commands(nodes: Nodes, plan: JavaObject) -> bool:
    """Whether statements lie within a plan."""
    return any(is_command(nodes, c) or has_commands(nodes, c) for c in nodes.items(plan.children()))
