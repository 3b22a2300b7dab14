"""One measurement in a process of its own: the line that it ends with, and whoever starts it and reads that line; writers that start together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rowlock import clock
from rowlock.exceptions import RowlockError

Result = dict[str, Any]
"""`figures`: a number for each line, whose name ends with its unit; `exact`: whether the table was right at the end; `phases`: where the time of a line went."""


def result(figures: Mapping[str, float], *, exact: bool, phases: Mapping[str, Mapping[str, float]] | None = None) -> Result:
    return {"figures": {line: float(f"{value:.4g}") for line, value in figures.items()}, "exact": exact, "phases": dict(phases or {})}


def main(run: Callable[[dict[str, Any]], Result]) -> None:
    """The main function of a measurement: runs it with the parameters that its first argument has as JSON, and prints its result."""
    print("RESULT " + json.dumps(run(json.loads(sys.argv[1]))), flush=True)


def measure(module: str, parameters: Mapping[str, Any]) -> Result:
    """Runs a module in a process; returns its result.  Raises RowlockError if it ends without one."""
    command = [sys.executable, "-m", f"rowlock_bench.{module}", json.dumps(parameters)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}, check=False)
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("RESULT "):
            return json.loads(line.removeprefix("RESULT "))  # type: ignore[no-any-return]
    last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
    raise RowlockError(f"{module} ended without a result: {last}")


_READY = "ready"


def wait_for_the_others() -> None:
    """In a writer's process: says that it is ready, and returns when all are (see `together`)."""
    print(_READY, flush=True)
    sys.stdin.readline()


def together(commands: Sequence[Sequence[str]]) -> tuple[list[Any], float]:
    """Runs writers as processes that start when the last one is ready; returns the JSON that each prints last, and the seconds since then.

    Raises RowlockError if one of them ends early.
    """
    running = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for command in commands]
    try:
        for process in running:
            while (line := _line(process)) != _READY:
                if not line:
                    raise RowlockError("a writer ended before it was ready")
        began = clock.monotonic_s()
        for process in running:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        last = [process.communicate()[0].strip().rpartition("\n")[2] for process in running]
        seconds = clock.monotonic_s() - began
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
            process.wait()
    if not all(last):
        raise RowlockError("a writer ended without a result")
    return [json.loads(line) for line in last], seconds


def _line(process: subprocess.Popen[str]) -> str:
    """A line that is not empty; empty where the process has ended."""
    assert process.stdout is not None
    return next((text for line in iter(process.stdout.readline, "") if (text := line.strip())), "")
