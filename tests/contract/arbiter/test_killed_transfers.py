"""Transfers between tables by processes that are killed at random: the sum is always right, and what was acknowledged is in every table (I1, I2)."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from contract.arbiter import transfers
from model.schedules.play import schema_string
from rowlock.protocol.prepared import closed_in, open_version
from rowlock.transaction.multi_table import heads_together
from rowlock_simulation.memory.sql.script import parse

PROCESSES, KILLS = 4, 8
ROOT = Path(__file__).resolve().parents[3]


@dataclass
class Place:
    """Where the tables are: under an arbiter if there is a client, else on stores that decide by a put."""

    tables: list[str]
    client: Any = None
    reached: dict[str, str] | None = None


@pytest.fixture(params=["arbiter", "local disk", "s3", "mixed"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    folders = [str(tmp_path / f"t{n}") for n in range(3)]
    if request.param == "arbiter":
        return Place(folders, request.getfixturevalue("client"), request.getfixturevalue("dynamodb").client_arguments)
    if request.param != "local disk":
        minio = request.getfixturevalue("minio")
        for name, value in minio.storage_options.items():  # a folder has no storage options, and must find a home on S3
            monkeypatch.setenv(name, value)
        folders = [minio.fresh_root() if n < (3 if request.param == "s3" else 2) else folder for n, folder in enumerate(folders)]
    return Place(folders)


class Writers:
    """Processes that transfer; of each, what it has printed."""

    def __init__(self, place: Place, logs: Path) -> None:
        self._place, self._logs, self._begun = place, logs, 0
        self.running: list[subprocess.Popen[bytes]] = []

    def begin(self) -> None:
        self._begun += 1
        command = [sys.executable, transfers.__file__, str(self._begun), json.dumps(self._place.reached), *self._place.tables]
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


@pytest.mark.soak(
    "half a minute of 4 processes on each way, of which 8 are killed; each step at which a writer dies is in test_two_phase and test_together", ci=True
)
def test_writers_killed_at_random(place: Place, tmp_path: Path) -> None:
    rng, bank = random.Random(33), transfers.opened(place.tables, place.client)
    for table in bank:
        table.create(schema_string([("k", "long", True), ("v", "long", True)]), (), {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"})
        table.run(parse("APPEND (1, 100), (2, 100), (3, 100)"))
    logs = tmp_path / "logs"
    logs.mkdir()
    writers = Writers(place, logs)
    try:
        for _ in range(PROCESSES):
            writers.begin()
        seen = killed = 0
        until = time.monotonic() + 240
        while (killed < KILLS or len(writers.acknowledged()) < 20) and time.monotonic() < until:
            heads = heads_together([b.state for b in bank])
            assert sum(row["v"] for b, head in zip(bank, heads, strict=True) for row in b.rows(head.version)) == 300 * len(bank)
            seen += 1
            if len(writers.acknowledged()) > killed:  # at least one transaction between two
                time.sleep(rng.random() * 0.3)
                writers.kill(rng.randrange(PROCESSES))
                writers.begin()
                killed += 1
        assert seen > 3 and killed >= KILLS
    finally:
        while writers.running:
            writers.kill(0)
    fresh = transfers.opened(place.tables, place.client)
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
