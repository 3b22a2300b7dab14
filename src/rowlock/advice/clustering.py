"""The columns to cluster a table by: those in the conditions of its statements, from the predicates in commitInfo.  Pure.

A statement reads the files whose bounds its condition does not exclude; clustered by the columns that it names, these are few.
Only the conditions of writers are known: no log records the queries of readers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from rowlock.advice.history import History
from rowlock.advice.keys import compared_paths
from rowlock.protocol.clustering import MOST_CURVE_COLUMNS

ENOUGH_STATEMENTS = 20
"""With fewer conditions than this, no keys are advised."""
_ALONE = 0.1
"""A column is worth a place among the keys if at least this share of the statements name it and none of the other keys,"""
_TOGETHER = 0.5
"""or if this share names it at all: each further key makes the others less selective."""
ColumnPath = tuple[str, ...]


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
    known = {tuple(part.lower() for part in key): key for key in history.layout.keys}
    texts = Counter(r.predicate for r in history.runs if r.predicate and not r.moves and not r.definition)
    named: Counter[ColumnPath] = Counter()
    joined: Counter[ColumnPath] = Counter()
    sets: Counter[frozenset[ColumnPath]] = Counter()
    for text, times in texts.items():
        used = [(key, literal) for path, literal, _ in compared_paths(text) if (key := _key(path, known)) is not None]
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
    lower = tuple(part.lower() for part in path)
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
