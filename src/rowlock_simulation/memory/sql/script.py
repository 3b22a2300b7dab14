"""Parses a small SQL-like language of statements for tests and simulations.

The same script runs in memory, on Spark and in a serial interpreter:

    UPDATE SET v = v + 1, w = 0 WHERE k = 3
    DELETE WHERE v IS NULL
    MERGE USING (k, v: (1, 10), (2, NULL)) ON t.k = s.k
      WHEN MATCHED AND t.v < s.v THEN UPDATE SET v = s.v
      WHEN MATCHED THEN DELETE
      WHEN NOT MATCHED THEN INSERT *
      WHEN NOT MATCHED BY SOURCE AND t.v = 0 THEN UPDATE SET v = t.v + 1
    APPEND (1, 10), (2, NULL)          values in the order of the table's columns
    OVERWRITE (1, 10) WHERE k < 3      without a condition all rows are replaced
    OPTIMIZE

In a MERGE the alias of the target is `t`, that of the source `s`; `UPDATE SET *` and `INSERT *` need every column of the
target in the source.  Expressions stay text here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from rowlock.exceptions import InvalidInput

Literals = tuple[int | str | bool | None, ...]
Assignments = tuple[tuple[str, str], ...]
When = Literal["matched", "not matched", "not matched by source"]
Action = Literal["update", "update all", "delete", "insert", "insert all"]


@dataclass(frozen=True, slots=True)
class Update:
    """UPDATE SET ... [WHERE ...]; assignments are (column, expression)."""

    assignments: Assignments
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """DELETE [WHERE ...]."""

    where: str | None = None


@dataclass(frozen=True, slots=True)
class Clause:
    """One WHEN clause of a MERGE; `assignments` are (column, expression), for an insert too."""

    when: When
    action: Action
    condition: str | None = None
    assignments: Assignments = ()


@dataclass(frozen=True, slots=True)
class Merge:
    """MERGE with its source as literal rows."""

    columns: tuple[str, ...]
    rows: tuple[Literals, ...]
    on: str
    clauses: tuple[Clause, ...]

    def of(self, when: When) -> tuple[Clause, ...]:
        """The clauses of one kind, in order."""
        return tuple(c for c in self.clauses if c.when == when)


@dataclass(frozen=True, slots=True)
class Append:
    """Adds rows, with values in the order of the table's columns."""

    rows: tuple[Literals, ...]


@dataclass(frozen=True, slots=True)
class Overwrite:
    """Replaces all rows, or those for which `where` is true (replaceWhere), by `rows`."""

    rows: tuple[Literals, ...]
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Optimize:
    """Rewrites the files of each partition into one."""


Script = Update | Delete | Merge | Append | Overwrite | Optimize


def parse(text: str) -> Script:
    """Parses one statement.  Raises InvalidInput."""
    text = " ".join(text.split())
    word = text.split(" ", 1)[0].upper()
    reader = _READERS.get(word)
    if reader is None:
        raise InvalidInput(f"{text!r} is not a statement: it must begin with {', '.join(_READERS)}")
    return reader(text[len(word) :].strip())


def render(script: Script) -> str:
    """The text of a script; `parse(render(x)) == x`."""
    match script:
        case Update(assignments, where):
            return f"UPDATE SET {_render_assignments(assignments)}" + (f" WHERE {where}" if where else "")
        case Delete(where):
            return "DELETE" + (f" WHERE {where}" if where else "")
        case Append(rows):
            return f"APPEND {_render_rows(rows)}".strip()
        case Overwrite(rows, where):
            return f"OVERWRITE {_render_rows(rows)}".strip() + (f" WHERE {where}" if where else "")
        case Merge(columns, rows, on, clauses):
            head = f"MERGE USING ({', '.join(columns)}: {_render_rows(rows)}) ON {on}"
            return " ".join([head, *map(_render_clause, clauses)])
        case Optimize():
            return "OPTIMIZE"


def _render_assignments(assignments: Assignments) -> str:
    return ", ".join(f"{c} = {e}" for c, e in assignments)


def render_value(value: int | str | bool | None) -> str:
    """A literal as SQL."""
    return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value).upper()


def _render_rows(rows: tuple[Literals, ...]) -> str:
    return ", ".join(f"({', '.join(map(render_value, row))})" for row in rows)


def _render_clause(clause: Clause) -> str:
    head = f"WHEN {clause.when.upper()}" + (f" AND {clause.condition}" if clause.condition else "")
    match clause.action:
        case "update":
            return f"{head} THEN UPDATE SET {_render_assignments(clause.assignments)}"
        case "insert":
            names, values = ", ".join(c for c, _ in clause.assignments), ", ".join(e for _, e in clause.assignments)
            return f"{head} THEN INSERT ({names}) VALUES ({values})"
        case action:
            return f"{head} THEN {({'update all': 'UPDATE SET *', 'insert all': 'INSERT *'}).get(action, 'DELETE')}"


