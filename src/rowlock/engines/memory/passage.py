"""A delta on its way through a program, one statement after another: the composition rule of a rebase (I3).

Rows that are gone carry what the program had made of them; rows that are born are what it now makes.
At each MERGE both change the match counts; an insert whose count leaves or reaches zero goes on into
the next statements, as gone or as born.  Staging is the same passage with no insert decided before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from pyroaring import BitMap64

from rowlock.boundary.effects import Counts
from rowlock.boundary.statements import Program
from rowlock.engines.memory.rules import MergeRule, NewRows, RowRule
from rowlock.engines.memory.sql.expressions import Row

Address = tuple[str | int, int]
"""(path, position) of a row of the table, or (statement, number) of a row that a statement brought."""


@dataclass(frozen=True, slots=True)
class Image:
    """A born row as the statements so far have left it, and the columns that they set."""

    row: Row
    touched: bool
    sets: frozenset[str] = frozenset()


class Passage:
    """One delta through one program.

    first   staging: the number of the first statement to run; None: a rebase of the whole program
    check   is asked about every image that a statement makes
    lost    for a MERGE whose matches were noted: what its counts lose with rows that are gone, which
            need then not be given to `run`
    notes   for each MERGE, the address of each born row of the table that it matched, and with what
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
        """`images`: rows that earlier statements have staged.  Raises MultipleMatches, and what `check` raises."""
        self._gone = dict(gone)
        self._born = {address: Image(row, touched=False) for address, row in born.items()}
        self._born |= {address: Image(row, touched=True) for address, row in images.items()}
        for index, statement in enumerate(self._program):
            if index < self._first:
                continue
            rule = statement.payload
            if isinstance(rule, NewRows):
                self._enter(index, rule)
            elif isinstance(rule, MergeRule):
                flips = self._count(index, rule)
                self._apply(rule)
                for j, back in flips:
                    self._flip(index, rule, j, back)
            elif isinstance(rule, RowRule):
                self._apply(rule)

    def _enter(self, index: int, rule: NewRows) -> None:
        """Appended rows enter once, when they are staged, and no delta takes them back."""
        for number, row in enumerate(rule.rows if self._staging else ()):
            self._check(row)
            self._born[index, number] = Image(row, touched=True)

    def _count(self, index: int, rule: MergeRule) -> list[tuple[int, bool]]:
        """Counts the matches anew; gives the source rows whose insert came to life (True) or died."""
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

    def _flip(self, index: int, rule: MergeRule, j: int, back: bool) -> None:
        row = rule.insert(j)
        if row is None:
            return
        if back:
            self._check(row)
            self._born[index, j] = Image(row, touched=True)
        else:
            self._gone[index, j] = row

    def tombstones(self) -> dict[str, BitMap64]:
        """The places of born rows of the table that are deleted or replaced."""
        out: dict[str, BitMap64] = {}
        changed = [*self._deleted, *(a for a, image in self._born.items() if image.touched)]
        for path, position in changed:
            if isinstance(path, str):
                out.setdefault(path, BitMap64()).add(position)
        return out

    def touched(self) -> Iterator[tuple[Address, Image]]:
        """The images that the transaction must add."""
        return ((address, image) for address, image in self._born.items() if image.touched)
