"""The verbs of a transaction: begin, execute statements, commit; and statements that run as one.

A transaction is private until its commit.  Whatever is raised before that leaves nothing but files
that no commit names (I10).

Statements are planned, wait in the lease line, are staged and committed; after a conflict again, by policy.  `StagingTransaction` plans, waits and stages;
`run_again` repeats a transaction that met a conflict.  `run` does both for one plan, and the transactions of several statements and `rowlock.run`
(in `api`) consist of the same two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from rowlock import clock, progress
from rowlock.boundary.engine import Statement, TableRead
from rowlock.conflict.delta import Slice
from rowlock.exceptions import (
    ConcurrentTransactionException,
    DeltaConcurrentModificationException,
    InvalidInput,
    MetadataChangedException,
    ProtocolChangedException,
    RowlockError,
)
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import Metadata, SetTransaction
from rowlock.transaction.definition import creation
from rowlock.transaction.failed_attempt import record, work_of
from rowlock.transaction.lease_line import LeaseLine
from rowlock.transaction.rebase.onto_head import check_source, stage, stage_appends
from rowlock.transaction.staged_statements import commit
from rowlock.transaction.state.options import Options
from rowlock.transaction.state.pending import OpenTable, Pending
from rowlock.transaction.state.receipt import Receipt, Reruns
from rowlock.transaction.two_phase import close  # noqa: F401 - it registers the functions that settle what is open in a table

__all__ = ["Options", "Table", "Transaction"]


class Table(OpenTable):
    """A handle on a table.  Several may be open, in any number of threads and processes."""

    def create(self, schema_string: str, partition_columns: Sequence[str] = (), configuration: Mapping[str, str] | None = None, **more: Any) -> Receipt:
        """Creates the table (see `creation.create`).  Raises TableExists where there is one."""
        return creation.create(self.state, schema_string, partition_columns, configuration or {}, **more)

    def begin(
        self,
        options: Options | None = None,
        *,
        snapshot: Snapshot | None = None,
        metadata: Metadata | None = None,
        app: SetTransaction | None = None,
        reruns: Reruns | None = None,
    ) -> Transaction:
        """Begins a transaction that reads `snapshot`, by default the newest.  It may bring new metadata, and may be the
        step `app` of an application, which is committed once.  `reruns` accounts for earlier tries of the same work.

        Raises UnsupportedFeature where the table may not be written.
        """
        return Transaction(self, options or Options(), snapshot or self.refresh(), metadata, app, reruns)


class Transaction(Pending):
    """A transaction: statements that are staged against one version and committed together."""

    def execute(self, *statements: Statement) -> None:
        """Stages statements that belong together (an overwrite is a delete and an append), on top of what is staged.

        Where it raises, the transaction is as it was before.
        """
        if self.done:
            raise InvalidInput("The transaction is over; begin another", table=self.table.path)
        for statement in statements:
            for read in statement.source_reads:
                self.note_read(read)
        first, program = len(self.program), [*self.program, *statements]
        candidates = {s.path: s for statement in statements if statement.touches for s in self.candidates(statement)}
        slices = [left for path in sorted(candidates) if (left := self._untouched(candidates[path])) is not None]
        with self.watch.time("stage"):
            if self.table.only_appends and all(s.kind == "append" for s in program):
                effects, self.staged_rows = stage_appends(program, first, self.effects), {}
            else:
                engine = self.table.statement_engine
                effects, self.staged_rows, ways = stage(program, first, self.effects, slices, engine=engine, snapshot=self.base)
                self.ways += ways
            self.staged = replace(self.staged, effects=effects)
        self.program = program
        self.data_change = any(s.kind != "move" for s in program)
        self.files_read |= {s.path for s in slices}
        self.phase("staged")

    def note_read(self, read: TableRead | None = None) -> None:
        """Records that the table was read, as a whole by the transaction (None) or by rows it is about to write: what others
        change of it from now on is a conflict.  Raises one where the table at the version that was read holds other rows than at the base.
        """
        self.reads.append(read := read or TableRead(self.base.version))
        if read.version != self.base.version and self.options.on_conflict != "lockless":
            try:
                check_source(self, read.version)
            except RowlockError as error:
                record(self, error, self.program[-1].kind.upper() if self.program else "WRITE", {})
                raise

    def _untouched(self, piece: Slice) -> Slice | None:
        """The rows of a slice that no statement of the transaction has changed yet; changed rows are staged as new images."""
        ours = self.effects.tombstones.get(piece.path)
        if not ours:
            return piece
        dead = ours | piece.without if piece.without else ours
        return None if piece.file.num_records is not None and len(dead) >= piece.file.num_records else Slice(piece.file, without=dead)

    def commit(self, operation: str, parameters: Mapping[str, Any] | None = None) -> Receipt:
        """Commits, after a rebase for each time that others committed first.  See `staged_statements.commit`."""
        if self.done:
            raise InvalidInput("The transaction is committed already", table=self.table.path)
        receipt = commit(self, operation, parameters or {})
        self.close()
        return receipt


Planned = tuple[Sequence[Statement], Mapping[str, Any]]
"""The statements of a transaction and its operation's parameters."""
Plan = Callable[[Snapshot], Planned]
"""Plans statements against a snapshot; it may be called again with a later one."""
RERUNS = 20
"""How often a statement is planned and staged anew before its conflict is raised after all."""
W = TypeVar("W")
R = TypeVar("R")


