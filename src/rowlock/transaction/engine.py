"""The boundary between transactions and the data plane.

An engine keeps rows, reads slices of them and runs a program over them; it decides nothing about
commits.  `spark.engine.SparkEngine` is the one for real tables, `simulation.engine.MemoryEngine`
keeps rows in memory.  Both pass the same contract tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from rowlock.conflict.delta import Slice
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddFile
from rowlock.transaction.effects import Counts, Mask, Propagated, Provenance, RowBlock, StagedFile
from rowlock.transaction.statements import Program


class Engine(Protocol):
    """All methods run on the driver and may be called from several threads."""

    def propagate(self, program: Program, counts: Mapping[int, Counts], gone: Sequence[Slice], born: Sequence[Slice], *, snapshot: Snapshot, staging: bool, lost: Mapping[int, Counts]) -> Propagated:
        """Passes a delta through the program, statement by statement.

        Staging is the same call with nothing gone, every candidate file born, and `staging` set:
        no insert is decided yet and appended rows enter.  `gone` slices name files as they were
        when the rows lived; `born` slices name files of `snapshot`.  `lost` has, for each MERGE whose
        matches the engine noted in `matched` blocks, the matches that each source row loses with the
        gone rows; an engine that notes none reads the gone images instead.
        Raises MultipleMatches where two source rows of a MERGE match one born row, and
        ConstraintViolated where a new image breaks NOT NULL.
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

    def count(self, file: AddFile) -> int:
        """The physical number of rows of a file whose statistics do not say it."""
        ...

    def sample(self, slices: Sequence[Slice], limit: int | None, *, snapshot: Snapshot) -> list[dict[str, Any]]:
        """Up to `limit` rows of the slices (None: all) as dicts of plain values, for messages and for comparing images."""
        ...
