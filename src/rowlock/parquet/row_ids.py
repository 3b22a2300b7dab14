"""Row ids and commit versions as data files hold them, in materialized columns: reads them, and gives them to rows that are written (I6)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rowlock.boundary.row_identity import NONE, Identities, Materialized, Numbers
from rowlock.caches import ROW_IDS, Cache
from rowlock.parquet.files import open_parquet
from rowlock.protocol.actions import AddFile
from rowlock.protocol.row_tracking import MaterializedColumns
from rowlock.storage.store import ObjectStore

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
        self._kept: Cache[Stored] = Cache(ROW_IDS, lambda stored: 128 + sum(held.nbytes for held in stored if held is not None))

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
        with open_parquet(self._store, file.path, file.size_bytes) as source:
            return int(source.metadata.num_rows)

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
