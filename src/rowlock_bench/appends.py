"""`rowlock bench --appends`: measures processes that append a few rows at a time to one local table, with Rowlock and with deltalake.

All writers start together when the last one is ready.  Run as a module, this file is one writer that uses Rowlock.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from rowlock import clock
from rowlock.exceptions import RowlockError

ROWS = 100
THEIRS = [sys.executable, "-m", "rowlock_bench.append_deltalake"]
OURS = [sys.executable, "-m", "rowlock_bench.appends"]


def run(console: Console, *, writers: int, seconds: float) -> bool:
    """Measures both engines and prints a table; returns whether every acknowledged row is in the table exactly once."""
    contenders = {"rowlock": OURS}
    if find_spec("deltalake"):
        contenders["deltalake"] = THEIRS
    else:
        console.print("deltalake is not measured: the package deltalake is not installed.", soft_wrap=True)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in ("engine", "writers", "appends/s", "p50", "p99", "longest", "failed", "exact"):
        table.add_column(name, no_wrap=True, justify="left" if name == "engine" else "right")
    all_exact = True
    for name, command in contenders.items():
        with console.status(f"{writers} processes append {ROWS} rows at a time: {name} ..."):
            found = measure(command, writers, seconds)
        all_exact = all_exact and found["exact"]
        times = [f"{found[k]:.3f} s" for k in ("p50_s", "p99_s", "longest_s")]
        table.add_row(name, str(writers), f"{found['per_second']:.1f}", *times, str(found["failed"]), "yes" if found["exact"] else "[bold red]NO[/]")
    console.print(table)
    console.print(
        "failed: appends that raised, after the engine's own retries. exact: every row of an append that succeeded is in the table, once.", soft_wrap=True
    )
    return all_exact


def measure(command: list[str], writers: int, seconds: float) -> dict[str, Any]:
    """Runs the writers of one engine on a new table and sums up their results.  Raises RowlockError if one of them ends early."""
    import rowlock

    with tempfile.TemporaryDirectory(prefix="rowlock-appends-") as folder:
        path = f"{folder}/table"
        rowlock.append(path, rows_of(-1, 0), properties={"delta.enableDeletionVectors": "false"})
        results = _run_writers([*command, path], writers, seconds)
        there = rowlock.to_arrow(path, columns=["writer", "n"]).group_by(["writer", "n"]).aggregate([([], "count_all")]).to_pylist()
    counted = {(row["writer"], row["n"]): row["count_all"] for row in there}
    took = sorted(t for one in results for t in one["seconds"])
    done = [(n, k) for n, one in enumerate(results) for k in one["done"]]
    exact = all(counted.get(key) == ROWS for key in done) and all(count == ROWS for count in counted.values())
    at = {"p50_s": took[len(took) // 2], "p99_s": took[len(took) * 99 // 100], "longest_s": took[-1]}
    return {"per_second": len(done) / max(one["elapsed"] for one in results), **at, "failed": sum(one["failed"] for one in results), "exact": exact}


def _run_writers(command: list[str], writers: int, seconds: float) -> list[dict[str, Any]]:
    """Starts the writers together, when the last one is ready; returns the result that each prints at the end."""
    running = [
        subprocess.Popen([*command, str(n), str(seconds)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ) for n in range(writers)
    ]
    try:
        for process in running:
            _line(process)
        for process in running:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        return [json.loads(_line(process)) for process in running]
    finally:
        for process in running:
            if process.poll() is None and sys.exc_info()[0] is not None:
                process.kill()
            process.communicate()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    if not (line := process.stdout.readline()):
        raise RowlockError(
            f"{' '.join(map(str, process.args[1:]))} ended without a result" if isinstance(process.args, list) else "a writer ended without a result"
        )
    return line


def rows_of(writer: int, n: int) -> Any:
    """The rows of append number `n` of a writer, with both numbers as columns."""
    import pyarrow as pa

    return pa.table(
        {"writer": pa.array([writer] * ROWS, pa.int64()), "n": pa.array([n] * ROWS, pa.int64()), "text": [f"row {i} of append {n}" for i in range(ROWS)]}
    )


def write(path: str, writer: int, seconds: float) -> dict[str, Any]:
    """One writer: appends until the time is over; returns which appends succeeded, their seconds, and how many failed."""
    import rowlock
    from rowlock.exceptions import DeltaConcurrentModificationException

    rowlock.to_arrow(path)
    rows_of(writer, 0)  # so that pyarrow's imports are not measured with the first append
    print("ready", flush=True)
    sys.stdin.readline()
    start, took, done, failed, n = clock.monotonic_s(), [], [], 0, 0
    while (begun := clock.monotonic_s()) - start < seconds:
        try:
            rowlock.append(path, rows_of(writer, n))
            done.append(n)
            took.append(clock.monotonic_s() - begun)
        except DeltaConcurrentModificationException:
            failed += 1
        n += 1
    return {"elapsed": clock.monotonic_s() - start, "seconds": took, "done": done, "failed": failed}


if __name__ == "__main__":
    print(json.dumps(write(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))), flush=True)
