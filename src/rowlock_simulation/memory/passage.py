"""Passes a delta through a program, one statement after another: the composition rule of staging and rebase (I3).

Gone rows are passed as the program had left them, born rows as it leaves them now.  At each MERGE both change the match
counts: a source row whose count reaches zero inserts a row, which is born for the next statements; one whose count leaves
zero takes its insert back, which is gone for them.  Staging is the same with nothing gone and no insert decided before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from pyroaring import BitMap64

from rowlock.boundary.engine import Program
from rowlock.boundary.provenance import Counts
from rowlock_simulation.memory.rules import MergeRule, NewRows, RowRule
from rowlock_simulation.memory.sql.expressions import Row

Address = tuple[str | int, int]
"""(path, position) of a row of the table, or (statement, number) of a row that a statement inserted or appended."""


@dataclass(frozen=True, slots=True)
class Image:
    """A born row as the statements so far have left it, whether they touched it, and the columns that they set."""

    row: Row
    touched: bool
    sets: frozenset[str] = frozenset()


class Passage:
    """Passes one delta through one program.

    first         staging: the number of the first statement to run; None: a rebase of the whole program
    check         is called with every image that a statement makes, and raises where it violates a constraint
    lost          for each MERGE whose matches were stored: what its match counts lose with the gone rows, which `run`
                  then need not be given
    lost_matches  after `run`, for each MERGE: (address, number of the source row) for each born row of the table that matched
    """

    def __init__(
        self, program: Program, counts: Mapping[int, Counts], *, first: int | None, check: Callable[[Row], None], lost: Mapping[int, Counts] | None = None
    ) -> None:
        self._program, self._first, self._check, self._lost = program, first or 0, check, lost or {}
        self._staging = first is not None
        self.counts: dict[int, Counts] = {n: np.array(c, dtype=np.int64) for n, c in counts.items()}
        self.lost_matches: dict[int, list[tuple[Address, int]]] = {}
        self._gone: dict[Address, Row] = {}
        self._born: dict[Address, Image] = {}
        self._deleted: list[Address] = []

    def run(self, gone: Mapping[Address, Row], born: Mapping[Address, Row], images: Mapping[Address, Row]) -> None:
        """Runs the statements.  `images`: rows that earlier statements have staged.  Raises MultipleMatches, and what `check` raises."""
        self._gone = dict(gone)
        self._born = {address: Image(row, touched=False) for address, row in born.items()}
        self._born |= {address: Image(row, touched=True) for address, row in images.items()}
        for index, statement in enumerate(self._program):
            if index < self._first:
                continue
            rule = statement.payload
            if isinstance(rule, NewRows):
                self._append(index, rule)
            elif isinstance(rule, MergeRule):
                switched = self._count(index, rule)
                self._apply(rule)
                for j, inserts in switched:
                    self._switch_insert(index, rule, j, inserts)
            elif isinstance(rule, RowRule):
                self._apply(rule)

    def _append(self, index: int, rule: NewRows) -> None:
        """Adds appended rows; they enter when they are staged, and no rebase takes them back."""
        for number, row in enumerate(rule.rows if self._staging else ()):
            self._check(row)
            self._born[index, number] = Image(row, touched=True)

    def _count(self, index: int, rule: MergeRule) -> list[tuple[int, bool]]:
        """Updates the match counts of a MERGE; returns (source row, whether it inserts now) for each source row where that changed."""
        before = self.counts.get(index)
        after = np.zeros(len(rule.source), dtype=np.int64) if before is None else before.copy()
        for row in self._gone.values():
            after[rule.matches(row)] -= 1
        if index in self._lost:
            after -= self._lost[index]
        notes = self.lost_matches.setdefault(index, [])
        for address, image in self._born.items():
            found = rule.matches(image.row)
            after[found] += 1
            notes += [(address, j) for j in found if isinstance(address[0], str)]
        assert (after >= 0).all(), "more matches are gone than there were"
        self.counts[index] = after
        if self._staging:
            return [(int(j), True) for j in np.flatnonzero(after == 0)]
        assert before is not None, "a MERGE that was never staged"
        return [(int(j), bool(after[j] == 0)) for j in np.flatnonzero((before == 0) != (after == 0))]

    def _apply(self, rule: RowRule | MergeRule) -> None:
        """Applies a statement to every born and every gone row."""
        images: dict[Address, Image] = {}
        for address, image in self._born.items():
            touched, row, columns = rule.apply(image.row)
            if row is None:
                self._deleted.append(address)
                continue
            if touched:
                self._check(row)
            images[address] = Image(row, touched or image.touched, image.sets.union(columns))
        self._born = images
        left = {address: rule.apply(row)[1] for address, row in self._gone.items()}
        self._gone = {address: row for address, row in left.items() if row is not None}

    def _switch_insert(self, index: int, rule: MergeRule, j: int, inserts: bool) -> None:
        """Adds the insert of source row `j` to the born rows, or to the gone rows where it is taken back."""
        row = rule.insert(j)
        if row is None:
            return
        if inserts:
            self._check(row)
            self._born[index, j] = Image(row, touched=True)
        else:
            self._gone[index, j] = row

    def tombstones(self) -> dict[str, BitMap64]:
        """The positions of born rows of the table that the program deletes or replaces, by path."""
        out: dict[str, BitMap64] = {}
        changed = [*self._deleted, *(a for a, image in self._born.items() if image.touched)]
        for path, position in changed:
            if isinstance(path, str):
                out.setdefault(path, BitMap64()).add(position)
        return out

    def touched(self) -> Iterator[tuple[Address, Image]]:
        """The images that the transaction must add."""
        return ((address, image) for address, image in self._born.items() if image.touched)
