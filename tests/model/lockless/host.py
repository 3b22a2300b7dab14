"""Who carries out the steps of a lockless case: over one table, in this process, on either engine.

A host has its own handle on the table, as another process would.  What it takes and gives is plain
JSON, so that `process.py` can be the same host at the other end of a pipe.
"""

from __future__ import annotations

import random
import time
from typing import Any, Protocol

from model.schedules.in_memory import InMemory
from model.schedules.play import schema_string
from rowlock.boundary.engine import Engine
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import Commit
from rowlock.protocol.schema import PrimitiveType, StructField
from rowlock.storage.store import ObjectStore
from rowlock.transaction.definition import alteration
from rowlock.transaction.state.phases import Observer, use_observer
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import SharedState
from rowlock.transaction.transaction import Options, Transaction
from rowlock_simulation.memory.sql.script import Script, parse
from rowlock_simulation.memory.statements import operation, parameters, run, statements_of

LOCKLESS = {"delta.enableRowTracking": "true", "delta.enableDeletionVectors": "true", "rowlock.onConflict": "lockless"}
MAPPED = LOCKLESS | {"delta.columnMapping.mode": "name"}
Rows = list[list[Any]]
Told = dict[str, Any]
"""What a commit says: version, read_version, and the rows in which it met a winner."""


class Host(Protocol):
    """See MemoryHost."""

    def create(self, columns: str, properties: dict[str, str]) -> None: ...
    def begin(self) -> int: ...
    def run(self, session: int, text: str) -> None: ...
    def commit(self, session: int, pause_s: float = 0) -> Told: ...
    def do(self, text: str, policy: str | None = None) -> Told: ...
    def rows(self, version: int | None = None) -> Rows: ...
    def pin(self) -> int: ...
    def pinned(self, view: int) -> Rows: ...
    def refresh(self, view: int) -> None: ...
    def alter(self, change: str) -> int: ...
    def version(self) -> int: ...
    def appends(self, writer: int, commits: int, size: int) -> list[int]: ...
    def mixed(self, writer: int, commits: int, compacting: bool, seed: int) -> list[list[Any]]: ...


def told(receipt: Receipt) -> Told:
    return {
        "version": receipt.version,
        "read_version": receipt.read_version,
        "overwritten": [[o.row_id, o.outcome, list(o.columns), o.version] for o in receipt.overwritten],
    }


class _Pause(Observer):
    """Stops a commit in the middle of publishing: its files are written, its put is not made."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def phase(self, name: str, txn: Any) -> None:
        if name == "before_put" and self._seconds:
            time.sleep(self._seconds)
            self._seconds = 0


class MemoryHost:
    """A host on the engine that keeps rows in memory; the table's log and files lie in `store`."""

    def __init__(self, store: ObjectStore, **options: Any) -> None:
        self._world = InMemory(store=store, **options)
        self._open: list[tuple[Transaction, list[Script]]] = []
        self._pinned: list[Snapshot] = []

    def create(self, columns: str, properties: dict[str, str]) -> None:
        """`columns`: `k long, a long`."""
        self._world.create(schema_string([(*c.split(), True) for c in columns.split(", ")]), (), properties)  # type: ignore[misc]

    def begin(self) -> int:
        self._open.append((self._world.table.begin(), []))
        return len(self._open) - 1

    def run(self, session: int, text: str) -> None:
        txn, scripts = self._open[session]
        script = parse(text)
        txn.execute(*statements_of(script, txn.base))
        scripts.append(script)

    def commit(self, session: int, pause_s: float = 0) -> Told:
        txn, scripts = self._open[session]
        with use_observer(_Pause(pause_s)):
            return told(txn.commit(operation(scripts[0]), parameters(scripts[0])))

    def do(self, text: str, policy: str | None = None) -> Told:
        return told(run(self._world.table, parse(text), Options(on_conflict=policy)))

    def rows(self, version: int | None = None) -> Rows:
        """As whoever opens the table now sees them, in the order in which they lie."""
        return [list(row.values()) for row in self._world.rows(version)]

    def pin(self) -> int:
        """An open handle, which sees what it saw until it is refreshed."""
        self._pinned.append(self._world.table.refresh())
        return len(self._pinned) - 1

    def pinned(self, view: int) -> Rows:
        return self.rows(self._pinned[view].version)

    def refresh(self, view: int) -> None:
        self._pinned[view] = self._world.table.refresh()

    def alter(self, change: str) -> int:
        """`add NAME TYPE`, `rename OLD NEW` or `drop NAME`.  Gives the version."""
        return alter(self._world.state, self._world.engine, change)

    def version(self) -> int:
        return self._world.state.refresh().version

    def commits(self) -> list[Commit]:
        return self._world.state.log.commits(-1, self.version())

    def appends(self, writer: int, commits: int, size: int) -> list[int]:
        return appends(self, writer, commits, size)

    def mixed(self, writer: int, commits: int, compacting: bool, seed: int) -> list[list[Any]]:
        return mixed(self, writer, commits, compacting, seed)


def alter(state: SharedState, engine: Engine, change: str) -> int:
    verb, *words = change.split()
    if verb == "drop":
        receipt = alteration.drop_columns(state, engine, [(w,) for w in words])
    elif verb == "rename":
        receipt = alteration.rename_column(state, engine, words[:1], words[1])
    else:
        receipt = alteration.add_columns(state, engine, [StructField(words[0], PrimitiveType(words[1]))])
    assert receipt.version is not None
    return receipt.version


def appends(host: Host, writer: int, commits: int, size: int) -> list[int]:
    """Blocks of rows (writer, number of the block, number within it)."""
    versions = []
    for n in range(commits):
        rows = ", ".join(f"({writer}, {n}, {i})" for i in range(size))
        versions.append(host.do(f"APPEND {rows}")["version"])
    return versions


KEYS_AT_START = 60
COLUMNS = "abc"


def mixed(host: Host, writer: int, commits: int, compacting: bool, seed: int) -> list[list[Any]]:
    """Random statements on a table (k, a, b, c) whose keys are never used twice.  Gives for each commit (statement, version, read version)."""
    rng = random.Random(seed * 1000 + writer)
    fresh = 1_000_000 * (writer + 1)
    done: list[list[Any]] = []
    own: list[int] = []
    while len(done) < commits:
        known = [*range(KEYS_AT_START), *own]
        some = sorted(rng.sample(known, rng.randint(1, 4)))
        what = rng.choices(("append", "delete", "set", "add", "both", "optimize"), (30, 12, 30, 14, 10, 4 if compacting else 0))[0]
        keys = ", ".join(map(str, some))
        if what == "append":
            new = list(range(fresh, fresh + rng.randint(1, 3)))
            fresh, own = new[-1] + 1, [*own[-40:], *new]
            text = "APPEND " + ", ".join(f"({k}, {k % 7}, 0, 0)" for k in new)
        elif what == "delete":
            text = f"DELETE WHERE k IN ({keys})"
        elif what == "set":
            text = f"UPDATE SET {rng.choice(COLUMNS)} = {rng.randint(0, 9)} WHERE k IN ({keys})"
        elif what == "add":
            column = rng.choice(COLUMNS)
            text = f"UPDATE SET {column} = {column} + 1 WHERE k IN ({keys})"
        elif what == "both":
            text = f"UPDATE SET a = {rng.randint(0, 9)}, b = c + 1 WHERE k IN ({keys})"
        else:
            text = "OPTIMIZE"
        receipt = host.do(text)
        done.append([text, receipt["version"], receipt["read_version"]])
    return done
