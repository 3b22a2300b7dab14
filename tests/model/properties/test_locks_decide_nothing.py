"""I7: with every call of the lock provider failing or lying at random, a rebase still equals serial execution.

Each writer of a random history takes leases and turns, under any lock; a third of all calls of the provider fails,
lies, loses its reply or answers with what is old.  The clock is the test's, so waiting takes no time.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from model.properties.contest import Contest
from model.properties.histories import COLUMNS, History, histories
from model.schedules.in_memory import InMemory
from rowlock import clock
from rowlock.locks import turns
from rowlock.locks.lease import Leases
from rowlock.protocol.properties import KNOBS
from rowlock.storage.registers import ObjectRegisters
from rowlock.transaction import lease_line
from rowlock.transaction.lease_line import LeaseLine
from rowlock.transaction.state.options import Options
from rowlock.transaction.state.receipt import Receipt
from rowlock_simulation.memory.sql.script import Script
from rowlock_simulation.memory.statements import operation, parameters, run, statements_of
from rowlock_simulation.serial import SerialTable
from support.locks.clocks import TestClock
from support.locks.registers import Unreliable

CASES = int(os.environ.get("ROWLOCK_LOCK_CASES", "120"))
SEEN: Counter[str] = Counter()


class Locking(InMemory):
    """A world whose writers all take leases and turns, from a provider that fails by `seed`; the locks are dealt in turn."""

    def __init__(self, seed: int, locks: Sequence[str], **options: Any) -> None:
        super().__init__(**options)
        self._locks, self._next = locks, 0
        self.registers: Any = self.state.shared("registers object", lambda: Unreliable(ObjectRegisters(self.state.store), seed, chance=0.35))
        self.state.shared("leases object 10.0", lambda: Leases(self.registers, keep=False, rest_s=0.0))

    @property
    def options(self) -> Options:
        self._next += 1
        return Options(lane=False, turns=True, lock=self._locks[self._next % len(self._locks)], lock_timeout=5.0)

    def run(self, script: Script) -> Receipt:
        return run(self.table, script, self.options)

    def run_program(self, scripts: Sequence[Script]) -> Receipt:
        with LeaseLine(self.state) as place:
            while True:
                txn = self.table.begin(self.options)
                programs = [statements_of(script, txn.base) for script in scripts]
                if not place.join(txn, [s for program in programs for s in program]):
                    break
            for statements in programs:
                txn.execute(*statements)
            return txn.commit(operation(scripts[0]), parameters(scripts[0]))


@given(history=histories(several_statements=True), seed=st.integers(0, 2**32), locks=st.lists(st.sampled_from(KNOBS["rowlock.lock"]), min_size=1, max_size=4))
@settings(max_examples=CASES, suppress_health_check=list(HealthCheck), print_blob=True)
def test_rebase_equals_serial_execution_whatever_the_locks_do(history: History, seed: int, locks: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch, clock.use(TestClock()):
        patch.setattr(turns, "AFTER", 1)
        patch.setattr(turns, "PATIENCE_S", 0.0)
        patch.setattr(lease_line, "advised_lock", lambda state: "partition")
        world = Locking(seed, locks)
        Contest(history, world, SerialTable(COLUMNS, history.not_null), world.run_program, steps=len(history.program)).run()
        SEEN["histories"] += 1
        SEEN["faults"] += world.registers.faults
        for cell in ("leases", "turn"):
            SEEN[cell] += cell in world.registers.kept


def test_and_they_did_fail() -> None:
    if not SEEN:
        pytest.skip("the property was not run in this process")
    assert SEEN["faults"] > SEEN["histories"] and SEEN["leases"] > SEEN["histories"] // 10 and SEEN["turn"] > SEEN["histories"] // 20, SEEN
