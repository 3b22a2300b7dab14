"""Rowlock on a Spark Connect session: what the server does for it, and what to use instead of what neither does.

Statements on rows run in the process that has Spark's JVM, which on a Connect session is the server: Rowlock on the client does not imitate Spark there (I9),
but sends UPDATE, DELETE and MERGE as the statement of SQL that says the same.
What needs only the table's log and its files works on every session.  docs/connect.md lists both.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar

from rowlock.api.handle import Handle
from rowlock.engines.spark.catalyst.types import Column, DataFrame
from rowlock.engines.spark.session.connect import ClientStatement
from rowlock.engines.spark.statements.merge_plan import Clause, Clauses
from rowlock.engines.spark.user_session import Session
from rowlock.exceptions import UnsupportedFeature

_SERVED = "on a server that `rowlock serve` started"
INSTEAD: Mapping[str, str] = {
    "rowlock.enable": "Start `rowlock serve` and connect to it: there every session has Rowlock",
    "rowlock.sql": f"Use spark.sql {_SERVED}",
    "rowlock.run": f"Use statements of spark.sql {_SERVED}, each of which is a transaction",
    "rowlock.transaction": f"Use statements of spark.sql {_SERVED}, each of which is a transaction on one table; several tables need a classic session",
    "rowlock.read_together": f"Use a classic session, or spark.sql {_SERVED} with VERSION AS OF",
    "rowlock.read": f'Use spark.read.format("delta").load(path) {_SERVED}, or rowlock.to_arrow',
    "rowlock.write": f'Use df.write.format("delta").save(path) {_SERVED}, or rowlock.append',
    "rowlock.changes": f"Use table_changes(...) in spark.sql {_SERVED}",
    "rowlock.streaming.read": f'Use spark.readStream.format("delta").load(path) {_SERVED}',
    "rowlock.streaming.sink": f'Use df.writeStream.format("delta").start(path) {_SERVED}',
    "DeltaTable.toDF": f'Use spark.read.format("delta").load(path) {_SERVED}, or rowlock.to_arrow',
    "DeltaTable.optimize": f"Use OPTIMIZE in spark.sql {_SERVED}",
    "DeltaTable.transaction": f"Use statements of spark.sql {_SERVED}, each of which is a transaction; several in one need a classic session",
    "DeltaTable.addConstraint": f"Use ALTER TABLE ... ADD CONSTRAINT in spark.sql {_SERVED}",
    "DeltaTable.setDefault": f"Use ALTER TABLE ... ALTER COLUMN ... SET DEFAULT in spark.sql {_SERVED}",
    "DeltaTable.syncIdentity": f"Use ALTER TABLE ... ALTER COLUMN ... SYNC IDENTITY in spark.sql {_SERVED}",
    "DeltaTable.convertToDelta": f"Use CONVERT TO DELTA in spark.sql {_SERVED}",
    **dict.fromkeys(
        (f"DeltaTable.{name}" for name in ("create", "createIfNotExists", "replace", "createOrReplace")),
        f"Use CREATE [OR REPLACE] TABLE in spark.sql {_SERVED}, or rowlock.append",
    ),
}
"""The calls that are refused on a Spark Connect session, each with what to use instead."""


def check_classic(session: Any, call: str) -> None:
    """Raises UnsupportedFeature where a session is one of Spark Connect; `call` is one of INSTEAD."""
    if Session(session).is_connect:
        raise UnsupportedFeature(f"{call} cannot work on a Spark Connect session, whose JVM is the server's. {INSTEAD[call]}", feature=call, access="write")


P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def classic(method: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
    """A method of a table that is refused on a Spark Connect session."""
    call = f"DeltaTable.{method.__name__}"

    @functools.wraps(method)
    def checked(self: T, /, *args: P.args, **named: P.kwargs) -> R:
        table: Any = self
        check_classic(table._handle.spark, call)
        return method(self, *args, **named)

    return checked


def delete(on: Handle, condition: str | Column | None, alias: str | None) -> None:
    """DELETE FROM, of the rows for which the condition is true or of all rows."""
    statement = ClientStatement(on.spark, on.path)
    statement.run(f"DELETE FROM {statement.target(alias)}{_where(statement, condition)}")


def update(on: Handle, condition: str | Column | None, assigned: Mapping[Any, str | Column], alias: str | None) -> None:
    """UPDATE of the rows for which the condition is true, or of all rows."""
    statement = ClientStatement(on.spark, on.path)
    statement.run(f"UPDATE {statement.target(alias)} SET {statement.assignments(assigned)}{_where(statement, condition)}")


def merge(on: Handle, source: DataFrame, condition: str | Column, clauses: Clauses, alias: str | None, *, evolves: bool) -> DataFrame:
    """MERGE INTO: the numbers of rows that it changed."""
    statement = ClientStatement(on.spark, on.path, source)
    parts = [
        f"MERGE {'WITH SCHEMA EVOLUTION ' if evolves else ''}INTO {statement.target(alias)}",
        f"USING {statement.source} ON {statement.expression(condition)}",
    ]
    for when, found in (("MATCHED", clauses.matched), ("NOT MATCHED", clauses.not_matched), ("NOT MATCHED BY SOURCE", clauses.not_matched_by_source)):
        parts += [_clause(statement, when, clause) for clause in found]
    return statement.run(" ".join(parts))


def _clause(statement: ClientStatement, when: str, clause: Clause) -> str:
    condition = "" if clause.condition is None else f" AND {statement.expression(clause.condition)}"
    return f"WHEN {when}{condition} THEN {_action(statement, clause)}"


def _action(statement: ClientStatement, clause: Clause) -> str:
    if clause.kind == "delete":
        return "DELETE"
    if clause.all_columns:
        return "INSERT *" if clause.kind == "insert" else "UPDATE SET *"
    values = clause.assignments or {}
    if clause.kind == "update":
        return f"UPDATE SET {statement.assignments(values)}"
    return f"INSERT ({', '.join(map(statement.column, values))}) VALUES ({', '.join(map(statement.value, values.values()))})"


def _where(statement: ClientStatement, condition: str | Column | None) -> str:
    return "" if condition is None else f" WHERE {statement.expression(condition)}"
