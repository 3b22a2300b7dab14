"""Serial execution by DuckDB: an oracle that shares no code with Rowlock but the reading of scripts.

Expressions are translated from Spark's dialect to DuckDB's.  The two errors that a statement may
raise are asked for beforehand, for DuckDB's own differ: it takes several matches of one row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import sqlglot

from rowlock.exceptions import ConstraintViolated, MultipleMatches
from rowlock_simulation.memory.sql.script import Append, Clause, Delete, Literals, Merge, Optimize, Overwrite, Script, Update, render_value

_TYPES = {"long": "BIGINT", "integer": "INTEGER", "string": "VARCHAR", "boolean": "BOOLEAN"}


def _sql(expression: str) -> str:
    return sqlglot.transpile(expression, read="spark", write="duckdb")[0]


class DuckdbTable:
    """A table `t` in a database of its own. Columns are (name, Delta type)."""

    def __init__(self, columns: Sequence[tuple[str, str]], not_null: frozenset[str] = frozenset()) -> None:
        self._columns = tuple(name for name, _ in columns)
        self._db = duckdb.connect(":memory:", config={"threads": 1})
        self._types = dict(columns)
        parts = [f"{n} {_TYPES[t]}{' NOT NULL' if n in not_null else ''}" for n, t in columns]
        self._db.execute(f"CREATE TABLE t ({', '.join(parts)})")

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [dict(zip(self._columns, row, strict=True)) for row in self._db.execute("SELECT * FROM t").fetchall()]

    def close(self) -> None:
        self._db.close()

    def run(self, *scripts: Script) -> None:
        """One transaction. Raises MultipleMatches, ConstraintViolated."""
        self._db.execute("BEGIN")
        try:
            for script in scripts:
                self._run(script)
        except duckdb.ConstraintException as e:
            self._db.execute("ROLLBACK")
            raise ConstraintViolated(str(e)) from e
        except Exception:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def _run(self, script: Script) -> None:
        match script:
            case Update(assignments, where):
                self._db.execute(f"UPDATE t SET {_set(assignments)} {_where(where)}")
            case Delete(where):
                self._db.execute(f"DELETE FROM t {_where(where)}")
            case Append(rows):
                self._insert(rows)
            case Overwrite(rows, where):
                self._db.execute(f"DELETE FROM t {_where(where)}")
                self._insert(rows)
            case Merge():
                self._merge(script)
            case Optimize():
                pass

    def _insert(self, rows: Sequence[Literals]) -> None:
        if rows:
            self._db.execute(f"INSERT INTO t VALUES {_values(rows)}")

    def _merge(self, merge: Merge) -> None:
        types = {c.lower(): t for c, t in self._types.items()}
        columns = ", ".join(f"{c} {_TYPES[types.get(c.lower(), 'long')]}" for c in merge.columns)
        self._db.execute(f"CREATE OR REPLACE TEMP TABLE s ({columns})")
        if merge.rows:
            self._db.execute(f"INSERT INTO s VALUES {_values(merge.rows)}")
        matched = merge.of("matched")
        lenient = not matched or (len(matched) == 1 and matched[0].action == "delete" and matched[0].condition is None)
        on = _sql(merge.on)
        most = self._db.execute(f"SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM t JOIN s ON {on} GROUP BY t.rowid)").fetchone()
        assert most is not None
        if most[0] > 1 and not lenient:
            raise MultipleMatches("several source rows match one target row")
        self._db.execute(f"MERGE INTO t USING s ON {on} {' '.join(self._clause(c) for c in merge.clauses)}")

    def _clause(self, clause: Clause) -> str:
        head = f"WHEN {clause.when.upper()}" + (f" AND ({_sql(clause.condition)})" if clause.condition else "") + " THEN "
        assignments = clause.assignments or tuple((c, f"s.{c}") for c in self._columns)
        match clause.action:
            case "delete":
                return head + "DELETE"
            case "update" | "update all":
                return head + f"UPDATE SET {_set(assignments)}"
            case _:
                return head + f"INSERT ({', '.join(c for c, _ in assignments)}) VALUES ({', '.join(_sql(e) for _, e in assignments)})"


def _set(assignments: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{c} = {_sql(e)}" for c, e in assignments)


def _where(condition: str | None) -> str:
    return f"WHERE {_sql(condition)}" if condition else ""


def _values(rows: Sequence[Literals]) -> str:
    return ", ".join(f"({', '.join(map(render_value, row))})" for row in rows)


def types_of(columns: Sequence[str], types: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
    """Columns with their types; `long` where none is given."""
    return [(c, (types or {}).get(c, "long")) for c in columns]
