"""UPDATE and DELETE: each is resolved once and then run over slices (some rows of a data file), at staging and in every rebase alike.

A job that only finds rows answers with bitmaps: one word of 64 positions instead of up to 64 addresses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rowlock.boundary.effects import RowBlock
from rowlock.boundary.engine import Statement, refuse_on_append_only
from rowlock.conflict.delta import Slice
from rowlock.engines.spark import driver_rows
from rowlock.engines.spark.catalyst.analysis import Expression, Relation, Resolved, Resolver, Target, assigned_columns, outcome_frame, target_path
from rowlock.engines.spark.catalyst.bridge import JavaObject, to_arrow
from rowlock.engines.spark.catalyst.errors import public_errors
from rowlock.engines.spark.catalyst.predicates import translated
from rowlock.engines.spark.catalyst.row_masks import RowMask, point_mask, row_mask
from rowlock.engines.spark.driver_rows import Addressed, Found, Ways
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.read.scan import PATH, POSITION
from rowlock.engines.spark.read.stored_origin import stored_origin
from rowlock.engines.spark.statements.computed_columns import generated_values, with_recomputed
from rowlock.engines.spark.statements.constraint_checks import check_table, check_written
from rowlock.engines.spark.statements.sources import versions_read
from rowlock.engines.spark.write.writer import write_native
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.blocks import driver_block, file_block
from rowlock.protocol import predicates as ir
from rowlock.protocol.deletion_vector import bitmap_of, positions_except
from rowlock.protocol.identity import refuse_update

_BITS = 64
_UNPACKED_WORDS = 1 << 16
"""Words that are taken apart at a time: 4 million positions, 32 MB."""


def positions_by_path(addresses: DataFrame, names: Mapping[int, str]) -> dict[str, BitMap64]:
    """The positions of a DataFrame with PATH and POSITION, by path, in one Spark job; `names` are the paths by their hash (see `paths_by_hash`).

    The driver gets 24 bytes for each 64 neighbouring positions of which one occurs.
    """
    bit = F.expr(f"shiftleft(1L, cast({POSITION} & {_BITS - 1} as int))")
    grouped = addresses.groupBy(F.xxhash64(PATH).alias("file"), F.shiftright(POSITION, 6).alias("word")).agg(F.bit_or(bit).alias("bits"))
    table = to_arrow(grouped)
    files, words, bits = (table.column(n).to_numpy() for n in range(3))
    found: dict[str, BitMap64] = {}
    order = np.lexsort((words, files))
    for start in range(0, len(order), _UNPACKED_WORDS):
        rows = order[start : start + _UNPACKED_WORDS]
        for file in np.unique(files[rows]):
            chosen = rows[files[rows] == file]
            set_bits = np.unpackbits(bits[chosen].astype("<i8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
            at, offset = np.nonzero(set_bits)
            positions = bitmap_of(words[chosen][at] * _BITS + offset)
            path = names[int(file)]
            found[path] = found[path] | positions if path in found else positions
    return found


__all__ = ["RowPlan", "delete_statement", "run", "update_statement"]


EVERY_ROW = ["true"]
"""The `predicate` of a DELETE without a condition, as delta-spark writes it; that of such an UPDATE is empty."""


@dataclass(frozen=True, slots=True)
class RowPlan:
    """A resolved UPDATE (outputs: the new row, then its address) or DELETE (outputs: the address).

    everything  there is no condition that a row could fail
    reads       the predicate by which files are skipped
    mask        an estimate of the condition over rows on the driver, which keeps too many at most
    narrow      outputs only the columns that an UPDATE sets or that are computed from these, and the address
    unchanged   the other columns
    """

    kind: str
    relation: Relation
    resolved: Resolved
    session: JavaObject
    everything: bool
    reads: ir.Predicate | None = None
    mask: RowMask | None = None
    narrow: Resolved | None = None
    unchanged: tuple[str, ...] = ()


@public_errors()
def update_statement(
    evaluator: Evaluator,
    snapshot: Snapshot,
    condition: Expression | None,
    assignments: Mapping[Any, Expression],
    alias: str | None,
    values_from: Sequence[DataFrame] = (),
) -> Statement:
    """A resolved UPDATE.  Reads nothing.  Raises Spark's AnalysisException, SchemaMismatch, StatementRefused.

    `values_from`: queries that values were computed from before; what they read of the table is validated at the commit.
    """
    refuse_on_append_only(snapshot)
    session, target = evaluator.statement_session(), evaluator.target(snapshot)
    resolver = Resolver(evaluator.spark, evaluator.probe(target, alias, session), "UPDATE", evaluator.store.root)

    def outputs(cast: bool) -> list[Column]:
        new = assigned_columns(resolver, target, assignments, alias, insert=False, cast=cast)
        return [new.get(f.name, target.columns[f.name]) for f in target.schema.fields]

    keys = {target_path(k, target.schema, alias, evaluator.store.root)[0] for k in assignments}
    refuse_update(snapshot.schema, keys, evaluator.store.root)
    computed = generated_values(target, keys)
    frame = outcome_frame(resolver, target.schema, outputs, condition, try_plain=True)
    resolved = resolver.fixed(with_recomputed(resolver, frame, computed), condition, target.address)
    changed = keys | computed.keys()
    chosen = [n for n, name in enumerate(target.schema.names) if name in changed]
    size = len(target.schema.names)
    narrow = Resolved(evaluator.bridge.seq(resolved.outputs.apply(n) for n in (*chosen, size, size + 1)), resolved.condition)
    unchanged = tuple(n for n in target.schema.names if n not in changed)
    sets = tuple(n for n in target.schema.names if n in keys)
    read = tuple(version for frame in values_from for version in versions_read(evaluator, frame, snapshot.version))
    return _statement("update", evaluator, target, resolved, session, sets, read, narrow=narrow, unchanged=unchanged)


@public_errors()
def delete_statement(evaluator: Evaluator, snapshot: Snapshot, condition: Expression | None, alias: str | None) -> Statement:
    """A resolved DELETE.  Reads nothing.  Raises Spark's AnalysisException, StatementRefused."""
    refuse_on_append_only(snapshot)
    session, target = evaluator.statement_session(), evaluator.target(snapshot)
    resolver = Resolver(evaluator.spark, evaluator.probe(target, alias, session), "DELETE", evaluator.store.root)
    resolved = resolver.fixed(resolver.selected([], condition), condition, target.address)
    return _statement("delete", evaluator, target, resolved, session)


