"""A handle on a table, and a transaction: begin, execute statements, commit.

A transaction is private until its commit.  Whatever is raised before that leaves nothing but files
that no commit names (I10).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rowlock import clock
from rowlock.conflict.delta import Slice, whole
from rowlock.conflict.isolation import Unseen
from rowlock.exceptions import InvalidInput
from rowlock.log.snapshot import Snapshot
from rowlock.log.table_log import TableLog
from rowlock.protocol import row_tracking
from rowlock.protocol.actions import Commit, Metadata, SetTransaction
from rowlock.protocol.features import check_writable
from rowlock.protocol.schema import parse_schema
from rowlock.transaction import creation
from rowlock.transaction.catch_up import check_source
from rowlock.transaction.effects import Effects
from rowlock.transaction.engine import Engine
from rowlock.transaction.given_up import Reruns, kept
from rowlock.transaction.options import Options
from rowlock.transaction.phases import Observer, current_observer
from rowlock.transaction.publish import Staging
from rowlock.transaction.rebase import stage
from rowlock.transaction.receipt import Receipt, Stopwatch
from rowlock.transaction.staged_statements import commit
from rowlock.transaction.statements import Statement
from rowlock.transaction.table_state import TableState, state_of

__all__ = ["Options", "Table", "Transaction"]


class Table:
    """One handle on one table.  Several may be open, in any number of threads and processes."""

    def __init__(self, log: TableLog, engine: Engine, observer: Observer | None = None, *, state: TableState | None = None) -> None:
        self.state = state or state_of(log.store)
        self.engine, self._observer = engine, observer

    @property
    def path(self) -> str:
        return self.state.store.root

    @property
    def observer(self) -> Observer:
        return self._observer or current_observer()

    def refresh(self) -> Snapshot:
        """The newest snapshot.  Raises TableNotFound."""
        return self.state.refresh()

    def create(self, schema_string: str, partition_columns: Sequence[str] = (), configuration: Mapping[str, str] | None = None, **more: Any) -> Receipt:
        """Makes the table (see `creation.create`).  Raises TableExists where there is one."""
        return creation.create(self.state, schema_string, partition_columns, configuration or {}, **more)

    def begin(self, options: Options | None = None, *, snapshot: Snapshot | None = None, metadata: Metadata | None = None, app: SetTransaction | None = None) -> Transaction:
        """A transaction that reads `snapshot`, by default the newest, may bring new metadata with it, and may be the
        step `app` of an application, which is committed once.

        Raises UnsupportedFeature where the table may not be written.
        """
        return Transaction(self, options or Options(), snapshot or self.refresh(), metadata, app)


class Transaction:
    """Statements staged against one version, and their commit."""

    def __init__(self, table: Table, options: Options, snapshot: Snapshot, metadata: Metadata | None = None, app: SetTransaction | None = None) -> None:
        check_writable(snapshot.protocol, snapshot.metadata, table.path)
        self.metadata = metadata if metadata is not None and metadata != snapshot.metadata else None
        self.table = table
        self.base, self.read_version = self.view(snapshot), snapshot.version
        self.options = options.resolved(snapshot.metadata.configuration)
        if self.options.on_conflict == "lockless" and not row_tracking.is_enabled(snapshot.protocol, snapshot.metadata):
            raise InvalidInput(f"on_conflict='lockless' knows rows by their ids: set {row_tracking.ENABLED}=true on the table first", table=table.path)
        self.read = snapshot
        self.txn_id = clock.new_id()
        self.program: list[Statement] = []
        self.effects = Effects()
        self.staging = Staging()
        self.watch = Stopwatch(clock.monotonic_s)
        self.files_read: set[str] = set()
        self.reads_table = False
        self.staged_rows: Mapping[str, int] = {}
        self.app = app
        self.already_committed = app is not None and (step := snapshot.txns.get(app.app_id)) is not None and step.version >= app.version
        self.unseen: Unseen = {}
        self.passed: list[Commit] = []
        self.data_change = True
        self.done = self.given_up = False
        self.reruns = Reruns()
        self.phase("begin")

    @property
    def state(self) -> TableState:
        """What the table's handles in this process share."""
        return self.table.state

    def phase(self, name: str) -> None:
        self.table.observer.phase(name, self)

    def view(self, snapshot: Snapshot) -> Snapshot:
        """A snapshot as this transaction will have made it: under the metadata that it brings."""
        if self.metadata is None:
            return snapshot
        check_writable(snapshot.protocol, self.metadata, self.table.path)
        return replace(snapshot, metadata=self.metadata, schema=parse_schema(self.metadata.schema_string, self.table.path))

    @property
    def touches(self) -> bool:
        """Whether a statement can read or change rows that are there."""
        return any(s.touches for s in self.program)

    @property
    def is_lockless(self) -> bool:
        """Whether what is staged are intents by row id.  A compaction means no cells, and new metadata means the whole table: they are rebased."""
        return self.options.on_conflict == "lockless" and self.metadata is None and not any(s.kind == "move" for s in self.program)

    @property
    def is_blind(self) -> bool:
        """Whether nothing in the transaction read the table: appends only, and of rows from elsewhere."""
        return not self.touches and not self.reads_table

    def candidates(self, statement: Statement) -> list[Slice]:
        """The live rows of every file that a statement may read or change at the base."""
        if not statement.touches:
            return []
        if statement.kind == "move":
            chosen = list(self.base.files.get([p for group in statement.only for p in group]).values())
        else:
            chosen = self.base.files.prune(statement.reads, self.base.schema, self.base.partition_columns)
        return [whole(f, self.table.state.vectors.of) for f in chosen]

    def execute(self, *statements: Statement) -> None:
        """Stages statements that belong together (an overwrite is a delete and an append), on top of what is staged.

        Where it raises, the transaction is as it was before.
        """
        if self.done:
            raise InvalidInput("The transaction is over; begin another", table=self.table.path)
        for statement in statements:
            for version in statement.source_versions:
                self.note_read(version)
        first, program = len(self.program), [*self.program, *statements]
        slices = [left for s in self._all_candidates([s for s in statements if s.touches]) if (left := self._untouched(s)) is not None]
        with self.watch.time("stage"):
            self.effects, self.staged_rows = stage(program, first, self.effects, slices, engine=self.table.engine, snapshot=self.base)
        self.program = program
        self.data_change = any(s.kind != "move" for s in program)
        self.files_read |= {s.path for s in slices}
        self.phase("staged")

    def note_read(self, version: int | None = None) -> None:
        """The table was read as a whole, by the transaction or (at `version`) by what it is about to write: what others
        change of it from now on is a conflict.  Raises one where the table at `version` holds other rows than at the base.
        """
        self.reads_table = True
        if version is not None and version != self.base.version and self.options.on_conflict != "lockless":
            with kept(self, "WRITE" if not self.program else self.program[-1].kind.upper(), {}):
                check_source(self, version)

    def _untouched(self, piece: Slice) -> Slice | None:
        """The rows of a slice that no statement has changed yet; their new images are staged."""
        ours = self.effects.tombstones.get(piece.path)
        if not ours:
            return piece
        dead = ours | piece.without if piece.without else ours
        return None if piece.file.num_records is not None and len(dead) >= piece.file.num_records else Slice(piece.file, without=dead)

    def _all_candidates(self, reading: Sequence[Statement]) -> list[Slice]:
        slices = {s.path: s for statement in reading for s in self.candidates(statement)}
        return [slices[p] for p in sorted(slices)]

    def commit(self, operation: str, parameters: Mapping[str, Any] | None = None) -> Receipt:
        """Rebases as often as others commit first, and commits.  See `staged_statements.commit`."""
        if self.done:
            raise InvalidInput("The transaction is committed already", table=self.table.path)
        receipt = commit(self, operation, parameters or {})
        self.done = True
        return receipt
