"""SparkEngine: the data plane of real tables (see `transaction.engine.Engine`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import SparkSession

from rowlock.conflict.delta import Slice
from rowlock.exceptions import UnsupportedFeature
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddFile
from rowlock.spark import compaction, merge, row_statements
from rowlock.spark.blocks import DriverRows, FileRows, keep_rows
from rowlock.spark.copying import copy_slices
from rowlock.spark.plane import Plane
from rowlock.spark.rows import Rows
from rowlock.transaction.effects import Counts, Mask, Propagated, Provenance, RowBlock, StagedFile
from rowlock.transaction.statements import Program
from rowlock.transaction.table_state import TableState


class SparkEngine:
    """Rows in Parquet files, evaluated by Spark.  Driver only; safe from several threads."""

    def __init__(self, spark: SparkSession, state: TableState) -> None:
        self.state = state
        rows = state.shared("rows", lambda: Rows(state.store))
        self.plane = Plane(spark, state.store, rows, state.vectors)

    def propagate(
        self, program: Program, counts: Mapping[int, Counts], gone: Sequence[Slice], born: Sequence[Slice], *, snapshot: Snapshot, staging: bool, lost: Mapping[int, Counts]
    ) -> Propagated:
        """See Engine.  One statement that reads, and appends beside it; a MERGE's gone rows come in `lost`."""
        reading = [(n, s) for n, s in enumerate(program) if s.touches]
        if len(reading) > 1:
            raise UnsupportedFeature("This version runs one reading statement for each transaction", feature="multi-statement transactions", access="write", table=self.state.store.root)
        tombstones: dict[str, BitMap64] = {}
        blocks: list[RowBlock] = []
        after: dict[int, Counts] = {}
        for index, statement in reading:
            if statement.kind == "move":
                if staging:
                    tombstones, blocks = compaction.run(self.plane, statement.only, born, snapshot, index)
            elif statement.kind == "merge":
                run = merge.MergeRun(self.plane, statement.payload, snapshot, index)
                outcome, after[index] = run.run(born, counts.get(index), lost.get(index), staging=staging)
                tombstones, blocks = outcome.tombstones, outcome.blocks
            elif born:
                tombstones, blocks = row_statements.run(self.plane, statement.payload, born, snapshot, index)
        if staging:
            blocks += [b for s in program if s.kind == "append" for b in s.payload]
        read = [] if staging or any(s.kind == "move" for s in program) else list(born)
        return Propagated(tombstones, tuple(blocks), after, rows_read=sum(s.num_rows or 0 for s in read), bytes_read=sum(s.file.size_bytes for s in read if s.only is None))

    def provenance(self, block: RowBlock) -> Provenance:
        assert block.provenance is not None, "appended rows have no provenance"
        return block.provenance

    def keep(self, block: RowBlock, mask: Mask) -> RowBlock:
        if block.kind == "matched":
            assert block.provenance is not None
            return RowBlock("matched", block.statement, int(mask.sum()), block.size_bytes, block.payload[mask], block.provenance.take(mask))
        return keep_rows(block, mask, self.provenance(block))

    def write(self, blocks: Sequence[RowBlock], *, snapshot: Snapshot, vectors_allowed: bool) -> Sequence[StagedFile]:
        """See Engine.  Rows on the driver become one file for each partition and bin."""
        out: list[StagedFile] = []
        tables: dict[int, list[pa.Table]] = {}
        for block in blocks:
            if isinstance(block.payload, DriverRows):
                tables.setdefault(block.group, []).append(_normal(block.payload.table, snapshot))
            elif isinstance(block.payload, FileRows):
                out += self._staged(block.payload, snapshot, vectors_allowed)
        for parts in tables.values():
            table = pa.concat_tables(parts)
            if table.num_rows:
                out += self.plane.rows.write(table, snapshot)
        return out

    def _staged(self, rows: FileRows, snapshot: Snapshot, vectors_allowed: bool) -> list[StagedFile]:
        out: list[StagedFile] = []
        for file in rows.files:
            dead = rows.dead.get(file.path)
            if not dead:
                out.append(StagedFile(file))
            elif len(dead) < (file.num_records or 0):
                out += [StagedFile(file, dead)] if vectors_allowed else copy_slices(self.plane, [Slice(file, without=dead)], snapshot)[file.path]
        return out

    def copy(self, slices: Sequence[Slice], *, snapshot: Snapshot) -> Mapping[str, Sequence[StagedFile]]:
        return copy_slices(self.plane, slices, snapshot)

    def count(self, file: AddFile) -> int:
        return self.plane.rows.num_rows(file)

    def sample(self, slices: Sequence[Slice], limit: int | None, *, snapshot: Snapshot) -> list[dict[str, Any]]:
        out: list[dict[str, Any]] = []
        for piece in slices:
            found = self.plane.rows.read_slice(piece, snapshot)
            if found is None:
                found = (self._scanned(piece, snapshot), np.empty(0, np.int64))
            out += found[0].slice(0, None if limit is None else limit - len(out)).to_pylist()
            if limit is not None and len(out) >= limit:
                break
        return out


    def _scanned(self, piece: Slice, snapshot: Snapshot) -> pa.Table:
        dead = self.plane.dead(piece)
        return self.plane.scanner.frame(snapshot, [piece.file], lambda _: dead).toArrow()


def _normal(table: pa.Table, snapshot: Snapshot) -> pa.Table:
    """Rows under the table's own names and types, nullable."""
    from rowlock.protocol.arrow_types import to_arrow
    from rowlock.spark.rows import nullable_schema

    wanted = nullable_schema(to_arrow(snapshot.schema))
    return table if table.schema.equals(wanted) else table.rename_columns(wanted.names).cast(wanted)
