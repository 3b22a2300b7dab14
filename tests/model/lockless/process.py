"""A host in a process of its own: one JSON request on each line of its standard input, one reply on each line of its output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

_TESTS = Path(__file__).resolve().parents[2]


class Remote:
    """A host's methods, carried out by another process; what it raises is raised here as `RemoteError`."""

    def __init__(self, folder: str) -> None:
        path = os.pathsep.join([str(_TESTS.parent / "src"), str(_TESTS), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, "-m", "model.lockless.process", folder]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path})

    def __getattr__(self, name: str) -> Any:
        return lambda *args: self.ask(name, *args)

    def ask(self, name: str, *args: Any) -> Any:
        self.send(name, *args)
        return self.reply()

    def send(self, name: str, *args: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([name, args]) + "\n")
        self.process.stdin.flush()

    def reply(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RemoteError(f"the process ended with {self.process.wait()}")
        answer = json.loads(line)
        if "raised" in answer:
            raise RemoteError(answer["raised"])
        return answer["gave"]

    def kill(self) -> None:
        """kill -9."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        if self.process.poll() is None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            self.process.wait(timeout=60)


class RemoteError(Exception):
    """What a host in another process raised, by its class's name and text."""


def main(folder: str) -> None:
    from model.lockless.host import MemoryHost
    from rowlock.storage.local import LocalStore

    host = MemoryHost(LocalStore(folder))
    for line in sys.stdin:
        name, args = json.loads(line)
        try:
            answer = {"gave": getattr(host, name)(*args)}
        except Exception as e:
            answer = {"raised": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
