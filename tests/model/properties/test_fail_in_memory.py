"""`on_conflict=fail`: what commits is serial, and by row it raises exactly when a rebase would change more than places."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, event, example, given, settings

from model.properties.histories import COLUMNS, History, histories
from model.schedules.in_memory import NO_LANE, InMemory
from model.schedules.play import audit, schema_string
from rowlock.exceptions import ConstraintViolated, DeltaConcurrentModificationException
from rowlock_simulation.memory.sql.script import Append, Clause, Merge, Optimize, Overwrite, Script
from rowlock_simulation.memory.statements import commit, stage
from rowlock_simulation.serial import SerialTable, bag

CASES = int(os.environ.get("ROWLOCK_PROPERTY_CASES", "200")) // 4
SETTINGS = settings(max_examples=CASES, suppress_health_check=list(HealthCheck), print_blob=True)


class Fail:
    """A history whose winners leave the transaction's own session the policy `fail`."""

    def __init__(self, history: History, granularity: str) -> None:
        self.history, self.world, self.serial = history, InMemory(), SerialTable(COLUMNS, history.not_null)
        columns = [(c, "long", c not in history.not_null) for c in COLUMNS]
        vectors = "true" if history.vectors else "false"
        properties = {"delta.enableDeletionVectors": vectors, "rowlock.onConflict": "fail", "rowlock.granularity": granularity}
        self.world.create(schema_string(columns), ("p",) if history.partitioned else (), properties)

    def both(self, scripts: Sequence[Script]) -> None:
        """Undisturbed transactions."""
        for script in scripts:
            try:
                self.serial.run(script)
            except ConstraintViolated:
                continue
            self.world.run(script)

    def changes(self, script: Script) -> Counter[str] | None:
        try:
            return Counter(map(str, self.serial.touched(script))) + Counter(f"source row {n}" for n in self.serial.inserting)
        except ConstraintViolated:
            return None

    def play(self) -> tuple[bool | None, bool]:
        """(raised a conflict, the changes of the program differ before and after the winners); None: it ended before."""
        h, (script,) = self.history, self.history.program
        self.both([*map(Append, h.files), *h.before])
        before = self.changes(script)
        if before is None:
            return None, False
        txn = stage(self.world.table, script, NO_LANE)
        empty = txn.effects.is_empty and not isinstance(script, Append | Overwrite)
        self.both([s for scripts in h.rounds for s in scripts])
        after = self.changes(script)
        raised: bool | None = False
        try:
            receipt = commit(txn, script)
            if receipt.version is not None:
                self.serial.run(script)
        except DeltaConcurrentModificationException:
            raised = True
        except ConstraintViolated:
            assert after is None
            raised = None
        audit(self.world.state.log)
        assert bag(self.world.rows()) == bag(self.serial.rows)
        return (None if empty else raised), before != after


@pytest.mark.parametrize("granularity", ["row", "file"])
def test_what_commits_is_serial(granularity: str) -> None:
    @given(history=histories())
    @SETTINGS
    def check(history: History) -> None:
        raised, _ = Fail(history, granularity).play()
        event(f"raised: {raised}")

    check()


_OTHER_SOURCE_ROW = Merge(
    ("k", "v", "w", "p"), ((0, 0, 0, 0), (0, 0, 0, 1)), "t.p = s.p AND t.v > s.v", (Clause("not matched", "insert", "s.k <> 5", (("k", "(s.k + 1) % 7"),)),)
)
"""After the winner below another row of the source is inserted, which looks the same."""


@given(history=histories().filter(lambda h: not isinstance(h.program[0], Append | Optimize)))
@example(history=History(frozenset(), False, True, (((0, 0, 0, 0), (0, 1, 5, 1)),), (), (_OTHER_SOURCE_ROW,), ((Overwrite(((0, 1, 1, 0),)),),)))
@SETTINGS
def test_by_row_it_raises_exactly_when_something_would_change(history: History) -> None:
    raised, differs = Fail(history, "row").play()
    if raised is not None:
        assert raised == differs
