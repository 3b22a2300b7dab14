"""The engine's row blocks: rows on the driver, or rows in files that Spark has written.

Rows of changed large results lie in data files that carry, beside the table's columns, where each
row came from (`__rowlock_path`, `__rowlock_pos`); readers of the table pay no heed to them and
compaction leaves them out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64

from rowlock.log.snapshot import Snapshot
from rowlock.protocol import paths
from rowlock.protocol.actions import AddFile
from rowlock.protocol.arrow_types import to_arrow
from rowlock.protocol.deletion_vector import bitmap_to_numpy
from rowlock.protocol.schema import ColumnPath
from rowlock.spark.rows import nullable_schema
from rowlock.spark.scan import PATH, POSITION
from rowlock.transaction.effects import Kind, Mask, Provenance, RowBlock

SOURCE_ROW = "__rowlock_source"


@dataclass(frozen=True, slots=True)
class DriverRows:
    """Rows on the driver, under the table's logical columns; `clustered_by`: the columns in whose order they lie, by their names in files."""

    table: pa.Table
    clustered_by: tuple[ColumnPath, ...] = ()


@dataclass(frozen=True, slots=True)
class FileRows:
    """Rows in staged files, in the order of the files; `dead` holds positions by path that a rebase took away."""

    files: tuple[AddFile, ...]
    dead: dict[str, BitMap64] = field(default_factory=dict)


def driver_block(kind: Kind, statement: int, table: pa.Table, origin: Provenance | None) -> RowBlock:
    return RowBlock(kind, statement, table.num_rows, table.nbytes, DriverRows(table), origin)


def file_block(kind: Kind, statement: int, files: Sequence[AddFile], group: int = 0, origin: Provenance | None = None) -> RowBlock:
    return RowBlock(kind, statement, sum(f.num_records or 0 for f in files), sum(f.size_bytes for f in files), FileRows(tuple(files)), origin, group)


def logical(table: pa.Table, snapshot: Snapshot) -> pa.Table:
    """Rows under the table's own names and types, nullable."""
    wanted = nullable_schema(to_arrow(snapshot.schema))
    return table if table.schema.equals(wanted) else table.rename_columns(wanted.names).cast(wanted)


def keep_rows(block: RowBlock, mask: Mask, origin: Provenance) -> RowBlock:
    """The block without the rows where `mask` is False; `origin` is that of all its rows."""
    kept = origin.take(mask)
    if isinstance(block.payload, DriverRows):
        table = block.payload.table.filter(pa.array(mask))
        return replace(block, num_rows=table.num_rows, size_bytes=table.nbytes, payload=replace(block.payload, table=table), provenance=kept)
    payload: FileRows = block.payload
    dead, at = dict(payload.dead), 0
    for file in payload.files:
        living = living_positions(file, payload.dead)
        taken = living[~mask[at : at + len(living)]]
        at += len(living)
        if len(taken):
            dead[file.path] = dead.get(file.path, BitMap64()) | BitMap64(taken.tolist())
    return replace(block, num_rows=int(mask.sum()), payload=FileRows(payload.files, dead), provenance=kept)


def living_positions(file: AddFile, dead: dict[str, BitMap64]) -> np.ndarray:
    every = np.arange(file.num_records or 0, dtype=np.int64)
    return every[~np.isin(every, bitmap_to_numpy(dead[file.path]))] if dead.get(file.path) else every


def stored_origin(files: Sequence[AddFile], root: str) -> Provenance:
    """The provenance of derived rows, out of the columns that their files carry."""
    names: list[str] = []
    index: dict[str, int] = {}
    codes: list[np.ndarray] = []
    positions: list[np.ndarray] = []
    for file in files:
        table = pq.ParquetFile(paths.join(root, file.path)).read(columns=[PATH, POSITION])
        encoded = pc.dictionary_encode(table.column(PATH)).combine_chunks()
        encoded = encoded.chunk(0) if isinstance(encoded, pa.ChunkedArray) else encoded
        lookup = np.empty(max(1, len(encoded.dictionary)), dtype=np.int32)
        for n, uri in enumerate(encoded.dictionary.to_pylist()):
            path = paths.from_spark_file_path(uri, root)
            lookup[n] = index.setdefault(path, len(names))
            if lookup[n] == len(names):
                names.append(path)
        codes.append(lookup[encoded.indices.to_numpy()])
        positions.append(table.column(POSITION).to_numpy().astype(np.int64))
    return Provenance(tuple(names), _joined(codes, np.int32), _joined(positions, np.int64))


def stored_source_rows(files: Sequence[AddFile], root: str) -> np.ndarray:
    """The numbers of the source rows of a MERGE that files carry."""
    return _joined([pq.ParquetFile(paths.join(root, f.path)).read(columns=[SOURCE_ROW]).column(0).to_numpy().astype(np.int64) for f in files], np.int64)


def _joined(parts: list[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate(parts).astype(dtype) if parts else np.empty(0, dtype=dtype)
