"""The staged effects of a transaction: tombstones, row blocks and match counts (the words are those of ARCHITECTURE.md).

This module must know neither Spark nor a store.  The format of a block's rows is the engine's own (`payload`);
the provenance of each row, which the transaction layer needs, is kept beside it, or in the staged files (`boundary.provenance`).
A staged row is identified by its address: (path, position) of the table row that it replaces, or (`fresh_path` of the MERGE, number) of the
source row that it was inserted for.

The net row changes for the change data feed (`changes_of`) are computed from the effects at the head, so a rebase needs no bookkeeping for them.
Tombstones give deleted and updated rows (their values at the head are the old images), derived rows the new images, all other blocks the inserts.
A row that several statements changed appears once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal

import numpy as np
from pyroaring import BitMap64

from rowlock.boundary.provenance import Counts, Mask, Origin, StoredCounts, counted, union_by_path
from rowlock.conflict.change_feed import ChangeType
from rowlock.conflict.delta import Slice
from rowlock.protocol.actions import AddFile
from rowlock.protocol.deletion_vector import bitmap_to_numpy

_FRESH = "\0fresh "

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    P = TypeVar("P", covariant=True, default=Any)
    """How an engine holds the rows of a block.  A transaction passes it on and never looks inside, so there it is left open."""
else:
    from typing import TypeVar

    P = TypeVar("P", covariant=True)

Kind = Literal["derived", "inserted", "appended", "matched"]


def fresh_path(statement: int) -> str:
    """The placeholder path in the addresses of rows that MERGE number `statement` inserts; no data file has such a name."""
    return f"{_FRESH}{statement}"


def fresh_statement(path: str) -> int | None:
    """The statement number in a `fresh_path`; None for the path of a data file."""
    return int(path[len(_FRESH) :]) if path.startswith(_FRESH) else None


@dataclass(frozen=True, slots=True)
class RowBlock(Generic[P]):
    """Rows staged together, in the state in which the last staged statement left them.

    kind        derived    new images of existing rows (or unchanged copies of them)
                inserted   rows inserted by the MERGE that is statement number `statement` of the program
                appended   rows from outside; a rebase never drops them
                matched    no rows, but a record of the matches of MERGE `statement`: `payload` (`SourceNumbers`) is the source row that each
                           target row matched under ON, so that a rebase need not read old images of rows that are gone.
                           A target row may be one that an earlier MERGE of the same transaction inserted
    provenance  None for appended rows; of many rows a `StoredOrigin`, which stays in the staged files
    group       the number of the compaction bin that the rows belong to
    moved       True where the rows are unchanged and only lie in another place
    """

    kind: Kind
    statement: int
    num_rows: int
    size_bytes: int
    payload: P
    provenance: Origin | None = None
    group: int = 0
    moved: bool = False


@dataclass(frozen=True, slots=True)
class Assigned:
    """Cells that a statement set: `columns` of the table rows at the addresses `origin`.  Used by `on_conflict=lockless`."""

    columns: tuple[str, ...]
    origin: Origin


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A data file that is written and not yet part of any commit.

    `dead`: positions of rows to be marked deleted when it is committed; `group`: the group of the blocks whose rows it holds.
    """

    add: AddFile
    dead: BitMap64 | None = None
    group: int = 0


