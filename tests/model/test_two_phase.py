"""Transactions over several tables without a common arbiter: owners that die or stall at each step, other engines between the steps (I1, I2, I3, I6)."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import rowlock
from contract.arbiter.transfers import Bank, begin, end, stage
from model.schedules.in_memory import InMemory
from model.schedules.play import schema_string
from rowlock import clock
from rowlock.api.row_writes import widened_metadata
from rowlock.cli.main import app
from rowlock.conflict.delta import live_slice
from rowlock.exceptions import CommitUnknown, CorruptLog, DeltaConcurrentModificationException, InvalidInput, StorageError, UnsupportedFeature
from rowlock.log.snapshot import Snapshot
from rowlock.log.table_log import TableLog
from rowlock.maintenance.check.run import check
from rowlock.protocol.actions import CommitInfo, SetTransaction
from rowlock.protocol.commits import serialize_commit
from rowlock.protocol.names import commit_key
from rowlock.protocol.prepared import POSTS, PREPARE, absolute_place, open_version, prepared_in, relative_place
from rowlock.protocol.schema import PrimitiveType, StructField, StructType, parse_schema
from rowlock.storage import LocalStore, ObjectStore, PutOutcome, Unknown, open_store
from rowlock.transaction import commit as loop, multi_table
from rowlock.transaction.definition.table_features import set_properties
from rowlock.transaction.multi_table import MultiTableReceipt, heads_at, heads_together
from rowlock.transaction.publish.outcome import ABORT
from rowlock.transaction.state import shared
from rowlock.transaction.state.options import Options
from rowlock.transaction.state.phases import Observer, use_observer
from rowlock.transaction.state.shared import snapshot_of
from rowlock.transaction.transaction import Transaction
from rowlock.transaction.two_phase import close, prepare
from rowlock_simulation.memory.sql.script import parse
from support.locks.clocks import TestClock

TRACKED = {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"}
OUT, IN = "UPDATE SET v = v - 10 WHERE k = 1", "UPDATE SET v = v + 10 WHERE k = 1"
Make = Callable[..., InMemory]


class Killed(BaseException):
    """The owner's process ends here."""


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def made(name: str, properties: dict[str, str] | None = None) -> InMemory:
        table = InMemory(store=LocalStore(tmp_path / name))
        table.create(schema_string([("k", "long", True), ("v", "long", True)]), (), TRACKED if properties is None else properties)
        table.run(parse("APPEND (1, 100), (2, 100), (3, 100)"))
        return table

    return made


@pytest.fixture
def bank(make: Make) -> Bank:
    return sorted([make("a"), make("b")], key=lambda t: t.state.look().metadata.id)  # the first is the home


def again(bank: Bank) -> list[InMemory]:
    """The tables as another process opens them."""
    return [InMemory(store=LocalStore(b.state.store.root)) for b in bank]


def values(table: InMemory) -> dict[int, int]:
    table.state.refresh()  # as every reader does
    rows = table.rows()
    assert len({row["k"] for row in rows}) == len(rows)
    return {row["k"]: row["v"] for row in rows}


def operations(table: InMemory) -> list[str | None]:
    return [c.info.operation if c.info else None for c in reversed(table.state.log.history())]


def transfer(bank: Bank, *texts: str, options: Options | None = None, app: SetTransaction | None = None) -> MultiTableReceipt:
    txns = begin(bank, options, app)
    for txn, text in zip(txns, texts, strict=True):
        if text:
            stage(txn, text)
    return end(txns, *texts)


class At(Observer):
    """Does something once, in a phase of the transaction on one table."""

    def __init__(self, table: InMemory, phase: str, do: Callable[[], Any]) -> None:
        self._root, self._phase, self._do, self.is_done = table.state.store.root, phase, do, False

    def phase(self, name: str, txn: Any) -> None:
        if name == self._phase and txn.table.path == self._root and not self.is_done:
            self.is_done = True
            with use_observer(Observer()):
                self._do()


def kill() -> None:
    raise Killed


def killed_at(bank: Bank, which: int, phase: str, monkeypatch: pytest.MonkeyPatch, *texts: str) -> None:
    """A transfer whose owner is killed there."""
    with monkeypatch.context() as patched, use_observer(At(bank[which], phase, kill)), pytest.raises(Killed):
        patched.setattr(prepare, "give_up", lambda parts: None)
        transfer(bank, *texts)


@pytest.mark.parametrize(
    ("which", "phase", "is_there"),
    [(1, "before_put", False), (1, "prepared", False), (0, "before_put", False), (0, "after_put", True), (1, "decided", True)],
)
@pytest.mark.parametrize("first", [0, 1])
def test_an_owner_that_is_killed(bank: Bank, monkeypatch: pytest.MonkeyPatch, which: int, phase: str, is_there: bool, first: int) -> None:
    """Whoever comes next finds all of the transaction or nothing, in whichever table it looks first, and can write."""
    killed_at(bank, which, phase, monkeypatch, OUT, IN)
    others = again(bank)
    with clock.use(TestClock()):
        seen = [values(others[first]), values(others[1 - first])]
        heads = heads_together([t.state for t in others])
    expected = [90, 110] if is_there else [100, 100]
    assert [seen[first][1], seen[1 - first][1]] == expected
    assert [sum(row["v"] for row in t.rows(head.version)) for t, head in zip(others, heads, strict=True)] == [200 + v for v in expected]
    transfer(others, OUT, IN)
    assert [values(t)[1] for t in again(bank)] == [expected[0] - 10, expected[1] + 10]
    assert open_version((head := others[1].state.look()).txns, head.metadata.id) is None


