"""The net row changes of a transaction, for the change data feed of the version that it commits.

They are computed from its effects at the head, so a rebase needs no bookkeeping for them.  Tombstones give deleted and
updated rows (their values at the head are the old images), derived rows the new images, all other blocks the inserts.
A row that several statements changed appears once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyroaring import BitMap64

from rowlock.boundary.effects import Effects, RowBlock, StagedFile
from rowlock.boundary.provenance import Origin, union_by_path
from rowlock.conflict.delta import Slice
from rowlock.protocol.actions import AddFile
from rowlock.protocol.change_feed import ChangeType


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
