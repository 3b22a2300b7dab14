"""Transfers between tables by threads and processes that are killed at random: the sum is always right, and what was acknowledged is in every table (I1, I2)."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest

from contract.arbiter import transfers
from contract.arbiter.world import around
from model.schedules.play import schema_string
from rowlock.protocol.prepared import closed_in, open_version
from rowlock.transaction.multi_table import heads_together
from rowlock_simulation.memory.sql.script import parse

KILLS = 8
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(params=["arbiter", "local disk", "s3", "mixed"])
def places(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where the tables are: on S3 under an arbiter, else on stores that decide by a put."""
    folders = [str(tmp_path / f"t{n}") for n in range(3)]
    if request.param == "local disk":
        return folders
    minio, settings = request.getfixturevalue("minio"), request.getfixturevalue("minio").storage_options
    if request.param == "arbiter":
        dynamodb = request.getfixturevalue("dynamodb")
        request.getfixturevalue("client")  # which has made the arbiter's table
        settings = around(minio.endpoint, dynamodb, dynamodb.endpoint)
    for name, value in settings.items():  # a folder has no storage options, and must find a home on S3
        monkeypatch.setenv(name, value)
    return [folder if n == 2 and request.param == "mixed" else minio.fresh_root() for n, folder in enumerate(folders)]


class Writers:
    """Processes that transfer; of each, what it has printed."""

    def __init__(self, places: list[str], logs: Path, threads: int) -> None:
        self._places, self._logs, self._threads, self._begun = places, logs, threads, 0
        self.running: list[subprocess.Popen[bytes]] = []

    def begin(self) -> None:
        self._begun += 1
        command = [sys.executable, transfers.__file__, str(self._begun), str(self._threads), *self._places]
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
        with (self._logs / f"{self._begun}.log").open("wb") as log:
            self.running.append(subprocess.Popen(command, stdout=log, env={**os.environ, "PYTHONPATH": path}))

    def kill(self, which: int) -> None:
        writer = self.running.pop(which)
        assert writer.poll() is None, "none ends by itself"
        writer.kill()
        writer.wait()

    def acknowledged(self) -> set[str]:
        lines = [line for log in self._logs.glob("*.log") for line in log.read_text().splitlines(keepends=True)]
        return {line.strip() for line in lines if line.endswith("\n")}


@pytest.mark.parametrize(("processes", "threads"), [(4, 1), (1, 8)])
@pytest.mark.soak("half a minute of 4 processes, or 8 threads, on each way, of which 8 are killed; each step is in test_two_phase and test_together", ci=True)
def test_writers_killed_at_random(places: list[str], tmp_path: Path, processes: int, threads: int) -> None:
    rng, bank = random.Random(33), transfers.opened(places)
    for table in bank:
        table.create(schema_string([("k", "long", True), ("v", "long", True)]), (), {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"})
        table.run(parse("APPEND (1, 100), (2, 100), (3, 100)"))
    logs = tmp_path / "logs"
    logs.mkdir()
    writers = Writers(places, logs, threads)
    try:
        for _ in range(processes):
            writers.begin()
        seen = killed = 0
        until = time.monotonic() + 240
        while (killed < KILLS or len(writers.acknowledged()) < 20) and time.monotonic() < until:
            heads = heads_together([b.state for b in bank])
            assert sum(row["v"] for b, head in zip(bank, heads, strict=True) for row in b.rows(head.version)) == 300 * len(bank)
            seen += 1
            if len(writers.acknowledged()) > killed:  # at least one transaction between two
                time.sleep(rng.random() * 0.3)
                writers.kill(rng.randrange(processes))
                writers.begin()
                killed += 1
        assert seen > 3 and killed >= KILLS
    finally:
        while writers.running:
            writers.kill(0)
    fresh = transfers.opened(places)
    heads = heads_together([b.state for b in fresh])
    assert sum(row["v"] for b, head in zip(fresh, heads, strict=True) for row in b.rows(head.version)) == 300 * len(fresh)
    assert all(open_version(head.txns, head.metadata.id) is None for head in heads)
    tables_of = defaultdict(set)
    for b in fresh:
        for c in b.state.log.history():
            if c.info is not None and c.info.operation == "UPDATE":
                assert b.state.store.root not in tables_of[c.txn_id], "once in a table"
                assert closed_in(c) in (None, c.txn_id)
                tables_of[c.txn_id].add(b.state.store.root)
    assert {len(tables) for tables in tables_of.values()} == {2}, "each transaction is in both of its tables"
    assert writers.acknowledged() <= tables_of.keys()
