"""What a transaction changed, row by row and net, for the change data feed of the version that it becomes.

Judged from its effects at the head, so a rebase needs nothing of its own: what was deleted or updated
is there as tombstones, whose values at the head are the old images; what came of updated rows is there
as derived rows; what was inserted as the other blocks.  A row that several statements changed is there once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyroaring import BitMap64

from rowlock.boundary.effects import Effects, Provenance, RowBlock, StagedFile, united
from rowlock.conflict.delta import Slice
from rowlock.protocol.actions import AddFile
from rowlock.protocol.change_feed import ChangeType


@dataclass(frozen=True, slots=True)
class Change:
    """Rows of one type of change: those of slices of the head, or those of staged blocks."""

    type: ChangeType
    slices: tuple[Slice, ...] = ()
    blocks: tuple[RowBlock, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.slices and not self.blocks


@dataclass(frozen=True, slots=True)
class Loss:
    """A file that loses rows: as it lives at the head, and whether it loses all that it has."""

    file: AddFile
    whole: bool


def changes_of(effects: Effects, live: Mapping[str, AddFile], provenance: Callable[[RowBlock], Provenance]) -> tuple[Change, ...]:
    """The net changes; `live` has the file of every tombstone."""
    blocks = [b for b in effects.blocks if b.kind != "matched" and b.num_rows]
    derived = tuple(b for b in blocks if b.kind == "derived")
    updated: dict[str, BitMap64] = {}
    for block in derived:
        updated = united(updated, provenance(block).bitmaps())
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


def is_told_by_files(effects: Effects, losses: Sequence[Loss], staged: Sequence[StagedFile], *, vectors_allowed: bool) -> bool:
    """Whether readers find all changes in the adds and removes alone, each of them right about them: rows that came
    in new files, whole files that went and had no vector, and (where no rows came) files' first vectors.
    """
    rows = [b for b in effects.blocks if b.kind != "matched" and b.num_rows]
    if any(b.kind == "derived" for b in rows) or any(s.dead for s in staged):
        return False
    first_vectors = vectors_allowed and not rows
    return all(loss.file.deletion_vector is None and (loss.whole or first_vectors) for loss in losses)
