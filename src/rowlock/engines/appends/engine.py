"""ArrowEngine: stages and commits appends with pyarrow alone, without Spark (see `boundary.engine.AppendEngine`).

Appended rows are in finished data files before the transaction commits, so a rebase carries the files along unchanged.  A table whose
constraints or generated columns need more of Spark's SQL than every engine decides alike is refused by name before anything is written (I9).  Where a row is
refused, the files that were written are deleted again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from rowlock.boundary.effects import RowBlock, StagedFile
from rowlock.conflict.delta import Slice
from rowlock.exceptions import UnsupportedFeature
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.blocks import StagedRows
from rowlock.parquet.checks import check_conditions, check_not_null, check_rows, conditions_of, undecided
from rowlock.parquet.files import num_rows
from rowlock.parquet.writing import PartitionValues, split_by_partition, write_file
from rowlock.protocol.actions import AddFile
from rowlock.protocol.constraints import Check, checks_of
from rowlock.storage.store import ObjectStore, discard
from rowlock.threads import side_by_side


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
        return num_rows(self._store, file.path, file.size_bytes)

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
    text = f"rows cannot be appended to this table without Spark: {text}; use rowlock.write(df, path)"
    return UnsupportedFeature(text, feature=check.feature, access="write", table=snapshot.table)


@dataclass(slots=True)
class _Heap:
    """Rows of one partition that are held and not written yet, and the files of those that were written."""

    values: PartitionValues
    parts: list[pa.Table] = field(default_factory=list)
    size_bytes: int = 0
    files: list[AddFile] = field(default_factory=list)

    def taken(self) -> pa.Table:
        rows, self.parts, self.size_bytes = pa.concat_tables(self.parts), [], 0
        return rows


def stage_rows(
    store: ObjectStore, snapshot: Snapshot, tables: Iterable[pa.Table], fitted: Callable[[pa.Table], pa.Table], max_records: int | None = None
) -> list[AddFile]:
    """Writes rows into data files of `snapshot`'s table and returns their add actions, which no commit names yet; no files for no rows.

    `max_records`: how many rows a file holds at most.

    Raises what `fitted` raises, and ConstraintViolated for a null that may not be and for a row that breaks a CHECK constraint.
    """
    writer, conditions = _Writer(store, snapshot, max_records), conditions_of(snapshot)
    try:
        for table in tables:
            if table.num_rows:
                rows = check_rows(fitted(table), snapshot, store.root)
                check_conditions(rows, conditions, snapshot.schema, store.root)
                writer.add(rows)
        writer.finish()
    except BaseException:
        discard(store, (f.path for f in writer.files))
        raise
    return writer.files


class _Writer:
    def __init__(self, store: ObjectStore, snapshot: Snapshot, max_records: int | None) -> None:
        self._store, self._snapshot, self._max_records = store, snapshot, max_records
        self._heaps: dict[tuple[str | None, ...], _Heap] = {}
        self._held = 0

    @property
    def files(self) -> list[AddFile]:
        """What was written, in the order of each partition's first row: the ids of the rows follow from it, whichever file was done first."""
        return [file for heap in self._heaps.values() for file in heap.files]

    def add(self, rows: pa.Table) -> None:
        for values, part in split_by_partition(rows, self._snapshot):
            heap = self._heaps.setdefault(tuple(values.values()), _Heap(values))
            heap.parts.append(part)
            heap.size_bytes += part.nbytes
            self._held += part.nbytes
            if heap.size_bytes >= limits().append_file_bytes:
                self._write(heap)
        while self._held > limits().append_held_bytes:
            self._write(max(self._heaps.values(), key=lambda h: h.size_bytes))

    def finish(self) -> None:
        """Writes the rows that are left; several files at the same time."""
        side_by_side(self._write, [h for h in self._heaps.values() if h.parts], limits().file_threads)

    def _write(self, heap: _Heap) -> None:
        self._held -= heap.size_bytes
        rows = heap.taken()
        most = self._max_records or rows.num_rows
        for at in range(0, rows.num_rows, most):
            file, _ = write_file(self._store, rows.slice(at, most), heap.values, self._snapshot)
            heap.files.append(file)
