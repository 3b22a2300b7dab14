"""`rowlock bench`: measures concurrent UPDATEs and MERGEs of one table with Rowlock and, if it is installed, with delta-spark.

The engines run one after the other, each in its own process, on the same machine and with the same settings.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from importlib.util import find_spec
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from rowlock_bench.contend import Scenario
from rowlock_bench.process import measure

THEIRS = [sys.executable, "-m", "rowlock_bench.contend_delta"]
OURS = [sys.executable, "-m", "rowlock_bench.contend"]
LOCKLESS = "rowlock, lockless"
POLICIES = {
    "rowlock, repair": {"rowlock.onConflict": "repair"},
    LOCKLESS: {"rowlock.onConflict": "lockless", "delta.enableRowTracking": "true"},
    "rowlock, rerun by row": {"rowlock.onConflict": "rerun", "rowlock.granularity": "row"},
    "rowlock, fail by row": {"rowlock.onConflict": "fail", "rowlock.granularity": "row"},
    "rowlock, rerun by file": {"rowlock.onConflict": "rerun", "rowlock.granularity": "file"},
    "rowlock, fail by file": {"rowlock.onConflict": "fail", "rowlock.granularity": "file"},
}
"""The table properties that `--policies` compares.  The scenario runs a failed statement again; under `rerun` Rowlock does so itself.
Lockless is left out with --hot: of two concurrent increments of one cell it keeps only one, as documented."""


def run(console: Console, *, quick: bool, writers: int, processes: bool, hot: bool, policies: bool = False) -> bool:
    """Measures UPDATE and MERGE and prints a table; returns whether every engine's sum over all rows was exact."""
    if not console.is_terminal:
        console.width = max(console.width, 120)  # in a file no line need be cut
    contenders = {name: OURS for name in POLICIES if name != LOCKLESS or not hot} if policies else {"rowlock": OURS}
    if find_spec("delta"):
        contenders["delta-spark"] = THEIRS
    else:
        why = f"the package is not installed ({sys.executable} -m pip install delta-spark==4.4.0, and pyspark==4.2.0 with it)."
        console.print(f"delta-spark is not measured: {why}", highlight=False, soft_wrap=True)
    size = {"rows": 200_000, "commits": 2 * writers, "alone": 4, "seconds": 90.0} if quick else {"rows": 1_000_000, "commits": 3 * writers, "alone": 8}
    table, exact = _empty_table(), True
    for op in ("update", "merge"):
        scenario = Scenario(op=op, writers=writers, processes=processes, hot=hot, **size)
        results = {}
        for name, command in contenders.items():
            with console.status(f"{op.upper()}, {writers} {'processes' if processes else 'threads'}: {name} ..."):
                results[name] = measure([*command, json.dumps(asdict(replace(scenario, properties=POLICIES.get(name, {}) if policies else {})))])
            if not console.is_terminal:
                console.print(f"{op.upper()} {name}: {results[name]['many']['per_second']:.2f} commits/s", highlight=False)
            exact = exact and results[name]["exact"]
        _add_rows(table, op, results)
    console.print(table)
    console.print(
        "run again: statements that failed and were run again, for so many commits. ratio: commits a second, compared with delta-spark's. exact: the sum over all rows is right.",
        soft_wrap=True,
    )
    return exact


def _empty_table() -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("statement", no_wrap=True)
    table.add_column("engine", no_wrap=True)
    for name in ("commits/s", "ratio", "run again", "p50", "p95", "alone/s", "ratio", "exact"):
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _add_rows(table: Table, op: str, results: dict[str, dict[str, Any]]) -> None:
    base = results.get("delta-spark")
    for name, result in results.items():
        many, alone = result["many"], result["alone"]
        table.add_row(
            op.upper(),
            name,
            f"{many['per_second']:.2f}",
            _ratio(many, base and base["many"]),
            f"{many['in_vain']} for {many['commits']}",
            f"{many['p50_s']:.2f} s",
            f"{many['p95_s']:.2f} s",
            f"{alone['per_second']:.2f}",
            _ratio(alone, base and base["alone"]),
            "yes" if result["exact"] else "[bold red]NO[/]",
        )
    table.add_section()


def _ratio(mine: dict[str, Any], base: dict[str, Any] | None) -> str:
    return f"{mine['per_second'] / base['per_second']:.1f} x" if base and base["per_second"] else ""
