"""The world of schedules on the in-memory store and engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rowlock import clock
from rowlock.boundary.engine import Engine
from rowlock.conflict.delta import Slice, live_slice
from rowlock.log.snapshot import Snapshot
from rowlock.log.table_log import TableLog
from rowlock.maintenance.restore import restore
from rowlock.protocol import paths
from rowlock.protocol.actions import AddFile
from rowlock.storage.memory import MemoryStore
from rowlock.storage.store import ObjectStore
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import SharedState
from rowlock.transaction.transaction import Options, Table
from rowlock_simulation.memory.engine import MemoryEngine
from rowlock_simulation.memory.sql.script import Script
from rowlock_simulation.memory.statements import run

NO_LANE = Options(lane=False)


class InMemory:
    """One table, in memory or in `store`. Other keyword arguments are the engine's; `engine` stands in for it."""

    def __init__(
        self, *, override: Mapping[str, str] | None = None, engine: type[MemoryEngine] = MemoryEngine, store: ObjectStore | None = None, **options: Any
    ) -> None:
        store = store or MemoryStore(f"memory://{clock.new_id()}")
        log = TableLog(store)
        self.state = SharedState(log, store)
        made = engine(store, **options)
        self.state.shared("row ids", lambda: made.files)
        self.table = Table(log, made, state=self.state)
        self._override = dict(override or {})

    def create(self, schema_string: str, partition: tuple[str, ...], properties: dict[str, str]) -> None:
        self.table.create(schema_string, partition, {**properties, **self._override})

    @property
    def engine(self) -> Engine:
        return self.table.engine

    def run(self, script: Script) -> Receipt:
        return run(self.table, script, NO_LANE)

    def restore(self, version: int) -> Receipt:
        return restore(self.table, self.state.log.at(version), {"version": version}, options=NO_LANE)

    def identified(self, version: int) -> tuple[Snapshot, list[dict[str, Any]]]:
        """A version, and its rows with who they are."""
        snapshot, engine = TableLog(self.state.store).at(version), MemoryEngine(self.state.store)
        rows = []
        for piece in (live_slice(f, self.state.vectors.of) for f in snapshot.files.adds()):
            for row, (row_id, commit_version) in zip(engine.sample([piece], None, snapshot=snapshot), engine.row_ids(piece, snapshot), strict=True):
                rows.append({**row, "_row_id": row_id, "_row_commit_version": commit_version})
        return snapshot, rows

    def feed(self, version: int) -> list[tuple[str, dict[str, Any]]]:
        """The changes of a version as a reader finds them: out of its change data, or of its adds and removes where it has none."""
        commit, snapshot, engine = self.state.log.read_commit(version), TableLog(self.state.store).at(version), MemoryEngine(self.state.store)
        assert commit is not None
        if commit.cdc:
            assert all(c.raw["path"].startswith("_change_data/") and c.raw["dataChange"] is False for c in commit.cdc)
            return [found for c in commit.cdc for found in engine.files.changes(paths.decode(c.raw["path"]), c.raw["partitionValues"], snapshot.schema)]
        dead = self.state.vectors.of
        added = {a.path: a for a in commit.adds if a.data_change}
        removed = {r.path: AddFile(r.path, r.partition_values or {}, 0, 0, True, None, r.deletion_vector) for r in commit.removes if r.data_change}
        slices = [("insert", live_slice(a, dead)) for path, a in added.items() if path not in removed]
        slices += [("delete", Slice(added[p], only=dead(added[p]) - dead(r)) if p in added else live_slice(r, dead)) for p, r in removed.items()]
        return [(change, row) for change, piece in slices for row in engine.sample([piece], None, snapshot=snapshot)]

    def rows(self, version: int | None = None) -> list[dict[str, Any]]:
        """Of the newest version, or of another, in the order in which they lie."""
        log = TableLog(self.state.store)
        snapshot = log.latest() if version is None else log.at(version)
        slices = [live_slice(f, self.state.vectors.of) for f in snapshot.files.adds()]
        return MemoryEngine(self.state.store).sample(slices, None, snapshot=snapshot)
