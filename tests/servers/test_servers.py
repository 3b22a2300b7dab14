"""Each server starts, answers, ends with the process that started it, and is said to be missing where it is."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from servers import minio as minio_server, programs
from servers.azurite import Azurite
from servers.dynamodb import DynamoDb
from servers.gcs import Gcs
from servers.minio import Minio
from servers.postgres import Postgres
from servers.process import status


def test_object_stores_answer(minio: Minio, gcs: Gcs, azurite: Azurite) -> None:
    assert status(f"{minio.endpoint}/minio/health/live") == 200
    assert status(f"{gcs.server}/storage/v1/b/tables") == 200
    assert status(f"{azurite.endpoint}/tables?restype=container") in (403, 404), "not without a signature"


def test_dynamodb_answers(dynamodb: DynamoDb) -> None:
    import boto3

    assert isinstance(boto3.client("dynamodb", **dynamodb.client_arguments).list_tables()["TableNames"], list)


def test_postgres_answers(postgres: Postgres) -> None:
    import psycopg

    with psycopg.connect(postgres.dsn) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("name", ["minio", "postgres"])
def test_a_server_ends_with_a_process_that_is_killed(name: str, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(name)  # skips where there is none
    script = f"import os, signal\nfrom servers import {name}\nprint({name}.start().process.folder, flush=True)\nos.kill(os.getpid(), signal.SIGKILL)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])})
    folder = Path(done.stdout.strip())
    assert folder.name.startswith("rowlock-"), done.stderr
    deadline = time.monotonic() + 20
    while folder.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not folder.exists(), "its keeper stopped the server and removed what it had"


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROWLOCK_SERVERS", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(programs, "HOME", tmp_path)
    with pytest.raises(programs.Missing, match=r"minio is not on this machine: .make servers. installs it"):
        minio_server.start()


def test_in_ci_nothing_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "1")
    monkeypatch.setenv("ROWLOCK_SERVERS_REQUIRED", "1")
    assert programs.required()
    monkeypatch.delenv("ROWLOCK_SERVERS_REQUIRED")
    assert not programs.required()
