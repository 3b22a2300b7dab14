"""The timeline of writers as shapes: a lane for each writer, a bar for each run, a line from each winner to the run that met it.  Pure.

Places along the time axis are percent of the drawing's width, heights are pixels; the drawing fits any width.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from rowlock.advice.history import History, Run, Writer
from rowlock.cli.report.axis import Axis, Cut, Tick
from rowlock.cli.report.phases import begin_of, phases_of

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
    for name_of in (_by_process, _by_host, _by_application):
        if len({name_of(run) for run in runs}) <= MAX_LANES:
            return name_of
    return _by_application


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


def _by_process(run: Run) -> Writer:
    return run.writer


def _by_host(run: Run) -> Writer:
    return replace(run.writer, process=None)


def _by_application(run: Run) -> Writer:
    return Writer(run.writer.application)


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


def _placed(runs: Sequence[Run], axis: Axis, top: int) -> tuple[list[Bar], int]:
    """(the bars of a lane, the number of its rows): a bar is put into the first row that is free, beyond MAX_ROWS over another."""
    ends: list[float] = []
    placed: list[tuple[int, Bar]] = []
    for run in sorted(runs, key=begin_of):
        x, end = axis.x(begin_of(run)), axis.x(float(run.at_ms or 0))
        width = max(end - x, _NARROW)
        row = next((n for n, e in enumerate(ends) if e <= x), len(ends))
        if row == len(ends) and row < MAX_ROWS:
            ends.append(0.0)
        row = min(row, MAX_ROWS - 1)
        parts = (Part(p.name, axis.x(p.begin_ms), axis.x(p.end_ms) - axis.x(p.begin_ms)) for p in phases_of(run))
        placed.append((row, Bar(run, x, width, top + ROW * row, tuple(p for p in parts if p.width > 0.02))))
        ends[row] = x + width
    return _named(placed), len(ends)


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
        for version, rules in _met(bar.run).items():
            winner = by_version.get(version)
            if winner is not None and winner.y != bar.y:
                x = min(max(winner.end, bar.x), bar.end)
                out.append(Line(x, winner.y + MIDDLE, bar.y + MIDDLE, bar.run.failed and rules > 0))
    out.sort(key=lambda line: line.x)
    return out[-MAX_LINES:], max(0, len(out) - MAX_LINES)


def _met(run: Run) -> Counter[int]:
    """The versions that a run met, each with the number of these conflicts that raised an error."""
    raised: Counter[int] = Counter()
    for m in run.met:
        raised[m.version] += bool(m.rule)
    return raised
