"""The boundary between transactions and the data plane.

An engine keeps rows, reads slices of them and runs a program over them; it decides nothing about
commits.  `engines.spark.engine.SparkEngine` is the one for real tables, `engines.memory.engine.MemoryEngine`
keeps rows in memory.  Both pass the same contract tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from rowlock.boundary.effects import Effects, Mask, Propagated, Provenance, RowBlock, StagedFile
from rowlock.boundary.lost_matches import LostMatches
from rowlock.boundary.row_changes import Change
from rowlock.boundary.row_identity import Identities
from rowlock.boundary.statements import Program
from rowlock.conflict.delta import Slice
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddCdcFile, AddFile


class Engine(Protocol):
    """All methods run on the driver and may be called from several threads."""

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
        """Passes a delta through the program, statement by statement.

        A rebase (`first` is None): `gone` slices name files as they were when the rows lived, `born`
        slices files of `snapshot`; what is in `staged` stays as it is, save for what the caller drops.
        `notes.lost` tells what a MERGE loses with rows that are gone, where the engine noted its
        matches; an engine that notes none reads the gone images instead.

        Staging is the same call with nothing gone, for the statements from number `first` on: `born` are
        the rows of the table that these may change and that no statement before has changed, the images
        in `staged` go through them as well, no insert is decided yet and appended rows enter.

        Raises MultipleMatches where two source rows of a MERGE match one row, and ConstraintViolated
        where a new image breaks NOT NULL or a CHECK constraint.
        """
        ...

    def adopt(self, block: RowBlock, *, before: Snapshot, after: Snapshot) -> RowBlock:
        """A block that was staged under the columns of `before`, under those of `after`: new ones are null, dropped ones go."""
        ...

    def check(self, blocks: Sequence[RowBlock], *, snapshot: Snapshot) -> None:
        """Raises ConstraintViolated where a row of the blocks breaks what `snapshot` demands of its rows."""
        ...

    def check_slices(self, slices: Sequence[Slice], *, snapshot: Snapshot) -> None:
        """Raises ConstraintViolated where a row of data files breaks what `snapshot` demands, which need not be committed yet;
        StatementRefused where a constraint cannot be asked, because it names what is not there.
        """
        ...

    def provenance(self, block: RowBlock) -> Provenance:
        """The origin of each row of a derived or inserted block, in the order of the block."""
        ...

    def keep(self, block: RowBlock, mask: Mask) -> RowBlock:
        """The block without the rows where `mask` is False."""
        ...

    def write(self, blocks: Sequence[RowBlock], *, snapshot: Snapshot, vectors_allowed: bool) -> Sequence[StagedFile]:
        """Turns blocks into data files in their final place, with statistics, synced.

        Files of a block that already is on disk are returned as they are, with `dead` for the rows
        that `keep` took away; without `vectors_allowed` they are written again where that is so.
        """
        ...

    def copy(self, slices: Sequence[Slice], *, snapshot: Snapshot) -> Mapping[str, Sequence[StagedFile]]:
        """Writes the rows of each slice unchanged into new files (copy on write). Keyed by the slice's path."""
        ...

    def write_changes(self, changes: Sequence[Change], *, snapshot: Snapshot) -> Sequence[AddCdcFile]:
        """Writes the changed rows as files of the change data feed, under the table's columns and `_change_type`; synced."""
        ...

    def count(self, file: AddFile) -> int:
        """The physical number of rows of a file whose statistics do not say it."""
        ...

    def differ(self, old: Sequence[Slice], before: Snapshot, new: Sequence[Slice], after: Snapshot, limit: int) -> list[dict[str, Any]]:
        """Up to `limit` rows that are more often among `old` (of `before`) than among `new` (of `after`), or the reverse.

        Empty where the rows are the same and only lie elsewhere.
        """
        ...

    def identities(self, origin: Provenance, *, snapshot: Snapshot) -> Identities:
        """The ids and commit versions of rows of `snapshot`, a version of a table that tracks rows."""
        ...

    def rows_at(self, origin: Provenance, *, snapshot: Snapshot) -> RowBlock:
        """The rows of `snapshot` at these addresses, in this order, as derived rows that are the same as before."""
        ...

    def merged(self, under: RowBlock, over: RowBlock, cells: Mapping[str, Mask], *, snapshot: Snapshot) -> RowBlock:
        """The rows of `under`, with the cells of `over` in each column where its mask is True; row by row, and all else as in `under`."""
        ...

    def differing(self, a: RowBlock, b: RowBlock, *, snapshot: Snapshot) -> Mapping[str, Mask]:
        """For each column in which the blocks differ, in which rows they do; a null is like a null."""
        ...

    def sample(self, slices: Sequence[Slice], limit: int | None, *, snapshot: Snapshot) -> list[dict[str, Any]]:
        """Up to `limit` rows of the slices (None: all) as dicts of plain values, for messages and for comparing images."""
        ...
