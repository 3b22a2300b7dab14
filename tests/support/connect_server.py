"""A `rowlock serve` of a test's own, in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SRC = str(Path(__file__).parents[2] / "src")
_ENDS_WITHIN_S = 60


@dataclass
class Served:
    """A server that listens at `url`, with its process and what it has printed so far."""

    url: str
    process: subprocess.Popen[str]
    lines: list[str]
    folder: Path
    sessions: list[Any] = field(default_factory=list)

    def session(self, **settings: str) -> Any:
        """A new Connect session in this process, beside its classic one."""
        from pyspark.sql.connect.session import SparkSession

        session = SparkSession.builder.remote(self.url).create()
        self.sessions.append(session)
        for name, value in settings.items():
            session.conf.set(name.replace("__", "."), value)
        return session

    def end(self, number: int = signal.SIGTERM) -> int:
        """Tells the server to end; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(_ENDS_WITHIN_S)

    def close_sessions(self) -> None:
        """Closes the clients: an open one whose server is gone asks for it for minutes when the process ends."""
        for session in self.sessions:
            if self.process.poll() is None:
                session.stop()
            else:
                session.client.close()


@contextmanager
def serving(folder: Path, arguments: Sequence[str] = (), variables: Mapping[str, str] | None = None) -> Iterator[Served]:
    """`rowlock serve` in `folder`, on a free port, until the block ends; `variables` are added to its environment."""
    patient = "spark.python.authenticate.socketTimeout=300s"  # a process of Python comes late on a machine with other work
    given = ["serve", "--port", "0", "--memory-mb", "768", "--cores", "2", "--conf", patient, *arguments]
    environment = os.environ | {"PYTHONPATH": SRC, "PYSPARK_PYTHON": sys.executable, "COLUMNS": "1000"} | dict(variables or {})
    command = [sys.executable, "-m", "rowlock.cli.main", *given]
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    lines: list[str] = []
    served: Served | None = None
    try:
        for line in process.stdout:
            lines.append(line)
            if "Ctrl-C" in line:
                break
        found = re.search(r"sc://[\w.:\[\]]+:\d+", "".join(lines))
        assert found, "".join(lines)
        threading.Thread(target=lambda: lines.extend(process.stdout or ()), daemon=True).start()
        served = Served(found[0], process, lines, folder)
        yield served
    finally:
        if served is not None:
            served.close_sessions()
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
