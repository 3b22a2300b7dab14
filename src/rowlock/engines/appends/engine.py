"""ArrowEngine: stages and commits appends with pyarrow alone, without Spark (see `boundary.engine.AppendEngine`).

Appended rows are in finished data files before the transaction commits, so a rebase carries the files along unchanged.  A table whose
constraints or generated columns need more of Spark's SQL than every engine decides alike is refused by name before anything is written (I9).
"""

from __future__ import annotations

from collections.abc import Sequence

from rowlock.boundary.effects import RowBlock, StagedFile
from rowlock.conflict.delta import Slice
from rowlock.exceptions import UnsupportedFeature
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.blocks import StagedRows
from rowlock.parquet.checks import check_not_null, undecided
from rowlock.parquet.files import open_parquet
from rowlock.protocol.actions import AddFile
from rowlock.protocol.constraints import Check, checks_of
from rowlock.storage.store import ObjectStore


class ArrowEngine:
    """The engine of appends to one table.  Thread-safe."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def check_appendable(self, snapshot: Snapshot) -> None:
        """Raises UnsupportedFeature for a table with a condition on its rows that only Spark can evaluate, and for generated columns."""
        if (found := undecided(snapshot)) is not None:
            raise _refusal(found, snapshot)

    def adopt(self, block: RowBlock[StagedRows], *, before: Snapshot, after: Snapshot) -> RowBlock[StagedRows]:
        """The block unchanged: its data files name columns by physical names, which no ALTER changes."""
        return block

    def check(self, blocks: Sequence[RowBlock[StagedRows]], *, snapshot: Snapshot) -> None:
        """Raises ConstraintViolated if a column that is NOT NULL in `snapshot` holds a null, UnsupportedFeature where there are other conditions:

        they are asked of rows while these are staged, and not of the files afterwards, so the rows are staged again.
        """
        _refuse_conditions(snapshot)
        for block in blocks:
            check_not_null(block.payload.files, snapshot, self._store)

    def write(self, blocks: Sequence[RowBlock[StagedRows]], *, snapshot: Snapshot, vectors_allowed: bool) -> Sequence[StagedFile]:
        """The files of the blocks, which are written already."""
        return [StagedFile(f) for block in blocks for f in block.payload.files]

    def count(self, file: AddFile) -> int:
        """The physical number of rows in a file, from its footer."""
        with open_parquet(self._store, file.path, file.size_bytes) as source:
            return int(source.metadata.num_rows)

    def check_slices(self, slices: Sequence[Slice], *, snapshot: Snapshot) -> None:
        """Raises ConstraintViolated if a row of these data files has a null where `snapshot` allows none, UnsupportedFeature for other conditions."""
        _refuse_conditions(snapshot)
        check_not_null([s.file for s in slices], snapshot, self._store, {s.path: s.without for s in slices if s.without})


def _refuse_conditions(snapshot: Snapshot) -> None:
    """Raises UnsupportedFeature for a table with any condition on its rows besides NOT NULL."""
    if found := checks_of(snapshot.metadata, snapshot.schema, snapshot.table):
        raise _refusal(found[0], snapshot)


def _refusal(check: Check, snapshot: Snapshot) -> UnsupportedFeature:
    text = f"its rows must meet {check.name}: {check.expression}, which is Spark's SQL"
    return UnsupportedFeature(
        f"rows cannot be appended to this table without Spark: {text}; use rowlock.write(df, path)", feature=check.feature, access="write", table=snapshot.table
    )
