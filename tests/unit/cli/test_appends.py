"""`rowlock bench --appends`: its writers agree with the table, and its count can tell when they do not."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from rowlock_bench.appends import OURS, measure

SOURCES = Path(__file__).resolve().parents[3] / "src"


def test_every_append_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SOURCES))
    found = measure(OURS, writers=2, seconds=0.3)
    assert found["exact"]
    assert found["failed"] == 0
    assert found["per_second"] > 0
    assert 0 < found["p50_s"] <= found["p99_s"] <= found["longest_s"]


def test_a_writer_that_was_told_of_what_is_not_there_is_found_out() -> None:
    lie = json.dumps({"elapsed": 1.0, "seconds": [0.1], "done": [0], "failed": 0})
    found = measure([sys.executable, "-c", f"print('ready', flush=True); input(); print({lie!r})"], writers=2, seconds=0.1)
    assert not found["exact"]
