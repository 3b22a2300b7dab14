"""Finds the table of a temporary view that shows all its columns and rows: UPDATE, DELETE and MERGE through such a view change the table, as in delta-spark."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from rowlock.engines.spark.catalyst.bridge import JavaObject, catalyst, class_name
from rowlock.engines.spark.sql.nodes import Nodes

_TAG = "rowlock.table"
_DEPTH = 20
"""Views in views that are looked through; Spark itself stops at a hundred."""


def marked(frame: DataFrame, path: str) -> DataFrame:
    """The DataFrame, with a mark in its plan that it is the whole table at `path`, by which a view of it is known."""
    frame._jdf.queryExecution().analyzed().setTagValue(catalyst(frame.sparkSession).mark(_TAG), path)
    return frame


def folder_behind(nodes: Nodes, parts: Sequence[str]) -> tuple[str, list[str]] | None:
    """The folder of the Delta table that a temporary view shows whole, and the view's columns; None for any other view."""
    view = _temporary_view(nodes, parts) if len(parts) <= 2 else None
    folder = None if view is None else _folder_of_view(nodes, view, _DEPTH)
    return None if folder is None else (folder, _columns(nodes, view))


def _temporary_view(nodes: Nodes, parts: Sequence[str]) -> JavaObject | None:
    return nodes.option(nodes.spark._jsparkSession.sessionState().catalog().getRawLocalOrGlobalTempView(nodes.bridge.seq(parts)))


def _columns(nodes: Nodes, view: JavaObject) -> list[str]:
    return [str(name) for name in nodes.items(nodes.bridge.seq(view.tableMeta().schema().fieldNames()))]


def _folder_of_view(nodes: Nodes, view: JavaObject, depth: int) -> str | None:
    plan = nodes.option(view.plan())
    if plan is not None:
        return _folder_of_plan(nodes, plan)
    meta = view.tableMeta()
    text, given = nodes.option(meta.viewText()), [str(n).lower() for n in nodes.items(meta.viewQueryColumnNames())]
    if text is None or given != [name.lower() for name in _columns(nodes, view)]:
        return None  # the view gives the query's columns other names: a name of the one may be that of another of the table
    return _folder_of_query(nodes, nodes.spark._jsparkSession.sessionState().sqlParser().parsePlan(str(text)), meta, depth)


def _folder_of_plan(nodes: Nodes, plan: JavaObject) -> str | None:
    """The folder of the table that an analyzed plan shows whole, under names only."""
    tag = nodes.bridge.mark(_TAG)
    while (found := nodes.option(plan.getTagValue(tag))) is None:
        if class_name(plan) == "LogicalRelation":
            return _scanned(plan)
        if class_name(plan) not in ("SubqueryAlias", "View"):
            return None
        plan = plan.child()
    return str(found)


def _scanned(relation: JavaObject) -> str | None:
    """The folder of the table that a scan reads at its newest version."""
    files = relation.relation().location() if class_name(relation.relation()) == "HadoopFsRelation" else None
    return None if files is None or str(files.getClass().getName()) != "rowlock.Scan" or files.version() is not None else str(files.table())


def _folder_of_query(nodes: Nodes, plan: JavaObject, meta: JavaObject, depth: int) -> str | None:
    """The folder of the table that the query of a view, such as `SELECT * FROM table`, shows whole.

    `meta` says where the view looks names up: in temporary views only those that it referred to when it was made, since a later one does not change it.
    """
    while class_name(plan) in ("SubqueryAlias", "Project"):
        if class_name(plan) == "Project" and not all(_is_plain(nodes, c) for c in nodes.items(plan.projectList())):
            return None
        plan = plan.child()
    if class_name(plan) != "UnresolvedRelation" or not plan.options().isEmpty() or plan.isStreaming():
        return None
    parts, schema = nodes.parts(plan) or [], [str(p) for p in nodes.items(meta.viewCatalogAndNamespace())]
    referred = [[str(p).lower() for p in nodes.items(name)] for name in nodes.items(meta.viewReferredTempViewNames())]
    if [p.lower() for p in parts] in referred:
        view = _temporary_view(nodes, parts)
        return _folder_of_view(nodes, view, depth - 1) if depth and view is not None else None
    return nodes.folder([*schema, *parts] if schema and len(parts) == 1 else parts)


def _is_plain(nodes: Nodes, column: JavaObject) -> bool:
    """Whether a column of a query is `*`, or one of the table's columns under its own name."""
    kind = class_name(column)
    if kind == "UnresolvedStar":
        return not column.target().isDefined()
    return kind == "UnresolvedAttribute" and int(column.nameParts().size()) == 1
