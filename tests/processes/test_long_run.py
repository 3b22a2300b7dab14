"""The short form of `make long-run`: three processes with Spark and three without, one of them with OPTIMIZE and VACUUM (I2, I3, I5, I10)."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.long_run.run import long_run
from support.long_run.table import ACCOUNTS, START, expected


@pytest.mark.soak("half a minute; `make long-run` is its long form", ci="always")
@pytest.mark.spark
def test_all_that_six_processes_were_told_is_there_once(tmp_path: Path) -> None:
    outcome = long_run(str(tmp_path / "table"), 150, 120, lambda sample: None)
    assert outcome.problems == []
    assert outcome.acknowledged.keys() >= {"append", "gives", "counted", "own", "kept"}


def test_what_is_expected_of_acknowledged_changes() -> None:
    told = [{"gives": 0, "takes": 1}, {"counted": [3, 4]}, {"counted": [4, 5]}, {"own": 1}, *({"append": 2} for _ in range(9)), {"below": 8}]
    rows = expected(told)
    assert [rows[n, "account", 0, x] for n, x in ((0, START - 1), (1, START + 1), (2, START))] == [1, 1, 1]
    assert [rows[n, "counter", 0, x] for n, x in ((3, 1), (4, 2), (5, 1))] == [1, 1, 1]
    assert [rows[3 * n, "appender-2", n, 0] for n in range(9)] == [1, 1, 1, 1, 1, 1, 1, 0, 1]
    assert rows[1, "own", 0, 1] == 1
    assert rows.total() == ACCOUNTS + 3 + 2 + 8 * 3
