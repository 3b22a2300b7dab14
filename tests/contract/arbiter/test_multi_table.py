"""Transactions over several tables, on the engine in memory: all or none, and serializable across tables (I1, I2, I3); under one DynamoDB arbiter, and without."""

from __future__ import annotations

import random
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from contract.arbiter.transfers import Bank, begin, end, stage, transfer
from contract.arbiter.world import TABLE, Faulty
from model.schedules.in_memory import InMemory
from model.schedules.play import schema_string
from rowlock import clock
from rowlock.exceptions import CommitUnknown, CorruptLog, DeltaConcurrentModificationException, InvalidInput
from rowlock.protocol.actions import SetTransaction
from rowlock.protocol.names import commit_key
from rowlock.protocol.prepared import prepared_by
from rowlock.storage import LocalStore, MemoryStore, ObjectStore, Unknown
from rowlock.storage.dynamodb import ArbitratedStore, EntryTable
from rowlock.transaction.multi_table import MultiTableReceipt, check_tables, heads_together
from rowlock.transaction.state.options import Options
from rowlock.transaction.state.phases import Observer, use_observer
from rowlock_simulation.memory.sql.script import parse
from support.locks.clocks import TestClock

SCHEMA = schema_string([("k", "long", True), ("v", "long", True)])


def filled(store: ObjectStore, **properties: str) -> InMemory:
    table = InMemory(store=store)
    table.create(SCHEMA, (), {"delta.enableDeletionVectors": "true", **properties})
    table.run(parse("APPEND (1, 100), (2, 100), (3, 100)"))
    return table


def bank(client: Any, tables: int = 2) -> Bank:
    return [filled(ArbitratedStore(MemoryStore(f"s3://bucket/{uuid.uuid4()}"), EntryTable(client, TABLE), scheme="s3a")) for _ in range(tables)]


def same_tables(bank: Bank, client: Any) -> Bank:
    """The tables as another process opens them."""
    return [InMemory(store=ArbitratedStore(b.state.store.inner, EntryTable(client, TABLE), scheme="s3a")) for b in bank]  # type: ignore[attr-defined]


@dataclass
class Way:
    """Tables of a kind: under one arbiter, or on a local disk, where the home is the first of them, or the last."""

    client: Any
    folder: Path
    home_is_last: bool

    def bank(self, tables: int = 2) -> Bank:
        if self.client is not None:
            return bank(self.client, tables)
        made = [filled(LocalStore(self.folder / str(n)), **{"delta.enableRowTracking": "true"}) for n in range(tables)]
        return sorted(made, key=lambda t: t.state.refresh().metadata.id, reverse=self.home_is_last)

    def again(self, tables: Bank) -> Bank:
        return same_tables(tables, self.client) if self.client is not None else [InMemory(store=LocalStore(b.state.store.root)) for b in tables]


@pytest.fixture(params=["arbiter", "local disk", "home last"])
def way(request: pytest.FixtureRequest, tmp_path: Path) -> Way:
    return Way(request.getfixturevalue("client") if request.param == "arbiter" else None, tmp_path, request.param == "home last")


def run(bank: Bank, *texts: str, options: Options | None = None, app: SetTransaction | None = None) -> MultiTableReceipt:
    txns = begin(bank, options, app)
    for txn, text in zip(txns, texts, strict=True):
        if text:
            stage(txn, text)
    return end(txns, *texts)


def total(bank: Bank) -> int:
    return sum(row["v"] for b in bank for row in b.rows())


def values(table: InMemory) -> dict[int, int]:
    return {row["k"]: row["v"] for row in table.rows()}


