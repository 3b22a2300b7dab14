"""A time axis on which long idle times are cut short, so that a few busy seconds of a day can be seen.  Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from rowlock import display

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
        self._times, self._marks, self.cuts = list[float](), list[float](), list[Cut]()
        at, gaps = 0.0, list[tuple[float, float, float]]()
        for n, (begin, end) in enumerate(busy):
            if n:
                idle = begin - busy[n - 1][1]
                shown = idle if idle <= _IDLE_SHARE * total else _IDLE_SHARE * total / 3
                if shown < idle:
                    gaps.append((at, at + shown, idle))
                at += shown
            self._times += [begin, end]
            self._marks += [at, at + (end - begin)]
            at = self._marks[-1]
        self._scale = (_RIGHT - _LEFT) / at if at else 0.0
        self.cuts = [Cut(_LEFT + self._scale * (a + b) / 2, self._scale * (b - a), _duration(idle / 1000)) for a, b, idle in gaps]

    def x(self, at_ms: float) -> float:
        """The place of a time, in percent; times outside of all spans are put at the ends."""
        n = bisect_right(self._times, at_ms)
        if n == 0:
            return _LEFT
        if n == len(self._times):
            return _LEFT + self._scale * self._marks[-1]
        (t0, t1), (m0, m1) = self._times[n - 1 : n + 1], self._marks[n - 1 : n + 1]
        return _LEFT + self._scale * (m0 + (m1 - m0) * (at_ms - t0) / (t1 - t0) if t1 > t0 else m0)

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


def _duration(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{1000 * seconds:.0f} ms"
