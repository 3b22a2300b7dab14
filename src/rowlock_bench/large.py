"""`rowlock bench --large`: large statements with Rowlock, delta-spark and plain Parquet, each in its own process, in random order.

Says for each statement its seconds and their ratio to delta-spark's, the peaks of memory of Python and of the JVM, and what Spark did for it.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from rowlock import clock
from rowlock.exceptions import InvalidInput
from rowlock_bench.large_statements import STATEMENTS, LargeScenario, expected
from rowlock_bench.process import measure

OURS, PARQUET, DELTA = "rowlock", "parquet", "delta-spark"
_BUSY_LOAD = 0.5
Result = dict[str, Any]


def run(console: Console, *, rows: int, statements: str, memory_mb: int, rounds: int) -> bool:
    """Measures all engines `rounds` times and prints a table of the medians; returns whether every engine's table was right at the end."""
    if not console.is_terminal:
        console.width = max(console.width, 150)  # in a file no line need be cut
    scenario = LargeScenario(rows=rows, statements=_statements(statements), memory_mb=memory_mb)
    commands = {OURS: _command(), PARQUET: [*_command(), PARQUET]}
    if find_spec("delta"):
        commands[DELTA] = [sys.executable, "-m", "rowlock_bench.large_delta"]
    else:
        console.print("delta-spark is not measured: the package delta-spark is not installed.", soft_wrap=True)
    load = os.getloadavg()[0]
    if load > _BUSY_LOAD:
        console.print(f"The machine is busy (load {load:.1f}): read the ratios, not the seconds.", highlight=False)
    results: dict[str, list[Result]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name in sorted(commands, key=lambda _: clock.jitter()):
            with console.status(f"{rows:,} rows: {name} ..."):
                results[name].append(measure(with_scenario(commands[name], name, scenario)))
    console.print(_table(results))
    wanted = expected(rows, scenario.statements)
    exact = all(r["found"] == wanted for name, found in results.items() if name != PARQUET for r in found)
    console.print(
        f"{rows:,} rows, {scenario.cores} tasks at once, {memory_mb:,} MB heap, median of {rounds}. ratio: compared with delta-spark's. CPU: seconds of processor time, Python's and the JVM's, which others on the machine change less. jobs, read, written, "
        f"shuffled, spilled: by Spark's tasks. Tables right at the end: {'all' if exact else '[bold red]NOT ALL[/]'}.",
        highlight=False,
        soft_wrap=True,
    )
    return exact


def _statements(given: str) -> tuple[str, ...]:
    """The statements by name, in the order in which they run; all where the text is empty.  Raises InvalidInput."""
    names = {n.strip() for n in given.split(",") if n.strip()} or set(STATEMENTS)
    if unknown := sorted(names - set(STATEMENTS)):
        raise InvalidInput(f"--ops: there is no statement {unknown[0]}; there are {', '.join(STATEMENTS)}")
    return tuple(n for n in STATEMENTS if n in {*names, "write"})


def _command() -> list[str]:
    return [sys.executable, "-m", "rowlock_bench.large_statements"]


def with_scenario(command: Sequence[str], name: str, scenario: LargeScenario) -> list[str]:
    """The command of an engine's process with the scenario as its first argument."""
    text = json.dumps(asdict(scenario))
    return [*command[:-1], text, PARQUET] if name == PARQUET else [*command, text]


def _table(results: Mapping[str, Sequence[Result]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in ("statement", "engine"):
        table.add_column(name, no_wrap=True)
    for name in ("seconds", "ratio", "CPU", "ratio", "Python", "JVM", "jobs", "read", "written", "shuffled", "spilled"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("phases, s")
    for step in STATEMENTS:
        shown = {name: [r["steps"][step] for r in found if step in r["steps"]] for name, found in results.items()}
        base = {key: _median(shown[DELTA], key) for key in ("s", "cpu_s")} if shown.get(DELTA) else {}
        for name, found in shown.items():
            if found:
                table.add_row(step, name, *_cells(found, base))
        if any(shown.values()):
            table.add_section()
    for name, runs in results.items():
        python, jvm = (f"{_median(runs, key):,.0f} MB" for key in ("python_mb", "jvm_mb"))
        table.add_row("at most", name, "", "", "", "", python, jvm, "", "", "", "", "", f"{sum(r['in_vain'] for r in runs)} tries in vain")
    return table


def _cells(found: Sequence[Result], base: Mapping[str, float]) -> list[str]:
    times = {key: _median(found, key) for key in ("s", "cpu_s")}
    sizes = [f"{_median(found, key):,.0f} MB" for key in ("python_mb", "jvm_mb")]
    rows = [f"{_median(found, key):,.0f}" for key in ("jobs", "rows_read", "rows_written")]
    volumes = [f"{_median(found, key) / 2**20:,.0f} MB" for key in ("shuffled", "spilled")]
    names = dict.fromkeys(phase for f in found for phase in f["phases"])
    phases = {n: statistics.median(f["phases"].get(n, 0.0) for f in found) for n in names}
    return [
        *(text for key, value in times.items() for text in (f"{value:.2f}", f"{value / base[key]:.2f}" if base.get(key) else "")),
        *sizes,
        *rows,
        *volumes,
        ", ".join(f"{n} {s:.1f}" for n, s in phases.items() if s >= 0.05),
    ]


def _median(found: Sequence[Mapping[str, Any]], key: str) -> float:
    return float(statistics.median(f[key] for f in found))
