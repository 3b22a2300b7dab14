"""Starting writers of writer.py beside this file and talking to them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

_WRITER = Path(__file__).with_name("writer.py")
_SOURCES = Path(__file__).resolve().parents[3] / "src"


class Writer:
    """One process with its JVM, in a process group of its own so that both can be killed."""

    def __init__(self, path: str, job: str, first: int, count: int) -> None:
        command = [sys.executable, str(_WRITER), path, job, str(first), str(count)]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": os.pathsep.join([str(_SOURCES), os.environ.get("PYTHONPATH", "")])}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True, env=environment
        )

    def ready(self) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        assert line == "READY", f"the writer died before it was ready: {line!r}"

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("GO\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """kill -9 of Python and its JVM."""
        os.killpg(self.process.pid, signal.SIGKILL)

    def finish(self, timeout_s: float = 300) -> list[str]:
        """The lines that it printed, once it is over."""
        out, _ = self.process.communicate(timeout=timeout_s)
        return out.split("\n")


def run_all(writers: list[Writer], timeout_s: float = 300) -> list[list[str]]:
    """Starts them at the same moment and waits for all.  Kills what is left when something goes wrong."""
    try:
        for writer in writers:
            writer.ready()
        for writer in writers:
            writer.go()
        return [w.finish(timeout_s) for w in writers]
    finally:
        for writer in writers:
            if writer.process.poll() is None:
                writer.kill()


def acknowledged(lines: list[str]) -> list[int]:
    """The numbers of the statements that were acknowledged."""
    return [int(line.split()[1]) for line in lines if line.startswith("ACK ")]
