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
from rowlock.exceptions import InvalidInput
from rowlock.log.snapshot import Snapshot
from rowlock.log.table_log import TableLog
from rowlock.protocol.actions import AddFile, Metadata
from rowlock.protocol.features import check_writable
from rowlock.protocol.schema import parse_schema
from rowlock.transaction import creation
from rowlock.transaction.commit import commit
from rowlock.transaction.effects import Effects
from rowlock.transaction.engine import Engine
from rowlock.transaction.options import Options
from rowlock.transaction.phases import Observer, current_observer
from rowlock.transaction.publish import Staging
from rowlock.transaction.rebase import stage
from rowlock.transaction.receipt import Receipt, Stopwatch
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

    def begin(self, options: Options | None = None, *, snapshot: Snapshot | None = None, metadata: Metadata | None = None) -> Transaction:
        """A transaction that reads `snapshot`, by default the newest, and may bring new metadata with it.

        Raises UnsupportedFeature where the table may not be written.
        """
        return Transaction(self, options or Options(), snapshot or self.refresh(), metadata)


class Transaction:
    """Statements staged against one version, and their commit."""

    def __init__(self, table: Table, options: Options, snapshot: Snapshot, metadata: Metadata | None = None) -> None:
        check_writable(snapshot.protocol, snapshot.metadata, table.path)
        self.metadata = metadata if metadata is not None and metadata != snapshot.metadata else None
        self.table = table
        self.base, self.read_version = self.view(snapshot), snapshot.version
        self.options = options.resolved(snapshot.metadata.configuration)
        self.read = snapshot
        self.epoch = table.state.epoch
        self.txn_id = clock.new_id()
        self.program: list[Statement] = []
        self.effects = Effects()
        self.staging = Staging()
        self.watch = Stopwatch(clock.monotonic_s)
        self.files_read: list[AddFile] = []
        self.data_change = True
        self.done = False
        self.phase("begin")

    def phase(self, name: str) -> None:
        self.table.observer.phase(name, self)

    def view(self, snapshot: Snapshot) -> Snapshot:
        """A snapshot as this transaction will have made it: under the metadata that it brings."""
        if self.metadata is None:
            return snapshot
        check_writable(snapshot.protocol, self.metadata, self.table.path)
        return replace(snapshot, metadata=self.metadata, schema=parse_schema(self.metadata.schema_string, self.table.path))

    @property
    def is_blind(self) -> bool:
        """Whether no statement read the table: appends only."""
        return all(not s.touches for s in self.program)

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
        """Stages statements that belong together (an overwrite is a delete and an append), once for a transaction."""
        if self.program:
            raise InvalidInput("This version stages one statement for each transaction", table=self.table.path)
        self.program = list(statements)
        self.data_change = any(s.kind != "move" for s in statements)
        reading = [s for s in statements if s.touches]
        slices = self.candidates(reading[0]) if len(reading) == 1 else self._all_candidates(reading)
        self.files_read = [s.file for s in slices]
        with self.watch.time("stage"):
            self.effects = stage(self.program, slices, engine=self.table.engine, snapshot=self.base).effects
        self.phase("staged")

    def _all_candidates(self, reading: Sequence[Statement]) -> list[Slice]:
        slices = {s.path: s for statement in reading for s in self.candidates(statement)}
        return [slices[p] for p in sorted(slices)]

    def commit(self, operation: str, parameters: Mapping[str, Any] | None = None) -> Receipt:
        """Rebases as often as others commit first, and commits.  See `commit.commit`."""
        if self.done:
            raise InvalidInput("The transaction is committed already", table=self.table.path)
        receipt = commit(self, operation, parameters or {})
        self.done = True
        return receipt