def test_who_only_appends_settles_too(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_at(bank, 1, "decided", monkeypatch, OUT, IN)
    table = again(bank)[1]
    table.run(parse("APPEND (9, 9)"))
    assert values(table) == {1: 110, 2: 100, 3: 100, 9: 9}


@pytest.mark.parametrize("is_decided", [True, False])
def test_the_word_is_durable_before_anybody_acts_on_it(bank: Bank, monkeypatch: pytest.MonkeyPatch, is_decided: bool) -> None:
    """I1, `tables` 90001573 of the simulation: its writer died before the name was on the disk, another closed the other table, and the machine lost its power."""
    killed_at(bank, 0, "after_put" if is_decided else "before_put", monkeypatch, OUT, IN)
    if not is_decided:
        prepared = close.open_in(bank[1].state, bank[1].state.look())
        assert prepared is not None
        loop.commit(close._Marker(bank[0].state, prepared))
    calls = []
    for name in ("sync", "put_if_absent"):
        call = getattr(LocalStore, name)
        monkeypatch.setattr(
            LocalStore, name, lambda store, key, *rest, call=call, name=name: [calls.append((name, store.root, key)), call(store, key, *rest)][1]
        )
    assert values(again(bank)[1])[1] == (110 if is_decided else 100)
    assert calls == [("sync", bank[0].state.store.root, commit_key(2)), ("put_if_absent", bank[1].state.store.root, commit_key(3))]


def test_the_steps_as_every_engine_sees_them(bank: Bank) -> None:
    receipt = transfer(bank, OUT, IN)
    assert operations(bank[0]) == ["CREATE TABLE", "WRITE", "UPDATE"] and operations(bank[1]) == ["CREATE TABLE", "WRITE", PREPARE, "UPDATE"]
    prepared = bank[1].state.log.read_commit(2)
    assert prepared is not None and not prepared.adds and not prepared.removes and prepared.txn_id != receipt.txn_id
    said = prepared_in(prepared)
    assert said is not None and said.tables == 2 and said.txn_id == receipt.txn_id
    assert receipt.versions == {bank[0].state.store.root: 2, bank[1].state.store.root: 3} and not receipt.pending
    assert not any(Path(bank[1].state.store.root).glob("_rowlock/**/*.json"))
    closed = bank[1].state.log.read_commit(3)
    assert closed is not None and closed.info is not None
    assert closed.info.raw["rowlock"]["closed"] == {"txn_id": receipt.txn_id, "prepared": 2, "decided": 2, "overwritten": 0}
    assert closed.info.raw["rowlock"]["tables"] == [{"table": bank[0].state.store.root, "id": bank[0].state.look().metadata.id, "version": 2}]


def test_a_long_staged_commit_is_posted_beside_the_table(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "INLINE_BYTES", 10)
    killed_at(bank, 1, "decided", monkeypatch, OUT, IN)
    posts = list(Path(bank[1].state.store.root, POSTS).glob("*.json"))
    assert len(posts) == 1
    assert values(again(bank)[1])[1] == 110 and not posts[0].exists()
    killed_at(bank, 1, "decided", monkeypatch, OUT, IN)
    for post in Path(bank[1].state.store.root, POSTS).glob("*.json"):
        post.unlink()
    with pytest.raises(CorruptLog, match="posted beside the table"):
        values(again(bank)[1])


def test_one_table_under_two_paths_that_nobody_can_tell() -> None:
    """A mount, or a name in other letters on a disk of macOS: it waited for itself, gave itself up and tried again, without end."""
    stores = [open_store(f"memory://{clock.new_id()}") for _ in range(2)]
    vars(stores[1]).update({name: value for name, value in vars(stores[0]).items() if name not in ("root", "identity")})
    one, mounted = (InMemory(store=store) for store in stores)
    one.create(schema_string([("k", "long", True), ("v", "long", True)]), (), TRACKED)
    one.run(parse("APPEND (1, 100)"))
    with clock.use(TestClock()), pytest.raises(InvalidInput, match=r"under another path.*Name it once"):
        transfer([one, mounted], OUT, IN)
    assert operations(one)[2:] == [PREPARE, ABORT, "ROWLOCK CLOSE"] and values(one) == {1: 100}


def test_an_owner_that_stalls_is_given_up_and_tries_again(bank: Bank) -> None:
    """Another writer waits, marks, and goes on; the owner finds the marker and commits under another id."""
    others = again(bank)

    def meet() -> None:
        with clock.use(TestClock()):
            others[1].run(parse("UPDATE SET v = v * 2 WHERE k = 1"))

    with use_observer(At(bank[0], "before_put", meet)):
        receipt = transfer(bank, OUT, IN)
    assert [values(t)[1] for t in again(bank)] == [90, 210]
    assert operations(bank[0]) == ["CREATE TABLE", "WRITE", ABORT, "UPDATE"]
    assert operations(bank[1]) == ["CREATE TABLE", "WRITE", PREPARE, "ROWLOCK CLOSE", "UPDATE", PREPARE, "UPDATE"]
    assert receipt.tables[bank[1].state.store.root].conflicts


def test_a_marker_that_comes_after_the_decision_says_nothing(bank: Bank) -> None:
    others = again(bank)

    def meet() -> None:
        assert values(others[1])[1] == 110, "the reader rolled it forward"

    with use_observer(At(bank[1], "decided", meet)):
        receipt = transfer(bank, OUT, IN)
    assert receipt.versions[bank[1].state.store.root] == 3 and operations(bank[1])[2:] == [PREPARE, "UPDATE"]


def test_a_conflict_after_the_first_step_closes_it(bank: Bank) -> None:
    other = again(bank)[0]
    with (
        use_observer(At(bank[1], "prepared", lambda: other.run(parse("UPDATE SET v = 7 WHERE k = 1")))),
        pytest.raises(DeltaConcurrentModificationException) as raised,
    ):
        transfer(bank, OUT, IN, options=Options(on_conflict="fail"))
    assert raised.value.table == bank[0].state.store.root
    assert operations(bank[1]) == ["CREATE TABLE", "WRITE", PREPARE, "ROWLOCK CLOSE"] and values(bank[1])[1] == 100


def test_a_home_that_loses_its_put_is_rebased_while_the_other_table_waits(bank: Bank) -> None:
    other = again(bank)[0]
    with use_observer(At(bank[0], "before_put", lambda: other.run(parse("UPDATE SET v = v * 2 WHERE k = 1")))):
        receipt = transfer(bank, OUT, IN)
    assert [values(t)[1] for t in bank] == [190, 110] and operations(bank[1])[2:] == [PREPARE, "UPDATE"]
    assert receipt.tables[bank[0].state.store.root].attempts == 2


class Foreign:
    """Another engine on a table: it knows nothing of what is prepared there."""

    def __init__(self, table: InMemory) -> None:
        self.table = again([table])[0]
        self.table.state.refresh = self.table.state.look  # type: ignore[method-assign]
        self.table.state.newest = lambda *, settled=True: self.table.state.look()  # type: ignore[method-assign, assignment, misc]

    def run(self, text: str) -> None:
        self.table.run(parse(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("APPEND (9, 9)", {1: 110, 2: 110, 3: 100, 9: 9}),
        ("OPTIMIZE", {1: 110, 2: 110, 3: 100}),
        ("DELETE WHERE k = 1", {2: 110, 3: 100}),
        ("DELETE WHERE k = 3", {1: 110, 2: 110}),
        ("DELETE WHERE k < 9", {}),
        ("UPDATE SET v = v * 2 WHERE k = 1", {1: 200, 2: 110, 3: 100}),
        ("UPDATE SET v = v * 2 WHERE k = 3", {1: 110, 2: 110, 3: 200}),
        ("OVERWRITE (7, 7)", {7: 7}),
    ],
)
@pytest.mark.parametrize("when", ["prepared", "decided"])
def test_what_another_engine_does_meanwhile_comes_after_the_transaction(bank: Bank, text: str, expected: dict[int, int], when: str) -> None:
    foreign = Foreign(bank[1])
    with use_observer(At(bank[1], when, lambda: foreign.run(text))):
        receipt = transfer(bank, OUT, "UPDATE SET v = v + 10 WHERE k < 3")
    assert not receipt.pending and values(bank[1]) == expected
    who = [row["_row_id"] for row in bank[1].identified(bank[1].state.refresh().version)[1]]
    assert len(set(who)) == len(who)


@pytest.mark.parametrize("when", ["prepared", "decided"])
@pytest.mark.parametrize("name", ["delta.enableDeletionVectors=false", "delta.enableChangeDataFeed=true", "delta.enableInCommitTimestamps=true"])
def test_a_property_that_another_engine_sets_meanwhile_comes_after_the_transaction(bank: Bank, name: str, when: str) -> None:
    """Whoever closes it can write no copies of files and no change data files (found by the simulation, in the world `tables`)."""
    bank[1].run(parse("DELETE WHERE k = 3"))  # so that the file has a vector already
    foreign, properties = Foreign(bank[1]), dict([name.split("=")])
    with use_observer(At(bank[1], when, lambda: set_properties(foreign.table.state, foreign.table.engine, properties))):
        receipt = transfer(bank, OUT, IN)
    assert not receipt.pending and values(bank[1]) == {1: 110, 2: 100}


def test_deletion_vectors_that_another_engine_dropped_meanwhile(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what is to be done, and then the transaction is closed (I9)."""
    killed_at(bank, 1, "decided", monkeypatch, OUT, IN)
    log = Foreign(bank[1]).table.state.log
    head = log.latest()
    without = frozenset({"deletionVectors"})
    dropped = replace(
        head.protocol,
        reader_features=(head.protocol.reader_features or frozenset()) - without,
        writer_features=(head.protocol.writer_features or frozenset()) - without,
    )
    for version, protocol in ((head.version + 1, dropped), (head.version + 2, head.protocol)):
        if protocol is head.protocol:
            with pytest.raises(DeltaConcurrentModificationException, match=r"dropped the feature deletionVectors.*Add the feature again"):
                again(bank)[1].state.refresh()
        assert log.put(version, serialize_commit(CommitInfo({"operation": "ALTER"}), protocol=protocol))
    assert values(again(bank)[1]) == {1: 110, 2: 100, 3: 100}


@pytest.mark.parametrize("seed", range(40))
def test_random_histories_of_another_engine(make: Make, seed: int) -> None:
    """The rows are those of a world in which the transaction came first, and each row that the other engine changed is as that engine left it."""
    rng = random.Random(seed)
    bank = sorted([make("a"), make("b")], key=lambda t: t.state.look().metadata.id)
    for n in range(4, 4 + rng.randrange(4)):
        bank[1].run(parse(f"APPEND ({n}, 100)"))
    before = values(bank[1])
    ours = {k for k in before if rng.random() < 0.6} or {1}
    verb = rng.choice(["DELETE", "UPDATE SET v = v + 10"])
    text = f"{verb} WHERE {' OR '.join(f'k = {k}' for k in sorted(ours))}"
    foreign, alone = Foreign(bank[1]), dict(before)
    changed: set[int] = set()

    def meddle() -> None:
        for n in range(rng.randrange(1, 5)):
            k = rng.choice(sorted(before))
            kind = rng.choice(["OPTIMIZE", "APPEND", "DELETE", "UPDATE"])
            if kind == "APPEND":
                foreign.run(f"APPEND ({100 + n}, 1)")
                alone[100 + n] = 1
            elif kind == "DELETE":
                foreign.run(f"DELETE WHERE k = {k}")
                changed.add(k)
                alone.pop(k, None)
            elif kind == "UPDATE":
                foreign.run(f"UPDATE SET v = v * 2 WHERE k = {k}")
                if k in alone:
                    changed.add(k)
                    alone[k] *= 2
            else:
                foreign.run("OPTIMIZE")

    with use_observer(At(bank[1], rng.choice(["prepared", "decided"]), meddle)):
        transfer(bank, OUT, text)
    expected = dict(alone)
    for k in ours - changed:
        if verb == "DELETE":
            expected.pop(k)
        else:
            expected[k] += 10
    assert values(bank[1]) == expected and values(bank[0])[1] == 90


@pytest.mark.parametrize("columns", [[("k", "string", True), ("v", "long", True)], [("k", "long", True), ("v", "long", True), ("must", "long", False)]])
def test_a_table_that_another_engine_replaced_meanwhile(bank: Bank, columns: list[tuple[str, str, bool]]) -> None:
    """Its part is void there: the files that were written do not fit the new columns."""
    foreign = Foreign(bank[1])

    def put() -> None:
        head = foreign.table.state.look()
        schema = schema_string(columns)
        data = serialize_commit(CommitInfo({"operation": "REPLACE TABLE"}), metadata=replace(head.metadata, schema_string=schema))
        assert foreign.table.state.log.put(head.version + 1, data)

    with use_observer(At(bank[1], "decided", put)):
        transfer(bank, OUT, IN)
    closed = bank[1].state.log.history(1)[0]
    assert closed.info is not None and closed.info.raw["rowlock"]["closed"]["void"] is True and not closed.adds


INT, BIGINT = {"type": "integer"}, {"type": "long"}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": [{"name": name, "nullable": True, "metadata": {}, **f} for name, f in zip("abc", fields, strict=False)]}


@pytest.mark.parametrize(
    ("columns", "fits"),
    [
        ([INT, {"type": struct(INT)}], "always"),
        ([{**INT, "nullable": False}, {"type": struct(INT)}], "without nulls"),
        ([INT, {"type": struct({**INT, "nullable": False})}], "without nulls"),
        ([INT, {"type": struct(INT, BIGINT)}], "always"),  # a field that a MERGE of another engine added
        ([INT, {"type": struct(INT, {**BIGINT, "nullable": False})}], "never"),
        ([INT, {"type": struct(INT)}, BIGINT], "always"),
        ([BIGINT, {"type": struct(INT)}], "widened"),
        ([INT, {"type": struct(BIGINT)}], "widened"),
        ([{"type": "string"}, {"type": struct(INT)}], "never"),
    ],
)
def test_whether_staged_rows_fit_columns_that_another_engine_changed_meanwhile(tmp_path: Path, columns: list[dict[str, Any]], fits: str) -> None:
    """They were committed with nulls in a column that it had made NOT NULL; they were lost where it had only added a field or widened a type."""
    for rows in ([{"a": None, "b": {"a": None}}], [{"a": 1, "b": {"a": 1}}]):
        path = str(tmp_path / str(rows[0]["a"]))
        schema = pa.schema([("a", pa.int32()), ("b", pa.struct([("a", pa.int32())]))])
        rowlock.append(path, pa.Table.from_pylist([{"a": 0, "b": {"a": 0}}], schema))
        rowlock.append(path, pa.Table.from_pylist(rows, schema))
        store = LocalStore(path)
        base, staged = TableLog(store).at(0), TableLog(store).read_commit(1)
        assert staged is not None
        head = replace(base, schema=parse_schema(orjson.dumps(struct(*columns)).decode()))
        widening = replace(head, protocol=replace(head.protocol, reader_features=(head.protocol.reader_features or frozenset()) | {"typeWidening"}))
        found = [close._fits(staged, base, h, store) for h in (head, widening)]
        has_null = rows[0]["a"] is None
        assert found == {"always": [True] * 2, "never": [False] * 2, "widened": [False, True], "without nulls": [not has_null] * 2}[fits]


@pytest.mark.parametrize("when", ["prepared", "decided"])
@pytest.mark.parametrize(
    ("to", "expected"),
    [
        (1, {1: 100, 2: 100, 3: 100}),
        (2, {1: 100, 2: 100, 3: 7}),  # nothing comes back: the rows of version 3 go, as by a DELETE
    ],
)
def test_a_restore_of_another_engine_that_brings_rows_back_undoes_the_transaction(bank: Bank, to: int, expected: dict[int, int], when: str) -> None:
    """A row that it inserted because there was none, and the one that the RESTORE brought back, were both there (tables 271,011,205).

    A step of an application that is undone there was taken all the same, as one that a RESTORE of Rowlock's undoes is (tables 274,004,452): else it was in
    the log of one table only, where nobody can take it again.
    """
    for text in ("DELETE WHERE k = 3", "APPEND (4, 100)"):
        bank[1].run(parse(text))
    foreign = Foreign(bank[1])
    merge = "MERGE USING (k, v: (3, 7)) ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v)"
    with use_observer(At(bank[1], when, lambda: foreign.table.restore(to))):
        receipt = transfer(bank, OUT, merge, app=SetTransaction("job", 1))
    assert not receipt.pending and values(bank[1]) == expected and values(bank[0])[1] == 90
    assert all(table.state.refresh().has_step(SetTransaction("job", 1)) for table in bank)


@pytest.mark.parametrize("gone", ["DELETE WHERE k = 3", "DELETE WHERE k > 0"])
def test_a_restore_undoes_the_transaction_also_where_removed_files_are_forgotten(bank: Bank, gone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of a file, or all of it, was deleted longer ago than the retention, so that no checkpoint names what was removed (tables 277,004,252)."""
    bank[1].run(parse(gone))
    foreign = Foreign(bank[1])

    def restored() -> None:
        foreign.table.restore(1)
        monkeypatch.setattr(TableLog, "removes", lambda *_: (-1, [], []))

    merge = "MERGE USING (k, v: (3, 7)) ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v)"
    with use_observer(At(bank[1], "decided", restored)):
        transfer(bank, OUT, merge)
    assert values(bank[1]) == {1: 100, 2: 100, 3: 100}


def test_the_home_is_where_other_engines_could_not_be_followed(make: Make) -> None:
    for plain_first in (True, False):
        bank = [make(f"plain {plain_first}", {}), make(f"tracked {plain_first}")]
        txns = bank if plain_first else bank[::-1]
        transfer(txns, OUT, OUT)
        assert PREPARE not in operations(bank[0]) and PREPARE in operations(bank[1])


@pytest.mark.parametrize("which", [0, 1])
def test_the_home_is_the_table_whose_definition_changes(bank: Bank, which: int) -> None:
    """A column comes with the rows: what is prepared could not bring it. Two such tables are refused by name."""

    def grown(table: InMemory) -> Transaction:
        head = table.state.refresh()
        return table.table.begin(snapshot=head, metadata=widened_metadata(head, StructType((StructField("w", PrimitiveType("long")),))))

    txns = [grown(table) if n == which else table.table.begin() for n, table in enumerate(bank)]
    for txn, text in zip(txns, (OUT, IN), strict=True):
        stage(txn, text)
    end(txns, OUT, IN)
    assert [PREPARE in operations(t) for t in bank] == [n != which for n in range(2)]
    assert [t.state.refresh().schema.names for t in bank] == [("k", "v", "w") if n == which else ("k", "v") for n in range(2)]
    both = [
        grown(table) if n != which else table.table.begin(snapshot=table.state.refresh(), metadata=replace(table.state.refresh().metadata, description="new"))
        for n, table in enumerate(bank)
    ]
    for txn, text in zip(both, (OUT, IN), strict=True):
        stage(txn, text)
    with pytest.raises(UnsupportedFeature, match="its definition changes"):
        end(both, OUT, IN)


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({**TRACKED, "delta.enableDeletionVectors": "false"}, "it has no deletion vectors"),
        ({"delta.enableDeletionVectors": "true"}, "it does not track them"),
        ({**TRACKED, "delta.enableChangeDataFeed": "true"}, "it has a change data feed"),
    ],
)
def test_two_such_tables_are_refused_by_name(make: Make, properties: dict[str, str], why: str) -> None:
    bank = [make("a", properties), make("b", properties)]
    with pytest.raises(UnsupportedFeature, match=why):
        transfer(bank, OUT, IN)
    assert [operations(t) for t in bank] == [["CREATE TABLE", "WRITE"]] * 2
    transfer(bank, OUT, "APPEND (9, 9)")
    assert values(bank[1])[9] == 9, "rows may be added to any table"


