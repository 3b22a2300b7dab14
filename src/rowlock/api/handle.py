"""A table on a session: the shared engine, and one statement run as one transaction."""

from __future__ import annotations

import datetime
import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from rowlock import display
from rowlock.api import expressions
from rowlock.boundary.engine import AppendEngine
from rowlock.engines.appends.engine import ArrowEngine
from rowlock.engines.spark.catalyst.analysis import TableName
from rowlock.engines.spark.catalyst.types import SparkSession
from rowlock.engines.spark.engine import SparkEngine
from rowlock.engines.spark.plan import Planner
from rowlock.engines.spark.statements import sources
from rowlock.engines.spark.user_session import Session
from rowlock.log.snapshot import Snapshot
from rowlock.maintenance.optimize import auto_compaction
from rowlock.protocol.actions import Metadata, SetTransaction
from rowlock.protocol.schema import type_name
from rowlock.protocol.session_settings import ROWS, Work
from rowlock.storage.open import open_store
from rowlock.transaction import transaction
from rowlock.transaction.state import call
from rowlock.transaction.state.call import in_session
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import SharedState, logger, snapshot_of, state_of
from rowlock.transaction.transaction import Planned, Table

Plan = Callable[[Planner, Snapshot], Planned]
WORKS: Mapping[str, Work] = {
    "WRITE": "write",
    "MERGE": "merge",
    "UPDATE": "update",
    "DELETE": "delete",
    "TRUNCATE": "delete",
    "OPTIMIZE": "optimize",
    "REORG": "optimize",
}
"""What a statement does, by Delta's name of its operation."""


class Runner(Protocol):
    """What carries statements out: a handle, each in a transaction of its own, or an open transaction."""

    @property
    def handle(self) -> Handle:
        """The table on its session."""

    def run(self, operation: str, plan: Plan) -> Receipt:
        """Carries out what `plan` makes of a snapshot; the receipt has no version while a transaction is open."""

    def holding(self, pinned: list[sources.Source]) -> AbstractContextManager[None]:
        """A block around a statement, after which its pinned sources are released once no rebase can ask for them."""


