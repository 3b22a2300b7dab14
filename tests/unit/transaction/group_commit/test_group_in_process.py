"""Group commit inside of one process: one version for many, and each member's own receipt (I1, I2, I6)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from model.schedules.in_memory import InMemory
from model.schedules.play import schema_string
from rowlock import clock
from rowlock.exceptions import CommitUnknown, CorruptLog, MetadataChangedException
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import row_tracking
from rowlock.protocol.actions import SetTransaction
from rowlock.protocol.schema import PrimitiveType, StructField
from rowlock.storage.local import Lane
from rowlock.storage.memory import MemoryStore
from rowlock.storage.store import PutOutcome, StorageError, Unknown
from rowlock.transaction.commit import commit
from rowlock.transaction.definition import alteration
from rowlock.transaction.group_commit.group import Member, queue_of
from rowlock.transaction.group_commit.lead import LedAppends
from rowlock.transaction.publish import outcome
from rowlock.transaction.state.receipt import Receipt, Stopwatch
from rowlock.transaction.transaction import Transaction
from rowlock_simulation.memory.sql.script import parse
from rowlock_simulation.memory.statements import run, statements_of
from support.turning_down import turn_down

TRACKED = {"delta.enableRowTracking": "true"}


class World(InMemory):
    """A table (k long), and a way to let appends wait for each other."""

    def __init__(self, properties: dict[str, str] | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.create(schema_string([("k", "long", True)]), (), properties or {})

    def append(self, k: int, app: tuple[str, int] | None = None) -> Receipt:
        txn = self.staged(k, app)
        return txn.commit("WRITE", {"mode": "Append"})

    def staged(self, k: int, app: tuple[str, int] | None = None) -> Transaction:
        txn = self.table.begin(app=None if app is None else SetTransaction(*app, None))
        txn.execute(*statements_of(parse(f"APPEND ({k})"), txn.base))
        return txn

    def together(self, *calls: Callable[[], Receipt]) -> list[Receipt | BaseException]:
        """Starts the calls one after the other while the lane is taken, so that all of them wait; then lets them go."""
        waiting = queue_of(self.state)
        with ThreadPoolExecutor(len(calls)) as pool:
            with self.state.lane:
                futures = []
                for n, call in enumerate(calls, 1):
                    futures.append(pool.submit(call))
                    while len(waiting.waiting()) + sum(f.done() for f in futures) < n and not _stuck(waiting, n):
                        threading.Event().wait(0.001)
            return [f.exception() or f.result() for f in futures]

    def keys(self) -> list[int]:
        return [row["k"] for row in self.rows()]


def _stuck(waiting: Any, n: int) -> bool:
    return len(waiting._waiting) >= n


def receipts(found: list[Receipt | BaseException]) -> list[Receipt]:
    assert all(isinstance(f, Receipt) for f in found), found
    return found  # type: ignore[return-value]


def test_those_that_wait_become_one_version() -> None:
    world = World(TRACKED)
    before = world.state.refresh().version
    found = receipts(world.together(*[lambda k=k: world.append(k) for k in range(8)]))
    assert {r.version for r in found} == {before + 1} and {r.group_size for r in found} == {8}
    assert len({r.txn_id for r in found}) == 8 and all(r.metrics["numOutputRows"] == 1 for r in found)
    commit = world.state.log.read_commit(before + 1)
    assert commit is not None and commit.info is not None and commit.info.rowlock is not None
    assert commit.txn_ids == {r.txn_id for r in found} and commit.info.is_blind_append
    assert commit.info.raw["operationMetrics"]["numOutputRows"] == "8"
    assert next(m["txn_id"] for m in commit.info.rowlock["members"]) == commit.txn_id
    snapshot, rows = world.identified(before + 1)
    assert sorted(r["_row_id"] for r in rows) == list(range(8)) and {r["_row_commit_version"] for r in rows} == {before + 1}
    assert row_tracking.high_water_mark(snapshot.domains, "t") == 7
    assert sorted(world.keys()) == list(range(8))


def test_one_alone_is_a_commit_like_any_other() -> None:
    world = World()
    receipt = world.append(1)
    commit = world.state.log.read_commit(receipt.version or -1)
    assert receipt.group_size == 1 and commit is not None and commit.info is not None and "members" not in (commit.info.rowlock or {})


def test_the_property_switches_it_off() -> None:
    world = World({"rowlock.groupCommit": "false"})
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(world.append, range(12)))
    assert len({r.version for r in found}) == 12 and {r.group_size for r in found} == {1}


def test_one_step_of_an_application_counts_once() -> None:
    """The same step given twice at once: one of them commits, the other is told that it is in; another application joins."""
    world = World()
    found = receipts(world.together(lambda: world.append(1, ("a", 5)), lambda: world.append(1, ("a", 5)), lambda: world.append(2, ("b", 1))))
    assert sorted(world.keys()) == [1, 2]
    assert sorted(r.already_committed for r in found) == [False, False, True]
    assert {t.app_id: t.version for t in world.state.refresh().txns.values()} == {"a": 5, "b": 1}


def test_a_member_that_cannot_go_on_fails_alone() -> None:
    """A column that a member wrote was dropped: that one raises, and the others commit."""
    world = World({"delta.columnMapping.mode": "name"})
    alteration.add_columns(world.state, world.engine, [StructField("gone", PrimitiveType("long"))])
    bad = world.table.begin()
    bad.execute(*statements_of(parse("APPEND (7, 7)"), bad.base))
    alteration.drop_columns(world.state, world.engine, [("gone",)])
    found = world.together(lambda: world.append(1), lambda: bad.commit("WRITE"), lambda: world.append(2))
    assert isinstance(found[1], MetadataChangedException)
    assert {r.group_size for r in receipts([found[0], found[2]])} == {2} and sorted(world.keys()) == [1, 2]


def test_a_lost_reply_counts_everybody_once() -> None:
    """I2: the put lands and its reply is lost: all members are told that they won."""
    lost: list[str] = []

    def fault(moment: str, key: str, data: bytes) -> PutOutcome | None:
        if moment == "after" and b'"members"' in data and not lost:
            lost.append(key)
            return Unknown("lost reply")
        return None

    world = World(store=MemoryStore(faults=fault))
    found = receipts(world.together(*[lambda k=k: world.append(k) for k in range(5)]))
    assert lost and len({r.version for r in found}) == 1 and sorted(world.keys()) == list(range(5))


def test_where_nothing_can_be_known_everybody_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(store=MemoryStore(faults=lambda moment, key, data: Unknown("down") if moment == "before" and b'"members"' in data else None))
    monkeypatch.setattr("rowlock.clock.sleep", lambda s: None)
    found = world.together(*[lambda k=k: world.append(k) for k in range(3)])
    assert all(isinstance(f, CommitUnknown) for f in found) and len({f.txn_id for f in found if isinstance(f, CommitUnknown)}) == 3
    assert world.keys() == []


def test_a_leader_that_dies_takes_nobody_with_it() -> None:
    """I2: the leader's thread ends in the middle, after its put: the others find themselves in its version."""

    class Dies(MemoryStore):
        dying = False

        def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
            outcome = super().put_if_absent(key, data)
            if self.dying and b'"members"' in data:
                self.dying = False
                raise KeyboardInterrupt
            return outcome

    store = Dies()
    world = World(store=store)
    store.dying = True
    found = world.together(*[lambda k=k: world.append(k) for k in range(4)])
    assert [type(f) for f in found].count(KeyboardInterrupt) == 1
    others = receipts([f for f in found if not isinstance(f, KeyboardInterrupt)])
    assert len({r.version for r in others}) == 1 and sorted(world.keys()) == list(range(4))


