"""Many small writers in threads and processes: every row once, each writer's in its order (I1, I2)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import rowlock
from rowlock.api.append import opened
from support.appends import commit
from support.forked import status_of_a_child

WRITER = Path(__file__).resolve().parents[1] / "support" / "append_writer.py"
SOURCES = Path(__file__).resolve().parents[2] / "src"
PROCESSES, THREADS, APPENDS = 4, 4, 6


@pytest.mark.parametrize("exists", [True, False], ids=["into a table", "that make the table"])
def test_processes_and_threads(tmp_path: Path, exists: bool) -> None:
    path = str(tmp_path / "table")
    if exists:
        rowlock.append(path, pa.table({"writer": pa.array([], pa.string()), "n": pa.array([], pa.int64()), "place": pa.array([], pa.int64())}))
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    command = [sys.executable, str(WRITER), path]
    running = [
        subprocess.Popen([*command, str(p), str(THREADS), str(APPENDS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        for p in range(PROCESSES)
    ]
    try:
        for process in running:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
        outcomes = _at_once(running)
    finally:
        for process in running:
            process.kill()
            process.wait()
    told = [tuple(one) for text in outcomes for one in json.loads(text)]
    assert len(told) == PROCESSES * THREADS * APPENDS
    there = Counter(zip(*(c.to_pylist() for c in rowlock.to_arrow(path).columns), strict=True))
    assert there == Counter({(writer, n, place): 1 for writer, n, _ in told for place in range(3)})
    versions = [version for _, _, version in told]
    for writer in {w for w, _, _ in told}:
        mine = [version for w, _, version in told if w == writer]
        assert mine == sorted(mine)
    last = opened(path).refresh().version
    assert last == max(versions)
    assert all(commit(path, v).info is not None for v in range(last + 1))


def _at_once(running: list[subprocess.Popen[str]]) -> list[str]:
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [process.communicate(timeout=120)[0] for process in running]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_that_is_forked_while_threads_append(tmp_path: Path) -> None:
    """None of its parent's threads is there to give back what it held at that moment."""
    path = str(tmp_path / "table")
    rowlock.append(path, pa.table({"k": [1]}))
    state = opened(path)
    status = status_of_a_child(lambda: rowlock.append(path, pa.table({"k": [2]})), state.lane, state._lock)
    assert status == 0 and sorted(rowlock.to_arrow(path)["k"].to_pylist()) == [1, 2]


LATE = """
import sys, threading
import pyarrow as pa
import rowlock
path = sys.argv[1]
rowlock.append(path, pa.table({"p": ["a"], "k": [0]}), partition_by="p")
def work():
    threading.main_thread().join()
    rowlock.append(path, pa.table({"p": ["a", "b"], "k": [1, 2]}))
    print(sorted(rowlock.to_arrow(path)["k"].to_pylist()))
threading.Thread(target=work).start()
"""


def test_threads_that_outlive_the_script_go_on(tmp_path: Path) -> None:
    """From its end on no pool of threads takes work."""
    done = subprocess.run(
        [sys.executable, "-c", LATE, str(tmp_path / "table")], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(SOURCES)}, timeout=60
    )
    assert done.stdout == "[0, 1, 2]\n", done.stderr
