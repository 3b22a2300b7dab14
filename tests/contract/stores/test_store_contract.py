"""The contract that every store keeps. I1: of many put_if_absent of one key exactly one wins, and nothing is overwritten."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rowlock.engines.spark.session.clouds import open_files, options_of_session
from rowlock.exceptions import InvalidInput
from rowlock.storage import Committed, LocalStore, Lost, MemoryStore, NotFound, ObjectStore, Unknown, open_store
from rowlock.storage.dynamodb import arbitrated
from rowlock.storage.hadoop import serve
from rowlock.storage.remote import PART_BYTES

HDFS = pytest.param("hdfs", marks=[pytest.mark.spark, pytest.mark.soak("a JVM with HDFS, and Spark's for its client", ci=True)])


@pytest.fixture(params=["local", "memory", "minio", "gcs", "azurite", "arbitrated", HDFS])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "local":
        return LocalStore(tmp_path / "table")
    if request.param == "memory":
        return MemoryStore()
    if request.param == "arbitrated":
        options = {**request.getfixturevalue("dynamodb").storage_options, "AWS_S3_LOCKING_PROVIDER": "dynamodb"}
        return arbitrated(MemoryStore(), options)
    if request.param == "hdfs":
        request.getfixturevalue("spark")  # its Hadoop client
        serve(open_files, options_of_session)
        return open_store(request.getfixturevalue("hdfs").fresh_root())
    server = request.getfixturevalue(request.param)
    return open_store(server.fresh_root(), server.storage_options)


def test_an_object_has_the_time_of_its_last_put(store: ObjectStore) -> None:
    """By the store's clock, the same for a listing; a store may cut it to seconds in one of the two."""
    assert store.modified_ms("a/b") is None
    store.put("a/b", b"1")
    store.put("a/c", b"1")
    first = store.modified_ms("a/b")
    assert first is not None
    time.sleep(1.1)
    store.put("a/b", b"1")
    listed = {m.key: m.modified_ms for m in store.list("a")}
    again = store.modified_ms("a/b")
    assert again is not None and again > first and listed["a/b"] > listed["a/c"]
    assert abs(listed["a/b"] - again) < 1000 and abs(listed["a/c"] - first) < 1100


def test_what_is_put_is_got(store: ObjectStore) -> None:
    assert not store.exists()
    store.put("a/b.bin", b"1" * 100_000)
    assert store.get("a/b.bin") == b"1" * 100_000
    assert store.head("a/b.bin") == 100_000
    assert store.exists() and store.exists("a") and store.exists("a/b.bin") and not store.exists("a/b")
    store.put("a/b.bin", b"")
    assert store.get("a/b.bin") == b"" and store.head("a/b.bin") == 0
    store.put_briefly("a/b.bin", b"2")
    store.put_briefly("c/d", b"3")
    assert store.get("a/b.bin") == b"2" and [m.key for m in store.list("c")] == ["c/d"], "no unfinished file stays"


def test_absent_things(store: ObjectStore) -> None:
    with pytest.raises(NotFound):
        store.get("nothing")
    assert store.head("nothing") is None
    store.put("file", b"x")
    assert store.head("file/below") is None
    store.delete("nothing")
    assert list(store.list("nothing")) == []


def test_put_if_absent_never_overwrites(store: ObjectStore) -> None:
    assert store.put_if_absent("log/0", b"first") == Committed()
    assert store.put_if_absent("log/0", b"second") == Lost()
    assert store.get("log/0") == b"first"
    assert [m.key for m in store.list("log")] == ["log/0"], "no unfinished file stays"


def test_a_tag_tells_one_state_of_an_object(store: ObjectStore) -> None:
    """I9: whoever put it, read it or looks at it has the same tag; another object of the same size has another."""
    put = store.put_if_absent("log/0", b"first")
    assert isinstance(put, Committed)
    tag = store.tag("log/0")
    assert tag is not None and put.tag == tag == store.get_tagged("log/0")[1] and store.tag("log/1") is None
    store.delete("log/0")
    assert store.put_if_absent("log/0", b"other") == Committed() and store.tag("log/0") not in (tag, None)


def test_of_many_one_wins(store: ObjectStore) -> None:
    barrier = threading.Barrier(8)

    def put(i: int) -> list[bool]:
        barrier.wait()
        return [store.put_if_absent(f"log/{n}", b"%d" % i) == Committed() for n in range(25)]

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(put, range(8)))
    for n in range(25):
        winners = [i for i in range(8) if won[i][n]]
        assert len(winners) == 1 and store.get(f"log/{n}") == b"%d" % winners[0]


def test_a_range_is_part_of_an_object(store: ObjectStore) -> None:
    store.put("a", b"0123456789")
    assert (store.get_range("a", 2, 3), store.get_range("a", 8, 10), store.get_range("a", 0, 10)) == (b"234", b"89", b"0123456789")
    with pytest.raises(NotFound):
        store.get_range("b", 0, 1)


def test_of_many_that_replace_one_state_one_wins(store: ObjectStore) -> None:
    """What a lease lives in: 8 threads count to 96 together and none is lost."""
    assert store.replace_if("locks/a", b"0", "no tag") == Lost()
    store.put("locks/a", b"0")

    def count(_: int) -> int:
        tries = 0
        for _ in range(12):
            while True:
                data, tag = store.get_tagged("locks/a")
                tries += 1
                if store.replace_if("locks/a", b"%d" % (int(data) + 1), tag) == Committed():
                    break
        return tries

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(count, range(8))) >= 96
    assert store.get("locks/a") == b"96"
    _, tag = store.get_tagged("locks/a")
    store.delete("locks/a")
    assert store.replace_if("locks/a", b"1", tag) == Lost() and store.head("locks/a") is None
    with pytest.raises(NotFound):
        store.get_tagged("locks/a")