class Unsure:
    """A store that does not answer the put of one version, which lands or not."""

    def __init__(self, store: ObjectStore, version: int, *, lands: bool) -> None:
        self._store, self._key, self._lands, self._is_put = store, commit_key(version), lands, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        if key != self._key:
            return self._store.put_if_absent(key, data)
        self._is_put = True
        if self._lands:
            self._store.put_if_absent(key, data)
        return Unknown("no answer")

    def get_tagged(self, key: str) -> tuple[bytes, str]:
        if key == self._key and self._is_put:
            raise StorageError("no answer")
        return self._store.get_tagged(key)


@pytest.mark.parametrize("lands", [True, False])
def test_an_unknown_decision_is_found_by_whoever_comes(bank: Bank, lands: bool) -> None:
    store = Unsure(bank[0].state.store, 2, lands=lands)
    bank[0].state.log.store = store  # type: ignore[assignment]
    with clock.use(TestClock()):
        with pytest.raises(CommitUnknown):
            transfer(bank, OUT, IN)
        others = again(bank)
        assert (values(others[1])[1], values(others[0])[1]) == ((110, 90) if lands else (100, 100))
        if not lands:
            assert operations(others[0])[2:] == [ABORT]


class ReadOnly:
    """A store that takes no commit."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        raise StorageError("access was denied")


def read_only(bank: Bank) -> list[InMemory]:
    """The tables as a process opens them that may not write to them, nor to any other."""
    return [InMemory(store=ReadOnly(b.state.store)) for b in bank]  # type: ignore[arg-type]


def shown(table: InMemory, head: Snapshot) -> dict[int, int]:
    """The rows of a snapshot, by key."""
    rows = [row for f in head.files.adds() for row in table.engine.sample([live_slice(f, table.state.vectors.of)], None, snapshot=head)]
    return {row["k"]: row["v"] for row in rows}


@pytest.mark.parametrize(("which", "phase", "expected"), [(1, "prepared", [100, 100]), (0, "after_put", [90, 110])])
@pytest.mark.parametrize("meanwhile", [None, "OPTIMIZE", "APPEND (9, 9)"])
def test_who_may_only_read_sees_a_decided_transaction(
    bank: Bank, monkeypatch: pytest.MonkeyPatch, which: int, phase: str, expected: list[int], meanwhile: str | None
) -> None:
    """It is laid over in memory; one that is not decided is not seen, nor what others committed after it (I1, I3)."""
    killed_at(bank, which, phase, monkeypatch, OUT, IN)
    if meanwhile is not None:
        Foreign(bank[1]).run(meanwhile)
    readers = read_only(bank)
    monkeypatch.setattr(close, "beside", lambda store, place: readers[0].state.store)
    before = [operations(t) for t in bank]
    with clock.use(TestClock()):
        together = heads_together([t.state for t in readers], to_read=True)
        alone = snapshot_of(readers[1].state)
        with pytest.raises(StorageError, match="access was denied"):
            readers[1].state.refresh()
    seen = [shown(t, head) for t, head in zip(readers, together, strict=True)]
    assert [rows[1] for rows in seen] == expected and shown(readers[1], alone) == seen[1]
    assert seen[1].keys() - {9} == {1, 2, 3} and (9 in seen[1]) == (meanwhile == "APPEND (9, 9)" and expected[1] == 110)
    assert [operations(t) for t in bank] == before, "nothing was written"
    assert readers[1].state.known is not None and open_version(readers[1].state.known.txns, together[1].metadata.id) == 2, (
        "no commit follows what was laid over"
    )


def test_another_closes_it_and_deletes_the_post_while_a_reader_lays_it_over(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    """`tables` 63 of the simulation: the reader told of a damaged log."""
    monkeypatch.setattr(prepare, "INLINE_BYTES", 10)
    killed_at(bank, 1, "decided", monkeypatch, OUT, IN)
    reader, other, staged_by = read_only(bank)[1], again(bank)[1], close._staged_by
    looks = iter([False, True])

    def staged(store: ObjectStore, prepared: Any) -> Any:
        if store is reader.state.store and next(looks):
            assert values(other)[1] == 110
        return staged_by(store, prepared)

    monkeypatch.setattr(close, "_staged_by", staged)
    head, seen = reader.state.refresh_to_read()
    assert head is seen and shown(reader, seen)[1] == 110


def test_who_may_only_read_sees_what_was_given_up_nowhere(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_at(bank, 1, "prepared", monkeypatch, OUT, IN)
    reader, other = read_only(bank)[1], again(bank)
    prepared = close.open_in(other[1].state, other[1].state.look())
    assert prepared is not None
    loop.commit(close._Marker(other[0].state, prepared))
    Foreign(bank[1]).run("APPEND (9, 9)")
    assert shown(reader, snapshot_of(reader.state)) == {1: 100, 2: 100, 3: 100, 9: 9}


def test_a_decision_that_comes_between_two_looks_is_seen_in_both_tables(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may only read two tables of which neither is the home: it looks at one, then the home decides, then it looks at the other (I1)."""
    bank = [make("home", {**TRACKED, "rowlock.order": "-1"}), make("a"), make("b")]
    readers, look = read_only(bank), shared._laid_over
    asked, decided, is_over = threading.Event(), threading.Event(), threading.Event()

    class Owner(Observer):
        def phase(self, name: str, txn: Any) -> None:
            if txn.table.path == bank[0].state.store.root and name == "before_put":
                assert asked.wait(20)
            if txn.table.path == bank[0].state.store.root and name == "after_put":
                decided.set()
                assert is_over.wait(20)

    def look_at(state: Any, head: Snapshot) -> Snapshot:
        if state is readers[2].state:
            assert decided.wait(20)
        found = look(state, head)
        asked.set()
        return found

    def own() -> None:
        with use_observer(Owner()):
            transfer(bank, OUT, IN, IN)

    monkeypatch.setattr(shared, "_laid_over", look_at)
    monkeypatch.setattr(close, "beside", lambda store, place: readers[0].state.store)
    owner = threading.Thread(target=own)
    owner.start()
    try:
        while (
            open_version((head := readers[2].state.look()).txns, head.metadata.id) is None
            or open_version((head := readers[1].state.look()).txns, head.metadata.id) is None
        ):
            time.sleep(0.01)
        with clock.use(TestClock()):
            heads = heads_together([t.state for t in readers[1:]], to_read=True)
        assert [shown(t, head)[1] for t, head in zip(readers[1:], heads, strict=True)] == [110, 110]
    finally:
        is_over.set()
        owner.join()


