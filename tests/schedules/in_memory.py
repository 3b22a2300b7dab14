"""The world of schedules on the in-memory store and engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rowlock import clock
from rowlock.conflict.delta import whole
from rowlock.log.snapshot import Snapshot
from rowlock.log.table_log import TableLog
from rowlock.simulation.engine import MemoryEngine
from rowlock.simulation.script import Script
from rowlock.simulation.statements import run
from rowlock.storage.memory import MemoryStore
from rowlock.transaction.receipt import Receipt
from rowlock.transaction.table_state import TableState
from rowlock.transaction.transaction import Options, Table

NO_LANE = Options(lane=False)


class InMemory:
    """One table in memory. Other keyword arguments are the engine's; `engine` stands in for it."""

    def __init__(self, *, override: Mapping[str, str] | None = None, engine: type[MemoryEngine] = MemoryEngine, **options: Any) -> None:
        store = MemoryStore(f"memory://{clock.new_id()}")
        log = TableLog(store)
        self.state = TableState(log, store)
        self.table = Table(log, engine(store, **options), state=self.state)
        self._override = dict(override or {})

    def create(self, schema_string: str, partition: tuple[str, ...], properties: dict[str, str]) -> None:
        self.table.create(schema_string, partition, {**properties, **self._override})

    def run(self, script: Script) -> Receipt:
        return run(self.table, script, NO_LANE)

    def identified(self, version: int) -> tuple[Snapshot, list[dict[str, Any]]]:
        """A version, and its rows with who they are."""
        snapshot, engine = TableLog(self.state.store).at(version), MemoryEngine(self.state.store)
        rows = []
        for piece in (whole(f, self.state.vectors.of) for f in snapshot.files.adds()):
            for row, (row_id, commit_version) in zip(engine.sample([piece], None, snapshot=snapshot), engine.row_ids(piece, snapshot), strict=True):
                rows.append({**row, "_row_id": row_id, "_row_commit_version": commit_version})
        return snapshot, rows

    def rows(self) -> list[dict[str, Any]]:
        snapshot = TableLog(self.state.store).latest()
        slices = [whole(f, self.state.vectors.of) for f in snapshot.files.adds()]
        return MemoryEngine(self.state.store).sample(slices, None, snapshot=snapshot)