def test_list_is_sorted_and_bounded(store: ObjectStore) -> None:
    for key in ("b", "a/2", "a/1", "a/x/3", "c", "aa"):
        store.put(key, key.encode())
    assert [m.key for m in store.list()] == ["aa", "b", "c"]
    assert [m.key for m in store.list("a")] == ["a/1", "a/2"]
    assert [m.key for m in store.list("a", start_after="a/1")] == ["a/2"]
    assert [m.key for m in store.list("a", limit=1)] == ["a/1"] and [m.key for m in store.list("a", limit=9)] == ["a/1", "a/2"]
    assert [m.key for m in store.list("a", limit=1, start_after="a/1")] == ["a/2"] and [m.key for m in store.list(limit=2)] == ["aa", "b"]
    assert [m.key for m in store.list(recursive=True, limit=4)] == ["a/1", "a/2", "a/x/3", "aa"]
    assert [m.key for m in store.list("a", recursive=True)] == ["a/1", "a/2", "a/x/3"]
    assert [m.key for m in store.list(recursive=True)] == ["a/1", "a/2", "a/x/3", "aa", "b", "c"]
    meta = next(store.list("a"))
    assert meta.size_bytes == 3 and meta.modified_ms > 1_500_000_000_000


def test_delete(store: ObjectStore) -> None:
    store.put("a/b", b"")
    store.delete("a/b")
    assert store.head("a/b") is None and not list(store.list("a"))
    assert store.put_if_absent("a/b", b"") == Committed()


def test_an_object_is_written_from_parts(store: ObjectStore) -> None:
    """All of it or nothing: where the parts fail, what was there stays."""
    store.put("whole", b"before")

    def broken() -> Iterator[bytes]:
        yield b"new"
        raise NotFound("part")

    with pytest.raises(NotFound):
        store.put_parts("whole", broken)
    assert store.get("whole") == b"before"
    store.put_parts("a/whole", lambda: iter((b"first ", b"", b"second")))
    store.put_parts("whole", lambda: iter(()))
    assert (store.get("a/whole"), store.get("whole")) == (b"first second", b"")


def test_an_object_of_more_than_one_upload_is_written_from_parts(store: ObjectStore) -> None:
    if store.root.startswith("gs://"):
        pytest.skip("the server that stands for GCS knows no multipart upload")
    piece = bytes(range(256)) * (PART_BYTES // 256 // 2 + 1)
    store.put_parts("whole", lambda: iter((piece, piece, b"end")))
    assert store.get("whole") == piece + piece + b"end"


@pytest.mark.parametrize("key", ["../x", "a/../../x", "/etc/x", "", "a//b", "a/./b", "file:/x", "a\\b"])
def test_nothing_outside_is_reached(store: ObjectStore, key: str) -> None:
    for call in (lambda: store.put(key, b""), lambda: store.put_if_absent(key, b""), lambda: store.get(key), lambda: store.delete(key)):
        with pytest.raises(InvalidInput):
            call()


def test_local_leaves_no_rubbish_and_ignores_hadoops(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put_if_absent("_delta_log/0.json", b"x")
    store.put_if_absent("_delta_log/0.json", b"y")
    store.put("data", b"z")
    assert sorted(os.listdir(tmp_path / "_delta_log")) == ["0.json"]
    (tmp_path / "_delta_log" / ".0.json.crc").write_bytes(b"crc")
    assert [m.key for m in store.list("_delta_log")] == ["_delta_log/0.json"]
    store.delete("_delta_log/0.json")
    assert os.listdir(tmp_path / "_delta_log") == [], "Hadoop would check another file of this name by it"
    (tmp_path / ("x" * 255)).write_bytes(b"of nobody")
    store.delete("x" * 255)
    assert sorted(os.listdir(tmp_path)) == ["_delta_log", "data"], "a name that is too long for such a file"


def test_memory_faults_lose_replies_and_puts() -> None:
    """I2: a lost reply is Unknown though the bytes are there."""
    moments: list[str] = []

    def fault(moment: str, key: str, data: bytes) -> Unknown | None:
        moments.append(moment)
        return Unknown("lost reply") if moment == "after" and key == "a" else Unknown("never sent") if moment == "before" and key == "b" else None

    store = MemoryStore(faults=fault)
    assert store.put_if_absent("a", b"1") == Unknown("lost reply") and store.get("a") == b"1"
    assert store.put_if_absent("b", b"1") == Unknown("never sent") and store.head("b") is None
    assert moments == ["before", "after", "before"]


def test_open_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowlock.storage.hadoop._open", None)
    assert open_store(tmp_path).root == str(tmp_path)
    assert open_store(f"file://{tmp_path}/a%20b").root == f"{tmp_path}/a b"
    assert open_store(f"file:{tmp_path}").root == str(tmp_path)
    assert open_store("memory://open-store-test") is open_store("memory://open-store-test")
    with pytest.raises(InvalidInput, match="hdfs: tables are reached through the Hadoop client of a Spark session"):
        open_store("hdfs://namenode/table")
