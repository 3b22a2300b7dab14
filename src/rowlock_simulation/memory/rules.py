"""The payloads of statements for the in-memory engine: what UPDATE, DELETE, MERGE and append do to one row.

Pure functions over rows.  A rule does not know whether its row is staged, born or gone, which lets a delta pass through a
program (I3).  When several source rows may match one target row is decided as in Delta.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rowlock.exceptions import MultipleMatches
from rowlock_simulation.memory.sql.expressions import Evaluate, Row, Rows, Value, is_true

Outcome = tuple[bool, Row | None, tuple[str, ...]]
"""(whether the statement touched the row, the row after it or None where it is deleted, the columns that were set)."""


def _holds(condition: Evaluate | None, rows: Rows) -> bool:
    return condition is None or is_true(condition, rows)


@dataclass(frozen=True, slots=True)
class Change:
    """What is done to a row: new values for some columns, or (None) its deletion."""

    assignments: tuple[tuple[str, Evaluate], ...] | None

    def outcome(self, rows: Rows) -> Outcome:
        """The outcome for the first of `rows`; the others are the rows that expressions may also read."""
        return True, self.image(rows), tuple(column for column, _ in self.assignments or ())

    def image(self, rows: Rows) -> Row | None:
        """The first of `rows` after the change; all expressions read the row as it was before."""
        if self.assignments is None:
            return None
        new: dict[str, Value] = dict(rows[0])
        for column, value in self.assignments:
            new[column] = value(rows)
        return new


@dataclass(frozen=True, slots=True)
class RowRule:
    """An UPDATE or a DELETE."""

    condition: Evaluate | None
    change: Change

    def apply(self, row: Row) -> Outcome:
        """The outcome of the statement for one row."""
        return self.change.outcome((row,)) if _holds(self.condition, (row,)) else (False, row, ())


@dataclass(frozen=True, slots=True)
class MatchedRule:
    """One WHEN MATCHED clause, whose functions take (target, source), or WHEN NOT MATCHED BY SOURCE clause, whose functions take (target,)."""

    condition: Evaluate | None
    change: Change


@dataclass(frozen=True, slots=True)
class InsertRule:
    """One WHEN NOT MATCHED clause, whose functions take (source,).  Columns without a value are null."""

    condition: Evaluate | None
    values: tuple[tuple[str, Evaluate], ...]
    columns: tuple[str, ...]

    def image(self, source: Row) -> Row:
        """The row that a source row inserts."""
        given = {column: value((source,)) for column, value in self.values}
        return {column: given.get(column) for column in self.columns}


@dataclass(frozen=True, slots=True)
class MergeRule:
    """A MERGE with its source, whose rows were fixed when the statement was made."""

    source: tuple[Row, ...]
    on: Evaluate
    matched: tuple[MatchedRule, ...]
    not_matched: tuple[InsertRule, ...]
    by_source: tuple[MatchedRule, ...]

    @property
    def duplicates_allowed(self) -> bool:
        """Whether several source rows may match one target row: where no clause applies to matches, or only an unconditional DELETE."""
        only_deletes = len(self.matched) == 1 and self.matched[0].condition is None and self.matched[0].change.assignments is None
        return not self.matched or only_deletes

    def matches(self, row: Row) -> list[int]:
        """The numbers of the source rows that match under the whole ON condition."""
        return [j for j, source in enumerate(self.source) if is_true(self.on, (row, source))]

    def apply(self, row: Row) -> Outcome:
        """The outcome of the MERGE for one target row.  Raises MultipleMatches."""
        found = self.matches(row)
        if len(found) > 1 and not self.duplicates_allowed:
            raise MultipleMatches(f"The source rows {', '.join(map(str, found))} of the MERGE match one target row: {dict(row)}")
        rows: Rows = (row, self.source[found[0]]) if found else (row,)
        return _first(self.matched if found else self.by_source, rows)

    def insert(self, j: int) -> Row | None:
        """The row that source row `j` inserts while nothing matches it; None where no clause takes it."""
        source = self.source[j]
        return next((rule.image(source) for rule in self.not_matched if _holds(rule.condition, (source,))), None)


def _first(rules: Sequence[MatchedRule], rows: Rows) -> Outcome:
    """The outcome of the first clause whose condition holds; the row unchanged where none does."""
    for rule in rules:
        if _holds(rule.condition, rows):
            return rule.change.outcome(rows)
    return False, rows[0], ()


@dataclass(frozen=True, slots=True)
class NewRows:
    """An append."""

    rows: tuple[Row, ...]


Rule = RowRule | MergeRule | NewRows | None
"""The payload of a statement; None for a move."""
