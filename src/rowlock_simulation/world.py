"""Worlds: a store's real code over a simulated server, and the processes that write through it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from rowlock.log.table_log import TableLog
from rowlock.storage.dynamodb import ArbitratedStore, EntryTable
from rowlock.storage.local import LocalStore
from rowlock.storage.options import Settings, parse
from rowlock.storage.remote import RemoteStore
from rowlock.storage.store import ObjectStore
from rowlock.transaction.state.shared import SharedState
from rowlock.transaction.transaction import Table
from rowlock_simulation.history import History
from rowlock_simulation.memory.engine import MemoryEngine
from rowlock_simulation.plan import Plan, Weather
from rowlock_simulation.scheduler import Process, Scheduler
from rowlock_simulation.servers.disk import ROOT, Disk, SimulatedCalls
from rowlock_simulation.servers.dynamodb import DynamoDbRequests, DynamoDbTable
from rowlock_simulation.servers.s3 import Bucket, S3Requests
from rowlock_simulation.wire import Counted, Wire, counted_of

_CALM = Weather(0.01, 0.01, 1000)


class Server(Protocol):
    """The server of a world."""

    history: History

    def store(self, wire: Wire) -> ObjectStore:
        """The store of the table, as one process opens it."""
        ...


class S3Server:
    """S3 with conditional puts: `storage/remote` over a simulated bucket."""

    def __init__(self, *, conditional_commits: bool = True) -> None:
        self.history = History()
        self._bucket = Bucket(self.history, conditional_commits=conditional_commits)
        self._address, self._settings = parse("s3://simulated/table"), Settings("s3", {})

    def store(self, wire: Wire) -> ObjectStore:
        return RemoteStore(self._address, self._settings, S3Requests(self._bucket, wire))


class DynamoDbServer(S3Server):
    """S3 with the DynamoDB arbiter: `storage/dynamodb` over `storage/remote`, both over simulated servers.

    conditional_copy  False: the bucket's conditional puts are not used, as with Delta's own store, and it has none for commit files
    """

    def __init__(self, *, conditional_copy: bool) -> None:
        super().__init__(conditional_commits=conditional_copy)
        self._conditional_copy = conditional_copy
        self._entries = DynamoDbTable()

    def store(self, wire: Wire) -> ObjectStore:
        client: Any = DynamoDbRequests(self._entries, wire)
        return ArbitratedStore(super().store(wire), EntryTable(client, "delta_log"), conditional_copy=self._conditional_copy)


class LocalServer:
    """One machine with a local disk: `storage/local` over simulated system calls."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.history = History()
        self.disk = Disk(self.history, scheduler)

    def store(self, wire: Wire) -> ObjectStore:
        return LocalStore(ROOT, SimulatedCalls(self.disk, wire))


def server_of(plan: Plan, scheduler: Scheduler) -> Server:
    """The server of a plan's world."""
    if plan.world == "local":
        return LocalServer(scheduler)
    return DynamoDbServer(conditional_copy=plan.seed % 2 == 0) if plan.world == "dynamodb" else S3Server()


def open_table(store: ObjectStore, **engine: Any) -> Table:
    """A handle of the table with memory of its own, as another process has it."""
    log = TableLog(store)
    return Table(log, MemoryEngine(store, **engine), state=SharedState(log, store))


class Host:
    """One process name: what runs under it lives, dies and starts again with nothing but the store."""

    def __init__(self, name: str, plan: Plan, server: Server, scheduler: Scheduler) -> None:
        self.name, self._plan, self._server, self._scheduler = name, plan, server, scheduler
        self._counted = counted_of(plan.faults, name)
        self._table: Table | None = None
        self.on_power_loss: Callable[[], None] | None = None
        self.process = self._born()

    def _born(self) -> Process:
        return Process(self.name, self._plan.skews_ms.get(self.name, 0), self._plan.drifts.get(self.name, 0.0))

    def restarted(self) -> Process:
        """The process that lives under this name, started again if need be."""
        if not self.process.alive:
            self.process, self._table = self._born(), None
        return self.process

    def table(self) -> Table:
        """The process's handle of the table, which all its actors share."""
        if self._table is None:
            wire = Wire(self._scheduler, self.process, self._plan.weather, self._counted)
            wire.on_power_loss = self.on_power_loss
            self._table = open_table(self._server.store(wire), **self._plan.engine)
        return self._table


def one_machine(hosts: Mapping[str, Host], server: LocalServer, scheduler: Scheduler) -> None:
    """Puts all processes on the machine that the disk is in: where it loses its power they all end."""

    def lose_power() -> None:
        for name in sorted(hosts):
            scheduler.crash(hosts[name].process, why="loses its power")
        server.disk.lose_power()

    for host in hosts.values():
        host.on_power_loss = lose_power


def outside(server: Server, scheduler: Scheduler) -> Table:
    """A handle for whoever sets a schedule up or judges it: nothing goes wrong with its calls."""
    return open_table(server.store(Wire(scheduler, scheduler.outside, _CALM, Counted([]))))