def _mask(text: str) -> str:
    """The text with blanks in place of all that is in quotes or parentheses, so that a search finds top-level words only."""
    out, depth, quote = [], 0, ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
            out.append(" ")
        elif char in "'\"`":
            quote = char
            out.append(" ")
        else:
            depth -= char == ")"
            out.append(char if depth == 0 else " ")
            depth += char == "("
    return "".join(out)


def _split(text: str, separator: str) -> list[str]:
    """Splits the text at a pattern, outside of quotes and parentheses."""
    parts, start = [], 0
    for found in re.finditer(separator, _mask(text), re.IGNORECASE):
        parts.append(text[start : found.start()].strip())
        start = found.end()
    return [*parts, text[start:].strip()]


def _assignments(text: str) -> Assignments:
    out = []
    for part in _split(text, ","):
        column, equals, expression = part.partition("=")
        if not equals:
            raise InvalidInput(f"{part!r} is not an assignment")
        out.append((column.strip(), expression.strip()))
    return tuple(out)


def _value(text: str) -> int | str | bool | None:
    upper = text.upper()
    if upper in _CONSTANTS:
        return _CONSTANTS[upper]
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    if re.fullmatch(r"'[^']*'", text):
        return text[1:-1]
    raise InvalidInput(f"{text!r} is not a literal")


_CONSTANTS: dict[str, bool | None] = {"NULL": None, "TRUE": True, "FALSE": False}


def parse_rows(text: str) -> tuple[Literals, ...]:
    """Parses rows such as "(1, 'a'), (2, NULL)"; an empty text has no rows.  Raises InvalidInput."""
    out = []
    for part in _split(text, ",") if text.strip() else []:
        if not (part.startswith("(") and part.endswith(")")):
            raise InvalidInput(f"{part!r} is not a row")
        out.append(tuple(_value(v) for v in _split(part[1:-1], ",")))
    return tuple(out)


def _update(text: str) -> Update:
    head, *where = _split(text, r"\bWHERE\b")
    if not head.upper().startswith("SET ") or len(where) > 1:
        raise InvalidInput(f"UPDATE {text!r}: SET ... [WHERE ...] is expected")
    return Update(_assignments(head[4:]), where[0] if where else None)


def _delete(text: str) -> Delete:
    head, *where = _split(text, r"\bWHERE\b")
    if head or len(where) > 1:
        raise InvalidInput(f"DELETE {text!r}: [WHERE ...] is expected")
    return Delete(where[0] if where else None)


def _overwrite(text: str) -> Overwrite:
    head, *where = _split(text, r"\bWHERE\b")
    if len(where) > 1:
        raise InvalidInput(f"OVERWRITE {text!r}: (rows) [WHERE ...] is expected")
    return Overwrite(parse_rows(head), where[0] if where else None)


def _merge(text: str) -> Merge:
    head, *clauses = _split(text, r"\bWHEN\b(?=\s+(NOT\s+)?MATCHED)")
    found = re.fullmatch(r"USING \((.*)\) ON (.*)", head, re.IGNORECASE)
    if not found or not clauses:
        raise InvalidInput(f"MERGE {text!r}: USING (columns: rows) ON ... WHEN ... is expected")
    columns, _, rows = found[1].partition(":")
    return Merge(tuple(c.strip() for c in columns.split(",")), parse_rows(rows.strip()), found[2], tuple(map(_clause, clauses)))


_CLAUSE = re.compile(r"(NOT MATCHED BY SOURCE|NOT MATCHED|MATCHED)( AND (?P<condition>.*))?", re.IGNORECASE)


def _clause(text: str) -> Clause:
    parts = _split(text, r"\bTHEN\b(?=\s+(UPDATE|DELETE|INSERT)\b)")
    head = _CLAUSE.fullmatch(parts[0])
    if len(parts) != 2 or not head:
        raise InvalidInput(f"WHEN {text!r} is not a clause of a MERGE")
    when: When = head[1].lower()  # type: ignore[assignment]
    action = parts[1]
    upper = action.upper()
    if upper == "DELETE":
        return Clause(when, "delete", head["condition"])
    if upper in ("UPDATE SET *", "INSERT *"):
        return Clause(when, "update all" if upper.startswith("U") else "insert all", head["condition"])
    if upper.startswith("UPDATE SET "):
        return Clause(when, "update", head["condition"], _assignments(action[11:]))
    insert = re.fullmatch(r"INSERT \((.*)\) VALUES \((.*)\)", action, re.IGNORECASE)
    if not insert:
        raise InvalidInput(f"THEN {action!r} is not an action of a MERGE")
    names, values = [c.strip() for c in insert[1].split(",")], _split(insert[2], ",")
    return Clause(when, "insert", head["condition"], tuple(zip(names, values, strict=True)))


def _optimize(text: str) -> Optimize:
    if text:
        raise InvalidInput(f"OPTIMIZE takes nothing more: {text!r}")
    return Optimize()


_READERS: dict[str, Callable[[str], Script]] = {
    "UPDATE": _update,
    "DELETE": _delete,
    "MERGE": _merge,
    "APPEND": lambda text: Append(parse_rows(text)),
    "OVERWRITE": _overwrite,
    "OPTIMIZE": _optimize,
}
