"""Parses SQL with Spark's parser from Python, and replaces names, nodes and scalar subqueries in plans, where no class of Rowlock's is in the JVM.
Also what a query names of Delta tables: older versions, paths, changes.

Delta allows subqueries in the values of UPDATE and MERGE alone, and only such as name no column of the statement's rows: each is run once,
before the statement, and its value stands in its place.
"""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import Column, DataFrame, SparkSession, functions as F

from rowlock.conditions import named as error_named
from rowlock.engines.spark.catalyst.bridge import JavaObject, analyzed, class_name, entries, to_arrow
from rowlock.engines.spark.read.scan import local_frame
from rowlock.engines.spark.sql.nodes import Nodes
from rowlock.engines.spark.statements.sources import frame_of_now
from rowlock.engines.spark.user_session import Session
from rowlock.exceptions import InvalidInput, StatementRefused, WrongType

_lock = threading.Lock()


def start_callback_server(spark: SparkSession) -> None:
    """Starts the server by which the JVM calls Python, if it does not run yet; it accepts connections when this returns.

    PySpark's own function returns before the server's thread listens, so a first call from the JVM could be refused; and two
    threads that call it at once start two servers.
    """
    gateway: Any = spark.sparkContext._gateway
    with _lock:
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        gateway._callback_server.server_socket.listen(5)  # as the server's thread does; a second call changes nothing


def replaced(
    spark: SparkSession, transform: Callable[[JavaObject], JavaObject], kinds: Collection[str], made: Callable[[JavaObject], JavaObject | None]
) -> JavaObject:
    """What `transform`, a method of a tree such as `transformUp`, returns where each node of these classes becomes what `made` returns; None keeps it.

    Raises what `made` raises.
    """
    start_callback_server(spark)
    replace = _Replace(kinds, made)
    out = transform(replace)
    if replace.error is not None:
        raise replace.error
    return out


class _Replace:
    """A scala.PartialFunction: from a node to the one in its place."""

    class Java:
        """What py4j asks for."""

        implements: ClassVar[list[str]] = ["scala.PartialFunction"]

    def __init__(self, kinds: Collection[str], made: Callable[[JavaObject], JavaObject | None]) -> None:
        self._kinds, self._made = kinds, made
        self.error: Exception | None = None

    def isDefinedAt(self, node: JavaObject) -> bool:
        """Scala's name: whether the node is one to replace."""
        return class_name(node) in self._kinds

    def applyOrElse(self, node: JavaObject, otherwise: JavaObject) -> JavaObject:
        """Scala's name: what is in place of such a node, else the node."""
        return self.apply(node)

    def apply(self, node: JavaObject) -> JavaObject:
        """Scala's name: what is in place of such a node, else the node."""
        if self.error is not None or not self.isDefinedAt(node):
            return node
        try:
            made = self._made(node)
        except Exception as e:  # noqa: BLE001 - raised by `replaced`, when Java is through with the tree
            self.error = e
            return node
        return node if made is None else made


_NAMES = ("UnresolvedRelation", "RelationTimeTravel", "UnresolvedTableValuedFunction")


class Replaced(Nodes):
    """The nodes of a session whose queries get Rowlock's rows in place of Delta tables."""

    def __init__(self, spark: SparkSession, rows_of: Callable[[Named], DataFrame]) -> None:
        super().__init__(spark)
        self._rows_of = rows_of

    def frame(self, plan: JavaObject) -> DataFrame:
        """See `Nodes`."""
        return super().frame(replaced(self.spark, plan.transformUpWithSubqueries, _NAMES, self._plan_of))

    def _plan_of(self, node: JavaObject) -> JavaObject | None:
        found = Named.of(self, node)
        return None if found is None else analyzed(self._rows_of(found).alias(found.name))

    def rows(self, query: str) -> DataFrame:
        """See `Nodes`."""
        return super().rows(query) if Session(self.spark).is_enabled else self.frame(self.parsed(query, None))

    def parsed(self, text: str, args: Mapping[str, Any] | Sequence[Any] | None) -> JavaObject:
        """The parsed plan of a text, with the CTEs of its statement, and what IDENTIFIER(...) names, at their places.  Raises Spark's ParseException."""
        with self.bridge.active(self.spark._jsparkSession):  # whose time zone the literals of times are in
            plan = _parsed(self, text, args)
        return identified(self.spark, plan) if "identifier" in text.lower() else plan


