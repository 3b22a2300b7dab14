"""Reads the row ids and commit versions that data files hold in materialized columns (I6)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rowlock.boundary.row_identity import NONE, Materialized, Numbers
from rowlock.caches import ROW_IDS, Cache
from rowlock.parquet.files import open_parquet
from rowlock.protocol.actions import AddFile
from rowlock.protocol.row_tracking import MaterializedColumns
from rowlock.storage.store import ObjectStore

Stored = tuple[npt.NDArray[np.int64] | None, npt.NDArray[np.int64] | None]


class MaterializedIds:
    """Reads and caches the row ids and commit versions that data files hold in materialized columns.  Thread-safe; driver only."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._kept: Cache[Stored] = Cache(ROW_IDS, _size)

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


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    return np.asarray(pc.fill_null(column.cast(pa.int64()), NONE).to_numpy(), dtype=np.int64)


def _size(stored: Stored) -> int:
    return 128 + sum(held.nbytes for held in stored if held is not None)
