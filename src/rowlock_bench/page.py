"""Makes tables and pictures of measurements: for the console, for docs/figures.md, and for the first page."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from rich import box
from rich.console import Console
from rich.table import Table

from rowlock_bench.engines import PARQUET, ROWLOCK
from rowlock_bench.harness import BUSY, Measurement
from rowlock_bench.suites import FIRST_PAGE, SUITES, Suite

Values = dict[str, list[float]]
"""By engine, the figures of a line, one for each round."""
_NAMES = {ROWLOCK: "Rowlock", PARQUET: "plain Parquet"}
_PROCESSOR = "s of a processor"
HEADING = "| commits a second | Rowlock | peer |"
"""The first line of the README's table."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a suite's table: its name, the values by engine, the engine that Rowlock is compared with, the goal of the ratio."""

    name: str
    values: Values
    peer: str | None
    goal: float | None

    @property
    def is_rate(self) -> bool:
        """Whether more is better."""
        return self.name.endswith("/s")

    @property
    def ratio(self) -> float | None:
        """Rowlock's median by its peer's."""
        if self.peer is None or not (base := statistics.median(self.values[self.peer])):
            return None
        return statistics.median(self.values[ROWLOCK]) / base

    @property
    def is_missed(self) -> bool:
        """Whether there is a goal and the ratio does not reach it."""
        if self.goal is None or (ratio := self.ratio) is None:
            return False
        return ratio < self.goal if self.is_rate else ratio > self.goal

    def times(self) -> tuple[float, float, float] | None:
        """(the least, the median, the greatest) of how many times as fast as its peer Rowlock was in a round; None without a peer or a time."""
        if self.peer is None or not (self.is_rate or self.name.endswith((" s", " ms"))):
            return None
        pairs = [(a, b) if self.is_rate else (b, a) for a, b in zip(self.values[ROWLOCK], self.values[self.peer], strict=False)]
        found = sorted(a / b for a, b in pairs if a and b)
        return (found[0], statistics.median(found), found[-1]) if found else None


def lines(suite: str, measurements: Iterable[Measurement]) -> list[Line]:
    """The lines of a suite's table, in the order of its cases."""
    values: dict[str, Values] = defaultdict(lambda: defaultdict(list))
    of_case = {case: n for n, case in enumerate(SUITES[suite].cases)}
    for m in sorted((m for m in measurements if m.suite == suite), key=lambda m: (of_case.get(m.case, 0), m.round)):
        for figure, value in m.figures.items():
            values[f"{m.case}: {figure}" if m.case else figure][m.engine].append(value)
    peers, goals = SUITES[suite].engines[1:], SUITES[suite].goals
    shown = {name: of for name, of in values.items() if ROWLOCK in of and (not name.endswith(_PROCESSOR) or name in goals)}
    return [Line(name, of, next((p for p in peers if of.get(p)), None), goals.get(name)) for name, of in shown.items()]


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _cell(values: Sequence[float]) -> str:
    if not values:
        return ""
    least, middle, greatest = min(values), statistics.median(values), max(values)
    return _number(middle) if _number(least) == _number(greatest) else f"{_number(middle)} ({_number(least)} to {_number(greatest)})"


def _ratio(line: Line) -> str:
    if (ratio := line.ratio) is None:
        return ""
    return f"{_number(ratio)} x" if line.is_rate else f"{ratio:.2f}"


def _goal(line: Line) -> str:
    return "" if line.goal is None else f"{line.goal:g} x" if line.is_rate else f"{line.goal:g}"


def _rows(suite: Suite, found: Sequence[Line]) -> Iterator[tuple[str, ...]]:
    """The cells of the table, its heading first."""
    engines = [e for e in suite.engines if any(line.values.get(e) for line in found)]
    is_compared, has_goals = any(line.peer for line in found), any(line.goal for line in found)
    yield ("", *(_NAMES.get(e, e) for e in engines), *(["ratio"] if is_compared else []), *(["goal"] if has_goals else []))
    for line in found:
        ratio = f"**{_ratio(line)}**" if line.is_missed else _ratio(line)
        cells = (_cell(line.values.get(e, ())) for e in engines)
        yield (line.name, *cells, *([ratio] if is_compared else []), *([_goal(line)] if has_goals else []))


def show(console: Console, measurements: Sequence[Measurement]) -> bool:
    """Prints a table for each suite; returns whether every table was right at its end and no measurement failed."""
    if not console.is_terminal:
        console.width = max(console.width, 140)  # in a file no line need be cut
    for name, suite in SUITES.items():
        if found := lines(name, measurements):
            heading, *rows = _rows(suite, found)
            table = Table(box=box.SIMPLE_HEAD, title=suite.title, title_justify="left", padding=(0, 1, 0, 0), pad_edge=False)
            for n, text in enumerate(heading):
                table.add_column(text, justify="right" if n else "left", no_wrap=True)
            for row in rows:
                table.add_row(*(cell.replace("**", "") for cell in row))
            console.print(table)
    if busy := _busy(measurements):
        console.print(f"{busy} Read the ratios.", soft_wrap=True)
    wrong = sum(not m.exact for m in measurements)
    console.print(f"{len(measurements)} measurements. Tables right at the end: {'all' if not wrong else f'NOT {wrong}'}.", highlight=False)
    return not wrong


