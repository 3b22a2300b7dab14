"""A server as a process that ends with ours, however ours ends, and leaves nothing behind.

Between us and the server stands a keeper: it waits on a pipe that only we hold.  When we close it, exit,
crash or are killed, the keeper stops the server and removes its folder.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

KEEPER = """
import pwd, shutil, signal, subprocess, sys, threading
how, user, folder, log, *command = sys.argv[1:]
as_user = {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []} if user else {}
for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
    signal.signal(ignored, signal.SIG_IGN)
def as_usual():
    for changed in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(changed, signal.SIG_DFL)
with open(log, "wb") as out:
    server = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out, preexec_fn=as_usual, **as_user)
def keep():
    sys.stdin.buffer.read()
    server.send_signal(int(how))
    try:
        server.wait(5)
    except subprocess.TimeoutExpired:
        server.kill()
threading.Thread(target=keep, daemon=True).start()
code = server.wait()
if not sys.stdin.closed and code not in (0, -int(how), -9):
    print(open(log, errors="replace").read()[-2000:], file=sys.stderr)
shutil.rmtree(folder, ignore_errors=True)
"""


class DidNotStart(Exception):
    """The server ended, or did not answer in time; the text has the end of what it printed."""


class Process:
    """A server that runs.  `stop()` ends it and waits until it is gone; so does the end of this process."""

    def __init__(self, command: Sequence[str], folder: Path, *, stop_signal: int, user: str | None, environment: dict[str, str] | None) -> None:
        self.folder = folder
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", "-c", KEEPER, str(int(stop_signal)), user or "", str(folder), str(folder / "server.log"), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,  # a Ctrl-C is for the tests, which then let go of the server
            env={**os.environ, **(environment or {})},
            cwd="/",
        )

    @property
    def session(self) -> int:
        """The id of the session (setsid) in which the server and all that it starts run."""
        return self._keeper.pid

    @property
    def ended(self) -> bool:
        return self._keeper.poll() is not None

    def last_words(self) -> str:
        if self.ended and self._keeper.stderr:
            return self._keeper.stderr.read().decode(errors="replace")
        with contextlib.suppress(OSError):
            return (self.folder / "server.log").read_text(errors="replace")[-2000:]
        return ""

    def stop(self) -> None:
        if self._keeper.stdin:
            with contextlib.suppress(OSError):
                self._keeper.stdin.close()
        self._keeper.wait(60)
        if self._keeper.stderr:
            self._keeper.stderr.close()


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def fresh_folder(name: str, user: str | None = None) -> Path:
    """An empty folder that is the server's own; the keeper removes it."""
    folder = Path(tempfile.mkdtemp(prefix=f"rowlock-{name}-", dir="/tmp"))  # short: a socket's path has 107 characters at most
    if user is not None:
        os.chown(folder, pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid)
    return folder


def run(
    name: str,
    command: Callable[[int, Path], Sequence[str]],
    answers: Callable[[int], bool],
    *,
    folder: Path | None = None,
    stop_signal: int = 9,
    user: str | None = None,
    environment: dict[str, str] | None = None,
    timeout_s: float = 60,
) -> tuple[Process, int]:
    """Runs `command(port, folder)` and waits until `answers(port)`; the port is tried anew where another process took it.  Raises DidNotStart."""
    said = ""
    for _ in range(3):
        port, place = free_port(), folder or fresh_folder(name, user)
        process = Process(command(port, place), place, stop_signal=stop_signal, user=user, environment=environment)
        deadline = time.monotonic() + timeout_s
        while not process.ended and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                if answers(port):
                    return process, port
            time.sleep(0.05)
        timed_out = not process.ended
        said = process.last_words()
        process.stop()
        if timed_out or folder is not None:
            break
    raise DidNotStart(f"{name} did not start: {said.strip() or 'it said nothing'}")


def status(url: str, timeout_s: float = 2) -> int:
    """The status of a GET, whatever it is; raises OSError where nobody answers."""
    import urllib.error
    import urllib.request

    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as e:
        return e.code
