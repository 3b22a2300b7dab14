"""UPDATE and DELETE: each is resolved once and then run over slices (some rows of a data file), at staging and in every rebase alike.

Of the rows that a DELETE may mean only the columns of its condition are read; of an UPDATE's all, since it writes them anew.

Over columns on the driver a mask finds the rows that may meet the condition, without a job.  What is not understood may be true of every row, unless
its columns have few different values: then Spark evaluates it once for each of these.  So a mask may keep too many rows, never too few (I3), and
Spark evaluates the whole condition over the rows that it keeps.  An error that one side of an AND would raise for a row stays unseen where the
other side is known to fail for it, as it does in a file that is skipped.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from rowlock.boundary.effects import RowBlock
from rowlock.conflict.delta import Slice
from rowlock.engines.spark import driver_rows
from rowlock.engines.spark.catalyst.analysis import Relation, Resolved
from rowlock.engines.spark.catalyst.bridge import JavaObject
from rowlock.engines.spark.catalyst.predicates import Condition
from rowlock.engines.spark.driver_rows import Addressed, Found, Ways
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.read.stored_origin import stored_origin
from rowlock.engines.spark.statements.constraint_checks import check_table, written_block
from rowlock.engines.spark.write.writer import write_native
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.blocks import driver_block
from rowlock.protocol import predicates as ir
from rowlock.protocol.deletion_vector import bitmap_of, bitmap_to_numpy
from rowlock.protocol.evaluation import Mask, Places, as_mask, may_hold
from rowlock.protocol.intervals import Interval, of_rows
from rowlock.protocol.schema import ColumnPath


@dataclass(frozen=True, slots=True)
class RowPlan:
    """A resolved UPDATE (outputs: the new row, then its address) or DELETE (outputs: the address).

    everything  there is no condition that a row could fail
    reads       the predicate by which files are skipped
    columns     the table's columns that the condition of a DELETE reads
    mask        an estimate of the condition over rows on the driver, which keeps too many at most
    """

    kind: str
    relation: Relation
    resolved: Resolved
    session: JavaObject
    everything: bool
    reads: ir.Predicate | None = None
    columns: tuple[str, ...] = ()
    mask: RowMask | None = None


def run(
    evaluator: Evaluator, plan: RowPlan, slices: Sequence[Slice], snapshot: Snapshot, index: int, held: Sequence[Found] = (), *, ways: Ways
) -> tuple[dict[str, BitMap64], list[RowBlock]]:
    """(tombstones, new images) of the rows that the statement changes, among the rows of `slices` and those `held` on the driver.

    Raises ConstraintViolated.
    """
    if plan.kind == "delete" and plan.everything:
        ways.whole_files(len(slices))
        return {s.path: s.positions(evaluator.count) for s in slices} | {s.path: bitmap_of(at) for s, _, at in held}, []
    local, larger = driver_rows.read_small_slices(evaluator, slices, snapshot)
    ways.small_files(local)
    blocks: list[RowBlock] = []
    tombstones: dict[str, BitMap64] = {}
    rest = larger
    try:
        few, rest = _read_candidates(evaluator, plan, larger, snapshot)
        ways.candidates(few, "columns of the condition", len(larger) - len(rest))
        if plan.kind == "delete":
            tombstones, unmet = _met(evaluator, plan, few)
            tombstones |= _matching_positions(evaluator, plan, [*rest, *unmet], snapshot, ways)
        else:
            local += few
            met = _matching_positions(evaluator, plan, rest, snapshot, ways)
            more, unread = driver_rows.read_at(evaluator, [(s, bitmap_to_numpy(met[s.path])) for s in rest if met.get(s.path)], snapshot.schema.names, snapshot)
            if unread:
                raise driver_rows.LeftToSpark("as Spark alone reads their files")
            local += more
    except driver_rows.LeftToSpark as why:
        ways.written_by_spark("changed rows", str(why))
        blocks = [_write_changed(evaluator, plan, rest, snapshot, index)]
        tombstones |= blocks[0].provenance.bitmaps() if blocks[0].provenance is not None else {}
    if (rows := _likely(plan, [*local, *held])) is not None:
        found = driver_rows.evaluate(evaluator, rows, plan.relation, plan.resolved, plan.session)
        tombstones |= found.origin.bitmaps()
        if plan.kind == "update" and found.num_rows:
            blocks.insert(0, driver_block("derived", index, check_table(evaluator, found.table, snapshot), found.origin))
    return tombstones, blocks


def _likely(plan: RowPlan, held: Sequence[Found]) -> Addressed | None:
    """The held rows that may meet the condition, by its mask: Spark gets all columns of each.  None where there are none."""
    rows = Addressed.of(held)
    if rows is not None and plan.mask is not None:
        with suppress(pa.ArrowException):  # as in `driver_rows.read_matching`
            rows = rows.filter(plan.mask.of(rows.table))
    return rows if rows is not None and rows.num_rows else None


def _read_candidates(evaluator: Evaluator, plan: RowPlan, slices: Sequence[Slice], snapshot: Snapshot) -> tuple[list[Found], list[Slice]]:
    """(rows that may meet the condition, slices left for a job); reads the columns of the condition on the driver, and of an UPDATE's rows all.  No job.

    Raises LeftToSpark for an UPDATE that certainly changes more rows than may come to the driver.
    """
    mask = plan.mask if slices else None
    large = sum(s.file.size_bytes for s in slices) > limits().masked_bytes
    if mask is not None and large:
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

    deletes = plan.kind == "delete"
    wanted, most = plan.columns if deletes else snapshot.schema.names, limits().masked_rows if deletes and not large else limits().driver_rows
    try:
        masked = functools.partial(mask.of, by_value=by_value, most=limits().local_rows)
        return driver_rows.read_matching(evaluator, slices, snapshot, masked, mask.names, wanted, most, any_size=deletes)
    except driver_rows.LeftToSpark:
        if mask.exact and not large and not deletes:
            raise
        return [], list(slices)


def _met(evaluator: Evaluator, plan: RowPlan, candidates: Sequence[Found]) -> tuple[dict[str, BitMap64], list[Slice]]:
    """(the positions of a DELETE's rows among candidates of which the condition's columns are held, slices left for a job).  No job."""
    rows = Addressed.of(candidates)
    if rows is None:
        return {}, []
    met = driver_rows.rows_that_meet(evaluator, rows.table, plan.relation, plan.resolved.condition, plan.session)
    return ({}, [s for s, _, _ in candidates]) if met is None else (dict(rows.origin.take(met).bitmaps()), [])


def _matching_positions(evaluator: Evaluator, plan: RowPlan, slices: Sequence[Slice], snapshot: Snapshot, ways: Ways) -> dict[str, BitMap64]:
    """The positions of the rows that meet the condition, 16 bytes for each: one Spark job for the files of each `limits().collected_positions_rows` rows.

    Raises LeftToSpark for an UPDATE of more rows than may come to the driver.
    """
    most = driver_rows.most_rows(driver_rows.row_bytes(evaluator, slices, snapshot))
    if plan.everything:
        driver_rows.check_count(sum(s.num_rows or 0 for s in slices), most)
        return {s.path: s.positions(evaluator.count) for s in slices}
    if slices:
        ways.job(slices)
    deletes = plan.kind == "delete"
    places = replace(plan.resolved, outputs=evaluator.bridge.seq(plan.relation.attributes[-2:]))
    portions = np.cumsum([evaluator.num_rows(s.file) for s in slices]) // limits().collected_positions_rows
    found: dict[str, BitMap64] = {}
    for number in np.unique(portions):
        portion = [s for s, n in zip(slices, portions, strict=True) if n == number]
        found |= driver_rows.scan(evaluator, portion, plan.relation, places, plan.session, snapshot, any_number=deletes).origin.bitmaps()
        if not deletes:
            driver_rows.check_count(sum(map(len, found.values())), most)
    return found


def _write_changed(evaluator: Evaluator, plan: RowPlan, slices: Sequence[Slice], snapshot: Snapshot, index: int) -> RowBlock:
    """A block of many updated rows, which Spark writes as data files of the table, each row with its origin beside it."""
    child = evaluator.bridge.filter(plan.resolved.condition, evaluator.live_plan(snapshot, slices, plan.relation.attributes, ids=True))
    frame = evaluator.bridge.dataframe(evaluator.rewrite_outputs(snapshot, plan.resolved.outputs, child), evaluator.spark, plan.session)
    files = [f for _, f in write_native(frame, evaluator.store, snapshot)]
    return written_block(evaluator, "derived", index, files, snapshot, stored_origin(files, evaluator.store, evaluator.paths_by_hash(slices)))


Numbers = npt.NDArray[np.int64]
ByValue = Callable[[Sequence[int], pa.Table], "Mask | None"]
"""Evaluates a part of a condition over a table of different values of its columns: the rows for which it is true, None where it cannot tell."""


@dataclass(frozen=True, slots=True)
class RowMask:
    """An estimate of a condition.

    names       the columns that it reads
    understood  whether a part of it is computed here, without Spark
    exact       whether all of it is
    by_value    whether parts of it are left to Spark, for the different values of their columns
    """

    condition: Condition
    names: tuple[str, ...]
    understood: bool
    exact: bool
    by_value: bool

    def of(self, table: pa.Table, by_value: ByValue | None = None, most: int = 0) -> Mask:
        """The rows of a table of the columns `names` that may meet the condition.

        Where more than `most` rows are left, `by_value` is asked about the parts whose columns have at most so many different values.
        """
        found = self._may_meet(table) if self.understood else np.ones(table.num_rows, dtype=np.bool_)
        if self.by_value and by_value is not None and np.count_nonzero(found) > most:
            at = np.flatnonzero(found)
            found = np.zeros(table.num_rows, dtype=np.bool_)
            found[at[self._may_meet(table if len(at) == table.num_rows else table.take(pa.array(at)), by_value, most)]] = True
        return found

    def _may_meet(self, table: pa.Table, by_value: ByValue | None = None, most: int = 0) -> Mask:
        def column(path: ColumnPath) -> Interval | None:
            top = table.column(path[0])
            return of_rows(pc.struct_field(top, list(path[1:])) if len(path) > 1 else top, self.condition.types[path])

        def ask(part: ir.Unknown) -> Any:
            different = different_values(table.select(list(part.columns)), most) if by_value and table.num_rows else None
            true = by_value(part.part or (), different[0]) if by_value and different else None
            return None if different is None or true is None else pa.array(true[different[1]])

        return as_mask(may_hold(self.condition.predicate, Places(column, ask)), table.num_rows)


def row_mask(condition: Condition | None) -> RowMask | None:
    """The mask of a resolved condition; None where it could exclude no row, or reads no column."""
    if condition is None:
        return None
    parts = list(ir.nodes(condition.predicate))
    unknown = [p for p in parts if isinstance(p, ir.Unknown)]
    asked = [p for p in unknown if p.part is not None]
    read = {path[0] for path in ir.columns_of(condition.predicate)}
    names = read.union(*(p.columns for p in asked))
    return RowMask(condition, tuple(sorted(names)), bool(read), not unknown, bool(asked)) if names else None  # a table of no columns would have no rows


def point_mask(whole: RowMask) -> RowMask | None:
    """The mask of the first comparison of a condition's conjunction that says which values something must equal; None where there is none."""
    for p in ir.conjuncts(whole.condition.predicate):
        points = isinstance(p, ir.In) or (isinstance(p, ir.Compare) and p.op == "=" and isinstance(p.right, ir.Literal))
        if points and (mask := row_mask(replace(whole.condition, predicate=p))):
            return mask
    return None


