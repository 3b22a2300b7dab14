"""Ours and Delta's writers race on one table, and both are killed now and then: one winner a version, none lost (I1, I2)."""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from contract.arbiter.delta_side import Stopped
from contract.arbiter.world import Faulty, World
from rowlock.protocol.names import commit_key
from rowlock.storage import Committed, MemoryStore, NotFound

WRITERS = 4


class Ledger:
    """What each writer tried, and what it was told."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.acknowledged: dict[int, bytes] = {}
        self.open: set[bytes] = set()
        self.failed: list[BaseException] = []

    def acknowledge(self, version: int, data: bytes) -> None:
        with self.lock:
            assert version not in self.acknowledged, f"two winners of version {version}"
            self.acknowledged[version] = data


def our_writer(w: World, name: str, seed: int, ledger: Ledger, *, commits: int, kills: bool) -> None:
    """As the commit loop does: the next absent version; after anything but Committed the version is read back."""
    chance, version = random.Random(seed), 0
    for n in range(commits):
        data = f"{name}/{n}".encode()
        while True:
            stop = chance.choice(["claim", "copy", "complete"]) if kills and chance.random() < 0.1 else None
            store = (
                w.ours_stopped_before(stop)
                if stop
                else w.ours(client=Faulty(w.client, lose=lambda *_: chance.choice(["before", "after"]) if chance.random() < 0.03 else None))
            )
            try:
                outcome = store.put_if_absent(commit_key(version), data)
            except Stopped:
                with ledger.lock:
                    ledger.open.add(data)  # nobody was told; it is there once or not at all
                break
            except Exception as e:  # a read before the claim found no answer: nothing was written
                assert "got no answer" in str(e), e
                continue
            try:
                there = w.ours().get(commit_key(version))
            except NotFound:
                assert not isinstance(outcome, Committed)
                continue
            assert not isinstance(outcome, Committed) or there == data
            if there == data:
                ledger.acknowledge(version, data)
                break
            version += 1


def delta_writer(w: World, name: str, seed: int, ledger: Ledger, *, commits: int, kills: bool) -> None:
    chance, version = random.Random(seed), 0
    log = w.delta()
    for n in range(commits):
        data = f"{name}/{n}".encode()
        while True:
            stop: Any = chance.choice(["claim", "copy", "complete"]) if kills and chance.random() < 0.1 else None
            try:
                log.write(version, data, stop_before=stop)
            except FileExistsError:
                version = max(version + 1, len(log.list()))
            except Stopped:
                with ledger.lock:
                    ledger.open.add(data)
                break
            else:
                ledger.acknowledge(version, data)
                break


@pytest.mark.parametrize(("each", "kills"), [(25, False), (15, True)])
@pytest.mark.short("15-True", ci=("25-False",), why="the same race without a writer that dies")
def test_four_of_ours_and_four_of_deltas(world: Callable[..., World], each: int, kills: bool) -> None:
    w, ledger, threads = world(store=MemoryStore(f"s3://bucket/{uuid.uuid4()}")), Ledger(), []

    def run(write: Callable[..., None], name: str, seed: int) -> None:
        try:
            write(w, name, seed, ledger, commits=each, kills=kills)
        except BaseException as e:
            ledger.failed.append(e)

    for write in (our_writer, delta_writer):
        threads += [threading.Thread(target=run, args=(write, f"{write.__name__}-{i}", i)) for i in range(WRITERS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
    assert not ledger.failed, ledger.failed[0]
    list(w.ours().list("_delta_log"))
    commits = w.commits()
    assert sorted(commits) == list(range(len(commits))), "no version is missing"
    assert len(set(commits.values())) == len(commits), "nothing is there twice"
    assert {v: commits[v] for v in ledger.acknowledged} == ledger.acknowledged, "nobody was told a lie"
    assert set(commits.values()) - set(ledger.acknowledged.values()) <= ledger.open
    assert len(ledger.acknowledged) + len(ledger.open) == 2 * WRITERS * each
    assert (len(commits) == 2 * WRITERS * each) is not kills
    sides = {data.split(b"_")[0] for data in commits.values()}
    assert sides == {b"our", b"delta"}
    for v in commits:
        entry = w.entry(v)
        assert entry is not None and entry.complete, "either finishes the other's"
