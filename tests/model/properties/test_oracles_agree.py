"""The two measures of a history agree: the plain interpreter over rows, and DuckDB."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, given, settings

from model.properties.duckdb_serial import DuckdbTable, types_of
from model.properties.histories import COLUMNS, History, histories
from rowlock.exceptions import ConstraintViolated
from rowlock_simulation.memory.sql.script import Append, Script
from rowlock_simulation.serial import SerialTable, bag

CASES = int(os.environ.get("ROWLOCK_PROPERTY_CASES", "200")) // 10


@given(history=histories(several_statements=True))
@settings(max_examples=CASES, suppress_health_check=list(HealthCheck), print_blob=True)
def test_the_interpreter_and_duckdb_agree(history: History) -> None:
    ours, theirs = SerialTable(COLUMNS, history.not_null), DuckdbTable(types_of(COLUMNS), history.not_null)
    transactions = [*([Append(f)] for f in history.files), *([s] for s in history.before), *([s] for r in history.rounds for s in r), list(history.program)]
    for scripts in transactions:
        assert _outcome(ours, scripts) == _outcome(theirs, scripts), scripts
        assert bag(ours.rows) == bag(theirs.rows), scripts
    theirs.close()


def _outcome(table: SerialTable | DuckdbTable, scripts: list[Script]) -> type[Exception] | None:
    try:
        table.run(*scripts)
    except ConstraintViolated as e:
        return type(e)
    return None
