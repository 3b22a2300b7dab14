"""ArrowEngine: stages and commits appends with pyarrow alone, without Spark (see `boundary.engine.Engine`).

Appended rows are in finished data files before the transaction commits, so a rebase carries the files along unchanged.  A table whose
constraints or generated columns need Spark's SQL is refused by name before anything is written (I9).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from rowlock.boundary.effects import Effects, Mask, Propagated, Provenance, RowBlock, StagedFile
from rowlock.boundary.lost_matches import LostMatches
from rowlock.boundary.row_changes import Change
from rowlock.boundary.row_identity import Identities
from rowlock.boundary.statements import Program
from rowlock.conflict.delta import Slice
from rowlock.exceptions import StatementRefused, UnsupportedFeature
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.blocks import FileRows
from rowlock.parquet.files import open_parquet
from rowlock.parquet.not_null import check_not_null
from rowlock.protocol.actions import AddCdcFile, AddFile
from rowlock.protocol.constraints import checks_of
from rowlock.storage.store import ObjectStore


class ArrowEngine:
    """The engine of appends to one table.  Thread-safe."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def check_appendable(self, snapshot: Snapshot) -> None:
        """Raises UnsupportedFeature for a table with a CHECK constraint or a generated column, which only Spark can evaluate."""
        if found := checks_of(snapshot.metadata, snapshot.schema, snapshot.table):
            text = f"its rows must meet {found[0].name}: {found[0].expression}, which is Spark's SQL"
            raise UnsupportedFeature(
                f"rows cannot be appended to this table without Spark: {text}; use rowlock.write(df, path)",
                feature=found[0].feature,
                access="write",
                table=snapshot.table,
            )

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
        """See Engine.  An append neither reads nor changes rows of the table."""
        if any(s.kind != "append" for s in program):
            self._refuse("changing rows")
        if first is None:
            return Propagated({}, (), {})
        entered = [replace(b, statement=n) for n, s in enumerate(program) if n >= first for b in s.payload]
        return Propagated({}, (*staged.blocks, *entered), {})

    def adopt(self, block: RowBlock, *, before: Snapshot, after: Snapshot) -> RowBlock:
        """See Engine.  Data files name their columns physically, and physical names do not change."""
        return block

    def check(self, blocks: Sequence[RowBlock], *, snapshot: Snapshot) -> None:
        self.check_appendable(snapshot)
        for block in blocks:
            check_not_null(_files(block), snapshot, self._store)

    def write(self, blocks: Sequence[RowBlock], *, snapshot: Snapshot, vectors_allowed: bool) -> Sequence[StagedFile]:
        return [StagedFile(f) for block in blocks for f in _files(block)]

    def count(self, file: AddFile) -> int:
        with open_parquet(self._store, file.path, file.size_bytes) as source:
            return int(source.metadata.num_rows)

    def keep(self, block: RowBlock, mask: Mask) -> RowBlock:
        assert mask.all(), "appended rows are never taken back"
        return block

    def provenance(self, block: RowBlock) -> Provenance:
        raise AssertionError("appended rows have no provenance")

    def check_slices(self, slices: Sequence[Slice], *, snapshot: Snapshot) -> None:
        self.check_appendable(snapshot)
        check_not_null([s.file for s in slices], snapshot, self._store, {s.path: s.without for s in slices if s.without})

    def copy(self, slices: Sequence[Slice], *, snapshot: Snapshot) -> Mapping[str, Sequence[StagedFile]]:
        self._refuse("copy on write")

    def write_changes(self, changes: Sequence[Change], *, snapshot: Snapshot) -> Sequence[AddCdcFile]:
        self._refuse("writing a change feed")

    def differ(self, old: Sequence[Slice], before: Snapshot, new: Sequence[Slice], after: Snapshot, limit: int) -> list[dict[str, Any]]:
        self._refuse("comparing rows")

    def identities(self, origin: Provenance, *, snapshot: Snapshot) -> Identities:
        self._refuse("following rows by id")

    def rows_at(self, origin: Provenance, *, snapshot: Snapshot) -> RowBlock:
        self._refuse("changing rows")

    def merged(self, under: RowBlock, over: RowBlock, cells: Mapping[str, Mask], *, snapshot: Snapshot) -> RowBlock:
        self._refuse("changing rows")

    def differing(self, a: RowBlock, b: RowBlock, *, snapshot: Snapshot) -> Mapping[str, Mask]:
        self._refuse("comparing rows")

    def sample(self, slices: Sequence[Slice], limit: int | None, *, snapshot: Snapshot) -> list[dict[str, Any]]:
        self._refuse("showing rows")

    def _refuse(self, what: str) -> NoReturn:
        raise StatementRefused(f"{what} needs Spark: use DeltaTable.forPath(spark, path)", what=what, table=self._store.root)


def _files(block: RowBlock) -> Sequence[AddFile]:
    assert isinstance(block.payload, FileRows)
    return block.payload.files
