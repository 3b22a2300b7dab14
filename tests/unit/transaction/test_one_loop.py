"""Every kind of commit goes one way: nobody waits for another's scan, leases and turns are everybody's, and a put that is lost is made anew (I2, I3, I7, I8)."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from model.schedules.in_memory import InMemory
from model.schedules.play import schema_string
from rowlock import clock
from rowlock.advice import attempts
from rowlock.advice.read_history import read_history
from rowlock.exceptions import CommitUnknown, ConcurrentAppendException, ConstraintViolated, InvalidInput, TableExists
from rowlock.locks.lease import TABLE, Leases
from rowlock.locks.turns import AFTER, Turns
from rowlock.log.snapshot import Snapshot
from rowlock.log.table_log import TableLog
from rowlock.maintenance.restore import restore
from rowlock.protocol import names
from rowlock.protocol.schema import PrimitiveType, StructField
from rowlock.storage.memory import MemoryStore
from rowlock.storage.registers import ObjectRegisters
from rowlock.storage.store import PutOutcome, StorageError, Unknown
from rowlock.transaction.definition import alteration, creation, replacement, table_features
from rowlock.transaction.definition.head_commit import HeadActions, commit_from_head
from rowlock.transaction.lease_line import LeaseLine
from rowlock.transaction.publish import outcome
from rowlock.transaction.state.options import Options
from rowlock.transaction.state.phases import PHASES, Observer, use_observer
from rowlock.transaction.state.receipt import Receipt
from rowlock_simulation.memory.engine import MemoryEngine
from rowlock_simulation.memory.sql.script import parse
from rowlock_simulation.memory.statements import run
from support.locks.clocks import TestClock

COLUMNS = [("k", "long", True), ("v", "long", True)]
SCHEMA = schema_string(COLUMNS)


def world(store: MemoryStore | None = None, engine: type[MemoryEngine] = MemoryEngine, **properties: str) -> InMemory:
    made = InMemory(store=store, engine=engine)
    made.create(SCHEMA, (), {"delta.enableDeletionVectors": "true", **{f"rowlock.{k}": v for k, v in properties.items()}})
    made.run(parse("APPEND (1, 10), (2, 20)"))
    made.run(parse("DELETE WHERE k = 2"))
    return made


def constrain(made: InMemory) -> Receipt:
    return alteration.add_constraint(made.state, made.engine, "small", "k < 100")


def strict(made: InMemory) -> Receipt:
    return alteration.edit_columns(made.state, made.engine, [alteration.ColumnEdit(("k",), nullable=False)])


def add_column(made: InMemory) -> Receipt:
    return alteration.add_columns(made.state, made.engine, [StructField("w", PrimitiveType("long"))])


def set_property(made: InMemory) -> Receipt:
    return creation.set_properties(made.state, {"owner": "me"})


def unset_property(made: InMemory) -> Receipt:
    return creation.unset_properties(made.state, ["delta.enableDeletionVectors"])


def add_feature(made: InMemory) -> Receipt:
    return table_features.add_feature(made.state, "domainMetadata")


def track(made: InMemory) -> Receipt:
    return table_features.set_properties(made.state, made.engine, {"delta.enableRowTracking": "true"})


def replace(made: InMemory) -> Receipt:
    return replacement.replace_table(made.state, creation.new_metadata(SCHEMA, (), {}), properties={})


def bring_back(made: InMemory) -> Receipt:
    return restore(made.table, made.state.log.at(1), {"version": 1})


Change = Callable[[InMemory], Receipt]
CHANGES: list[Change] = [constrain, strict, add_column, set_property, unset_property, add_feature, track, replace, bring_back]
READERS: list[Change] = [constrain, strict, replace, bring_back]
"""Those that ask or take away the rows that are there."""
every = pytest.mark.parametrize("change", CHANGES, ids=lambda c: c.__name__)


# ---- the lane ------------------------------------------------------------------------------------------


class Scanning(MemoryEngine):
    """Its first check of rows lasts until it is told to go on."""

    begun, go, asked = threading.Event(), threading.Event(), list[int]()

    def check_slices(self, slices: Any, **more: Any) -> None:
        Scanning.asked.append(len(slices))
        if len(Scanning.asked) == 1:
            Scanning.begun.set()
            assert Scanning.go.wait(30)
        super().check_slices(slices, **more)


@pytest.fixture
def scanning() -> Iterator[InMemory]:
    Scanning.begun, Scanning.go, Scanning.asked = threading.Event(), threading.Event(), []
    yield world(engine=Scanning)
    Scanning.go.set()


@pytest.mark.parametrize("change", [constrain, strict], ids=lambda c: c.__name__)
@pytest.mark.parametrize("statement", ["APPEND (3, 30)", "UPDATE SET v = 0 WHERE k = 1", "OPTIMIZE"])
def test_nobody_waits_for_the_scan_of_a_new_constraint(change: Change, statement: str, scanning: InMemory) -> None:
    """I8: another thread commits while every row is asked; then what it brought is asked, and no other row again."""
    with ThreadPoolExecutor(2) as pool:
        changing = pool.submit(change, scanning)
        assert Scanning.begun.wait(10)
        theirs = pool.submit(run, scanning.table, parse(statement)).result(10)
        Scanning.go.set()
        ours = changing.result(10)
    assert (theirs.version, ours.version, ours.rounds) == (3, 4, 1)
    assert Scanning.asked == [1, 1], "one file, then the one that came"


def test_a_row_that_came_during_the_scan_is_asked(scanning: InMemory) -> None:
    """I3: the constraint ran after it."""
    with ThreadPoolExecutor(2) as pool:
        changing = pool.submit(constrain, scanning)
        assert Scanning.begun.wait(10)
        pool.submit(run, scanning.table, parse("APPEND (300, 1)")).result(10)
        Scanning.go.set()
        with pytest.raises(ConstraintViolated, match="300"):
            changing.result(10)
    assert scanning.state.refresh().version == 3


# ---- lost puts -------------------------------------------------------------------------------------------


class Rival(Observer):
    """Commits an append before each of the next puts."""

    def __init__(self, made: InMemory, times: int) -> None:
        self._made, self._left, self.seen = made, times, list[tuple[str, Any]]()

    def phase(self, name: str, txn: Any) -> None:
        self.seen.append((name, txn))
        if name == "before_put" and self._left:
            self._left -= 1
            with use_observer(Observer()):
                InMemory(store=self._made.state.store).run(parse(f"APPEND ({50 + self._left % 7}, 1)"))


@every
def test_a_lost_put_is_made_anew(change: Change) -> None:
    """I2, I8: whatever is committed; createOrReplace raised at the first."""
    made = world()
    rival = Rival(made, 2)
    with use_observer(rival):
        receipt = change(made)
    commits = [c for c in made.state.log.history() if c.info is not None and c.info.operation == receipt.operation and c.version > 2]
    assert [c.version for c in commits] == [receipt.version] and receipt.version is not None and receipt.version >= 5
    if change is not track:  # which commits three times
        assert (receipt.attempts, receipt.rounds) == (3, 2)
    kept = {r["k"] for r in made.rows()}
    assert kept == (set() if change is replace else {1, 2} if change is bring_back else {1, 50, 51})


def test_an_alteration_does_not_count_its_lost_puts() -> None:
    """I8: it gave up after a hundred, with an error that spoke of metadata that nobody had changed."""
    made = world()
    with use_observer(Rival(made, 120)):
        assert set_property(made).attempts == 121


@every
def test_an_observer_sees_what_is_committed(change: Change) -> None:
    made = world()
    rival = Rival(made, 1)
    with use_observer(rival):
        receipt = change(made)
    assert [name for name, _ in rival.seen if name not in PHASES] == []
    assert all(txn is not None and txn.operation and txn.txn_id for _, txn in rival.seen)
    assert {"staged", "before_rebase", "rebased", "before_put", "after_put", "committed"} <= {name for name, _ in rival.seen}
    assert {"put", "stage"} <= set(receipt.seconds)


@pytest.mark.parametrize("change", [replace, bring_back], ids=lambda c: c.__name__)
def test_who_removes_rows_and_asked_for_conflicts_is_told(change: Change) -> None:
    """And an account of the try is kept."""
    made = world(onConflict="fail")
    with use_observer(Rival(made, 1)), pytest.raises(ConcurrentAppendException):
        change(made)
    assert attempts.flush() and len(attempts.read(made.state.store)[0]) == 1


@pytest.mark.parametrize("change", [set_property, add_column, add_feature, constrain], ids=lambda c: c.__name__)
def test_changes_that_commute_are_no_conflict_under_fail(change: Change) -> None:
    made = world(onConflict="fail")
    with use_observer(Rival(made, 1)):
        assert change(made).rounds == 1


class Silent(MemoryStore):
    """From now on nobody learns what became of a put, nor can read a commit."""

    is_down = False

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        return Unknown("cut off") if self.is_down else super().put_if_absent(key, data)

    def get(self, key: str) -> bytes:
        if self.is_down and key.endswith(f"{3:020}.json"):
            raise StorageError("503")
        return super().get(key)


class Down(Observer):
    """Silences the store at the first put."""

    def __init__(self, store: Silent) -> None:
        self._store = store

    def phase(self, name: str, txn: Any) -> None:
        self._store.is_down |= name == "before_put"


@every
def test_what_could_not_be_found_out_is_kept_an_account_of(change: Change, monkeypatch: pytest.MonkeyPatch) -> None:
    """I2: the error names the transaction's id, under every kind of commit."""
    monkeypatch.setattr(outcome, "TRIES", 2)
    store = Silent()
    made = world(store)

    with use_observer(Down(store)), pytest.raises(CommitUnknown) as told:
        change(made)
    store.is_down = False
    assert attempts.flush()
    (kept,) = attempts.read(store)[0]
    assert (kept["outcome"], kept["txn_id"]) == ("unknown", told.value.txn_id)


