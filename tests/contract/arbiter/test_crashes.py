"""kill -9 of a real writer between its claim and the end: what the next one finds, and does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contract.arbiter.world import World
from rowlock.protocol.names import commit_key
from rowlock.storage import Committed, LocalStore, Lost
from servers.dynamodb import DynamoDb

WRITER = Path(__file__).with_name("writer.py")
SOURCES = Path(__file__).resolve().parents[3] / "src"


def killed_at(point: str, folder: Path, version: int, data: str, dynamodb: DynamoDb) -> None:
    options = json.dumps(dynamodb.storage_options | {"AWS_S3_LOCKING_PROVIDER": "dynamodb"})
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCES), os.environ.get("PYTHONPATH", "")])}
    with subprocess.Popen(
        [sys.executable, str(WRITER), str(folder), str(version), data, point, options], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().strip() == "AT"
        finally:
            process.send_signal(signal.SIGKILL)
        assert process.wait(20) == -signal.SIGKILL


def next_read(w: World) -> None:
    assert w.ours().get(commit_key(1)) == b"dead"


def next_list(w: World) -> None:
    assert [m.key for m in w.ours().list("_delta_log")] == [commit_key(0), commit_key(1)]


def next_same_version(w: World) -> None:
    assert w.ours().put_if_absent(commit_key(1), b"late") == Lost()
    assert w.ours().get(commit_key(1)) == b"dead"
    list(w.ours().list("_delta_log"))


def next_writer(w: World) -> None:
    assert w.ours().put_if_absent(commit_key(2), b"next") == Committed()


def next_delta_writer(w: World) -> None:
    w.delta().write(2, b"next")


def next_delta_reader(w: World) -> None:
    assert f"{1:020d}.json" in w.delta().list()


@pytest.mark.parametrize("point", ["copy", "complete"])
@pytest.mark.parametrize("then", [next_read, next_list, next_same_version, next_writer, next_delta_writer, next_delta_reader], ids=lambda f: f.__name__)
def test_the_dead_writers_commit_is_finished(point: str, then: Callable[[World], None], client: Any, dynamodb: DynamoDb, tmp_path: Path) -> None:
    w = World(store=LocalStore(tmp_path), client=client)
    w.table_path = f"file:{tmp_path}"
    w.delta().write(0, b"zero")
    killed_at(point, tmp_path, 1, "dead", dynamodb)
    left = w.entry(1)
    assert left is not None and not left.complete and w.store.get(left.temp_key) == b"dead"
    assert (1 in w.commits()) == (point == "complete")
    then(w)
    assert w.commits()[1] == b"dead"
    if then is next_read and point == "complete":
        return  # the file was there, so nobody asked; the next listing or writer completes the entry
    finished = w.entry(1)
    assert finished is not None and finished.complete and finished.expire_time_s
