"""The anomalies on the in-memory engine: what each isolation level promises, I3."""

from __future__ import annotations

from typing import Any

import pytest

from model.anomalies.anomaly import Anomaly, Outcome, Rows, cases, name_of, play, tuples
from model.schedules.in_memory import InMemory
from model.schedules.play import schema_string
from rowlock.conflict.delta import live_slice, minus
from rowlock.transaction.transaction import Options, Transaction
from rowlock_simulation.memory.sql.script import Append, Script
from rowlock_simulation.memory.statements import operation, parameters, statements_of


class Session:
    def __init__(self, txn: Transaction, engine: Any) -> None:
        self._txn, self._engine = txn, engine
        self._last: Script = Append(())

    def run(self, statement: Script) -> None:
        self._txn.execute(*statements_of(statement, self._txn.base))
        self._last = statement

    def read(self) -> Rows:
        """The base without what the transaction deleted or replaced, and what it has staged."""
        txn = self._txn
        txn.note_read()
        living = [minus(live_slice(f, txn.table.state.vectors.of), txn.effects.tombstones.get(f.path)) for f in txn.base.files.adds()]
        rows = self._engine.sample(living, None, snapshot=txn.base)
        return tuples([*rows, *(row for block in txn.effects.blocks if block.kind != "matched" for row in block.payload.rows)])

    def commit(self) -> None:
        self._txn.commit(operation(self._last), parameters(self._last))

    def abort(self) -> None:
        self._txn.done = True


class World:
    def __init__(self, anomaly: Anomaly) -> None:
        self._memory = InMemory()
        self._memory.create(schema_string([("k", "long", True), ("v", "long", True)]), (), {"delta.enableDeletionVectors": "true"})
        self._memory.run(Append(anomaly.rows))

    def begin(self, level: str, policy: str) -> Session:
        options = Options(isolation=level, on_conflict=policy, lane=False)
        return Session(self._memory.table.begin(options), self._memory.table.engine)

    def rows(self) -> Rows:
        return tuples(self._memory.rows())


@pytest.mark.parametrize(("anomaly", "outcome"), list(cases()), ids=name_of)
def test_anomaly(anomaly: Anomaly, outcome: Outcome) -> None:
    play(anomaly, outcome, World(anomaly))
