"""SparkEngine, the data plane of real tables: implements `boundary.engine.Engine` with rows in Parquet files and Spark."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from rowlock.boundary.effects import Change, Effects, LostMatches, Propagated, RowBlock, StagedFile
from rowlock.boundary.engine import Program
from rowlock.boundary.provenance import Mask, Origin, Provenance
from rowlock.boundary.row_identity import Identities, columns_of, identities, preserved_identities
from rowlock.conflict.delta import Slice
from rowlock.engines.spark import driver_rows
from rowlock.engines.spark.catalyst.errors import missing_files_named
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.plan import Planner
from rowlock.engines.spark.read.scan import table_schema
from rowlock.engines.spark.session.clouds import open_files, options_of_session
from rowlock.engines.spark.statements.append import append_blocks, conform
from rowlock.engines.spark.statements.constraint_checks import check_blocks, check_slices
from rowlock.engines.spark.statements.passage import Passage
from rowlock.engines.spark.statements.row_comparison import differing, differing_rows, merged
from rowlock.engines.spark.write.writer import copy_slices, write_changes
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.blocks import StagedRows, driver_block, keep_rows, logical, recast
from rowlock.parquet.rows import Rows, without_empty
from rowlock.parquet.values import plain_rows
from rowlock.protocol.actions import AddCdcFile, AddFile
from rowlock.protocol.column_values import Identity
from rowlock.protocol.deletion_vector import bitmap_of
from rowlock.storage import hadoop
from rowlock.transaction.definition.identity import Numbers
from rowlock.transaction.state.shared import SharedState

hadoop.serve(open_files, options_of_session)


class SparkEngine:
    """The engine of one table on one Spark session.  Driver only; thread-safe."""

    def __init__(self, spark: SparkSession, state: SharedState) -> None:
        rows = state.shared("rows", lambda: Rows(state.store))
        held = weakref.ref(state)  # it holds this engine: a cycle would keep the table, and the session's settings of now, until a collection

        def numbers(columns: Sequence[Identity]) -> Numbers:
            there = held()
            assert there is not None, "a handle that uses the engine holds the state"
            return Numbers(there, columns)

        self.evaluator = Evaluator(spark, state.store, rows, state.vectors, numbers)
        self.planner = Planner(self.evaluator)

    def forget(self) -> None:
        """Empties all caches (see `SharedState.shared`)."""
        self.evaluator.forget()

    def propagate(
        self,
        program: Program,
        staged: Effects,
        gone: Sequence[Slice],
        born: Sequence[Slice],
        *,
        snapshot: Snapshot,
        lost_matches: LostMatches,
        first: int | None = None,
    ) -> Propagated:
        """Runs a program over rows gone and born (see `Engine.propagate`).  Never reads gone rows: a block of kind `matched` holds every match of a MERGE."""
        passage = Passage(self.evaluator, program, staged, snapshot, lost_matches, first)
        with missing_files_named(snapshot):
            passage.run(born)
        blocks = (*passage.images, *passage.matched)
        read = [] if first is not None or any(s.kind == "move" for s in program) else list(born)
        return Propagated(
            passage.tombstones,
            blocks,
            passage.counts,
            passage.rows,
            rows_read=sum(s.num_rows or 0 for s in read),
            bytes_read=sum(s.file.size_bytes for s in read if s.only is None),
            assigned=tuple(passage.assigned),
            ways=tuple(passage.ways.lines),
        )

    def provenance(self, block: RowBlock) -> Origin:
        assert block.provenance is not None, "appended rows have no provenance"
        return block.provenance

    def keep(self, block: RowBlock, mask: Mask) -> RowBlock:
        if block.kind == "matched":
            assert block.provenance is not None
            return replace(block, num_rows=int(mask.sum()), payload=block.payload.take(mask), provenance=block.provenance.take(mask))
        return keep_rows(block, mask, self.provenance(block))

    def write(self, blocks: Sequence[RowBlock], *, snapshot: Snapshot, vectors_allowed: bool) -> Sequence[StagedFile]:
        """Writes blocks as data files: rows on the driver become one file for each partition and bin of a compaction; blocks in files stay as they are."""
        out: list[StagedFile] = []
        tables: dict[int, list[pa.Table]] = {}
        columns = columns_of(snapshot)
        for block in blocks:
            for table in block.payload.tables:
                rows = self.evaluator.with_ids(logical(table, snapshot), snapshot, partial(preserved_identities, block, snapshot))
                tables.setdefault(block.group, []).append(rows)
            out += [replace(s, group=block.group) for s in self._staged(block.payload, snapshot, vectors_allowed)]
        for group, parts in tables.items():
            table = pa.concat_tables(parts)
            if columns is not None:
                table = without_empty(table, columns)
            if table.num_rows:
                out += [replace(s, group=group) for s in self.evaluator.rows.write(table, snapshot)]
        return out

    def write_frame(self, frame: DataFrame, *, snapshot: Snapshot, max_records: int | None = None, gives_generated: bool = False) -> list[AddFile]:
        """Writes the rows of a DataFrame as data files of `snapshot`'s table, which may not be there yet (see `append_blocks`).  Raises SchemaMismatch, ConstraintViolated."""
        rows = conform(frame, table_schema(snapshot), snapshot.table)
        blocks = append_blocks(self.evaluator, snapshot, rows, gives_generated=gives_generated, max_records=max_records)
        return [s.add for s in self.write(blocks, snapshot=snapshot, vectors_allowed=True)]

    def _staged(self, rows: StagedRows, snapshot: Snapshot, vectors_allowed: bool) -> list[StagedFile]:
        out: list[StagedFile] = []
        for file in rows.files:
            dead = rows.dead.get(file.path)
            if not dead:
                out.append(StagedFile(file))
            elif len(dead) < (file.num_records or 0):
                out += [StagedFile(file, dead)] if vectors_allowed else copy_slices(self.evaluator, [Slice(file, without=dead)], snapshot)[file.path]
        return out

    def adopt(self, block: RowBlock, *, before: Snapshot, after: Snapshot) -> RowBlock:
        """The block with the columns of `after`: only rows on the driver are changed, for data files hold physical column names, which stay."""
        if block.kind == "matched":
            return block
        tables = tuple(recast(logical(table, before), before.schema, after.schema) for table in block.payload.tables)
        return replace(block, payload=replace(block.payload, tables=tables))

    def check(self, blocks: Sequence[RowBlock], *, snapshot: Snapshot) -> None:
        check_blocks(self.evaluator, blocks, snapshot)

    def check_slices(self, slices: Sequence[Slice], *, snapshot: Snapshot) -> None:
        check_slices(self.evaluator, slices, snapshot)

    def copy(self, slices: Sequence[Slice], *, snapshot: Snapshot) -> Mapping[str, Sequence[StagedFile]]:
        with missing_files_named(snapshot):
            return copy_slices(self.evaluator, slices, snapshot)

    def write_changes(self, changes: Sequence[Change], *, snapshot: Snapshot) -> Sequence[AddCdcFile]:
        return write_changes(self.evaluator, changes, snapshot)

    def count(self, file: AddFile) -> int:
        return self.evaluator.count(file)

    def differ(
        self, old: Sequence[Slice], before: Snapshot, new: Sequence[Slice], after: Snapshot, limit: int, where: Sequence[Any] = ()
    ) -> list[dict[str, Any]]:
        """Up to `limit` rows of which one of the two multisets has more copies than the other.  One Spark job where the rows are many."""
        return differing_rows(self.evaluator, (old, before), (new, after), limit, where)

    def sample(self, slices: Sequence[Slice], limit: int | None, *, snapshot: Snapshot) -> list[dict[str, Any]]:
        out: list[dict[str, Any]] = []
        for piece in slices:
            out += plain_rows(driver_rows.read_slice(self.evaluator, piece, snapshot).slice(0, None if limit is None else limit - len(out)))
            if limit is not None and len(out) >= limit:
                break
        return out

    def identities(self, origin: Provenance, *, snapshot: Snapshot) -> Identities:
        columns = columns_of(snapshot)
        assert columns is not None, "the table does not track its rows"
        return identities(origin, snapshot.files.get(origin.paths), self.evaluator.materialized_ids.at(columns))

    def rows_at(self, origin: Provenance, *, snapshot: Snapshot) -> RowBlock:
        files, parts, numbers = snapshot.files.get(origin.paths), [], []
        for path, rows in origin.by_path():
            order = np.argsort(origin.position[rows], kind="stable")
            parts.append(driver_rows.read_slice(self.evaluator, Slice(files[path], only=bitmap_of(origin.position[rows])), snapshot))
            numbers.append(rows[order])
        table = pa.concat_tables(parts).take(pa.array(np.argsort(np.concatenate(numbers))))
        return driver_block("derived", 0, table, origin)

    def merged(self, under: RowBlock, over: RowBlock, cells: Mapping[str, Mask], *, snapshot: Snapshot) -> RowBlock:
        return merged(self.evaluator, under, over, cells, snapshot)

    def differing(self, a: RowBlock, b: RowBlock, *, snapshot: Snapshot) -> Mapping[str, Mask]:
        return differing(self.evaluator, a, b, snapshot)