def different_values(table: pa.Table, most: int) -> tuple[pa.Table, Numbers] | None:
    """(the different rows of a table, for each row of the table its number among them); None where there are more than `most`."""
    if table.num_rows > 2 * most and different_values(table.slice(0, 2 * most), most) is None:
        return None  # decided by the first rows, which is quick
    codes, chosen = np.zeros(table.num_rows, dtype=np.int64), [np.zeros(1, dtype=np.int64)]
    dictionaries = []
    for column in table.columns:
        indices, dictionary = _encoded(column)
        dictionaries.append(dictionary)
        codes, different = _encoded(pa.array(codes * len(dictionary) + indices))
        before, last = np.divmod(np.asarray(different), len(dictionary))
        chosen = [*(c[before] for c in chosen), last]
    values = [d.take(pa.array(at)) for d, at in zip(dictionaries, chosen[1:], strict=True)]
    return None if len(chosen[0]) > most else (pa.table(values, names=table.column_names), codes)


def _encoded(column: pa.Array | pa.ChunkedArray) -> tuple[Numbers, pa.Array]:
    """(for each row the number of its value, the different values), where null is a value too."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    together = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column  # several dictionaries with nulls cannot become one
    encoded = pc.dictionary_encode(together, null_encoding="encode")
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64), encoded.dictionary
