"""The staged effects of a transaction: tombstones, row blocks and match counts (the words are those of ARCHITECTURE.md).

This module must know neither Spark nor a store.  The format of a block's rows is the engine's own (`payload`);
the provenance of each row, which the transaction layer needs, is kept in plain arrays beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from rowlock.protocol.actions import AddFile
from rowlock.protocol.deletion_vector import bitmap_of

_FRESH = "\0fresh "

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    P = TypeVar("P", covariant=True, default=Any)
    """How an engine holds the rows of a block.  A transaction passes it on and never looks inside, so there it is left open."""
else:
    from typing import TypeVar

    P = TypeVar("P", covariant=True)

Kind = Literal["derived", "inserted", "appended", "matched"]
Counts = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Provenance:
    """The origin of each row of a block, as an address (path, position).

    Derived row i: it replaces the row at physical position `position[i]` of the data file `paths[file[i]]`.
    Inserted row i: `paths[file[i]]` is the `fresh_path` of its MERGE, `position[i]` the number of its source row.
    """

    paths: tuple[str, ...]
    file: npt.NDArray[np.int32]
    position: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        assert len(self.file) == len(self.position)

    def take(self, rows: Mask | npt.NDArray[np.int64]) -> Provenance:
        """The origins of a subset of the rows, chosen by a boolean mask or by row numbers."""
        return Provenance(self.paths, self.file[rows], self.position[rows])

    def by_path(self) -> Iterator[tuple[str, npt.NDArray[np.int64]]]:
        """Yields each path that occurs, with the numbers of the rows that came from it."""
        for n, path in enumerate(self.paths):
            rows = np.flatnonzero(self.file == n)
            if len(rows):
                yield path, rows

    def bitmaps(self) -> dict[str, BitMap64]:
        """The positions as one bitmap for each path."""
        return {path: bitmap_of(self.position[rows]) for path, rows in self.by_path()}


def union_by_path(before: Mapping[str, BitMap64], more: Mapping[str, BitMap64]) -> dict[str, BitMap64]:
    """The union of two sets of row positions, path by path."""
    out = dict(before)
    for path, positions in more.items():
        out[path] = out[path] | positions if path in out else positions
    return out


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
                matched    no rows, but a record of the matches of MERGE `statement`: `payload` (int64) is the source row that each
                           target row matched under ON, so that a rebase need not read old images of rows that are gone.
                           A target row may be one that an earlier MERGE of the same transaction inserted
    provenance  None for appended rows, and where it is stored in files: then the engine loads it on demand
    group       the number of the compaction bin that the rows belong to
    moved       True where the rows are unchanged and only lie in another place
    """

    kind: Kind
    statement: int
    num_rows: int
    size_bytes: int
    payload: P
    provenance: Provenance | None = None
    group: int = 0
    moved: bool = False


@dataclass(frozen=True, slots=True)
class Assigned:
    """Cells that a statement set: `columns` of the table rows at the addresses `origin`.  Used by `on_conflict=lockless`."""

    columns: tuple[str, ...]
    origin: Provenance


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
    counts      by statement number of each MERGE, how many matches each source row has after the delta
    metrics     when staging: numbers of rows that the new statements `updated`, `deleted`, `inserted`
    assigned    when staging: the cells of table rows that the new statements set
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
    """Everything a transaction has staged against one version of the table (its base).

    tombstones  by path, positions of live rows that the transaction deletes or replaces
    blocks      the rows that it adds
    counts      by statement number of each MERGE, how many matches each source row has
    assigned    the cells of table rows that its statements set
    """

    tombstones: Mapping[str, BitMap64] = field(default_factory=dict)
    blocks: tuple[RowBlock, ...] = ()
    counts: Mapping[int, Counts] = field(default_factory=dict)
    assigned: tuple[Assigned, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing would change: no row is deleted, replaced or added."""
        return not any(self.tombstones.values()) and not any(b.num_rows for b in self.blocks if b.kind != "matched")

    @property
    def num_tombstones(self) -> int:
        return sum(len(b) for b in self.tombstones.values())
