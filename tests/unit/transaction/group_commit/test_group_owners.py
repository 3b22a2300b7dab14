"""A post is its owner's for as long as the owner renews it: what leaders do with the posts of the dead, and what owners that were stopped are told (I2, I5)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from model.schedules.play import schema_string
from rowlock import clock
from rowlock.log.table_log import TableLog
from rowlock.protocol.actions import SetTransaction
from rowlock.storage import ObjectStore, open_store
from rowlock.storage.memory import MemoryStore
from rowlock.storage.store import Unknown
from rowlock.transaction.group_commit import between_processes
from rowlock.transaction.group_commit.between_processes import Post
from rowlock.transaction.group_commit.group import Member, queue_of
from rowlock_simulation.memory.sql.script import parse
from rowlock_simulation.memory.statements import run, statements_of
from unit.transaction.group_commit.test_group_between_processes import Process, keys, posts, world

STOPPED_S = float(os.environ.get("ROWLOCK_STOPPED_S", "0"))
"""For how long owners are stopped, with the window as it is by default (`make soak`: 60); 0: for a second, with the window turned down."""
HOUR_MS = 3_600_000


class OwnTime(MemoryStore):
    """A store whose clock is not that of its clients."""

    def __init__(self, ahead_ms: int = 0) -> None:
        super().__init__()
        self.ahead_ms = ahead_ms

    def _set(self, key: str, data: bytes) -> None:
        super()._set(key, data)
        self._objects[key] = (data, clock.now_ms() + self.ahead_ms)


class Standing(clock.SystemClock):
    """A clock whose seconds pass when the test says so: a machine that is put to sleep counts none."""

    def __init__(self) -> None:
        self.at_s = 0.0

    def monotonic_s(self) -> float:
        return self.at_s

    def sleep(self, seconds: float) -> None:
        self.at_s += seconds


def members_of(process: Process) -> list[int]:
    """How many transactions each version has, from version 1 on."""
    log = TableLog(process.state.store)
    return [len(c.txn_ids) for c in log.commits(0, log.latest().version)]


@pytest.mark.parametrize("skew_ms", [0, HOUR_MS, -HOUR_MS], ids=["same clock", "store ahead", "store behind"])
@pytest.mark.parametrize("dead_for_ms", [1_000, 7_000])
def test_the_post_of_an_owner_that_died_is_adopted_within_the_window_and_not_after_it(skew_ms: int, dead_for_ms: int) -> None:
    """I2: its rows may have been appended again since.  Ages are the store's, whatever the clients' clocks say."""
    store = OwnTime(skew_ms)
    a, b = world(store=store)
    a.post(1)
    store.ahead_ms += dead_for_ms
    if dead_for_ms > between_processes.LIVE_MS:
        run(Process(store=store).table, parse("APPEND (1)"))  # the rerun
    b.lead(b.post(2))
    assert keys(b) == [1, 2] and posts(b) == []


def test_a_leader_that_slept_without_knowing_sees_by_the_newest_commit_how_late_it_is() -> None:
    """I2: its own post says that no time has passed, and its clock too; the rerun's commit says otherwise."""
    store = OwnTime()
    a, b = world(store=store)
    a.post(1)
    with clock.use(Standing()):
        leader = b.post(2)
        store.ahead_ms += HOUR_MS
        run(Process(store=store).table, parse("APPEND (1)"))
        b.lead(leader)
    assert keys(b) == [1, 2] and members_of(b) == [1, 1]


def test_a_leader_that_lost_its_post_adopts_nobody() -> None:
    """It does not know the store's time."""
    a, b = world()
    guest, leader = a.post(1), b.post(2)
    assert guest.post is not None and leader.post is not None
    b.state.store.delete(leader.post.key)
    b.lead(leader)
    assert keys(b) == [2]
    a.lead(guest)
    assert keys(b) == [1, 2]