def test_an_owner_that_waits_for_the_decision_only(make: Make) -> None:
    """Who reads after it is told sees the transaction, whether another thread has closed it by then or not (I2)."""
    bank = [make("home", {**TRACKED, "rowlock.order": "-1"}), make("part"), make("read")]
    owner_is_told, others = threading.Event(), again(bank)

    class Later(Observer):
        def phase(self, name: str, txn: Any) -> None:
            if name == "decided":
                assert owner_is_told.wait(20)

    txns = begin(bank)
    stage(txns[0], OUT)
    stage(txns[1], IN)
    txns[2].note_read()
    with use_observer(Later()):
        receipt = end(txns, OUT, IN, "", wait="decided")
    home, part = (t.state.store.root for t in bank[:2])
    assert receipt.versions == {home: 2} and receipt.pending == (part,) and receipt.tables[part].version is None
    assert [r.attempts for r in receipt.tables.values()] == [1, 1, 1]
    assert [values(t)[1] for t in others] == [90, 110, 100]
    owner_is_told.set()
    assert [values(t)[1] for t in bank] == [90, 110, 100]
    while any(thread.name == "rowlock close" for thread in threading.enumerate()):
        time.sleep(0.01)
    assert operations(bank[1])[2:] == [PREPARE, "UPDATE"] and operations(bank[2])[2:] == [PREPARE, "ROWLOCK CLOSE"]


