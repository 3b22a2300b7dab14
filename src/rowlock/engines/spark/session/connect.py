"""Spark Connect: the servers that Spark carries, started in the JVM of a session (and Thrift for JDBC); and statements of SQL that a client sends to one.

Each client gets a session of its own, made from the one that is given: what `rowlock.enable` put into that is in all of them.
A Column of Connect is a tree that the server resolves; a client makes of it the text of an expression.  Literals are parameters of the statement, so that
each keeps its type and its value.  pyspark.sql.connect needs gRPC, which need not be installed: its classes are known by their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession

from rowlock import exceptions
from rowlock.exceptions import InvalidInput, RowlockError, UnsupportedFeature, WrongType
from rowlock.protocol.schema import column_path, quote

CONNECT_SERVICE = "org.apache.spark.sql.connect.service.SparkConnectService$"
_STOPS_WITHIN_S = 10
_LOG_FAILED_TASKS = (
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.util.Utils",
    "org.apache.spark.sql.execution.datasources.FileFormatWriter",
)


def connect_settings(host: str, port: int, token: str | None) -> dict[str, str]:
    """The settings with which a session must be started whose Connect server is to listen there; port 0 is any that is free."""
    out = {"spark.connect.grpc.binding.address": host, "spark.connect.grpc.binding.port": str(port), "spark.sql.connect.serverStacktrace.enabled": "false"}
    return out if token is None else out | {"spark.connect.authenticate.token": token}


def metastore_settings(folder: Path) -> dict[str, str]:
    """The settings with which a session keeps the names of tables in a Derby database in `folder`, which one process at a time can open."""
    return {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder};create=true",
    }


def keep_derby_log(spark: SparkSession, folder: Path) -> None:
    """Makes Derby write its log beside its database, not into the working directory.  Only before the session's catalog was asked for anything."""
    jvm: Any = spark._jvm
    jvm.java.lang.System.setProperty("derby.stream.error.file", f"{folder}.log")


def log_one_line_for_each_mistake(spark: SparkSession) -> None:
    """Leaves the failures of tasks out of the log: the statement that they end is in it, in one line (see log4j2.properties)."""
    jvm: Any = spark._jvm
    logging = jvm.org.apache.logging.log4j
    for name in _LOG_FAILED_TASKS:
        logging.core.config.Configurator.setLevel(name, logging.Level.OFF)


class ConnectServer:
    """Spark's Connect server in the JVM of a session."""

    def __init__(self, spark: SparkSession) -> None:
        """Starts it.  Raises RowlockError where it cannot listen."""
        jvm: Any = spark._jvm
        self._none, self._seconds = jvm.scala.Option.empty(), jvm.java.util.concurrent.TimeUnit.SECONDS
        try:
            self._service = module(jvm, CONNECT_SERVICE)
            self._service.start(spark.sparkContext._jsc.sc())
            self.port = int(self._service.server().getPort())
        except Exception as e:
            raise RowlockError(f"Spark's Connect server did not start: {_reason(e)}") from e

    def stop(self) -> None:
        """Takes no more statements, and waits some seconds for those that run."""
        self._service.server().shutdown()
        self._service.server().awaitTermination(_STOPS_WITHIN_S, self._seconds)
        self._service.stop(self._none, self._none)


class ThriftServer:
    """Spark's Thrift server in the JVM of a session, for JDBC and ODBC."""

    def __init__(self, spark: SparkSession, host: str, port: int) -> None:
        """Starts it.  Raises RowlockError where this Spark has none, or where it cannot listen."""
        jvm: Any = spark._jvm
        properties = jvm.java.lang.System
        properties.setProperty("hive.server2.thrift.bind.host", host)
        properties.setProperty("hive.server2.thrift.port", str(port))
        try:
            self._server = jvm.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2.startWithSparkSession(spark._jsparkSession, False)
        except Exception as e:
            raise RowlockError(f"Spark's Thrift server did not start: {_reason(e)}") from e
        self.port = port

    def stop(self) -> None:
        """Ends it and the sessions of its clients."""
        self._server.stop()


