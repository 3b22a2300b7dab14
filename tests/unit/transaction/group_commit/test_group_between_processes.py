"""Group commit between processes, as several engines on one store, and as real processes that are killed (I1, I2, I8)."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from model.schedules.in_memory import InMemory
from model.schedules.play import schema_string
from rowlock import clock
from rowlock.advice.writers import participant_texts, participants, writer_of
from rowlock.exceptions import CommitUnknown, ConcurrentWriteException, MetadataChangedException, RowlockError
from rowlock.log.table_log import TableLog
from rowlock.protocol import names
from rowlock.protocol.actions import SetTransaction
from rowlock.protocol.schema import PrimitiveType, StructField
from rowlock.storage.local import LocalStore
from rowlock.storage.memory import MemoryStore
from rowlock.storage.store import Committed, PutOutcome
from rowlock.transaction.commit import commit
from rowlock.transaction.definition import alteration
from rowlock.transaction.definition.head_commit import HeadActions, commit_from_head
from rowlock.transaction.group_commit import between_processes, lead
from rowlock.transaction.group_commit.between_processes import FOLDER, Post
from rowlock.transaction.group_commit.group import Lot, Member, queue_of
from rowlock.transaction.group_commit.lead import LedAppends
from rowlock.transaction.publish import outcome
from rowlock.transaction.publish.outcome import ABORT
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.transaction import Transaction
from rowlock_simulation.memory.sql.script import parse
from rowlock_simulation.memory.statements import run, statements_of
from support.turning_down import turn_down


class Process(InMemory):
    """What one process has of a table: its own engine, log and queue."""

    def stage(self, k: int, app: tuple[str, int] | None = None) -> Transaction:
        txn = self.table.begin(app=None if app is None else SetTransaction(*app, None))
        txn.execute(*statements_of(parse(f"APPEND ({k})"), txn.base))
        return txn

    def post(self, k: int, app: tuple[str, int] | None = None) -> Member:
        """Stages and hands over, as a process does that then waits, or dies."""
        member = Member(self.stage(k, app), "WRITE", {})
        member.write()
        Post(self.state.store, [member], self.state.refresh())
        queue_of(self.state).enter(member)
        return member

    def lead(self, member: Member) -> None:
        what = LedAppends(member)
        what.post()
        with suppress(RowlockError):
            commit(what)
        assert member.is_over and member.post is not None


def world(properties: dict[str, str] | None = None, **options: Any) -> tuple[Process, Process]:
    store = options.pop("store", None) or MemoryStore()
    first = Process(store=store)
    first.create(schema_string([("k", "long", True)]), (), properties or {})
    return first, Process(store=store)


def keys(process: Process) -> list[int]:
    return sorted(row["k"] for row in process.rows())


def posts(process: Process) -> list[str]:
    return [m.key for m in process.state.store.list(FOLDER)]


def test_a_leader_takes_what_others_have_posted() -> None:
    """One version for both processes; the follower finds itself in it, and the posts are gone."""
    a, b = world({"delta.enableRowTracking": "true"})
    guest, leader = a.post(1, ("app", 3)), b.post(2)
    b.lead(leader)
    assert leader.receipt is not None and leader.receipt.group_size == 2 and posts(a) == []
    assert not guest.follow(a.state.refresh()) and guest.receipt is not None
    assert (guest.receipt.version, guest.receipt.group_size, guest.receipt.metrics["numOutputRows"]) == (leader.receipt.version, 2, 1)
    assert keys(a) == [1, 2] and a.state.refresh().txns["app"].version == 3
    assert sorted(r["_row_id"] for r in a.identified(1)[1]) == [0, 1]
    record = a.state.log.commits(0, 1)[0].info.rowlock  # type: ignore[union-attr]
    assert [(m["rows"], m.get("app_id")) for m in record["members"]] == [(1, None), (1, "app")]  # type: ignore[index]


def test_a_store_that_takes_long_to_delete_gets_one_thread_and_not_one_for_each_version() -> None:
    may, deleting = threading.Event(), list[str]()

    class Slow(MemoryStore):
        is_remote = True

        def delete(self, key: str) -> None:
            deleting.append(key)
            may.wait(60)
            super().delete(key)

    _, process = world(store=Slow())
    for k in range(9):
        process.lead(process.post(k))
    assert len(deleting) == 1 and keys(process) == list(range(9))
    may.set()
    while posts(process):  # what is left goes with a later version
        process.lead(process.post(9))
        time.sleep(0.02)


def test_the_history_names_all_who_took_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """A version's commitInfo has the leader's name alone: the appends of other processes and applications in it are participant_texts beside, to people and to DESCRIBE HISTORY."""
    a, b = world()
    for process, application, keys_of in ((b, "nightly", (1, 2)), (a, "hourly", (3,))):
        monkeypatch.setenv("ROWLOCK_APPLICATION", application)
        made = [process.post(k) for k in keys_of]
    monkeypatch.setenv("ROWLOCK_APPLICATION", "who looks")
    a.lead(made[0])
    info = a.state.log.commits(0, 1)[0].info
    assert info is not None and writer_of(info.raw).application == "hourly"
    assert {writer.application: appends for writer, appends in participants(info.raw).items()} == {"hourly": 1, "nightly": 2}
    where = f"({socket.gethostname()}, process {os.getpid()})"
    assert participant_texts(info.raw) == ["3 appends in one commit:", f"2 by nightly {where}", f"1 by hourly {where}"]
    assert info.raw["operationParameters"]["participants"] == " ".join([participant_texts(info.raw)[0], ", ".join(participant_texts(info.raw)[1:])])


def test_a_history_with_many_or_damaged_names() -> None:
    """The words stay short, and what another program wrote there stops nobody."""
    of = [{"writer": {"application": f"job {n}", "host": "h", "process": n}} for n in range(30)]
    found = participant_texts({"rowlock": {"members": of}})
    assert len(found) == 12 and found[0] == "30 appends in one commit:" and found[-1] == "20 by 20 other writers"
    for members in (None, 7, [], [of[0]], ["x", 3], {"a": 1}):
        assert participant_texts({"rowlock": {"members": members}}) == []
    assert participant_texts({"rowlock": {"members": [{"writer": 3}, {}]}, "engineInfo": "other/1"}) == ["2 appends in one commit:", "2 by other/1"]


def test_the_post_of_a_dead_process_is_committed_once() -> None:
    """I2: nobody waits for it any more; whoever leads next commits it, and nobody does so again."""
    a, b = world()
    a.post(1)
    b.lead(b.post(2))
    b.lead(b.post(3))
    assert keys(b) == [1, 2, 3]


def test_two_leaders_at_once_commit_each_transaction_once() -> None:
    """Both have posted, both believe that it is their turn."""
    a, b = world()
    members = [a.post(1), b.post(2)]
    barrier = threading.Barrier(2)

    def lead(process: Process, member: Member) -> None:
        barrier.wait()
        process.lead(member)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lead, (a, b), members))
    assert keys(a) == [1, 2] and all(m.receipt is not None for m in members)


def test_what_was_given_up_is_never_committed() -> None:
    a, b = world()
    gone = a.post(1)
    gone.error = RuntimeError("the user pressed Ctrl-C")
    path = posts(a)[0]
    body = a.state.store.get(path)
    between_processes.give_up(gone)
    assert isinstance(gone.error, RuntimeError) and gone.receipt is None
    a.state.store.put(path, body)  # a leader that has read the post before it was taken away
    b.lead(b.post(2))
    assert keys(b) == [2]
    marker = a.state.log.commits(0, 1)[0]
    assert marker.aborted == {gone.txn.txn_id} and not marker.adds and marker.info is not None and marker.info.operation == ABORT


def test_who_gives_up_after_it_was_committed_has_committed() -> None:
    a, b = world()
    late = a.post(1)
    b.lead(b.post(2))
    late.error = RuntimeError("too late")
    between_processes.give_up(late)
    assert late.error is None and late.receipt is not None and late.receipt.version == 1


def test_who_cannot_find_out_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    a, _ = world()
    member = a.post(1)
    member.error = RuntimeError("first")

    def down() -> None:
        raise CommitUnknown("down", txn_id="x")

    monkeypatch.setattr(a.state, "refresh", down)
    between_processes.give_up(member)
    assert isinstance(member.error, CommitUnknown) and member.error.txn_id == member.txn.txn_id


@pytest.mark.parametrize("change", ["ALTER", "another table"])
def test_what_was_staged_before_a_change_of_the_table_is_sent_back(change: str) -> None:
    """Its owner looks itself whether it still fits: here it does, with the new column null."""
    a, b = world()
    guest = a.post(1)
    if change == "ALTER":
        alteration.add_columns(b.state, b.engine, [StructField("more", PrimitiveType("long"))])
    else:
        key = posts(a)[0]
        a.state.store.put(key, a.state.store.get(key).replace(a.state.refresh().metadata.id.encode(), b"another"))
    leader = b.post(2) if change != "ALTER" else Member(b.table.begin(), "WRITE", {})
    if change == "ALTER":
        leader.txn.execute(*statements_of(parse("APPEND (2, 2)"), leader.txn.base))
        queue_of(b.state).enter(leader)
    b.lead(leader)
    assert keys(b) == [2]
    a.lead(guest)
    assert keys(b) == [1, 2]


def test_a_dropped_column_is_its_owners_error() -> None:
    a, b = world({"delta.columnMapping.mode": "name"})
    alteration.add_columns(a.state, a.engine, [StructField("gone", PrimitiveType("long"))])
    txn = a.table.begin()
    txn.execute(*statements_of(parse("APPEND (7, 7)"), txn.base))
    member = Member(txn, "WRITE", {})
    member.write()
    Post(a.state.store, [member], a.state.refresh())
    queue_of(a.state).enter(member)
    alteration.drop_columns(b.state, b.engine, [("gone",)])
    before = b.state.refresh().version
    a.lead(member)
    assert isinstance(member.error, MetadataChangedException)
    between_processes.give_up(member)
    assert isinstance(member.error, MetadataChangedException)
    assert b.state.refresh().version == before, "nobody commits it, so there is nothing to mark"


def test_one_step_of_an_application_comes_once() -> None:
    a, b = world()
    first, second = a.post(1, ("app", 1)), b.post(2, ("app", 1))
    b.lead(second)
    a.lead(first)
    assert keys(a) == [2] and first.receipt is not None and first.receipt.already_committed


def test_rubbish_in_the_queue_is_no_harm() -> None:
    a, b = world()
    for name, body in (
        ("0-a.json", b"rubbish"),
        ("0-b.json", b"{}"),
        ("0-c.json", b'{"commitInfo":{"txnId":"x","readVersion":0,"rowlock":{}}}'),
        ("0-d.json", b""),
    ):
        a.state.store.put(f"{FOLDER}/{name}", body)
    b.lead(b.post(1))
    assert keys(b) == [1] and posts(b) == []


def cut(body: bytes) -> bytes:
    """Without its last line."""
    return body.rstrip(b"\n").rpartition(b"\n")[0]


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda body: b"",
    "a line cut": lambda body: body[:-20],
    "cut between lines": cut,
    "one step of an application twice": lambda body: body.replace(b'{"txn"', b'{"txn":{"appId":"app","version":2}}\n{"txn"', 1),
    "an application without a name": lambda body: body.replace(b'"appId":"app"', b'"appId":{}'),
    "another's file": lambda body: body.replace(b'"path":"', b'"path":"LEADERS', 1),
    "partition values of no kind": lambda body: body.replace(b'"partitionValues":{}', b'"partitionValues":[1]'),
    "a file that is not there": lambda body: body.replace(b'"path":"', b'"path":"none-').replace(b'\\"numRecords\\":1', b'\\"x\\":1'),
    "a transaction id of no kind": lambda body: body.replace(b'"txnId":"', b'"txnId":[],"was":"'),
}


@pytest.mark.parametrize("damage", sorted(DAMAGE))
def test_a_damaged_post_stops_nobody_and_goes_with_the_next_version(damage: str) -> None:
    """Its owner is dead.  Nobody fails because of it, half of it is never committed, and it is first in line once."""
    a, b = world({"delta.enableRowTracking": "true"})
    a.post(1, ("app", 1))
    (key,) = posts(a)
    leader = b.post(2)
    body = DAMAGE[damage](a.state.store.get(key))
    body = body.replace(b"LEADERS", leader.adds[0].path.encode() + b'","was":"')
    assert body != a.state.store.get(key)
    a.state.store.put(key, body)
    b.lead(leader)
    assert leader.error is None and leader.receipt is not None and leader.receipt.group_size == 1
    assert keys(b) == [2] and posts(b) == []


def test_what_no_version_takes_in_is_first_in_line_once(monkeypatch: pytest.MonkeyPatch) -> None:
    turn_down(monkeypatch, group_files=0)
    a, b = world()
    guest = a.post(1)
    b.lead(b.post(2))
    assert keys(b) == [2] and posts(b) == []
    a.lead(guest)
    assert keys(b) == [1, 2]


def test_who_waits_for_the_lane_of_a_local_disk_is_taken_along(tmp_path: Path) -> None:
    """What two processes append while a third one commits becomes one version (I2), which the first of them to get the lane leads."""
    first, second = world(store=LocalStore(tmp_path / "table"))
    third = Process(store=first.state.store)
    with ThreadPoolExecutor(2) as pool:
        with third.state.lane:
            made = [pool.submit(run, one.table, parse(f"APPEND ({k})")) for k, one in enumerate((first, second))]
            while len(posts(third)) < 2:
                time.sleep(0.001)
        receipts = [one.result() for one in made]
    assert [(r.version, r.group_size) for r in receipts] == [(1, 2), (1, 2)] and keys(third) == [0, 1] and posts(third) == []


def test_a_post_that_nobody_took_along_is_not_tried_again_at_once(tmp_path: Path) -> None:
    """Of two processes each commits its own append next, so a post would be in vain."""
    one, _ = world(store=LocalStore(tmp_path / "table"))
    posted = []
    for k in range(2):
        member = Member(one.stage(k), "WRITE", {})
        member.write()
        queue_of(one.state).enter(member)
        waits = LedAppends(member)
        waits.post_before_wait()
        posted.append(len(posts(one)))
        assert commit(waits).group_size == 1
    assert posted == [1, 0] and keys(one) == [0, 1] and posts(one) == []


def test_appends_that_lose_slow_puts_hand_themselves_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three processes with threads: all rows are there once, in fewer versions than commits, and no post stays."""
    monkeypatch.setattr(lead, "SLOW_PUT_S", 0.002)

    class Slow(MemoryStore):
        def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
            time.sleep(0.004)
            return super().put_if_absent(key, data)

    first, second = world(store=Slow())
    processes = [first, second, Process(store=first.state.store)]

    def write(n: int) -> list[Receipt]:
        return [run(processes[n % 3].table, parse(f"APPEND ({n * 100 + i})")) for i in range(6)]

    with ThreadPoolExecutor(9) as pool:
        found = [r for part in pool.map(write, range(9)) for r in part]
    assert keys(first) == sorted(n * 100 + i for n in range(9) for i in range(6)) and posts(first) == []
    members = Counter(t for c in TableLog(first.state.store).commits(0, first.state.refresh().version) for t in c.txn_ids)
    assert members == Counter(r.txn_id for r in found), "each transaction is in one version"
    assert {r.version for r in found} == set(range(1, first.state.refresh().version + 1))
    assert len({r.version for r in found}) < len(found), "some share a version, whoever's threads they are"