@pytest.mark.parametrize("tables", [2, 20])
def test_a_transaction_over_more_tables_is_waited_for_longer(bank: Bank, monkeypatch: pytest.MonkeyPatch, tables: int) -> None:
    killed_at(bank, 1, "prepared", monkeypatch, OUT, IN)
    table = again(bank)[1]
    prepared = close.open_in(table.state, table.state.look())
    monkeypatch.setattr(close, "open_in", lambda *_: replace(prepared, tables=tables))  # type: ignore[type-var]
    with clock.use(time_of := TestClock()):
        time_of.sleep(100)
        begun = time_of.monotonic_s()
        close.settle(table.state, table.state.look())
        assert (
            close.PATIENCE_S + tables * close.PATIENCE_PER_TABLE_S <= time_of.monotonic_s() - begun < close.PATIENCE_S + tables * close.PATIENCE_PER_TABLE_S + 5
        )


def test_a_home_that_is_gone(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_at(bank, 1, "decided", monkeypatch, OUT, IN)
    root = Path(bank[0].state.store.root)
    root.rename(root.with_name("away"))
    table = again(bank)[1]
    with pytest.raises(DeltaConcurrentModificationException, match="is decided in the log of") as raised:
        table.state.refresh()
    assert raised.value.table == table.state.store.root
    assert [r["v"] for r in table.rows(1)] == [100] * 3, "the version before can be read"
    InMemory(store=LocalStore(root)).create(schema_string([("k", "long", True)]), (), {})
    with pytest.raises(DeltaConcurrentModificationException, match="is not there or cannot be read"):
        again(bank)[1].state.refresh()
    shutil.rmtree(root)
    root.with_name("away").rename(root)
    assert values(again(bank)[1])[1] == 110


def test_a_lake_that_was_copied_with_an_open_transaction(bank: Bank, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The copy asks the copy of the home: it was given up there, though the original was decided later."""
    killed_at(bank, 0, "before_put", monkeypatch, OUT, IN)
    copy = tmp_path / "copy"
    for t in bank:
        shutil.copytree(t.state.store.root, copy / Path(t.state.store.root).name)
    copied = [InMemory(store=LocalStore(copy / Path(t.state.store.root).name)) for t in bank]
    with clock.use(TestClock()):
        assert values(copied[1])[1] == 100
    assert operations(copied[0])[2:] == [ABORT] and operations(bank[0])[2:] == []


def test_a_time_is_one_time_in_all_tables(bank: Bank) -> None:
    transfer(bank, OUT, IN)
    for versions in ((2, 2), (1, 3), (2, 3)):
        times = [dict(t.state.log.commit_times())[v] for t, v in zip(bank, versions, strict=True)]
        assert [h.version for h in heads_at([t.state for t in bank], times)] == [2, 3]


def test_a_time_right_after_the_first_transaction(tmp_path: Path) -> None:
    """The transaction is the first version after each table was made."""
    made = [InMemory(store=LocalStore(tmp_path / name)) for name in ("a", "b")]
    for table in made:
        table.create(schema_string([("k", "long", True), ("v", "long", True)]), (), TRACKED)
    bank = sorted(made, key=lambda t: t.state.look().metadata.id)
    transfer(bank, "APPEND (1, 1)", "APPEND (1, 1)")
    times = [dict(t.state.log.commit_times())[v] for t, v in zip(bank, (1, 0), strict=True)]
    assert [h.version for h in heads_at([t.state for t in bank], times)] == [1, 2]


@pytest.mark.parametrize(
    ("table", "other", "relative"),
    [
        ("/lake/a", "/lake/b", "../b"),
        ("/lake/x/a", "/lake/b/c", "../../b/c"),
        ("s3://bucket/a", "s3://bucket/b/c", "../b/c"),
        ("s3://bucket/a", "s3a://bucket/b", "../b"),
        ("s3://bucket/a", "s3://other/b", None),
        ("/lake/a", "s3://bucket/a", None),
    ],
)
def test_relative_places(table: str, other: str, relative: str | None) -> None:
    assert relative_place(table, other) == relative
    if relative is not None:
        assert absolute_place(table, relative) == other.replace("s3a://", "s3://")


def settle(table: InMemory, *arguments: str) -> tuple[int, str]:
    with clock.use(TestClock()):
        result = CliRunner().invoke(app, ["settle", table.state.store.root, *arguments])
    return result.exit_code, result.output


@pytest.mark.parametrize("first", [0, 1])
def test_the_command_rolls_forward_from_either_table(bank: Bank, monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    killed_at(bank, 1, "decided", monkeypatch, OUT, IN)
    found = {f.code: f for f in check(bank[1].state.store).findings}
    assert found["transaction-open"].versions == (2,) and "transaction-open" not in {f.code for f in check(bank[0].state.store).findings}
    code, said = settle(again(bank)[first])
    assert code == 0 and said.startswith(f"{bank[1].state.store.root}: transaction ") and said.endswith("committed, in version 3\n")
    assert settle(bank[first]) == (0, "No transaction over several tables is open here.\n")
    assert [values(t)[1] for t in again(bank)] == [90, 110] and "transaction-open" not in {f.code for f in check(bank[1].state.store).findings}


def test_the_command_gives_up_what_is_not_decided(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_at(bank, 0, "before_put", monkeypatch, OUT, IN)
    assert settle(again(bank)[1])[1].endswith("given up, in version 3\n")
    assert [values(t)[1] for t in again(bank)] == [100, 100]


@pytest.mark.parametrize(("outcome", "expected"), [("committed", 110), ("aborted", 100)])
def test_a_person_decides_where_the_home_is_gone(bank: Bank, monkeypatch: pytest.MonkeyPatch, outcome: str, expected: int) -> None:
    killed_at(bank, 1, "prepared", monkeypatch, OUT, IN)
    prepared = bank[1].state.log.read_commit(2)
    assert prepared is not None and prepared.info is not None
    txn_id = prepared.info.raw["rowlock"]["prepared"]["txn_id"]
    code, said = settle(again(bank)[1], "--txn", txn_id, "--as", outcome)
    assert code == 2 and "can be read, and it alone decides" in " ".join(said.split())
    shutil.rmtree(bank[0].state.store.root)
    table = again(bank)[1]
    code, said = settle(table)
    assert code == 1 and "is there" not in said and f"--txn {txn_id} --as committed" in said
    assert settle(table, "--txn", "another", "--as", outcome)[0] == 2
    assert settle(table, "--txn", txn_id, "--as", outcome) == (
        0,
        f"{table.state.store.root}: transaction {txn_id}: {'committed' if outcome == 'committed' else 'given up'}, in version 3\n",
    )
    assert values(again(bank)[1])[1] == expected


def test_a_person_gives_up_what_nobody_can_read(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit that prepared it was cleaned up: nothing can be rolled forward, and the table must not be lost with it."""
    killed_at(bank, 1, "prepared", monkeypatch, OUT, IN)
    state = bank[1].state
    state.log.write_checkpoint(state.look())
    for version in range(3):
        state.store.delete(commit_key(version))
    table = again(bank)[1]
    with pytest.raises(CorruptLog, match="--as aborted"):
        table.state.refresh()
    assert settle(table, "--txn", "any", "--as", "committed")[0] == 2
    assert settle(table, "--txn", "any", "--as", "aborted")[0] == 0
    assert values(again(bank)[1])[1] == 100


def test_posts_that_nobody_needs_are_swept(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    """The post of an owner that died before its P goes when the version that it was for is taken, and not before; that of an open P stays."""
    monkeypatch.setattr(prepare, "INLINE_BYTES", 10)
    killed_at(bank, 1, "before_put", monkeypatch, OUT, IN)
    posts = list(Path(bank[1].state.store.root, POSTS).iterdir())
    assert len(posts) == 1 and settle(bank[1])[0] == 0 and posts[0].exists()
    again(bank)[1].run(parse("APPEND (9, 9)"))
    killed_at(bank, 1, "decided", monkeypatch, OUT, IN)
    settling = again(bank)[1]
    settled_first = Path(bank[1].state.store.root, POSTS)
    assert len(list(settled_first.iterdir())) == 2
    assert settle(settling)[1].endswith("committed, in version 4\n") and not list(settled_first.iterdir())


def test_another_has_closed_it_and_deleted_the_post(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at the home and that at the post; the answer is the other's version."""
    monkeypatch.setattr(prepare, "INLINE_BYTES", 10)
    killed_at(bank, 1, "decided", monkeypatch, OUT, IN)
    first, second = again([bank[1]])[0], again([bank[1]])[0]
    prepared = close.open_in(first.state, first.state.look())
    assert prepared is not None
    assert values(second)[1] == 110
    assert close.close(first.state, prepared, 2) == 3
    second.state.store.delete(commit_key(1))
    assert close.closed_at(second.state, replace(prepared, version=0), second.state.look()) is None


@pytest.mark.parametrize("order", [-1, 1])
def test_the_home_is_the_least_by_the_order_of_tables(make: Make, order: int) -> None:
    bank = [make("a", {**TRACKED, "rowlock.order": str(order)}), make("b")]
    transfer(bank, OUT, IN)
    assert [PREPARE in operations(t) for t in bank] == [order > 0, order < 0]


def test_the_history_names_the_other_tables(bank: Bank) -> None:
    transfer(bank, OUT, IN)
    said = [" ".join(CliRunner().invoke(app, ["history", t.state.store.root], terminal_width=400, env={"COLUMNS": "400"}).output.split()) for t in bank]
    assert f"with what was prepared in version 2 of {bank[1].state.store.root}" in said[0]
    assert f"with version 2 of {bank[0].state.store.root}" in said[1]


@pytest.mark.parametrize("text", ["UPDATE SET v = v + 10 WHERE k < 3", "DELETE WHERE k = 2", "DELETE WHERE k < 9", "APPEND (8, 8), (9, 9)", "OVERWRITE (7, 7)"])
@pytest.mark.parametrize("has_vector", [False, True])
def test_what_nothing_followed_is_closed_as_staged_and_that_is_what_following_gives(
    make: Make, monkeypatch: pytest.MonkeyPatch, text: str, has_vector: bool
) -> None:
    """Rows, their ids and their commit versions."""
    found = []
    for name in ("as staged", "followed"):
        bank = [make(f"{name} home", {**TRACKED, "rowlock.order": "-1"}), make(name)]
        if has_vector:
            bank[1].run(parse("DELETE WHERE k = 1"))
        if name == "followed":
            monkeypatch.setattr(close.Close, "_files", close.Close._followed)
        transfer(bank, OUT, text)
        head = bank[1].state.refresh()
        assert operations(bank[1])[-2] == PREPARE and not check(bank[1].state.store, footers=0).findings
        found.append((bank[1].identified(head.version)[1], [len(head.files), head.files.total_size_bytes]))
    assert found[0] == found[1]


def test_an_instant_is_found_though_each_pause_moves_another_table(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was at its head before a pause is looked at again after it: else two tables that move in turn could never be read together."""
    writers, moves = again(bank), iter([0, 1] * 20)

    def move(*_: object) -> None:
        writers[next(moves)].run(parse("APPEND (9, 9)"))

    looked, has_successor = [], multi_table._has_successor

    def probe(state: Any, head: Any) -> bool:
        if state is bank[0].state and not looked:
            looked.append(move())
        return has_successor(state, head)

    monkeypatch.setattr(multi_table, "_has_successor", probe)
    monkeypatch.setattr(clock, "back_off", move)
    heads = heads_together([t.state for t in bank])
    assert [head.version for head in heads] == [2, 2] and next(moves) == 0, "after one pause"