def is_connect(session: object) -> bool:
    """Whether a session, or a DataFrame, is a client's of Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect.")


def jvm_is_alive(spark: SparkSession) -> bool:
    """Whether the JVM that this process started still runs; True where it did not start it."""
    process = getattr(spark.sparkContext._gateway, "proc", None)
    return process is None or process.poll() is None


def module(jvm: Any, name: str) -> Any:
    """A Scala object by the full name of its class."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return jvm.java.lang.Class.forName(name, True, loader).getField("MODULE$").get(None)


def _reason(error: BaseException) -> str:
    """The innermost message of a JVM exception."""
    java: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    text = str(error)
    while java is not None:
        text = str(java.getMessage() or java.toString())
        java = java.getCause()
    return text


_OPERATORS = {
    **{name: name for name in ("<", "<=", ">", ">=", "<=>", "+", "-", "*", "/", "%", "&", "|", "^", "and", "or", "like", "rlike", "ilike")},
    "==": "=",
}
_SOURCE = "_source"
_NAMED = re.compile(r"(?:\([\w.]+\) )?(?:\[[A-Z_.]+\] )?(\w+): ")
_FIELDS = ("version", "file", "constraint", "expression", "row", "what", "feature", "access", "txn_id", "conflict", "remedy")
"""The fields of Rowlock's errors that a client does not learn."""


class ClientStatement:
    """A statement in the making: its expressions, the parameters in them and, for a MERGE, its source."""

    def __init__(self, session: SparkSession, table: str, source: DataFrame | None = None) -> None:
        self._session, self._table, self._source = session, table, source
        self._parameters: dict[str, Column] = {}
        self._plans = set() if source is None else set(_plan_ids(source._plan))

    def target(self, alias: str | None) -> str:
        """The table as SQL names it, and what expressions call it."""
        return f"delta.{quoted(self._table)}" + ("" if alias is None else f" AS {quoted(alias)}")

    @property
    def source(self) -> str:
        """The source as SQL names it, and what expressions call it."""
        return f"{{source}} AS {quoted(self.source_alias)}"

    @property
    def source_alias(self) -> str:
        """The name by which expressions call the source: that of `source.alias(...)`, where it has one."""
        plan: Any = self._source._plan  # type: ignore[union-attr]
        return str(plan._alias) if type(plan).__name__ == "SubqueryAlias" else _SOURCE

    def run(self, text: str) -> DataFrame:
        """Sends the statement to the server, which carries it out at once; `{source}` in it stands for the source.

        Raises an error of Rowlock's that is the client's error as well, where the server names one.
        """
        frames = {} if self._source is None else {"source": self._source}
        if not frames:
            text = text.replace("{{", "{").replace("}}", "}")
        try:
            return self._session.sql(text, self._parameters or None, **frames)
        except PySparkException as error:
            raise _as_rowlocks(error, self._table) from None

    def expression(self, given: str | Column) -> str:
        """An expression in brackets.  Raises WrongType, InvalidInput, UnsupportedFeature."""
        if isinstance(given, str):
            return f"({_braced(given)}\n)"  # a comment at its end ends with the line
        if not type(given).__module__.startswith("pyspark.sql.connect."):
            raise WrongType("The Column is one of a classic session, and the table's session is one of Spark Connect", table=self._table)
        return self._text(given._expr)

    def value(self, given: str | Column) -> str:
        """A value to assign: an expression, or the word DEFAULT."""
        return "DEFAULT" if isinstance(given, str) and given.strip().upper() == "DEFAULT" else self.expression(given)

    def column(self, key: str | Column) -> str:
        """The name of a column to set."""
        return _dotted(key if isinstance(key, str) else str(key._expr._unparsed_identifier))

    def assignments(self, values: Mapping[Any, str | Column]) -> str:
        """What follows SET."""
        return ", ".join(f"{self.column(key)} = {self.value(value)}" for key, value in values.items())

    def _text(self, node: Any) -> str:
        kind = type(node).__name__
        write = getattr(self, f"_{kind}", None)
        if write is None:
            raise UnsupportedFeature(
                f"A Column with {kind} in it ({_braced(str(node))[:200]}) has no text in SQL that a client could send: give the expression as a string, "
                "or compute it into a column of the source",
                feature=f"{kind} in a Column of Spark Connect",
                access="write",
                table=self._table,
            )
        return str(write(node))

    def _LiteralExpression(self, node: Any) -> str:
        name = f"rowlock_{len(self._parameters)}"
        self._parameters[name] = _column(node)
        return f":{name}"

    def _SQLExpression(self, node: Any) -> str:
        return self.expression(str(node._expr))

    def _ColumnReference(self, node: Any) -> str:
        name = _dotted(str(node._unparsed_identifier))
        if node._plan_id is None:
            return name
        if node._plan_id not in self._plans:
            text = f"{node._unparsed_identifier} is a column of a DataFrame that is not the source of this statement: name it as a text, behind an alias"
            raise InvalidInput(text, table=self._table)
        return f"{quoted(self.source_alias)}.{name}"

    def _UnresolvedFunction(self, node: Any) -> str:
        name, values = str(node._name), [self._text(a) for a in node._args]
        if name == "struct":  # as a keyword, whose arguments may have names
            names = [f" AS {quoted(a._alias[0])}" if type(a).__name__ == "ColumnAlias" else "" for a in node._args]
            return f"struct({', '.join(map(str.__add__, values, names))})"
        if name in _OPERATORS and len(values) == 2:
            return f"({values[0]} {_OPERATORS[name]} {values[1]})"
        if name == "in":
            return f"({values[0]} IN ({', '.join(values[1:])}))"
        if name == "when":
            whens = "".join(f" WHEN {c} THEN {v}" for c, v in zip(values[::2], values[1::2], strict=False))
            return f"(CASE{whens}{f' ELSE {values[-1]}' if len(values) % 2 else ''} END)"
        return f"{quoted(name)}({'DISTINCT ' if node._is_distinct else ''}{', '.join(values)})"

    def _CallFunction(self, node: Any) -> str:
        return f"{_dotted(str(node._name))}({', '.join(self._text(a) for a in node._args)})"

    def _CaseWhen(self, node: Any) -> str:
        whens = "".join(f" WHEN {self._text(c)} THEN {self._text(v)}" for c, v in node._branches)
        return f"(CASE{whens}{'' if node._else_value is None else f' ELSE {self._text(node._else_value)}'} END)"

    def _CastExpression(self, node: Any) -> str:
        wanted = node._data_type if isinstance(node._data_type, str) else node._data_type.simpleString()
        return f"{'TRY_CAST' if node._eval_mode == 'try' else 'CAST'}({self._text(node._expr)} AS {_braced(wanted)})"

    def _ColumnAlias(self, node: Any) -> str:
        return self._text(node._child)

    def _UnresolvedExtractValue(self, node: Any) -> str:
        return f"{self._text(node._child)}[{self._text(node._extraction)}]"

    def _LambdaFunction(self, node: Any) -> str:
        names = [self._text(a) for a in node._arguments]
        return f"{names[0] if len(names) == 1 else '(' + ', '.join(names) + ')'} -> {self._text(node._function)}"

    def _UnresolvedNamedLambdaVariable(self, node: Any) -> str:
        return quoted(".".join(node._name_parts))


