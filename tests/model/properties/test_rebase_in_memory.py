"""A rebase equals serial execution, on the in-memory engine: random tables, statements and winners (I3, I4, I5)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings, strategies as st

from model.properties.contest import Contest
from model.properties.histories import COLUMNS, History, histories
from model.schedules.in_memory import NO_LANE, InMemory
from rowlock.transaction.state.receipt import Receipt
from rowlock_simulation.memory.sql.script import Script
from rowlock_simulation.memory.statements import operation, parameters, statements_of
from rowlock_simulation.serial import SerialTable

CASES = int(os.environ.get("ROWLOCK_PROPERTY_CASES", "200"))
SETTINGS = settings(max_examples=CASES, suppress_health_check=list(HealthCheck), print_blob=True)
ENGINES: Sequence[dict[str, Any]] = ({}, {"spill_rows": 1}, {"spill_rows": 2, "rows_per_file": 2}, {"notes_matches": True})


def contest(history: History, world: InMemory, *, one_by_one: bool = True, tracked: bool = False, properties: dict[str, str] | None = None) -> Receipt | None:
    """One history against the plain interpreter; the program is staged statement by statement, or at once."""

    def run_program(scripts: Sequence[Script]) -> Receipt:
        txn = world.table.begin(NO_LANE)
        programs = [statements_of(script, txn.base) for script in scripts]
        for statements in programs if one_by_one else [[s for program in programs for s in program]]:
            txn.execute(*statements)
        return txn.commit(operation(scripts[0]), parameters(scripts[0]))

    return Contest(
        history,
        world,
        SerialTable(COLUMNS, history.not_null),
        run_program,
        steps=len(history.program) if one_by_one else 1,
        tracked=tracked,
        properties=properties,
    ).run()


@given(history=histories(several_statements=True), options=st.sampled_from(ENGINES), one_by_one=st.booleans())
@SETTINGS
def test_rebase_equals_serial_execution(history: History, options: dict[str, Any], one_by_one: bool) -> None:
    contest(history, InMemory(**options), one_by_one=one_by_one)


@given(history=histories(several_statements=True), options=st.sampled_from(ENGINES), one_by_one=st.booleans())
@settings(SETTINGS, max_examples=max(1, CASES // 2))
def test_rows_keep_their_ids(history: History, options: dict[str, Any], one_by_one: bool) -> None:
    contest(history, InMemory(**options), one_by_one=one_by_one, tracked=True)


@given(history=histories(several_statements=True), options=st.sampled_from(ENGINES), one_by_one=st.booleans())
@settings(SETTINGS, max_examples=max(1, CASES // 4))
def test_the_change_feed_is_the_difference_of_two_versions(history: History, options: dict[str, Any], one_by_one: bool) -> None:
    contest(history, InMemory(**options), one_by_one=one_by_one, tracked=True, properties={"delta.enableChangeDataFeed": "true"})