def _statement(
    kind: Any,
    evaluator: Evaluator,
    target: Target,
    resolved: Resolved,
    session: JavaObject,
    sets: tuple[str, ...] = (),
    read: tuple[int, ...] = (),
    **more: Any,
) -> Statement:
    plain = translated(evaluator.bridge, resolved.condition, target.ids)
    reads = None if plain is None else plain.reads
    more["mask"] = row_mask(plain)
    everything = resolved.condition is None or str(resolved.condition.toString()) == "true"
    text = (EVERY_ROW if kind == "delete" else []) if resolved.condition is None else [str(resolved.condition.sql())]
    plan = RowPlan(kind, target.relation, resolved, session, everything, reads, **more)
    return Statement(kind, plan, reads, parameters={"predicate": text}, source_versions=read, sets=sets)


def run(
    evaluator: Evaluator, plan: RowPlan, slices: Sequence[Slice], snapshot: Snapshot, index: int, held: Sequence[Found] = (), *, ways: Ways
) -> tuple[dict[str, BitMap64], list[RowBlock]]:
    """(tombstones, new images) of the rows that the statement changes, among the rows of `slices` and those `held` on the driver.

    Raises ConstraintViolated.
    """
    if plan.kind == "delete" and plan.everything:
        ways.whole_files(len(slices))
        return {s.path: _all_positions(evaluator, s) for s in slices} | {s.path: bitmap_of(at) for s, _, at in held}, []
    local, larger = driver_rows.read_small_slices(evaluator, slices, snapshot)
    ways.small_files(local)
    few, scanned = _read_candidates(evaluator, plan, larger, snapshot)
    ways.candidates(few, "columns of the condition", len(larger) - len(scanned))
    local += [*few, *held]
    found: list[Addressed] = []
    rows = Addressed.of(local)
    if rows is not None:
        found.append(driver_rows.evaluate(evaluator, rows, plan.relation, plan.resolved, plan.session))
    large: list[RowBlock] = []
    tombstones: dict[str, BitMap64] = {}
    if scanned:
        ways.job(scanned)
    if scanned and plan.kind == "delete" and evaluator.physical_rows(scanned) > limits().unbounded_scan_rows:
        tombstones.update(_matching_positions(evaluator, plan, scanned, snapshot))
    elif scanned:
        try:
            found.append(_scanned(evaluator, plan, scanned, snapshot))
        except driver_rows.TooManyRows:
            ways.written_by_spark("changed rows")
            block = _write_changed(evaluator, plan, scanned, snapshot, index)
            assert block.provenance is not None
            large.append(block)
            tombstones.update(block.provenance.bitmaps())
    for part in found:
        tombstones.update(part.origin.bitmaps())
    small = [driver_block("derived", index, part.table, part.origin) for part in found if plan.kind == "update" and part.num_rows]
    for block in small:
        check_table(evaluator, block.payload.tables[0], snapshot)
    return tombstones, [*small, *large]


