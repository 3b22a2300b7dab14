"""A table on a session: the shared engine, and one statement run as one transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from rowlock import clock
from rowlock.exceptions import (
    ConcurrentTransactionException,
    DeltaConcurrentModificationException,
    InvalidInput,
    MetadataChangedException,
    ProtocolChangedException,
)
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import Metadata, SetTransaction
from rowlock.spark.engine import SparkEngine
from rowlock.spark.merge_source import Source
from rowlock.spark.plane import Plane
from rowlock.spark.types import SparkSession
from rowlock.storage.open import open_store
from rowlock.transaction.line import Line
from rowlock.transaction.receipt import Receipt
from rowlock.transaction.statements import Statement
from rowlock.transaction.table_state import TableState, state_of
from rowlock.transaction.transaction import Options, Table, Transaction

Planned = tuple[Sequence[Statement], Mapping[str, Any]]
"""The statements of a transaction and its operation's parameters."""
Plan = Callable[[Plane, Snapshot], Planned]
RERUNS = 20
"""How often a statement is planned and staged anew before its conflict is raised after all."""


class Runner(Protocol):
    """What carries statements out: a handle, each in a transaction of its own, or an open transaction."""

    @property
    def spark(self) -> SparkSession: ...
    @property
    def path(self) -> str: ...
    @property
    def plane(self) -> Plane: ...
    def run(self, operation: str, plan: Plan) -> Receipt: ...
    def holding(self, sources: list[Source]) -> AbstractContextManager[None]:
        """Pinned sources are released when nothing can ask for them again."""
        ...


class Handle:
    """One table path on one SparkSession; `name` is the table's in the catalog, where it was asked for by that."""

    def __init__(self, spark: SparkSession, path: str, *, name: str | None = None) -> None:
        if not hasattr(spark, "createDataFrame"):
            raise InvalidInput(f"A SparkSession is needed, not {type(spark).__name__}")
        self.spark, self.name = spark, name
        self.state: TableState = state_of(open_store(path))
        self._made: Table | None = None

    @property
    def path(self) -> str:
        return self.state.store.root

    @property
    def table(self) -> Table:
        if self._made is None:
            engine = self.state.shared(f"engine {id(self.spark)}", lambda: SparkEngine(self.spark, self.state))
            self._made = Table(self.state.log, engine, state=self.state)
        return self._made

    @property
    def plane(self) -> Plane:
        engine = self.table.engine
        assert isinstance(engine, SparkEngine)
        return engine.plane

    @contextmanager
    def holding(self, sources: list[Source]) -> Iterator[None]:
        """See Runner."""
        try:
            yield
        finally:
            for source in sources:
                source.release(self.plane)

    def run(self, operation: str, plan: Plan, *, metadata: Callable[[Snapshot], Metadata] | None = None, app: SetTransaction | None = None) -> Receipt:
        """Plans against the newest snapshot, stages, commits: one statement as one transaction.  What is raised leaves the table as it is.

        A statement is planned and staged again from the head where the policy is `rerun` and it met a conflict, or
        where (under `repair` too) the schema or the protocol changed under it.
        """
        with Line(self.state) as line:
            for attempt in range(RERUNS + 1):
                txn, statements, parameters = self._planned(line, plan, metadata, app)
                try:
                    if statements:
                        txn.execute(*statements)
                    return txn.commit(operation, parameters)
                except DeltaConcurrentModificationException as conflict:
                    if attempt == RERUNS or not _runs_again(txn.options, conflict):
                        raise
                clock.sleep(0.01 * min(2**attempt, 64) * clock.jitter())
        raise AssertionError("unreachable")

    def _planned(self, line: Line, plan: Plan, metadata: Callable[[Snapshot], Metadata] | None, app: SetTransaction | None) -> tuple[Transaction, Sequence[Statement], Mapping[str, Any]]:
        """A transaction that reads the head, and what is to be staged in it; again where the head moved while it waited in line."""
        while True:
            start = clock.monotonic_s()
            snapshot = self.table.refresh()
            txn = self.table.begin(snapshot=snapshot, metadata=metadata(snapshot) if metadata else None, app=app)
            if txn.already_committed:
                return txn, (), {}
            statements, parameters = plan(self.plane, txn.base)
            planned_s = clock.monotonic_s() - start
            if not line.join(txn, statements):
                txn.watch.add("plan", planned_s)
                line.account(txn)
                return txn, statements, parameters


def _runs_again(options: Options, conflict: DeltaConcurrentModificationException) -> bool:
    if isinstance(conflict, ConcurrentTransactionException):
        return False
    return options.on_conflict == "rerun" or (options.on_conflict == "repair" and isinstance(conflict, (MetadataChangedException, ProtocolChangedException)))


class Receipts(threading.local):
    """The last receipt through a handle and its aliases, for each thread."""

    last: Receipt | None = None
