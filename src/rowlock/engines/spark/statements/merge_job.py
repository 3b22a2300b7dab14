"""A MERGE of many rows in one Spark job: target and source are read once, joined once, and each new image and each insert is written once.

The rows, their origins and the numbers of the source rows that they matched stay in the files that the job writes; the driver
gets a bitmap of the matched positions for each data file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyroaring import BitMap64

from rowlock.boundary.effects import Assigned, RowBlock, fresh_path
from rowlock.boundary.provenance import Origin, SourceNumbers, union_by_path
from rowlock.conflict.delta import Slice
from rowlock.engines.spark.catalyst.analysis import Resolved
from rowlock.engines.spark.catalyst.bridge import JavaObject
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.read.stored_origin import inserted_origin, stored_origin, stored_source_rows
from rowlock.engines.spark.statements.constraint_checks import check_written
from rowlock.engines.spark.statements.merge_plan import ACTION, Clause, MergePlan
from rowlock.engines.spark.write.writer import write_native
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.blocks import file_block
from rowlock.protocol.actions import AddFile
from rowlock.storage.store import discard

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
        target = self.evaluator.hashed(self.evaluator.rewrite_plan(self.snapshot, slices, plan.target.attributes), plan.target.attributes[-2], plan.from_file)
        source = plan.source.plan(self.evaluator, plan.source_side, plan.session)
        *values, _, position = bridge.list(plan.pairs.outputs)
        outputs = [*values, plan.from_file, position]
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
        applies, lost = bridge.at_least_zero(action), bridge.is_null(plan.from_file)
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
        written = [(int(a or -1), f) for a, f in write_native(frame, store, self.snapshot, group=ACTION) if f.num_records]
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
                check_written(evaluator, files, self.snapshot)
                origin = inserted_origin(files, store, fresh_path(self.index))
                self.outcome.inserted = [file_block("inserted", self.index, files, origin=origin)]
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
        check_written(self.evaluator, files, self.snapshot)
        self.outcome.assigned.append(Assigned(clause.sets, origin))
        self.outcome.blocks.append(file_block("derived", self.index, files, origin=origin))
