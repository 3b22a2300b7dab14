"""Reads and writes few rows on the driver as Arrow tables, with a cache: small data files, single rows of large ones, and the row ids and
commit versions that data files hold in materialized columns (I6).

Data files never change, so cached rows never go stale.  The values must be those that Spark would read
(see `parquet.reading`); where that is not certain the methods return None and Spark must read the file.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rowlock.boundary.effects import StagedFile
from rowlock.boundary.row_identity import NONE, Identities, Materialized, Numbers
from rowlock.caches import COLUMNS, ROW_IDS, ROWS, Cache
from rowlock.conflict.delta import Slice
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.files import num_rows, open_parquet
from rowlock.parquet.physical import Doubtful, names_in_files, rows_schema
from rowlock.parquet.reading import logical_rows, read_file
from rowlock.parquet.variants import has_variant
from rowlock.parquet.writing import write_rows
from rowlock.protocol.actions import AddFile
from rowlock.protocol.column_mapping import is_mapped
from rowlock.protocol.deletion_vector import bitmap_to_numpy, living_mask
from rowlock.protocol.row_tracking import MaterializedColumns
from rowlock.storage.store import ObjectStore


class Rows:
    """Reads and writes small numbers of rows of one table on the driver."""

    def __init__(self, store: ObjectStore) -> None:
        self.store, self.case_sensitive = store, False
        self.cache: Cache[pa.Table] = Cache(ROWS, _size_of)
        self.columns: Cache[pa.Table] = Cache(COLUMNS, _size_of)

    def forget(self) -> None:
        """Empties the caches, after another table was created at the same path."""
        self.cache.clear()
        self.columns.clear()

    def of_session(self, *, case_sensitive: bool) -> Rows:
        """The reader for a Spark session: where it is `case_sensitive`, files whose column names differ by case are left to Spark."""
        if not case_sensitive:
            return self
        reader = Rows(self.store)
        reader.case_sensitive = True
        return reader

    def read(self, file: AddFile, snapshot: Snapshot) -> pa.Table | None:
        """All physical rows of a file under the table's logical columns; None where Spark must read the file."""
        if (cached := self._cached(file, snapshot)) is not None:
            return cached
        table = self._read(file, snapshot, rows_schema(snapshot), None)
        if table is not None:
            self.cache.put(_key(file, snapshot), table)
        return table

    def _cached(self, file: AddFile, snapshot: Snapshot) -> pa.Table | None:
        """The rows of a file, where they are cached under the present schema."""
        cached = self.cache.get(_key(file, snapshot))
        return cached if cached is not None and cached.schema.equals(rows_schema(snapshot)) else None

    def read_positions(self, file: AddFile, positions: np.ndarray[Any, Any], snapshot: Snapshot) -> pa.Table | None:
        """The rows at sorted physical positions, reading only the row groups that hold them; None where Spark must read the file."""
        if (cached := self._cached(file, snapshot)) is not None:
            return cached.take(pa.array(positions))
        return self._read(file, snapshot, rows_schema(snapshot), positions)

    def read_slice(self, piece: Slice, snapshot: Snapshot) -> tuple[pa.Table, np.ndarray[Any, Any]] | None:
        """The rows of a slice and their physical positions; None where Spark must read the file."""
        if piece.only is not None:
            positions = bitmap_to_numpy(piece.only)
            table = self.read_positions(piece.file, positions, snapshot)
            return None if table is None else (table, positions)
        table = self.read(piece.file, snapshot)
        if table is None:
            return None
        if not piece.without:
            return table, np.arange(table.num_rows, dtype=np.int64)
        mask = living_mask(table.num_rows, piece.without, piece.file.path, snapshot.table)
        return table.filter(pa.array(mask)), np.flatnonzero(mask).astype(np.int64)

    def read_columns(self, file: AddFile, names: Sequence[str], snapshot: Snapshot) -> pa.Table | None:
        """Some columns of all physical rows of a file; None where Spark must read it.

        Cached column by column, because successive statements read the same columns.
        """
        of_file, stored = _key(file, snapshot), names_in_files(snapshot)
        keys = {n: (*of_file, stored[n]) for n in names}
        wanted = rows_schema(snapshot)
        found = {n: self.columns.get(keys[n]) for n in names}
        # A field of a struct may have come or gone.
        missing = [n for n, column in found.items() if column is None or column.schema.field(0).type != wanted.field(n).type]
        if missing:
            table = self._read(file, snapshot, pa.schema([wanted.field(n) for n in missing]), None)
            if table is None:
                return None
            for name in missing:
                found[name] = table.select([name])
                self.columns.put(keys[name], table.select([name]))
        return pa.table([t.column(0) for t in found.values() if t is not None], names=list(names))

    def read_at(self, file: AddFile, positions: np.ndarray[Any, Any], names: Sequence[str], snapshot: Snapshot) -> pa.Table | None:
        """Some columns of the rows at physical positions, taken from the cached columns; None where Spark must read the file."""
        table = self.read_columns(file, names, snapshot)
        return None if table is None else table.take(pa.array(positions))

    def _read(self, file: AddFile, snapshot: Snapshot, wanted: pa.Schema, positions: np.ndarray[Any, Any] | None) -> pa.Table | None:
        if any(has_variant(f.type) for f in wanted):
            return None  # Spark alone computes with variants
        try:
            return read_file(self.store, file, snapshot, wanted, positions, case_sensitive=self.case_sensitive)
        except Doubtful:
            return None

    def write(self, table: pa.Table, snapshot: Snapshot, *, folder: str | None = None) -> list[StagedFile]:
        """Writes rows into data files (see `write_rows`) and caches the rows of table files for later statements."""
        out = []
        for add, rows in write_rows(self.store, table, snapshot, folder=folder):
            if not folder and not any(has_variant(f.type) for f in rows.schema):
                # As they will be read: an empty partition value is null.
                self.cache.put(_key(add, snapshot), logical_rows(rows, rows.num_rows, add, snapshot, rows_schema(snapshot)))
            out.append(StagedFile(add))
        return out


