"""One measurement in a process of its own: the line that it ends with, and whoever starts it and reads that line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

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
