"""What a statement makes of one row: the payloads of statements for the in-memory engine.

Pure functions over rows.  A rule never knows whether its row is staged, born or gone; that is what
lets a delta pass through a program (I3).  The rule of several matches is Delta's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rowlock.engines.memory.sql.expressions import Evaluate, Row, Rows, Value, is_true
from rowlock.exceptions import MultipleMatches

Outcome = tuple[bool, Row | None, tuple[str, ...]]
"""(touched, image, columns that were set): the row after a statement, None where it is deleted."""


def _holds(condition: Evaluate | None, rows: Rows) -> bool:
    return condition is None or is_true(condition, rows)


@dataclass(frozen=True, slots=True)
class Change:
    """What happens to a row: new values for some columns, or (None) its end."""

    assignments: tuple[tuple[str, Evaluate], ...] | None

    def outcome(self, rows: Rows) -> Outcome:
        return True, self.image(rows), tuple(column for column, _ in self.assignments or ())

    def image(self, rows: Rows) -> Row | None:
        """The new image of the first of `rows`; every right side sees the old one."""
        if self.assignments is None:
            return None
        new: dict[str, Value] = dict(rows[0])
        for column, value in self.assignments:
            new[column] = value(rows)
        return new


@dataclass(frozen=True, slots=True)
class RowRule:
    """UPDATE or DELETE."""

    condition: Evaluate | None
    change: Change

    def apply(self, row: Row) -> Outcome:
        return self.change.outcome((row,)) if _holds(self.condition, (row,)) else (False, row, ())


@dataclass(frozen=True, slots=True)
class MatchedRule:
    """One WHEN clause about target rows; its functions take (target, source), or (target,) by source."""

    condition: Evaluate | None
    change: Change


@dataclass(frozen=True, slots=True)
class InsertRule:
    """One WHEN NOT MATCHED clause; its functions take (source,). Columns without a value are null."""

    condition: Evaluate | None
    values: tuple[tuple[str, Evaluate], ...]
    columns: tuple[str, ...]

    def image(self, source: Row) -> Row:
        given = {column: value((source,)) for column, value in self.values}
        return {column: given.get(column) for column in self.columns}


@dataclass(frozen=True, slots=True)
class MergeRule:
    """MERGE over a source that was pinned when the statement was made."""

    source: tuple[Row, ...]
    on: Evaluate
    matched: tuple[MatchedRule, ...]
    not_matched: tuple[InsertRule, ...]
    by_source: tuple[MatchedRule, ...]

    @property
    def tolerates_several_matches(self) -> bool:
        """Delta's rule: harmless where nothing is done on a match, or every match just deletes."""
        only_deletes = len(self.matched) == 1 and self.matched[0].condition is None and self.matched[0].change.assignments is None
        return not self.matched or only_deletes

    def matches(self, row: Row) -> list[int]:
        """The numbers of the source rows that match under the whole ON condition."""
        return [j for j, source in enumerate(self.source) if is_true(self.on, (row, source))]

    def apply(self, row: Row) -> Outcome:
        """Raises MultipleMatches."""
        found = self.matches(row)
        if len(found) > 1 and not self.tolerates_several_matches:
            raise MultipleMatches(f"The source rows {', '.join(map(str, found))} of the MERGE match one target row: {dict(row)}")
        rows: Rows = (row, self.source[found[0]]) if found else (row,)
        return _first(self.matched if found else self.by_source, rows)

    def insert(self, j: int) -> Row | None:
        """The row that source row `j` inserts while nothing matches it; None where no clause takes it."""
        source = self.source[j]
        return next((rule.image(source) for rule in self.not_matched if _holds(rule.condition, (source,))), None)


def _first(rules: Sequence[MatchedRule], rows: Rows) -> Outcome:
    """The first clause that holds decides."""
    for rule in rules:
        if _holds(rule.condition, rows):
            return rule.change.outcome(rows)
    return False, rows[0], ()


@dataclass(frozen=True, slots=True)
class NewRows:
    """The payload of an append."""

    rows: tuple[Row, ...]


Rule = RowRule | MergeRule | NewRows | None
"""The payload of a statement; None for a move."""
