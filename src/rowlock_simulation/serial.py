"""What scripts do one after another: a plain interpreter over lists of rows, the measure of every schedule.

It knows no files, versions or deltas and shares nothing with the engine but the text's parser and
the evaluator of expressions.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rowlock.exceptions import ConstraintViolated, MultipleMatches
from rowlock_simulation.memory.sql.expressions import Relation, compile_expression
from rowlock_simulation.memory.sql.script import Append, Clause, Delete, Literals, Merge, Optimize, Overwrite, Script, Update

Row = dict[str, Any]
State = tuple[list[Row], tuple[str, ...], tuple[str, ...], frozenset[str], dict[str, int]]


@dataclass
class SerialTable:
    """Rows in no order, the columns that may not be null, the conditions that every new row must meet, and what columns get that are given no value."""

    columns: tuple[str, ...]
    not_null: frozenset[str] = frozenset()
    rows: list[Row] = field(default_factory=list)
    checks: tuple[str, ...] = ()
    defaults: dict[str, int] = field(default_factory=dict)
    generated: dict[str, str] = field(default_factory=dict)
    """The expression of each column that is computed from others, in every new row."""
    _changes: list[tuple[Row | None, Row | None]] = field(default_factory=list)
    inserting: list[int] = field(default_factory=list)
    """Which rows of its source the MERGE that `touched` was asked of would insert: two of them may look the same."""

    def run(self, *scripts: Script) -> None:
        """Runs the statements of one transaction; on an error the table stays as it was."""
        before = self.rows
        try:
            for script in scripts:
                self.rows = self._after(script)
        except Exception:
            self.rows = before
            raise

    def state(self) -> State:
        """What there is, to be brought back."""
        return list(self.rows), self.columns, self.checks, self.not_null, self.defaults

    def bring_back(self, state: State) -> None:
        """Rows, columns, conditions and defaults as they were."""
        self.rows, self.columns, self.checks, self.not_null, self.defaults = list(state[0]), *state[1:]

    def alter(self, verb: str, *names: str) -> None:
        """A change of the definition: `add`, `drop` and `rename` of a column; conditions that rows must meet are their own names."""
        match verb:
            case "add":
                self.rows = [{**row, names[0]: None} for row in self.rows]
                self.columns += names[:1]
            case "drop":
                self.rows = [{c: v for c, v in row.items() if c != names[0]} for row in self.rows]
                self.columns = tuple(c for c in self.columns if c != names[0])
                self.defaults = {c: value for c, value in self.defaults.items() if c != names[0]}
            case "rename":
                self.rows = [{names[1] if c == names[0] else c: v for c, v in row.items()} for row in self.rows]
                self.columns = tuple(names[1] if c == names[0] else c for c in self.columns)
                self.defaults = {names[1] if c == names[0] else c: value for c, value in self.defaults.items()}
            case "set default":
                self.defaults = {**self.defaults, names[0]: int(names[1])}
            case "drop default":
                self.defaults = {c: value for c, value in self.defaults.items() if c != names[0]}
            case "move":
                self.columns = tuple(c for before in self.columns if before != names[0] for c in ((before, *names) if before == "w" else (before,)))
            case "add constraint":
                self.checks += names[1:]
                self.rows = [self._new(row) for row in self.rows]
            case "set not null":
                self.not_null |= {names[0]}
                self.rows = [self._new(row) for row in self.rows]
            case "drop not null":
                self.not_null -= {names[0]}
            case "drop constraint":
                self.checks = tuple(c for c in self.checks if c != names[1])

    def touched(self, script: Script) -> list[tuple[Row | None, Row | None]]:
        """(old row, new row) of each row that a statement would change, None for one that is not there."""
        self._changes, self.inserting = [], []
        self._after(script)
        return self._changes

    def _after(self, script: Script) -> list[Row]:
        match script:
            case Update(assignments, where):
                return [self._set(row, assignments, row) if self._true(where, row) else row for row in self.rows]
            case Delete(where):
                return [row for row in self.rows if not (self._true(where, row) and self._changed(row, None))]
            case Append(rows):
                return self.rows + [self._whole(r) for r in rows]
            case Overwrite(rows, where):
                others = [row for row in self.rows if where and not (self._true(where, row) and self._changed(row, None))]
                if where is None:
                    self._changes += [(row, None) for row in self.rows]
                return others + [self._whole(r) for r in rows]
            case Merge():
                return self._merge(script)
            case Optimize():
                return list(self.rows)

    def _whole(self, given: Literals) -> Row:
        """A new row; columns that came since have their default, or are null."""
        row = self._new(dict.fromkeys(self.columns) | self.defaults | dict(zip(self.columns, given, strict=False)))
        self._changed(None, row)
        return row

    def _new(self, row: Row) -> Row:
        if self.generated:
            row = {**row, **{name: value_of(sql, row, None) for name, sql in self.generated.items()}}
        for name in self.not_null:
            if row[name] is None:
                raise ConstraintViolated(f"{name} is null")
        for sql in self.checks:
            if value_of(sql, row, None) is not True:
                raise ConstraintViolated(f"{sql} is not true of {row}")
        return row

    def _true(self, sql: str | None, target: Row | None, source: Row | None = None) -> bool:
        return sql is None or value_of(sql, target, source) is True

    def _set(self, row: Row, assignments: Iterable[tuple[str, str]], target: Row, source: Row | None = None) -> Row:
        new = {column.removeprefix("t."): value_of(sql, target, source) for column, sql in assignments}
        after = self._new({**row, **new})
        self._changed(row, after)
        return after

    def _changed(self, old: Row | None, new: Row | None) -> bool:
        self._changes.append((old, new))
        return True

    def _merge(self, merge: Merge) -> list[Row]:
        source = [dict(zip(merge.columns, r, strict=True)) for r in merge.rows]
        hits = [[n for n, s in enumerate(source) if value_of(merge.on, t, s) is True] for t in self.rows]
        matched = merge.of("matched")
        lenient = not matched or (len(matched) == 1 and matched[0].action == "delete" and matched[0].condition is None)
        if not lenient and any(len(h) > 1 for h in hits):
            raise MultipleMatches("several source rows match one target row")
        out = []
        for row, hit in zip(self.rows, hits, strict=True):
            after = self._matched(row, source[hit[0]], matched) if hit else self._matched(row, None, merge.of("not matched by source"))
            out += [] if after is None else [after]
        met = {n for hit in hits for n in hit}
        for n, row in enumerate(source):
            if n not in met and (new := self._inserted(row, merge.of("not matched"))) is not None:
                out.append(new)
                self.inserting.append(n)
        return out

    def _matched(self, row: Row, source: Row | None, clauses: Sequence[Clause]) -> Row | None:
        for clause in clauses:
            if not self._true(clause.condition, row, source):
                continue
            if clause.action == "delete":
                self._changed(row, None)
                return None
            assignments = clause.assignments or tuple((c, f"s.{c}") for c in self.columns)
            return self._set(row, assignments, row, source)
        return row

    def _inserted(self, source: Row, clauses: Sequence[Clause]) -> Row | None:
        for clause in clauses:
            if self._true(clause.condition, None, source):
                given = clause.assignments or tuple((c, f"s.{c}") for c in self.columns)
                values = {c: value_of(sql, None, source) for c, sql in given}
                new = self._new({c: values.get(c, self.defaults.get(c)) for c in self.columns})
                self._changed(None, new)
                return new
        return None


def value_of(sql: str, target: Row | None, source: Row | None = None) -> Any:
    """The value of an expression over a row of the table (t), a row of a source (s), or a pair of them."""
    rows = [row for row in (target, source) if row is not None]
    return _compiled(sql, target is not None, *map(tuple, rows))(rows)


@functools.lru_cache(maxsize=4096)
def _compiled(sql: str, has_target: bool, *columns: tuple[str, ...]) -> Callable[[Sequence[Row]], Any]:
    return compile_expression(sql, tuple(map(Relation, ("t", "s") if has_target else ("s",), columns)))


def bag(rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Rows without order, to be compared; each as a text that reads well in a failure."""
    return Counter(", ".join(f"{k}={v!r}" for k, v in row.items()) for row in rows)
