"""`rowlock bench appends`: its writers agree with the table, and its count can tell when they do not."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from rowlock_bench.appends import measure

SOURCES = Path(__file__).resolve().parents[3] / "src"


@pytest.mark.parametrize("engine", ["rowlock", "deltalake"])
def test_every_append_is_counted_once(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SOURCES))
    found = measure({"engine": engine, "writers": 2, "seconds": 0.3})
    figures = found["figures"]
    assert found["exact"] and figures["appends/s"] > 0
    assert figures["appends that raised"] == 0
    assert 0 < figures["p50 of an append, s"] <= figures["p99 of an append, s"]


def test_a_writer_that_was_told_of_what_is_not_there_is_found_out() -> None:
    lie = json.dumps({"elapsed": 1.0, "seconds": [0.1], "done": [0], "failed": 0})
    found = measure({"writers": 2}, [sys.executable, "-c", f"print('ready', flush=True); input(); print({lie!r})"])
    assert not found["exact"]
