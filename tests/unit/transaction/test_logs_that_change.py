"""Logs that are rewritten, cleaned up or told of oddly, while somebody has read them (I2, I3, I8)."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import orjson
import pytest

from rowlock import clock
from rowlock.exceptions import CommitOverwrittenWarning, ConcurrentWriteException
from rowlock.log.table_log import TableLog
from rowlock.protocol import names
from rowlock.storage.memory import MemoryStore
from rowlock.storage.store import Committed, PutOutcome, StorageError
from rowlock.transaction.definition import creation, replacement
from rowlock.transaction.group_commit.group import queue_of
from rowlock.transaction.state.options import Options
from rowlock.transaction.state.phases import Observer, use_observer
from rowlock_simulation.memory.sql.script import parse
from rowlock_simulation.memory.statements import run, statements_of
from unit.transaction.group_commit.test_group_between_processes import Process, keys, world

SCHEMA = '{"type":"struct","fields":[{"name":"k","type":"long","nullable":true,"metadata":{}}]}'


def append(process: Any, *keys: int) -> Any:
    return run(process.table, parse("APPEND " + ", ".join(f"({k})" for k in keys)))


class NoPosts(MemoryStore):
    """Refuses the next put of a post."""

    refused = 1

    def put(self, key: str, data: bytes) -> None:
        if key.startswith("_rowlock/queue") and self.refused:
            self.refused -= 1
            raise StorageError("503 slow down")
        super().put(key, data)


def test_a_post_that_could_not_be_put_fails_its_leader_alone() -> None:
    """I8: the others, whose rows were in the post, go on by themselves."""
    process, _ = world(store=NoPosts())
    found: dict[int, Any] = {}

    def write(k: int) -> None:
        try:
            found[k] = append(process, k).version
        except StorageError as e:
            found[k] = e

    threads = [threading.Thread(target=write, args=(k,)) for k in range(5)]
    with process.state.lane:
        for thread in threads:
            thread.start()
        while len(queue_of(process.state).waiting()) < 5:
            clock.sleep(0.01)
        queue_of(process.state).contended()
    for thread in threads:
        thread.join(60)
    failed = [k for k, e in found.items() if isinstance(e, StorageError)]
    assert len(failed) == 1 and len(found) == 5
    assert sorted(keys(process)) == sorted(set(range(5)) - set(failed))


@pytest.mark.parametrize("fault", ["the warning is an error", "the look at the newest commits fails"])
def test_what_was_read_of_a_rewritten_log_is_never_carried_on(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    """I3: whatever is raised when the log is found to be another, the next look at it is a new one."""
    store = MemoryStore()
    process, _ = world(store=store)
    for k in (1, 2, 3):
        append(process, k)
    process.state.refresh()
    store.put(names.commit_key(2), orjson.dumps({"commitInfo": {"timestamp": 1, "operation": "WRITE"}}))
    with warnings.catch_warnings():
        warnings.simplefilter("error" if fault.startswith("the warning") else "ignore", CommitOverwrittenWarning)
        if fault.startswith("the look"):
            monkeypatch.setattr(process.state, "_watch", _once(process.state._watch))
        with pytest.raises((CommitOverwrittenWarning, OSError)):
            process.state.refresh()
        assert len(process.state.refresh().files) == len(TableLog(store).latest().files) == 2


def _once(call: Callable[[int], None]) -> Callable[[int], None]:
    left = [1]

    def failing(version: int) -> None:
        if left:
            left.pop()
            raise OSError(24, "Too many open files")
        call(version)

    return failing


def cleaned_up(store: MemoryStore, process: Any) -> None:
    for k in range(10, 16):
        append(process, k)
    log = TableLog(store)
    log.write_checkpoint(log.latest())
    for version in range(9):
        store.delete(names.commit_key(version))


def rewritten_and_cleaned_up(store: MemoryStore, process: Any) -> None:
    store.put(names.commit_key(3), store.get(names.commit_key(3)).replace(b'"txnId":"', b'"txnId":"z'))
    cleaned_up(store, Process(store=store))


@pytest.mark.parametrize("lane", [True, False])
@pytest.mark.parametrize("change", [cleaned_up, rewritten_and_cleaned_up])
@pytest.mark.parametrize("script", ["APPEND (100)", "DELETE WHERE k = 1 OR k = 12"])
@pytest.mark.filterwarnings("ignore::rowlock.exceptions.CommitOverwrittenWarning")
def test_commits_that_were_cleaned_up_are_met_as_one(script: str, change: Callable[[MemoryStore, Any], None], lane: bool) -> None:
    """I3: what winners did together is the difference of two states, and a transaction is rebased over that."""
    store = MemoryStore()
    process, other = world(store=store)
    for k in (1, 2, 3):
        append(process, k)
    txn = process.table.begin(Options(lane=lane))
    txn.execute(*statements_of(parse(script), txn.base))
    change(store, other)
    assert txn.commit("X").version == 10
    after = {1, 2, 3, *range(10, 16)}
    assert sorted(keys(Process(store=store))) == sorted(after | {100} if script.startswith("APPEND") else after - {1, 12})


class Tagged(MemoryStore):
    """Tells another tag with an object, or with a put, than when it is asked for the tag."""

    def __init__(self, odd: str) -> None:
        super().__init__()
        self.odd = odd
        self.loads = 0

    def get_tagged(self, key: str) -> tuple[bytes, str]:
        data, tag = super().get_tagged(key)
        return data, f"{tag}-gzip" if self.odd == "get" else tag

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        outcome = super().put_if_absent(key, data)
        return Committed(f"{outcome.tag}-put") if self.odd == "put" and isinstance(outcome, Committed) else outcome

    def list(self, prefix: str = "", **more: Any) -> Any:
        self.loads += prefix == "_delta_log"
        return super().list(prefix, **more)


@pytest.mark.parametrize("odd", ["get", "put"])
def test_a_store_that_tells_tags_in_two_ways_is_not_read_anew_each_time(odd: str) -> None:
    """I8: a commit with a txnId is known again whatever the store says of its file."""
    store = Tagged(odd)
    process, _ = world(store=store)
    append(process, 1)
    process.state.refresh()
    store.loads = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for k in range(2, 6):
            append(process, k)
            process.state.refresh()
    assert sorted(keys(process)) == [1, 2, 3, 4, 5] and store.loads <= 1


@pytest.mark.filterwarnings("ignore::rowlock.exceptions.CommitOverwrittenWarning")
@pytest.mark.parametrize("policy", ["repair", "fail"])
def test_a_replacement_over_a_rewritten_log_removes_what_lives_now(policy: str) -> None:
    """I5: the files of the commit that took the other's place would stay in the new table; who asked for conflicts is told."""
    store = MemoryStore()
    process, _ = world({"rowlock.onConflict": policy}, store=store)
    append(process, 1)
    theirs = {"add": {"path": "theirs", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}}

    class Rewrites(Observer):
        def phase(self, name: str, txn: Any) -> None:
            if name == "staged":
                store.put(names.commit_key(1), b"\n".join(map(orjson.dumps, ({"commitInfo": {"timestamp": 1, "operation": "WRITE", "txnId": "t"}}, theirs))))

    with use_observer(Rewrites()), pytest.raises(ConcurrentWriteException, match="rewritten") if policy == "fail" else nullcontext():
        replacement.replace_table(process.state, creation.new_metadata(SCHEMA, (), {}), properties={})
    assert [f.path for f in TableLog(store).latest().files.adds()] == (["theirs"] if policy == "fail" else [])
