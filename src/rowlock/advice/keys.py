"""Which keys conflicts fall on, as far as the predicates in commitInfo tell.  Pure.

Predicates are other people's text: what does not read says nothing.  They are never used to decide what a
statement touches (a misread literal would be a lost update); they are only shown.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import orjson
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from rowlock.advice.history import History

_IDS = re.compile(r"#\d+L?")
_LISTED = 5
_MAX_TEXT = 2000


@dataclass(frozen=True, slots=True)
class Keys:
    """What conflicting statements ask of a column: the values that most of them name, and the span of all numbers.

    Without either, rows are joined by it, as a MERGE does.
    """

    column: str
    runs: int
    values: tuple[tuple[str, int], ...]
    low: float | None = None
    high: float | None = None


def hot_keys(history: History, limit: int = 8) -> list[Keys]:
    """Columns and values in the predicates of runs that met others, and of the winners that they met."""
    texts: list[str] = []
    for run in history.runs:
        if run.met:
            texts.append(run.predicate)
            texts += [w.predicate for m in run.met if (w := history.by_version.get(m.version)) is not None]
    runs: Counter[str] = Counter()
    values: dict[str, Counter[str]] = defaultdict(Counter)
    numbers: dict[str, list[float]] = defaultdict(list)
    for text, times in Counter(t for t in texts if t).items():
        named = list(comparisons(text))
        for column in {c for c, _, _ in named}:
            runs[column] += times
        for column, value, equal in set(named):
            if value is None:
                continue
            if equal:
                values[column][value] += times
            if (number := _number(value)) is not None:
                numbers[column].append(number)
    out = [
        Keys(
            c, n, tuple(sorted(values[c].items(), key=lambda item: (-item[1], item[0]))[:_LISTED]), min(numbers[c], default=None), max(numbers[c], default=None)
        )
        for c, n in runs.items()
    ]
    return sorted(out, key=lambda k: (-k.runs, k.column))[:limit]


def comparisons(predicate: str) -> Iterator[tuple[str, str | None, bool]]:
    """(column, literal, whether equality is asked) for each comparison of a column with a literal; nothing where the text does not read.

    The literal is None where rows of two sides are joined by columns of one name.
    """
    text = predicate.strip()[:_MAX_TEXT]
    if text.startswith("["):  # a JSON list, as Delta writes it
        text = _listed(text)
    if " WHERE " in text and text.split(None, 1)[0].upper() in ("UPDATE", "DELETE"):
        text = text.split(" WHERE ", 1)[1]
    text = _IDS.sub("", text).lstrip("'")
    try:
        tree = sqlglot.parse_one(text, dialect="spark")
    except (SqlglotError, RecursionError, ValueError, IndexError):
        return
    for node in tree.find_all(exp.EQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.In, exp.Between):
        column = _bare(node.this)
        if not isinstance(column, exp.Column):
            continue
        others = (
            node.expressions
            if isinstance(node, exp.In)
            else [node.args.get("low"), node.args.get("high")]
            if isinstance(node, exp.Between)
            else [node.expression]
        )
        for other in map(_bare, others):
            if isinstance(node, exp.EQ) and isinstance(other, exp.Column) and other.name == column.name and other.table != column.table:
                yield column.name, None, True
            elif (literal := _literal(other)) is not None:
                yield column.name, literal, isinstance(node, (exp.EQ, exp.In))


def _listed(text: str) -> str:
    try:
        return " AND ".join(part for part in orjson.loads(text) if isinstance(part, str))
    except orjson.JSONDecodeError:
        return text


def _bare(node: object) -> object:
    """Without the casts and brackets that Spark's own spelling has (`1L` is a cast as well)."""
    while isinstance(node, (exp.Cast, exp.Paren)):
        node = node.this
    return node


def _literal(node: object) -> str | None:
    if isinstance(node, exp.Literal):
        return str(node.this)
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        return f"-{node.this.this}"
    return None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < 1e300 else None
