"""`on_conflict=lockless`: merges a transaction's staged changes with those of the winners, row by row (by row id) and cell by cell.

    the winner moved the row      the staged change is applied at the new address, without reading the row
    the winner changed the row    the winner's image, overlaid with the cells that this transaction set
    the winner deleted the row    the staged change is dropped: a delete wins over an update, two deletes are one

Conditions are not evaluated again, new rows are ignored, and nothing waits (docs/lockless.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from rowlock.boundary.effects import Assigned, Effects, RowBlock
from rowlock.boundary.engine import Engine
from rowlock.boundary.provenance import Mask, Provenance, union_by_path
from rowlock.conflict.delta import Delta, Slice, VectorOf
from rowlock.conflict.value import Conflict, SupersededRow, conflict_with
from rowlock.exceptions import ConstraintViolated
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import Commit
from rowlock.protocol.deletion_vector import bitmap_to_numpy
from rowlock.protocol.row_tracking import PRESERVED_TAG

Numbers = npt.NDArray[np.int64]
NOWHERE = -1
REPORTED = 1_000
"""How many superseded rows a commit reports one by one."""


@dataclass(frozen=True, slots=True)
class Merged:
    """The result of a merge: the effects at the head, and what became of rows that both sides changed.

    overwritten    the superseded rows, at most REPORTED of each kind
    rows_merged    rows that both sides updated
    rows_followed  rows that the winners only moved
    rows_dropped   staged images that were dropped
    hit            by path, positions at the base of the rows that the transaction changes and winners changed, moved or deleted;
                   None if there are none
    """

    effects: Effects
    overwritten: tuple[SupersededRow, ...] = ()
    rows_merged: int = 0
    rows_followed: int = 0
    rows_dropped: int = 0
    hit: Mapping[str, BitMap64] | None = None


@dataclass(frozen=True, slots=True)
class _Touched:
    """The table rows that the transaction changes and that winners changed, moved or deleted; one array element a row.

    before, ids   their addresses at the base, and their row ids
    after         their addresses at the head; `file` is NOWHERE for deleted rows
    version       their row commit versions at the head; NOWHERE for deleted rows
    changed       whether a winner changed them, so that the commit version is another than at the base
    """

    before: Provenance
    ids: Numbers
    after: Provenance
    version: Numbers
    changed: Mask

    @property
    def lives(self) -> Mask:
        """The rows that still exist at the head."""
        return np.asarray(self.after.file != NOWHERE)


class RewrittenWithoutIds(Exception):
    """A winner rewrote rows without preserving their row ids, so that they cannot be matched with the staged ones."""

    def __init__(self, conflict: Conflict) -> None:
        self.conflict = conflict


def merge(effects: Effects, delta: Delta, winners: Sequence[Commit], *, engine: Engine, base: Snapshot, head: Snapshot, vector_of: VectorOf) -> Merged:
    """Merges the effects, which were staged against `base` and have the columns of `head` already, with the delta to `head`.

    Raises RewrittenWithoutIds.
    """
    gone = delta.gone_by_path()
    hit = {p: both for p, ours in effects.tombstones.items() if p in gone and (both := gone[p].covers(ours))}
    if not hit:
        return Merged(effects)
    known = replace(base, metadata=head.metadata, schema=head.schema)
    touched = _find_touched(hit, delta.born, engine, known, head)
    _check_ids_kept(touched, winners)
    cells = _cells(effects.assigned, touched)
    blocks, updated, violating = _merged_blocks(effects.blocks, touched, cells, engine, head)
    stays = touched.lives & ~violating.mask
    tombstones = {p: rest for p, ours in effects.tombstones.items() if (rest := ours - hit[p] if p in hit else ours)}
    tombstones = union_by_path(tombstones, touched.after.take(stays).bitmaps())
    assigned = tuple(found for a in effects.assigned if (found := _assigned_at_head(a, touched, stays)) is not None)
    superseded = _superseded(touched, updated, cells, violating, partial(_departed_in, winners, vector_of), engine, known, head)
    return Merged(
        Effects(tombstones, blocks, {}, assigned),
        superseded,
        rows_merged=int((touched.changed & updated).sum()),
        rows_followed=int((touched.lives & ~touched.changed).sum()),
        rows_dropped=int((updated & ~stays).sum()),
        hit=hit,
    )


# ---- finding rows by their ids -------------------------------------------------------------


def _find_touched(hit: Mapping[str, BitMap64], born: Sequence[Slice], engine: Engine, known: Snapshot, head: Snapshot) -> _Touched:
    """Finds the rows at the addresses `hit` of the base again among the born rows of the head, by row id."""
    before = _addresses(hit)
    wanted = engine.identities(before, snapshot=known)
    order = np.argsort(wanted.ids)
    ids = wanted.ids[order]
    file, position = np.full(len(ids), NOWHERE, np.int32), np.zeros(len(ids), np.int64)
    version = np.full(len(ids), NOWHERE, np.int64)
    for n, piece in enumerate(born):
        there = bitmap_to_numpy(piece.positions(engine.count))
        found = engine.identities(Provenance((piece.path,), np.zeros(len(there), np.int32), there), snapshot=head)
        at = np.minimum(np.searchsorted(ids, found.ids), len(ids) - 1)
        same = np.flatnonzero(ids[at] == found.ids)
        rows = order[at[same]]
        file[rows], position[rows], version[rows] = n, there[same], found.commit_versions[same]
    after = Provenance(tuple(s.path for s in born), file, position)
    return _Touched(before, wanted.ids, after, version, (file != NOWHERE) & (version != wanted.commit_versions))


def _addresses(positions: Mapping[str, BitMap64]) -> Provenance:
    """Bitmaps by path as addresses, sorted by path and by position."""
    held = [bitmap_to_numpy(positions[p]) for p in sorted(positions)]
    return Provenance(tuple(sorted(positions)), np.repeat(np.arange(len(held), dtype=np.int32), [len(h) for h in held]), np.concatenate(held))


def _row_numbers(origin: Provenance, touched: _Touched) -> Numbers:
    """For each address the row's number in `touched`, NOWHERE for rows that are not touched."""
    out = np.full(len(origin.file), NOWHERE, np.int64)
    places = dict(touched.before.by_path())
    for path, rows in origin.by_path():
        if path in places:
            known = touched.before.position[places[path]]
            at = np.minimum(np.searchsorted(known, origin.position[rows]), len(known) - 1)
            out[rows] = np.where(known[at] == origin.position[rows], places[path][at], NOWHERE)
    return out


