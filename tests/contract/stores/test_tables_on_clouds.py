"""A table on each cloud: made, appended to by threads, read; on S3 by deltalake too, which appends in turn."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import rowlock
from model.schedules.in_memory import InMemory
from model.schedules.play import schema_string
from rowlock.api.append import opened
from rowlock.cli.main import app
from rowlock.storage import open_store
from rowlock.transaction.state import shared
from rowlock_simulation.memory.sql.script import parse
from servers.minio import SECRET_KEY, Minio


@pytest.mark.parametrize("server", ["minio", "gcs", "azurite"])
def test_threads_append_past_a_checkpoint(server: str, request: pytest.FixtureRequest) -> None:
    there = request.getfixturevalue(server)
    root, options = there.fresh_root(), there.storage_options
    rowlock.append(root, pa.table({"n": pa.array([], pa.int64())}), storage_options=options)
    with ThreadPoolExecutor(4) as pool:
        receipts = list(pool.map(lambda n: rowlock.append(root, pa.table({"n": [n, n + 100]}), storage_options=options), range(14)))
    versions = {r.version for r in receipts}
    assert versions == set(range(1, len(versions) + 1)), "some may share one, and none is left out"
    for n in range(14 - len(versions)):
        rowlock.append(root, pa.table({"n": [n + 1000]}), storage_options=options)
    assert sorted(rowlock.to_arrow(root, storage_options=options).column("n").to_pylist()) == sorted(
        [*range(14), *range(100, 114), *range(1000, 1014 - len(versions))]
    )
    assert rowlock.to_arrow(root, version=0, storage_options=options).num_rows == 0
    assert open_store(root, options).head("_delta_log/00000000000000000010.checkpoint.parquet")


@pytest.mark.parametrize("server", ["minio", "gcs", "azurite"])
def test_writers_that_change_one_row(server: str, request: pytest.FixtureRequest) -> None:
    """Each with its own handle and client, as processes would be: vectors, rebases and a counter that counts right."""
    there = request.getfixturevalue(server)
    root = there.fresh_root()
    worlds = [InMemory(store=open_store(root, there.storage_options)) for _ in range(3)]
    worlds[0].create(schema_string([("k", "long", True), ("x", "long", True)]), (), {"delta.enableDeletionVectors": "true"})
    worlds[0].run(parse("APPEND (1, 0), (2, 0)"))

    def count(world: InMemory) -> int:
        return sum(world.run(parse("UPDATE SET x = x + 1 WHERE k = 1")).rounds for _ in range(6))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(count, worlds))
    assert {row["k"]: row["x"] for row in worlds[0].rows()} == {1: 18, 2: 0}


@pytest.mark.parametrize("server", ["minio", "gcs", "azurite"])
def test_a_table_made_anew_with_commits_of_the_same_size(server: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """I9: the next append is under the new table's names of the columns, and reads as what it was."""
    monkeypatch.setattr(shared, "_A_MOMENT_S", 0.0)
    there = request.getfixturevalue(server)
    root, options = there.fresh_root(), there.storage_options
    store, columns = open_store(root, options), schema_string([("n", "long", True)])
    mapped = {"delta.columnMapping.mode": "name"}
    InMemory(store=store).create(columns, (), mapped)
    state = opened(root, options)
    before = state.refresh()
    sizes = [m.size_bytes for m in store.list("_delta_log")]
    for meta in list(store.list(recursive=True)):
        store.delete(meta.key)
    InMemory(store=store).create(columns, (), mapped)
    assert [m.size_bytes for m in store.list("_delta_log")] == sizes, "else the size alone would tell"
    rowlock.append(root, pa.table({"n": [7]}), storage_options=options)
    assert rowlock.to_arrow(root, storage_options=options).column("n").to_pylist() == [7]
    assert state.refresh().metadata.id != before.metadata.id


def test_deltalake_takes_turns_on_s3(minio: Minio) -> None:
    import deltalake

    root, options = minio.fresh_root(), minio.storage_options
    for n in range(3):
        rowlock.append(root, pa.table({"n": [n]}), storage_options=options)
        deltalake.write_deltalake(root, pa.table({"n": [10 + n]}), mode="append", storage_options=options)
    theirs = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(root, storage_options=options)).execute("select n from t").read_all()
    both = [rowlock.to_arrow(root, storage_options=options), pa.table(theirs)]
    assert [sorted(t.column("n").to_pylist()) for t in both] == [[0, 1, 2, 10, 11, 12]] * 2


def test_the_command_line_reaches_s3(minio: Minio) -> None:
    root = minio.fresh_root()
    rowlock.append(root, pa.table({"n": [1]}), storage_options=minio.storage_options)
    given = [a for k, v in minio.storage_options.items() for a in ("--storage-option", f"{k}={v}")]
    done = CliRunner().invoke(app, ["vacuum", root, "--dry-run", *given])
    assert done.exit_code == 0 and "0 files (0 bytes) would be deleted" in done.output
    around = CliRunner().invoke(app, ["vacuum", root, "--dry-run"], env=dict(minio.storage_options))
    assert around.exit_code == 0 and around.output == done.output
    wrong = CliRunner().invoke(app, ["vacuum", root, "--storage-option", SECRET_KEY])
    assert wrong.exit_code == 2 and "KEY=VALUE" in wrong.output and SECRET_KEY not in wrong.output