def page(measurements: Sequence[Measurement]) -> str:
    """docs/figures.md."""
    out = ["# Figures", "", *_setting(measurements), "", "![How many times as fast as its peer Rowlock is, line by line](pictures/ratios.svg)", ""]
    for name, suite in SUITES.items():
        if not (found := lines(name, measurements)):
            continue
        of_suite = [m for m in measurements if m.suite == name]
        heading, *rows = _rows(suite, found)
        out += [f"## {suite.title}", f"{suite.about} {_size(of_suite)}", ""]
        out += [_row(heading), _row(["---"] * len(heading)), *map(_row, rows), ""]
        out += [f"- {text}" for text in _missed(found, of_suite)]
        out += [f"- {m.case + ', ' if m.case else ''}{m.engine}: {m.error or 'the table was wrong at the end'}" for m in of_suite if not m.exact]
        out += [""] if out[-1] else []
    return "\n".join(out).rstrip() + "\n"


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _setting(measurements: Sequence[Measurement]) -> list[str]:
    wheres = [m.where for m in measurements]
    first = wheres[0]
    packages = ", ".join(f"{name} {text}" for name, text in first.items() if name not in ("machine", "commit"))
    commits = ", ".join(dict.fromkeys(where.get("commit", "") for where in wheres))
    rounds = max(m.round for m in measurements) + 1
    busy = _busy(measurements)
    days = sorted({m.at[:10] for m in measurements})
    return [
        f"Measured by `rowlock bench` on {' to '.join(dict.fromkeys((days[0], days[-1])))} on one machine ({first['machine']}), with {packages}, at commit {commits}.",
        f"Every measurement is a process of its own. {f'There were up to {rounds} rounds' if rounds > 1 else 'There was one round'}; engines and cases ran in random order.",
        "A cell has the median, and in brackets the least and the greatest. The ratio is Rowlock's median by its peer's, the peer being the next column.",
        "For commits a second more is better, for all else less. A ratio in bold misses its goal.",
        f"{busy} Read the ratios, and measure on your own machine."
        if busy
        else "Nothing else was at work on the machine."
        if all(m.busy is not None for m in measurements)
        else "How busy the machine was is not recorded for all of them.",
        "",
        f"{'Every table was right at the end.' if all(m.exact for m in measurements) else 'Where a table was not right at the end, that is said below its figures.'} "
        "This page is made by `rowlock bench --write` of `docs/figures.jsonl`, where `rowlock bench --results docs/figures.jsonl` puts what it measures.",
    ]


def _busy(measurements: Sequence[Measurement]) -> str:
    """Says how often others were at work on the machine when a measurement began; empty if never."""
    busy = [m.busy for m in measurements if m.busy is not None and m.busy > BUSY]
    return f"Before {len(busy)} of {len(measurements)} measurements others were at work on the machine, on up to {max(busy):g} processors." if busy else ""


def _size(of_suite: Sequence[Measurement]) -> str:
    sizes = {name.replace("_", " "): value for m in of_suite for name, value in m.size.items() if name not in ("statements", "processes")}
    return f"({', '.join(f'{name}: {value:,}' for name, value in sizes.items())}.)" if sizes else ""


def _missed(found: Sequence[Line], of_suite: Sequence[Measurement]) -> Iterator[str]:
    """For each line that misses its goal, where its time went, of the last round."""
    phases = {line: spent for m in of_suite if m.engine == ROWLOCK for line, spent in m.phases.items()}
    for line in found:
        if line.is_missed and (spent := [f"{phase} {seconds:g}" for phase, seconds in phases.get(line.name, {}).items() if seconds >= 0.05]):
            yield f"{line.name}: {', '.join(spent)}"


# ---- pictures ------------------------------------------------------------------------------

_STYLE = """text { font: 14px system-ui, sans-serif; fill: #1f2328 } .small { fill: #59636e; font-size: 12px } .ours { fill: #3949ab } .peer { fill: #b0b7c3 } .worse { fill: #c0603a } .line { stroke: #59636e }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .small { fill: #9aa4b0 } .ours { fill: #8c9eff } .peer { fill: #6b7480 } .worse { fill: #e08a66 } .line { stroke: #9aa4b0 } }"""


