"""MemoryEngine, the data plane of tests and simulations: keeps rows in memory, without Spark.

A full implementation of `boundary.engine.Engine`, not a stub: programs of any number of statements, match counts, deletion
vectors, copy on write, partitions, NOT NULL and CHECK (I3, I5).  It decides nothing about commits and writes only data files
that a commit may name (I10).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pyroaring import BitMap64

from rowlock import clock
from rowlock.boundary.effects import Assigned, Change, Effects, Kind, LostMatches, Propagated, RowBlock, StagedFile, fresh_path, fresh_statement
from rowlock.boundary.engine import Program
from rowlock.boundary.provenance import Mask, Provenance, counted, numbers_of
from rowlock.boundary.row_identity import Identities, columns_of, identities, preserved_identities
from rowlock.conflict.delta import Slice
from rowlock.exceptions import ConstraintViolated, InvalidInput, StatementRefused
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddCdcFile, AddFile
from rowlock.protocol.constraints import Check, checks_of
from rowlock.protocol.schema import StructType
from rowlock.storage.store import ObjectStore
from rowlock_simulation.memory.data_files import DataFiles, check_row
from rowlock_simulation.memory.passage import Address, Passage
from rowlock_simulation.memory.rules import MergeRule, NewRows
from rowlock_simulation.memory.sql.expressions import Evaluate, Relation, Row, compile_expression, is_true


@dataclass(frozen=True, slots=True)
class InMemory:
    """The payload of a block whose rows are in memory."""

    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class InFiles:
    """The payload of a block whose rows are in files already: for each row the index of its file and its position there."""

    files: tuple[AddFile, ...]
    place: tuple[tuple[int, int], ...]


class MemoryEngine:
    """The engine of one table.  The options select behaviour that real engines may have.

    spill_rows     blocks of at least so many rows are written to files as soon as they are made
    notes_matches  a MERGE stores its matches in `matched` blocks, so that a rebase reads no gone rows
    reorders       a compaction writes rows in another order than that of its inputs: backwards, or those of several files by turns
    within         the folder that its data files are in, below those of partitions
    takes_s        how long each run of statements over rows takes, in seconds
    """

    def __init__(
        self,
        store: ObjectStore,
        *,
        rows_per_file: int = 1_000_000,
        spill_rows: int | None = None,
        notes_matches: bool = False,
        reorders: bool = False,
        takes_s: float = 0.0,
        within: str = "",
    ) -> None:
        self.files = DataFiles(store, rows_per_file=rows_per_file, within=within)
        self._spill_rows, self._notes_matches, self._reorders = spill_rows, notes_matches, reorders
        self._takes_s = takes_s

    def propagate(
        self,
        program: Program,
        staged: Effects,
        gone: Sequence[Slice],
        born: Sequence[Slice],
        *,
        snapshot: Snapshot,
        lost_matches: LostMatches,
        first: int | None = None,
    ) -> Propagated:
        """Runs the program over the rows of a delta, statement by statement, and returns tombstones, new images and match counts."""
        if self._takes_s:
            clock.sleep(self._takes_s)
        schema = snapshot.schema
        if any(s.kind == "move" for s in program):
            return self._move(program, born, snapshot) if first is not None else Propagated({}, (), dict(staged.counts))
        counting = any(isinstance(s.payload, MergeRule) for s in program) and not self._notes_matches
        old = self._addressed(gone, schema) if counting else {}
        new = self._addressed(born, schema)
        lost = {
            n: found for n, s in enumerate(program) if isinstance(s.payload, MergeRule) and n in staged.counts and (found := lost_matches.of(n, {})) is not None
        }
        checks = compiled_checks(snapshot)
        passage = Passage(
            program, {n: counted(c) for n, c in staged.counts.items()}, first=first, check=lambda row: check_image(row, schema, checks), lost=lost
        )
        passage.run(old, new, self._images(staged.blocks, schema) if first is not None else {})
        blocks = self._blocks(program, passage, snapshot)
        sliced = (*(gone if old else ()), *born)
        return Propagated(
            passage.tombstones(),
            blocks,
            passage.counts,
            rows_read=len(old) + len(new),
            bytes_read=sum(s.file.size_bytes for s in sliced),
            assigned=_assigned(passage),
        )

    def _images(self, blocks: Sequence[RowBlock], schema: StructType) -> dict[Address, Row]:
        """The staged rows, by the addresses that they stand for."""
        out: dict[Address, Row] = {}
        for block in blocks:
            if block.kind == "matched":
                continue
            rows = self._rows(block, schema)
            if block.provenance is None:
                start = sum(1 for a in out if a[0] == block.statement)
                out |= {(block.statement, start + n): row for n, row in enumerate(rows)}
                continue
            origin = block.provenance.loaded()
            keys = [fresh if (fresh := fresh_statement(path)) is not None else path for path in origin.paths]
            out |= {(keys[f], int(p)): row for f, p, row in zip(origin.file, origin.position, rows, strict=True)}
        return out

    def _rows(self, block: RowBlock, schema: StructType) -> Sequence[Row]:
        payload = block.payload
        return payload.rows if isinstance(payload, InMemory) else [self.files.rows(payload.files[f], schema)[p] for f, p in payload.place]

    def _addressed(self, slices: Iterable[Slice], schema: StructType) -> dict[Address, Row]:
        """The rows of the slices, by their addresses."""
        return {(s.path, position): row for s in slices for position, row in self._live(s, schema)}

    def _live(self, slice_: Slice, schema: StructType) -> list[tuple[int, Row]]:
        """(position, row) for each row of a slice."""
        rows = self.files.rows(slice_.file, schema)
        positions = slice_.covers(BitMap64(range(len(rows)))) if slice_.only is not None or slice_.without else range(len(rows))
        return [(p, rows[p]) for p in positions]

    def _move(self, program: Program, born: Sequence[Slice], snapshot: Snapshot) -> Propagated:
        """Stages a compaction: one block for each group, with all live rows of its files."""
        by_path = {s.path: s for s in born}
        tombstones: dict[str, BitMap64] = {}
        blocks, read = [], 0
        for index, statement in enumerate(program):
            for group, members in enumerate(statement.only):
                rows = {(p, position): row for p in members if p in by_path for position, row in self._live(by_path[p], snapshot.schema)}
                if self._reorders:
                    rows = dict(sorted(rows.items(), key=lambda found: (found[0][1], found[0][0]), reverse=len(rows) % 2 == 0))
                for path, position in rows:
                    tombstones.setdefault(path, BitMap64()).add(position)
                read += len(rows)
                blocks.append(self._block("derived", index, list(rows.values()), _origin(list(rows)), snapshot, group, moved=True))
        return Propagated(tombstones, tuple(blocks), {}, rows_read=read, bytes_read=sum(s.file.size_bytes for s in born))

    def _blocks(self, program: Program, passage: Passage, snapshot: Snapshot) -> tuple[RowBlock, ...]:
        """The images that the statements made, as blocks: one of derived rows, one for the inserts of each MERGE, one for each append."""
        derived: dict[Address, Row] = {}
        fresh: dict[int, dict[int, Row]] = {}
        for address, image in passage.touched():
            if isinstance(address[0], str):
                derived[address] = image.row
            else:
                fresh.setdefault(address[0], {})[address[1]] = image.row
        blocks = []
        if derived:
            blocks.append(self._block("derived", len(program) - 1, list(derived.values()), _origin(list(derived)), snapshot))
        for index, rows in sorted(fresh.items()):
            appended = isinstance(program[index].payload, NewRows)
            origin = None if appended else _insert_origin(index, list(rows))
            blocks.append(self._block("appended" if appended else "inserted", index, list(rows.values()), origin, snapshot))
        if self._notes_matches:
            blocks += [_matched_block(index, pairs) for index, pairs in passage.lost_matches.items() if pairs]
        return tuple(blocks)

    def _block(
        self, kind: Kind, statement: int, rows: Sequence[Row], origin: Provenance | None, snapshot: Snapshot, group: int = 0, moved: bool = False
    ) -> RowBlock[InMemory | InFiles]:
        size = 16 * len(rows) * len(snapshot.schema.fields)
        block: RowBlock[InMemory | InFiles] = RowBlock(kind, statement, len(rows), size, InMemory(tuple(rows)), origin, group, moved)
        if self._spill_rows is not None and len(rows) >= max(1, self._spill_rows):
            return replace(block, payload=self._written(rows, snapshot, self._kept_by(block, snapshot)))
        return block

    def _kept_by(self, block: RowBlock, snapshot: Snapshot) -> Identities | None:
        """The ids and commit versions that the rows of a block keep; None where the table does not track rows."""
        columns = columns_of(snapshot)
        return None if columns is None else preserved_identities(block, snapshot, self.files.at(columns))

    def _written(self, rows: Sequence[Row], snapshot: Snapshot, kept: Identities | None) -> InFiles:
        """Writes the rows of a block to files."""
        written = self.files.write(rows, snapshot, kept)
        place = [(0, 0)] * len(rows)
        for index, (_, numbers) in enumerate(written):
            for position, number in enumerate(numbers):
                place[number] = (index, position)
        return InFiles(tuple(add for add, _ in written), tuple(place))

    def provenance(self, block: RowBlock) -> Provenance:
        """The file and position that each row of a derived or inserted block comes from."""
        assert block.provenance is not None, "appended rows have no provenance"
        return block.provenance.loaded()

    def keep(self, block: RowBlock, mask: Mask) -> RowBlock:
        """The block without the rows where `mask` is False."""
        kept = [bool(m) for m in mask]
        assert len(kept) == block.num_rows
        payload = block.payload
        if block.kind == "matched":
            payload = payload.take(mask)
        elif isinstance(payload, InMemory):
            payload = InMemory(tuple(row for row, k in zip(payload.rows, kept, strict=True) if k))
        else:
            payload = InFiles(payload.files, tuple(place for place, k in zip(payload.place, kept, strict=True) if k))
        origin = block.provenance.take(mask) if block.provenance is not None else None
        return replace(block, num_rows=sum(kept), payload=payload, provenance=origin)

    def write(self, blocks: Sequence[RowBlock], *, snapshot: Snapshot, vectors_allowed: bool) -> Sequence[StagedFile]:
        """Makes data files of blocks: rows in memory go into files together, except that each group of a compaction gets files of its own."""
        out: list[StagedFile] = []
        loose: dict[int, list[Row]] = {}
        kept: dict[int, list[Identities | None]] = {}
        for block in blocks:
            if block.kind == "matched":
                continue
            if isinstance(block.payload, InMemory):
                loose.setdefault(block.group, []).extend(block.payload.rows)
                kept.setdefault(block.group, []).append(self._kept_by(block, snapshot))
            else:
                out += [replace(s, group=block.group) for s in self._staged_files(block.payload, snapshot, vectors_allowed)]
        for group, rows in sorted(loose.items()):
            out += [StagedFile(add, group=group) for add, _ in self.files.write(rows, snapshot, _concatenated(kept[group]))]
        return out

    def _staged_files(self, payload: InFiles, snapshot: Snapshot, vectors_allowed: bool) -> list[StagedFile]:
        """The files of a block that was written early, without files of which no row is left."""
        live: dict[int, BitMap64] = {}
        for index, position in payload.place:
            live.setdefault(index, BitMap64()).add(position)
        out = []
        for index, alive in sorted(live.items()):
            add = payload.files[index]
            dead = BitMap64(range(self.files.count(add))) - alive
            if dead and not vectors_allowed:
                out += self._copy(Slice(add, only=alive), snapshot)
            else:
                out.append(StagedFile(add, dead or None))
        return out

    def copy(self, slices: Sequence[Slice], *, snapshot: Snapshot) -> Mapping[str, Sequence[StagedFile]]:
        """Copies the living rows of each slice into new files, with the row ids that they have."""
        return {s.path: self._copy(s, snapshot) for s in slices}

    def _copy(self, piece: Slice, snapshot: Snapshot) -> list[StagedFile]:
        """Writes the rows of a slice into new files, with the ids and commit versions that they keep."""
        living = self._live(piece, snapshot.schema)
        columns = columns_of(snapshot)
        origin = _origin([(piece.path, position) for position, _ in living])
        kept = None if columns is None else identities(origin, {piece.path: piece.file}, self.files.at(columns))
        return [StagedFile(add) for add, _ in self.files.write([row for _, row in living], snapshot, kept)]

    def row_ids(self, piece: Slice, snapshot: Snapshot) -> list[tuple[int, int]]:
        """(row id, commit version) of each row of a slice, in its order."""
        columns = columns_of(snapshot)
        assert columns is not None, "the table does not track its rows"
        origin = _origin([(piece.path, position) for position, _ in self._live(piece, snapshot.schema)])
        found = identities(origin, {piece.path: piece.file}, self.files.at(columns))
        return list(zip(found.ids.tolist(), found.commit_versions.tolist(), strict=True))

    def write_changes(self, changes: Sequence[Change], *, snapshot: Snapshot) -> Sequence[AddCdcFile]:
        """Makes the files of the change data feed, one for each change."""
        out: list[AddCdcFile] = []
        for change in changes:
            rows = [row for s in change.slices for _, row in self._live(s, snapshot.schema)] + [
                row for b in change.blocks for row in self._rows(b, snapshot.schema)
            ]
            out += self.files.write_changes(rows, change.type, snapshot)
        return out

    def adopt(self, block: RowBlock, *, before: Snapshot, after: Snapshot) -> RowBlock:
        """The block with the columns of `after`: columns are matched by physical name, new ones are null."""
        if not isinstance(block.payload, InMemory):
            return block
        names = {f.physical_name: f.name for f in before.schema.fields}
        places = [(f.name, names.get(f.physical_name)) for f in after.schema.fields]
        return replace(block, payload=InMemory(tuple({new: None if old is None else row[old] for new, old in places} for row in block.payload.rows)))

    def check(self, blocks: Sequence[RowBlock], *, snapshot: Snapshot) -> None:
        """Raises ConstraintViolated where a row of the blocks breaks NOT NULL or a CHECK constraint."""
        checks = compiled_checks(snapshot)
        for row in self._images(blocks, snapshot.schema).values():
            check_image(row, snapshot.schema, checks)

    def check_slices(self, slices: Sequence[Slice], *, snapshot: Snapshot) -> None:
        """Raises ConstraintViolated where a row of the slices breaks a constraint, StatementRefused where a constraint cannot be parsed."""
        try:
            checks = compiled_checks(snapshot)
        except InvalidInput as e:
            raise StatementRefused(f"A constraint cannot be asked of this table's rows: {e}", what="CHECK constraint") from e
        for piece in slices:
            for _, row in self._live(piece, snapshot.schema):
                check_image(row, snapshot.schema, checks)

    def count(self, file: AddFile) -> int:
        """The number of rows in a file, dead ones too."""
        return self.files.count(file)

    def differ(
        self, old: Sequence[Slice], before: Snapshot, new: Sequence[Slice], after: Snapshot, limit: int, where: Sequence[Any] = ()
    ) -> list[dict[str, Any]]:
        """Up to `limit` rows of which one of the two multisets has more copies than the other; no row is left out, as no source here has a condition."""
        a, b = (Counter(tuple(sorted(row.items())) for row in self.sample(s, None, snapshot=at)) for s, at in ((old, before), (new, after)))
        return [dict(row) for row in ((a - b) + (b - a)).elements()][:limit]

    def identities(self, origin: Provenance, *, snapshot: Snapshot) -> Identities:
        """Row ids and commit versions of the rows at these addresses."""
        columns = columns_of(snapshot)
        assert columns is not None, "the table does not track its rows"
        return identities(origin, snapshot.files.get(origin.paths), self.files.at(columns))

    def rows_at(self, origin: Provenance, *, snapshot: Snapshot) -> RowBlock:
        """The rows at these addresses, in this order, as a derived block."""
        files = snapshot.files.get(origin.paths)
        held = {p: self.files.rows(f, snapshot.schema) for p, f in files.items()}
        rows = tuple(held[origin.paths[f]][p] for f, p in zip(origin.file, origin.position, strict=True))
        return RowBlock("derived", 0, len(rows), 0, InMemory(rows), origin)

    def merged(self, under: RowBlock, over: RowBlock, cells: Mapping[str, Mask], *, snapshot: Snapshot) -> RowBlock:
        """The rows of `under`, with the value of `over` in each cell that `cells` marks."""
        pairs = zip(self._rows(under, snapshot.schema), self._rows(over, snapshot.schema), strict=True)
        rows = tuple({c: (mine if c in cells and cells[c][n] else theirs)[c] for c in theirs} for n, (theirs, mine) in enumerate(pairs))
        return replace(under, payload=InMemory(rows))

    def differing(self, a: RowBlock, b: RowBlock, *, snapshot: Snapshot) -> Mapping[str, Mask]:
        """For each column in which the two blocks differ, the mask of the rows that do."""
        pairs = list(zip(self._rows(a, snapshot.schema), self._rows(b, snapshot.schema), strict=True))
        found = {c: np.array([x[c] != y[c] for x, y in pairs], dtype=np.bool_) for c in snapshot.schema.names}
        return {c: mask for c, mask in found.items() if mask.any()}

    def sample(self, slices: Sequence[Slice], limit: int | None, *, snapshot: Snapshot) -> list[dict[str, Any]]:
        """Up to `limit` living rows of the slices as dicts."""
        rows = (dict(row) for s in slices for _, row in self._live(s, snapshot.schema))
        return [row for n, row in zip(range(limit), rows, strict=False)] if limit is not None else list(rows)


Checks = Sequence[tuple[Check, Evaluate]]


def compiled_checks(snapshot: Snapshot) -> Checks:
    """The table's CHECK constraints, each with its compiled expression."""
    scope = (Relation("t", snapshot.schema.names),)
    return [(check, compile_expression(check.expression, scope)) for check in checks_of(snapshot.metadata, snapshot.schema)]