WORKER = """
import json, sys, time
sys.path.insert(0, sys.argv[2])
from rowlock.storage.local import Lane
from rowlock.storage.local import LocalStore
from rowlock.transaction.group_commit import lead
from rowlock_simulation.memory.sql.script import parse
from rowlock_simulation.memory.statements import run
from model.schedules.in_memory import InMemory
# each on a machine of its own: the lane of one disk does not order them
lead.SLOW_PUT_S, lead.HAND_OVER_AFTER = 0.0, 0
class Slow(LocalStore):
    def put_if_absent(self, key, data):
        time.sleep(0.01)
        outcome = super().put_if_absent(key, data)
        time.sleep(0.01)
        return outcome
me = int(sys.argv[3])
world = InMemory(store=Slow(sys.argv[1]))
world.state.lane = Lane()
print("ready", flush=True)
for i in range(10_000):
    k = me * 100_000 + i
    receipt = run(world.table, parse(f"APPEND ({k})"))
    print(json.dumps([k, receipt.version, receipt.txn_id, receipt.group_size]), flush=True)
"""


def test_kill_9_of_leaders_and_followers(tmp_path: Path) -> None:
    """Whoever dies, whenever: each commit that was participant_texts to be there is there once, and the others go on."""
    table = str(tmp_path / "table")
    store = LocalStore(table)
    host = Process(store=store)
    host.create(schema_string([("k", "long", True)]), (), {})
    tests = str(Path(__file__).resolve().parents[3])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(tests).parent / "src"), os.environ.get("PYTHONPATH", "")])}

    def start(n: int) -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-c", WORKER, table, tests, str(n)], stdout=subprocess.PIPE, text=True, env=env)

    workers = {n: start(n) for n in range(4)}
    participant_texts: dict[int, list[Any]] = {n: [] for n in range(6)}
    for n, w in workers.items():
        assert w.stdout is not None and w.stdout.readline() == "ready\n", n
    log = TableLog(store)

    def wait_until(there: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not there():
            assert time.monotonic() < deadline, "the writers that are left go on"
            time.sleep(0.01)

    wait_until(lambda: any(len(c.txn_ids) > 1 for c in log.commits(0, log.latest().version)))  # on a busy machine one commits at a time for a while
    for victim, version in ((0, 12), (1, 24), (2, 36), (3, 48)):
        wait_until(lambda: host.state.refresh().version >= version)  # noqa: B023
        workers[victim].send_signal(signal.SIGKILL)
    for n, w in workers.items():
        out, _ = w.communicate()
        participant_texts[n] = [json.loads(line) for line in out.splitlines() if line.endswith("]")]
    last = run(host.table, parse("APPEND (-1)"))
    host.lead(host.post(-2))  # takes along what the dead have left
    commits = log.commits(0, log.latest().version)
    where = {t: c.version for c in commits for t in c.txn_ids}
    assert len(where) == sum(len(c.txn_ids) for c in commits), "no transaction is in two versions"
    for lines in participant_texts.values():
        for k, version, txn_id, size in lines:
            assert where[txn_id] == version and size == len(commits[version - 1].txn_ids), k
    found = keys(host)
    assert len(found) == len(set(found)) and set(found) >= {k for lines in participant_texts.values() for k, *_ in lines}
    assert last.version is not None and any(len(c.txn_ids) > 1 for c in commits), "there were groups"


def test_committed_means_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member is participant_texts of a version only when the log has it in that version."""
    a, b = world()
    guest = a.post(1)
    took: list[Callable[[], None]] = []
    original = MemoryStore.put_if_absent

    def watching(self: MemoryStore, key: str, data: bytes) -> PutOutcome:
        outcome = original(self, key, data)
        if outcome == Committed() and b'"members"' in data:
            took.append(lambda: None)
            assert not guest.is_over
        return outcome

    monkeypatch.setattr(MemoryStore, "put_if_absent", watching)
    b.lead(b.post(2))
    assert took and not guest.is_over
    a.lead(guest)
    assert guest.receipt is not None and guest.receipt.version == 1


def test_a_dead_post_before_mine_and_others_that_go_on_committing(monkeypatch: pytest.MonkeyPatch) -> None:
    """I8: the head moves all the time, by writers who take no posts along; who waits behind a dead process leads in the end."""
    a, b = world()
    other = Process(store=a.state.store)
    a.post(1)
    leader, now_s = b.post(2), [0.0]
    queue_of(b.state).seconds_a_put = 60.0  # one put that hung says nothing of the next
    sleeps: list[float] = []

    def sleep(seconds: float) -> None:
        assert len(sleeps) < 1000, "it waits for ever"
        sleeps.append(seconds)
        now_s[0] += seconds
        if len(sleeps) <= 100:
            assert commit_from_head(other.state, "NOTHING", {}, lambda head: HeadActions()).version is not None

    monkeypatch.setattr(clock, "sleep", sleep)
    monkeypatch.setattr(clock, "monotonic_s", lambda: now_s[0])
    b.lead(leader)
    assert leader.receipt is not None and now_s[0] < 3 * between_processes.PATIENCE * between_processes.LONGEST_PUT_S


def test_a_post_from_before_what_the_log_still_holds_stops_nobody() -> None:
    a, b = world()
    a.post(1)
    for k in range(4):
        run(b.table, parse(f"APPEND ({k + 10})"))
    b.state.log.write_checkpoint(b.state.refresh())
    for version in range(3):
        b.state.store.delete(names.commit_key(version))
    late = Process(store=a.state.store)
    member = late.post(2)
    late.lead(member)
    assert member.receipt is not None and keys(late) == [2, 10, 11, 12, 13] and posts(late) == []


def test_who_gives_up_where_the_log_was_cleaned_up_says_that_nothing_is_known() -> None:
    """I2: it may have been in a version that is gone."""
    a, b = world()
    member = a.post(1)
    member.error = RuntimeError("first")
    for k in range(4):
        run(b.table, parse(f"APPEND ({k + 10})"))
    b.state.log.write_checkpoint(b.state.refresh())
    for version in range(3):
        b.state.store.delete(names.commit_key(version))
    between_processes.give_up(member)
    assert isinstance(member.error, CommitUnknown) and member.error.txn_id == member.txn.txn_id


def test_a_table_that_was_made_anew_with_as_many_versions_is_another_table() -> None:
    class Far(MemoryStore):
        @property
        def is_remote(self) -> bool:
            return True

    a, b = world(store=Far())
    txn = a.stage(1)
    for meta in list(a.state.store.list("_delta_log")):
        a.state.store.delete(meta.key)
    b.create(schema_string([("another", "string", True), ("more", "string", True)]), (), {})
    assert a.state.refresh().version == txn.base.version
    with pytest.raises(MetadataChangedException):
        txn.commit("WRITE")


def test_who_gives_up_leaves_no_marker_in_a_table_that_was_made_anew() -> None:
    a, b = world()
    run(b.table, parse("APPEND (9)"))
    member = a.post(1)
    member.error = failure = RuntimeError("first")
    for meta in list(a.state.store.list("_delta_log")):
        a.state.store.delete(meta.key)
    b.create(schema_string([("another", "string", True)]), (), {})
    between_processes.give_up(member)
    assert member.error is failure and a.state.refresh().version == 0


def cleaned_up_behind(kept_from: int, process: Process, *, moved_by_ms: int) -> None:
    """The log goes on to version 9, has a checkpoint at 8, and was cleaned up to before `kept_from`, so long ago."""
    other = Process(store=process.state.store)
    while other.state.refresh().version < 9:
        run(other.table, parse(f"APPEND ({other.state.refresh().version + 100})"))
        if other.state.refresh().version == 8:
            other.state.log.write_checkpoint(other.state.refresh())
    for version in range(kept_from):
        process.state.store.delete(names.commit_key(version))
    objects: dict[str, Any] = process.state.store._objects  # type: ignore[attr-defined]
    for key, (data, at) in objects.items():
        objects[key] = (data, at - moved_by_ms)


def member_of(process: Process, k: int) -> Member:
    member = Member(process.stage(k), "WRITE", {})
    member.write()
    return member


def test_a_group_put_where_the_log_was_cleaned_up_is_told_to_every_member() -> None:
    """I2: the group's version is free again and the ones after it are there, so each member finds itself in the log, where nobody reads it."""
    a, b = world()
    leader, follower, guest = member_of(a, 1), member_of(a, 2), b.post(3)
    slept = a.state.refresh()
    assert guest.post is not None
    posted = between_processes.Board(a.state)._load(guest.post.key)
    cleaned_up_behind(2, a, moved_by_ms=60_000)
    with pytest.raises(ConcurrentWriteException, match="Nothing of it can be seen"):
        outcome.put(a.state, slept, Lot([leader, follower], slept, posted).bytes, leader.txn.txn_id)
    assert not follower.follow(a.state.refresh())
    assert isinstance(follower.error, ConcurrentWriteException) and follower.receipt is None
    assert not guest.follow(b.state.refresh()) and isinstance(guest.error, ConcurrentWriteException)
    between_processes.give_up(guest)
    assert isinstance(guest.error, CommitUnknown) and guest.receipt is None, "who has posted cannot be sure"
    assert {1, 2, 3}.isdisjoint(keys(Process(store=a.state.store)))


@pytest.mark.parametrize(("moved_by_ms", "participant_texts"), [(60_000, "a receipt"), (0, "unknown")])
def test_a_member_whose_version_is_the_first_that_is_left_is_told_so(moved_by_ms: int, participant_texts: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The version before was cleaned up after the commit, as clean-ups do; where the times of files do not tell, nothing is said."""
    a, b = world()
    guest = a.post(1)
    b.lead(b.post(2))
    objects: dict[str, Any] = a.state.store._objects  # type: ignore[attr-defined]
    for key, (data, at) in objects.items():
        objects[key] = (data, at - moved_by_ms)
    now = clock.now_ms()
    monkeypatch.setattr(clock, "now_ms", lambda: now)
    cleaned_up_behind(1, a, moved_by_ms=0)
    if participant_texts == "unknown":
        for key, (data, _) in objects.items():
            objects[key] = (data, now)
    assert not guest.follow(a.state.refresh())
    if participant_texts == "unknown":
        assert isinstance(guest.error, CommitUnknown)
    else:
        assert guest.receipt is not None and guest.receipt.version == 1
