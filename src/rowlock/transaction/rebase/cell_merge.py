"""`on_conflict=lockless`: what is staged are intents by row id, and they are merged with what winners did cell by cell.

    the row only lies elsewhere    what is staged goes with it, unread
    the row was changed            the winner's image, with the cells that this transaction set
    the row is gone                what was meant for it is dropped: delete beats update, and delete with delete is one delete

Conditions are not asked again, rows that are new are not looked at, and nobody waits (SEMANTICS.md section 3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from rowlock.boundary.effects import Assigned, Effects, Mask, Provenance, RowBlock, union_by_path
from rowlock.boundary.engine import Engine
from rowlock.conflict.delta import Delta, Slice, VectorOf
from rowlock.conflict.value import Conflict, SupersededRow, conflict_with
from rowlock.exceptions import ConstraintViolated
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import Commit
from rowlock.protocol.deletion_vector import bitmap_to_numpy, positions_except
from rowlock.protocol.row_tracking import PRESERVED_TAG

Numbers = npt.NDArray[np.int64]
NOWHERE = -1
REPORTED = 1_000
"""Rows of a commit whose meeting with a winner is told one by one."""


@dataclass(frozen=True, slots=True)
class Merged:
    """Effects after the winners; what they and this transaction made of each other; how many rows that concerned."""

    effects: Effects
    overwritten: tuple[SupersededRow, ...] = ()
    rows_merged: int = 0
    rows_followed: int = 0
    rows_dropped: int = 0
    hit: Mapping[str, BitMap64] | None = None


@dataclass(frozen=True, slots=True)
class _Met:
    """The rows of the table that the transaction changes and that winners have touched.

    before, ids   where they lay, and who they are
    after         where they lie at the head (`file` NOWHERE for those that are gone)
    version       of the commit that changed each last, at the head
    changed       which of them have other values than before
    """

    before: Provenance
    ids: Numbers
    after: Provenance
    version: Numbers
    changed: Mask

    @property
    def lives(self) -> Mask:
        return np.asarray(self.after.file != NOWHERE)


class RewrittenWithoutIds(Exception):
    """A winner rewrote rows and did not keep their ids, so that nobody can tell which of them are which."""

    def __init__(self, conflict: Conflict) -> None:
        self.conflict = conflict


def merge(effects: Effects, delta: Delta, winners: Sequence[Commit], *, engine: Engine, base: Snapshot, head: Snapshot, vector_of: VectorOf) -> Merged:
    """The effects against `head`, whose columns they have already; `base` is the version that they were staged against.

    Raises RewrittenWithoutIds.
    """
    gone = delta.gone_by_path()
    hit = {p: both for p, ours in effects.tombstones.items() if p in gone and (both := gone[p].covers(ours))}
    if not hit:
        return Merged(effects)
    known = replace(base, metadata=head.metadata, schema=head.schema)
    met = _meet(hit, delta.born, engine, known, head)
    _check_ids_kept(met, winners)
    cells = _cells(effects.assigned, met)
    blocks, updated, unfit = _merged_blocks(effects.blocks, met, cells, engine, head)
    stays = met.lives & ~unfit.mask
    tombstones = {p: rest for p, ours in effects.tombstones.items() if (rest := ours - hit[p] if p in hit else ours)}
    tombstones = union_by_path(tombstones, met.after.take(stays).bitmaps())
    assigned = tuple(found for a in effects.assigned if (found := _carried(a, met, stays)) is not None)
    told = _told(met, updated, cells, unfit, _Departures(winners, vector_of), engine, known, head)
    return Merged(
        Effects(tombstones, blocks, {}, assigned),
        told,
        rows_merged=int((met.changed & updated).sum()),
        rows_followed=int((met.lives & ~met.changed).sum()),
        rows_dropped=int((updated & ~stays).sum()),
        hit=hit,
    )


# ---- who is where --------------------------------------------------------------------------


def _meet(hit: Mapping[str, BitMap64], born: Sequence[Slice], engine: Engine, known: Snapshot, head: Snapshot) -> _Met:
    before = _addresses(hit)
    who = engine.identities(before, snapshot=known)
    order = np.argsort(who.ids)
    ids = who.ids[order]
    file, position = np.full(len(ids), NOWHERE, np.int32), np.zeros(len(ids), np.int64)
    version = np.full(len(ids), NOWHERE, np.int64)
    for n, piece in enumerate(born):
        there = _positions(piece, engine)
        found = engine.identities(Provenance((piece.path,), np.zeros(len(there), np.int32), there), snapshot=head)
        at = np.minimum(np.searchsorted(ids, found.ids), len(ids) - 1)
        same = np.flatnonzero(ids[at] == found.ids)
        rows = order[at[same]]
        file[rows], position[rows], version[rows] = n, there[same], found.commit_versions[same]
    after = Provenance(tuple(s.path for s in born), file, position)
    return _Met(before, who.ids, after, version, (file != NOWHERE) & (version != who.commit_versions))


def _addresses(positions: Mapping[str, BitMap64]) -> Provenance:
    """By path, and by position within a path."""
    held = [bitmap_to_numpy(positions[p]) for p in sorted(positions)]
    return Provenance(tuple(sorted(positions)), np.repeat(np.arange(len(held), dtype=np.int32), [len(h) for h in held]), np.concatenate(held))


def _positions(piece: Slice, engine: Engine) -> Numbers:
    if piece.only is not None:
        return np.asarray(bitmap_to_numpy(piece.only))
    physical = piece.file.num_records
    return np.asarray(bitmap_to_numpy(positions_except(engine.count(piece.file) if physical is None else physical, piece.without)))


def _numbers(origin: Provenance, met: _Met) -> Numbers:
    """For each address its number among the rows that were met, NOWHERE for others."""
    out = np.full(len(origin.file), NOWHERE, np.int64)
    places = dict(met.before.by_path())
    for path, rows in origin.by_path():
        if path in places:
            known = met.before.position[places[path]]
            at = np.minimum(np.searchsorted(known, origin.position[rows]), len(known) - 1)
            out[rows] = np.where(known[at] == origin.position[rows], places[path][at], NOWHERE)
    return out


def _check_ids_kept(met: _Met, winners: Sequence[Commit]) -> None:
    """A row that is not there any more was deleted, unless a winner rewrote its file without saying that ids were kept."""
    lost = {path for path, _ in met.before.take(~met.lives).by_path()}
    for winner in winners:
        added, removed = {a.path for a in winner.adds}, {r.path for r in winner.removes}
        tags = (winner.info.raw.get("tags") if winner.info else None) or {}
        if added - removed and lost & (removed - added) and str(tags.get(PRESERVED_TAG)).lower() != "true":
            text = "Another commit rewrote rows that this transaction changes, and did not keep their ids."
            remedy = "Run it again; let only writers that keep row ids (delta.rowTracking.preserved) write this table."
            raise RewrittenWithoutIds(conflict_with(winner, "removed by both", files=sorted(lost & removed), what=text, remedy=remedy))


# ---- cells ---------------------------------------------------------------------------------


def _cells(assigned: Iterable[Assigned], met: _Met) -> dict[str, Mask]:
    """For each column that the transaction set somewhere, of which of the rows that were met."""
    out: dict[str, Mask] = {}
    for a in assigned:
        rows = _numbers(a.origin, met)
        for column in a.columns:
            out.setdefault(column, np.zeros(len(met.ids), np.bool_))[rows[rows != NOWHERE]] = True
    return out


@dataclass(slots=True)
class _Unfit:
    """Rows that would break a constraint as they were merged, and what each breaks."""

    mask: Mask
    why: dict[int, str]


def _merged_blocks(
    blocks: Sequence[RowBlock], met: _Met, cells: Mapping[str, Mask], engine: Engine, head: Snapshot
) -> tuple[tuple[RowBlock, ...], Mask, _Unfit]:
    """The blocks at the head, for which rows that were met they hold an image, and what did not fit."""
    out: list[RowBlock] = []
    updated = np.zeros(len(met.ids), np.bool_)
    unfit = _Unfit(np.zeros(len(met.ids), np.bool_), {})
    for block in blocks:
        if block.kind == "matched":
            continue
        if block.kind != "derived":
            out.append(block)
            continue
        origin = engine.provenance(block)
        at = _numbers(origin, met)
        ours = at != NOWHERE
        updated[at[ours]] = True
        stays = ~ours | (met.lives & ~met.changed)[at]
        if stays.any():
            kept = block if stays.all() else engine.keep(block, stays)
            out.append(replace(kept, provenance=_moved(origin.take(stays), at[stays], met.after)))
        merging = ours & met.changed[at]
        if merging.any():
            rows = at[merging]
            under = engine.rows_at(met.after.take(rows), snapshot=head)
            made = engine.merged(under, engine.keep(block, merging), {c: mask[rows] for c, mask in cells.items()}, snapshot=head)
            fits = _fitting(made, engine, head, lambda n, why, rows=rows: unfit.why.update({int(rows[n]): why}))  # type: ignore[misc]
            unfit.mask[rows[~fits]] = True
            if fits.any():
                out.append(replace(made if fits.all() else engine.keep(made, fits), statement=block.statement))
    return tuple(out), updated, unfit


def _fitting(block: RowBlock, engine: Engine, head: Snapshot, tell: Callable[[int, str], object], start: int = 0) -> Mask:
    """Which rows of a block meet the table's constraints, by halves; `tell` hears of each that does not."""
    try:
        engine.check([block], snapshot=head)
        return np.ones(block.num_rows, np.bool_)
    except ConstraintViolated as e:
        if block.num_rows == 1:
            tell(start, str(e))
            return np.zeros(1, np.bool_)
    first = np.arange(block.num_rows) < block.num_rows // 2
    return np.concatenate(
        [_fitting(engine.keep(block, first), engine, head, tell, start), _fitting(engine.keep(block, ~first), engine, head, tell, start + int(first.sum()))]
    )


