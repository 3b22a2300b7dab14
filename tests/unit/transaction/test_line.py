"""The lock knob: who waits for what, and when, on the in-memory engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

import rowlock
from model.schedules.in_memory import InMemory
from model.schedules.play import schema_string
from rowlock import clock
from rowlock.api.multi_table import MultiTableTransaction
from rowlock.exceptions import DeltaConcurrentModificationException, InvalidInput
from rowlock.locks.lease import TABLE, Lease, Leases, Scope
from rowlock.log.snapshot import Snapshot
from rowlock.storage import LocalStore
from rowlock.storage.registers import ObjectRegisters
from rowlock.transaction import lease_line
from rowlock.transaction.definition.head_commit import HeadActions, commit_from_head
from rowlock.transaction.lease_line import LeaseLine, scopes_under
from rowlock.transaction.state.options import Options
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import SharedState, state_of
from rowlock.transaction.transaction import Planned, StagingTransaction, run as run_plan
from rowlock_simulation.memory.sql.script import Append, Delete, Optimize, Overwrite, Script, parse
from rowlock_simulation.memory.statements import run, statements_of
from support.locks.clocks import TestClock

SCHEMA = schema_string([("k", "long", True), ("v", "long", True), ("p", "long", True)])
UPDATE = parse("UPDATE SET v = v + 1 WHERE k = 1 AND p = 1")
MERGE = parse("MERGE USING (k, v, p: (1, 10, 1), (2, 20, 2)) ON t.k = s.k AND t.p = s.p WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *")
ADDS = Append(((9, 9, 9),))
P1, P2 = frozenset({("p", "=1")}), frozenset({("p", "=2")})


@pytest.fixture(autouse=True)
def time() -> Iterator[TestClock]:
    with clock.use(TestClock()) as made:
        assert isinstance(made, TestClock)
        yield made


def world(**properties: str) -> InMemory:
    made = InMemory()
    made.create(SCHEMA, ("p",), {f"rowlock.{k}": v for k, v in properties.items()} | {"delta.enableDeletionVectors": "true"})
    made.run(Append(((1, 0, 1), (2, 0, 2))))
    return made


def held(made: InMemory, *scopes: Scope) -> Lease:
    """A lease of somebody else."""
    lease = Leases(ObjectRegisters(made.state.store), keep=False).acquire(scopes or [TABLE], 0.0)
    assert lease is not None
    return lease


WAITS: list[tuple[str, Script, set[Scope]]] = [
    *[("none", script, set()) for script in (UPDATE, MERGE, ADDS)],
    *[("writes", script, {TABLE}) for script in (UPDATE, MERGE, Delete("k = 1"), Overwrite(((1, 1, 1),)))],
    *[("writes", script, set()) for script in (ADDS, Optimize())],
    *[("table", script, {TABLE}) for script in (UPDATE, MERGE, ADDS, Optimize(), Overwrite(((1, 1, 1),)))],
    ("partition", UPDATE, {P1}),
    ("partition", MERGE, {P1, P2}),
    ("partition", Delete("k = 1"), {TABLE}),
    ("partition", Delete("p = 1 OR p = 2"), {P1, P2}),
    ("partition", Overwrite(((1, 1, 1),), "p = 1"), {P1}),
    ("partition", Overwrite(((1, 1, 1),)), {TABLE}),
    ("partition", ADDS, set()),
    ("auto", UPDATE, set()),
]


@pytest.mark.parametrize(("lock", "script", "scopes"), WAITS, ids=lambda x: x if isinstance(x, str) else type(x).__name__)
def test_what_each_lock_waits_for(lock: str, script: Script, scopes: set[Scope]) -> None:
    snapshot = world().state.refresh()
    statements = statements_of(script, snapshot)
    assert scopes_under(lock, statements, snapshot, False, lambda: lease_line.advised_lock(world().state)) == scopes
    whole = set() if lock in ("none", "auto") else {TABLE}
    assert scopes_under(lock, (), snapshot, True, lambda: "none") == whole, "what reads the table as a whole"


def test_without_a_lock_nothing_is_written_beside_the_table() -> None:
    made = world()
    run(made.table, UPDATE)
    assert not list(made.state.store.list("_rowlock", recursive=True))


def test_a_writer_waits_before_it_works_and_then_reads_what_the_holder_left(time: TestClock) -> None:
    """The holder commits while another waits: that one begins from there, and rebases nothing."""
    made = world(lock="writes")
    lease = held(made)
    time.on_sleep = [lambda: run(made.table, UPDATE, Options(lock="none")), lease.release]
    receipt = run(made.table, UPDATE)
    assert (receipt.read_version, receipt.version, receipt.rounds, receipt.attempts) == (2, 3, 0, 1)
    assert receipt.seconds["lock"] > 0
    commit = made.state.log.read_commit(3)
    assert commit is not None and commit.info is not None and commit.info.rowlock is not None and commit.info.rowlock["seconds"]["lock"] > 0
    assert {r["k"]: r["v"] for r in made.rows()} == {1: 2, 2: 0}
    assert not Leases(ObjectRegisters(made.state.store)).holders().grants, "it is given back"


@pytest.mark.parametrize(
    ("lock", "script", "waits"),
    [("writes", ADDS, False), ("writes", UPDATE, True), ("table", ADDS, True), ("partition", ADDS, False), ("partition", UPDATE, True)],
)
def test_appends_wait_under_table_only(lock: str, script: Script, waits: bool, time: TestClock) -> None:
    made = world(lock=lock)
    held(made)
    receipt = run(made.table, script, Options(lock_timeout=5.0))
    assert receipt.version == 2 and ("lock" in receipt.seconds) == waits and (time.monotonic_s() >= 5) == waits


def test_writers_of_other_partitions_do_not_wait(time: TestClock) -> None:
    made = world(lock="partition", lockKey="k")
    held(made, P2)
    assert run(made.table, UPDATE).version == 2 and time.monotonic_s() < 1
    assert run(made.table, parse("UPDATE SET v = 5 WHERE p = 2"), Options(lock_timeout=3.0)).version == 3 and time.monotonic_s() >= 3


def test_after_its_time_a_writer_goes_on_without_a_lease(time: TestClock, caplog: pytest.LogCaptureFixture) -> None:
    made = world(lock="table", lockTimeout="interval 7 seconds", lockTerm="interval 5 minutes")
    lease = held(made)
    assert run(made.table, UPDATE).version == 2 and 7 <= time.monotonic_s() < 8
    assert "goes on without" in caplog.text
    assert [g.id for g in Leases(ObjectRegisters(made.state.store)).holders().grants] == [lease.id]


def test_a_lease_is_given_back_when_the_statement_raises() -> None:
    made = world(lock="writes")
    double = parse("MERGE USING (k, v, p: (1, 1, 1), (1, 2, 1)) ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v")
    with pytest.raises(Exception, match="match"):
        run(made.table, double)
    assert not Leases(ObjectRegisters(made.state.store)).holders().grants


def test_a_provider_that_cannot_be_had_makes_nobody_fail(caplog: pytest.LogCaptureFixture) -> None:
    made = world(lock="writes", lockProvider="dynamodb:nowhere")
    made.state.shared("registers dynamodb:nowhere", lambda: None)  # every call on it raises
    assert run(made.table, UPDATE).version == 2
    assert "goes on without" in caplog.text


def test_a_statement_that_comes_later_waits_for_nobody(time: TestClock) -> None:
    """A transaction that holds a lease takes further ones only where they are free: two that cross do not block each other."""
    made = world()
    theirs = held(made, P2)
    with LeaseLine(made.state) as mine:
        txn = made.table.begin(Options(lock="partition", lock_timeout=60.0))
        assert not mine.join(txn, statements_of(UPDATE, txn.base)) and mine.scopes == {P1}
        second = statements_of(parse("UPDATE SET v = 1 WHERE p = 2"), txn.base)
        mine.join(txn, second)
        assert mine.scopes == {P1} and time.monotonic_s() < 1
        theirs.release()
        mine.join(txn, second)
        assert mine.scopes == {P1, P2}
        mine.join(txn, second)
        assert len(Leases(ObjectRegisters(made.state.store)).holders().grants) == 2, "what is held is not asked for again"
    assert not Leases(ObjectRegisters(made.state.store)).holders().grants


def test_several_statements_under_table_wait_before_the_first_is_planned(time: TestClock) -> None:
    """Planning an append may write its rows: it is not done twice where the head moves during the wait."""
    made = world(lock="table")
    lease = held(made)
    time.on_sleep = [lambda: run(made.table, ADDS, Options(lock="none")), lease.release]
    planned: list[int] = []

    def plan(base: Snapshot) -> Planned:
        planned.append(base.version)
        return statements_of(UPDATE, base), {"predicate": "k = 1"}

    with LeaseLine(made.state) as line:
        staging = StagingTransaction(line, lambda reruns: made.table.begin(reruns=reruns))
        assert [staging.stage(plan), staging.stage(plan)] == [{"predicate": "k = 1"}] * 2
        receipt = staging.txn.commit("UPDATE", {})
    assert planned == [2, 2] and (receipt.read_version, receipt.version) == (2, 3) and receipt.seconds["lock"] > 0
    assert {r["k"]: r["v"] for r in made.rows()} == {1: 2, 2: 0, 9: 9}


@pytest.mark.parametrize(("policy", "runs"), [("rerun", 3), ("fail", 1)])
def test_a_plan_runs_again_by_policy(policy: str, runs: int) -> None:
    """Twice another deletes the row that the plan updates."""
    made = world(onConflict=policy, granularity="file")
    planned: list[int] = []

    def plan(base: Snapshot) -> Planned:
        planned.append(base.version)
        if len(planned) < 3:
            run(made.table, parse("UPDATE SET v = v + 10 WHERE k = 1 AND p = 1"))
        return statements_of(UPDATE, base), {}

    def call() -> Receipt:
        return run_plan(made.table, "UPDATE", plan)

    if policy == "fail":
        with pytest.raises(DeltaConcurrentModificationException):
            call()
    else:
        commit = made.state.log.read_commit(call().version or 0)
        assert commit is not None and commit.info is not None and commit.info.rowlock is not None and commit.info.rowlock["reruns"] == 2
        assert {r["k"]: r["v"] for r in made.rows()} == {1: 21, 2: 0}
    assert len(planned) == runs


@pytest.mark.parametrize("advice", ["none", "writes", "table", "partition"])
def test_auto_does_as_it_is_advised(advice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world(lock="auto")
    asked: list[SharedState] = []

    def advise(state: SharedState) -> str:
        asked.append(state)
        return advice

    monkeypatch.setattr(lease_line, "advised_lock", advise)
    receipt = run(made.table, UPDATE)
    assert asked[0] == made.state and ("lock" in receipt.seconds) == (advice != "none")


def test_restore_waits_for_the_table(time: TestClock) -> None:
    made = world(lock="writes", lockTimeout="interval 4 seconds")
    made.run(ADDS)
    held(made)
    assert made.restore(1).version == 3 and time.monotonic_s() >= 4


@pytest.mark.parametrize("seconds", [-1.0, float("nan")])
def test_a_wrong_time_to_wait_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidInput, match="lock_timeout"):
        Options(lock_timeout=seconds)


@pytest.mark.parametrize(("lock", "waits"), [("table", True), ("writes", False), ("partition", False), ("auto", False)])
def test_an_append_without_spark_waits_before_it_reads_its_rows(lock: str, waits: bool, tmp_path: Path, time: TestClock) -> None:
    """Its rows come from a reader that can be read once: where it waits, then before it stages one of them."""
    batch = pa.record_batch({"k": [1, 2]})
    rowlock.append(tmp_path, pa.table({"k": [0]}), properties={"rowlock.lock": lock})
    lease = Leases(ObjectRegisters(LocalStore(tmp_path)), keep=False).acquire([TABLE], 0.0)
    assert lease is not None
    staged: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        staged.append(len(time.on_sleep))
        yield batch

    if waits:
        time.on_sleep = [
            lambda: commit_from_head(state_of(LocalStore(tmp_path)), "NOTHING", {}, lambda head: HeadActions(), options=Options(lock="none")),
            lease.release,
        ]
    receipt = rowlock.append(tmp_path, pa.RecordBatchReader.from_batches(batch.schema, batches()))
    assert (receipt.read_version, receipt.version) == ((1, 2) if waits else (0, 1))
    assert ("lock" in receipt.seconds) == waits and staged == [0]
    assert sorted(rowlock.to_arrow(tmp_path)["k"].to_pylist()) == [0, 1, 2]


def test_who_gave_up_waiting_works_once_whoever_commits_meanwhile() -> None:
    """I7, I8: numbers of identity columns are reserved while it plans, by a commit of its own; each further plan would throw them away."""
    made = world(lock="table")
    held(made)
    planned: list[int] = []

    def plan(base: Snapshot) -> Planned:
        planned.append(base.version)
        assert len(planned) < 3, "and so on, for as long as the other holds its lease"
        commit_from_head(made.state, "RESERVE IDENTITY", {}, lambda head: HeadActions(), options=Options(lock="none"))
        return statements_of(ADDS, base), {}

    with LeaseLine(made.state) as line:
        staging = StagingTransaction(line, lambda reruns: made.table.begin(Options(lock_timeout=1.0), reruns=reruns))
        staging.stage(plan)
        assert staging.txn.commit("WRITE", {}).version == 3
    assert planned == [1]


class Opened:
    """A table's part of a transaction over several tables, as far as it waits."""

    def __init__(self, made: InMemory) -> None:
        self.handle, self.head, self.line = SimpleNamespace(state=made.state), made.state.refresh(), LeaseLine(made.state)
        self.txn = made.table.begin(Options(lock="table"), snapshot=self.head)

    def wait(self) -> bool:
        return self.line.join(self.txn, (), reads_table=True)

    def begin_at(self, head: Snapshot) -> None:
        self.head = head


def test_a_transaction_over_several_tables_takes_all_leases_where_the_first_table_moved_meanwhile() -> None:
    """Where one had moved, those after it were not waited for, and the transaction went on without their leases."""
    tables = [world(), world()]
    both = object.__new__(MultiTableTransaction)
    both._opened = [Opened(t) for t in tables]  # type: ignore[misc]
    both._handles = [opened.handle for opened in both._opened]
    heads = [opened.head for opened in both._opened]  # type: ignore[attr-defined]
    for t in tables:
        t.run(Append(((3, 0, 1),)))
    both._wait(heads)
    assert [opened.line.scopes for opened in both._opened] == [{TABLE}, {TABLE}]  # type: ignore[attr-defined]
    assert [opened.head.version for opened in both._opened] == [head.version + 1 for head in heads]  # type: ignore[attr-defined]
    for opened in both._opened:
        opened.line.leave()  # type: ignore[attr-defined]