def test_both_versions_carry_one_id_and_name_each_other(client: Any) -> None:
    a, b = tables = bank(client)
    receipt = run(tables, "UPDATE SET v = v - 10 WHERE k = 1", "UPDATE SET v = v + 10 WHERE k = 1")
    assert receipt.versions == {t.state.store.root: 2 for t in tables} and not receipt.pending and receipt.attempts == 1
    for t in tables:
        written = t.state.log.read_commit(2)
        assert written is not None and written.info is not None and written.info.txn_id == receipt.txn_id
        record = written.info.raw["rowlock"]["tables"]
        assert {(r["table"], r["version"]) for r in record} == {(a.state.store.root, 2), (b.state.store.root, 2)}
    assert values(a)[1] == 90 and values(b)[1] == 110
    assert "2 tables: committed together" in str(receipt) and receipt.txn_id in receipt._repr_html_()


def test_each_table_is_rebased_over_its_own_winners(way: Way) -> None:
    a, b = tables = way.bank()
    txns = begin(tables)
    stage(txns[0], "UPDATE SET v = v - 10 WHERE k = 1")
    stage(txns[1], "UPDATE SET v = v + 10 WHERE k = 1")
    a.run(parse("UPDATE SET v = v * 2 WHERE k = 1"))
    b.run(parse("DELETE WHERE k = 2"))
    receipt = end(txns, "UPDATE SET v = v - 10 WHERE k = 1", "UPDATE SET v = v + 10 WHERE k = 1")
    assert values(a)[1] == 190 and values(b) == {1: 110, 3: 100}
    assert receipt.tables[a.state.store.root].rows_rebased == 1 and receipt.versions[a.state.store.root] == (4 if way.home_is_last else 3)


def test_a_conflict_in_one_table_leaves_all_as_they_are(way: Way) -> None:
    a, b = tables = way.bank()
    txns = begin(tables, Options(on_conflict="fail"))
    stage(txns[0], "UPDATE SET v = v - 10 WHERE k = 1")
    stage(txns[1], "UPDATE SET v = v + 10 WHERE k = 1")
    b.run(parse("UPDATE SET v = 7 WHERE k = 1"))
    with pytest.raises(DeltaConcurrentModificationException) as raised:
        end(txns, "UPDATE SET v = v - 10 WHERE k = 1", "UPDATE SET v = v + 10 WHERE k = 1")
    assert raised.value.table == b.state.store.root
    assert values(a)[1] == 100 and a.state.refresh().version == 1


@pytest.mark.parametrize(("level", "skewed"), [("serializable", False), ("write_serializable", False), ("snapshot", True)])
def test_write_skew(way: Way, level: Any, skewed: bool) -> None:
    """Each reads what the other writes: one of them must see the other, unless the level is snapshot."""
    a, b = tables = way.bank()
    options = Options(isolation=level)
    one, two = begin(tables, options), begin(way.again(tables), options)
    one[0].note_read()
    stage(one[1], "UPDATE SET v = 0 WHERE k = 1")
    two[1].note_read()
    stage(two[0], "UPDATE SET v = 0 WHERE k = 1")
    end(one, "", "UPDATE SET v = 0 WHERE k = 1")
    if skewed:
        end(two, "UPDATE SET v = 0 WHERE k = 1", "")
    else:
        with pytest.raises(DeltaConcurrentModificationException):
            end(two, "UPDATE SET v = 0 WHERE k = 1", "")
    assert (values(a)[1], values(b)[1]) == (0 if skewed else 100, 0)


def test_a_read_table_that_moves_right_before_the_put_is_looked_at_again(way: Way) -> None:
    """The condition of the put, not the look before it, says that a table that was only read has not moved."""
    a, b = tables = way.bank()
    other = way.again(tables)[0]

    class Between(Observer):
        def phase(self, name: str, txn: Any) -> None:
            if name == "before_put" and a.state.look().version == 1:
                with use_observer(Observer()):
                    other.run(parse("UPDATE SET v = 5 WHERE k = 1"))

    with use_observer(Between()):
        txns = begin(tables)
        txns[0].note_read()
        stage(txns[1], "UPDATE SET v = 0 WHERE k = 1")
        with pytest.raises(DeltaConcurrentModificationException):
            end(txns, "", "UPDATE SET v = 0 WHERE k = 1")
    assert values(b)[1] == 100