def _parsed(nodes: Nodes, text: str, args: Mapping[str, Any] | Sequence[Any] | None) -> JavaObject:
    parser: Any = nodes.bridge.jvm.org.apache.spark.sql.execution.SparkSqlParser()  # Spark's own: delta-spark's drops parameters
    analysis: Any = nodes.bridge.jvm.org.apache.spark.sql.catalyst.analysis
    if args is None:
        return analysis.CTESubstitution.apply(parser.parsePlan(text))
    given = list(args.values() if isinstance(args, Mapping) else args)
    if tuple(map(int, nodes.spark.version.split(".")[:2])) < (4, 1):
        plan, named = analysis.CTESubstitution.apply(parser.parsePlan(text)), isinstance(args, Mapping)
        values = nodes.bridge.seq(_literals(nodes, given))
        bound = analysis.NameParameterizedQuery(plan, nodes.bridge.seq([*map(str, args)]), values) if named else analysis.PosParameterizedQuery(plan, values)
        return analysis.BindParameters.apply(bound)
    contexts: Any = nodes.bridge.jvm.org.apache.spark.sql.catalyst.parser
    if isinstance(args, Mapping):
        by_name = nodes.bridge.hash_map(zip(map(str, args), _literals(nodes, given), strict=True))
        context = contexts.NamedParameterContext(nodes.bridge.jvm.PythonUtils.toScalaMap(by_name))
    else:
        context = contexts.PositionalParameterContext(nodes.bridge.seq(_literals(nodes, given)))
    return analysis.CTESubstitution.apply(parser.parsePlanWithParameters(text, context))


def identified(spark: SparkSession, plan: JavaObject) -> JavaObject:
    """A plan with what IDENTIFIER(...) names in its place, also where Spark's parser has not computed the name: of a session variable, or of several texts."""
    nodes = Nodes(spark)

    def made(held: JavaObject) -> JavaObject | None:
        try:
            name = _row_of(nodes, nodes.column(held.identifierExpr())).collect()[0][0]
        except AnalysisException:  # Spark says what is wrong with it
            return None
        return held.planBuilder().apply(_name(nodes, name), held.children()) if isinstance(name, str) else None

    if class_name(plan) == "InsertIntoStatement":  # whose table is no child of it
        parts = nodes.items(plan.productIterator().toSeq())
        return plan.makeCopy(nodes.bridge.array_list((identified(spark, parts[0]), *parts[1:])).toArray())
    return replaced(spark, plan.transformUp, ("PlanWithUnresolvedIdentifier",), made)


def _name(nodes: Nodes, text: str) -> JavaObject:
    """The parts (a JVM Seq) of a name."""
    return nodes.spark._jsparkSession.sessionState().sqlParser().parseMultipartIdentifier(text)


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
    return [e.child() for e in nodes.items(analyzed(frame).projectList())]


class ScalarSubqueries:
    """The subqueries in the values of one statement."""

    def __init__(self, nodes: Nodes, statement: str, table: str | None, columns: Callable[[], Iterable[str]]) -> None:
        self._nodes, self._statement, self._table, self._columns = nodes, statement, table, columns

    def computed(self, assignments: Mapping[Any, Column | str], queries: list[DataFrame]) -> Mapping[Any, Column | str]:
        """Assignments with the values of their scalar subqueries of now, whose queries are added to the list.

        Raises StatementRefused for another subquery, more than one row, and a column of the statement's rows, Spark's AnalysisException for another name that one does not know.
        """
        return {key: value if isinstance(value, str) else self._computed(value, queries) for key, value in assignments.items()}

    def _computed(self, value: Column, queries: list[DataFrame]) -> Column:
        bridge = self._nodes.bridge
        expression = bridge.column_of.expression(value._jc)
        if not bridge.subquery.hasSubquery(expression):
            return value
        done = replaced(self._nodes.spark, expression.transformUp, ("ScalarSubquery",), lambda subquery: self._value(subquery, queries))
        if bridge.subquery.hasSubquery(done):
            text = "a subquery in a value, but for one that names no column of its rows: use MERGE, whose source may be any query"
            raise self._refused(text, "UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY.UNSUPPORTED_IN_EXISTS_SUBQUERY", treeNode=str(done.toString()))
        return bridge.column(done)

    def _value(self, subquery: JavaObject, queries: list[DataFrame]) -> JavaObject:
        bridge = self._nodes.bridge
        try:
            frame = frame_of_now(self._nodes.frame(subquery.plan()))
        except AnalysisException as e:
            name = str((e.getMessageParameters() or {}).get("objectName", "")).rpartition(".")[2].strip("`")
            if not str(e.getCondition()).startswith("UNRESOLVED_COLUMN") or name.lower() not in {c.lower() for c in self._columns()}:
                raise
            correlated = "UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY.UNSUPPORTED_CORRELATED_SCALAR_SUBQUERY"
            text = f"a subquery that names a column of its rows, {name}: use MERGE, whose source may be any query"
            raise self._refused(text, correlated, treeNode=subquery.toString()) from e
        if len(frame.columns) != 1:
            several = "INVALID_SUBQUERY_EXPRESSION.SCALAR_SUBQUERY_RETURN_MORE_THAN_ONE_OUTPUT_COLUMN"
            raise self._refused(f"a subquery of {len(frame.columns)} columns as a value", several)
        one = frame.toDF("value")
        rows = to_arrow(one.limit(2))
        if rows.num_rows > 1:
            raise self._refused("a subquery of more than one row as a value", "SCALAR_SUBQUERY_TOO_MANY_ROWS")
        queries.append(frame)
        if not rows.num_rows:
            return bridge.literal.create(None, bridge.data_type.fromJson(one.schema["value"].dataType.json()))
        held = bridge.struct_literal(analyzed(local_frame(self._nodes.spark, rows, one.schema)).data().apply(0), bridge.data_type.fromJson(one.schema.json()))
        return bridge.struct_field(held, 0, bridge.none)  # a struct's value stays in the JVM: a number of its own would lose its type on the way

    def _refused(self, what: str, condition: str, **parameters: object) -> StatementRefused:
        why = error_named(condition, **parameters)
        return StatementRefused(f"{self._statement} may not contain {what}", what="a subquery", table=self._table, condition=why)


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

    @classmethod
    def of(cls, nodes: Nodes, node: JavaObject) -> Named | None:
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
            return cls(folder, parts[-1], options={k.lower(): str(v) for k, v in entries(relation.options()).items()})
        version, moment = nodes.option(node.version()), nodes.option(node.timestamp())
        if version is not None and not str(version).isdecimal():
            raise InvalidInput(
                f"VERSION AS OF {version!r}: a version is a number", table=folder, condition=error_named("DELTA_TIME_TRAVEL_INVALID_BEGIN_VALUE")
            )
        return cls(folder, parts[-1], None if version is None else int(version), None if moment is None else _moment(nodes, moment, folder))


