"""Passes a delta through a program, one statement after another: staging and every rebase (I3).

A statement sees two kinds of rows: rows of the table that no earlier statement has changed, and images, which earlier
statements made.  Each kind is evaluated separately; each output row inherits the origin of its input row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from rowlock.boundary.effects import Assigned, Effects, Kind, LostMatches, RowBlock, fresh_path
from rowlock.boundary.engine import Program, Statement
from rowlock.boundary.provenance import Counts, Numbers, Origin, Provenance, SourceNumbers, StoredCounts, count, counted, union_by_path
from rowlock.conflict.delta import Slice, minus
from rowlock.engines.spark.driver_rows import Found, Ways
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.statements import compaction, row_statements
from rowlock.engines.spark.statements.merge import MergeRun, Outcome
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.blocks import StagedRows, keep_rows, living_positions, logical
from rowlock.protocol.actions import AddFile
from rowlock.protocol.deletion_vector import bitmap_to_numpy


@dataclass(slots=True)
class Group:
    """Rows that a statement is evaluated over together: rows of the table (`kind` None), or images of one kind and statement."""

    kind: Kind | None
    statement: int
    slices: list[Slice] = field(default_factory=list)
    local: list[Found] = field(default_factory=list)
    places: dict[str, tuple[int, npt.NDArray[np.int64], int]] = field(default_factory=dict)
    """For each path of an image (or the token in place of one): the number of its block, its live positions, and the row number in the block of the first."""

    def add(self, number: int, block: RowBlock[StagedRows], snapshot: Snapshot) -> None:
        """Adds the rows of block `number`; rows on the driver get a token in place of a path."""
        rows, start = block.payload, 0
        for table in rows.tables:
            token, every = f"\0image {number} {start}", np.arange(table.num_rows, dtype=np.int64)
            self.local.append((Slice(AddFile(token, {}, 0, 0, True, None)), logical(table, snapshot), every))
            self.places[token] = (number, every, start)
            start += table.num_rows
        for file in rows.files:
            living = living_positions(file, rows.dead)
            if len(living):
                self.slices.append(Slice(file, without=rows.dead.get(file.path)))
                self.places[file.path] = (number, living, start)
            start += len(living)


class Passage:
    """Passes one delta through one program.  `first`: the number of the first statement that is staged; None for a rebase."""

    def __init__(self, evaluator: Evaluator, program: Program, staged: Effects, snapshot: Snapshot, lost_matches: LostMatches, first: int | None) -> None:
        self.evaluator, self.program, self.snapshot = evaluator, program, snapshot
        self._staged, self._lost_matches, self._first = staged, lost_matches, first
        self.tombstones: dict[str, BitMap64] = {}
        self.images: list[RowBlock] = [] if first is None else [b for b in staged.blocks if b.kind != "matched"]
        self.matched: list[RowBlock] = []
        self.counts: dict[int, Counts | StoredCounts] = {}
        self.assigned: list[Assigned] = []
        self.rows = {"updated": 0, "deleted": 0, "inserted": 0}
        self.ways = Ways(evaluator)
        self._born: list[Slice] = []

    def run(self, born: Sequence[Slice]) -> None:
        """Runs the statements over the rows of `born`; the results are in the attributes.  Raises MultipleMatches, ConstraintViolated."""
        self._born = list(born)
        for index, statement in enumerate(self.program):
            if index < (self._first or 0):
                continue
            if statement.kind == "append":
                self.images += [replace(b, statement=index) for b in statement.payload] if self._first is not None else []
            elif statement.kind == "move":
                self._move(index, statement)
            elif statement.kind == "merge":
                self._merge(index, statement)
            else:
                self._change(index, statement)

    def _move(self, index: int, statement: Statement) -> None:
        if self._first is not None:
            tombstones, blocks = compaction.run(self.evaluator, statement.only, statement.payload, self._born, self.snapshot, index)
            self._apply(index, [(Group(None, index), Outcome(tombstones, blocks))])

    def _change(self, index: int, statement: Statement) -> None:
        done = []
        for group in self._groups():
            tombstones, blocks = row_statements.run(self.evaluator, statement.payload, group.slices, self.snapshot, index, group.local, ways=self.ways)
            done.append((group, Outcome(tombstones, blocks, assigned=[Assigned(statement.sets, b.provenance) for b in blocks if b.provenance is not None])))
        self._apply(index, done)

    def _merge(self, index: int, statement: Statement) -> None:
        run = MergeRun(self.evaluator, statement.payload, self.snapshot, index, self.ways)
        groups = self._groups()
        alone = self._first is not None and len(groups) == 1 and groups[0].kind is None
        done = [(group, run.over(group.slices, group.local, everything=alone)) for group in groups]
        if alone and (inserted := done[0][1].inserted) is not None:
            self.counts[index] = StoredCounts(run.plan.source.num_rows, tuple(numbers for _, numbers in done[0][1].matches))
        else:
            inserted = run.inserts(self._unmatched(index, run.plan.source.num_rows, [n for _, o in done for _, n in o.matches]))
        self._apply(index, done)
        self.rows["inserted"] += sum(b.num_rows for b in inserted)
        self.images += inserted

    def _unmatched(self, index: int, num_rows: int, matches: Sequence[SourceNumbers]) -> Numbers:
        """The numbers of the source rows that now insert: without a match, and in a rebase with one before.  Counts the matches after the delta."""
        staged = self._staged.counts.get(index) if self._first is None else None
        lost = self._lost_matches.of(index, self.counts) if staged is not None else None
        if staged is not None and lost is None and not any(n.num_rows for n in matches):
            return np.empty(0, np.int64)
        before = None if staged is None else counted(staged)
        counts = np.zeros(num_rows, np.int64) if before is None else before.copy()
        if lost is not None:
            counts -= lost
        for numbers in matches:
            count(numbers, counts)
        self.counts[index] = counts
        return np.flatnonzero(counts == 0) if before is None else np.flatnonzero((before > 0) & (counts == 0))

    # ---- rows and images -------------------------------------------------------------------

    def _groups(self) -> list[Group]:
        """The rows that the next statement sees: rows of the table first, then images by kind and statement."""
        table = Group(None, -1, list(self._born))
        groups: dict[tuple[str, int], Group] = {}
        for number, block in enumerate(self.images):
            group = groups.setdefault((block.kind, block.statement if block.kind != "derived" else -1), Group(block.kind, block.statement))
            group.add(number, block, self.snapshot)
        return [*([table] if self._born else []), *groups.values()]

    def _apply(self, index: int, done: Sequence[tuple[Group, Outcome]]) -> None:
        """Applies what a statement did to each group: removes rows that it deleted or replaced, adds the images that it made."""
        new: list[RowBlock] = []
        removed: dict[int, npt.NDArray[np.bool_]] = {}
        for group, outcome in done:
            if group.kind is None:
                self.tombstones = union_by_path(self.tombstones, outcome.tombstones)
                if len(self.program) > 1:  # later statements do not see these rows
                    self._born = [minus(s, outcome.tombstones.get(s.path)) for s in self._born]
            else:
                self._unstage(group, outcome.tombstones, removed)
            new += [self._as_images(b, group) for b in outcome.blocks]
            updated = sum(b.num_rows for b in outcome.blocks)
            self.rows["updated"] += updated
            self.rows["deleted"] += sum(len(t) for t in outcome.tombstones.values()) - updated
            if group.kind in (None, "derived"):
                self.assigned += [Assigned(a.columns, self._origin(a.origin, group)) for a in outcome.assigned if a.origin.num_rows]
            if group.kind != "appended":
                self.matched += [RowBlock("matched", index, n.num_rows, 8 * n.num_rows, n, self._origin(o, group)) for o, n in outcome.matches if n.num_rows]
        images = []
        for number, block in enumerate(self.images):
            if number not in removed:
                images.append(block)
            elif not removed[number].all():
                images.append(keep_rows(block, ~removed[number], addresses(block)))
        self.images = images + new

    def _unstage(self, group: Group, tombstones: Mapping[str, BitMap64], removed: dict[int, npt.NDArray[np.bool_]]) -> None:
        """Marks images that a statement deleted or replaced in `removed`, by the number of their block."""
        for path, positions in tombstones.items():
            number, living, start = group.places[path]
            mask = removed.setdefault(number, np.zeros(self.images[number].num_rows, dtype=np.bool_))
            mask[start + np.searchsorted(living, bitmap_to_numpy(positions))] = True

    def _as_images(self, block: RowBlock, group: Group) -> RowBlock:
        """A block that a statement made, with the kind, statement and origin of the images it was made from."""
        if group.kind is None:
            return block
        assert block.provenance is not None
        return replace(block, kind=group.kind, statement=group.statement, provenance=self._origin(block.provenance, group))

    def _origin(self, origin: Origin, group: Group) -> Origin:
        """The addresses that images stand for, from the addresses that they had while the statement ran."""
        if group.kind is None:
            return origin
        found = origin.loaded()
        names: list[str] = []
        files, positions = np.zeros(len(found.file), np.int32), np.zeros(len(found.file), np.int64)
        for path, at in found.by_path():
            number, living, start = group.places[path]
            before = addresses(self.images[number]).loaded()
            ordinals = start + np.searchsorted(living, found.position[at])
            files[at] = before.file[ordinals] + len(names)
            positions[at] = before.position[ordinals]
            names += before.paths
        return _with_unique_paths(Provenance(tuple(names), files, positions))


def addresses(block: RowBlock) -> Origin:
    """The addresses that the rows of a block stand for; an appended row stands for itself."""
    if block.provenance is not None:
        return block.provenance
    return Provenance((fresh_path(block.statement),), np.zeros(block.num_rows, np.int32), np.arange(block.num_rows, dtype=np.int64))


def _with_unique_paths(origin: Provenance) -> Provenance:
    """The origin with each path listed once."""
    index: dict[str, int] = {}
    codes = np.array([index.setdefault(p, len(index)) for p in origin.paths], dtype=np.int32)
    return Provenance(tuple(index), codes[origin.file] if len(origin.file) else origin.file, origin.position)
