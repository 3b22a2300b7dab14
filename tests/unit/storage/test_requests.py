"""What a commit asks of the store, counted by a proxy before MinIO."""

from __future__ import annotations

import contextlib
import gc
import os
import weakref
from collections import Counter
from collections.abc import Callable

import boto3
import pyarrow as pa
import pytest

import rowlock
from model.schedules.in_memory import InMemory
from model.schedules.play import schema_string
from rowlock.locks import turns
from rowlock.storage import open_store
from rowlock.storage.store import Lost, NotFound, ObjectStore
from rowlock.transaction.group_commit import group
from rowlock_simulation.memory.sql.script import parse
from servers.minio import ACCESS_KEY, SECRET_KEY, Minio, options
from servers.proxy import Proxy


def test_requests_of_an_append(minio: Minio) -> None:
    """At the head 5: is there a next version (GET), is ours still there (HEAD), the data file (PUT), the commit (PUT), is the one before still
    there (HEAD).  Each version behind is one GET more.  deltalake 1.6: 7, and 38 when 10 behind.
    """
    proxy, root = Proxy(minio.endpoint), minio.fresh_root()
    try:
        counted, other = InMemory(store=open_store(root, options(proxy.endpoint))), InMemory(store=open_store(root, minio.storage_options))
        other.create(schema_string([("k", "long", True)]), (), {})
        counted.run(parse("APPEND (1)"))

        def requests() -> Counter[str]:
            before = proxy.counts()
            counted.run(parse("APPEND (1)"))
            return proxy.counts() - before

        assert requests() == {"GET": 1, "HEAD": 2, "PUT": 2}
        for _ in range(4):  # past the checkpoint of version 10
            other.run(parse("APPEND (2)"))
        counted.run(parse("APPEND (1)"))
        for _ in range(10):
            other.run(parse("APPEND (2)"))
        behind = requests()
        assert behind == {"GET": 11, "HEAD": 2, "PUT": 2} and sum(behind.values()) == 15
    finally:
        proxy.stop()


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="no /proc")
def test_the_tables_of_a_bucket_share_connections(minio: Minio) -> None:
    """A service with many tables holds few descriptors, and does not greet the server once for each table; what is listed is one table's."""
    root = minio.fresh_root()
    stores = [open_store(f"{root}{end}", minio.storage_options) for end in ("", "/{1} %20~#", *map(str, range(30)))]

    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    stores[0].put("a", b"0")
    before = descriptors()
    for n, store in enumerate(stores):
        store.put("a/b", b"%d" % n)
    assert descriptors() - before < 10
    for n, store in enumerate(stores[1:], 1):
        assert [m.key for m in store.list(recursive=True)] == [m.key for m in store.list("a")] == ["a/b"] and store.get("a/b") == b"%d" % n
        assert [m.key for m in store.list("a", start_after="a/a")] == ["a/b"] and not list(store.list("a", start_after="a/b", limit=3))


def test_requests_of_a_steady_append_without_spark(minio: Minio, monkeypatch: pytest.MonkeyPatch) -> None:
    """3: the data file, the commit, and whether the version before is still there.  That the head is the one that was left is what the put finds out.

    Beside that come one look for turns a second and one for posts of others each half second, for each process.
    """
    monkeypatch.setattr(turns, "LOOK_S", 1e9)
    monkeypatch.setattr(group, "LOOK_S", 1e9)
    monkeypatch.setattr("rowlock.transaction.state.shared._A_MOMENT_S", 1e9)
    proxy, root, rows = Proxy(minio.endpoint), minio.fresh_root(), pa.table({"k": [1]})
    try:
        rowlock.append(root, rows, storage_options=minio.storage_options)
        for _ in range(2):
            rowlock.append(root, rows, storage_options=options(proxy.endpoint))
        before = proxy.counts()
        for _ in range(3):
            rowlock.append(root, rows, storage_options=options(proxy.endpoint))
        assert proxy.counts() - before == {"PUT": 6, "HEAD": 3}
        for _ in range(3):
            rowlock.append(root, rows, storage_options=minio.storage_options)
        before = proxy.counts()
        rowlock.append(root, rows, storage_options=options(proxy.endpoint))
        assert proxy.counts() - before == {"PUT": 3, "GET": 5, "HEAD": 2}, "a put that is lost, its version, the two after it, what is not there yet"
    finally:
        proxy.stop()


@pytest.mark.parametrize("ask", [lambda store: store.get("missing"), lambda store: store.put_if_absent("there", b"2")], ids=["missing", "lost put"])
def test_a_refused_request_holds_nothing_of_its_callers(minio: Minio, ask: Callable[[ObjectStore], object]) -> None:
    """Each look for the next version is one: an error that holds its own frame would keep what all callers have in hand until the garbage is collected."""

    class Held:
        pass

    def caller(store: ObjectStore) -> weakref.ref[Held]:
        held = Held()
        with contextlib.suppress(NotFound):
            assert ask(store) == Lost()
        return weakref.ref(held)

    store = open_store(minio.fresh_root(), minio.storage_options)
    store.put("there", b"1")
    gc.disable()
    try:
        assert caller(store)() is None
    finally:
        gc.enable()


def test_objects_that_mark_folders_are_no_files(minio: Minio) -> None:
    """Consoles and Hadoop's S3A leave an object without bytes, whose key ends with a slash, where they make a folder: CONVERT took it for a data file, VACUUM for one of nobody."""
    root = minio.fresh_root()
    store, (bucket, prefix) = open_store(root, minio.storage_options), root.removeprefix("s3://").split("/", 1)
    client = boto3.client("s3", endpoint_url=minio.endpoint, aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY, region_name="us-east-1")
    for key in ("", "p=1/", "p=1/q=2/"):
        client.put_object(Bucket=bucket, Key=f"{prefix}/{key}", Body=b"")
    for key in ("p=1/q=2/a.parquet", "p=1-b", "empty"):
        store.put(key, b"" if key == "empty" else b"x")
    assert [m.key for m in store.list(recursive=True)] == ["empty", "p=1-b", "p=1/q=2/a.parquet"]
    assert [m.key for m in store.list()] == ["empty", "p=1-b"] and [m.key for m in store.list("p=1/q=2")] == ["p=1/q=2/a.parquet"]
