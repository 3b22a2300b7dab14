"""What a block of staged rows holds in the engines that use Arrow: rows on the driver, or rows in data files that are already written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from rowlock.boundary.effects import Kind, RowBlock
from rowlock.boundary.provenance import Mask, Origin
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.physical import nullable_schema
from rowlock.protocol.actions import AddFile
from rowlock.protocol.arrow_types import to_arrow
from rowlock.protocol.clustering import Clustering
from rowlock.protocol.deletion_vector import bitmap_of, bitmap_to_numpy


@dataclass(frozen=True, slots=True)
class DriverRows:
    """Rows on the driver, with the table's logical columns; `clustering`: the fields of their add action for clustering, where OPTIMIZE clustered them."""

    table: pa.Table
    clustering: Clustering | None = None


@dataclass(frozen=True, slots=True)
class FileRows:
    """Rows in staged files, in the order of the files; `dead`: by path, the positions of rows that a rebase dropped."""

    files: tuple[AddFile, ...]
    dead: dict[str, BitMap64] = field(default_factory=dict)


Rows = DriverRows | FileRows
"""How the Spark engine and the append engine hold the rows of a block."""


def driver_block(kind: Kind, statement: int, table: pa.Table, origin: Origin | None) -> RowBlock[DriverRows]:
    """A block of the rows of an Arrow table on the driver."""
    return RowBlock(kind, statement, table.num_rows, table.nbytes, DriverRows(table), origin)


def file_block(kind: Kind, statement: int, files: Sequence[AddFile], group: int = 0, origin: Origin | None = None) -> RowBlock[FileRows]:
    """A block of the rows of data files that are already written."""
    return RowBlock(kind, statement, sum(f.num_records or 0 for f in files), sum(f.size_bytes for f in files), FileRows(tuple(files)), origin, group)


def logical(table: pa.Table, snapshot: Snapshot) -> pa.Table:
    """Renames and casts rows to the table's logical schema, with every column nullable."""
    wanted = nullable_schema(to_arrow(snapshot.schema))
    return table if table.schema.equals(wanted) else table.rename_columns(wanted.names).cast(wanted)


def keep_rows(block: RowBlock[Rows], mask: Mask, origin: Origin) -> RowBlock[Rows]:
    """The block without the rows where `mask` is False; `origin` is the provenance of all its rows."""
    remaining = origin.take(mask)
    if isinstance(block.payload, DriverRows):
        table = block.payload.table.filter(pa.array(mask))
        return replace(block, num_rows=table.num_rows, size_bytes=table.nbytes, payload=replace(block.payload, table=table), provenance=remaining)
    payload = block.payload
    dead, at = dict(payload.dead), 0
    for file in payload.files:
        living = living_positions(file, payload.dead)
        taken = living[~mask[at : at + len(living)]]
        at += len(living)
        if len(taken):
            dead[file.path] = dead.get(file.path, BitMap64()) | bitmap_of(taken)
    return replace(block, num_rows=int(mask.sum()), payload=FileRows(payload.files, dead), provenance=remaining)


def living_positions(file: AddFile, dead: dict[str, BitMap64]) -> np.ndarray:
    """The sorted physical positions of the file's rows that are not in `dead`."""
    every = np.arange(file.num_records or 0, dtype=np.int64)
    return every[~np.isin(every, bitmap_to_numpy(dead[file.path]))] if dead.get(file.path) else every
