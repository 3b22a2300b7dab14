"""Which requests group commit waits for on a store where each takes long, and that what is asked ahead of time is never acted upon too late (I2, I8)."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from rowlock import clock
from rowlock.protocol import names
from rowlock.storage.store import ObjectMeta, PutOutcome
from rowlock.transaction.commit import commit
from rowlock.transaction.group_commit.between_processes import FOLDER, Board
from rowlock.transaction.group_commit.group import Member, queue_of
from rowlock.transaction.group_commit.lead import LedAppends
from rowlock_simulation.memory.sql.script import parse
from rowlock_simulation.memory.statements import run
from unit.transaction.group_commit.test_group_between_processes import Process, keys, world
from unit.transaction.group_commit.test_group_owners import HOUR_MS, OwnTime, Standing, members_of


class Remote(OwnTime):
    """A store that writes down what is asked of it."""

    is_remote = True

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def list(self, prefix: str = "", *, start_after: str | None = None, recursive: bool = False, limit: int | None = None) -> Iterator[ObjectMeta]:
        self.asked.append(f"list {prefix}")
        return super().list(prefix, start_after=start_after, recursive=recursive, limit=limit)

    def get(self, key: str) -> bytes:
        self.asked.append(f"get {key}")
        return super().get(key)

    def put(self, key: str, data: bytes) -> None:
        self.asked.append(f"put {key}")
        super().put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        self.asked.append(f"commit {key}")
        return super().put_if_absent(key, data)


def background() -> None:
    for thread in [t for t in threading.enumerate() if t.name == "rowlock queue"]:
        thread.join(60)


def led_on(process: Process, k: int) -> Member:
    """An append of a process that led just now."""
    member = Member(process.stage(k), "WRITE", {})
    member.write()
    queue_of(process.state).enter(member)
    what = LedAppends(member)
    what.post()
    commit(what)
    return member


def test_who_led_last_leads_on_without_a_post() -> None:
    """The time of its last commit is the store's present; the others need not be asked whose turn it is."""
    store = Remote()
    a, b = world(store=store)
    b.lead(b.post(1))
    background()
    guest = a.post(2)
    store.asked.clear()
    member = led_on(b, 3)
    background()
    assert member.receipt is not None and member.receipt.group_size == 2 and member.post is None
    assert not any(asked.startswith(f"put {FOLDER}") for asked in store.asked)
    assert not guest.follow(a.state.refresh()) and keys(a) == [1, 2, 3]


def test_who_waits_asks_for_the_next_versions_alone() -> None:
    store = Remote()
    a, _ = world(store=store)
    guest = a.post(1)
    queue_of(a.state).seconds_a_put = 60.0
    store.asked.clear()
    with clock.use(Standing()):
        a.lead(guest)
    waited = store.asked[: store.asked.index(f"list {FOLDER}")]
    assert len(waited) > 2 and {asked for asked in waited if FOLDER not in asked} == {f"get {names.commit_key(n)}" for n in (1, 2)}


def test_what_was_looked_up_ahead_counts_only_on_top_of_the_own_commit() -> None:
    """I2: what a dead process has posted was run again, and committed, while the leader stood still without knowing."""
    store = Remote()
    a, b = world(store=store)
    b.lead(b.post(1))
    background()
    led = queue_of(b.state).led
    assert led is not None
    with clock.use(Standing()):
        queue_of(b.state).last_put = (0.0, queue_of(b.state).last_put[1])
        a.post(2)
        board: Board = b.state.shared("posts of all processes", lambda: None)
        board.look_ahead(b.state.refresh(), led)
        background()
        assert board._ahead[led].posted
        store.ahead_ms += HOUR_MS
        run(Process(store=store).table, parse("APPEND (2)"))
        b.state.refresh()
        led_on(b, 3)
    assert keys(a) == [1, 2, 3] and members_of(b) == [1, 1, 1]


def test_an_append_does_not_wait_for_another_that_reads_the_log() -> None:
    store = Remote()
    process, _ = world(store=store)
    known, reading, may = process.state.refresh(), threading.Event(), threading.Event()
    latest = process.state.log.latest

    def slowly(*given: object) -> object:
        reading.set()
        may.wait(60)
        return latest(*given)  # type: ignore[arg-type]

    process.state.log.latest = slowly  # type: ignore[method-assign, assignment]
    thread = threading.Thread(target=process.state.refresh)
    thread.start()
    reading.wait(60)
    found: list[object] = []
    asks = threading.Thread(target=lambda: found.append(process.state.newest()))
    asks.start()
    asks.join(10)
    may.set()
    thread.join(60)
    assert found == [known]
