"""Values of columns that a script does not give, added to it when it is planned, as real engines do: defaults and generated columns (I3).

A script is rewritten against one version of the table.  Where another writer changes a default, or what is generated, before it commits, it is planned anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import sqlglot
from sqlglot import exp

from rowlock.log.snapshot import Snapshot
from rowlock.protocol.column_values import Generated, constant, generated_columns
from rowlock.protocol.schema import StructField
from rowlock_simulation.memory.sql.expressions import Relation, compile_expression
from rowlock_simulation.memory.sql.script import Append, Assignments, Clause, Literals, Merge, Overwrite, Script, Update, render_value


def planned(script: Script, base: Snapshot) -> Script:
    """The script with a value for every column of the rows that it makes.  Rows that it appends may lack the last columns of the table."""
    generated = generated_columns(base.schema)
    match script:
        case Append(rows):
            return Append(tuple(_whole(row, base, generated) for row in rows))
        case Overwrite(rows, where):
            return Overwrite(tuple(_whole(row, base, generated) for row in rows), where)
        case Update(assignments, where):
            return Update((*assignments, *_computed(generated, dict(assignments), lambda name: name)), where)
        case Merge():
            return replace(script, clauses=tuple(_clause(clause, base, generated) for clause in script.clauses))
    return script


def _whole(row: Literals, base: Snapshot, generated: tuple[Generated, ...]) -> Literals:
    defaults = tuple(_default(field) for field in base.schema.fields[len(row) :])
    values = dict(zip(base.schema.names, (*row, *defaults), strict=True))
    scope = (Relation("t", base.schema.names),)
    return tuple((values | {g.name: compile_expression(g.expression, scope)((values,)) for g in generated}).values())


def _default(field: StructField) -> int | None:
    value = constant(field)
    assert value is None or type(value) is int, "the worlds' defaults are whole numbers"
    return value


def _clause(clause: Clause, base: Snapshot, generated: tuple[Generated, ...]) -> Clause:
    if clause.action == "update":
        assignments = {column.removeprefix("t."): sql for column, sql in clause.assignments}
        return replace(clause, assignments=(*clause.assignments, *_computed(generated, assignments, lambda name: f"t.{name}")))
    if clause.action == "insert":
        given = dict(clause.assignments)
        given |= {f.name: render_value(_default(f)) for f in base.schema.fields if f.name not in given}
        return replace(clause, assignments=tuple((given | dict(_computed(generated, given, lambda name: name))).items()))
    return clause


def _computed(generated: tuple[Generated, ...], assigned: Mapping[str, str], otherwise: Callable[[str], str]) -> Assignments:
    """The assignment of each generated column whose row gets these values; `otherwise` says what a column is that gets none."""

    def value(node: exp.Expr) -> exp.Expr:
        return sqlglot.parse_one(f"({assigned.get(node.name, otherwise(node.name))})") if isinstance(node, exp.Column) else node

    return tuple((g.name, sqlglot.parse_one(g.expression).transform(value).sql()) for g in generated)
