"""Where the rows of large results came from, out of the files that Spark has written.

Rows of changed or moved large results lie in data files that carry, beside the table's columns, where each row
came from (`__rowlock_path`, and `__rowlock_pos` in two parts); readers of the table pay no heed to them and the next
compaction leaves them out.  Where a row lies in a new file is read from there and never concluded from the
order in which the rows were given to Spark: what writes them may put them in another, or into several files.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F

from rowlock.boundary.effects import Provenance
from rowlock.engines.spark.read.scan import PATH, POSITION
from rowlock.engines.spark.session.clouds import spark_root
from rowlock.parquet.files import open_parquet
from rowlock.protocol import paths
from rowlock.protocol.actions import AddFile
from rowlock.storage.store import ObjectStore

SOURCE_ROW = "__rowlock_source"
_HIGH, _LOW = f"{POSITION}_high", f"{POSITION}_low"
_LOW_BITS = 10


def stored_position() -> list[Column]:
    """POSITION as data files carry it: of rows in the order of their old file the one part hardly changes and the other
    repeats, which Parquet keeps in a bit or two for each row instead of eight bytes."""
    return [F.shiftright(POSITION, _LOW_BITS).cast("int").alias(_HIGH), F.col(POSITION).bitwiseAND(F.lit((1 << _LOW_BITS) - 1)).cast("int").alias(_LOW)]


def stored_origin(files: Sequence[AddFile], store: ObjectStore) -> Provenance:
    """The provenance of derived rows, out of the columns that their files carry."""
    names: list[str] = []
    index: dict[str, int] = {}
    codes: list[np.ndarray] = []
    positions: list[np.ndarray] = []
    root = spark_root(store)
    for file in files:
        with open_parquet(store, file.path, file.size_bytes) as source:
            table = source.read(columns=[PATH, _HIGH, _LOW])
        encoded = pc.dictionary_encode(table.column(PATH)).combine_chunks()
        encoded = encoded.chunk(0) if isinstance(encoded, pa.ChunkedArray) else encoded
        lookup = np.empty(max(1, len(encoded.dictionary)), dtype=np.int32)
        for n, uri in enumerate(encoded.dictionary.to_pylist()):
            path = paths.from_spark_file_path(uri, root)
            lookup[n] = index.setdefault(path, len(names))
            if lookup[n] == len(names):
                names.append(path)
        codes.append(lookup[encoded.indices.to_numpy()])
        high, low = (table.column(n).to_numpy().astype(np.int64) for n in (_HIGH, _LOW))
        positions.append((high << _LOW_BITS) | low)
    return Provenance(tuple(names), _joined(codes, np.int32), _joined(positions, np.int64))


def stored_source_rows(files: Sequence[AddFile], store: ObjectStore) -> np.ndarray:
    """The numbers of the source rows of a MERGE that files carry."""
    parts = []
    for file in files:
        with open_parquet(store, file.path, file.size_bytes) as source:
            parts.append(source.read(columns=[SOURCE_ROW]).column(0).to_numpy().astype(np.int64))
    return _joined(parts, np.int64)


def _joined(parts: list[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate(parts).astype(dtype) if parts else np.empty(0, dtype=dtype)
