"""What a block of staged rows holds in the engines that use Arrow: rows on the driver, or rows in data files that are already written.

Rows on the driver are converted where the table's schema has changed since they were staged.  Columns are matched by column id where the table
has column mapping, else by name.  Types must be the same in both: after a type change the statement is staged again instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from rowlock.boundary.effects import Kind, RowBlock
from rowlock.boundary.provenance import Mask, Origin
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.physical import nullable_type, rows_schema
from rowlock.protocol.actions import AddFile
from rowlock.protocol.arrow_types import to_arrow_type
from rowlock.protocol.deletion_vector import bitmap_of, bitmap_to_numpy
from rowlock.protocol.schema import StructField, StructType


@dataclass(frozen=True, slots=True)
class StagedRows:
    """The rows of a block: those of `tables` on the driver, with the table's logical columns, then those of `files` that are already written.

    dead  by path, the positions of rows of the files that a rebase dropped
    """

    tables: tuple[pa.Table, ...] = ()
    files: tuple[AddFile, ...] = ()
    dead: Mapping[str, BitMap64] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        return sum(int(t.nbytes) for t in self.tables) + sum(f.size_bytes for f in self.files)

    def keep(self, mask: Mask) -> StagedRows:
        """The rows where `mask` is True."""
        tables, dead, at = [], dict(self.dead), 0
        for table in self.tables:
            tables.append(table.filter(pa.array(mask[at : at + table.num_rows])))
            at += table.num_rows
        for file in self.files:
            living = living_positions(file, self.dead)
            taken = living[~mask[at : at + len(living)]]
            at += len(living)
            if len(taken):
                dead[file.path] = dead.get(file.path, BitMap64()) | bitmap_of(taken)
        return replace(self, tables=tuple(tables), dead=dead)


def driver_block(kind: Kind, statement: int, table: pa.Table, origin: Origin | None) -> RowBlock[StagedRows]:
    """A block of the rows of an Arrow table on the driver."""
    return RowBlock(kind, statement, table.num_rows, table.nbytes, StagedRows((table,)), origin)


def file_block(kind: Kind, statement: int, files: Sequence[AddFile], origin: Origin | None = None) -> RowBlock[StagedRows]:
    """A block of the rows of data files that are already written."""
    return RowBlock(kind, statement, sum(f.num_records or 0 for f in files), sum(f.size_bytes for f in files), StagedRows(files=tuple(files)), origin)


def logical(table: pa.Table, snapshot: Snapshot) -> pa.Table:
    """Renames and casts rows to the table's logical schema, with every column nullable."""
    wanted = rows_schema(snapshot)
    return table if table.schema.equals(wanted) else table.rename_columns(wanted.names).cast(wanted)


def keep_rows(block: RowBlock[StagedRows], mask: Mask, origin: Origin) -> RowBlock[StagedRows]:
    """The block without the rows where `mask` is False; `origin` is the provenance of all its rows."""
    rows = block.payload.keep(mask)
    return replace(block, num_rows=int(mask.sum()), size_bytes=rows.size_bytes, payload=rows, provenance=origin.take(mask))


def living_positions(file: AddFile, dead: Mapping[str, BitMap64]) -> np.ndarray:
    """The sorted physical positions of the file's rows that are not in `dead`."""
    every = np.arange(file.num_records or 0, dtype=np.int64)
    return every[~np.isin(every, bitmap_to_numpy(dead[file.path]))] if dead.get(file.path) else every


def recast(table: pa.Table, before: StructType, after: StructType) -> pa.Table:
    """The rows with the columns of `after`: new columns are null, dropped columns are left out."""
    rows = table.combine_chunks()
    columns = [
        _column(rows.column(before.fields.index(old)), old, f) if (old := _matching_field(before, f)) is not None else pa.nulls(rows.num_rows, _nullable(f))
        for f in after.fields
    ]
    return pa.Table.from_arrays(columns, schema=pa.schema([pa.field(f.name, c.type, True) for f, c in zip(after.fields, columns, strict=True)]))


def _matching_field(before: StructType, field: StructField) -> StructField | None:
    if field.column_id is not None:
        return next((f for f in before.fields if f.column_id == field.column_id), None)
    return before.find(field.name)


def _nullable(field: StructField) -> pa.DataType:
    return nullable_type(to_arrow_type(field.type))


def _column(column: Any, old: StructField, new: StructField) -> Any:
    if not (isinstance(old.type, StructType) and isinstance(new.type, StructType)) or column.type == _nullable(new):
        return column
    held = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    held = held.chunk(0) if isinstance(held, pa.ChunkedArray) else held
    parts = []
    for f in new.type.fields:
        before = _matching_field(old.type, f)
        parts.append(pa.nulls(len(held), _nullable(f)) if before is None else _column(pc.struct_field(held, [old.type.fields.index(before)]), before, f))
    fields = [pa.field(f.name, p.type, True) for f, p in zip(new.type.fields, parts, strict=True)]
    return pa.StructArray.from_arrays(parts, fields=fields, mask=pc.is_null(held))
