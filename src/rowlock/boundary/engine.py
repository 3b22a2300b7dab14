"""The interfaces between transactions and a data plane: `AppendEngine`, and `Engine` for everything.

An engine reads and writes rows and evaluates statements over them; it must decide nothing about commits.
What an append, an ALTER and row ids for old rows need is an `AppendEngine`: `engines.appends.engine.ArrowEngine` is one.
`engines.spark.engine.SparkEngine` serves real tables, `rowlock_simulation.memory.engine.MemoryEngine` keeps rows in memory.
Both pass the same contract tests.

What a `Statement` computes is known to the engine alone (`payload`: Spark plans, or functions over tuples);
what it reads and which rows it can change is stated here in plain values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from rowlock.boundary.effects import Change, Effects, LostMatches, Propagated, RowBlock, StagedFile
from rowlock.boundary.provenance import Mask, Origin, Provenance
from rowlock.boundary.row_identity import Identities
from rowlock.conditions import named
from rowlock.conflict.delta import Slice
from rowlock.exceptions import StatementRefused
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddCdcFile, AddFile
from rowlock.protocol.predicates import Predicate

StatementKind = Literal["update", "delete", "merge", "append", "move"]


@dataclass(frozen=True, slots=True)
class TableRead:
    """A read of a transaction's own table: of all rows, or of those that may meet a condition.

    version  the version that was read
    where    a predicate that keeps every file with a row that was read; None: all files
    rows     the condition, in the engine's own form; None: every row was read
    """

    version: int
    where: Predicate | None = None
    rows: Any = None


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a transaction.

    kind             update, delete, merge; append (rows from outside); move (rows rewritten unchanged: compaction)
    payload          the engine's own form of the statement
    reads            a file-skipping predicate that keeps every file the statement may read or change; None: all files
    only             of a move: the paths to rewrite, in groups; each group becomes one output
    parameters       the statement in words, for operationParameters and messages
    source_reads     what its source rows were read from of this same table; empty where they came from elsewhere
    source_rows      how many rows the source of a MERGE has, as far as the engine says
    sets             columns that the statement assigns, as far as the engine says; of an append the columns that its rows have
    """

    kind: StatementKind
    payload: Any
    reads: Predicate | None = None
    only: tuple[tuple[str, ...], ...] = ()
    parameters: dict[str, Any] = field(default_factory=dict)
    source_reads: tuple[TableRead, ...] = ()
    sets: tuple[str, ...] = ()
    source_rows: int | None = None

    @property
    def touches(self) -> bool:
        """Whether the statement can read or change existing rows: all kinds but append."""
        return self.kind != "append"


Program = Sequence[Statement]


class AppendEngine(Protocol):
    """A data plane for rows that are added.  All methods are called on the driver, also from several threads at once."""

    def write(self, blocks: Sequence[RowBlock], *, snapshot: Snapshot, vectors_allowed: bool) -> Sequence[StagedFile]:
        """Writes blocks as data files in their final place, with statistics, and syncs them.

        A block that is already in files is not written again: its files are returned with `dead` naming the rows that
        `keep` removed.  Without `vectors_allowed`, files with such rows are rewritten.
        """

    def count(self, file: AddFile) -> int:
        """The physical number of rows in a file whose statistics lack numRecords."""

    def adopt(self, block: RowBlock, *, before: Snapshot, after: Snapshot) -> RowBlock:
        """Converts a block from the columns of `before` to those of `after`: new columns are null, dropped columns are left out."""

    def check(self, blocks: Sequence[RowBlock], *, snapshot: Snapshot) -> None:
        """Raises ConstraintViolated if a row of the blocks breaks NOT NULL or a CHECK constraint of `snapshot`."""

    def check_slices(self, slices: Sequence[Slice], *, snapshot: Snapshot) -> None:
        """Raises ConstraintViolated if a row of these data files breaks a constraint of `snapshot`, whose metadata need not be committed yet.

        Raises StatementRefused where a constraint cannot be evaluated, because it names something that does not exist.
        """


