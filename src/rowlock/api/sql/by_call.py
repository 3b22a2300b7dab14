"""Runs a text of SQL without any class in Spark's JVM: Spark parses it, Delta tables in it become Rowlock's plans, and the statement runs by the same mapping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rowlock.api.sql import statements
from rowlock.api.sql.reading import frame_of_named
from rowlock.engines.spark.catalyst.bridge import class_name
from rowlock.engines.spark.catalyst.types import DataFrame, SparkSession
from rowlock.engines.spark.sql.commands import HARMLESS, statement_name
from rowlock.engines.spark.sql.guard import refuse
from rowlock.engines.spark.sql.parsing import Replaced, has_commands, is_command, parsed
from rowlock.engines.spark.sql.relations import named, plan_of
from rowlock.engines.spark.sql.session import is_enabled


def run_text(spark: SparkSession, text: str, args: Mapping[str, Any] | Sequence[Any] | None) -> DataFrame:
    """See `rowlock.sql`."""
    nodes = Replaced(spark, lambda node: _plan(nodes, node))
    own = statements.own_statement(nodes, text)
    if own is not None:
        return _answered(spark, statements.carry_out_own(nodes, own))
    if is_enabled(spark):
        return spark.sql(text, None if args is None else dict(args) if isinstance(args, Mapping) else list(args))
    plan = parsed(nodes, text, args)
    if not is_command(nodes, plan):
        if class_name(plan) == "Union" and all(statements.answer_of(nodes, each, True) is not None for each in nodes.items(plan.children())):
            for each in nodes.items(plan.children()):
                statements.carry_out(nodes, each)
            return statements.nothing(spark)
        if has_commands(nodes, plan):
            refuse("Several statements in one", None, "Rowlock carries out one statement at a time", "Write them one by one")
        return nodes.frame(plan)
    if statements.answer_of(nodes, plan, True) is not None:
        return _answered(spark, statements.carry_out(nodes, plan))
    name = str(plan.getClass().getName())
    if name in HARMLESS and class_name(plan) not in ("CompoundBody", "ExplainCommand", "CreateView", "CacheTableAsSelect"):
        return spark.sql(text, None if args is None else dict(args) if isinstance(args, Mapping) else list(args))
    refuse(statement_name(name), None, "rowlock.sql runs queries, and statements on Delta tables", "Use spark.sql")


def _answered(spark: SparkSession, frame: DataFrame | None) -> DataFrame:
    return statements.nothing(spark) if frame is None else frame


def _plan(nodes: Replaced, node: Any) -> Any:
    """The plan that stands for a name in a query; None where it is no Delta table."""
    found = named(nodes, node)
    return None if found is None else plan_of(frame_of_named(nodes.spark, found), found.name)
