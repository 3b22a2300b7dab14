"""`rowlock check` and `rowlock arbiter create` with a real DynamoDB: what two arbiters leave behind is found, and nothing is touched."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from typer.testing import CliRunner

from contract.arbiter.delta_side import Stopped
from contract.arbiter.world import TABLE, NoCopy, World
from rowlock.cli.main import app
from rowlock.protocol.names import commit_key
from rowlock.storage import Committed, open_store
from servers.dynamodb import DynamoDb
from servers.minio import Minio


@pytest.fixture
def w(client: Any, minio: Minio, dynamodb: DynamoDb, monkeypatch: pytest.MonkeyPatch) -> World:
    """A table of 2 commits by delta-rs on S3, then 4 through the arbiter, in turns.  The environment says where all is."""
    root = minio.fresh_root()
    around = minio.storage_options | {f"{name.removesuffix('_DYNAMODB')}_DYNAMODB": value for name, value in dynamodb.storage_options.items()}
    for name, value in around.items():
        monkeypatch.setenv(name, value)
    for n in range(2):
        write_deltalake(root, pa.table({"id": [n]}), mode="append", storage_options=minio.storage_options)
    world = World(store=open_store(root), client=client)
    monkeypatch.setenv("AWS_S3_LOCKING_PROVIDER", "dynamodb")
    for v in range(2, 6):
        if v % 2:
            assert open_store(root).put_if_absent(commit_key(v), commit("Rowlock/0.1.0")) == Committed()
        else:
            world.delta().write(v, commit("Apache-Spark/4.2.0 Delta-Lake/4.4.0"))
    return world


def commit(engine: str) -> bytes:
    return json.dumps({"commitInfo": {"timestamp": 1, "operation": "WRITE", "engineInfo": engine, "txnId": str(uuid.uuid4())}}).encode() + b"\n"


def beside(w: World) -> None:
    """A commit by an engine that asks no arbiter."""
    options = {
        name: value
        for name in ("AWS_ENDPOINT_URL", "AWS_ALLOW_HTTP", "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
        if (value := os.environ[name])
    }
    write_deltalake(w.store.root, pa.table({"id": [9]}), mode="append", storage_options=options)


def checked(w: World, *, exit_code: int) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["check", w.store.root, "--json"])
    assert done.exit_code == exit_code, done.output
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["sound"] == (exit_code == 0)
    return report | {"found": {f["code"]: f for f in report["findings"]}}


def test_one_arbiter(w: World) -> None:
    report = checked(w, exit_code=0)
    assert report["findings"] == [] and report["version"] == 5
    assert {n["engine"]: n["verdict"] for n in report["neighbours"]} == {"delta-spark": "yes", "delta-rs 1.6": "no"}


def test_options_on_the_command_line(w: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_S3_LOCKING_PROVIDER")
    done = CliRunner().invoke(app, ["check", w.store.root, "--json", "--storage-option", "AWS_S3_LOCKING_PROVIDER=dynamodb"])
    assert done.exit_code == 0 and json.loads(done.stdout)["findings"] == []


def test_a_writer_that_does_not_ask(w: World) -> None:
    """delta-rs 1.6 puts a version by itself: a suspicion, since an entry could also have been deleted."""
    beside(w)
    w.delta().write(7, commit("Apache-Spark/4.2.0 Delta-Lake/4.4.0"))
    finding = checked(w, exit_code=0)["found"]["committed-past-arbiter"]
    assert finding["versions"] == [6] and "(by delta-rs)" in finding["text"] and "only certain" in finding["text"]


def test_a_commit_that_was_replaced_is_proof(w: World) -> None:
    with pytest.raises(Stopped):
        w.delta().write(6, commit("Apache-Spark/4.2.0 Delta-Lake/4.4.0"), stop_before="copy")
    beside(w)  # takes version 6, which was claimed
    list(w.ours().list("_delta_log"))
    assert checked(w, exit_code=1)["found"]["claimed-version-holds-another-commit"]["versions"] == [6]


def test_a_check_finishes_nothing(w: World) -> None:
    with pytest.raises(Stopped):
        w.ours(store=NoCopy(w.store)).put_if_absent(commit_key(6), commit("Rowlock/0.1.0"))
    report = checked(w, exit_code=0)
    assert report["found"]["commit-to-be-finished"]["versions"] == [6] and report["version"] == 5
    entry = w.entry(6)
    assert entry is not None and not entry.complete and 6 not in w.commits()


def test_an_arbiter_that_is_not_set_here(w: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_S3_LOCKING_PROVIDER")
    report = checked(w, exit_code=0)
    assert report["found"]["arbiter-not-set"]["versions"] == [2, 4], "Spark's jobs leave their temporary files"


def test_as_text(w: World) -> None:
    beside(w)
    done = CliRunner().invoke(app, ["check", w.store.root])
    assert done.exit_code == 0 and "suspicion version 6 (by delta-rs) has no entry" in done.stdout and "→ See to it" in done.stdout
    assert (
        "delta-spark: yes, with io.delta.storage.S3DynamoDBLogStore" in done.stdout
        and "version 6; examined: commits 7, checkpoints 0, live files 3 of 3" in done.stdout
    )
    w.store.delete(commit_key(3))
    done = CliRunner().invoke(app, ["check", w.store.root])
    assert done.exit_code == 1 and "damage commits that the newest version needs are missing" in done.stdout


def test_the_table_is_made(w: World) -> None:
    name = f"made_{uuid.uuid4().hex}"
    for text in (f"{name} was created", f"{name} exists already"):
        done = CliRunner().invoke(app, ["arbiter", "create", "--name", name])
        assert done.exit_code == 0 and text in done.stdout
    assert w.client.describe_table(TableName=name)["Table"]["TableStatus"] == "ACTIVE"
    assert TABLE in w.client.list_tables()["TableNames"]


def test_a_table_that_is_gone_is_forgotten(w: World, monkeypatch: pytest.MonkeyPatch) -> None:
    done = CliRunner().invoke(app, ["arbiter", "forget", w.store.root])
    assert done.exit_code == 2 and "the table still exists" in done.stderr
    for meta in w.store.list(recursive=True):
        w.store.delete(meta.key)
    done = CliRunner().invoke(app, ["arbiter", "forget", w.store.root])
    assert done.exit_code == 0 and f"4 entries of {w.table_path} were deleted" in done.stdout
    assert open_store(w.store.root).put_if_absent(commit_key(0), commit("Rowlock/0.1.0")) == Committed()
    monkeypatch.delenv("AWS_S3_LOCKING_PROVIDER")
    done = CliRunner().invoke(app, ["arbiter", "forget", w.store.root])
    assert done.exit_code == 2 and "no arbiter is set" in done.stderr


def test_no_table_is_one_line(w: World, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["check", str(tmp_path / "nothing")])
    assert done.exit_code == 2 and "there is no Delta table here" in done.stderr and "Traceback" not in done.output