def test_of_two_creations_one_wins() -> None:
    """I1: the second is told, whoever looked first."""
    store = MemoryStore()
    second: list[int | None] = []

    class First(Observer):
        def phase(self, name: str, txn: Any) -> None:
            if name == "before_put" and not second:
                second.append(None)
                second.append(InMemory(store=store).table.create(SCHEMA).version)

    with use_observer(First()), pytest.raises(TableExists):
        InMemory(store=store).table.create(SCHEMA)
    assert second == [None, 0] and TableLog(store).latest().version == 0


# ---- leases and turns ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lock", "change", "waits"), [("table", c, True) for c in CHANGES] + [("writes", c, c in READERS) for c in CHANGES] + [("none", c, False) for c in CHANGES]
)
def test_every_change_of_a_table_stands_in_line(lock: str, change: Change, waits: bool) -> None:
    """rowlock.lock=table is promised to everybody; under `writes` those wait that ask or take away rows."""
    with clock.use(TestClock()) as time:
        made = world(lock=lock, lockTimeout="interval 7 seconds")
        assert Leases(ObjectRegisters(made.state.store), keep=False).acquire([TABLE], 0.0) is not None
        receipt = change(made)
        assert (time.monotonic_s() >= 7) == waits and receipt.version is not None
        assert ("lock" in receipt.seconds) == waits or change is track