@contextmanager
def stopping_before_put(member: Member, seconds: float) -> Iterator[Standing]:
    """The member's process stands still between its look at the posts and its put."""
    with clock.use(standing := Standing()):
        phase = member.txn.phase

        def passing(name: str) -> None:
            if name == "before_put":
                standing.at_s += seconds
            phase(name)  # type: ignore[arg-type]

        member.txn.phase = passing  # type: ignore[method-assign, assignment]
        yield standing


@pytest.mark.parametrize("seconds", [1.0, 60.0])
def test_a_leader_that_was_stopped_before_its_put_puts_without_guests(seconds: float) -> None:
    """I2: a look at the posts holds for `PRESENT_S`, as far as the leader can tell."""
    a, b = world()
    guest, leader = a.post(1), b.post(2)
    with stopping_before_put(leader, seconds):
        leader.post.renewed_s = 0.0  # type: ignore[union-attr]
        b.lead(leader)
    assert keys(b) == ([1, 2] if seconds < between_processes.PRESENT_S else [2])
    assert leader.receipt is not None and leader.receipt.group_size == members_of(b)[0]
    a.lead(guest)
    assert keys(b) == [1, 2]


@pytest.mark.parametrize("lands", [False, True], ids=["never sent", "reply lost"])
def test_a_put_that_is_sent_again_later_goes_without_guests(lands: bool) -> None:
    """I2: while it is not known what became of a put the same commit is put again, and by then a guest may be dead."""
    store = MemoryStore()
    a, b = world(store=store)
    guest = a.post(1)
    standing = Standing()
    with clock.use(standing):
        leader = b.post(2)
        tries: list[str] = []

        def unclear(moment: str, key: str, data: bytes) -> Any:
            if not key.startswith("_delta_log") or tries or (moment == "before") == lands:
                return None
            tries.append(key)
            standing.at_s += 10.0
            return Unknown("no answer")

        store.faults = unclear
        b.lead(leader)
        store.faults = None
    assert tries and leader.receipt is not None
    assert keys(b) == ([1, 2] if lands else [2]) and leader.receipt.group_size == (2 if lands else 1)
    a.lead(guest)
    assert keys(b) == [1, 2] and guest.receipt is not None


def test_an_owner_that_waits_renews_its_post() -> None:
    """I8: who lives is taken along however long it waits, and does not put its post again at every look."""
    store = OwnTime()
    a, b = world(store=store)
    guest = a.post(1)
    assert guest.post is not None
    first = store.modified_ms(guest.post.key)
    for ahead_ms in (100, 8_000):
        store.ahead_ms = ahead_ms
        guest.post.renew()
        assert store.modified_ms(guest.post.key) == first, "it is not due"
    guest.post.renewed_s -= between_processes.RENEW_S
    guest.post.renew()
    b.lead(b.post(2))
    assert keys(b) == [1, 2] and members_of(b) == [2]


def test_who_waits_in_line_renews_what_it_posted(monkeypatch: pytest.MonkeyPatch) -> None:
    """I8: in `hand_over` itself, behind a post that stays before it and is not its own to lead."""
    a, b = world(store=OwnTime())
    a.post(1)
    clock.sleep(0.002)  # the line is in order of milliseconds
    waiting, puts = b.post(2), list[str]()
    queue_of(b.state).seconds_a_put = 60.0
    monkeypatch.setattr(Post, "_put", lambda self, real=Post._put: (puts.append(self.key), real(self)))
    with clock.use(Standing()) as standing:
        assert isinstance(standing, Standing) and waiting.post is not None
        waiting.post.renewed_s = 0.0
        b.lead(waiting)
        assert puts.count(waiting.post.key) >= int(standing.at_s / (between_processes.RENEW_S + between_processes.LONGEST_PUT_S)) > 0


@pytest.mark.parametrize("first", ["rerun", "leader"])
def test_with_an_application_id_a_rerun_counts_once_within_the_window_too(first: str) -> None:
    """I2: whoever comes first, the post of the dead process or its rerun."""
    a, b = world()
    a.post(1, ("app", 7))
    other = Process(store=a.state.store)

    def rerun() -> None:
        txn = other.table.begin(app=SetTransaction("app", 7, None))
        txn.execute(*statements_of(parse("APPEND (1)"), txn.base))
        assert txn.commit("WRITE").already_committed == (first == "leader")

    if first == "rerun":
        rerun()
    b.lead(b.post(2))
    if first == "leader":
        rerun()
    assert keys(b) == [1, 2] and posts(b) == []