@dataclass(frozen=True, slots=True)
class Propagated:
    """The result of `Engine.propagate`.

    tombstones  by path, the positions of born rows that the program deletes or replaces
    blocks      the new images of born rows, and inserts that became due; when staging also every image staged before,
                after the new statements
    counts      by statement number of each MERGE, how many matches each source row has after the delta; a MERGE is left out where none changed
    metrics     when staging: numbers of rows that the new statements `updated`, `deleted`, `inserted`
    assigned    when staging: the cells of table rows that the new statements set
    ways        how the rows were found and written, in words for people
    """

    tombstones: Mapping[str, BitMap64]
    blocks: tuple[RowBlock, ...]
    counts: Mapping[int, Counts | StoredCounts]
    metrics: Mapping[str, int] = field(default_factory=dict)
    rows_read: int = 0
    bytes_read: int = 0
    assigned: tuple[Assigned, ...] = ()
    ways: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Effects:
    """Everything a transaction has staged against one version of the table (its base).

    tombstones  by path, positions of live rows that the transaction deletes or replaces
    blocks      the rows that it adds
    counts      by statement number of each MERGE, how many matches each source row has
    assigned    the cells of table rows that its statements set
    """

    tombstones: Mapping[str, BitMap64] = field(default_factory=dict)
    blocks: tuple[RowBlock, ...] = ()
    counts: Mapping[int, Counts | StoredCounts] = field(default_factory=dict)
    assigned: tuple[Assigned, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing would change: no row is deleted, replaced or added."""
        return not any(self.tombstones.values()) and not any(b.num_rows for b in self.blocks if b.kind != "matched")

    @property
    def num_tombstones(self) -> int:
        return sum(len(b) for b in self.tombstones.values())


@dataclass(frozen=True, slots=True)
class Change:
    """Rows with one `_change_type`: given as slices of the head's files, or as staged blocks."""

    type: ChangeType
    slices: tuple[Slice, ...] = ()
    blocks: tuple[RowBlock, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.slices and not self.blocks


@dataclass(frozen=True, slots=True)
class Loss:
    """A live file of the head that loses rows; `whole`: it loses all rows that it has left."""

    file: AddFile
    whole: bool


def changes_of(effects: Effects, live: Mapping[str, AddFile], provenance: Callable[[RowBlock], Origin]) -> tuple[Change, ...]:
    """The net changes of staged effects, empty ones left out; `live` maps every path with tombstones to its file at the head."""
    blocks = [b for b in effects.blocks if b.kind != "matched" and b.num_rows]
    derived = tuple(b for b in blocks if b.kind == "derived")
    updated: dict[str, BitMap64] = {}
    for block in derived:
        updated = union_by_path(updated, provenance(block).bitmaps())
    old, deleted = [], []
    for path, positions in sorted(effects.tombstones.items()):
        if both := positions & updated.get(path, BitMap64()):
            old.append(Slice(live[path], only=both))
        if rest := positions - updated.get(path, BitMap64()):
            deleted.append(Slice(live[path], only=rest))
    found = (
        Change("delete", slices=tuple(deleted)),
        Change("update_preimage", slices=tuple(old)),
        Change("update_postimage", blocks=derived),
        Change("insert", blocks=tuple(b for b in blocks if b.kind != "derived")),
    )
    return tuple(c for c in found if not c.is_empty)


def needs_no_change_files(effects: Effects, losses: Sequence[Loss], staged: Sequence[StagedFile], *, vectors_allowed: bool) -> bool:
    """Whether add and remove actions alone give every reader a correct change feed, so that no cdc file is needed.

    That is so for rows added in new files, for removed files without a deletion vector, and, where no rows are added,
    for files that get their first deletion vector.
    """
    rows = [b for b in effects.blocks if b.kind != "matched" and b.num_rows]
    if any(b.kind == "derived" for b in rows) or any(s.dead for s in staged):
        return False
    first_vectors = vectors_allowed and not rows
    return all(loss.file.deletion_vector is None and (loss.whole or first_vectors) for loss in losses)


ProvenanceOf = Callable[[RowBlock], Origin]


@dataclass(frozen=True, slots=True)
class LostMatches:
    """The MERGE matches that an engine recorded in `matched` blocks, and how many of them a delta takes away."""

    staged: Effects
    gone: Mapping[str, Slice]
    provenance: ProvenanceOf

    def of(self, statement: int, counts: Mapping[int, Counts | StoredCounts]) -> Counts | None:
        """How many matches each source row of MERGE `statement` loses; None where no matches were recorded, or none of these is lost.

        Matches are lost with target rows that are gone, and with rows that earlier MERGEs of the transaction inserted
        and now insert no more (`counts` holds the matches of those MERGEs after the delta).
        """
        out: Counts | None = None
        for block in self.staged.blocks:
            if block.kind != "matched" or block.statement != statement:
                continue
            mask, at = survivors(block, self.gone, counts, self.provenance), 0
            if mask is None or mask.all():
                continue
            if out is None:
                out = np.zeros(len(self.staged.counts[statement]), np.int64)
            for part in block.payload.parts():
                np.add.at(out, part[~mask[at : at + len(part)]], 1)
                at += len(part)
        return out


def survivors(block: RowBlock, gone: Mapping[str, Slice], counts: Mapping[int, Counts | StoredCounts], provenance: ProvenanceOf) -> Mask | None:
    """Mask of the rows of a block that survive the delta; None: all do.  An inserted row lives if and only if its match count is 0.

    Origins that are stored in files are read only where the delta meets one of them.
    """
    if block.kind == "appended" or (not gone and not counts):
        return None
    origin = provenance(block)
    known = origin.positions
    hit = {path: fresh_statement(path) for path in origin.paths}
    hit = {path: fresh for path, fresh in hit.items() if (fresh in counts if fresh is not None else path in gone)}
    hit = {path: fresh for path, fresh in hit.items() if fresh is not None or path not in known or gone[path].covers(known[path])}
    if not hit:
        return None
    tallies = {fresh: counted(counts[fresh]) for fresh in hit.values() if fresh is not None}
    mask, start = np.ones(origin.num_rows, dtype=np.bool_), 0
    for part in origin.parts():
        for path, rows in part.by_path():
            if path in hit:
                at, fresh = part.position[rows], hit[path]
                mask[start + rows] = tallies[fresh][at] == 0 if fresh is not None else ~_dead(gone[path], at)
        start += part.num_rows
    return mask


def _dead(gone: Slice, positions: np.ndarray) -> Mask:
    """Mask of the `positions` that are in the slice `gone`.  They lived before, so a slice of a whole file holds them all."""
    if gone.only is None:
        return np.ones(len(positions), dtype=np.bool_)
    return np.isin(positions, bitmap_to_numpy(gone.only))