def _plan_ids(plan: Any) -> Iterator[int]:
    """The ids by which columns name a plan and those below it."""
    yield int(plan._plan_id)
    yield int(plan._root_plan_id)
    for held in vars(plan).values():
        for below in held if isinstance(held, (list, tuple)) else [held]:
            if hasattr(below, "_root_plan_id"):
                yield from _plan_ids(below)


def _column(expression: Any) -> Column:
    """An expression of Connect as a Column."""
    from pyspark.sql.connect.column import Column as ClientColumn

    return ClientColumn(expression)


def _braced(text: str) -> str:
    """A text as PySpark's formatter of statements gives it back."""
    return text.replace("{", "{{").replace("}", "}}")


def quoted(name: str) -> str:
    """A name in back quotes, as PySpark's formatter of statements gives it back."""
    return _braced(quote(name))


def _dotted(name: str) -> str:
    return ".".join(quoted(part) for part in column_path(name))


def _as_rowlocks(error: PySparkException, table: str) -> BaseException:
    """The client's error, as one of Rowlock's class as well where the server's text begins with the name of one."""
    found = _NAMED.match(str(error))
    kind = getattr(exceptions, found[1], None) if found else None
    if not (isinstance(kind, type) and issubclass(kind, RowlockError)) or isinstance(error, RowlockError):
        return error
    vars(error).update(dict.fromkeys(_FIELDS) | {"table": table})
    error.__class__ = type(kind.__name__, (type(error), kind), {"__doc__": kind.__doc__, "__module__": kind.__module__})
    return error
