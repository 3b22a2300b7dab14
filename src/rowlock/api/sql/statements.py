"""Maps each SQL statement on a Delta table to the function that carries it out; any other statement on one is refused by name.

A statement on a Delta table that is in no list here is refused (I9).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rowlock.api.handle import Handle, session_commits
from rowlock.api.sql import alterations, descriptions, row_statements, table_statements, upkeep_statements
from rowlock.api.sql.target import Target
from rowlock.engines.spark.catalog import SESSION_CATALOG, delta_tables
from rowlock.engines.spark.catalyst.bridge import class_name
from rowlock.engines.spark.catalyst.types import DataFrame, SparkSession, StructType
from rowlock.engines.spark.catalyst.versions import Version, version_of
from rowlock.engines.spark.frames.answers import columns_of_answer
from rowlock.engines.spark.sql import own_syntax
from rowlock.engines.spark.sql.commands import HARMLESS, NOT_ANSWERED, kind_of, statement_name
from rowlock.engines.spark.sql.guard import refuse
from rowlock.engines.spark.sql.nodes import FORMATS, Nodes
from rowlock.engines.spark.sql.own_syntax import OwnStatement
from rowlock.exceptions import TableNotFound

Run = Callable[[Target, Any], DataFrame | None]

_BY_TABLE: dict[str, Run] = {
    "UpdateTable": row_statements.update,
    "DeleteFromTable": row_statements.delete,
    "InsertIntoStatement": row_statements.insert,
    "AppendData": row_statements.append,
    "OverwriteByExpression": row_statements.overwrite,
    "OverwritePartitionsDynamic": row_statements.overwrite_partitions,
    "TruncateTable": row_statements.truncate,
    "DropTable": table_statements.drop,
    "DropNamespace": table_statements.drop_schema,
    "RefreshTable": table_statements.refresh,
    "SetTableProperties": alterations.set_properties,
    "UnsetTableProperties": alterations.unset_properties,
    "AddColumns": alterations.add_columns,
    "ReplaceColumns": alterations.replace_columns,
    "RenameColumn": alterations.rename_column,
    "DropColumns": alterations.drop_columns,
    "AlterColumns": alterations.alter_columns,
    "AlterTableClusterBy": alterations.cluster_by,
    "AddCheckConstraint": alterations.add_constraint,
    "AddConstraint": alterations.add_constraint,
    "DropConstraint": alterations.drop_constraint,
    "MergeIntoTable": row_statements.merge,
    "CommentOnTable": alterations.comment,
    "RenameTable": alterations.rename_table,
    "SetTableLocation": alterations.set_location,
    "DescribeRelation": descriptions.describe,
    "DescribeColumn": descriptions.describe_column,
    "ShowTableProperties": descriptions.show_properties,
    "ShowColumns": descriptions.show_columns,
    "ShowPartitions": descriptions.show_partitions,
    "ShowCreateTable": descriptions.show_create,
}
_BY_NAME: dict[str, Run] = {
    "CreateTable": table_statements.create,
    "CreateTableLike": table_statements.create_like,
    "CreateTableAsSelect": table_statements.create_as_select,
    "ReplaceTable": table_statements.replace,
    "ReplaceTableAsSelect": table_statements.replace_as_select,
    "SaveAsV1TableCommand": table_statements.save_as_table,
}
MAKES = frozenset(_BY_NAME)
"""The statements that make a table, by the classes of their plans."""
_OF_ROWS = ("UpdateTable", "DeleteFromTable", "MergeIntoTable")
HANDLED = _BY_TABLE | _BY_NAME
"""What carries out each statement on a Delta table, by the class of its plan."""

_INSTEAD = "docs/sql.md lists the statements that Rowlock has; rowlock.DeltaTable has the same as methods"


def statement_kind(plan: Any) -> str:
    """The class of a statement's plan, by which HANDLED lists it."""
    return kind_of(str(plan.getClass().getName()))


def target_of(nodes: Nodes, plan: Any) -> Target | None:
    """The Delta table that a command is on, or is about to make; None for a command on something else.  Raises UnsupportedFeature."""
    name = str(plan.getClass().getName())
    kind = kind_of(name)
    if name in HARMLESS and name not in NOT_ANSWERED and kind not in HANDLED:
        return None
    if kind == "DropNamespace":
        return _schema_of(nodes, plan, statement_name(name))
    for parts, alias in targets(nodes, plan, kind):
        folder = nodes.folder(parts)
        if folder is not None or (kind in _BY_NAME and _makes_delta(nodes, plan, kind)):
            return Target(nodes, statement_name(name), tuple(parts), folder, alias)
        if kind in _OF_ROWS and nodes.is_view(parts):
            return _through_view(nodes, statement_name(name), parts, alias)
    return None


def _schema_of(nodes: Nodes, plan: Any, statement: str) -> Target | None:
    """The schema that DROP SCHEMA ... CASCADE is on, as a target without a folder; None where it holds no Delta table, or Spark will not drop it."""
    parts = nodes.parts(plan.namespace())
    if parts is None or not plan.cascade() or parts[-1].lower() == "default":
        return None
    catalog = parts[0] if len(parts) > 1 else nodes.spark.catalog.currentCatalog()
    if len(parts) > 2 or catalog.lower() != SESSION_CATALOG or not nodes.spark._jsparkSession.sessionState().catalog().databaseExists(parts[-1]):
        return None
    return Target(nodes, statement, (parts[-1],), None) if delta_tables(nodes.spark, parts[-1]) else None