def check_image(row: Row, schema: StructType, checks: Checks = ()) -> None:
    """Checks a row against NOT NULL, the column types and `checks`.  Raises ConstraintViolated, SchemaMismatch."""
    for field in schema.fields:
        if not field.nullable and row[field.name] is None:
            raise ConstraintViolated(f"column {field.name!r} is NOT NULL, and a row has no value in it: {dict(row)}")
    check_row(row, schema)
    for check, evaluate in checks:
        if not is_true(evaluate, (row,)):
            raise ConstraintViolated(
                f"CHECK constraint {check.name} ({check.expression}) is not true of {dict(row)}",
                constraint=check.name,
                expression=check.expression,
                row=dict(row),
            )


def _assigned(passage: Passage) -> tuple[Assigned, ...]:
    """The columns that the statements set, for the rows of the table that they changed."""
    rows: dict[frozenset[str], list[Address]] = {}
    for address, image in passage.touched():
        if isinstance(address[0], str) and image.sets:
            rows.setdefault(image.sets, []).append(address)
    return tuple(Assigned(tuple(sorted(columns)), _origin(addresses)) for columns, addresses in rows.items())


def _origin(addresses: Sequence[Address]) -> Provenance:
    """The provenance of rows at these addresses, all of them in files."""
    paths = sorted({str(a[0]) for a in addresses})
    index = {p: n for n, p in enumerate(paths)}
    file = np.array([index[str(a[0])] for a in addresses], dtype=np.int32)
    return Provenance(tuple(paths), file, np.array([a[1] for a in addresses], dtype=np.int64))


def _matched_block(statement: int, pairs: Sequence[tuple[Address, int]]) -> RowBlock:
    """A block of kind `matched`: for each matched row of the table, the number of the source row."""
    numbers = numbers_of([j for _, j in pairs])
    return RowBlock("matched", statement, len(pairs), 8 * len(pairs), numbers, _origin([address for address, _ in pairs]))


def _insert_origin(statement: int, numbers: Sequence[int]) -> Provenance:
    """The provenance of rows that a MERGE inserted, from the numbers of their source rows."""
    return Provenance((fresh_path(statement),), np.zeros(len(numbers), dtype=np.int32), np.array(numbers, dtype=np.int64))


def _concatenated(parts: Sequence[Identities | None]) -> Identities | None:
    """The identities of several sequences of rows, one after the other; None where rows are not tracked."""
    known = [p for p in parts if p is not None]
    return Identities(np.concatenate([p.ids for p in known]), np.concatenate([p.commit_versions for p in known])) if known else None
