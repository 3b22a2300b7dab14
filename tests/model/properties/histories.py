"""Random histories: a table, a transaction, and the winners that commit before it, round by round.

Shared by the tests on every engine.  All statements are row-local and given as scripts; values are
small, so that rows meet often, and arithmetic is taken modulo 7.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from rowlock_simulation.memory.sql.script import Append, Clause, Delete, Merge, Optimize, Overwrite, Script, Update, render

COLUMNS = ("k", "v", "w", "p")
Rows = tuple[tuple[int | None, ...], ...]


@dataclass(frozen=True)
class History:
    """`rounds[0]` commits after the transaction was staged, each later one right before one of its puts."""

    not_null: frozenset[str]
    partitioned: bool
    vectors: bool
    files: tuple[Rows, ...]
    before: tuple[Script, ...]
    program: tuple[Script, ...]
    rounds: tuple[tuple[Script, ...], ...]

    def __repr__(self) -> str:
        """As a script, so that a counterexample reads as a schedule."""
        head = f"not null: {sorted(self.not_null)}; partitioned by p: {self.partitioned}; vectors: {self.vectors}"
        lines = [head, *(f"file     {f}" for f in self.files), *(f"before   {render(s)}" for s in self.before)]
        lines += [f"T        {render(s)}" for s in self.program]
        lines += [f"round {n}  {render(s)}" for n, scripts in enumerate(self.rounds) for s in scripts]
        return "\n    ".join(["", *lines])


_VALUES = (0, 1, 2, 3, 4, 5, None)
_ROW = st.sampled_from([(k, v, w, p) for k in (0, 1, 2, 3, 4, 5, None) for v in _VALUES for w in _VALUES for p in (0, 1, 2, None)])
_CHANCE = st.integers(0, 99)
_TARGET, _SOURCE, _BOTH, _BARE = ("t.",), ("s.",), ("t.", "s."), ("",)
_WORD = st.sampled_from(["AND", "OR"])


def _rows(low: int, high: int) -> st.SearchStrategy[Rows]:
    return st.lists(_ROW, min_size=low, max_size=high).map(tuple)


_SOME_ROWS, _FEW_ROWS, _SOURCE_ROWS, _FILE = _rows(1, 3), _rows(0, 3), _rows(1, 4), _rows(2, 5)


def _columns(aliases: tuple[str, ...]) -> list[str]:
    return [a + c for a in aliases for c in COLUMNS]


def _atoms(aliases: tuple[str, ...]) -> list[str]:
    """Conditions without AND, OR and NOT, listed so that one draw picks one; the first hold for most rows."""
    names = _columns(aliases)
    out = [f"{c} {op}" for c in names for op in ("<> 5", "< 5", ">= 1", "<> 2", ">= 2", "<= 3") for _ in range(5)]
    out += [f"{c} {op} {n}" for c in names for op in ("=", "<>", "<", "<=", ">", ">=") for n in range(6)]
    out += [f"{a} {op} {b}" for a in names for op in ("=", "<", ">", "<=>") for b in names]
    out += [f"{c} IS {word}NULL" for c in names for word in ("", "NOT ") for _ in range(8)]
    out += [f"{c} IN ({n}, {(n + step) % 6})" for c in names for n in range(6) for step in (1, 3)]
    return out + [f"{c} BETWEEN {low} AND {high}" for c in names for low in range(4) for high in range(2, 6)]


def _values(aliases: tuple[str, ...]) -> list[str]:
    """Right sides of assignments."""
    names = _columns(aliases)
    out = [f"({c} + {n}) % 7" for c in names for n in (1, 2, 3) for _ in range(3)] + [*names, *["NULL"] * 6]
    out += [str(n) for n in range(6) for _ in range(2)]
    out += [f"coalesce({c}, {n})" for c in names for n in (0, 4)]
    return out + [f"CASE WHEN {c} > 2 THEN {d} ELSE {n} END" for c in names for d in names for n in (1, 5)]


@functools.cache
def _atom(aliases: tuple[str, ...]) -> st.SearchStrategy[str]:
    return st.sampled_from(_atoms(aliases))


@functools.cache
def _value(aliases: tuple[str, ...]) -> st.SearchStrategy[str]:
    return st.sampled_from(_values(aliases))


def _deeper(inner: st.SearchStrategy[str], atom: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    both = st.tuples(inner, _WORD, inner).map(lambda parts: f"({' '.join(parts)})")
    return st.one_of(atom, atom, atom, both, inner.map(lambda p: f"NOT ({p})"))


@functools.cache
def predicates(aliases: tuple[str, ...], depth: int) -> st.SearchStrategy[str]:
    """Conditions with up to `depth` levels of AND, OR and NOT."""
    atom = _atom(aliases)
    return atom if depth == 0 else _deeper(predicates(aliases, depth - 1), atom)


@functools.cache
def _assignments(aliases: tuple[str, ...]) -> st.SearchStrategy[tuple[tuple[str, str], ...]]:
    one = st.tuples(st.sampled_from(COLUMNS), _value(aliases))
    return st.lists(one, min_size=1, max_size=2, unique_by=lambda a: a[0]).map(tuple)


_ONS = ("t.k = s.k",) * 6 + ("t.k <=> s.k", "t.k = s.k AND t.p = s.p", "t.p = s.p AND t.v > s.v", "t.k = s.k AND t.w < 3", "t.k = s.k OR t.v = s.w")
_ON = st.sampled_from(_ONS)
_COUNTS = st.sampled_from([(m, i, b) for m in range(4) for i in range(3) for b in (0, 0, 0, 1, 2) if m + i + b])


@st.composite
def merges(draw: Any) -> Merge:
    matched, inserts, others = draw(_COUNTS)
    clauses = [*_clauses(draw, "matched", matched), *_clauses(draw, "not matched", inserts), *_clauses(draw, "not matched by source", others)]
    return Merge(COLUMNS, draw(_SOURCE_ROWS), draw(_ON), tuple(clauses))


_SIDES: dict[str, tuple[str, ...]] = {"matched": _BOTH, "not matched": _SOURCE, "not matched by source": _TARGET}


def _clauses(draw: Any, when: Any, count: int) -> Iterator[Clause]:
    """Ordered clauses of one kind; only the last may have no condition."""
    for n in range(count):
        form = draw(_CHANCE)
        condition = None if n == count - 1 and form % 5 > 1 else draw(predicates(_SIDES[when], 1))
        yield _clause(draw, when, condition, form)


def _clause(draw: Any, when: Any, condition: str | None, form: int) -> Clause:
    aliases = _SIDES[when]
    if when == "not matched":
        if form < 50:
            return Clause(when, "insert all", condition)
        return Clause(when, "insert", condition, tuple((c, draw(_value(aliases))) for c in COLUMNS[: 1 + form % 4]))
    if form < 30:
        return Clause(when, "delete", condition)
    if form < 50 and when == "matched":
        return Clause(when, "update all", condition)
    return Clause(when, "update", condition, draw(_assignments(aliases)))


@functools.cache
def scripts(moves: bool = True) -> st.SearchStrategy[Script]:
    """Any statement; OPTIMIZE and OVERWRITE only with `moves`."""
    condition, assignments = predicates(_BARE, 2), _assignments(_BARE)
    update, delete = st.builds(Update, assignments, condition), st.builds(Delete, condition)
    all_rows = st.builds(Update, assignments)
    kinds: list[st.SearchStrategy[Any]] = [update] * 5 + [merges()] * 6 + [delete] * 3 + [all_rows] + [st.builds(Append, _SOME_ROWS)] * 2
    if moves:
        kinds += [st.just(Optimize())] * 2 + [st.builds(Overwrite, _FEW_ROWS)]
    return st.sampled_from(kinds).flatmap(lambda kind: kind)


_CONSTRAINTS = st.sampled_from([frozenset(c) for c in ((), (), (), ("w",), ("v",))])
_PROGRAM, _WINNERS = st.lists(scripts(moves=False), min_size=2, max_size=3), st.lists(scripts(), min_size=1, max_size=4)
_SEVERAL_FILES = st.lists(_FILE, min_size=1, max_size=3).map(tuple)
_FILES = st.sampled_from([_SEVERAL_FILES] * 11 + [st.just(())]).flatmap(lambda files: files)
_BEFORE = st.lists(scripts(), max_size=2).map(tuple)
_LAYOUT = st.sampled_from([(partitioned, vectors) for partitioned in (False, True) for vectors in (True, True, False)])
_CUTS = st.tuples(st.integers(0, 4), st.integers(0, 4)).map(sorted)


@st.composite
def histories(draw: Any, several_statements: bool = False) -> History:
    """1 to 4 winners over up to three rounds; with `several_statements` the program may have up to three."""
    program = draw(_PROGRAM) if several_statements and draw(_CHANCE) < 40 else [draw(scripts())]
    winners = draw(_WINNERS)
    edges = [0, *(min(c, len(winners)) for c in draw(_CUTS)), len(winners)]
    partitioned, vectors = draw(_LAYOUT)
    return History(
        not_null=draw(_CONSTRAINTS),
        partitioned=partitioned,
        vectors=vectors,
        files=draw(_FILES),
        before=draw(_BEFORE),
        program=tuple(program),
        rounds=tuple(tuple(winners[a:b]) for n, (a, b) in enumerate(itertools.pairwise(edges)) if n == 0 or a < b),
    )