class Handle:
    """One table path on one SparkSession; `name` has the parts of the table's name in the catalog, where it was asked for by that."""

    def __init__(self, spark: SparkSession, path: str, *, name: Sequence[str] = (), storage_options: Mapping[str, str] | None = None) -> None:
        self.spark, self._parts = expressions.session(spark, "spark (sparkSession)"), name
        self.session = Session(spark)
        self.state: SharedState = state_of(open_store(path, storage_options))
        self.path = self.state.store.root
        self._made: Table | None = None

    @property
    def handle(self) -> Handle:
        """Itself: what carries its statements out."""
        return self

    @property
    def name(self) -> str | None:
        """The table's name in the catalog as text for people; None where it was asked for by its path."""
        return ".".join(self._parts) or None

    @property
    def table_name(self) -> TableName | None:
        """The table's name in the catalog, by which expressions may call it, too; None where it was asked for by its path."""
        return TableName.of(self._parts) if self._parts else None

    def time_ms(self, timestamp: Any) -> int:
        """Milliseconds since 1970 (UTC) of a datetime, or of text that the session casts to a timestamp.  Raises InvalidInput for any other text."""
        return self.session.milliseconds(timestamp, self.path)

    def at(self, version: int | None = None, timestamp: str | datetime.datetime | None = None) -> Snapshot:
        """The snapshot of a version, of the newest version at a time, or by default of the newest of all.  Raises InvalidInput, VersionNotFound."""
        if timestamp is None:
            return snapshot_of(self.state, version)
        return snapshot_of(self.state, version, self.time_ms(timestamp), self.session.zone)

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
            if self.session.is_connect:
                engine = self.state.shared("arrow engine", lambda: ArrowEngine(self.state.store))
            else:
                engine = self.state.shared_of_many(f"engine {id(self.spark)}", lambda: SparkEngine(self.spark, self.state))
            self._made = Table(self.state.log, engine, state=self.state)
        return self._made

    @property
    def engine(self) -> SparkEngine:
        """The Spark engine."""
        engine = self.table.engine
        assert isinstance(engine, SparkEngine)
        return engine

    @property
    def planner(self) -> Planner:
        """What plans statements on the table, and reads it."""
        return self.engine.planner

    @contextmanager
    def holding(self, pinned: list[sources.Source]) -> Iterator[None]:
        """Keeps the pinned sources for the block, and releases them after it."""
        try:
            yield
        finally:
            for source in pinned:
                source.release(self.engine.evaluator)

    def run(self, operation: str, plan: Plan, *, metadata: Callable[[Snapshot], Metadata] | None = None, app: SetTransaction | None = None) -> Receipt:
        """One statement as one transaction (see `run.run`): where `app` is None, and it changes rows, the step that the session's settings name."""
        work = WORKS[operation]
        with self.commits(work), self.session.fixed_variables():
            step = call.settings().application if app is None and work in ROWS else None
            receipt = transaction.run(self.table, operation, lambda snapshot: self.planner.planned(snapshot, plan), metadata=metadata, app=app or step)
            if step is not None and (receipt.version is not None or receipt.already_committed):
                self.session.reset_step()
            return self.compacted(receipt) if work in ROWS else receipt

    def compacted(self, receipt: Receipt) -> Receipt:
        """The receipt of a commit of rows; after it small files are compacted, where the session or the table asks for that.  Its failure is only logged."""
        if receipt.version is None or not call.settings().flag("autoCompact.enabled", self.state.newest().properties.auto_compacts):
            return receipt
        try:
            written = self.state.log.commits(receipt.version - 1, receipt.version)[0].adds
            if (statement := auto_compaction(self.state.newest(), written, call.settings())) is not None:
                parameters = {"predicate": [], "zOrderBy": [], "clusterBy": [], "auto": True}
                transaction.run(self.table, "OPTIMIZE", lambda head: ([auto_compaction(head, written, call.settings()) or statement], parameters))
        except Exception as e:  # noqa: BLE001 - the commit has landed; the next one tries again
            logger.warning("the compaction after version %d of %s failed and will be tried again: %s", receipt.version, self.path, e)
        return receipt

    @contextmanager
    def commits(self, work: Work | None = None, user_metadata: str | None = None, **options: Any) -> Iterator[None]:
        """A block whose commits go by the session's settings (see `session_commits`); after it Spark computes anew what it has cached of the table."""
        try:
            with session_commits(self.session, work, user_metadata, **options):
                yield
        finally:
            self.session.refresh_cached(self.state.store)


@contextmanager
def session_commits(session: Session, work: Work | None = None, user_metadata: str | None = None, **options: Any) -> Iterator[None]:
    """A block whose commits are those of the session's application, and go by its settings (see `by_settings_of`)."""
    with by_settings_of(session, work, user_metadata, **options), in_session(lambda: session.application_name):
        yield


@contextmanager
def by_settings_of(session: Session, work: Work | None = None, user_metadata: str | None = None, **options: Any) -> Iterator[None]:
    """A block whose commits go by the session's settings as they are when the outermost such block begins, and carry `user_metadata` in their commitInfo.

    `options`: what a write says itself of what settings are for (see `calling`).
    Raises UnsupportedFeature for a setting that `work` cannot heed, InvalidInput for a value of another type.
    """
    outermost = not call.is_within()
    with call.calling(user_metadata, session.settings, **options) as this:
        if work is not None:
            call.settings().check(work)
        yield
        if outermost and this.committed:
            session.note_commit(this.committed[-1])


@contextmanager
def step_of(session: Session, app: SetTransaction | None) -> Iterator[SetTransaction | None]:
    """A block for work that is the step `app` of an application, else the one that the session's settings name."""
    found = call.settings().application if app is None else None
    yield app or found
    if found is not None:
        session.reset_step()


class _WithHandle(Protocol):
    """A part of `DeltaTable`."""

    _handle: Handle


P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=_WithHandle)


def commits(work: Work) -> Callable[[Callable[Concatenate[T, P], R]], Callable[Concatenate[T, P], R]]:
    """A method of a table that commits: it goes by the session's settings."""

    def decorated(method: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
        @functools.wraps(method)
        def within(self: T, /, *args: P.args, **named: P.kwargs) -> R:
            with self._handle.commits(work):
                return method(self, *args, **named)

        return within

    return decorated


class Receipts(threading.local):
    """The last receipt through a handle and its aliases, for each thread."""

    last: Receipt | None = None