def test_what_a_change_waited_for_is_what_it_reads() -> None:
    """It begins anew from what the holder of the lease left: nothing was asked twice."""
    with clock.use(TestClock()) as time:
        assert isinstance(time, TestClock)
        made = world(lock="table", lockTimeout="interval 60 seconds")
        lease = Leases(ObjectRegisters(made.state.store), keep=False).acquire([TABLE], 0.0)
        assert lease is not None
        time.on_sleep = [lambda: run(made.table, parse("APPEND (5, 5)"), Options(lock="none")), lease.release]
        receipt = constrain(made)
        assert (receipt.read_version, receipt.version, receipt.rounds, receipt.attempts) == (3, 4, 0, 1)


@every
def test_every_change_honours_a_turn(change: Change) -> None:
    """I8: a long writer whose turn it is loses to nobody, whatever the others commit."""
    with clock.use(TestClock()) as time:
        made = world()
        creation.set_properties(made.state, {"begun": "yes"})  # a process that has just begun does not look before its first put
        registers = ObjectRegisters(made.state.store)
        long = Turns(lambda: registers).request("another")
        for puts in range(AFTER + 1):  # so often it has lost, and so long it has worked
            clock.sleep(3.0)
            long.before_put(puts)
        before = time.monotonic_s()
        change(made)
        assert time.monotonic_s() - before >= 1.0, "it did not wait while another had the turn"


@every
def test_a_change_that_loses_takes_a_turn(change: Change) -> None:
    """Its puts are counted as those of every writer."""
    with clock.use(TestClock()):
        made, seen = world(), list[bytes]()

        class Loses(Rival):
            def phase(self, name: str, txn: Any) -> None:
                if name == "before_put":
                    clock.sleep(2.0)
                super().phase(name, txn)
                seen.extend(made.state.store.get(k) for k in turns_of(made))

        with use_observer(Loses(made, AFTER + 1)):
            change(made)
        assert any(b'"holder":"' in cell for cell in seen)


def turns_of(made: InMemory) -> list[str]:
    return [m.key for m in made.state.store.list("_rowlock", recursive=True) if "turn" in m.key]


def test_the_first_put_of_an_alteration_needs_no_provider() -> None:
    """I7: nothing is written beside a table whose writers wait for nobody."""
    made = world()
    for change in (set_property, add_column, constrain):
        change(made)
    assert not list(made.state.store.list("_rowlock", recursive=True))
    assert names.commit_key(5) in {m.key for m in made.state.store.list("_delta_log")}


