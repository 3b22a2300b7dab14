"""What a transaction has staged: tombstones, row blocks and match counts, in the terms of DESIGN.md.

Nothing here knows Spark or a store.  The rows of a block are the engine's own (`payload`); what the
transaction layer must know of each row, where it came from, is in plain arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from rowlock.protocol.actions import AddFile

_FRESH = "\0fresh "

Kind = Literal["derived", "inserted", "appended", "matched"]
Counts = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where each row of a block came from.

    Of a derived row: `file[i]` indexes `paths`, `position[i]` is its physical row number there.
    Of an inserted row: the path is `fresh_path` of its MERGE, `position[i]` the number of its source row.
    """

    paths: tuple[str, ...]
    file: npt.NDArray[np.int32]
    position: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        assert len(self.file) == len(self.position)

    def take(self, rows: Mask | npt.NDArray[np.int64]) -> Provenance:
        """The origin of some of the rows: those where a mask is True, or those with these numbers."""
        return Provenance(self.paths, self.file[rows], self.position[rows])

    def by_path(self) -> Iterator[tuple[str, npt.NDArray[np.int64]]]:
        """Each path that rows came from, with the numbers of these rows."""
        for n, path in enumerate(self.paths):
            rows = np.flatnonzero(self.file == n)
            if len(rows):
                yield path, rows

    def bitmaps(self) -> dict[str, BitMap64]:
        """The addresses, as one bitmap for each path."""
        return {path: BitMap64(self.position[rows].tolist()) for path, rows in self.by_path()}


def united(before: Mapping[str, BitMap64], more: Mapping[str, BitMap64]) -> dict[str, BitMap64]:
    """All positions of both, by path."""
    out = dict(before)
    for path, positions in more.items():
        out[path] = out[path] | positions if path in out else positions
    return out


def fresh_path(statement: int) -> str:
    """What stands for a path in the address of a row that statement `statement` brought; no file is called so."""
    return f"{_FRESH}{statement}"


def fresh_statement(path: str) -> int | None:
    """The statement of a `fresh_path`, None for the path of a file."""
    return int(path[len(_FRESH) :]) if path.startswith(_FRESH) else None


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Rows that the transaction adds, as the statements staged so far have left them.

    `derived`: in place of existing rows (or copies of them); `inserted`: by the MERGE that is
    statement `statement` of the program; `appended`: from outside, never taken back by a rebase;
    `matched`: no rows of the table but an engine's note of which source rows (`payload`, int64) each
    target row matched under the ON of MERGE `statement`, so that a rebase need not read the images of
    rows that are gone.  A target row may be one that an earlier MERGE of the transaction inserted.
    `provenance` is None for appended rows; the engine loads it on demand where it lies in files.
    `group` is the bin that a compaction put the rows into; `moved` rows are the same as before, in another place.
    """

    kind: Kind
    statement: int
    num_rows: int
    size_bytes: int
    payload: Any
    provenance: Provenance | None = None
    group: int = 0
    moved: bool = False


@dataclass(frozen=True, slots=True)
class Assigned:
    """Rows of the table of which a statement set these columns: the cells that a lockless transaction means."""

    columns: tuple[str, ...]
    origin: Provenance


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A data file that has been written and that no commit names yet.

    `dead`: positions that must not live; `group`: that of the blocks whose rows it holds.
    """

    add: AddFile
    dead: BitMap64 | None = None
    group: int = 0


@dataclass(frozen=True, slots=True)
class Propagated:
    """What `Engine.propagate` made of a delta.

    tombstones  positions of born rows that the program deletes or replaces, by path
    blocks      the new images of born rows, inserts that came to life; at staging also every image that was
                staged before, as the new statements leave it
    counts      for each statement that is a MERGE, the matches of each source row after the delta
    metrics     at staging: rows that the new statements `updated`, `deleted`, `inserted`
    assigned    at staging: which cells of rows of the table the new statements set
    """

    tombstones: Mapping[str, BitMap64]
    blocks: tuple[RowBlock, ...]
    counts: Mapping[int, Counts]
    metrics: Mapping[str, int] = field(default_factory=dict)
    rows_read: int = 0
    bytes_read: int = 0
    assigned: tuple[Assigned, ...] = ()


@dataclass(frozen=True, slots=True)
class Effects:
    """The staged state of a transaction against one version of the table."""

    tombstones: Mapping[str, BitMap64] = field(default_factory=dict)
    blocks: tuple[RowBlock, ...] = ()
    counts: Mapping[int, Counts] = field(default_factory=dict)
    assigned: tuple[Assigned, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not any(self.tombstones.values()) and not any(b.num_rows for b in self.blocks if b.kind != "matched")

    @property
    def num_tombstones(self) -> int:
        return sum(len(b) for b in self.tombstones.values())