def _read_candidates(evaluator: Evaluator, plan: RowPlan, slices: Sequence[Slice], snapshot: Snapshot) -> tuple[list[Found], list[Slice]]:
    """(rows that may meet the condition, slices left for a scan); reads the columns of the condition on the driver, where the rows found are few.  No job."""
    mask = plan.mask if slices else None
    if mask is not None and sum(s.file.size_bytes for s in slices) > limits().masked_bytes:
        mask = point_mask(mask)
    if mask is None:
        return [], list(slices)
    left = limits().driver_rows

    def by_value(part: Sequence[int], values: pa.Table) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
        nonlocal left
        left -= values.num_rows
        if left < 0:
            return None
        return driver_rows.rows_that_meet(evaluator, values, plan.relation, mask.condition.part(part), plan.session)

    return driver_rows.read_matching(evaluator, slices, snapshot, lambda table: mask.of(table, by_value, limits().local_rows), mask.names, limits().masked_rows)


def _scanned(evaluator: Evaluator, plan: RowPlan, slices: Sequence[Slice], snapshot: Snapshot) -> Addressed:
    """The outputs over files, in one Spark job; columns that an UPDATE does not set are read only for the rows that it changes."""
    if plan.narrow is None or not plan.unchanged:
        delete = plan.kind == "delete"  # addresses alone, 16 bytes a row, of so few rows that all may come
        most = limits().unbounded_scan_rows if delete else None
        return driver_rows.scan(evaluator, slices, plan.relation, plan.resolved, plan.session, snapshot, narrow=delete, most=most)
    rows = driver_rows.scan(evaluator, slices, plan.relation, plan.narrow, plan.session, snapshot, narrow=True)
    if not rows.num_rows:
        return rows
    whole = driver_rows.add_columns(evaluator, rows, plan.unchanged, slices, snapshot)
    return whole if whole is not None else driver_rows.scan(evaluator, slices, plan.relation, plan.resolved, plan.session, snapshot)


def _all_positions(evaluator: Evaluator, piece: Slice) -> BitMap64:
    return positions_except(evaluator.num_rows(piece.file), piece.without) if piece.only is None else piece.only


def _matching_positions(evaluator: Evaluator, plan: RowPlan, slices: Sequence[Slice], snapshot: Snapshot) -> Mapping[str, BitMap64]:
    """The positions of many deleted rows, which Spark sends as bitmaps of 64: one job for the files of each `limits().collected_positions_rows` rows."""
    portions = np.cumsum([evaluator.num_rows(s.file) for s in slices]) // limits().collected_positions_rows
    found: dict[str, BitMap64] = {}
    for number in np.unique(portions):
        portion = [s for s, n in zip(slices, portions, strict=True) if n == number]
        child = evaluator.bridge.filter(plan.resolved.condition, evaluator.live_plan(snapshot, portion, plan.relation.attributes))
        frame = evaluator.bridge.dataframe(evaluator.bridge.project(plan.resolved.outputs, child), evaluator.spark, plan.session)
        found |= positions_by_path(frame, evaluator.paths_by_hash(portion))
    return found


def _write_changed(evaluator: Evaluator, plan: RowPlan, slices: Sequence[Slice], snapshot: Snapshot, index: int) -> RowBlock:
    """A block of many updated rows, which Spark writes as data files of the table, each row with its origin beside it."""
    child = evaluator.bridge.filter(plan.resolved.condition, evaluator.rewrite_plan(snapshot, slices, plan.relation.attributes))
    frame = evaluator.bridge.dataframe(evaluator.rewrite_outputs(snapshot, plan.resolved.outputs, child), evaluator.spark, plan.session)
    files = [f for _, f in write_native(frame, evaluator.store, snapshot)]
    files = [f for f in files if f.num_records]
    check_written(evaluator, files, snapshot)
    return file_block("derived", index, files, origin=stored_origin(files, evaluator.store, evaluator.paths_by_hash(slices)))
