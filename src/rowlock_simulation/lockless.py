"""What lockless transactions come to (docs/lockless.md), by rules that know no files, vectors or row ids: rows have numbers of their own.

A transaction is carried out on the rows of the version that it read.  What that means (rows to add, rows to delete, cells to set) is then done to
the rows that the log has before it: a deleted row stays deleted, of a cell that two set the later one counts, and no condition is asked again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from rowlock_simulation.memory.sql.script import Script
from rowlock_simulation.serial import Row, SerialTable

NUMBER = "#"
"""Where a row holds its number, which it keeps as long as it lives."""


@dataclass
class NumberedTable(SerialTable):
    """Rows with numbers, and which cells statements have set."""

    numbers: Iterator[int] = field(default_factory=itertools.count)
    set_cells: dict[int, set[str]] = field(default_factory=dict)

    def _new(self, row: Row) -> Row:
        row = super()._new(row)
        return row if NUMBER in row else {**row, NUMBER: next(self.numbers)}

    def _set(self, row: Row, assignments: Iterable[tuple[str, str]], target: Row, source: Row | None = None) -> Row:
        assigned = list(assignments)
        self.set_cells.setdefault(row[NUMBER], set()).update(column.removeprefix("t.") for column, _ in assigned)
        return super()._set(row, assigned, target, source)

    def run_lockless(self, scripts: Iterable[Script], read: list[Row]) -> None:
        """Does to these rows what the scripts mean on the rows `read`."""
        private = NumberedTable(self.columns, self.not_null, list(read), self.checks, self.defaults, self.generated, numbers=self.numbers)
        private.run(*scripts)
        before, after = {row[NUMBER] for row in read}, {row[NUMBER]: row for row in private.rows}
        merged = []
        for row in self.rows:
            number = row[NUMBER]
            if number in after:
                cells = private.set_cells.get(number, set())
                merged.append({**row, **{column: after[number][column] for column in cells}})
            elif number not in before:
                merged.append(row)
        self.rows = [*merged, *(row for number, row in after.items() if number not in before)]