# ---- processes that are stopped, and killed ----------------------------------------------------

OWNER = """
import json, os, signal, sys
sys.path.insert(0, sys.argv[2])
from rowlock_simulation.memory.sql.script import parse
from rowlock_simulation.memory.statements import run
from rowlock.storage import open_store
from rowlock.storage.local import Lane
from rowlock.transaction.group_commit import between_processes, lead
from model.schedules.in_memory import InMemory
lead.SLOW_PUT_S, lead.HAND_OVER_AFTER = -1.0, 0
looks, look = [], between_processes.Board.look
def stopping(board, own, head):
    looks.append(1)
    if len(looks) == int(sys.argv[4]):
        os.kill(os.getpid(), signal.SIGSTOP)
    return look(board, own, head)
between_processes.Board.look = stopping
world = InMemory(store=open_store(sys.argv[1], json.loads(sys.argv[3])))
world.state.lane = Lane()  # as on a machine of its own
receipt = run(world.table, parse("APPEND (1)"))
print(json.dumps([receipt.version, receipt.txn_id, receipt.group_size]), flush=True)
"""


class Owner:
    """A process that has posted an append and is stopped before its first look at the posts."""

    def __init__(self, root: str, options: dict[str, str]) -> None:
        tests = str(Path(__file__).resolve().parents[3])
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(tests).parent / "src"), os.environ.get("PYTHONPATH", "")])}
        self.process = subprocess.Popen([sys.executable, "-c", OWNER, root, tests, json.dumps(options), "1"], stdout=subprocess.PIPE, text=True, env=env)
        _, status = os.waitpid(self.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), status

    def goes_on(self) -> tuple[int, str, int]:
        self.process.send_signal(signal.SIGCONT)
        out, _ = self.process.communicate(timeout=60)
        version, txn_id, size = json.loads(out)
        return version, txn_id, size


@pytest.fixture(params=["local", "minio"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, str]]:
    """A table's root, and how its store is reached."""
    if request.param == "local":
        return str(tmp_path / "table"), {}
    server = request.getfixturevalue("minio")
    return server.fresh_root(), server.storage_options


@pytest.fixture
def window(monkeypatch: pytest.MonkeyPatch) -> float:
    """For how long the owner is stopped; the window is the default one, or short."""
    if not STOPPED_S:  # S3 tells the time of one object in whole seconds
        monkeypatch.setattr(between_processes, "LIVE_MS", 600)
    return STOPPED_S or 2.0


def created(store: ObjectStore) -> Process:
    host = Process(store=store)
    host.create(schema_string([("k", "long", True)]), (), {})
    return host


@pytest.mark.parametrize("fate", ["adopted", "left alone", "killed"])
def test_an_owner_that_was_stopped_is_told_the_truth(place: tuple[str, dict[str, str]], fate: str, window: float) -> None:
    """I2: committed once, by whomever, at the version that it is told; who was killed is not committed after the window, and its rerun counts once."""
    root, options = place
    store = open_store(root, options)
    host = created(store)
    owner = Owner(root, options)
    if fate != "adopted":
        time.sleep(window)
    elif not STOPPED_S:
        between_processes.LIVE_MS = 6_000
    if fate == "killed":
        owner.process.kill()
        owner.process.wait()
        run(host.table, parse("APPEND (1)"))
    host.lead(host.post(2))
    assert keys(host) == ([2] if fate == "left alone" else [1, 2])
    if fate == "adopted" and STOPPED_S:
        time.sleep(window)
    if fate != "killed":
        version, txn_id, size = owner.goes_on()
        log = TableLog(store)
        commits = log.commits(0, log.latest().version)
        assert [c.version for c in commits if txn_id in c.txn_ids] == [version]
        assert size == len(commits[version - 1].txn_ids) == (2 if fate == "adopted" else 1)
    assert keys(host) == [1, 2]
