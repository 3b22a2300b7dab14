"""Children of a process that has used Rowlock, however they are started: each writes and reads, or says at once why it cannot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rowlock
from rowlock import threads
from servers.minio import Minio
from support.forked import status_of_a_child

PROGRAM = Path(__file__).resolve().parents[1] / "support" / "forking_writer.py"
SOURCES = Path(__file__).resolve().parents[2] / "src"
KINDS = ["fork", "forkserver", "spawn"]


def answers(kind: str, others: int, path: str, options: dict[str, str] | None = None) -> list[str]:
    command = [sys.executable, str(PROGRAM), kind, str(others), path, json.dumps(options)]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": str(SOURCES)}, check=True, capture_output=True, text=True, timeout=200).stdout.splitlines()


@pytest.mark.parametrize("others", [0, 2], ids=["", "beside threads"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.short(
    "fork-beside threads",
    "forkserver-",
    "spawn-",
    ci=(
        "fork-",
        "forkserver-beside threads",
        "spawn-beside threads",
    ),
    why="the product of kinds of children and threads; each kind stays, and threads beside the kind that takes them along",
)
def test_children_write_checkpoints(tmp_path: Path, kind: str, others: int) -> None:
    """Of what a child needs for a checkpoint nothing may wait for a thread of its parent."""
    assert answers(kind, others, str(tmp_path / "table")) == ["6 rows", "6 rows"]
    written = rowlock.to_arrow(tmp_path / "table")["writer"].to_pylist()
    assert [written.count(n) for n in range(3)] == [7, 6, 6]
    assert len(list((tmp_path / "table" / "_delta_log").glob("*.checkpoint.parquet"))) >= 3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.short("fork", "forkserver", ci=("spawn",), why="a child by spawn takes nothing of its parent, as one by a server")
def test_children_on_an_object_store(minio: Minio, kind: str) -> None:
    """obstore's threads do not outlive a fork: such a child says so at its first request instead of waiting for ever."""
    path = minio.fresh_root()
    told = answers(kind, 0, path, minio.storage_options)
    rows = rowlock.to_arrow(path, storage_options=minio.storage_options).num_rows
    if kind == "fork":
        assert [("spawn" in text, path in text) for text in told] == [(True, True)] * 2 and rows == 7
    else:
        assert told == ["6 rows", "6 rows"] and rows == 7 + 12


def test_locks_that_a_thread_held_at_a_fork_are_free_in_the_child() -> None:
    lock = threads.module_lock()

    def take() -> None:
        with lock:
            pass

    status = status_of_a_child(take, lock)
    assert status == 0
