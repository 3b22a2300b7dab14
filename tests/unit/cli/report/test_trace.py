"""The trace is what Perfetto reads: events with whole microseconds that nest, arrows whose ends lie within events."""

from __future__ import annotations

from typing import Any

import orjson

from rowlock.advice.history import History, Run
from rowlock.cli.report.trace import trace
from unit.advice import histories


def test_runs_nest_their_phases_and_arrows_lead_from_winners() -> None:
    history = histories.long_beside_short()
    found = orjson.loads(orjson.dumps(trace(history)))
    events: list[dict[str, Any]] = found["traceEvents"]
    runs = [e for e in events if e["ph"] == "X" and e["cat"] != "phase"]
    assert len(runs) == len(history.runs) and {e["args"]["version"] for e in runs if e["cat"] == "commit" and "version" in e["args"]} >= {1, 2}
    for e in events:
        if e["ph"] == "X":
            assert isinstance(e["ts"], int) and isinstance(e["dur"], int) and e["dur"] >= 0
            assert any(r["tid"] == e["tid"] and r["ts"] <= e["ts"] and e["ts"] + e["dur"] <= r["ts"] + r["dur"] + 1 for r in runs)
    by_thread: dict[int, list[tuple[int, int]]] = {}
    for r in runs:
        by_thread.setdefault(r["tid"], []).append((r["ts"], r["ts"] + r["dur"]))
    assert all(a[1] <= b[0] for held in by_thread.values() for a, b in zip(sorted(held), sorted(held)[1:], strict=False)), "threads do not overlap themselves"
    arrows = {ph: {e["id"]: e for e in events if e["ph"] == ph} for ph in "sf"}
    assert arrows["s"].keys() == arrows["f"].keys() and len(arrows["s"]) == sum(len(r.met) for r in history.runs) > 0
    for number, begin in arrows["s"].items():
        end = arrows["f"][number]
        assert begin["ts"] <= end["ts"] and end["bp"] == "e"
        for at in (begin, end):
            assert any(r["tid"] == at["tid"] and r["ts"] <= at["ts"] <= r["ts"] + r["dur"] for r in runs)


def test_nothing_and_runs_without_a_time() -> None:
    assert trace(History("t"))["traceEvents"] == []
    assert trace(History("t", (Run(version=0, ended_at=-1, operation="WRITE"),)))["traceEvents"] == []
