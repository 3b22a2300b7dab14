"""A table on a session: the shared engine, and one statement run as one transaction."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from rowlock import display
from rowlock.api import expressions
from rowlock.boundary.engine import AppendEngine
from rowlock.engines.appends.engine import ArrowEngine
from rowlock.engines.spark.catalyst.types import SparkSession
from rowlock.engines.spark.engine import SparkEngine
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.session.connect_server import is_connect
from rowlock.engines.spark.session.session import application_name
from rowlock.engines.spark.statements.merge_source import Source
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import Metadata, SetTransaction
from rowlock.protocol.schema import type_name
from rowlock.storage.open import open_store
from rowlock.transaction import run
from rowlock.transaction.run import Planned
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import SharedState, state_of
from rowlock.transaction.state.user_metadata import saying
from rowlock.transaction.state.writer import in_session
from rowlock.transaction.transaction import Table

Plan = Callable[[Evaluator, Snapshot], Planned]
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
"""Delta's setting for a text of the user's own in each commit of a session."""


class Runner(Protocol):
    """What carries statements out: a handle, each in a transaction of its own, or an open transaction."""

    @property
    def spark(self) -> SparkSession:
        """The user's session."""
        ...

    @property
    def path(self) -> str:
        """The table's root."""
        ...

    @property
    def evaluator(self) -> Evaluator:
        """What evaluates expressions over the table's rows."""
        ...

    def run(self, operation: str, plan: Plan) -> Receipt:
        """Carries out what `plan` makes of a snapshot; the receipt has no version while a transaction is open."""
        ...

    def holding(self, sources: list[Source]) -> AbstractContextManager[None]:
        """A block around a statement, after which its pinned sources are released once no rebase can ask for them."""
        ...


class Handle:
    """One table path on one SparkSession; `name` is the table's in the catalog, where it was asked for by that."""

    def __init__(self, spark: SparkSession, path: str, *, name: str | None = None, storage_options: Mapping[str, str] | None = None) -> None:
        self.spark, self.name = expressions.session(spark, "spark (sparkSession)"), name
        self.state: SharedState = state_of(open_store(path, storage_options))
        self._made: Table | None = None

    @property
    def path(self) -> str:
        """The table's root, as its store names it."""
        return self.state.store.root

    def facts(self) -> display.Facts:
        """What this process knows of the table, for people; nothing is read for it."""
        known = self.state.known
        if known is None:
            return [("path", [self.path])]
        return [
            ("path", [self.path]),
            ("version", [str(known.version)]),
            ("columns", [f"{f.name} {type_name(f.type, sql=True)}" for f in known.schema.fields]),
            ("partitioned by", [", ".join(known.partition_columns)] if known.partition_columns else []),
            ("files", [f"{display.count(len(known.files), 'file')}, {display.size(known.files.total_size_bytes)}"]),
            ("properties", [f"{name}={value}" for name, value in sorted(known.metadata.configuration.items())]),
        ]

    @property
    def table(self) -> Table:
        """The table with its Spark engine, which all handles on one session share; on a session of Spark Connect with one that needs no Spark."""
        if self._made is None:
            engine: AppendEngine
            if is_connect(self.spark):
                engine = self.state.shared("arrow engine", lambda: ArrowEngine(self.state.store))
            else:
                engine = self.state.shared_of_many(f"engine {id(self.spark)}", lambda: SparkEngine(self.spark, self.state))
            self._made = Table(self.state.log, engine, state=self.state)
        return self._made

    @property
    def evaluator(self) -> Evaluator:
        """The Spark engine's evaluator."""
        engine = self.table.engine
        assert isinstance(engine, SparkEngine)
        return engine.evaluator

    @contextmanager
    def holding(self, sources: list[Source]) -> Iterator[None]:
        """Keeps the pinned sources for the block, and releases them after it."""
        try:
            yield
        finally:
            for source in sources:
                source.release(self.evaluator)

    def run(self, operation: str, plan: Plan, *, metadata: Callable[[Snapshot], Metadata] | None = None, app: SetTransaction | None = None) -> Receipt:
        """One statement as one transaction (see `run.run`)."""
        with self.commits():
            return run.run(self.table, operation, lambda snapshot: plan(self.evaluator, snapshot), metadata=metadata, app=app)

    def commits(self, user_metadata: str | None = None) -> AbstractContextManager[None]:
        """A block whose commits carry `user_metadata`; where that is None, the text that the session's setting says."""
        return session_commits(self.spark, user_metadata)


@contextmanager
def session_commits(spark: SparkSession, user_metadata: str | None = None) -> Iterator[None]:
    """A block whose commits carry `user_metadata` in their commitInfo; where that is None, the text that the session's setting says."""
    with saying(user_metadata, lambda: spark.conf.get(USER_METADATA, None)), in_session(lambda: application_name(spark)):
        yield


class _WithHandle(Protocol):
    """A part of `DeltaTable`."""

    _handle: Handle


P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=_WithHandle)


def commits(method: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
    """A method of a table that commits: its commit carries the text that the session's setting says."""

    @functools.wraps(method)
    def within(self: T, /, *args: P.args, **named: P.kwargs) -> R:
        with self._handle.commits():
            return method(self, *args, **named)

    return within


class Receipts(threading.local):
    """The last receipt through a handle and its aliases, for each thread."""

    last: Receipt | None = None