def test_winners_of_another_process_come_between() -> None:
    world = World()
    other = InMemory(store=world.state.store)
    staged = [world.staged(k) for k in range(3)]
    run(other.table, parse("APPEND (100)"))
    run(other.table, parse("UPDATE SET k = 101 WHERE k = 100"))
    found = receipts(world.together(*[lambda t=t: t.commit("WRITE") for t in staged]))
    assert {r.group_size for r in found} == {3} and sorted(world.keys()) == [0, 1, 2, 101]


def test_what_reads_is_never_in_a_group() -> None:
    world = World()
    world.append(1)
    txn = world.table.begin()
    txn.execute(*statements_of(parse("UPDATE SET k = 2"), txn.base))
    found = receipts(world.together(lambda: world.append(5), lambda: world.append(6)))
    receipt = txn.commit("UPDATE")
    assert {r.group_size for r in found} == {2} and receipt.group_size == 1 and sorted(world.keys()) == [2, 2, 2]


def test_a_version_takes_in_only_so_much(monkeypatch: pytest.MonkeyPatch) -> None:
    turn_down(monkeypatch, group_files=3)
    world = World()
    found = receipts(world.together(*[lambda k=k: world.append(k) for k in range(7)]))
    assert max(r.group_size for r in found) == 3 and len({r.version for r in found}) == 3 and sorted(world.keys()) == list(range(7))


