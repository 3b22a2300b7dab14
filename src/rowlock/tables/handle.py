"""A table on a session: the shared engine, and one statement run as one transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rowlock import clock
from rowlock.exceptions import InvalidInput
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import Metadata
from rowlock.spark.engine import SparkEngine
from rowlock.spark.plane import Plane
from rowlock.spark.types import SparkSession
from rowlock.storage.open import open_store
from rowlock.transaction.receipt import Receipt
from rowlock.transaction.statements import Statement
from rowlock.transaction.table_state import TableState, state_of
from rowlock.transaction.transaction import Options, Table

Planned = tuple[Sequence[Statement], Mapping[str, Any]]
"""The statements of a transaction and its operation's parameters."""


class Handle:
    """One table path on one SparkSession."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        if not hasattr(spark, "createDataFrame"):
            raise InvalidInput(f"A SparkSession is needed, not {type(spark).__name__}")
        self.spark = spark
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

    def run(self, operation: str, plan: Callable[[Plane, Snapshot], Planned], *, metadata: Callable[[Snapshot], Metadata] | None = None) -> Receipt:
        """Plans against the newest snapshot, stages, commits.  What is raised leaves the table as it is."""
        start = clock.monotonic_s()
        snapshot = self.table.refresh()
        txn = self.table.begin(Options(), snapshot=snapshot, metadata=metadata(snapshot) if metadata else None)
        statements, parameters = plan(self.plane, txn.base)
        txn.watch.add("plan", clock.monotonic_s() - start)
        txn.execute(*statements)
        return txn.commit(operation, parameters)


class Receipts(threading.local):
    """The last receipt through a handle and its aliases, for each thread."""

    last: Receipt | None = None