# ---- what a second reading found -------------------------------------------------------------------------


def with_property(made: InMemory, name: str, value: str) -> None:
    """As another engine sets it, which asks nothing."""

    def make(head: Snapshot) -> HeadActions:
        return HeadActions(metadata=dataclasses.replace(head.metadata, configuration={**head.metadata.configuration, name: value}))

    assert commit_from_head(made.state, "SET TBLPROPERTIES", {}, make).version is not None


@pytest.mark.parametrize("knob", ["onConflict", "isolation", "granularity", "lock"])
@pytest.mark.parametrize("change", [set_property, add_column, add_feature, constrain, track], ids=lambda c: c.__name__)
def test_a_knob_of_a_later_version_can_be_mended(knob: str, change: Change) -> None:
    """I9: statements name it and refuse; what changes the definition goes on, or nobody could ever take the knob away."""
    made = world()
    with_property(made, f"rowlock.{knob}", "of tomorrow")
    assert change(made).version is not None
    with pytest.raises(InvalidInput, match="of tomorrow") as told:
        replace(made)
    assert told.value.table == made.state.store.root
    assert creation.unset_properties(made.state, [f"rowlock.{knob}"]).version is not None
    assert made.run(parse("DELETE WHERE k = 1")).version is not None


def renamed(made: InMemory) -> None:
    other = InMemory(store=made.state.store)
    for old, new in (("k", "x"), ("v", "k"), ("x", "v")):
        alteration.rename_column(other.state, other.engine, (old,), new)


def made_anew(made: InMemory) -> None:
    other = InMemory(store=made.state.store)
    alteration.drop_columns(other.state, other.engine, [("k",)])
    alteration.add_columns(other.state, other.engine, [StructField("k", PrimitiveType("long"))])


@pytest.mark.parametrize(("rivals", "change"), [(renamed, constrain), (renamed, strict), (made_anew, strict)])
def test_a_name_that_means_another_column_is_asked_of_all_rows(rivals: Callable[[InMemory], None], change: Change) -> None:
    """I3: no file changed, and every value did."""
    made = InMemory()
    made.create(SCHEMA, (), {"delta.columnMapping.mode": "name"})
    made.run(parse("APPEND (1, 1000), (2, null)"))

    class Meanwhile(Observer):
        def phase(self, name: str, txn: Any) -> None:
            if name == "staged":
                with use_observer(Observer()):
                    rivals(made)

    with use_observer(Meanwhile()), pytest.raises(ConstraintViolated):
        change(made)


def test_a_change_inside_of_a_block_does_not_wait_for_the_blocks_own_lease() -> None:
    """I8: it stood still until its time was over."""
    with clock.use(TestClock()) as time:
        made = world(lock="table", lockTimeout="interval 60 seconds")
        txn = made.table.begin()
        with LeaseLine(made.state) as line:
            line.join(txn, ())
            before = time.monotonic_s()
            assert set_property(made).version is not None and time.monotonic_s() == before
        assert Leases(ObjectRegisters(made.state.store), keep=False).acquire([TABLE], 0.0) is not None, "it is given back"


def test_a_lease_that_is_no_more_is_none_of_the_threads() -> None:
    """I8: one that was lost, or whose giving back was cut off, keeps nobody from standing in line."""
    with clock.use(TestClock()) as time:
        made = world(lock="table", lockTimeout="interval 5 seconds")
        for how in ("lost", "interrupted"):
            line = LeaseLine(made.state)
            line.join(made.table.begin(), ())
            (lease,) = line._held
            if how == "lost":
                lease.lost = True
            else:
                release, lease.release = lease.release, interrupting  # type: ignore[method-assign]
                with pytest.raises(KeyboardInterrupt):
                    line.leave()
                release()
            Leases(ObjectRegisters(made.state.store), keep=False).acquire([TABLE], 100.0)
            before = time.monotonic_s()
            assert creation.set_properties(made.state, {"owner": how}).version is not None and time.monotonic_s() >= before + 5
            clock.sleep(60)


def interrupting() -> None:
    raise KeyboardInterrupt


def test_a_change_of_the_definition_that_failed_is_no_change_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Advice on locks counts the tries of those who change rows."""
    monkeypatch.setattr(outcome, "TRIES", 2)
    store = Silent()
    made = world(store)

    with use_observer(Down(store)), pytest.raises(CommitUnknown):
        set_property(made)
    store.is_down = False
    assert attempts.flush()
    (failed,) = read_history(store).failed
    assert failed.definition and not failed.changes