def test_members_are_taken_in_the_order_in_which_they_came() -> None:
    world = World(TRACKED)
    members = [Member(world.staged(k), "WRITE", {}) for k in (3, 1, 2)]
    for member in members:
        queue_of(world.state).enter(member)
    assert [m.txn for m in queue_of(world.state).waiting()] == [m.txn for m in members]


@pytest.mark.parametrize("posted", [False, True])
def test_who_leads_and_finds_the_version_full_goes_on(monkeypatch: pytest.MonkeyPatch, posted: bool) -> None:
    """Those who came before have filled it: the lane is not given in the order of the queue."""
    turn_down(monkeypatch, group_files=1)
    world = World()
    first, second = (Member(world.staged(k), "WRITE", {}) for k in (1, 2))
    for member in (first, second):
        member.write()
        queue_of(world.state).enter(member)
    what = LedAppends(second)
    if posted:
        what.post()
    assert commit(what) is second.receipt
    assert second.receipt is not None and first.receipt is not None and second.receipt.version == (first.receipt.version or 0) + 1


def test_what_failed_is_not_committed_by_the_next_leader() -> None:
    """I2: the lane is free again before the failure is told."""
    putting, told = threading.Event(), threading.Event()

    class Refusing(MemoryStore):
        refused = True

        def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
            if not self.refused:
                self.refused = True
                raise StorageError("access was denied for a moment")
            if threading.current_thread().name == "next":
                putting.set()
                assert told.wait(10)
            return super().put_if_absent(key, data)

    class Slow(Lane):
        """The thread that lets it go is not the one that runs then."""

        next: threading.Thread | None = None

        def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
            super().__exit__(kind, error, trace)
            if error is not None:
                self.next = threading.Thread(target=world.append, args=(2,), name="next")
                self.next.start()
                assert putting.wait(10)

    store = Refusing()
    world = World(store=store)
    txn, world.state.lane = world.staged(1), Slow()
    store.refused = False
    with pytest.raises(StorageError):
        txn.commit("WRITE")
    told.set()
    assert world.state.lane.next is not None
    world.state.lane.next.join(10)
    assert world.keys() == [2]


def test_who_fails_outside_of_the_lane_is_told_what_became_of_its_rows() -> None:
    """I2: another thread is putting the version that has the member in it, while the member's own look at the log fails."""
    putting, told = threading.Event(), threading.Event()

    class Store(MemoryStore):
        armed = False

        def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
            if self.armed and threading.current_thread().name == "leader":
                putting.set()
                assert told.wait(10)
            return super().put_if_absent(key, data)

    store = Store()
    world = World(store=store)
    member, leader = world.staged(1), world.staged(2)
    queue_of(world.state).lost_in_a_row = 1  # an append of this process has just lost a put
    refresh = world.state.refresh

    def failing() -> Snapshot:
        if threading.current_thread().name == "member":
            assert putting.wait(10)
            raise StorageError("503 once")
        return refresh()

    world.state.refresh = failing  # type: ignore[method-assign]
    found: dict[str, Receipt | Exception] = {}

    def commit_of(name: str, txn: Transaction) -> None:
        try:
            found[name] = txn.commit("WRITE")
        except StorageError as error:
            found[name] = error

    threads = [threading.Thread(target=commit_of, args=(name, txn), name=name) for name, txn in (("member", member), ("leader", leader))]
    store.armed = True
    threads[0].start()
    while not queue_of(world.state).waiting():
        threading.Event().wait(0.001)
    threads[1].start()
    assert putting.wait(10)
    threading.Event().wait(0.1)
    told.set()
    for thread in threads:
        thread.join(10)
    assert [getattr(found[name], "version", None) for name in ("leader", "member")] == [1, 1] and sorted(world.keys()) == [1, 2]


def test_where_the_store_stays_down_everybody_is_told_that_nothing_is_known() -> None:
    """I2: the put landed, its reply was lost, and no read works any more: no member is told of a failure."""

    class Down(MemoryStore):
        armed = down = False

        def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
            if not self.armed or "_delta_log" not in key:
                return super().put_if_absent(key, data)
            if not self.down:
                super().put_if_absent(key, data)
            self.down = True
            return Unknown("connection reset")

        def __getattribute__(self, name: str) -> Any:
            if name in ("get", "get_tagged", "head", "tag", "list") and self.down:
                raise StorageError("503")
            return super().__getattribute__(name)

    class Hurried(clock.SystemClock):
        def sleep(self, seconds: float) -> None:
            """The tries follow each other at once."""

    store = Down()
    world = World(store=store)
    staged = [world.staged(k) for k in range(3)]
    store.armed = True
    with clock.use(Hurried()):
        found = world.together(*[lambda txn=txn: txn.commit("WRITE") for txn in staged])
    store.armed = store.down = False
    assert all(isinstance(error, CommitUnknown) for error in found) and [error.txn_id for error in found] == [txn.txn_id for txn in staged]
    assert sorted(row["k"] for row in InMemory(store=store).rows()) == [0, 1, 2]


