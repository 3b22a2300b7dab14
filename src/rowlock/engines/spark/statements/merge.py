"""Runs a MERGE over slices: pairs target and source rows under ON, applies the clauses, and makes the inserts.

Target rows on the driver are paired with source rows by equal keys (a superset of the matches); Spark's optimizer then
evaluates the whole ON condition over these pairs, without a job.  Other files are joined with the source in a Spark job (`MergeJob`),
which writes each new image and each insert once; the driver gets a bitmap of the matched positions for each data file.
Dead rows are removed before a target row with two matches is refused.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from rowlock import display
from rowlock.boundary.effects import Assigned, RowBlock, fresh_path
from rowlock.boundary.provenance import Origin, Provenance, SourceNumbers, numbers_of, union_by_path
from rowlock.conditions import named
from rowlock.conflict.delta import Slice, minus
from rowlock.engines.spark import driver_rows
from rowlock.engines.spark.catalyst.analysis import Resolved
from rowlock.engines.spark.catalyst.bridge import JavaObject, to_arrow
from rowlock.engines.spark.driver_rows import Addressed, Found, Ways, addressed
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.read.stored_origin import SOURCE_ROW, inserted_origin, stored_origin, stored_source_rows
from rowlock.engines.spark.statements.computed_columns import ACTION
from rowlock.engines.spark.statements.constraint_checks import check_table, written_block
from rowlock.engines.spark.statements.merge_plan import Clause, MergePlan
from rowlock.engines.spark.write.writer import write_native
from rowlock.exceptions import MultipleMatches
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.blocks import driver_block
from rowlock.protocol.actions import AddFile
from rowlock.protocol.deletion_vector import bitmap_to_numpy
from rowlock.storage.store import discard

Numbers = npt.NDArray[np.int64]


class MergeRun:
    """Runs the MERGE that is statement `index` of a program over slices of `snapshot`."""

    def __init__(self, evaluator: Evaluator, plan: MergePlan, snapshot: Snapshot, index: int, ways: Ways) -> None:
        self.evaluator, self.plan, self.snapshot, self.index, self.ways = evaluator, plan, snapshot, index, ways

    def over(self, slices: Sequence[Slice], held: Sequence[Found] = (), *, everything: bool = False) -> Outcome:
        """What the MERGE does to the rows of `slices` and to the rows `held` on the driver.

        Its inserts are part of that only where no other row can match the source (`everything`) and the source is large.  Raises MultipleMatches, ConstraintViolated.
        """
        self.outcome = Outcome()
        self.job = MergeJob(self.evaluator, self.plan, self.snapshot, self.index, self.outcome)
        try:
            return self._over(slices, held, everything=everything)
        except BaseException:
            made = [*self.outcome.blocks, *(self.outcome.inserted or ())]
            discard(self.evaluator.store, (f.path for b in made for f in b.payload.files))
            raise

    def _over(self, slices: Sequence[Slice], held: Sequence[Found], *, everything: bool) -> Outcome:
        if everything and self._in_one_join(slices):
            self.ways.job(slices, f", in one outer join with {self._source()}")
            self.job.pairs(slices, inserts=True)
            self._check_cardinality()
            if self.plan.alone is not None:
                self._not_matched_by_source([], slices)
            return self.outcome
        small, larger = driver_rows.read_small_slices(self.evaluator, slices, self.snapshot)
        few, scanned = self._read_by_keys(larger)
        local = [*small, *few]
        rows = Addressed.of(local)
        if rows is not None and not self._few_pairs(rows):
            scanned, rows = [*scanned, *(s for s, _, _ in local)], None
        else:
            self.ways.small_files(small)
            self.ways.candidates(few, "keys of the source", len(larger) - len(scanned))
        images = Addressed.of(held)
        for part in (rows, images):
            if part is not None:
                pairs = self._driver_pairs(part) if part is rows or self._few_pairs(part) else self._joined_pairs(part)
                if pairs.num_rows and ACTION in pairs.table.column_names:
                    self._take(pairs, self.plan.clauses.matched, matched=True)
        if scanned:
            self._scan_pairs(scanned)
        self._check_cardinality()
        if self.plan.alone is not None:
            self._not_matched_by_source([part for part in (rows, images) if part is not None], scanned)
        return self.outcome

    # ---- pairs -----------------------------------------------------------------------------

    def _in_one_join(self, slices: Sequence[Slice]) -> bool:
        """Whether one outer join gives the matches and the inserts: Spark would move the target rather than send all of the source to every task.

        Without an equality Spark can do an outer join only where it holds the whole target, and it can do none by a Python UDF,
        nor call one for the matched rows alone.
        """
        source, bridge, inserts = self.plan.source, self.evaluator.bridge, self.plan.inserts
        if source.table is not None:
            return False
        largest = source.size_bytes * limits().outer_join_ratio
        large = source.size_bytes > limits().broadcast_source_bytes or sum(s.file.size_bytes for s in slices) <= largest
        if not large or not bridge.equal_keys(self.plan.join).isDefined():
            return False
        parts = [part for part in (self.plan.pairs, inserts) if part is not None]
        computed = [e for part in parts for e in (*bridge.list(part.outputs), *(part.draws.values if part.draws else ()))]
        return not bridge.runs_python([self.plan.on, *computed])

    def _few_pairs(self, rows: Addressed) -> bool:
        """Whether these rows are paired on the driver: the source is there, and the pairs, of which ON without equal keys compares all, are few and small."""
        source = self.plan.source.table
        if source is None:
            return False
        each = rows.table.nbytes / rows.num_rows + source.nbytes / max(1, source.num_rows)
        for_one = source.num_rows
        if self.plan.keys and rows.num_rows * for_one * each > limits().driver_bytes:  # how many rows of the source have the same keys
            keys = pa.table([_key(source.column(s)) for _, s in self.plan.keys], [f"k{n}" for n in range(len(self.plan.keys))])
            for_one = pc.max(keys.group_by(keys.column_names).aggregate([([], "count_all")]).column("count_all")).as_py()
        most = rows.num_rows * for_one
        return bool((self.plan.keys or most <= limits().cross_pairs) and most * each <= limits().driver_bytes)

    def _read_by_keys(self, slices: Sequence[Slice]) -> tuple[list[Found], list[Slice]]:
        """(target rows whose keys occur in the source, slices left for a join); reads single columns on the driver, where source and rows are few."""
        source, names = self.plan.source.table, [self.snapshot.schema.names[t] for t, _ in self.plan.keys]
        if source is None or not names or self.plan.alone is not None or not slices:
            return [], list(slices)
        values = [_key(source.column(s)).combine_chunks() for _, s in self.plan.keys]

        def may_match(columns: pa.Table) -> Any:
            masks = [pc.is_in(_key(columns.column(n)), value_set=v, skip_nulls=True) for n, v in zip(names, values, strict=True)]
            return functools.reduce(pc.and_, masks)

        wanted, most = self.snapshot.schema.names, limits().driver_rows
        try:
            return driver_rows.read_matching(self.evaluator, slices, self.snapshot, may_match, list(dict.fromkeys(names)), wanted, most)
        except driver_rows.LeftToSpark:
            return [], list(slices)

    def _driver_pairs(self, rows: Addressed) -> Addressed:
        """The outputs of `plan.pairs` for the pairs that meet ON, evaluated without a job over candidate pairs."""
        source = self.plan.source.table
        assert source is not None
        left, right = self._candidates(rows.table, source)
        paired = Addressed(rows.table.take(pa.array(left)), rows.origin.take(left))
        if not len(left):
            return paired
        columns = [*paired.with_address_columns().columns, *self.plan.source.take(right).columns]
        flat = pa.Table.from_arrays(columns, names=[f"c{n}" for n in range(len(columns))])
        bridge = self.evaluator.bridge
        relation = bridge.local(self.plan.pair.seq, flat, self.plan.pair.schema_json, self.plan.session)
        plan = self.plan.pairs.over(bridge, bridge.filter(self.plan.on, relation))
        result = bridge.evaluate(plan, self.evaluator.spark, self.plan.session)
        return addressed(result, dict(enumerate(rows.origin.paths)))

    def _joined_pairs(self, rows: Addressed) -> Addressed:
        """The outputs of `plan.pairs` for rows on the driver and a source that is not there, by a join in a Spark job."""
        bridge, target = self.evaluator.bridge, self.plan.target
        child = self._join_plan(bridge.local(target.seq, rows.with_address_columns(), target.schema_json, self.plan.session))
        result = to_arrow(bridge.dataframe(self.plan.pairs.over(bridge, child), self.evaluator.spark, self.plan.session))
        return addressed(result, dict(enumerate(rows.origin.paths)))

    def _candidates(self, target: pa.Table, source: pa.Table) -> tuple[Numbers, Numbers]:
        """(target row numbers, source row numbers) of the pairs that agree on the keys; of all pairs where ON has none."""
        if not self.plan.keys:
            n, m = target.num_rows, source.num_rows
            return np.repeat(np.arange(n), m), np.tile(np.arange(m), n)
        names = [f"k{n}" for n in range(len(self.plan.keys))]
        a = pa.table({name: _key(target.column(t)) for name, (t, _) in zip(names, self.plan.keys, strict=True)} | {"i": np.arange(target.num_rows)})
        b = pa.table({name: _key(source.column(s)) for name, (_, s) in zip(names, self.plan.keys, strict=True)} | {"j": np.arange(source.num_rows)})
        joined = a.join(b, names, join_type="inner", use_threads=False)
        return joined.column("i").to_numpy(), joined.column("j").to_numpy()

    def _take(self, rows: Addressed, clauses: Sequence[Clause], *, matched: bool) -> None:
        """Adds rows to the outcome, each by the clause that applies to it.  Raises ConstraintViolated."""
        action = rows.table.column(ACTION).to_numpy()
        if matched:
            self.outcome.matches.append((rows.origin, numbers_of(rows.table.column(SOURCE_ROW).to_numpy())))
        touched = rows.filter(action >= 0)
        self.outcome.add_tombstones(touched.origin.bitmaps())
        updating = [n for n, c in enumerate(clauses) if c.kind == "update"]
        self.outcome.assigned += [Assigned(clauses[n].sets, rows.origin.take(action == n)) for n in updating]
        new = rows.filter(np.isin(action, updating))
        if new.num_rows:
            table = check_table(self.evaluator, new.table.select(self._columns()), self.snapshot)
            self.outcome.blocks.append(driver_block("derived", self.index, table, new.origin))

    def _columns(self) -> list[int]:
        return list(range(len(self.snapshot.schema.fields)))

    def _source(self) -> str:
        return f"a source of {display.count(self.plan.source.num_rows, 'row')}"

    def _scan_pairs(self, slices: Sequence[Slice]) -> None:
        """Joins the rows of files with the source in a Spark job; Spark also writes the results where they are many."""
        self.ways.job(slices, f", joined with {self._source()}")
        if self.plan.source.table is None and self.evaluator.physical_rows(slices) > limits().driver_rows:
            self.job.pairs(slices, inserts=False)  # a join with a large source is not begun to see whether its result is small
            return
        try:
            rows = driver_rows.scan(self.evaluator, slices, self.plan.target, self.plan.pairs, self.plan.session, self.snapshot, join=self._join_plan)
            self._take(rows, self.plan.clauses.matched, matched=True)
        except driver_rows.LeftToSpark:
            self.ways.written_by_spark("changed rows")
            self.job.pairs(slices, inserts=False)

    def _join_plan(self, target: JavaObject) -> JavaObject:
        """The plan of `target` JOIN source ON the condition."""
        bridge = self.evaluator.bridge
        right = self.plan.source.plan(self.evaluator, self.plan.source_side, self.plan.session)
        return bridge.join(target, right, self.plan.on, broadcast=self.plan.source.table is not None)

    def _check_cardinality(self) -> None:
        """Raises MultipleMatches where a target row has several matches and Delta does not allow that."""
        if self.plan.duplicates_allowed:
            return
        if sum(len(positions) for positions in self.outcome.matched().values()) != sum(origin.num_rows for origin, _ in self.outcome.matches):
            why = "MERGE: several source rows match one target row, and it is not clear which should apply"
            remedy = "Make the source unique on the columns of ON, for instance by dropDuplicates()"
            usage = "https://docs.delta.io/latest/delta-update.html#upsert-into-a-table-using-merge"
            condition = named("DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE", usageReference=usage)
            raise MultipleMatches(f"{why}. {remedy}", table=self.evaluator.store.root, condition=condition)

    # ---- rows without a match -------------------------------------------------------------

    def _not_matched_by_source(self, held: Sequence[Addressed], scanned: Sequence[Slice]) -> None:
        """Applies the NOT MATCHED BY SOURCE clauses to the rows without a match; call it after all matches are known."""
        alone, target = self.plan.alone, self.plan.target
        assert alone is not None
        matched = self.outcome.matched()
        clauses = self.plan.clauses.not_matched_by_source
        for rows in held:
            if (unmatched := _unmatched(rows, matched)).num_rows:
                self._take(driver_rows.evaluate(self.evaluator, unmatched, target, alone, self.plan.session), clauses, matched=False)
        if not scanned:
            return
        rest = [minus(s, matched.get(s.path)) for s in scanned]
        applies = self.evaluator.bridge.at_least_zero(alone.outputs.apply(len(self.snapshot.schema.fields)))
        try:
            applying = replace(alone, condition=applies)
            self._take(driver_rows.scan(self.evaluator, rest, target, applying, self.plan.session, self.snapshot), clauses, matched=False)
        except driver_rows.LeftToSpark:
            child = applying.rows(self.evaluator.bridge, self.evaluator.live_plan(self.snapshot, rest, target.attributes, ids=True))
            self.job.write(child, alone.outputs, rest, clauses, matched=False)

    def inserts(self, numbers: Numbers) -> list[RowBlock]:
        """Blocks of the rows that the source rows with these numbers insert.  Raises ConstraintViolated."""
        if self.plan.inserts is None or not len(numbers):
            return []
        bridge, inserts = self.evaluator.bridge, self.plan.inserts
        applies = bridge.at_least_zero(inserts.outputs.apply(len(self.snapshot.schema.fields)))
        chosen = None if len(numbers) == self.plan.source.num_rows else numbers
        source = self.plan.source.plan(self.evaluator, self.plan.insert_side, self.plan.session, chosen)
        plan = replace(inserts, condition=applies).over(bridge, source)
        if self.plan.source.table is None and len(numbers) > driver_rows.most_rows(self.plan.source.size_bytes / self.plan.source.num_rows):
            self.ways.written_by_spark("inserts")
            frame = bridge.dataframe(plan, self.evaluator.spark, self.plan.session).drop(ACTION)
            files = [f for _, f in write_native(frame, self.evaluator.store, self.snapshot)]
            written = inserted_origin(files, self.evaluator.store, fresh_path(self.index))
            return [written_block(self.evaluator, "inserted", self.index, files, self.snapshot, written)]
        result = bridge.evaluate(plan, self.evaluator.spark, self.plan.session)
        if not result.num_rows:
            return []
        table = check_table(self.evaluator, result.select(self._columns()), self.snapshot)
        source_rows = np.asarray(result.column(SOURCE_ROW).to_numpy(), dtype=np.int64)
        origin = Provenance((fresh_path(self.index),), np.zeros(len(source_rows), np.int32), source_rows)
        return [driver_block("inserted", self.index, table, origin)]


def _unmatched(rows: Addressed, matched: dict[str, BitMap64]) -> Addressed:
    """The rows whose addresses are not in `matched`."""
    mask = np.ones(rows.num_rows, dtype=np.bool_)
    for path, at in rows.origin.by_path():
        if matched.get(path):
            mask[at] = ~np.isin(rows.origin.position[at], bitmap_to_numpy(matched[path]))
    return rows.filter(mask)


def _key(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Integers of any width as int64, so that equal keys are equal values; text in its wide form, as the join of both sides demands one type."""
    if pa.types.is_integer(column.type):
        return pc.cast(column, pa.int64())
    return pc.cast(column, pa.large_string()) if pa.types.is_string(column.type) else column


