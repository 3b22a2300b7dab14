"""Worlds: a store's real code over a simulated server, and the processes that write through it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from rowlock.exceptions import InvalidInput
from rowlock.log.table_log import TableLog
from rowlock.storage import open as storage_open
from rowlock.storage.dynamodb import ArbitratedStore, EntryTable
from rowlock.storage.dynamodb.arbiter import DEFAULT_TTL_S
from rowlock.storage.local import LocalStore
from rowlock.storage.options import Settings, parse
from rowlock.storage.remote import RemoteStore
from rowlock.storage.store import ObjectStore, StorageError
from rowlock.transaction.state.shared import SharedState
from rowlock.transaction.transaction import Table
from rowlock.transaction.two_phase import close
from rowlock_simulation.history import History
from rowlock_simulation.memory.engine import MemoryEngine
from rowlock_simulation.plan import Plan, Weather, World
from rowlock_simulation.scheduler import Process, Scheduler
from rowlock_simulation.servers.disk import Disk, SimulatedCalls
from rowlock_simulation.servers.dynamodb import DynamoDbRequests, DynamoDbTable
from rowlock_simulation.servers.s3 import Bucket, S3Requests
from rowlock_simulation.wire import Counted, Wire, counted_of

_address = functools.cache(parse)
_CALM = Weather(0.01, 0.01, 1000)


class Server(Protocol):
    """The server of a world."""

    history: History

    def store(self, wire: Wire) -> ObjectStore:
        """The store of the table, as one process opens it."""
        ...

    def drop(self) -> None:
        """Deletes the table at once, as if its folder were moved away."""
        ...


class S3Server:
    """S3 with conditional puts: `storage/remote` over a simulated bucket."""

    def __init__(self, *, conditional_commits: bool = True, as_azure: bool = False, table: str = "table") -> None:
        self.history, self._within = History(), "" if table == "table" else f"{table}/"
        self._bucket = Bucket(self.history, conditional_commits=conditional_commits, as_azure=as_azure)
        self._address, self._settings = _address(f"s3://simulated/{table}"), Settings("s3", {})

    def store(self, wire: Wire) -> ObjectStore:
        return RemoteStore(self._address, self._settings, S3Requests(self._bucket, wire, self._within))

    def drop(self) -> None:
        self._bucket.drop()


class DynamoDbServer(S3Server):
    """S3 with the DynamoDB arbiter: `storage/dynamodb` over `storage/remote`, both over simulated servers.

    conditional_copy  False: the bucket's conditional puts are not used, as with Delta's own store, and it has none for commit files
    ttl_s             seconds after which a complete entry may go; this server deletes none
    """

    def __init__(self, *, conditional_copy: bool, ttl_s: int = DEFAULT_TTL_S, table: str = "table", entries: DynamoDbTable | None = None) -> None:
        super().__init__(conditional_commits=conditional_copy, table=table)
        self._conditional_copy, self._ttl_s, self._entries = conditional_copy, ttl_s, entries or DynamoDbTable()

    def store(self, wire: Wire) -> ObjectStore:
        client: Any = wire.made("dynamodb", lambda: DynamoDbRequests(self._entries, wire))
        return ArbitratedStore(super().store(wire), EntryTable(client, "delta_log"), ttl_s=self._ttl_s, conditional_copy=self._conditional_copy)

    def drop(self) -> None:
        super().drop()
        self._entries.clear(self.history)


class LocalServer:
    """One machine with a local disk: `storage/local` over simulated system calls."""

    def __init__(self, scheduler: Scheduler, table: str = "table") -> None:
        self.history, self._root = History(), f"/simulated/{table}"
        self.disk = Disk(self.history, scheduler, self._root)

    def store(self, wire: Wire) -> ObjectStore:
        return LocalStore(self._root, SimulatedCalls(self.disk, wire))

    def drop(self) -> None:
        self.disk.drop()


def servers_of(plan: Plan, scheduler: Scheduler) -> list[Server]:
    """The server of each table of a plan and of each clone; a DynamoDB table is one for all of them."""
    entries, conditional_copy, ttl_s = DynamoDbTable(), plan.seed % 2 == 0, DEFAULT_TTL_S if plan.seed % 5 else 0

    def server(store: World, table: str) -> Server:
        if store == "local":
            return LocalServer(scheduler, table)
        if store == "dynamodb":
            return DynamoDbServer(conditional_copy=conditional_copy, ttl_s=ttl_s, table=table, entries=entries)
        return S3Server(as_azure=plan.seed % 4 == 1, table=table)

    return [server(t.store, f"t{n}") for n, t in enumerate(plan.tables)] or [
        server(plan.world, "table"),
        *(server(plan.world, f"clone{n + 1}") for n in range(plan.clones)),
    ]


def open_table(store: ObjectStore, **engine: Any) -> Table:
    """A handle of the table with memory of its own, as another process has it."""
    log, made = TableLog(store), MemoryEngine(store, **engine)
    state = SharedState(log, store)
    state.shared("row ids", lambda: made.files)
    return Table(log, made, state=state)


VISITOR = "visitor"
"""The name of a process that may read tables and not write to them."""


class _ReadOnly:
    """A store whose user may not write."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def put(self, key: str, *_: object) -> Any:
        """Raises StorageError."""
        raise StorageError(f"{key}: access was denied")

    put_if_absent = put_briefly = put_parts = delete = put