def _through_view(nodes: Nodes, statement: str, parts: list[str], alias: str | None) -> Target:
    """The table that a temporary view shows whole, called by the view's name.  Raises UnsupportedFeature for any other view."""
    found, name = nodes.folder_behind(parts), ".".join(parts)
    if found is None:
        why = f"{name} is a view, and not a temporary one of all columns and rows of a Delta table under their own names"
        refuse(f"{statement} on a view", None, why, "Name the table itself")
    folder, columns = found
    if [c.lower() for c in columns] != [c.lower() for c in Handle(nodes.spark, folder).state.refresh().schema.names]:
        refuse(f"{statement} on a view", folder, f"{name} is a view of {', '.join(columns)}, and the table has other columns", "Name the table itself")
    return Target(nodes, statement, tuple(parts), folder, alias or parts[-1])


def targets(nodes: Nodes, plan: Any, kind: str) -> list[tuple[list[str], str | None]]:
    """The names (their parts, and an alias) of what a command changes: never those in its query."""
    if kind == "SaveAsV1TableCommand":
        return [(nodes.saved_name(plan), None)] if nodes.query(plan) is not None else []
    if kind == "CreateTableLike":
        name = nodes.like_of(plan).name
        return [] if name is None else [(name, None)]
    if kind == "MergeIntoTable":
        found = [plan.targetTable()]
    elif kind == "AddCheckConstraint":
        found = [plan.child().child()]
    elif kind in _BY_NAME:
        found = [plan.name()]
    elif kind in ("InsertIntoStatement", "AppendData", "OverwriteByExpression", "OverwritePartitionsDynamic", "UpdateTable", "DeleteFromTable"):
        found = [plan.table()]
    else:
        found = [c for c in nodes.items(plan.children()) if class_name(c) in ("UnresolvedTable", "UnresolvedTableOrView", "UnresolvedIdentifier")]
    return [(parts, nodes.without_alias(node)[1]) for node in found if (parts := nodes.parts(node)) is not None]


def _makes_delta(nodes: Nodes, plan: Any, kind: str) -> bool:
    """Whether a statement that makes a table makes a Delta table, or one like a Delta table."""
    if kind == "CreateTableLike":
        return nodes.folder(nodes.like_of(plan).source) is not None or format_of(nodes, plan).lower() in FORMATS
    return format_of(nodes, plan).lower() in FORMATS


def format_of(nodes: Nodes, plan: Any) -> str:
    """The format of the table that a statement in MAKES makes, as far as it or the session says one."""
    kind = statement_kind(plan)
    if kind == "CreateTableLike":
        return str(nodes.option(plan.provider()) or "")
    return str((nodes.option(plan.tableDesc().provider()) if kind == "SaveAsV1TableCommand" else nodes.provider_of(plan)) or "")


def answer_of(nodes: Nodes, plan: Any, top: bool) -> StructType | None:
    """The columns of what a command returns if Rowlock carries it out; None leaves it to Spark.  Raises UnsupportedFeature for what is refused."""
    target = target_of(nodes, plan)
    if target is None:
        return None
    kind = statement_kind(plan)
    if kind not in HANDLED:
        refuse(target.statement, target.folder, f"{'.'.join(target.parts)} is a Delta table, and this version of Rowlock has no such statement", _INSTEAD)
    if not top:
        refuse(f"{target.statement} within another statement", target.folder, "Rowlock carries out one statement at a time", "Write them one by one")
    return descriptions.partition_columns(target) if kind == "ShowPartitions" else columns_of_answer(kind)


def carry_out(nodes: Nodes, plan: Any) -> DataFrame | None:
    """Runs a statement that `answer_of` has an answer for."""
    target = target_of(nodes, plan)
    if target is None:
        raise TableNotFound(f"The table of the statement is no Delta table any more: {plan.nodeName()}")
    work = HANDLED[statement_kind(plan)]
    with target.handle.commits("alter") if work.__module__ == alterations.__name__ else session_commits(nodes.spark):
        return work(target, plan)


# ---- Delta's own statements ------------------------------------------------------------------


def parsed_own(spark: SparkSession, text: str) -> OwnStatement | None:
    """The statement in a text that the session's Spark has no grammar for.  Raises InvalidInput, UnsupportedFeature."""
    return own_syntax.parse(text, constraints=not (version_of(spark.version) or Version()).constraints)


def own_statement(nodes: Nodes, text: str) -> OwnStatement | None:
    """The statement of Delta's own in a text, on a Delta table.  Raises InvalidInput, UnsupportedFeature, TableNotFound."""
    found = parsed_own(nodes.spark, text)
    if found is None:
        return None
    named: Any = found.values["source"] if found.kind == "CLONE" else found.table
    if found.kind != "CONVERT" and not (found.kind == "CLONE" and upkeep_statements.is_parquet(nodes.spark, named)) and nodes.folder(named) is None:
        raise nodes.not_found(named, found.kind)
    return found


def carry_out_own(nodes: Nodes, statement: OwnStatement) -> DataFrame | None:
    """Runs one of Delta's own statements."""
    if statement.kind in ("CONVERT", "CLONE"):
        with session_commits(nodes.spark):
            return (upkeep_statements.convert if statement.kind == "CONVERT" else upkeep_statements.clone)(nodes.spark, statement)
    target = Target(nodes, statement.kind, statement.table, nodes.folder(statement.table))
    if statement.kind.endswith(" CONSTRAINT"):
        with target.handle.commits("alter"):
            alterations.own_constraint(target, statement)
        return None
    return upkeep_statements.run(target, statement)