_INSERT = 1 << 20
"""The ACTION of rows that are inserted, beyond the numbers of all clauses for matched rows."""


@dataclass(slots=True)
class Outcome:
    """What a MERGE did to the rows of some slices.

    matches   for each group of target rows: their addresses, and the number of the source row that each matched
    assigned  which columns the clauses set of which rows
    inserted  the inserted rows, where the same job could decide them; None where they are still to be made
    """

    tombstones: dict[str, BitMap64] = field(default_factory=dict)
    blocks: list[RowBlock] = field(default_factory=list)
    matches: list[tuple[Origin, SourceNumbers]] = field(default_factory=list)
    assigned: list[Assigned] = field(default_factory=list)
    inserted: list[RowBlock] | None = None

    def add_tombstones(self, more: Mapping[str, BitMap64]) -> None:
        self.tombstones = union_by_path(self.tombstones, more)

    def matched(self) -> dict[str, BitMap64]:
        """The positions of the rows that have a match, by file."""
        return functools.reduce(union_by_path, (origin.bitmaps() for origin, _ in self.matches), {})


@dataclass(frozen=True, slots=True)
class MergeJob:
    """Spark jobs of the MERGE that is statement `index` of a program, over slices of `snapshot`; they add to `outcome`."""

    evaluator: Evaluator
    plan: MergePlan
    snapshot: Snapshot
    index: int
    outcome: Outcome

    def pairs(self, slices: Sequence[Slice], *, inserts: bool) -> None:
        """Applies the MATCHED clauses to the rows of files.  With `inserts`, which no other row can match, the source's other rows are inserted in the same job."""
        bridge, plan = self.evaluator.bridge, self.plan
        target = self.evaluator.live_plan(self.snapshot, slices, plan.target.attributes, ids=True)
        source = plan.source.plan(self.evaluator, plan.source_side, plan.session)
        outputs = bridge.list(plan.pairs.outputs)
        if not inserts or plan.inserts is None:
            child = plan.pairs.rows(bridge, bridge.join(target, source, plan.on, broadcast=plan.source.table is not None))
            inserted = False
        else:
            child, outputs = self._with_inserts(bridge.join(target, source, plan.on, outer=True), outputs, plan.inserts)
            inserted = True
        if inserts:
            self.outcome.inserted = []
        self.write(child, bridge.seq(outputs), slices, plan.clauses.matched, matched=True, inserted=inserted)

    def _with_inserts(self, joined: JavaObject, outputs: list[JavaObject], inserts: Resolved) -> tuple[JavaObject, list[JavaObject]]:
        """(the pairs and the source rows that insert, their outputs): without a file that it came from, a row is an insert."""
        bridge, plan = self.evaluator.bridge, self.plan
        own = {str(a.exprId()) for a in bridge.list(joined.output())}
        again = zip(bridge.list(plan.source_side), bridge.list(plan.insert_side), strict=True)
        renamed = [bridge.alias_as(a, b) for a, b in again if str(b.exprId()) not in own]
        child = bridge.project(bridge.seq([*bridge.list(joined.output()), *renamed]), joined)
        *values, action, _ = bridge.list(inserts.outputs)
        applies, lost = bridge.at_least_zero(action), bridge.is_null(plan.target.attributes[-2])
        row = [bridge.chosen(lost, new, old) for new, old in zip(values, outputs[: len(values)], strict=True)]
        taken = bridge.chosen(lost, bridge.literal.apply(_INSERT), outputs[len(values)])
        child = plan.pairs.rows(bridge, bridge.filter(bridge.either(bridge.negated(lost), applies), child))
        return replace(inserts, condition=None).rows(bridge, child), [*row, taken, *outputs[len(values) + 1 :]]

    def write(
        self, child: JavaObject, outputs: JavaObject, slices: Sequence[Slice], clauses: Sequence[Clause], *, matched: bool, inserted: bool = False
    ) -> None:
        """Lets Spark write `outputs` over `child`, one folder for each clause.

        The files of updates and inserts are data files of the table.  Of the others only the origins of rows are read, by a rebase; they are deleted
        with the statement's source.
        """
        evaluator, store = self.evaluator, self.evaluator.store
        if not self.snapshot.metadata.partition_columns:  # a file for each clause at once, instead of a sort of all rows by clause
            self.plan.session.conf().set("spark.sql.maxConcurrentOutputFileWriters", str(len(clauses) + 2))
        frame = evaluator.bridge.dataframe(evaluator.rewrite_outputs(self.snapshot, outputs, child), evaluator.spark, self.plan.session)
        written = [(int(a or -1), f) for a, f in write_native(frame, store, self.snapshot, group=ACTION)]
        try:
            self._sort_out(written, clauses, evaluator.paths_by_hash(slices), matched=matched, inserted=inserted)
        except BaseException:
            discard(store, (f.path for _, f in written))
            raise

    def _sort_out(self, written: Sequence[tuple[int, AddFile]], clauses: Sequence[Clause], names: Mapping[int, str], *, matched: bool, inserted: bool) -> None:
        """Adds written files to the outcome, by the number of the clause that wrote each.  Raises ConstraintViolated."""
        evaluator, store = self.evaluator, self.evaluator.store
        for action in sorted({a for a, _ in written}):
            files = [f for a, f in written if a == action]
            if inserted and action == _INSERT:
                origin = inserted_origin(files, store, fresh_path(self.index))
                self.outcome.inserted = [written_block(evaluator, "inserted", self.index, files, self.snapshot, origin)]
            else:
                self._take(files, clauses[action] if action >= 0 else None, names, matched=matched)

    def _take(self, files: Sequence[AddFile], clause: Clause | None, names: Mapping[int, str], *, matched: bool) -> None:
        """Adds the rows of files that a clause wrote to the outcome; `clause` is None for matches to which none applies."""
        origin = stored_origin(files, self.evaluator.store, names)
        if matched:
            self.outcome.matches.append((origin, stored_source_rows(files, self.evaluator.store)))
        if clause is not None:
            self.outcome.add_tombstones(origin.bitmaps())
        if clause is None or clause.kind != "update":
            self.plan.source.scratch.extend(f.path for f in files)
            return
        self.outcome.blocks.append(written_block(self.evaluator, "derived", self.index, files, self.snapshot, origin))
        self.outcome.assigned.append(Assigned(clause.sets, origin))
