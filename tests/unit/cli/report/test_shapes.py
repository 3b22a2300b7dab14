"""Where things are drawn: times on the axis, phases within a run, runs in lanes; whatever a history claims."""

from __future__ import annotations

import itertools
from dataclasses import replace

from hypothesis import given, strategies as st

from rowlock.advice.history import History, MetWinner, Run
from rowlock.advice.writers import Writer
from rowlock.cli.report.lanes import MAX_LANES, MAX_ROWS, MAX_RUNS, ROW, WORDS, Axis, drawing, phases_of

T0 = 1_790_000_000_000
HOUR_MS = 3_600_000
LOADER = Writer("loader", "etl-1", 7)
times = st.integers(0, 10**15)
spans = st.lists(st.tuples(times, st.integers(0, 10**9)).map(lambda p: (float(p[0]), float(p[0] + p[1]))), min_size=1, max_size=30)


@given(spans)
def test_the_axis_keeps_the_order_of_times_and_stays_on_the_page(found: list[tuple[float, float]]) -> None:
    axis = Axis(found)
    places = [axis.x(at) for at in sorted(t for span in found for t in span)]
    assert places == sorted(places) and places[0] >= 0 and places[-1] <= 100
    ticks = [t.x for t in axis.ticks()]
    assert ticks == sorted(ticks) and max(ticks) <= 91 and all(b - a >= 8.9 for a, b in itertools.pairwise(ticks)), "no label lies over another"


def test_idle_hours_do_not_hide_busy_seconds() -> None:
    axis = Axis([(T0, T0 + 4000.0), (T0 + 9 * HOUR_MS, T0 + 9 * HOUR_MS + 4000.0)])
    assert [cut.text for cut in axis.cuts] == ["9 h"]
    assert axis.x(T0 + 4000) - axis.x(T0) > 40 and axis.x(T0 + 9 * HOUR_MS) - axis.x(T0 + 4000) < 10


def run(version: int | None, began_s: float, ended_s: float, who: Writer = LOADER, **more: object) -> Run:
    fields = {"read_version": 0, "writer": who, "began_ms": T0 + int(1000 * began_s), "at_ms": T0 + int(1000 * ended_s), **more}
    return Run(version=version, ended_at=(version or 1) - 1, operation="UPDATE", outcome="committed" if version is not None else "conflict", **fields)  # type: ignore[arg-type]


def test_phases_lie_in_their_order_with_what_is_not_recorded_between() -> None:
    parts = phases_of(run(1, 0, 10, seconds={"put": 1.0, "stage": 2.0, "plan": 1.0, "rebase": 3.0, "unheard of": 5.0}))
    assert [(p.name, p.begin_ms - T0, p.end_ms - T0) for p in parts] == [
        ("plan", 0, 1000),
        ("stage", 1000, 3000),
        ("rebase", 6000, 9000),
        ("put", 9000, 10_000),
    ]


@given(st.dictionaries(st.sampled_from([*WORDS, "x"]), st.floats(0, 1e6)), st.integers(0, 10**6), st.integers(-10, 10**6))
def test_phases_never_leave_their_run(seconds: dict[str, float], end_ms: int, took_ms: int) -> None:
    whole = replace(run(1, 0, 0), at_ms=end_ms, began_ms=end_ms - took_ms if took_ms >= 0 else None, seconds=seconds)
    begin = end_ms - max(took_ms, 0)
    parts = phases_of(whole)
    assert all(begin - 1 <= p.begin_ms <= p.end_ms <= end_ms + 1 for p in parts)
    assert all(a.end_ms <= b.begin_ms + 1e-3 for a, b in itertools.pairwise(parts))


def test_runs_of_one_writer_that_overlap_are_in_rows_of_their_own() -> None:
    d = drawing(History("t", tuple(run(n, n, n + 2.5) for n in range(1, 9))))
    rows: dict[int, list[tuple[float, float]]] = {}
    for bar in d.bars:
        rows.setdefault(bar.y, []).append((bar.x, bar.end))
    assert len(rows) == 3 and len(d.lanes) == 1
    assert all(a[1] <= b[0] for found in rows.values() for a, b in itertools.pairwise(found))


def test_a_line_leads_from_the_winner_to_whom_it_met_while_that_ran() -> None:
    us, uk = Writer("us", "h", 1), Writer("uk", "h", 2)
    history = History(
        "t", (run(1, 0, 2, us), run(2, 1, 5, uk, met=(MetWinner(version=1),)), run(None, 1, 3, us, met=(MetWinner(version=1, rule="removed files"),)))
    )
    d = drawing(history)
    winner, loser, failed = d.bars[0], d.bars[2], d.bars[1]
    settled, raised = sorted(d.lines, key=lambda line: line.raised)
    assert (settled.x, settled.y_from - winner.y, settled.y_to - loser.y) == (winner.end, raised.y_from - winner.y, raised.y_to - failed.y)
    assert loser.x < settled.x < loser.end and (settled.raised, raised.raised) == (False, True)


def test_what_is_too_much_to_draw_is_left_out_and_said() -> None:
    many = History("t", tuple(run(n, n, n + 40, Writer("app", "h", n % 40)) for n in range(1, 600)))
    d = drawing(many)
    assert len(d.bars) == MAX_RUNS and d.bars[-1].run.version == 599 and f"449 older runs are not drawn: the newest {MAX_RUNS} are." in d.left_out
    assert [(lane.name, lane.where) for lane in d.lanes] == [("app", "40 processes on h")], "a lane for each process would be too many"
    assert d.height <= MAX_ROWS * ROW + 40
    apps = History("t", tuple(run(n, n, n + 1, Writer(f"app {n % 40}")) for n in range(1, 100)))
    d = drawing(apps)
    assert len(d.lanes) == MAX_LANES and any("of 28 other writers are not drawn" in text for text in d.left_out)
