"""The history of a table as one self-contained HTML page: no network, no script.  Pure.

All text of other writers (paths, names, predicates, userMetadata) is escaped by the template; characters that do not
print are replaced.  Lists are limited, and the page says how many entries it omits.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from rowlock import display
from rowlock.advice.advice import advise, set_properties
from rowlock.advice.costs import Hotspot, grid, hot_columns, hot_files, hot_partitions, pairs, timeline
from rowlock.advice.history import History, Run
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


def html(history: History, now_ms: int) -> str:
    """The page, about 20 kB and 2 kB for each of the newest runs; `now_ms` is printed as its time."""
    name_of = lane_names(history.runs)
    by_writer = lambda run: label(name_of(run))  # noqa: E731
    meetings = [(run, m, history.by_version.get(m.version)) for run in reversed(history.runs) for m in run.met]
    spans = timeline(history, SPANS)
    return _template().render(
        h=history,
        written=moment(now_ms),
        version=VERSION,
        drawing=drawing(history),
        spans=spans if len(spans) > 1 else [],
        most=max((s.commits + s.failed for s in spans), default=0),
        words=lanes.WORDS,
        by_writer=_costs_by(history, by_writer),
        by_operation=_costs_by(history, lambda run: run.operation),
        total=next(iter(_costs_by(history, lambda _: "all")), Counter()),
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


def _costs_by(history: History, name_of: Callable[[Run], str]) -> list[dict[str, Any]]:
    """The work and losses of the runs by name, the highest losses first."""
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for run in history.runs:
        sums[name_of(run)].update(_cost(run))
    return sorted(({"name": name, **cost} for name, cost in sums.items()), key=lambda c: (-c["lost_s"], -c["rebase_s"], -c["runs"], c["name"]))


def _cost(run: Run) -> dict[str, Any]:
    """The work and losses of one run, in seconds where a name ends so; `vain` counts lost puts and failed tries."""
    lost, rebased = run.outcome != "abandoned", run.rounds > 0 and not run.failed
    return {
        "runs": 1,
        "commits": not run.failed,
        "rebased": rebased,
        "rounds": run.rounds,
        "rows_rebased": run.rows_rebased,
        "vain": run.attempts - 1 + run.failed,
        "rows_lost": run.thrown_rows * (run.failed and lost),
        "rebase_s": run.seconds.get("rebase", 0.0),
        "lost_s": (run.thrown_seconds if run.failed else run.repair_s) * lost,
        "waited_s": run.seconds.get("lock", 0.0) + run.seconds.get("wait", 0.0),
        "worked_s": sum(run.seconds.values()),
    }


def _hot(history: History) -> list[tuple[str, list[Hotspot], int]]:
    """(kind, the most frequent hotspots, the number of all) for partitions, files and columns."""
    kinds = (("Partitions", hot_partitions(history)), ("Files", hot_files(history)), ("Columns that both set", hot_columns(history)))
    return [(kind, hotspots[:MAX_NAMES], len(hotspots)) for kind, hotspots in kinds if hotspots]


def _seconds_by(history: History) -> list[tuple[str, int, float, list[tuple[str, float, float]]]]:
    """For each operation: (name, runs that record their seconds, mean seconds of a run, and by phase: name, mean seconds, percent of the longest)."""
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for run in history.runs:
        if run.seconds:
            sums[run.operation].update({"runs": 1, **{name: run.seconds.get(name, 0.0) for name in lanes.WORDS}})
    means = [(operation, by["runs"], {name: by[name] / by["runs"] for name in lanes.WORDS}) for operation, by in sums.items()]
    most = max((sum(by.values()) for _, _, by in means), default=0.0) or 1.0
    out = [(op, n, sum(by.values()), [(name, s, 100 * s / most) for name, s in by.items() if s > 0]) for op, n, by in means]
    return sorted(out, key=lambda row: -row[1] * row[2])[:MAX_NAMES]


@cache
def _template() -> Template:
    loader = PackageLoader("rowlock.cli.report", "templates")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {
        "printable": printable,
        "n": lambda number: f"{number:,}",
        "s": partial(display.duration, digits=3),
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
