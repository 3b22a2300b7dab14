"""What takes longer than two seconds is shown while it runs, in a terminal and in a notebook; elsewhere nothing is."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import rowlock
from rowlock import clock, progress
from rowlock.log.table_log import TableLog
from rowlock.maintenance.vacuum import vacuum
from rowlock.storage.local import LocalStore
from rowlock.storage.memory import MemoryStore
from unit.advice import histories

SLOW = """
import time
from rowlock import progress
progress.AFTER_S = 0.3
with progress.work("DELETE", "/quick"):
    pass
with progress.work("OPTIMIZE", "/lake/sa\\x1bles"):
    progress.step("rewriting files")
    progress.count(3, 40, "bins")
    time.sleep(1.2)
print("done")
"""
NOTEBOOK = """
import sys, types
def display(data, raw, display_id):
    return types.SimpleNamespace(update=lambda data, raw: print(data))
sys.modules |= {"ipykernel": types.ModuleType("ipykernel"), "IPython": types.ModuleType("IPython"), "IPython.display": types.SimpleNamespace(display=display)}
"""


class Recorder:
    """A screen that keeps what it was shown; `clear` adds an empty entry."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, ...]] = []

    def show(self, lines: Sequence[str]) -> None:
        self.shown.append(tuple(re.sub(r", \d+ s$", "", line) for line in lines))

    def clear(self) -> None:
        self.shown.append(())


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    """Everything is shown, at once."""
    made = Recorder()
    monkeypatch.setattr(progress, "AFTER_S", 0.0)
    monkeypatch.setattr(progress, "_EVERY_S", 0.001)
    monkeypatch.setattr(progress, "_screen", lambda: lambda: made)
    yield made


def run(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, **env})


def in_a_terminal(code: str, **env: str) -> str:
    ours, theirs = pty.openpty()
    process = subprocess.Popen([sys.executable, "-c", code], stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm", "COLUMNS": "90", **env})
    os.close(theirs)
    out = b""
    while True:
        try:
            data = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not data:
            break
        out += data
    os.close(ours)
    assert process.wait(30) == 0
    return out.decode()


def test_in_a_terminal_a_line_comes_and_goes() -> None:
    said = in_a_terminal(SLOW)
    assert "OPTIMIZE /lake/sa�les: rewriting files, 3 of 40 bins, 1 s" in said and "DELETE" not in said, "what was over at once was not shown"
    assert said.endswith("\x1b[2Kdone\r\n"), "the line is gone before the program goes on"
    assert in_a_terminal(SLOW, ROWLOCK_PROGRESS="0") == "done\r\n"


def test_elsewhere_nothing_is_shown() -> None:
    done = run(SLOW)
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_in_a_notebook() -> None:
    shown = run(NOTEBOOK + SLOW.replace("\\x1b", "<b>")).stdout.splitlines()
    assert any("OPTIMIZE /lake/sa<b>les: rewriting files, 3 of 40 bins" in line and "&lt;b&gt;" in line for line in shown)
    assert shown[-2:] == ["{'text/plain': '', 'text/html': ''}", "done"]


def seen(screen: Recorder, line: str, *, within_s: float = 10) -> bool:
    end = clock.monotonic_s() + within_s
    while (line,) not in screen.shown and clock.monotonic_s() < end:
        clock.sleep(0.002)
    return (line,) in screen.shown


def test_steps_rounds_and_parts(screen: Recorder) -> None:
    with progress.work("MERGE", "/t"):
        progress.step("staging")
        assert seen(screen, "MERGE /t: staging")
        with progress.work("commit to", "/t"):
            progress.step("rebasing")
            progress.step("committing")
            progress.step("rebasing")
            assert seen(screen, "MERGE /t: rebasing, round 2"), "a part of it is no work of its own"
        this = progress.current()
        assert this is not None
        threads = [threading.Thread(target=this.one_more, args=(9, "bins")) for _ in range(5)]
        for thread in threads:
            thread.start()
        assert seen(screen, "MERGE /t: rebasing, round 2, 5 of 9 bins")
    assert screen.shown[-1] == () and progress.current() is None


def test_an_error_passes_and_leaves_nothing(screen: Recorder) -> None:
    with pytest.raises(KeyboardInterrupt), progress.work("VACUUM", "/" + "x" * 200):
        assert seen(screen, "VACUUM …" + "x" * 59)
        raise KeyboardInterrupt
    assert screen.shown[-1] == () and progress.current() is None


def test_a_screen_that_fails_is_nobodys_error(screen: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    def show(lines: Sequence[str]) -> None:
        raise OSError("the terminal is gone")

    monkeypatch.setattr(screen, "show", show)
    with progress.work("VACUUM", "/t"):
        clock.sleep(0.05)


def test_what_runs_long_says_where_it_is(screen: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Appends and VACUUM, each slow enough to be seen at every step."""
    said: list[str] = []

    def heard(*parts: object) -> None:
        said.append(" ".join(map(str, parts)))

    monkeypatch.setattr(progress.Work, "step", lambda self, text: heard(self._title, text))
    monkeypatch.setattr(progress.Work, "one_more", lambda self, total, unit: heard(self._title, "one more of", total, unit))
    rowlock.append(str(tmp_path), pa.table({"id": [1]}))
    rowlock.append(str(tmp_path), pa.table({"id": [2]}))
    (tmp_path / "stray.parquet").write_bytes(b"x")
    os.utime(tmp_path / "stray.parquet", (0, 0))
    vacuum(TableLog(LocalStore(tmp_path)))
    place = str(tmp_path) if len(str(tmp_path)) <= 60 else f"…{str(tmp_path)[-59:]}"
    assert [f"append to {place} {step}" for step in ("staging", "committing", "tidying up the log")] == [s for s in said if s.startswith("append")][-3:]
    assert said[-3:] == [f"VACUUM {place} listing files", f"VACUUM {place} deleting", f"VACUUM {place} one more of 1 files"]


def test_simulated_time_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Schedules own their threads: one that shows progress would be another player."""
    from rowlock import threads

    monkeypatch.setattr(sys, "stderr", type("Terminal", (), {"isatty": lambda self: True})())
    monkeypatch.setenv("TERM", "xterm")
    assert progress._screen() is not None
    with threads.use(threads.SystemThreads()):
        assert progress._screen() is None
    histories.hot_rows(store=MemoryStore("memory://quiet"))