class Engine(AppendEngine, Protocol):
    """A data plane that evaluates statements, too.  All methods are called on the driver, also from several threads at once."""

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
        """Runs the program, statement by statement, over the rows of a delta and returns what changes.

        Rebase (`first` is None): `gone` slices refer to files in the state in which the rows still lived, `born` slices to
        files of `snapshot`.  `staged` is left as it is; its caller drops what does not survive.  `lost_matches` says how many
        matches a MERGE loses with the rows that are gone, if the engine recorded its matches in `matched` blocks; an engine
        that records none reads the gone images instead.

        Staging (`first` is a statement number): the same for the statements from number `first` on, with nothing gone.
        `born` are the table rows that these statements may change and that no earlier statement has changed.  The images in
        `staged` pass through the statements too, no insert is decided yet, and appended rows are added.

        Raises MultipleMatches where two source rows of a MERGE match one target row, and ConstraintViolated
        where a new image breaks NOT NULL or a CHECK constraint.
        """

    def provenance(self, block: RowBlock) -> Origin:
        """The origin of each row of a derived or inserted block, in the order of the block."""

    def keep(self, block: RowBlock, mask: Mask) -> RowBlock:
        """The block without the rows where `mask` is False."""

    def copy(self, slices: Sequence[Slice], *, snapshot: Snapshot) -> Mapping[str, Sequence[StagedFile]]:
        """Copies the rows of each slice unchanged into new files (copy on write).  The result is keyed by the slice's path."""

    def write_changes(self, changes: Sequence[Change], *, snapshot: Snapshot) -> Sequence[AddCdcFile]:
        """Writes changed rows as files of the change data feed, with the table's columns and `_change_type`, and syncs them."""

    def differ(
        self, old: Sequence[Slice], before: Snapshot, new: Sequence[Slice], after: Snapshot, limit: int, where: Sequence[Any] = ()
    ) -> list[dict[str, Any]]:
        """Up to `limit` rows by which the multisets `old` (slices of `before`) and `new` (slices of `after`) differ.

        Empty if the rows are the same and only lie in other places.  `where`: conditions in the engine's own form; rows that certainly meet none of them may be left out.
        """

    def identities(self, origin: Provenance, *, snapshot: Snapshot) -> Identities:
        """Row ids and commit versions of the rows of `snapshot` at these addresses, on a table with row tracking."""

    def rows_at(self, origin: Provenance, *, snapshot: Snapshot) -> RowBlock:
        """Reads the rows of `snapshot` at these addresses, in this order, as a derived block of unchanged rows."""

    def merged(self, under: RowBlock, over: RowBlock, cells: Mapping[str, Mask], *, snapshot: Snapshot) -> RowBlock:
        """Overlays cells: row i is row i of `under`, with the value of `over` in each column whose mask in `cells` is True at i."""

    def differing(self, a: RowBlock, b: RowBlock, *, snapshot: Snapshot) -> Mapping[str, Mask]:
        """Compares two blocks row by row: for each column that differs, the mask of rows that do.  Two nulls are equal."""

    def sample(self, slices: Sequence[Slice], limit: int | None, *, snapshot: Snapshot) -> list[dict[str, Any]]:
        """Up to `limit` rows of the slices (None: all of them) as dicts of plain values, for messages and for comparing images."""


def refuse_on_append_only(snapshot: Snapshot, wanted: str = "change or delete rows", what: str = "removing rows") -> None:
    """Raises StatementRefused on an append-only table, even if no row would change, as delta-spark does; a MERGE is judged by what it did, at its commit."""
    if snapshot.properties.append_only:
        text = f"The table is append-only (delta.appendOnly=true); unset the property to {wanted}"
        condition = named("DELTA_CANNOT_MODIFY_APPEND_ONLY", table_name=snapshot.table, config="delta.appendOnly")
        raise StatementRefused(text, what=what, table=snapshot.table, condition=condition)