def _moved(origin: Provenance, at: Numbers, after: Provenance) -> Provenance:
    """Addresses, with those of rows that were met (`at` is not NOWHERE) as they are now."""
    ours = at != NOWHERE
    if not ours.any():
        return origin
    names = {p: n for n, p in enumerate(origin.paths)}
    codes = np.array([names.setdefault(p, len(names)) for p in after.paths], np.int32)
    file, position = origin.file.copy(), origin.position.copy()
    file[ours], position[ours] = codes[after.file[at[ours]]], after.position[at[ours]]
    return Provenance(tuple(names), file, position)


def _carried(assigned: Assigned, met: _Met, stays: Mask) -> Assigned | None:
    at = _numbers(assigned.origin, met)
    kept = (at == NOWHERE) | stays[at]
    return Assigned(assigned.columns, _moved(assigned.origin.take(kept), at[kept], met.after)) if kept.any() else None


# ---- what is told --------------------------------------------------------------------------


def _told(
    met: _Met, updated: Mask, cells: Mapping[str, Mask], unfit: _Unfit, departures: _Departures, engine: Engine, known: Snapshot, head: Snapshot
) -> tuple[SupersededRow, ...]:
    """One value for each row in which winners and this transaction met, of the first REPORTED."""
    out: list[SupersededRow] = []
    for n in np.flatnonzero(updated & ~met.lives)[:REPORTED]:
        version = departures.version(met.before.paths[met.before.file[n]], int(met.before.position[n]))
        out.append(SupersededRow(int(met.ids[n]), "dropped", _columns(cells, n), version, "the row was deleted"))
    changed = np.flatnonzero(met.changed)[:REPORTED]
    if not len(changed):
        return tuple(out)
    theirs = engine.differing(engine.rows_at(met.before.take(changed), snapshot=known), engine.rows_at(met.after.take(changed), snapshot=head), snapshot=head)
    for i, n in enumerate(changed):
        row_id, version = int(met.ids[n]), int(met.version[n])
        columns = _columns(theirs, i)
        if unfit.mask[n]:
            out.append(SupersededRow(row_id, "dropped", _columns(cells, n), version, unfit.why[int(n)]))
        elif not updated[n]:
            out.append(SupersededRow(row_id, "row", columns, version))
        elif both := tuple(c for c in columns if c in cells and cells[c][n]):
            out.append(SupersededRow(row_id, "cells", both, version))
    return tuple(out)


@dataclass(frozen=True, slots=True)
class _Departures:
    """When rows left the places where the transaction had found them."""

    winners: Sequence[Commit]
    vector_of: VectorOf

    def version(self, path: str, position: int) -> int | None:
        """Of the winner that took the row at this address away."""
        for winner in self.winners:
            if any(r.path == path for r in winner.removes):
                again = next((a for a in winner.adds if a.path == path), None)
                if again is None or position in self.vector_of(again):
                    return winner.version
        return None


def _columns(masks: Mapping[str, Mask], row: int) -> tuple[str, ...]:
    return tuple(sorted(c for c, mask in masks.items() if mask[row]))
