"""A rebase equals serial execution, on Spark: the same random histories, with DuckDB as the measure (I3, I4, I5)."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from model.properties.contest import Contest
from model.properties.duckdb_serial import DuckdbTable, types_of
from model.properties.histories import COLUMNS, History, histories
from rowlock.transaction.state.receipt import Receipt
from rowlock_simulation.memory.sql.script import Script

pytestmark = [pytest.mark.spark, pytest.mark.slow]
CASES = int(os.environ.get("ROWLOCK_SPARK_CASES", "12"))


@pytest.mark.parametrize("cases", [3, pytest.param(CASES, marks=pytest.mark.soak("more histories (`make soak`: 300); thousands run in memory"))])
def test_rebase_equals_serial_execution(spark: Any, tmp_path: Path, cases: int) -> None:
    from model.schedules.on_spark import OnSpark

    @given(history=histories(several_statements=True))
    @settings(max_examples=cases, phases=[Phase.explicit, Phase.reuse, Phase.generate], suppress_health_check=list(HealthCheck), print_blob=True)
    def check(history: History) -> None:
        world = OnSpark(spark, tmp_path / uuid.uuid4().hex)

        def run_program(scripts: Sequence[Script]) -> Receipt:
            return world.run(scripts[0]) if len(scripts) == 1 else world.run_together(scripts)

        serial = DuckdbTable(types_of(COLUMNS), history.not_null)
        try:
            Contest(history, world, serial, run_program, steps=len(history.program)).run()
        finally:
            serial.close()

    check()
