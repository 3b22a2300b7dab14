"""The timeline of writers as shapes: a lane for each writer, a bar for each run, a line from each winner to the run that met it.  Pure.

Places along the time axis are percent of the drawing's width, heights are pixels; the drawing fits any width.  On the axis long idle times are
cut short, so that a few busy seconds of a day can be seen.

A run's record holds when it began, when it ended, and how many seconds each phase took in all; not when each began.
Phases are therefore placed in the order of a commit: planned, waited for a lease and staged from the beginning on;
waited for a turn, rebased, wrote and put up to the end.  What lies between is not recorded: the caller's own code.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rowlock import display
from rowlock.advice.history import History, Run
from rowlock.advice.writers import Writer

_STEPS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400, 604_800)
_LEFT, _RIGHT = 0.5, 95.5
_LABEL = 9.0
"""Percent of the width that a label of the axis needs."""
_IDLE_SHARE = 0.12
"""A gap of more than this share of the busy time is cut to a third of it."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A label below the axis, at `x` percent of its width."""

    x: float
    text: str


@dataclass(frozen=True, slots=True)
class Cut:
    """An idle time that is cut short: its middle at `x` percent, `width` percent wide."""

    x: float
    width: float
    text: str


class Axis:
    """Places times on a width of 100 percent.

    Args:
        spans: Begin and end of everything that will be drawn, in milliseconds since the epoch.
    """

    def __init__(self, spans: Sequence[tuple[float, float]]) -> None:
        busy = _merged(spans)
        total = sum(end - begin for begin, end in busy) or 1000.0
        self._times, marks, gaps = list[float](), list[float](), list[tuple[float, float, float]]()
        at = 0.0
        for n, (begin, end) in enumerate(busy):
            if n:
                idle = begin - busy[n - 1][1]
                shown = idle if idle <= _IDLE_SHARE * total else _IDLE_SHARE * total / 3
                if shown < idle:
                    gaps.append((at, at + shown, idle))
                at += shown
            self._times += [begin, end]
            marks += [at, at + (end - begin)]
            at = marks[-1]
        scale = (_RIGHT - _LEFT) / at if at else 0.0
        self._places = [_LEFT + scale * mark for mark in marks]
        self.cuts = [Cut(_LEFT + scale * (a + b) / 2, scale * (b - a), display.duration(idle / 1000)) for a, b, idle in gaps]

    def x(self, at_ms: float) -> float:
        """The place of a time, in percent; times outside of all spans are put at the ends."""
        return float(np.interp(at_ms, self._times, self._places)) if self._times else _LEFT

    def ticks(self) -> list[Tick]:
        """Labels of round times within the busy spans, and of the beginning of each span; none overlaps another."""
        if not self._times:
            return []
        per_percent = sum(self._times[n + 1] - self._times[n] for n in range(0, len(self._times), 2)) / (_RIGHT - _LEFT)
        step = next((s for s in _STEPS_S if 1000 * s >= 1.4 * _LABEL * per_percent), _STEPS_S[-1])
        wanted = [self._times[0]]
        for n in range(0, len(self._times), 2):
            begin, end = self._times[n], self._times[n + 1]
            wanted.append(begin)
            first = int(begin // (1000 * step)) + 1
            wanted += [1000 * step * k for k in range(first, min(int(end // (1000 * step)), first + 200) + 1)]
        out: list[Tick] = []
        day = ""
        for at in wanted:
            x = self.x(at)
            if (out and x - out[-1].x < _LABEL) or x > 100 - _LABEL:
                continue
            text, on = _clock(at, step), _day(at)
            out.append(Tick(x, f"{on} {text}" if on != day and day else text))
            day = on
        return out


def _merged(spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The union of spans that overlap, in order."""
    out: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if out and begin <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((begin, end))
    return out


def _clock(at_ms: float, step_s: float) -> str:
    at = display.utc(at_ms)
    if at is None:
        return "?"
    if step_s >= 86_400:
        return f"{at:%m-%d}"
    return f"{at:%H:%M}" if step_s >= 60 else f"{at:%H:%M:%S}" if step_s >= 1 else f"{at:%H:%M:%S.%f}"[:-3]


def _day(at_ms: float) -> str:
    at = display.utc(at_ms)
    return "" if at is None else f"{at:%m-%d}"


WORDS = {
    "plan": "planned",
    "lock": "waited for a lease",
    "stage": "staged",
    "wait": "waited for others",
    "rebase": "rebased",
    "write": "wrote files",
    "put": "put in vain",
    "all": "ran",
}
"""The phases in their order, and the word for each."""
_FIRST = ("plan", "lock", "stage", "all")
_LAST = ("wait", "rebase", "write", "put")


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase of a run, from `begin_ms` to `end_ms` since the epoch; `seconds` is the recorded duration."""

    name: str
    begin_ms: float
    end_ms: float
    seconds: float


def begin_of(run: Run) -> float:
    """When a run began, in milliseconds since the epoch; its end where that is unknown, 0 where no time is known at all."""
    end = run.at_ms or 0
    return float(min(end, end if run.began_ms is None else run.began_ms))  # never an integer that no float is equal to


def phases_of(run: Run) -> list[Phase]:
    """The recorded phases of a run in their order; shortened alike where they took longer in sum than the run did (by threads, or by a clock that was set)."""
    begin, end = begin_of(run), float(run.at_ms or 0)
    known = sum(run.seconds.get(name, 0.0) for name in WORDS)
    scale = min(1.0, (end - begin) / (1000 * known)) if known > 0 else 0.0
    lengths = {name: 1000 * scale * run.seconds.get(name, 0.0) for name in WORDS}
    out = []
    for names, at in ((_FIRST, begin), (_LAST, end - sum(lengths[name] for name in _LAST))):
        for name in names:
            if lengths[name] > 0:
                out.append(Phase(name, at, at + lengths[name], run.seconds[name]))
                at += lengths[name]
    return out


MAX_RUNS = 150
MAX_LANES = 12
MAX_ROWS = 20
MAX_LINES = 300
ROW, LABEL, PAD = 27, 20, 7
"""Heights in pixels: of one row of bars, of a lane's label, below a lane."""
MIDDLE = 19
"""Pixels from the top of a row to the middle of its bar."""
_NARROW = 0.35
_NAME = 3.0
"""Percent of the width: the narrowest bar, and what a version's number above it needs."""


@dataclass(frozen=True, slots=True)
class Part:
    """One phase of a bar."""

    name: str
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Bar:
    """One run: from `x`, `width` percent wide, in the row whose top is at `y` pixels."""

    run: Run
    x: float
    width: float
    y: int
    parts: tuple[Part, ...]
    named: bool = True

    @property
    def end(self) -> float:
        """Where the bar ends, in percent."""
        return self.x + self.width


@dataclass(frozen=True, slots=True)
class Line:
    """From the winner that committed at `x` to the bar of the run that met it; `raised`: whether that run failed."""

    x: float
    y_from: int
    y_to: int
    raised: bool


@dataclass(frozen=True, slots=True)
class Lane:
    """A writer: its name, where it ran, how many of its runs are drawn, and the place of its label in pixels."""

    name: str
    where: str
    runs: int
    y: int


@dataclass(frozen=True, slots=True)
class Drawing:
    """All shapes of the timeline, and notes on what is omitted."""

    lanes: tuple[Lane, ...] = ()
    bars: tuple[Bar, ...] = ()
    lines: tuple[Line, ...] = ()
    ticks: tuple[Tick, ...] = ()
    cuts: tuple[Cut, ...] = ()
    height: int = 0
    left_out: tuple[str, ...] = ()
    phases: frozenset[str] = field(default_factory=frozenset)


NameOf = Callable[[Run], Writer]


def lane_names(runs: Sequence[Run]) -> NameOf:
    """The grouping of runs into lanes: by process; if that makes too many lanes by application and host, else by application."""
    finest: tuple[NameOf, ...] = (lambda run: run.writer, lambda run: replace(run.writer, process=None))
    return next((name_of for name_of in finest if len({name_of(run) for run in runs}) <= MAX_LANES), lambda run: Writer(run.writer.application))


def label(writer: Writer) -> str:
    """A writer's name for a lane or a table."""
    return writer.application or writer.host or "unknown writer"


def drawing(history: History) -> Drawing:
    """The newest runs of a history, drawn; empty where none has a time."""
    timed = [r for r in history.runs if r.at_ms is not None]
    shown = timed[-MAX_RUNS:]
    if not shown:
        return Drawing()
    name_of = lane_names(shown)
    lanes, others = _lanes(shown, name_of)
    axis = Axis([(begin_of(r), float(r.at_ms or 0)) for runs in lanes.values() for r in runs])
    y, bars, labels = 0, list[Bar](), list[Lane]()
    for writer, runs in lanes.items():
        placed, rows = _placed(runs, axis, y + LABEL)
        labels.append(Lane(label(writer), _where(writer, runs), len(runs), y))
        bars += placed
        y += LABEL + ROW * rows + PAD
    lines, undrawn = _lines(bars)
    left_out = (
        f"{len(timed) - len(shown):,} older runs are not drawn: the newest {MAX_RUNS} are." if len(timed) > len(shown) else "",
        f"{sum(map(len, others))} runs of {len(others)} other writers are not drawn: the {MAX_LANES} writers with the most are." if others else "",
        f"{undrawn:,} more lines are not drawn." if undrawn else "",
        f"{len(history.runs) - len(timed):,} runs record no time." if len(history.runs) > len(timed) else "",
    )
    return Drawing(
        lanes=tuple(labels),
        bars=tuple(bars),
        lines=tuple(lines),
        ticks=tuple(axis.ticks()),
        cuts=tuple(axis.cuts),
        height=y,
        left_out=tuple(text for text in left_out if text),
        phases=frozenset(p.name for b in bars for p in b.parts),
    )


def _lanes(runs: Sequence[Run], name_of: NameOf) -> tuple[dict[Writer, list[Run]], list[list[Run]]]:
    """(the runs of the writers with the most runs, in the order of their first; those of the other writers)."""
    by_writer: dict[Writer, list[Run]] = defaultdict(list)
    for run in runs:
        by_writer[name_of(run)].append(run)
    most = sorted(by_writer, key=lambda w: -len(by_writer[w]))[:MAX_LANES]
    return {w: by_writer[w] for w in by_writer if w in most}, [by_writer[w] for w in by_writer if w not in most]


def _where(writer: Writer, runs: Sequence[Run]) -> str:
    if writer.process is not None or (writer.host and writer == runs[0].writer):
        return writer.where
    processes, hosts = {(r.writer.host, r.writer.process) for r in runs if r.writer.process is not None}, {r.writer.host for r in runs if r.writer.host}
    if not processes:
        return ""
    on = next(iter(hosts)) if len(hosts) == 1 else f"{len(hosts)} hosts"
    return f"{len(processes)} process{'es' if len(processes) > 1 else ''} on {on}"


def free_rows(spans: Sequence[tuple[float, float]], most: int | None = None) -> list[int]:
    """For each span, by their beginnings, the first row from 1 on that is free; beyond `most` rows the last one, over another span."""
    ends, out = list[float](), list[int]()
    for begin, end in spans:
        row = next((n for n, e in enumerate(ends) if e <= begin), len(ends) if len(ends) != most else len(ends) - 1)
        ends[row : row + 1] = [end]
        out.append(row + 1)
    return out


def _placed(runs: Sequence[Run], axis: Axis, top: int) -> tuple[list[Bar], int]:
    """(the bars of a lane, the number of its rows)."""
    bars = [_bar(run, axis) for run in sorted(runs, key=begin_of)]
    rows = free_rows([(bar.x, bar.end) for bar in bars], MAX_ROWS)
    return _named([(row, replace(bar, y=top + ROW * (row - 1))) for row, bar in zip(rows, bars, strict=True)]), max(rows)


def _bar(run: Run, axis: Axis) -> Bar:
    x = axis.x(begin_of(run))
    parts = (Part(p.name, axis.x(p.begin_ms), axis.x(p.end_ms) - axis.x(p.begin_ms)) for p in phases_of(run))
    return Bar(run, x, max(axis.x(float(run.at_ms or 0)) - x, _NARROW), 0, tuple(p for p in parts if p.width > 0.02))


def _named(placed: Sequence[tuple[int, Bar]]) -> list[Bar]:
    """The bars; those whose end is too near to that of another one that is named, in the same row, are not named."""
    next_end: dict[int, float] = {}
    out = []
    for row, bar in reversed(placed):
        named = bar.run.version is not None and next_end.get(row, 200.0) - bar.end >= _NAME
        if named:
            next_end[row] = bar.end
        out.append(replace(bar, named=named))
    return out[::-1]


def _lines(bars: Sequence[Bar]) -> tuple[list[Line], int]:
    """(the newest lines from winners to the runs that met them, the number of omitted lines)."""
    by_version = {b.run.version: b for b in bars if b.run.version is not None}
    out: list[Line] = []
    for bar in bars:
        raised = {m.version for m in bar.run.met if m.rule}
        for version in dict.fromkeys(m.version for m in bar.run.met):
            winner = by_version.get(version)
            if winner is not None and winner.y != bar.y:
                x = min(max(winner.end, bar.x), bar.end)
                out.append(Line(x, winner.y + MIDDLE, bar.y + MIDDLE, bar.run.failed and version in raised))
    out.sort(key=lambda line: line.x)
    return out[-MAX_LINES:], max(0, len(out) - MAX_LINES)
