"""The staged effects of a transaction: tombstones, row blocks and match counts (the words are those of ARCHITECTURE.md).

This module must know neither Spark nor a store.  The format of a block's rows is the engine's own (`payload`);
the provenance of each row, which the transaction layer needs, is kept beside it, or in the staged files (`boundary.provenance`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal

from pyroaring import BitMap64

from rowlock.boundary.provenance import Counts, Origin, StoredCounts
from rowlock.protocol.actions import AddFile

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