def test_a_statement_that_matched_no_row_counts_as_a_read(way: Way) -> None:
    a, _ = tables = way.bank()
    other = way.again(tables)[0]
    moved = []

    class Between(Observer):
        def phase(self, name: str, txn: Any) -> None:
            if name == "before_put" and not moved:
                with use_observer(Observer()):
                    moved.append(other.run(parse("APPEND (9, 1)")))

    with use_observer(Between()):
        receipt = run(tables, "UPDATE SET v = v + 1 WHERE k = 9", "APPEND (9, 0)")
    assert moved and values(a)[9] == 2 and len(receipt.versions) == 2, "the row came first, and the update found it"


def test_only_the_home_of_the_attempt_that_is_committed_names_what_was_prepared(tmp_path: Path) -> None:
    """I2: the first attempt has nothing to write in a, so b is its home; it is given up, and then a is the home.  The version of b still named what the first had prepared."""
    way = Way(None, tmp_path, home_is_last=False)
    a, b = tables = way.bank()
    other = way.again(tables)[0]
    meanwhile: list[Any] = [lambda: other.run(parse("APPEND (9, 1)")), lambda: None, other.state.refresh]

    class Between(Observer):
        def phase(self, name: str, txn: Any) -> None:
            if name == "before_put" and meanwhile:
                with use_observer(Observer()):
                    meanwhile.pop(0)()

    with use_observer(Between()), clock.use(TestClock()):
        versions = run(tables, "UPDATE SET v = v + 1 WHERE k = 9", "APPEND (9, 0)").versions
    said = {t: t.state.log.read_commit(versions[t.state.store.root]) for t in tables}
    assert b.state.log.read_commit(2).aborted and values(a)[9] == 2  # type: ignore[union-attr]
    assert [len(prepared_by(said[t])) for t in tables] == [1, 0]  # type: ignore[arg-type]


def test_nothing_to_write_anywhere(way: Way) -> None:
    tables = way.bank()
    assert run(tables, "DELETE WHERE k = 77", "UPDATE SET v = 0 WHERE k = 77").versions == {}
    assert [t.state.refresh().version for t in tables] == [1, 1]


def test_nothing_is_left_to_write_beside_what_was_read(way: Way) -> None:
    """Another transaction has deleted the row by the time of the put."""
    a, _ = tables = way.bank()
    txns = begin(tables)
    stage(txns[0], "DELETE WHERE k = 1")
    txns[1].note_read()
    a.run(parse("DELETE WHERE k = 1"))
    assert end(txns, "DELETE WHERE k = 1", "").versions == {} and [t.state.refresh().version for t in tables] == [2, 1]


def test_one_table_that_is_written_is_an_ordinary_commit(way: Way) -> None:
    a, b = tables = way.bank()
    assert run(tables, "APPEND (8, 1)", "").versions == {a.state.store.root: 2} and b.state.refresh().version == 1
    written = a.state.log.read_commit(2)
    assert written is not None and written.info is not None and written.info.together == [] and not {"tables", "decided"} & written.info.raw["rowlock"].keys()


def test_a_step_of_an_application_is_committed_once(way: Way) -> None:
    a, b = tables = way.bank()
    step = SetTransaction("loader", 4)
    texts = ("APPEND (8, 1)", "APPEND (8, 2)")
    run(tables, *texts, app=step)
    again = run(tables, *texts, app=step)
    assert again.already_committed and again.versions == {} and len(a.rows()) == len(b.rows()) == 4
    one = begin(tables, app=SetTransaction("loader", 5))
    two = begin(way.again(tables), app=SetTransaction("loader", 5))
    for txns in (one, two):
        stage(txns[0], texts[0])
        stage(txns[1], texts[1])
    end(one, *texts)
    assert end(two, *texts).already_committed and len(a.rows()) == 5


