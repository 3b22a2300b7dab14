"""Runs the steps of `steps.py` in a driver of its own, on a table of an S3 server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from servers.minio import Minio
from support.cluster.session import environment

TESTS = Path(__file__).parents[2]


def run(minio: Minio, steps: Sequence[str], *, echo: bool = False, timeout_s: float | None = None) -> tuple[int, str]:
    """(the exit status of the driver, the lines that it said); with `echo` they are printed as they come."""
    path = os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])
    given = environment(minio.storage_options) | {"PYTHONPATH": path, "ROWLOCK_CLUSTER_TABLE": minio.fresh_root()}
    command = [sys.executable, "-m", "support.cluster.driver", *steps]
    if echo:
        return subprocess.run(command, env=given, timeout=timeout_s).returncode, ""
    done = subprocess.run(command, env=given, timeout=timeout_s, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr[-3000:]
