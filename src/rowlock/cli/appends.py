"""`rowlock bench --appends`: many processes that append a few rows at a time to one local table, beside deltalake in the same run.

Each writer says when it is ready; then all start together.  Run as a module it is one writer of Rowlock's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from rowlock import clock
from rowlock.exceptions import RowlockError

ROWS = 100
PEER = "append_deltalake.py"
OURS = [sys.executable, "-m", "rowlock.cli.appends"]


def run(console: Console, *, writers: int, seconds: float) -> bool:
    """Measures both engines; True when every row is there once."""
    contenders = {"rowlock": OURS}
    if (peer := _peer()) is not None:
        contenders["deltalake"] = [sys.executable, str(peer)]
    else:
        console.print("deltalake is not measured: its writer is part of Rowlock's repository (bench/), and needs the package deltalake.", soft_wrap=True)
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
        "failed: appends that raised, after the engine's own tries. exact: every row that a writer was told of is in the table, once.", soft_wrap=True
    )
    return all_exact


def _peer() -> Path | None:
    from importlib.util import find_spec

    places = (Path.cwd() / "bench" / PEER, Path(__file__).resolve().parents[3] / "bench" / PEER)
    return next((p for p in places if p.is_file()), None) if find_spec("deltalake") else None


def measure(command: list[str], writers: int, seconds: float) -> dict[str, Any]:
    """Starts the writers of one engine on a fresh table, and sums up what they say.  Raises RowlockError where one of them ends early."""
    import rowlock

    with tempfile.TemporaryDirectory(prefix="rowlock-appends-") as folder:
        path = f"{folder}/table"
        rowlock.append(path, rows_of(-1, 0), properties={"delta.enableDeletionVectors": "false"})
        told = _told([*command, path], writers, seconds)
        there = rowlock.to_arrow(path, columns=["writer", "n"]).group_by(["writer", "n"]).aggregate([([], "count_all")]).to_pylist()
    counted = {(row["writer"], row["n"]): row["count_all"] for row in there}
    took = sorted(t for one in told for t in one["seconds"])
    done = [(n, k) for n, one in enumerate(told) for k in one["done"]]
    exact = all(counted.get(key) == ROWS for key in done) and all(count == ROWS for count in counted.values())
    at = {"p50_s": took[len(took) // 2], "p99_s": took[len(took) * 99 // 100], "longest_s": took[-1]}
    return {"per_second": len(done) / max(one["elapsed"] for one in told), **at, "failed": sum(one["failed"] for one in told), "exact": exact}


def _told(command: list[str], writers: int, seconds: float) -> list[dict[str, Any]]:
    """What each writer says at the end; all start when the last one is ready."""
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
            f"{' '.join(map(str, process.args[1:]))} ended without a word" if isinstance(process.args, list) else "a writer ended without a word"
        )
    return line


def rows_of(writer: int, n: int) -> Any:
    """The rows of one append: who wrote them, and which of its appends it was."""
    import pyarrow as pa

    return pa.table(
        {"writer": pa.array([writer] * ROWS, pa.int64()), "n": pa.array([n] * ROWS, pa.int64()), "text": [f"row {i} of append {n}" for i in range(ROWS)]}
    )


def write(path: str, writer: int, seconds: float) -> dict[str, Any]:
    """One writer: appends until the time is over; what it was told."""
    import rowlock
    from rowlock.exceptions import DeltaConcurrentModificationException

    rowlock.to_arrow(path)
    rows_of(writer, 0)  # what pyarrow imports for it is no part of an append
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