def test_a_step_that_is_in_one_log_alone_is_refused(way: Way) -> None:
    a, b = tables = way.bank()
    step = SetTransaction("loader", 4)
    txn = a.table.begin(app=step)
    stage(txn, "APPEND (8, 1)")
    txn.commit("WRITE")
    with pytest.raises(InvalidInput, match="already, but not in that of"):
        run(tables, "APPEND (8, 1)", "APPEND (8, 2)", app=step)
    assert b.state.refresh().version == 1


def test_lost_for_good_is_unknown_only_while_it_is(client: Any) -> None:
    """No answer to the claim at all: CommitUnknown, and both tables have it, or none."""
    tables = bank(client)
    deaf = Faulty(client, lose=lambda name, _: "after" if name == "transact_write_items" else None)
    with clock.use(TestClock()), pytest.raises(CommitUnknown) as raised:
        run(same_tables(tables, deaf), "APPEND (8, 1)", "APPEND (8, 2)")
    for t in tables:
        written = t.state.log.read_commit(2)
        assert written is not None and written.txn_id == raised.value.txn_id


def test_a_table_whose_store_is_down_after_the_decision_is_pending(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _a, b = tables = bank(client)
    monkeypatch.setattr(b.state.store, "publish", lambda entry, data: Unknown("down"))
    receipt = run(tables, "APPEND (8, 1)", "APPEND (8, 2)")
    assert receipt.pending == (b.state.store.root,) and receipt.versions[b.state.store.root] == 2
    monkeypatch.undo()
    assert values(same_tables(tables, client)[1])[8] == 2


def test_a_writer_that_passes_the_arbiter_by_is_named(client: Any) -> None:
    a, b = tables = bank(client)

    class Between(Observer):
        def phase(self, name: str, txn: Any) -> None:
            if name == "before_put":
                inner = b.state.store.inner  # type: ignore[attr-defined]
                claim = b.state.store.entries.claim_all  # type: ignore[attr-defined]

                def late(*arguments: Any) -> Any:
                    inner.put(commit_key(2), inner.get(commit_key(1)))
                    return claim(*arguments)

                a.state.store.entries.claim_all = b.state.store.entries.claim_all = late  # type: ignore[attr-defined]

    with use_observer(Between()), pytest.raises(CorruptLog, match="does not use the arbiter"):
        run(tables, "APPEND (8, 1)", "APPEND (8, 2)")


def test_what_cannot_be_is_refused_by_name(client: Any) -> None:
    a, b = bank(client)
    with pytest.raises(InvalidInput, match="at least two"):
        check_tables([a.state])
    with pytest.raises(InvalidInput, match="named twice"):
        check_tables([a.state, b.state, a.state])


@pytest.mark.parametrize("tables", [3, pytest.param(2, marks=pytest.mark.soak("the same transfers between fewer tables", ci=True))])
def test_a_reader_of_all_tables_always_sees_the_same_sum(way: Way, tables: int) -> None:
    """I3 across tables: 6 writers, of which each is a process of its own, transfer; a reader sums all the time."""
    first = way.bank(tables)
    stop = []

    def read() -> int:
        mine, seen = way.again(first), 0
        while not stop:
            heads = heads_together([b.state for b in mine])
            assert sum(row["v"] for b, head in zip(mine, heads, strict=True) for row in b.rows(head.version)) == 300 * tables
            seen += 1
        return seen

    with ThreadPoolExecutor(8) as pool:
        reader = pool.submit(read)
        writers = []
        for n in range(6):
            mine = first if n < 2 else way.again(first)  # two share their state
            writers.append(pool.submit(lambda mine=mine, n=n: [transfer(mine, random.Random(n * 10 + i)) for i in range(3)]))
        try:
            receipts = [receipt for w in writers for receipt in w.result()]
        finally:
            stop.append(True)
        assert reader.result() > 0
    assert total(way.again(first)) == 300 * tables and len(receipts) == 18
    for receipt in receipts:
        for path, version in receipt.versions.items():
            table = next(b for b in first if b.state.store.root == path)
            written = table.state.log.read_commit(version)
            assert written is not None and written.txn_id == receipt.txn_id
