"""A rebase equals serial execution, on the in-memory engine: random tables, statements and winners (I3, I4, I5)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from properties.contest import Contest
from properties.histories import COLUMNS, History, histories
from rowlock.simulation.script import Script
from rowlock.simulation.statements import operation, parameters, statements_of
from rowlock.transaction.receipt import Receipt
from schedules.in_memory import NO_LANE, InMemory
from schedules.serial import SerialTable

CASES = int(os.environ.get("ROWLOCK_PROPERTY_CASES", "2000"))
SETTINGS = settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
ENGINES: Sequence[dict[str, Any]] = ({}, {"spill_rows": 1}, {"spill_rows": 2, "rows_per_file": 2}, {"notes_matches": True})


def contest(history: History, world: InMemory) -> Receipt | None:
    """One history against the plain interpreter."""

    def run_program(scripts: Sequence[Script]) -> Receipt:
        txn = world.table.begin(NO_LANE)
        txn.execute(*(statement for script in scripts for statement in statements_of(script, txn.base)))
        return txn.commit(operation(scripts[0]), parameters(scripts[0]))

    return Contest(history, world, SerialTable(COLUMNS, history.not_null), run_program).run()


@given(history=histories(several_statements=True), options=st.sampled_from(ENGINES))
@SETTINGS
def test_rebase_equals_serial_execution(history: History, options: dict[str, Any]) -> None:
    contest(history, InMemory(**options))
