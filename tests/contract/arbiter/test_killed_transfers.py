"""Transfers between tables by processes that are killed at random: the sum is always right, and what was acknowledged is in every table (I1, I2)."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from contract.arbiter import transfers
from model.schedules.play import schema_string
from rowlock.transaction.multi_table import heads_together
from rowlock_simulation.memory.sql.script import parse
from servers.dynamodb import DynamoDb

TABLES, PROCESSES, KILLS = 3, 4, 12
ROOT = Path(__file__).resolve().parents[3]


class Writers:
    """Processes that transfer; of each, what it has printed."""

    def __init__(self, folders: list[str], dynamodb: DynamoDb, logs: Path) -> None:
        self._folders, self._dynamodb, self._logs, self._begun = folders, dynamodb, logs, 0
        self.running: list[subprocess.Popen[bytes]] = []

    def begin(self) -> None:
        self._begun += 1
        command = [sys.executable, transfers.__file__, str(self._begun), json.dumps(self._dynamodb.client_arguments), *self._folders]
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
        with (self._logs / f"{self._begun}.log").open("wb") as log:
            self.running.append(subprocess.Popen(command, stdout=log, env={**os.environ, "PYTHONPATH": path}))

    def kill(self, which: int) -> None:
        writer = self.running.pop(which)
        writer.kill()
        writer.wait()

    def acknowledged(self) -> set[str]:
        lines = [line for log in self._logs.glob("*.log") for line in log.read_text().splitlines(keepends=True)]
        return {line.strip() for line in lines if line.endswith("\n")}


@pytest.mark.soak("half a minute of 4 processes, of which 12 are killed; each step at which a writer dies is in test_together", ci=True)
def test_writers_killed_at_random(client: Any, dynamodb: DynamoDb, tmp_path: Path) -> None:
    folders, rng = [str(tmp_path / f"t{n}") for n in range(TABLES)], random.Random(33)
    bank = transfers.opened(folders, client)
    for table in bank:
        table.create(schema_string([("k", "long", True), ("v", "long", True)]), (), {"delta.enableDeletionVectors": "true"})
        table.run(parse("APPEND (1, 100), (2, 100), (3, 100)"))
    logs = tmp_path / "logs"
    logs.mkdir()
    writers = Writers(folders, dynamodb, logs)
    try:
        for _ in range(PROCESSES):
            writers.begin()
        seen = killed = 0
        until = time.monotonic() + 240
        while (killed < KILLS or len(writers.acknowledged()) < 20) and time.monotonic() < until:
            heads = heads_together([b.state for b in bank])
            assert sum(row["v"] for b, head in zip(bank, heads, strict=True) for row in b.rows(head.version)) == 300 * TABLES
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
    fresh = transfers.opened(folders, client)
    assert sum(row["v"] for b in fresh for row in b.rows()) == 300 * TABLES
    tables_of = Counter(c.txn_id for b in fresh for c in b.state.log.history() if c.info is not None and c.info.together)
    assert set(tables_of.values()) == {2}, "each transaction is in both of its tables"
    assert writers.acknowledged() <= tables_of.keys()
