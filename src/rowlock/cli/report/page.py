"""The history of a table as one self-contained HTML page: no network, no script.  Pure.

All text of other writers (paths, names, predicates, userMetadata) is escaped by the template; characters that do not
print are replaced.  Lists are limited, and the page says how many entries it omits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cache, partial

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from rowlock import display
from rowlock.advice.advice import advise, set_properties
from rowlock.advice.costs import Hotspot, Span, grid, hot_columns, hot_files, hot_partitions, pairs, timeline
from rowlock.advice.history import History, MetWinner, Run
from rowlock.advice.keys import hot_keys
from rowlock.cli.report import lanes
from rowlock.cli.report.lanes import drawing, label, lane_names
from rowlock.display import moment
from rowlock.version import VERSION

MAX_COMMITS = 200
MAX_MEETINGS = 100
MAX_NAMES = 8
"""Writers or operations in a grid of conflicts, and entries of a list of hot files, partitions, columns, keys."""
SPANS = 48
_LONGEST = 300


@dataclass(frozen=True, slots=True)
class Cost:
    """The work and losses of the runs of one name; seconds are sums, `vain` counts lost puts and failed tries."""

    name: str
    runs: int = 0
    commits: int = 0
    rebased: int = 0
    rounds: int = 0
    rows_rebased: int = 0
    vain: int = 0
    rows_lost: int = 0
    rebase_s: float = 0.0
    lost_s: float = 0.0
    waited_s: float = 0.0
    worked_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Meeting:
    """One run and one concurrent commit that conflicted with it."""

    run: Run
    winner: MetWinner
    by: Run | None


def html(history: History, now_ms: int) -> str:
    """The page, about 20 kB and 2 kB for each of the newest runs; `now_ms` is printed as its time."""
    name_of = lane_names(history.runs)
    by_writer = lambda run: label(name_of(run))  # noqa: E731
    meetings = [Meeting(run, m, history.by_version.get(m.version)) for run in reversed(history.runs) for m in run.met]
    by_operation = costs_by(history, lambda run: run.operation)
    spans = timeline(history, SPANS)
    return _template().render(
        h=history,
        written=moment(now_ms),
        version=VERSION,
        drawing=drawing(history),
        spans=_bars(spans) if len(spans) > 1 else [],
        words=lanes.WORDS,
        by_writer=costs_by(history, by_writer),
        by_operation=by_operation,
        total=_total(by_operation),
        grids=[(n, grid(overlapping, MAX_NAMES)) for n, overlapping in (("writer", pairs(history, by_writer)), ("operation", pairs(history))) if overlapping],
        meetings=meetings[:MAX_MEETINGS],
        meetings_left=max(0, len(meetings) - MAX_MEETINGS),
        hot=_hot(history),
        keys=hot_keys(history, MAX_NAMES),
        advice=advise(history),
        set_properties=set_properties,
        seconds_by=_seconds_by(history),
        runs=list(reversed(history.runs))[:MAX_COMMITS],
        runs_left=max(0, len(history.runs) - MAX_COMMITS),
        label=label,
        anchor=_anchor,
    )


def _anchor(run: Run) -> str:
    """The name of a run's row on the page."""
    return f"v{run.version}" if run.version is not None else "t" + "".join(c for c in run.txn_id or "" if c.isalnum())


def costs_by(history: History, name_of: Callable[[Run], str]) -> list[Cost]:
    """The costs of the runs by name, the highest losses first."""
    by_name: dict[str, list[Run]] = {}
    for run in history.runs:
        by_name.setdefault(name_of(run), []).append(run)
    return sorted((_cost(name, runs) for name, runs in by_name.items()), key=lambda c: (-c.lost_s, -c.rebase_s, -c.runs, c.name))