def _key(file: AddFile, snapshot: Snapshot) -> tuple[Hashable, ...]:
    """The cache key of a file's rows.  With column mapping it includes the schema, since renames may swap the names of two columns."""
    return snapshot.metadata.id, file.content, snapshot.metadata.schema_string if is_mapped(snapshot.metadata.configuration) else None


def _size_of(table: pa.Table) -> int:
    """About what a table takes in memory: of a few rows that is mostly what Arrow keeps for each column, and for each field of a struct."""
    return 1024 + int(table.nbytes) + 1280 * sum(map(_nodes, table.schema.types))


def _nodes(type_: pa.DataType) -> int:
    return 1 + sum(_nodes(type_.field(n).type) for n in range(type_.num_fields))


Stored = tuple[npt.NDArray[np.int64] | None, npt.NDArray[np.int64] | None]


def with_identities(table: pa.Table, found: Identities, columns: MaterializedColumns) -> pa.Table:
    """The rows with two more columns, the ids and commit versions that they keep; null where a row keeps none (see `without_empty`)."""
    for name, numbers in zip(columns.names, (found.ids, found.commit_versions), strict=True):
        table = table.append_column(name, pa.array(numbers, pa.int64(), mask=numbers == NONE))
    return table


def without_empty(table: pa.Table, columns: MaterializedColumns) -> pa.Table:
    """The rows without those of the two columns that are null in every row: such a column need not be in the file."""
    return table.drop_columns([n for n in columns.names if table.column(n).null_count == table.num_rows])


class MaterializedIds:
    """Reads and caches the row ids and commit versions that data files hold in materialized columns.  Thread-safe; driver only."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._kept: Cache[Stored] = Cache(ROW_IDS, lambda stored: 700 + sum(held.nbytes for held in stored if held is not None))

    def forget(self) -> None:
        """Empties the cache; needed where another table was created at the same place."""
        self._kept.clear()

    def at(self, columns: MaterializedColumns) -> Materialized:
        """A function that reads the ids and commit versions of rows from these columns (see `row_identity.Materialized`)."""

        def found(file: AddFile, positions: Numbers) -> tuple[Numbers, Numbers]:
            nothing = np.full(len(positions), NONE, np.int64)
            ids, versions = (nothing if held is None else held[positions] for held in self._stored(file, columns))
            return ids, versions

        return found

    def count(self, file: AddFile) -> int:
        """The physical number of rows in a file, from its footer."""
        return num_rows(self._store, file.path, file.size_bytes)

    def _stored(self, file: AddFile, columns: MaterializedColumns) -> Stored:
        key = (file.content, columns)
        if (found := self._kept.get(key)) is not None:
            return found
        with open_parquet(self._store, file.path, file.size_bytes) as source:
            names = set(source.schema_arrow.names)
            held = [_numbers(source.read(columns=[name]).column(0)) if name in names else None for name in columns.names]
        stored = held[0], held[1]
        self._kept.put(key, stored)
        return stored


def held_ids(rows: pa.Table, columns: MaterializedColumns, num_rows: int) -> tuple[Numbers, Numbers]:
    """The (ids, commit versions) of `num_rows` rows that were read with those of the two columns that their file has."""
    ids, versions = (_numbers(rows.column(n)) if n in rows.column_names else np.full(num_rows, NONE, np.int64) for n in columns.names)
    return ids, versions


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    return np.asarray(pc.fill_null(column.cast(pa.int64()), NONE).to_numpy(), dtype=np.int64)