def _check_ids_kept(touched: _Touched, winners: Sequence[Commit]) -> None:
    """Raises RewrittenWithoutIds where a row was not found and a winner rewrote its file without preserving row ids; else it was deleted."""
    lost = {path for path, _ in touched.before.take(~touched.lives).by_path()}
    for winner in winners:
        added, removed = {a.path for a in winner.adds}, {r.path for r in winner.removes}
        tags = (winner.info.raw.get("tags") if winner.info else None) or {}
        if added - removed and lost & (removed - added) and str(tags.get(PRESERVED_TAG)).lower() != "true":
            text = "Another commit rewrote rows that this transaction changes, and did not keep their ids."
            remedy = "Run it again; let only writers that keep row ids (delta.rowTracking.preserved) write this table."
            raise RewrittenWithoutIds(conflict_with(winner, "removed by both", files=sorted(lost & removed), what=text, remedy=remedy))


# ---- cells ---------------------------------------------------------------------------------


def _cells(assigned: Iterable[Assigned], touched: _Touched) -> dict[str, Mask]:
    """For each column that the transaction set, the mask of the touched rows in which it set it."""
    out: dict[str, Mask] = {}
    for a in assigned:
        rows = _row_numbers(a.origin.loaded(), touched)
        for column in a.columns:
            out.setdefault(column, np.zeros(len(touched.ids), np.bool_))[rows[rows != NOWHERE]] = True
    return out


@dataclass(slots=True)
class _Violating:
    """Touched rows whose merged image would violate a constraint: their mask, and by row number the error message."""

    mask: Mask
    why: dict[int, str]


def _merged_blocks(
    blocks: Sequence[RowBlock], touched: _Touched, cells: Mapping[str, Mask], engine: Engine, head: Snapshot
) -> tuple[tuple[RowBlock, ...], Mask, _Violating]:
    """The blocks at the head, the mask of touched rows of which they have an image, and the rows whose merged image violates a constraint."""
    out: list[RowBlock] = []
    updated = np.zeros(len(touched.ids), np.bool_)
    violating = _Violating(np.zeros(len(touched.ids), np.bool_), {})
    for block in blocks:
        if block.kind == "matched":
            continue
        if block.kind != "derived":
            out.append(block)
            continue
        origin = engine.provenance(block).loaded()
        at = _row_numbers(origin, touched)
        ours = at != NOWHERE
        updated[at[ours]] = True
        stays = ~ours | (touched.lives & ~touched.changed)[at]
        if stays.any():
            moved = block if stays.all() else engine.keep(block, stays)
            out.append(replace(moved, provenance=_at_head(origin.take(stays), at[stays], touched.after)))
        merging = ours & touched.changed[at]
        if merging.any():
            rows = at[merging]
            under = engine.rows_at(touched.after.take(rows), snapshot=head)
            merged = engine.merged(under, engine.keep(block, merging), {c: mask[rows] for c, mask in cells.items()}, snapshot=head)
            valid = _satisfying(merged, engine, head, lambda n, why, rows=rows: violating.why.update({int(rows[n]): why}))  # type: ignore[misc]
            violating.mask[rows[~valid]] = True
            if valid.any():
                out.append(replace(merged if valid.all() else engine.keep(merged, valid), statement=block.statement))
    return tuple(out), updated, violating


