"""A history over time: commits, rebases and failures per time span, and which lockless commits overwrote which.  Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from rowlock.advice.history import History, Run

_SPANS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 604_800, 2_592_000, 31_536_000)


@dataclass(frozen=True, slots=True)
class Span:
    """Counts for the time span of `seconds` from `at_ms`: commits, rebased commits, lost rounds, failed tries, seconds of lost work."""

    at_ms: int
    seconds: int
    commits: int
    rebased: int
    rounds: int
    failed: int
    lost_s: float


def timeline(history: History, spans: int = 16) -> list[Span]:
    """At most `spans` time spans of equal, round length, oldest first, without empty ones.  Runs without a time are left out."""
    timed = [r for r in history.runs if r.at_ms is not None]
    if not timed:
        return []
    first, last = min(r.at_ms or 0 for r in timed), max(r.at_ms or 0 for r in timed)
    seconds = next((s for s in _SPANS_S if last // 1000 // s - first // 1000 // s < spans), 0)
    seconds = seconds or _SPANS_S[-1] * (1 + (last - first) // 1000 // _SPANS_S[-1])
    found: dict[int, list[Run]] = defaultdict(list)
    for run in timed:
        found[(run.at_ms or 0) // 1000 // seconds].append(run)
    return [_span(n * seconds * 1000, seconds, runs) for n, runs in sorted(found.items())]


def _span(at_ms: int, seconds: int, runs: list[Run]) -> Span:
    commits, failed = [r for r in runs if not r.failed], [r for r in runs if r.failed]
    lost = sum(r.repair_s for r in commits) + sum(r.thrown_seconds for r in failed if r.outcome != "abandoned")
    return Span(at_ms, seconds, len(commits), sum(r.rounds > 0 for r in commits), sum(r.rounds for r in commits), len(failed), lost)


@dataclass(frozen=True, slots=True)
class Overwriting:
    """Rows that a later lockless commit and an earlier commit both changed.

    `outcome` is `cells` or `row` if the later commit's change stands, `dropped` if the earlier one's does.
    """

    earlier: int
    earlier_operation: str
    later: int
    later_operation: str
    outcome: str
    rows: int
    columns: tuple[str, ...]


def overwritings(history: History) -> list[Overwriting]:
    """All overwritings in a history, newest first."""
    out = []
    for run in reversed(history.commits):
        for o in reversed(run.overwrote):
            earlier = history.by_version.get(o.version)
            out.append(Overwriting(o.version, earlier.operation if earlier else "?", run.version or 0, run.operation, o.outcome, o.rows, o.columns))
    return out
