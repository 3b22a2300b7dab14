"""Relations of Spark's plans that are Delta tables: older versions, paths, and the plans that stand in their place."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql import Column, DataFrame, functions as F
from pyspark.sql.types import StructType

from rowlock import conditions
from rowlock.engines.spark.catalyst.bridge import JavaObject, analyzed, class_name, entries
from rowlock.engines.spark.read.scan import local_frame
from rowlock.engines.spark.sql.nodes import Nodes
from rowlock.exceptions import InvalidInput, SchemaMismatch

CHANGE_FUNCTIONS = ("table_changes", "table_changes_by_path")


@dataclass(frozen=True, slots=True)
class Named:
    """A table that a query names, at a version or a time, or as it is now.

    name     the last part of its name
    options  those of a DataFrameReader, their names in small letters
    changes  with which version or time the changes start, and perhaps with which they end, where it is those that are asked for
    """

    path: str
    name: str
    version: int | None = None
    timestamp: datetime.datetime | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    changes: Sequence[int | str | datetime.datetime] = ()


def named(nodes: Nodes, node: JavaObject) -> Named | None:
    """What an UnresolvedRelation, a RelationTimeTravel or a function such as table_changes names; None where it is no Delta table.

    Raises InvalidInput for a version that is no number, or a time that is none.
    """
    if class_name(node) == "UnresolvedTableValuedFunction":
        return _changes_of(nodes, node)
    travels = class_name(node) == "RelationTimeTravel"
    relation = node.relation() if travels else node
    parts = nodes.parts(relation)
    if parts is None:
        return None
    folder = nodes.folder(_within_view(nodes, parts))
    if folder is None:
        return None
    if not travels:
        return Named(folder, parts[-1], options={k.lower(): str(v) for k, v in entries(relation.options()).items()})
    version, moment = nodes.option(node.version()), nodes.option(node.timestamp())
    if version is not None and not str(version).isdecimal():
        raise InvalidInput(
            f"VERSION AS OF {version!r}: a version is a number", table=folder, condition=conditions.named("DELTA_TIME_TRAVEL_INVALID_BEGIN_VALUE")
        )
    return Named(folder, parts[-1], None if version is None else int(version), None if moment is None else _moment(nodes, moment, folder))


def _changes_of(nodes: Nodes, node: JavaObject) -> Named | None:
    """What table_changes(name, start[, end]) or table_changes_by_path(path, start[, end]) names; None for another function.

    Raises InvalidInput for arguments of another kind.
    """
    function = [str(p) for p in nodes.items(node.name())][-1].lower()
    if function not in CHANGE_FUNCTIONS:
        return None
    arguments = [_value(nodes, a, function) for a in nodes.items(node.functionArgs())]
    if (
        len(arguments) not in (2, 3)
        or not isinstance(arguments[0], str)
        or any(isinstance(a, bool) or not isinstance(a, (int, str, datetime.datetime)) for a in arguments)
    ):
        raise InvalidInput(f"{function} takes the table as a text, the version or the time to start with, and perhaps one to end with")
    table = arguments[0]
    if function == "table_changes_by_path":
        return Named(table, function, changes=arguments[1:])
    parts = [str(p) for p in nodes.items(nodes.spark._jsparkSession.sessionState().sqlParser().parseMultipartIdentifier(table))]
    folder = nodes.folder(_within_view(nodes, parts))
    if folder is None:
        raise nodes.not_found(parts, function)
    return Named(folder, function, changes=arguments[1:])


def _value(nodes: Nodes, expression: JavaObject, function: str) -> Any:
    """The value of an argument that is a constant."""
    if nodes.bridge.subquery.hasSubquery(expression):
        raise InvalidInput(f"{function} takes constants, no subquery")
    value = _evaluated(nodes, nodes.column(expression))
    return value.isoformat() if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime) else value


def _within_view(nodes: Nodes, parts: list[str]) -> list[str]:
    """The name as a view's text means it: in the schema that was the current one when the view was made."""
    context: Any = nodes.bridge.jvm.org.apache.spark.sql.catalyst.analysis.AnalysisContext.get()
    schema = [str(p) for p in nodes.items(context.catalogAndNamespace())]
    return [*schema, *parts] if schema and len(parts) == 1 else parts


def _moment(nodes: Nodes, expression: JavaObject, table: str) -> datetime.datetime:
    """The time that an expression stands for."""
    if nodes.bridge.subquery.hasSubquery(expression):
        raise InvalidInput("TIMESTAMP AS OF takes no subquery: write the time itself", table=table)
    micros = _evaluated(nodes, F.unix_micros(nodes.column(expression).try_cast("timestamp_ltz")))
    if micros is None:
        raise InvalidInput(
            f"TIMESTAMP AS OF {expression.sql()}: this is no time",
            table=table,
            condition=conditions.named("INVALID_TIME_TRAVEL_TIMESTAMP_EXPR.INPUT", expr=f'"{expression.sql()}"'),
        )
    return datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(microseconds=micros)


def _evaluated(nodes: Nodes, expression: Column) -> Any:
    """The value of an expression that reads no column."""
    row = local_frame(nodes.spark, pa.table({"one": ["1"]})).select(expression).first()
    return None if row is None else row[0]


def plan_of(frame: DataFrame, name: str) -> JavaObject:
    """The plan of a DataFrame under a table's name."""
    return analyzed(frame.alias(name))


def place_in(options: Mapping[str, str], missing: str) -> str:
    """The path in the options of a reader or a writer.  Raises InvalidInput with the text `missing` where there is none."""
    place = next((value for name, value in options.items() if name.lower() == "path"), "")
    if not place:
        raise InvalidInput(missing)
    return local_path(place)


def check_given_schema(given: str | None, frame: DataFrame, table: str) -> None:
    """Raises SchemaMismatch where a caller says that a table has other columns than it has; the catalog's entries say none."""
    if given is None:
        return
    wanted = StructType.fromJson(orjson.loads(given))
    if wanted.fields and [(f.name.lower(), f.dataType) for f in wanted.fields] != [(f.name.lower(), f.dataType) for f in frame.schema.fields]:
        raise SchemaMismatch(f"The table's columns are {frame.schema.simpleString()}, not {wanted.simpleString()}: leave schema() out", table=table)


def local_path(path: str) -> str:
    """A path as Rowlock takes it: `file:` URIs of Hadoop, which are not encoded, as local paths."""
    return "/" + path[5:].lstrip("/") if path.startswith("file:") else path


def partition_columns(options: dict[str, str]) -> list[str]:
    """The columns of `partitionBy`, which Spark hands over among the options."""
    held = options.get("__partition_columns")
    return [str(c) for c in orjson.loads(held)] if held else []
