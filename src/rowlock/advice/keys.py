"""The columns and values in the conditions of statements, from the predicates in commitInfo; and the columns to cluster a table by, which follow from them.  Pure.

Predicates are text from any engine; those that cannot be parsed are ignored.  They are only shown to people, never
used to decide what a statement touches: a misread literal would be a lost update.

A statement reads the files whose bounds its condition does not exclude; clustered by the columns that it names, these are few.
Only the conditions of writers are known: no log records the queries of readers.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import orjson
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from rowlock.advice.history import History
from rowlock.protocol.clustering import MOST_CURVE_COLUMNS
from rowlock.protocol.schema import ColumnPath, lower_case

_IDS = re.compile(r"#\d+L?")
_LISTED = 5
_MAX_TEXT = 2000


@dataclass(frozen=True, slots=True)
class Keys:
    """How conflicting statements use a column: the most frequent values with their counts, and the range of all numbers.

    If both are empty, the column only joins rows, as in a MERGE condition.
    """

    column: str
    runs: int
    values: tuple[tuple[str, int], ...]
    low: float | None = None
    high: float | None = None


def hot_keys(history: History, limit: int = 8) -> list[Keys]:
    """The most frequent columns, with values, in the predicates of runs that had conflicts and of their winners."""
    texts: list[str] = []
    for run in history.runs:
        if run.met:
            texts.append(run.predicate)
            texts += [w.predicate for m in run.met if (w := history.by_version.get(m.version)) is not None]
    runs: Counter[str] = Counter()
    values: dict[str, Counter[str]] = defaultdict(Counter)
    numbers: dict[str, list[float]] = defaultdict(list)
    for text, times in Counter(t for t in texts if t).items():
        named = [(path[-1], literal, equal) for path, literal, equal in comparisons(text)]
        for column in {c for c, _, _ in named}:
            runs[column] += times
        for column, value, equal in set(named):
            if value is None:
                continue
            if equal:
                values[column][value] += times
            if (number := _number(value)) is not None:
                numbers[column].append(number)
    listed = {c: sorted(values[c].items(), key=lambda item: (-item[1], item[0]))[:_LISTED] for c in runs}
    out = [Keys(c, n, tuple(listed[c]), min(numbers[c], default=None), max(numbers[c], default=None)) for c, n in runs.items()]
    return sorted(out, key=lambda k: (-k.runs, k.column))[:limit]


def comparisons(predicate: str) -> Iterator[tuple[tuple[str, ...], str | None, bool]]:
    """Yields (column, literal, whether it is an equality) for each comparison of a column with a literal.

    A column is given by its whole path: the names of the table and of structs come before its own.
    The literal is None for an equality between columns of the same name on two sides of a join.  Yields nothing if
    the predicate cannot be parsed.
    """
    text = predicate.strip()[:_MAX_TEXT]
    if text.startswith("["):  # a JSON list, as Delta writes it
        text = _conjunction(text)
    if " WHERE " in text and text.split(None, 1)[0].upper() in ("UPDATE", "DELETE"):
        text = text.split(" WHERE ", 1)[1]
    text = _IDS.sub("", text).lstrip("'")
    try:
        tree = sqlglot.parse_one(text, dialect="spark")
    except (SqlglotError, RecursionError, ValueError, IndexError):
        return
    for node in tree.find_all(exp.EQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.In, exp.Between):
        column = _unwrapped(node.this)
        path = _path(column)
        if path is None:
            continue
        between = [node.args.get("low"), node.args.get("high")]
        others = node.expressions if isinstance(node, exp.In) else between if isinstance(node, exp.Between) else [node.expression]
        for other in map(_unwrapped, others):
            if isinstance(node, exp.EQ) and (joined := _path(other)) is not None and joined[-1] == path[-1] and joined != path:
                yield path, None, True
            elif (literal := _literal(other)) is not None:
                yield path, literal, isinstance(node, (exp.EQ, exp.In))


def _path(node: object) -> tuple[str, ...] | None:
    """The names of a column reference, outermost first; None for another expression."""
    return tuple(part.name for part in node.parts) if isinstance(node, (exp.Column, exp.Dot)) else None


def _conjunction(text: str) -> str:
    try:
        return " AND ".join(part for part in orjson.loads(text) if isinstance(part, str))
    except orjson.JSONDecodeError:
        return text


def _unwrapped(node: object) -> object:
    """The expression without the casts and parentheses that Spark puts into predicates (`1L` is parsed as a cast, too)."""
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


ENOUGH_STATEMENTS = 20
"""With fewer conditions than this, no keys are advised."""
_ALONE = 0.1
"""A column is worth a place among the keys if at least this share of the statements name it and none of the other keys,"""
_TOGETHER = 0.5
"""or if this share names it at all: each further key makes the others less selective."""


@dataclass(frozen=True, slots=True)
class AdvisedKeys:
    """The columns to cluster a table by, the most useful first, and how many statements name them.

    statements   the statements whose condition compares a column that could be a key
    named        by key, the statements that name it
    joined       by key, those of them in which it joins rows, as in a MERGE
    """

    keys: tuple[ColumnPath, ...]
    statements: int
    named: Mapping[ColumnPath, int]
    joined: Mapping[ColumnPath, int]


def advised_keys(history: History) -> AdvisedKeys:
    """The keys by the history's committed and failed statements; none where these are fewer than ENOUGH_STATEMENTS."""
    known = {lower_case(key): key for key in history.layout.keys}
    texts = Counter(r.predicate for r in history.runs if r.predicate and not r.moves and not r.definition)
    named: Counter[ColumnPath] = Counter()
    joined: Counter[ColumnPath] = Counter()
    sets: Counter[frozenset[ColumnPath]] = Counter()
    for text, times in texts.items():
        used = [(key, literal) for path, literal, _ in comparisons(text) if (key := _key(path, known)) is not None]
        columns = frozenset(key for key, _ in used)
        sets[columns] += times
        named.update(dict.fromkeys(columns, times))
        joined.update(dict.fromkeys({key for key, literal in used if literal is None}, times))
    del sets[frozenset()]
    statements = sum(sets.values())
    keys = _chosen(named, sets, statements) if statements >= ENOUGH_STATEMENTS else ()
    return AdvisedKeys(keys, statements, named, joined)


def _key(path: ColumnPath, known: Mapping[ColumnPath, ColumnPath]) -> ColumnPath | None:
    """The column that a reference means: as it is written, else without the name of a table before it."""
    lower = lower_case(path)
    return next((known[lower[n:]] for n in range(len(lower)) if lower[n:] in known), None)


def _chosen(named: Mapping[ColumnPath, int], sets: Mapping[frozenset[ColumnPath], int], statements: int) -> tuple[ColumnPath, ...]:
    """Columns, one after the other by how many statements name them and none of those before."""
    keys: list[ColumnPath] = []
    while len(keys) < min(MOST_CURVE_COLUMNS, len(named)):
        alone = {c: sum(n for columns, n in sets.items() if c in columns and not columns & set(keys)) for c in named if c not in keys}
        best = min(alone, key=lambda c: (-alone[c], -named[c], c))
        if alone[best] < _ALONE * statements:
            best = min(alone, key=lambda c: (-named[c], c))
            if named[best] < _TOGETHER * statements:
                break
        keys.append(best)
    return tuple(keys)
