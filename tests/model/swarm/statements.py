"""Statements of a history, without an engine: their expressions are templates, written out for Spark on the real table, for Spark on the model and for DuckDB."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from model.swarm.values import literal


@dataclass(frozen=True)
class Expr:
    """SQL with columns as {role} ({t_role} and {s_role} in a MERGE) and literals as {0}, {1}, ...  `equal`: DuckDB means the same by it as Spark."""

    text: str
    literals: tuple[tuple[str, Any], ...] = ()
    equal: bool = True
    duck: str | None = None

    def sql(self, columns: Mapping[str, str], dialect: str = "spark") -> str:
        text = self.duck if dialect == "duckdb" and self.duck is not None else self.text
        return text.format(*(literal(kind, value, dialect) for kind, value in self.literals), **columns)

    def joined(self, word: str, other: Expr) -> Expr:
        def shifted(text: str) -> str:
            for n in reversed(range(len(other.literals))):
                text = text.replace(f"{{{n}}}", f"{{{n + len(self.literals)}}}")
            return text

        duck = None if self.duck is None and other.duck is None else f"({self.duck or self.text} {word} {shifted(other.duck or other.text)})"
        return Expr(f"({self.text} {word} {shifted(other.text)})", self.literals + other.literals, self.equal and other.equal, duck)

    def negated(self) -> Expr:
        return replace(self, text=f"NOT ({self.text})", duck=None if self.duck is None else f"NOT ({self.duck})")


Sets = tuple[tuple[str, Expr], ...]


@dataclass(frozen=True)
class Clause:
    """`sets` None: all columns of the source."""

    when: str
    action: str
    condition: Expr | None = None
    sets: Sets | None = ()


@dataclass(frozen=True)
class Step:
    """One statement.  `how`: by which engine or in which way; `rows`: what it brings, columns by role."""

    kind: str
    where: Expr | None = None
    sets: Sets = ()
    rows: pa.Table | None = None
    on: Expr | None = None
    clauses: tuple[Clause, ...] = ()
    how: str = ""
    more: tuple[Any, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.kind} {self.how}".strip()

    def expressions(self) -> list[Expr]:
        found = [self.where, self.on, *(e for _, e in self.sets)]
        for clause in self.clauses:
            found += [clause.condition, *(e for _, e in clause.sets or ())]
        return [e for e in found if e is not None]

    def shown(self, columns: Mapping[str, str]) -> str:
        """For people who read a failure."""
        parts = [self.label]
        parts += [f"ON {self.on.sql(columns)}"] if self.on else []
        parts += [f"SET {', '.join(f'{r} = {e.sql(columns)}' for r, e in self.sets)}"] if self.sets else []
        parts += [f"WHERE {self.where.sql(columns)}"] if self.where else []
        for c in self.clauses:
            sets = "*" if c.sets is None else ", ".join(f"{r} = {e.sql(columns)}" for r, e in c.sets)
            parts.append(f"WHEN {c.when}{' AND ' + c.condition.sql(columns) if c.condition else ''} THEN {c.action} {sets}")
        parts += [f"{self.rows.num_rows} rows"] if self.rows is not None else []
        parts += [str(self.more)] if self.more else []
        return " ".join(parts)


def role_columns(roles: Mapping[str, str], name_of: Mapping[str, str], aliases: tuple[str, ...] = ("", "t", "s")) -> dict[str, str]:
    """What the templates' columns are called: `name_of` gives a role's name as it is written in SQL."""
    out: dict[str, str] = {}
    for role in roles:
        for alias in aliases:
            head = f"{alias}_" if alias else ""
            name = f"{alias}.{name_of[role]}" if alias else name_of[role]
            out[head + role] = name
            if roles[role] == "struct":
                out |= {f"{head}{role}_{part}": f"{name}.{part}" for part in "ab"}
    return out