class _Below:
    """A folder in a table's folder, whose files are read."""

    def __init__(self, store: ObjectStore, folder: str) -> None:
        self._store, self._folder = store, folder

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)
        return lambda key, *more: call(f"{self._folder}/{key}", *more)


class Handles:
    """The handles of all tables that one process has open."""

    def __init__(self, servers: Sequence[Server], wire: Wire, engine: Mapping[str, Any], *, may_write: bool = True) -> None:
        self._servers, self._wire, self._engine, self._may_write = servers, wire, engine, may_write
        self._open: dict[tuple[int, bool], Table] = {}

    def table(self, number: int = 0, *, unaware: bool = False) -> Table:
        """The handle of a table, which all actors of the process share; `unaware`: that of an engine that knows no transactions over several tables."""
        if (number, unaware) not in self._open:
            store: Any = self._servers[number].store(self._wire)
            table = self._open[number, unaware] = open_table(store if self._may_write else _ReadOnly(store), **self._engine)
            if unaware:
                state = table.state
                state.refresh = state.look  # type: ignore[method-assign]
                state.newest = lambda *, settled=True: state.look()  # type: ignore[method-assign]
        return self._open[number, unaware]

    def at(self, root: str) -> Table | None:
        """The handle of the table at a place."""
        return next((t for t in map(self.table, range(len(self._servers))) if t.state.store.root == root), None)

    def store_of(self, place: str) -> Any:
        """The store of a table's folder, or of a folder in it; None where no table has it."""
        for store in (self.table(n).state.store for n in range(len(self._servers))):
            if place == store.root or place.startswith(f"{store.root}/"):
                return store if place == store.root else _Below(store, place[len(store.root) + 1 :])
        return None


class Host:
    """One process name: what runs under it lives, dies and starts again with nothing but the store."""

    def __init__(self, name: str, plan: Plan, servers: Sequence[Server], scheduler: Scheduler) -> None:
        self.name, self._plan, self._servers, self._scheduler = name, plan, servers, scheduler
        self._counted = counted_of(plan.faults, name)
        self._handles: Handles | None = None
        self.on_power_loss: Callable[[], None] | None = None
        self.queries: dict[str, Any] = {}
        """The checkpoints of streaming queries by actor: they are neither in the store nor in a process, and outlive both."""
        self.process = self._born()

    def _born(self) -> Process:
        return Process(self.name, self._plan.skews_ms.get(self.name, 0), self._plan.drifts.get(self.name, 0.0))

    def restarted(self) -> Process:
        """The process that lives under this name, started again if need be."""
        if not self.process.alive:
            self.process, self._handles = self._born(), None
        return self.process

    @property
    def history(self) -> History:
        """What the store of the first table has held."""
        return self._servers[0].history

    def drop_table(self) -> None:
        """Deletes the table beneath all its users."""
        self._servers[0].drop()
        self._scheduler.note("the table is dropped")

    @property
    def handles(self) -> Handles:
        """What the process has open."""
        if self._handles is None:
            wire = Wire(self._scheduler, self.process, self._plan.weather, self._counted)
            wire.on_power_loss = self.on_power_loss
            self._handles = Handles(
                self._servers, wire, self._plan.engine | {"takes_s": self._plan.takes_s.get(self.name, 0.0)}, may_write=self.name != VISITOR
            )
        return self._handles


def one_machine(hosts: Mapping[str, Host], servers: Sequence[LocalServer], scheduler: Scheduler) -> None:
    """Puts all processes on the machine that the disks are in: where it loses its power they all end."""

    def lose_power() -> None:
        for name in sorted(hosts):
            scheduler.crash(hosts[name].process, why="loses its power")
        for server in servers:
            server.disk.lose_power()

    for host in hosts.values():
        host.on_power_loss = lose_power


def outside(servers: Sequence[Server], scheduler: Scheduler) -> Handles:
    """The handles by which a schedule is set up and judged: no fault strikes their calls."""
    return Handles(servers, Wire(scheduler, scheduler.outside, _CALM, Counted([])), {})


@contextlib.contextmanager
def tables_are_found(handles: Callable[[], Handles]) -> Iterator[None]:
    """Lets the code under test find another table, or a file in its folder, by its place among the `handles` of the process that asks, until the block ends."""

    def store_beside(store: ObjectStore, place: str) -> ObjectStore:
        found: ObjectStore | None = handles().store_of(place)
        if found is None:
            raise InvalidInput(f"there is no table at {place}", table=place)
        return found

    def state_of(store: ObjectStore) -> SharedState:
        found = handles().at(store.root)
        assert found is not None
        return found.state

    module: Any = close
    opening: Any = storage_open
    before = module.beside, module.state_of, opening.beside
    module.beside, module.state_of, opening.beside = store_beside, state_of, store_beside
    try:
        yield
    finally:
        module.beside, module.state_of, opening.beside = before