class StagingTransaction:
    """A transaction in the lease line, into which statements are staged one after the other.

    A transaction that had to wait while others committed, and that has staged and read nothing yet, begins anew from the head: `txn` is
    another one then.
    """

    def __init__(self, line: LeaseLine, begin: Callable[[Reruns], Transaction], reruns: Reruns | None = None, *, may_begin_anew: bool = True) -> None:
        """`reruns`: what was thrown away before of the same work, for the receipt.  Part of a transaction over several tables may not begin anew by itself."""
        self._line, self._begin, self._may = line, begin, may_begin_anew
        self.txn = begin(reruns or Reruns())

    def stage(self, plan: Plan) -> Mapping[str, Any] | None:
        """Plans statements against what the transaction reads, waits for what they touch, and stages them.  Returns the operation's parameters.

        Returns None, with nothing staged, where the step of the transaction's application is in the log already.
        """
        with progress.work("staging for", self.txn.table.path):
            return self._staged(plan)

    def _staged(self, plan: Plan) -> Mapping[str, Any] | None:
        while not self.txn.already_committed:
            if self.txn.options.lock == "table" and self._begins_anew(self._line.join(self.txn, ())):
                continue  # every statement would wait, and planning an append may stage its rows already
            start = clock.monotonic_s()
            statements, parameters = plan(self.txn.base)
            planned_s = clock.monotonic_s() - start
            if self._begins_anew(self._line.join(self.txn, statements)):
                continue
            self.txn.watch.add("plan", planned_s)
            self.txn.execute(*statements)
            return parameters
        return None

    def will_read(self) -> None:
        """Waits before the transaction reads the table as a whole."""
        self._begins_anew(self._line.join(self.txn, (), reads_table=True))

    def _begins_anew(self, head_moved: bool) -> bool:
        """Starts the transaction again at the newest head, if the head moved during the wait and nothing is staged or read yet; returns whether it did."""
        anew = self._may and head_moved and not self.txn.program and not self.txn.reads_table
        if anew:
            self.txn = self._begin(self.txn.reruns)
        self._line.account(self.txn)
        return anew


def run(
    table: Table,
    operation: str,
    plan: Plan,
    *,
    metadata: Callable[[Snapshot], Metadata] | None = None,
    app: SetTransaction | None = None,
    snapshot: Snapshot | None = None,
) -> Receipt:
    """Plans against the newest snapshot (`snapshot`, where the caller has just asked for it), stages, commits.  What is raised leaves the table as it is.

    A statement is planned and staged again from the head where the policy is `rerun` and it met a conflict, or
    where (under `repair` too) the schema or the protocol changed under it, or rows of the table that its source read.
    """
    asked = [snapshot] if snapshot is not None else []

    def begin(reruns: Reruns) -> Transaction:
        head = asked.pop() if asked else table.refresh()
        return table.begin(snapshot=head, metadata=metadata(head) if metadata else None, app=app, reruns=reruns)

    def carry_out(staging: StagingTransaction) -> Receipt:
        parameters = staging.stage(plan)
        return staging.txn.commit(operation, parameters or {})

    with progress.work(operation, table.path), LeaseLine(table.state) as line:
        return run_again(lambda reruns: StagingTransaction(line, begin, reruns), carry_out, lambda staging: staging.txn, most=RERUNS, again=runs_again)


def run_again(
    begin: Callable[[Reruns], W],
    carry_out: Callable[[W], R],
    transaction_of: Callable[[W], Transaction],
    *,
    most: int,
    again: Callable[[Transaction, DeltaConcurrentModificationException], bool],
) -> R:
    """Begins and carries out a transaction until it commits: after a conflict at most `most` times more, where `again` says so.

    `begin` gets what was thrown away before, for the receipt.  Raises the last conflict.  A step of an application that another
    writer took is never carried out again.
    """
    reruns = Reruns()
    for attempt in range(most + 1):
        begun = begin(reruns)
        try:
            return carry_out(begun)
        except DeltaConcurrentModificationException as conflict:
            txn = transaction_of(begun)
            if attempt == most or isinstance(conflict, ConcurrentTransactionException) or not again(txn, conflict):
                raise
            reruns = reruns.after(txn.txn_id, work_of(txn))
        clock.back_off(attempt, clock.CONFLICT)
    raise AssertionError("unreachable")


def runs_again(txn: Transaction, conflict: DeltaConcurrentModificationException) -> bool:
    """Whether a statement that met this conflict is run again by itself."""
    # A source that reads an older version than the statement's keeps that version, and would be refused again.
    reads_anew = txn.reads_table and all(read.version >= txn.read_version for read in txn.reads)
    redone = reads_anew or isinstance(conflict, (MetadataChangedException, ProtocolChangedException))
    return txn.options.on_conflict == "rerun" or (txn.options.on_conflict == "repair" and redone)