def _svg(title: str, width: int, height: int, parts: Iterable[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">\n<title>{escape(title)}</title><style>{_STYLE}</style>'
    return "\n".join([head, *parts, "</svg>"]) + "\n"


def bars(measurements: Sequence[Measurement]) -> str:
    """The lines of the first page as bars of commits a second, on a logarithmic scale."""
    rows = list(first_page(measurements))
    left, width, least = 330, 800, min(theirs for _, _, theirs, _ in rows) / 3
    scale = (width - left - 130) / math.log10(max(ours for _, ours, _, _ in rows) * 1.3 / least)
    parts = [f'<text x="{left}" y="22" class="small">commits a second, logarithmic scale: a longer bar is better</text>']
    for nth, (work, ours, theirs, peer) in enumerate(rows):
        y = 40 + nth * 64
        parts.append(f'<text x="{left - 12}" y="{y + 32}" text-anchor="end">{escape(work)}</text>')
        for offset, value, name, style in ((4, ours, "Rowlock", "ours"), (30, theirs, peer, "peer")):
            long = round(scale * math.log10(value / least), 1)
            parts.append(f'<rect x="{left}" y="{y + offset}" width="{long}" height="20" rx="3" class="{style}"/>')
            parts.append(f'<text x="{left + long + 8}" y="{y + offset + 15}" class="small">{escape(name)} {_number(value)}</text>')
    return _svg("Commits a second, Rowlock beside its peers", width, 50 + 64 * len(rows), parts)


def ratios(measurements: Sequence[Measurement]) -> str:
    """Every line that has a peer as a bar from 1 to how many times as fast Rowlock is, with the least and the greatest of the rounds."""
    groups = [(suite.title, [(line, t) for line in lines(name, measurements) if (t := line.times())]) for name, suite in SUITES.items()]
    shown = [(title, found) for title, found in groups if found]
    values = [v for _, found in shown for _, t in found for v in t]
    low, high = math.log10(min([*values, 0.5])), math.log10(max([*values, 2.0]))
    left, width = 350, 980

    def at(value: float) -> float:
        return round(left + (math.log10(value) - low) / (high - low) * (width - left - 150), 1)

    parts, y = [f'<text x="{left}" y="20" class="small">times as fast as the peer, logarithmic scale; to the left of 1 Rowlock is slower</text>'], 34
    for title, found in shown:
        parts.append(f'<text x="12" y="{y + 18}" font-weight="600">{escape(title)}</text>')
        y += 26
        for line, (least, middle, greatest) in found:
            start, end = sorted((at(1), at(middle)))
            parts.append(f'<text x="{left - 16}" y="{y + 14}" text-anchor="end" class="small">{escape(line.name)}</text>')
            parts.append(
                f'<rect x="{start}" y="{y + 4}" width="{max(round(end - start, 1), 1)}" height="12" rx="2" class="{"ours" if middle >= 1 else "worse"}"/>'
            )
            parts.append(f'<line x1="{at(least)}" x2="{at(greatest)}" y1="{y + 10}" y2="{y + 10}" class="line"/>')
            parts.append(
                f'<text x="{max(end, at(greatest)) + 8}" y="{y + 14}" class="small">{_number(middle)} x {escape(_NAMES.get(line.peer or "", line.peer or ""))}</text>'
            )
            y += 20
        y += 8
    parts.append(f'<line x1="{at(1)}" x2="{at(1)}" y1="30" y2="{y}" class="line" stroke-dasharray="3 3"/>')
    return _svg("How many times as fast as its peer Rowlock is", width, y + 10, parts)


# ---- the first page ------------------------------------------------------------------------


def first_page(measurements: Sequence[Measurement]) -> Iterator[tuple[str, float, float, str]]:
    """(work, Rowlock's commits a second, its peer's, the peer) of the README's table."""
    for (suite, name), work in FIRST_PAGE.items():
        for line in lines(suite, measurements):
            if line.name == name and line.peer:
                yield work, statistics.median(line.values[ROWLOCK]), statistics.median(line.values[line.peer]), line.peer


def readme(text: str, measurements: Sequence[Measurement]) -> str:
    """The README with the rows of its table of figures made anew."""
    before, _, after = text.partition(HEADING + "\n")
    rest = after.splitlines(keepends=True)
    end = next(n for n, line in enumerate(rest) if not line.startswith("|"))
    rows = [f"| {work} | {_number(ours)} | {_number(theirs)} ({peer}) |\n" for work, ours, theirs, peer in first_page(measurements)]
    return "".join([before, HEADING, "\n", rest[0], *rows, *rest[end:]])


def files(root: Path, measurements: Sequence[Measurement]) -> dict[Path, str]:
    """By path below the root of the checkout, the text of each file that is made of measurements."""
    docs, first = root / "docs", root / "README.md"
    return {
        docs / "figures.md": page(measurements),
        docs / "pictures" / "ratios.svg": ratios(measurements),
        docs / "pictures" / "figures.svg": bars(measurements),
        first: readme(first.read_text(encoding="utf-8"), measurements),
    }
