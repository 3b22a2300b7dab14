"""`rowlock bench --large`: every statement runs, each engine's table is right at the end, and a wrong table is found out."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowlock.exceptions import InvalidInput
from rowlock_bench import large
from rowlock_bench.large_statements import ON_PARQUET, STATEMENTS, LargeScenario, expected

SOURCES = Path(__file__).resolve().parents[3] / "src"


@pytest.mark.soak("two sessions; the same statements run in the tests of each")
def test_the_scenario_runs_and_its_table_is_as_worked_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SOURCES))
    scenario = LargeScenario(rows=4_000, memory_mb=1024)
    found = large.measure(large.with_scenario([*large._command()], large.OURS, scenario))
    assert found["found"] == expected(4_000, STATEMENTS)
    assert tuple(found["steps"]) == STATEMENTS
    assert all(step["s"] > 0 and step["cpu_s"] > 0 for step in found["steps"].values())
    assert found["steps"]["update_half"]["phases"]["stage"] > 0
    plain = large.measure(large.with_scenario([*large._command(), large.PARQUET], large.PARQUET, scenario))
    assert tuple(plain["steps"]) == ON_PARQUET


def test_what_is_expected_of_the_table() -> None:
    """Against the statements done row by row on a dict."""
    rows = dict.fromkeys(range(1000), 0)
    rows = {i: v + (i % 2 == 0) for i, v in rows.items()}
    rows = {i: v for i, v in rows.items() if i % 3 != 1}
    for source in (range(0, 1100, 10), range(500, 1500), range(0, 1000, 20), range(10, 1000, 20)):
        rows |= {i: rows[i] + 100 if i in rows else 100 for i in source}
    assert expected(1000, STATEMENTS) == [sum(rows.values()), len(rows)]


def test_statements_are_chosen_by_name() -> None:
    assert large._statements("optimize,merge_wide") == ("write", "merge_wide", "optimize")
    assert large._statements("") == STATEMENTS
    with pytest.raises(InvalidInput, match="merge_narrow"):
        large._statements("merge_narrow")