def test_a_leader_that_is_not_in_its_own_lot_is_not_told_of_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """I2: those that came before fill the version, and what became of its put is not known; the leader goes on."""
    turn_down(monkeypatch, group_files=1)

    class Silent(MemoryStore):
        left = 0

        def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
            if self.left and "_delta_log" in key:
                self.left -= 1
                return Unknown("connection reset")
            return super().put_if_absent(key, data)

    class Hurried(clock.SystemClock):
        def sleep(self, seconds: float) -> None:
            """The tries follow each other at once."""

    store = Silent()
    world = World(store=store)
    first, second = (Member(world.staged(k), "WRITE", {}) for k in (1, 2))
    for member in (first, second):
        member.write()
        queue_of(world.state).enter(member)
    store.left = 1 + outcome.TRIES
    with clock.use(Hurried()):
        assert commit(LedAppends(second)).version == 1
    assert isinstance(first.error, CommitUnknown) and first.error.txn_id == first.txn.txn_id and world.keys() == [2]


def test_the_log_says_how_often_an_append_was_put() -> None:
    """Advice counts lost puts by it."""
    world = World()
    receipt = world.append(1)
    record = world.state.log.commits(0, 1)[0].info.raw["rowlock"]
    assert receipt.attempts == record["attempts"] == 1


def test_an_interrupt_is_not_swallowed() -> None:
    """Ctrl-C while another thread commits what waits: it is in, and the program ends all the same."""

    class Interrupted(Lane):
        armed = True

        def enter(self, before_wait: Callable[[], object] = lambda: None) -> Lane:
            if self.armed and threading.current_thread() is threading.main_thread():
                self.armed = False
                other = threading.Thread(target=world.append, args=(2,))
                other.start()
                other.join(10)
                raise KeyboardInterrupt
            return super().enter(before_wait)

    world = World()
    txn, world.state.lane = world.staged(1), Interrupted()
    with pytest.raises(KeyboardInterrupt):
        txn.commit("WRITE")
    assert sorted(world.keys()) == [1, 2]


@pytest.mark.parametrize("lost", ["leader's", "another's"])
def test_a_member_whose_rows_cannot_be_counted_fails_alone(lost: str) -> None:
    """I2, I6: its file says no row count and is gone; the ids of the others' rows do not depend on it."""
    world = World(TRACKED)
    good = [world.staged(k) for k in range(3)]
    bad = world.staged(9)

    def commit(txn: Transaction) -> Receipt:
        return txn.commit("WRITE")

    real = Member.write

    def write(member: Member) -> None:
        real(member)
        if member.txn is bad:
            member.adds = tuple(replace(a, stats=None) for a in member.adds)
            for add in member.adds:
                world.state.store.delete(add.path)
            world.table.engine.files._kept.clear()  # type: ignore[attr-defined]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Member, "write", write)
        order = [bad, *good] if lost == "leader's" else [*good, bad]
        found = world.together(*[lambda t=t: commit(t) for t in order])
    by = dict(zip((t.txn_id for t in order), found, strict=True))
    assert isinstance(by[bad.txn_id], CorruptLog)
    assert {r.version for r in receipts([by[t.txn_id] for t in good])} <= {1, 2}
    assert sorted(world.keys()) == [0, 1, 2]


def test_a_member_without_a_row_count_is_counted() -> None:
    """I6: where the file can be read, whoever leads counts its rows."""
    world = World(TRACKED)
    real = Member.write

    def write(member: Member) -> None:
        real(member)
        member.adds = tuple(replace(a, stats=None) for a in member.adds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Member, "write", write)
        receipts(world.together(*[lambda k=k: world.append(k) for k in range(4)]))
    assert sorted(world.keys()) == [0, 1, 2, 3]
    assert sorted(r["_row_id"] for r in world.identified(world.state.refresh().version)[1]) == [0, 1, 2, 3]


def test_what_another_thread_does_for_a_member_is_no_wait_as_well() -> None:
    """The seconds of a receipt are no more than the call took (drawn once as dynamodb 284,001,586): a leader rebases those that wait."""
    watch = Stopwatch()
    ended = watch.waits()
    watch.add("rebase", 3600.0)
    ended()
    assert watch.seconds == {"rebase": 3600.0, "wait": 0.0}
    watch.waits()()
    assert 0.0 <= watch.seconds["wait"] < 3600.0
