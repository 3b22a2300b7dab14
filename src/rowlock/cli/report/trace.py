"""The history of a table in Chrome's trace format, for Perfetto (ui.perfetto.dev) and chrome://tracing.  Pure.

A writer is a process; runs of one writer that overlap are its threads; a run and each of its phases are events with a
duration, and an arrow leads from each winner to the run that met it.  Times are microseconds since the epoch.
"""

from __future__ import annotations

from typing import Any

from rowlock.advice.history import History, Run
from rowlock.advice.writers import Writer
from rowlock.cli.report.lanes import WORDS, begin_of, free_rows, label, phases_of

_WITHIN_MS = 0.001
"""An arrow begins so long before the end of the winner's event: at its end it would belong to the next one."""


def trace(history: History) -> dict[str, Any]:
    """The trace as plain values for JSON; runs without a time are left out."""
    timed = [r for r in history.runs if r.at_ms is not None]
    writers: dict[Writer, list[Run]] = {}
    for run in timed:
        writers.setdefault(run.writer, []).append(run)
    events: list[dict[str, Any]] = []
    places: dict[int, tuple[int, int]] = {}
    for pid, (writer, runs) in enumerate(writers.items(), 1):
        name = f"{label(writer)} ({writer.where})" if writer.where else label(writer)
        events.append({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}})
        ordered = sorted(runs, key=begin_of)
        for tid, run in zip(free_rows([(begin_of(run), float(run.at_ms or 0)) for run in ordered]), ordered, strict=True):
            places[id(run)] = pid, tid
            events += _events(run, pid, tid)
    events += _arrows(history, places)
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"table": history.table, "unit": "microseconds since the epoch, UTC"}}


def _events(run: Run, pid: int, tid: int) -> list[dict[str, Any]]:
    """The run, and its phases within it."""
    place = {"pid": pid, "tid": tid}
    what = f"{run.operation} {run.outcome if run.version is None else f'v{run.version}'}"
    begin = begin_of(run)
    whole = {"ph": "X", "name": what, "cat": "failed" if run.failed else "commit", "ts": _us(begin), "dur": _us((run.at_ms or 0) - begin), "args": _facts(run)}
    parts = [
        {"ph": "X", "name": WORDS[p.name], "cat": "phase", "ts": _us(p.begin_ms), "dur": _us(p.end_ms - p.begin_ms), "args": {"recorded_s": p.seconds}, **place}
        for p in phases_of(run)
    ]
    return [{**whole, **place}, *parts]


def _facts(run: Run) -> dict[str, Any]:
    facts = {
        "version": run.version,
        "read_version": run.read_version,
        "txnId": run.txn_id,
        "engine": run.engine,
        "userMetadata": run.user_metadata,
        "attempts": run.attempts,
        "rounds": run.rounds,
        "rows_rebased": run.rows_rebased,
        "met": [f"v{m.version} {m.operation}" for m in run.met],
        "error": run.error,
        "predicate": run.predicate,
    }
    return {name: value for name, value in facts.items() if value not in (None, "", [], 0)}


def _arrows(history: History, places: dict[int, tuple[int, int]]) -> list[dict[str, Any]]:
    """A pair of flow events for each meeting whose two runs are in the trace."""
    out: list[dict[str, Any]] = []
    for run in history.runs:
        for m in run.met:
            winner = history.by_version.get(m.version)
            if winner is None or id(run) not in places or id(winner) not in places:
                continue
            number = len(out) // 2 + 1
            for ph, of, more in (("s", winner, {}), ("f", run, {"bp": "e"})):
                at = max(begin_of(of), float(winner.at_ms or 0) - _WITHIN_MS)
                pid, tid = places[id(of)]
                out.append({"ph": ph, "id": number, "name": "met", "cat": "conflict", "ts": _us(at), "pid": pid, "tid": tid, **more})
    return out


def _us(ms: float) -> int:
    return round(1000 * ms)
