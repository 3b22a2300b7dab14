"""Writes any number of rows into data files with bounded memory: the rows of each partition are gathered until they fill a file.

The files are written before the commit begins, so a lost put costs no writing.  Where a row is refused, the files that were written are
deleted again: no commit names them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.checks import check_conditions, check_rows, conditions_of
from rowlock.parquet.writing import PartitionValues, split_by_partition, write_file
from rowlock.protocol.actions import AddFile
from rowlock.storage.store import ObjectStore, discard
from rowlock.threads import side_by_side


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
                rows = fitted(table)
                check_rows(rows, snapshot, store.root)
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