def _changes_of(nodes: Nodes, node: JavaObject) -> Named | None:
    """What table_changes(name, start[, end]) or table_changes_by_path(path, start[, end]) names; None for another function.

    Raises InvalidInput for arguments of another kind.
    """
    function = [str(p) for p in nodes.items(node.name())][-1].lower()
    if function not in CHANGE_FUNCTIONS:
        return None
    arguments = [_value(nodes, a, function, n) for n, a in enumerate(nodes.items(node.functionArgs()))]
    if None in arguments[1:3]:
        raise InvalidInput(f"{function} starts and ends with a version or a time, not with NULL", condition=error_named("DELTA_CDC_READ_NULL_RANGE_BOUNDARY"))
    if (
        len(arguments) not in (2, 3)
        or not isinstance(arguments[0], str)
        or any(isinstance(a, bool) or not isinstance(a, (int, str, datetime.datetime)) for a in arguments)
    ):
        raise InvalidInput(f"{function} takes the table as a text, the version or the time to start with, and perhaps one to end with")
    table = arguments[0]
    if function == "table_changes_by_path":
        return Named(table, function, changes=arguments[1:])
    parts = [str(p) for p in nodes.items(_name(nodes, table))]
    folder = nodes.folder(_within_view(nodes, parts))
    if folder is None:
        raise nodes.not_found(parts, function)
    return Named(folder, function, changes=arguments[1:])


def _value(nodes: Nodes, expression: JavaObject, function: str, place: int) -> Any:
    """The value of an argument that is a constant, by its place."""
    if nodes.bridge.subquery.hasSubquery(expression):
        raise InvalidInput(f"{function} takes constants, no subquery")
    if class_name(expression) == "NamedArgumentExpression":
        named = {"argumentName": ("table", "starting", "ending")[min(place, 2)], "pos": place + 1, "functionName": function, "sqlExpr": expression.toString()}
        why = error_named("DELTA_CDC_NON_CONSTANT_ARGUMENT", **named)
        raise InvalidInput(f"{function} takes its arguments by their places, not by names", condition=why)
    value = _row_of(nodes, nodes.column(expression)).collect()[0][0]
    return value.isoformat() if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime) else value


def _within_view(nodes: Nodes, parts: list[str]) -> list[str]:
    """The name as a view's text means it: in the schema that was the current one when the view was made."""
    context: Any = nodes.bridge.jvm.org.apache.spark.sql.catalyst.analysis.AnalysisContext.get()
    schema = [str(p) for p in nodes.items(context.catalogAndNamespace())]
    return [*schema, *parts] if schema and len(parts) == 1 else parts


def _moment(nodes: Nodes, expression: JavaObject, table: str) -> datetime.datetime:
    """The time that an expression stands for."""
    time = _row_of(nodes, F.unix_micros(nodes.column(expression).try_cast("timestamp_ltz")))
    micros = time.collect()[0][0] if (is_one := bool(analyzed(time).deterministic())) else None
    if micros is None:
        kind, what = ("INPUT", "this is no time") if is_one else ("NON_DETERMINISTIC", "this is another time whenever it is computed")
        condition = error_named(f"INVALID_TIME_TRAVEL_TIMESTAMP_EXPR.{kind}", expr=f'"{expression.sql()}"')
        raise InvalidInput(f"TIMESTAMP AS OF {expression.sql()}: {what}", table=table, condition=condition)
    return datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(microseconds=micros)


def _row_of(nodes: Nodes, expression: Column) -> DataFrame:
    """One row with an expression that reads no column."""
    return local_frame(nodes.spark, pa.table({"one": ["1"]})).select().select(expression)