def _satisfying(block: RowBlock, engine: Engine, head: Snapshot, report: Callable[[int, str], object], start: int = 0) -> Mask:
    """Mask of rows that satisfy the constraints.  Bisects the block; calls `report(row, message)` for each violation."""
    try:
        engine.check([block], snapshot=head)
        return np.ones(block.num_rows, np.bool_)
    except ConstraintViolated as e:
        if block.num_rows == 1:
            report(start, str(e))
            return np.zeros(1, np.bool_)
    first = np.arange(block.num_rows) < block.num_rows // 2
    halves = (first, start), (~first, start + int(first.sum()))
    return np.concatenate([_satisfying(engine.keep(block, half), engine, head, report, begin) for half, begin in halves])


def _at_head(origin: Provenance, at: Numbers, after: Provenance) -> Provenance:
    """The addresses with those of touched rows replaced by `after`; `at` is each row's number there, NOWHERE for other rows."""
    ours = at != NOWHERE
    return origin.readdressed(ours, after.take(at[ours])) if ours.any() else origin


def _assigned_at_head(assigned: Assigned, touched: _Touched, stays: Mask) -> Assigned | None:
    """The cells under the rows' addresses at the head, without rows that are dropped; None if none is left."""
    origin = assigned.origin.loaded()
    at = _row_numbers(origin, touched)
    rows = (at == NOWHERE) | stays[at]
    return Assigned(assigned.columns, _at_head(origin.take(rows), at[rows], touched.after)) if rows.any() else None


# ---- reporting superseded rows -------------------------------------------------------------


def _superseded(
    touched: _Touched,
    updated: Mask,
    cells: Mapping[str, Mask],
    violating: _Violating,
    departed_in: Callable[[str, int], int | None],
    engine: Engine,
    known: Snapshot,
    head: Snapshot,
) -> tuple[SupersededRow, ...]:
    """One value for each row that winners and this transaction both changed, of the first REPORTED."""
    out: list[SupersededRow] = []
    for n in np.flatnonzero(updated & ~touched.lives)[:REPORTED]:
        version = departed_in(touched.before.paths[touched.before.file[n]], int(touched.before.position[n]))
        out.append(SupersededRow(int(touched.ids[n]), "dropped", _columns(cells, n), version, "the row was deleted"))
    changed = np.flatnonzero(touched.changed)[:REPORTED]
    if not len(changed):
        return tuple(out)
    before, after = engine.rows_at(touched.before.take(changed), snapshot=known), engine.rows_at(touched.after.take(changed), snapshot=head)
    theirs = engine.differing(before, after, snapshot=head)
    for i, n in enumerate(changed):
        row_id, version = int(touched.ids[n]), int(touched.version[n])
        columns = _columns(theirs, i)
        if violating.mask[n]:
            out.append(SupersededRow(row_id, "dropped", _columns(cells, n), version, violating.why[int(n)]))
        elif not updated[n]:
            out.append(SupersededRow(row_id, "row", columns, version))
        elif both := tuple(c for c in columns if c in cells and cells[c][n]):
            out.append(SupersededRow(row_id, "cells", both, version))
    return tuple(out)


def _departed_in(winners: Sequence[Commit], vector_of: VectorOf, path: str, position: int) -> int | None:
    """The version of the first winner after which a row no longer lives at this address of the base; None if there is none."""
    for winner in winners:
        if any(r.path == path for r in winner.removes):
            again = next((a for a in winner.adds if a.path == path), None)
            if again is None or position in vector_of(again):
                return winner.version
    return None


def _columns(masks: Mapping[str, Mask], row: int) -> tuple[str, ...]:
    """The sorted names of the columns whose mask is True for the row."""
    return tuple(sorted(c for c, mask in masks.items() if mask[row]))
