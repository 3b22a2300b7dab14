"""`rowlock.lock=auto`: what a writer is told, how seldom that costs it something, and that it cannot fail by it (I7)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rowlock import clock
from rowlock.advice.advice import advise, lock_for
from rowlock.advice.history import History, Run
from rowlock.log.table_log import TableLog
from rowlock.transaction.lease_line import REREAD_COMMITS, REREAD_S, advised_lock
from rowlock.transaction.state.shared import SharedState
from rowlock.transaction.transaction import Options, Table
from rowlock_simulation.memory.engine import MemoryEngine
from rowlock_simulation.memory.sql.script import parse
from rowlock_simulation.memory.statements import run
from unit.advice import histories
from unit.advice.world import SlowStore, VirtualClock


class Counting(SlowStore):
    """Counts what is read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.broken = False

    def get(self, key: str) -> bytes:
        self.reads += 1
        if self.broken:
            raise OSError("gone")
        return super().get(key)


@pytest.fixture(scope="module")
def hot() -> Counting:
    store = Counting()
    histories.hot_rows(store=store)
    return store


def state_of(store: SlowStore) -> SharedState:
    return SharedState(TableLog(store), store)


def test_a_writer_is_told_what_the_history_says(hot: Counting) -> None:
    quiet = SlowStore()
    histories.disjoint_merges(store=quiet)
    assert (advised_lock(state_of(hot)), advised_lock(state_of(quiet))) == ("writes", "none")


def test_the_history_is_read_once_and_then_seldom(hot: Counting) -> None:
    state, time = state_of(hot), VirtualClock()
    with clock.use(time):
        advised_lock(state)
        before = hot.reads
        for _ in range(50):
            assert advised_lock(state) == "writes"
        assert hot.reads == before, "nothing is read within some seconds"
        time.sleep(REREAD_S)
        advised_lock(state)
        assert hot.reads - before <= 6, "no commit has come: the head is looked at, and no history"


def test_after_enough_commits_the_answer_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    store, asked, time = SlowStore(), [], VirtualClock()
    histories.appends_only(store=store)
    state = state_of(store)
    table = Table(state.log, MemoryEngine(store), state=state)
    monkeypatch.setattr("rowlock.advice.advice.lock_for", lambda history, current: asked.append((len(history.commits), current)) or "partition")
    with clock.use(time):
        for n in range(REREAD_COMMITS + 1):
            assert advised_lock(state) == "partition"
            run(table, parse(f"APPEND ({n}, 0)"))
            time.sleep(REREAD_S)
        advised_lock(state)
    assert asked == [(62, None), (62 + REREAD_COMMITS, "partition")], "and it knows what it has said"


def test_a_history_that_cannot_be_read_is_no_lock(caplog: pytest.LogCaptureFixture) -> None:
    store = Counting()
    histories.hot_rows(store=store)
    store.broken = True
    assert advised_lock(state_of(store)) == "none" and "no advice on a lock" in caplog.text


def locked(history: History, wait_s: float) -> History:
    """The changes of a history as if each had taken a lease, for which it waited 0.01 s and up to `wait_s` more."""

    def one(n: int, run: Run) -> Run:
        seconds = dict(run.seconds) | {"lock": 0.01 + (wait_s if n % 2 else 0.0)}
        return replace(run, seconds=seconds, read_version=(run.version or 1) - 1, rerun_of=(), thrown_seconds=0.0) if run.changes else run

    return replace(history, runs=[one(n, r) for n, r in enumerate(history.commits)])


def test_a_new_process_keeps_the_lock_that_others_queue_for() -> None:
    history = histories.hot_rows()
    assert lock_for(locked(history, 1.0)) == "writes", "no conflict is left to be seen, but there is a queue"
    assert lock_for(locked(history, 0.0)) == "none", "nobody waits any more: what a free lease costs is no queue"
    auto = replace(locked(history, 1.0), properties={"rowlock.lock": "auto"})
    assert advise(auto).lock == "writes" and "rowlock.lock" not in advise(auto).settings
    assert "Writers queue for the lock, 0.5 s each" in advise(auto).reasons[0].text


@pytest.mark.parametrize(("name", "waits"), [("hot_rows", True), ("disjoint_merges", False), ("appends_only", False)])
def test_a_statement_under_auto_takes_a_lease_where_the_history_says_so(name: str, waits: bool) -> None:
    store = SlowStore()
    getattr(histories, name)(store=store)
    state = state_of(store)
    table = Table(state.log, MemoryEngine(store), state=state)
    with clock.use(VirtualClock()):
        change = run(table, parse("UPDATE SET v = v + 1 WHERE k = 7"), Options(lock="auto", lane=False))
        append = run(table, parse("APPEND (500, 0)"), Options(lock="auto", lane=False))
    assert ("lock" in change.seconds) == waits and "lock" not in append.seconds
