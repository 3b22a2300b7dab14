"""Reads the origin of rows from files that Spark has written for large results.

Such data files hold, beside the table's columns, where each row came from (`__rowlock_path`, and `__rowlock_pos` in two
parts).  Readers of the table ignore these columns and the next compaction drops them.  The origin is never concluded from the
order in which Spark got the rows: its writer may change that order or split the rows into several files.
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
    """POSITION as data files hold it, in a high and a low part.

    For rows in the order of their old file the high part hardly changes and the low part repeats, which Parquet encodes
    in a bit or two for each row instead of eight bytes.
    """
    return [F.shiftright(POSITION, _LOW_BITS).cast("int").alias(_HIGH), F.col(POSITION).bitwiseAND(F.lit((1 << _LOW_BITS) - 1)).cast("int").alias(_LOW)]


def stored_origin(files: Sequence[AddFile], store: ObjectStore) -> Provenance:
    """The provenance of the rows of `files`, read from the columns for it."""
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
    return Provenance(tuple(names), _concatenated(codes, np.int32), _concatenated(positions, np.int64))


def stored_source_rows(files: Sequence[AddFile], store: ObjectStore) -> np.ndarray:
    """The number of the source row of each row that a MERGE wrote, read from the files."""
    parts = []
    for file in files:
        with open_parquet(store, file.path, file.size_bytes) as source:
            parts.append(source.read(columns=[SOURCE_ROW]).column(0).to_numpy().astype(np.int64))
    return _concatenated(parts, np.int64)


def _concatenated(parts: list[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate(parts).astype(dtype) if parts else np.empty(0, dtype=dtype)
