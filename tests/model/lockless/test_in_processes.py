"""Lockless commits of real processes on a local disk: C1 to C12 (I1, I2, I5, I6, I10)."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from model.lockless.conformance import CASES, Scale, case_ids
from model.lockless.host import MemoryHost
from model.lockless.model import as_table, replayed
from model.lockless.process import Remote
from model.lockless.test_in_memory import check_against_model, start
from rowlock.storage.local import LocalStore

COMMITS = int(os.environ.get("ROWLOCK_LOCKLESS_COMMITS", "100"))
LONG = pytest.mark.soak("ten processes with a hundred commits each (`make soak`: 250); the short form has four with twenty")


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[], Remote]]:
    """Starts processes on one table."""
    processes: list[Remote] = []

    def open_() -> Remote:
        processes.append(Remote(str(tmp_path / "table")))
        return processes[-1]

    yield open_
    for process in processes:
        process.close()


@pytest.mark.parametrize("case", CASES, ids=case_ids())
@pytest.mark.short(
    "c04_delete_beats_update",
    "c11_a_writer_that_pauses",
    why="all cases run in memory; in processes those in which the order of commits decides",
)
def test_conformance(case: Callable[..., None], opened: Callable[[], Remote]) -> None:
    case(opened, Scale())


@pytest.mark.parametrize(("writers", "commits", "compacting"), [(4, 20, True), *(pytest.param(10, COMMITS, c, marks=LONG) for c in (False, True))])
def test_c12_random_commits(opened: Callable[[], Remote], tmp_path: Path, writers: int, commits: int, compacting: bool) -> None:
    """Processes commit at random on one table: every version is what the model says."""
    host = MemoryHost(LocalStore(str(tmp_path / "table")))
    start(host)
    processes = [opened() for _ in range(writers)]
    for n, process in enumerate(processes):
        process.send("mixed", n, commits, compacting, 12)
    done = [one for process in processes for one in process.reply()]
    assert len(done) == writers * commits
    check_against_model(host, done, every=100)


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.soak("more seeds")) for n in range(1, 4))])
def test_c11_kill_9(opened: Callable[[], Remote], tmp_path: Path, seed: int) -> None:
    """Writers are killed at random points; what the log has is what the model says, and the next writer commits."""
    host = MemoryHost(LocalStore(str(tmp_path / "table")))
    start(host)
    rng = random.Random(seed)
    writers = [opened() for _ in range(3)]
    for n, writer in enumerate(writers):
        writer.send("mixed", n, 10_000, True, seed)
    while host.version() < 20:
        time.sleep(0.02)
    for writer in writers:
        time.sleep(rng.random() * 0.3)
        writer.kill()
    done = [
        (str(c.info.raw["operationParameters"].get("statement") or _append(host, c.version)), c.version, c.info.raw["rowlock"]["read_version"])
        for c in host.commits()
        if c.info and c.version > 1
    ]
    assert host.do("UPDATE SET a = 77 WHERE k IN (0, 1, 2)")["version"] == done[-1][1] + 1
    first = as_table([(k, 0, 0, 0) for k in range(60)])
    states = replayed(first, done)
    assert as_table(host.rows(done[-1][1])) == states[-1]


def _append(host: MemoryHost, version: int) -> str:
    """What an append brought, out of its file: its commit does not say."""
    before = {next(iter(r)) for r in host.rows(version - 1)}
    return "APPEND " + ", ".join(str(tuple(r)) for r in host.rows(version) if r[0] not in before)
