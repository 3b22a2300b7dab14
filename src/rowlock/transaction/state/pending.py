"""The state of an open transaction: the table, what it has read, what it has staged.

Private until its commit.  Its verbs (execute, commit) are in `transaction`; what brings it to another head is in `rebase_onto_head`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from rowlock import clock, threads
from rowlock.boundary.effects import Effects, RowBlock, StagedFile
from rowlock.boundary.engine import AppendEngine, Engine, Statement, TableRead
from rowlock.conflict.delta import Slice, live_slice
from rowlock.exceptions import ConcurrentWriteException, InvalidInput, StatementRefused
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.log.table_log import TableLog
from rowlock.protocol import row_tracking
from rowlock.protocol.actions import AddCdcFile, AddFile, Commit, Metadata, SetTransaction
from rowlock.protocol.features import check_writable, supporting
from rowlock.protocol.schema import parse_schema
from rowlock.transaction.state.options import Options
from rowlock.transaction.state.phases import Observer, current_observer, reached
from rowlock.transaction.state.receipt import Conflict, Receipt, Reruns, Rewritten, Stopwatch, SupersededRow
from rowlock.transaction.state.shared import SharedState, state_of


@dataclass(frozen=True, slots=True)
class Staged:
    """What a transaction has staged against one snapshot.  A rebase and a further statement each make another value.

    read     the newest snapshot of the log that the transaction was brought to
    base     the same under the metadata that the transaction itself brings: what the effects fit
    unseen   files that winners changed and that the isolation level lets the transaction not see, as it knows them (None: not at all)
    passed   the winners whose changes are still in `unseen`, with those of the last rebase
    """

    read: Snapshot
    base: Snapshot
    effects: Effects = field(default_factory=Effects)
    unseen: Mapping[str, AddFile | None] = field(default_factory=dict)
    passed: tuple[Commit, ...] = ()


_LONG_MS = 3_600_000
"""Files that are older are looked for before they are committed: no VACUUM with a sensible retention deletes younger ones."""
CopyKey = tuple[str, str | None, bytes]


@dataclass(slots=True)
class Staging:
    """Files that were written for a transaction: after a lost put they serve again."""

    copies: dict[CopyKey, Sequence[StagedFile]] = field(default_factory=dict)
    blocks: tuple[RowBlock, ...] = ()
    files: Sequence[StagedFile] = ()
    changes: tuple[Effects, Sequence[AddCdcFile]] | None = None


class OpenTable:
    """A table with the engine that works on its rows and the observer of its phases."""

    def __init__(self, log: TableLog, engine: AppendEngine, observer: Observer | None = None, *, state: SharedState | None = None) -> None:
        self.state = state or state_of(log.store)
        self.path = self.state.store.root
        self.engine, self._observer = engine, observer
        self._statement_engine = cast(Engine, engine) if hasattr(engine, "propagate") else None  # a look at the protocol would be one at its every method

    @property
    def only_appends(self) -> bool:
        """Whether the table was opened with an engine that evaluates no statements."""
        return self._statement_engine is None

    @property
    def statement_engine(self) -> Engine:
        """The engine, for statements that read or change rows.  Raises StatementRefused where the table was opened for appends alone."""
        if self._statement_engine is None:
            text = "reading or changing rows needs Spark: use DeltaTable.forPath(spark, path)"
            raise StatementRefused(text, what="reading or changing rows", table=self.path)
        return self._statement_engine

    @property
    def observer(self) -> Observer:
        return self._observer or current_observer()

    def refresh(self) -> Snapshot:
        """The newest snapshot.  Raises TableNotFound."""
        return self.state.refresh()


class Pending:
    """What a transaction has read and staged, and properties that follow from these alone."""

    def __init__(
        self,
        table: OpenTable,
        options: Options,
        snapshot: Snapshot,
        metadata: Metadata | None = None,
        app: SetTransaction | None = None,
        reruns: Reruns | None = None,
    ) -> None:
        check_writable(snapshot.protocol, snapshot.metadata, table.path)
        self.metadata = metadata if metadata is not None and metadata != snapshot.metadata else None
        self.table, self.state = table, table.state
        self.staged, self.read_version = Staged(snapshot, self.view(snapshot)), snapshot.version
        self.options = options.resolved(snapshot.metadata.configuration)
        if self.options.on_conflict == "lockless" and not row_tracking.is_enabled(snapshot.protocol, snapshot.metadata):
            raise InvalidInput(f"on_conflict='lockless' knows rows by their ids: set {row_tracking.ENABLED}=true on the table first", table=table.path)
        self.txn_id = clock.new_id()
        self.program: list[Statement] = []
        self.staging = Staging()
        self.watch = Stopwatch()
        self.files_read: set[str] = set()
        self.reads: list[TableRead] = []
        self.staged_rows: Mapping[str, int] = {}
        self.ways: tuple[str, ...] = ()
        self.app = app
        self.already_committed = app is not None and snapshot.has_step(app)
        if self.already_committed:
            table.state.log.make_durable(snapshot.version)
        self.data_change = True
        self.done = self.in_lane = self._has_failed = False
        self.reruns = reruns or Reruns()
        self.phase("begin")

    @property
    def read(self) -> Snapshot:
        """The newest snapshot of the log that the transaction was brought to."""
        return self.staged.read

    @property
    def base(self) -> Snapshot:
        """The snapshot that the staged effects fit: `read` under the metadata that the transaction brings."""
        return self.staged.base

    @property
    def effects(self) -> Effects:
        """The rows that are staged for deletion and for addition."""
        return self.staged.effects

    def rebased(self, staged: Staged) -> None:
        """Takes the outcome of a rebase; the same value where there was nothing to rebase over."""
        if staged is not self.staged:
            self.staged = staged
            self.phase("rebased")

    def check_files(self) -> None:
        """Raises ConcurrentWriteException where VACUUM has deleted a file that was written for the transaction long ago."""
        long_ago = clock.now_ms() - _LONG_MS
        old = [f.add.path for files in (self.staging.files, *self.staging.copies.values()) for f in files if f.add.modification_time_ms < long_ago]
        for path, size in zip(old, threads.side_by_side(self.state.store.head, old, limits().request_threads), strict=True):
            if size is None:
                text = f"{path}, which was written for this transaction, is gone: VACUUM took it for the file of a job that failed. Nothing was committed."
                remedy = "Run the statement again; a longer delta.deletedFileRetentionDuration leaves statements more time."
                raise ConcurrentWriteException(text, table=self.table.path, remedy=remedy)

    def fails(self) -> bool:
        """Marks the transaction as failed.  Whether it is the first failure: one transaction is accounted for once."""
        first, self._has_failed = not self._has_failed, True
        return first

    def close(self) -> None:
        """Ends the transaction: nothing more is staged or committed."""
        self.done = True

    def phase(self, name: str) -> None:
        """Reports a phase to the observer (see `phases`)."""
        reached(name, self, self.table.observer)

    def view(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot under the metadata that the transaction brings, if it brings any."""
        if self.metadata is None:
            return snapshot
        protocol = supporting(snapshot.protocol, self.metadata)
        check_writable(protocol, self.metadata, self.table.path)
        return replace(snapshot, protocol=protocol, metadata=self.metadata, schema=parse_schema(self.metadata.schema_string, self.table.path))

    @property
    def touches(self) -> bool:
        """Whether a statement can read or change rows that are there."""
        return any(s.touches for s in self.program)

    @property
    def is_lockless(self) -> bool:
        """Whether staged cells are merged by row id.  Compactions and transactions with new metadata are rebased under every policy."""
        return self.options.on_conflict == "lockless" and self.metadata is None and not any(s.kind == "move" for s in self.program)

    @property
    def reads_table(self) -> bool:
        """Whether the transaction has read the table, by `toDF()` or in the rows that it writes."""
        return bool(self.reads)

    @property
    def is_blind(self) -> bool:
        """Whether the transaction has read nothing of the table: it only appends rows from elsewhere."""
        return not self.touches and not self.reads_table

    def candidates(self, statement: Statement) -> list[Slice]:
        """The live rows of every file that a statement may read or change at the base."""
        if not statement.touches:
            return []
        if statement.kind == "move":
            chosen = list(self.base.files.get([p for group in statement.only for p in group]).values())
        else:
            chosen = self.base.files.prune(statement.reads, self.base.schema, self.base.partition_columns)
        return [live_slice(f, self.table.state.vectors.of) for f in chosen]


class AlreadyCommitted(Exception):
    """Raised inside of a commit where another writer has committed this step of the application, or a later one."""


class Attempt:
    """Counts what one commit does: puts, rebases, rows rebased and dropped, conflicts; under the names that a receipt has for them."""

    def __init__(self, txn: Pending, operation: str) -> None:
        self.operation = operation
        self.already_committed = txn.already_committed
        self.attempts = self.rounds = self.rows_rebased = self.bytes_rebased = self.rows_dropped = self.rows_followed = 0
        self.group_size = 1
        self.conflicts: list[Conflict] = []
        self.overwritten: list[SupersededRow] = []

    def receipt(self, txn: Pending, version: int | None, metrics: Mapping[str, int], rewritten: Rewritten | None = None) -> Receipt:
        counts = {**vars(self), "conflicts": tuple(self.conflicts), "overwritten": tuple(self.overwritten), "metrics": dict(metrics), "rewritten": rewritten}
        return Receipt(version, txn.read_version, txn.txn_id, seconds=dict(txn.watch.seconds), ways=txn.ways, **counts)
