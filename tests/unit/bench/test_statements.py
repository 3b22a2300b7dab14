"""`rowlock bench large idle scans`: every statement runs, each engine's table is right at the end, and a wrong table is found out."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowlock_bench.engines import DELTA_SPARK, PARQUET, ROWLOCK
from rowlock_bench.processes import measure
from rowlock_bench.statements import IDLE, LARGE, SCANS, STATEMENTS, expected

SOURCES = Path(__file__).resolve().parents[3] / "src"


@pytest.mark.soak("sessions of their own; the same statements run in the tests of each")
@pytest.mark.parametrize("engine", [ROWLOCK, DELTA_SPARK, PARQUET])
def test_the_statements_run_and_the_table_is_as_worked_out(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SOURCES))
    every = ("write", *IDLE, *SCANS, *LARGE[1:])
    found = measure("statements", {"engine": engine, "rows": 4_000, "statements": every, "memory_mb": 1024})
    assert found["exact"]
    ran = {line.removesuffix(", s") for line in found["figures"] if line.endswith(", s")}
    assert ran == {name for name in every if engine != PARQUET or STATEMENTS[name].on_parquet}
    assert engine != ROWLOCK or "stage" in found["phases"]["UPDATE of half, s"]


def test_what_is_expected_of_the_table() -> None:
    """Against the statements done row by row on a dict."""
    rows = dict.fromkeys(range(1000), 0)
    rows = {i: v + (i % 2 == 0) for i, v in rows.items()}
    rows = {i: v for i, v in rows.items() if i % 3 != 1}
    for source in (range(0, 1100, 10), range(500, 1500), range(0, 1000, 20), range(10, 1000, 20)):
        rows |= {i: rows[i] + 100 if i in rows else 100 for i in source}
    assert expected(1000, LARGE) == [sum(rows.values()), len(rows)]


def test_what_is_expected_of_small_statements() -> None:
    rows = {i: 0 for i in range(1000) if i % 100 != 7}
    rows = {i: v + (i % 100 == 8) for i, v in rows.items()}
    rows |= {i: rows[i] + 100 if i in rows else 100 for i in range(9, 1200, 100)}
    rows |= dict.fromkeys(range(1257, 1357), 0)
    del rows[123]
    assert expected(1000, ("write", *IDLE)) == [sum(rows.values()), len(rows)]
