"""Runs one engine's scenario in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from typing import Any

from rowlock.exceptions import RowlockError


def measure(command: Sequence[str]) -> dict[str, Any]:
    """Runs a scenario in a process; returns its RESULT.  Raises RowlockError if it ends without one."""
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}, check=False)
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("RESULT "):
            return json.loads(line.removeprefix("RESULT "))  # type: ignore[no-any-return]
    last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
    raise RowlockError(f"{' '.join(command[1:3])} ended without a result: {last}")