def _cost(name: str, runs: Sequence[Run]) -> Cost:
    return Cost(
        name,
        runs=len(runs),
        commits=sum(not r.failed for r in runs),
        rebased=sum(r.rounds > 0 and not r.failed for r in runs),
        rounds=sum(r.rounds for r in runs),
        rows_rebased=sum(r.rows_rebased for r in runs),
        vain=sum(r.attempts - 1 + r.failed for r in runs),
        rows_lost=sum(r.thrown_rows for r in runs if r.failed and r.outcome != "abandoned"),
        rebase_s=sum(r.seconds.get("rebase", 0.0) for r in runs),
        lost_s=sum(r.thrown_seconds if r.failed else r.repair_s for r in runs if r.outcome != "abandoned"),
        waited_s=sum(r.seconds.get("lock", 0.0) + r.seconds.get("wait", 0.0) for r in runs),
        worked_s=sum(sum(r.seconds.values()) for r in runs),
    )


def _total(costs: Iterable[Cost]) -> Cost:
    names = [f.name for f in fields(Cost)][1:]
    listed = list(costs)
    return Cost("all", **{name: sum(getattr(c, name) for c in listed) for name in names})


def _hot(history: History) -> list[tuple[str, list[Hotspot], int]]:
    """(kind, the most frequent hotspots, the number of all) for partitions, files and columns."""
    kinds = (("Partitions", hot_partitions(history)), ("Files", hot_files(history)), ("Columns that both set", hot_columns(history)))
    return [(kind, hotspots[:MAX_NAMES], len(hotspots)) for kind, hotspots in kinds if hotspots]


def _seconds_by(history: History) -> list[tuple[str, int, float, list[tuple[str, float, float]]]]:
    """For each operation: (name, runs that record their seconds, mean seconds of a run, and by phase: name, mean seconds, percent of the longest)."""
    by_operation: dict[str, list[Run]] = {}
    for run in history.runs:
        if run.seconds:
            by_operation.setdefault(run.operation, []).append(run)
    means = [
        (operation, len(runs), {name: sum(r.seconds.get(name, 0.0) for r in runs) / len(runs) for name in lanes.WORDS})
        for operation, runs in by_operation.items()
    ]
    most = max((sum(by.values()) for _, _, by in means), default=0.0) or 1.0
    out = [(op, n, sum(by.values()), [(name, s, 100 * s / most) for name, s in by.items() if s > 0]) for op, n, by in means]
    return sorted(out, key=lambda row: -row[1] * row[2])[:MAX_NAMES]


@dataclass(frozen=True, slots=True)
class SpanBar:
    """A span of the overview: `x` and `width` in percent; heights in percent of the fullest span."""

    span: Span
    x: float
    width: float
    plain: float
    rebased: float
    failed: float
    at: str


def _bars(spans: Sequence[Span]) -> list[SpanBar]:
    first, length = spans[0].at_ms, 1000 * spans[0].seconds
    slots = (spans[-1].at_ms - first) // length + 1
    most = max(s.commits + s.failed for s in spans)
    return [
        SpanBar(
            s,
            100 * ((s.at_ms - first) // length) / slots,
            100 / slots,
            100 * (s.commits - s.rebased) / most,
            100 * s.rebased / most,
            100 * s.failed / most,
            moment(s.at_ms),
        )
        for s in spans
    ]


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("rowlock.cli.report", "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "printable": printable,
        "n": lambda number: f"{number:,}",
        "s": seconds,
        "size": display.size,
        "moment": moment,
        "pc": lambda number: f"{number:.2f}%",
        "rate": lambda rate: f"{100 * rate:.0f} %",
        "capitalize_first": lambda text: text[:1].upper() + text[1:],
        "file": partial(display.shortened, width=60),
    }
    return environment.get_template("page.html")


def printable(text: object, longest: int = _LONGEST) -> str:
    """Text of other writers for the page: characters that do not print are replaced, and long text is cut."""
    seen = "".join(c if c.isprintable() else " " if c in "\n\t" else "�" for c in str(text)[: longest + 1])
    return seen if len(seen) <= longest else f"{seen[: longest - 1]}…"


def seconds(value: float) -> str:
    """Seconds with as many digits as help."""
    if value < 0.0005:
        return "0 s"
    if value < 0.1:
        return f"{1000 * value:.0f} ms"
    return f"{value:.2f} s" if value < 10 else f"{value:,.1f} s" if value < 1000 else f"{value / 60:,.0f} min"
