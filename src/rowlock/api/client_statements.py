"""UPDATE, DELETE and MERGE through a Spark Connect session: the server, which has the rows, carries out the statement of SQL that says the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rowlock.api.handle import Runner
from rowlock.engines.spark.catalyst.analysis import Expression
from rowlock.engines.spark.catalyst.types import DataFrame
from rowlock.engines.spark.session.connect import ClientStatement, quoted
from rowlock.engines.spark.statements.merge_plan import Clause, Clauses, check_clauses


def delete(on: Runner, condition: Expression | None, alias: str | None) -> None:
    """DELETE FROM, of the rows for which the condition is true or of all rows."""
    statement = ClientStatement(on.spark, on.path)
    statement.run(f"DELETE FROM {statement.target}{_named(alias)}{_where(statement, condition)}")


def update(on: Runner, condition: Expression | None, assigned: Mapping[Any, Expression], alias: str | None) -> None:
    """UPDATE of the rows for which the condition is true, or of all rows."""
    statement = ClientStatement(on.spark, on.path)
    statement.run(f"UPDATE {statement.target}{_named(alias)} SET {statement.assignments(assigned)}{_where(statement, condition)}")


def merge(on: Runner, source: DataFrame, condition: Expression, clauses: Clauses, alias: str | None, *, evolves: bool) -> DataFrame:
    """MERGE INTO: the numbers of rows that it changed."""
    check_clauses(clauses, on.path)
    statement = ClientStatement(on.spark, on.path, source)
    parts = [
        f"MERGE {'WITH SCHEMA EVOLUTION ' if evolves else ''}INTO {statement.target}{_named(alias)}",
        f"USING {{source}}{_named(statement.source_alias)} ON {statement.expression(condition)}",
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


def _named(alias: str | None) -> str:
    return "" if alias is None else f" AS {quoted(alias)}"


def _where(statement: ClientStatement, condition: Expression | None) -> str:
    return "" if condition is None else f" WHERE {statement.expression(condition)}"
