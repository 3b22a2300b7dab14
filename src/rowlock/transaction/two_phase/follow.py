"""Follows what a transaction does in a prepared table through the commits of other engines that came after it (I3, I5, I6).

The transaction's place in the table is its P, and foreign commits follow it.  A row that it replaced or deleted is looked for at
the head: at its address where the file is still live, else by its row id.  With the same row commit version it was only moved,
and the transaction's change applies to it there.  Otherwise the other engine has deleted or changed it: the change of that row is
dropped, with the row that was to take its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from pyroaring import BitMap64

from rowlock.boundary.effects import StagedFile
from rowlock.boundary.provenance import union_by_path
from rowlock.boundary.row_identity import Materialized, Numbers, columns_of, identities_in
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddFile, Commit
from rowlock.protocol.deletion_vector import bitmap_of, bitmap_to_numpy
from rowlock.protocol.row_tracking import MaterializedColumns
from rowlock.transaction.state.vectors import Vectors


class RowIds(Protocol):
    """What reads the rows' ids of data files, and counts their rows."""

    def at(self, columns: MaterializedColumns) -> Materialized:
        """A function that reads ids and commit versions from these columns of a file."""
        ...

    def count(self, file: AddFile) -> int:
        """The physical number of rows of a file."""
        ...


@dataclass(frozen=True, slots=True)
class Followed:
    """The rows to delete, by their files at the head; the new files, with the positions of those of their rows that are dropped; how many were dropped."""

    tombstones: Mapping[str, BitMap64]
    files: tuple[StagedFile, ...]
    dropped: int = 0


def follow(staged: Commit, base: Snapshot, head: Snapshot, vectors: Vectors, ids: RowIds) -> Followed:
    """What the staged commit, which was made on top of `base`, does on top of `head`."""
    written = {add.path: add for add in staged.adds}
    tombstones: dict[str, BitMap64] = {}
    lost: dict[str, BitMap64] = {}
    live = head.files.get([r.path for r in staged.removes])
    for path, before in base.files.get([r.path for r in staged.removes]).items():
        dead = vectors.of(before)
        ours = (vectors.of(written[path]) if path in written else BitMap64(range(_rows(before, ids)))) - dead
        file = live.get(path)
        gone = ours if file is None else ours & vectors.of(file)
        if ours - gone:
            tombstones[path] = ours - gone
        if gone:
            lost[path] = gone
    removed = {r.path for r in staged.removes}
    new = [replace(a, base_row_id=None, default_row_commit_version=None) for a in staged.adds if a.path not in removed]
    if not lost:
        return Followed(tombstones, tuple(StagedFile(a) for a in new))
    moved, dropped = _found(lost, base, head, vectors, ids)
    files = [_without(a, dropped, head, vectors, ids) for a in new]
    return Followed(union_by_path(tombstones, moved), tuple(f for f in files if f is not None), len(dropped))


def _found(lost: Mapping[str, BitMap64], base: Snapshot, head: Snapshot, vectors: Vectors, ids: RowIds) -> tuple[dict[str, BitMap64], Numbers]:
    """(where the lost rows that were only moved are at the head, the ids of the others)."""
    columns = columns_of(base)
    assert columns is not None, "rows of a prepared table are only changed where they are tracked"
    of = ids.at(columns)
    files = base.files.get(lost)
    wanted = [identities_in(files[path], bitmap_to_numpy(at), of) for path, at in lost.items()]
    row_ids, versions = np.concatenate([w.ids for w in wanted]), np.concatenate([w.commit_versions for w in wanted])
    order = np.argsort(row_ids)
    row_ids, versions = row_ids[order], versions[order]
    is_found = np.zeros(len(row_ids), bool)
    moved: dict[str, BitMap64] = {}
    for file in head.files.adds():
        if file.path in base.files:
            continue
        positions = bitmap_to_numpy(BitMap64(range(_rows(file, ids))) - vectors.of(file))
        there = identities_in(file, positions, of)
        at = np.minimum(np.searchsorted(row_ids, there.ids), len(row_ids) - 1)
        same = (row_ids[at] == there.ids) & (versions[at] == there.commit_versions)
        if same.any():
            is_found[at[same]] = True
            moved[file.path] = bitmap_of(positions[same])
    return moved, row_ids[~is_found]


def _without(file: AddFile, dropped: Numbers, head: Snapshot, vectors: Vectors, ids: RowIds) -> StagedFile | None:
    """A new file without the rows that took the place of dropped ones; None where no row is left."""
    columns, num_rows = columns_of(head), _rows(file, ids)
    if columns is None:  # row tracking was switched off meanwhile: the file says no more whose place its rows took
        return StagedFile(file)
    kept, _ = ids.at(columns)(file, np.arange(num_rows, dtype=np.int64))
    dead = bitmap_of(np.flatnonzero(np.isin(kept, dropped))) | vectors.of(file)
    if len(dead) >= num_rows:
        return None
    return StagedFile(replace(file, deletion_vector=None), dead) if dead else StagedFile(file)


def _rows(file: AddFile, ids: RowIds) -> int:
    known = file.num_records
    return ids.count(file) if known is None else known
