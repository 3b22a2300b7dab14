"""A table that was made anew, and a log that was rewritten, under transactions of every kind (I2, I3, I5, I9)."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from model.schedules.in_memory import InMemory
from model.schedules.play import schema_string
from rowlock.exceptions import (
    CommitOverwrittenWarning,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    CorruptLog,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    TableNotFound,
)
from rowlock.maintenance.restore import restore
from rowlock.protocol import names
from rowlock.protocol.actions import SetTransaction
from rowlock.protocol.schema import parse_schema
from rowlock.storage.local import LocalStore
from rowlock.storage.memory import MemoryStore
from rowlock.storage.store import ObjectStore
from rowlock.transaction.definition import alteration, creation, replacement
from rowlock.transaction.state import shared
from rowlock.transaction.state.options import Options
from rowlock.transaction.state.phases import Observer, use_observer
from rowlock.transaction.transaction import Transaction
from rowlock_simulation.memory.sql.script import parse
from rowlock_simulation.memory.statements import run, statements_of

COLUMNS = [("k", "long", True), ("v", "long", True)]
TRACKED = {"delta.enableRowTracking": "true", "delta.enableDeletionVectors": "true"}
POLICIES = [
    Options(on_conflict="repair"),
    Options(on_conflict="repair", isolation="snapshot"),
    Options(on_conflict="rerun"),
    Options(on_conflict="fail", granularity="file"),
    Options(on_conflict="fail", granularity="row"),
    Options(on_conflict="lockless"),
]
RAISING = [o for o in POLICIES if o.raises]


class Far(MemoryStore):
    """A memory store that takes itself for one behind a network: nothing is asked that need not be."""

    @property
    def is_remote(self) -> bool:
        return True


@pytest.fixture(params=["memory", "far", "local"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    return LocalStore(tmp_path / "table") if request.param == "local" else Far() if request.param == "far" else MemoryStore()


def policy(options: Options) -> str:
    return "+".join(v for v in (options.on_conflict, options.granularity, options.isolation) if v)


def world(store: ObjectStore, *scripts: str, **properties: str) -> InMemory:
    one = InMemory(store=store)
    one.create(schema_string(COLUMNS), (), {**TRACKED, **properties})
    for script in scripts:
        run(one.table, parse(script))
    return one


def drop(store: ObjectStore) -> None:
    for meta in list(store.list(recursive=True)):
        store.delete(meta.key)


def made_anew(store: ObjectStore, *scripts: str, columns: list[tuple[str, str, bool]] = COLUMNS, **properties: str) -> InMemory:
    """Another table in the place of the one that was there, made by another process."""
    drop(store)
    other = InMemory(store=store)
    other.create(schema_string(columns), (), {**TRACKED, **properties})
    for script in scripts:
        run(other.table, parse(script))
    return other


def rewritten(store: ObjectStore, last: int, *scripts: str) -> None:
    """The log as another engine leaves it that took `last` for the newest version and renamed its commits over ours."""
    other = InMemory(store=store)
    for file in [m.key for m in store.list("_delta_log")]:
        if (found := names.parse(file)) is not None and found.version > last:
            store.delete(file)
    for script in scripts:
        run(other.table, parse(script))


def staged(world: InMemory, script: str, options: Options, *, app: SetTransaction | None = None, widens: bool = False) -> Transaction:
    snapshot = world.state.refresh()
    wider = parse_schema(schema_string([*COLUMNS, ("w", "long", True)]))
    metadata = creation.widened(snapshot.metadata, wider, snapshot.table) if widens else None
    txn = world.table.begin(replace(options, lane=False), app=app, metadata=metadata)
    script = script.replace(")", ", NULL)") if widens and script.startswith("APPEND") else script
    txn.execute(*statements_of(parse(script), txn.base))
    return txn


class Meanwhile(Observer):
    """Does something when a transaction comes to a phase for the first time; when it has staged its work."""

    def __init__(self, act: Callable[[], object], at: str = "staged") -> None:
        self._act: Callable[[], object] | None = act
        self._at = at

    def phase(self, name: str, txn: Any) -> None:
        act, self._act = (self._act, None) if name == self._at else (None, self._act)
        if act is not None:
            act()


def values(world: InMemory) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in world.rows())


@pytest.fixture(autouse=True)
def no_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the log is a new one, as it is two seconds later."""
    monkeypatch.setattr(shared, "_A_MOMENT_S", 0.0)


@pytest.mark.parametrize("options", POLICIES, ids=policy)
@pytest.mark.parametrize("widens", [False, True], ids=["", "merge_schema"])
@pytest.mark.parametrize("script", ["APPEND (9, 9)", "UPDATE SET v = v + 1 WHERE k = 1"])
@pytest.mark.parametrize("versions", [0, 2, 4], ids=["fewer", "as many", "more"])
def test_a_table_made_anew_is_another_table(options: Options, widens: bool, script: str, versions: int) -> None:
    """I3, I9: under every policy, whatever is staged: nothing that was meant for the old table lands in the new one."""
    store = MemoryStore()
    ours = world(store, "APPEND (1, 1)", "APPEND (2, 2)")
    txn = staged(ours, script, options, widens=widens)
    anew = made_anew(store, *["APPEND (1, 5)"] * versions)
    before, head = values(anew), anew.state.refresh()
    with pytest.raises(MetadataChangedException, match="created again") as e:
        txn.commit("WRITE")
    assert e.value.conflict.staged is not None and head.metadata.id in str(e.value)
    assert values(anew) == before and anew.state.refresh().version == head.version


def test_widened_columns_do_not_land_in_another_table() -> None:
    """I9: the same without a choice, under the policy and with the metadata that were judged by the winners' commits alone."""
    store = Far()
    ours = world(store, "APPEND (1, 1)")
    txn = staged(ours, "APPEND (9, 9)", Options(on_conflict="fail", granularity="file"), widens=True)
    anew = made_anew(store, "APPEND (7, 7)")
    with pytest.raises(MetadataChangedException, match="created again"):
        txn.commit("WRITE")
    assert values(anew) == [(7, 7)]


def test_an_alteration_of_a_table_made_anew(store: ObjectStore) -> None:
    """I9: what was asked of the old table's rows was not asked of the new one's."""
    ours = world(store, "APPEND (1, 1)")
    meanwhile = Meanwhile(lambda: made_anew(store, "APPEND (-1, 1)"))
    with use_observer(meanwhile), pytest.raises(MetadataChangedException, match="created again"):
        alteration.add_constraint(ours.state, ours.engine, "positive", "k > 0")
    assert ours.state.refresh().version == 1


@pytest.mark.parametrize("options", POLICIES, ids=policy)
def test_a_table_that_was_read_before_its_creator_knew_of_it(store: ObjectStore, options: Options) -> None:
    """I2: in the process that creates a table, a transaction that others began on it is not told that its log was rewritten."""
    ours = world(store)  # of a table that is dropped
    drop(store)
    txns: list[Transaction] = []

    def read_already() -> None:
        run(InMemory(store=store).table, parse("APPEND (1, 1)"))
        txns.append(staged(ours, "UPDATE SET v = v + 1 WHERE k = 1", options))

    with use_observer(Meanwhile(read_already, "after_put")):
        ours.create(schema_string(COLUMNS), (), TRACKED)
    assert txns[0].commit("UPDATE").version == 2
    assert values(ours) == [(1, 2)]


def test_a_restore_of_a_table_made_anew(store: ObjectStore) -> None:
    """I9: the old version of another table is not brought back."""
    ours = world(store, "APPEND (1, 1)", "APPEND (2, 2)")
    meanwhile = Meanwhile(lambda: made_anew(store, *["APPEND (7, 7)"] * 4))
    with use_observer(meanwhile), pytest.raises(MetadataChangedException, match="created again"):
        ours.restore(1)
    assert values(ours) == [(7, 7)] * 4


def test_a_replacement_of_a_table_made_anew(store: ObjectStore) -> None:
    """I4, I9: CREATE OR REPLACE removes the files that live, not those of the table that was there when it began."""
    ours = world(store, "APPEND (1, 1)")
    meanwhile = Meanwhile(lambda: made_anew(store, "APPEND (7, 7)"))
    with use_observer(meanwhile), pytest.raises(MetadataChangedException, match="created again"):
        replacement.replace_table(ours.state, creation.new_metadata(schema_string(COLUMNS), (), {}), properties={})
    assert values(ours) == [(7, 7)]


def sizes(store: ObjectStore) -> list[int]:
    return [m.size_bytes for m in store.list("_delta_log")]


def test_commits_of_one_size_are_not_one_commit(store: ObjectStore) -> None:
    """I9: a table made anew with commits as long as the old ones is another table, for who follows the log and for who appends to it."""
    ours = world(store, **{"delta.columnMapping.mode": "name"})
    before, old = ours.state.refresh(), sizes(store)
    anew = made_anew(store, **{"delta.columnMapping.mode": "name"})
    assert sizes(store) == old, "else the size alone would tell"
    head = anew.state.refresh()
    assert ours.state.refresh().metadata.id == head.metadata.id != before.metadata.id
    run(ours.table, parse("APPEND (1, 2)"))
    assert values(anew) == [(1, 2)], "under the new table's names of the columns"


def test_a_commit_of_the_same_size_is_another_commit() -> None:
    """I9: the same where nothing but the store's tag tells."""
    store = Far()
    ours = world(store)
    before = ours.state.refresh()
    made_anew(store)
    assert ours.state.refresh().metadata.id != before.metadata.id


def test_a_put_after_another_table_is_not_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    """I2, I9: between the last look at the log and the put nothing can be asked; what it was put on is looked at afterwards."""
    monkeypatch.setattr(shared, "_A_MOMENT_S", 100.0)
    store = Far()
    ours = world(store)
    txn = staged(ours, "APPEND (1, 2)", Options())
    made_anew(store)
    with pytest.raises(CorruptLog, match="created again") as e:
        txn.commit("WRITE")
    assert e.value.version == 1 and e.value.file == names.commit_key(1)


@pytest.mark.parametrize("cut", [False, True], ids=["replaced", "cut off"])
@pytest.mark.parametrize("options", RAISING, ids=policy)
def test_who_asked_for_conflicts_is_told_of_a_rewritten_log(options: Options, cut: bool) -> None:
    """I9: neither an IndexError nor a repair in silence."""
    store = MemoryStore()
    ours = world(store, "APPEND (1, 1), (3, 3)", "APPEND (2, 2)", "UPDATE SET v = 30 WHERE k = 3")
    txn = staged(ours, "UPDATE SET v = v + 1 WHERE k = 1", options)
    rewritten(store, 1, *([] if cut else ["UPDATE SET v = 10 WHERE k = 1", "APPEND (5, 5)", "APPEND (6, 6)"]))
    head = InMemory(store=store).state.refresh()
    with (
        pytest.warns(CommitOverwrittenWarning),
        pytest.raises(ConcurrentWriteException, match="ends at version 1 now" if cut else "not the one that is there now") as e,
    ):
        txn.commit("UPDATE")
    assert e.value.rule == "rewritten log" and e.value.conflict.thrown_away is not None
    assert InMemory(store=store).state.refresh().version == head.version


@pytest.mark.parametrize("cut", [False, True], ids=["replaced", "cut off"])
@pytest.mark.parametrize("isolation", ["serializable", "write_serializable", "snapshot"])
@pytest.mark.parametrize(
    "script",
    [
        "UPDATE SET v = v + 1 WHERE k <= 3",
        "DELETE WHERE v = 2",
        "MERGE USING (k, v: (3, 7), (5, 8)) ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *",
        "APPEND (9, 9)",
    ],
)
def test_a_repair_over_a_rewritten_log_is_the_serial_run(script: str, isolation: Any, cut: bool) -> None:
    """I3: what lies between two states is all that a rebase needs to know, and who lost a commit is told."""
    store = MemoryStore()
    ours = world(store, "APPEND (1, 1), (3, 3)", "APPEND (2, 2)", "UPDATE SET v = 30 WHERE k = 3")
    txn = staged(ours, script, Options(isolation=isolation))
    rewritten(store, 1, *([] if cut else ["UPDATE SET v = 10 WHERE k = 1", "APPEND (5, 5), (2, 4)", "APPEND (6, 6)"]))
    twin = InMemory(store=MemoryStore())
    twin.create(schema_string(COLUMNS), (), TRACKED)
    for done in ["APPEND (1, 1), (3, 3)", *([] if cut else ["UPDATE SET v = 10 WHERE k = 1", "APPEND (5, 5), (2, 4)", "APPEND (6, 6)"]), script]:
        run(twin.table, parse(done))
    with pytest.warns(CommitOverwrittenWarning, match="is gone" if cut else "was overwritten"):
        receipt = txn.commit("UPDATE")
    assert values(InMemory(store=store)) == values(twin)
    assert receipt.version == (None if script.startswith("DELETE") else 2 if cut else 5), "what was to be deleted is gone"


@pytest.mark.parametrize("cut", [False, True], ids=["replaced", "cut off"])
def test_a_read_of_a_rewritten_log_is_a_conflict(store: ObjectStore, cut: bool) -> None:
    """I9: repair, and the transaction has read the table as a whole."""
    ours = world(store, "APPEND (1, 1)", "APPEND (2, 2)")
    txn = staged(ours, "UPDATE SET v = v + 1 WHERE k = 1", Options())
    txn.note_read()
    rewritten(store, 1, *([] if cut else ["APPEND (5, 5)"]))
    with pytest.warns(CommitOverwrittenWarning), pytest.raises(DeltaConcurrentModificationException, match="read the table at version 2") as e:
        txn.commit("UPDATE")
    assert e.value.winner_operation == "REWRITTEN LOG"


@pytest.mark.parametrize("options", POLICIES, ids=policy)
def test_a_step_of_an_application_that_a_rewritten_log_holds_is_not_committed_again(options: Options) -> None:
    """I2: the step is looked for in the head, not only among winners that nobody can name."""
    store = MemoryStore()
    ours = world(store, "APPEND (1, 1)", "APPEND (2, 2)")
    txn = staged(ours, "APPEND (9, 9)", options, app=SetTransaction("app", 4))
    rewritten(store, 1)
    other = InMemory(store=store)
    theirs = staged(other, "APPEND (9, 9)", Options(), app=SetTransaction("app", 4))
    theirs.commit("WRITE")
    with pytest.warns(CommitOverwrittenWarning):
        if options.on_conflict == "fail":
            with pytest.raises(ConcurrentTransactionException):
                txn.commit("WRITE")
        else:
            assert txn.commit("WRITE").already_committed
    assert values(other) == [(1, 1), (9, 9)]


def test_lockless_does_not_follow_ids_through_a_rewritten_log(store: ObjectStore) -> None:
    """I6, I9: ids of commits that were lost may have been given to other rows."""
    ours = world(store, "APPEND (1, 1)", "APPEND (2, 2)")
    txn = staged(ours, "UPDATE SET v = 0 WHERE k = 2", Options(on_conflict="lockless"))
    rewritten(store, 1, "APPEND (7, 7)", "UPDATE SET v = 8 WHERE k = 7")
    with pytest.warns(CommitOverwrittenWarning), pytest.raises(ConcurrentWriteException, match="rewritten"):
        txn.commit("UPDATE")
    assert values(InMemory(store=store)) == [(1, 1), (7, 8)]


@pytest.mark.parametrize("options", POLICIES, ids=policy)
def test_rows_from_elsewhere_do_not_mind_a_rewritten_log(options: Options) -> None:
    """I8: an append has read nothing that could have changed."""
    store = MemoryStore()
    ours = world(store, "APPEND (1, 1)", "APPEND (2, 2)")
    txn = staged(ours, "APPEND (9, 9)", options)
    rewritten(store, 1, "APPEND (7, 7)")
    with pytest.warns(CommitOverwrittenWarning):
        assert txn.commit("WRITE").version == 3
    assert values(InMemory(store=store)) == [(1, 1), (7, 7), (9, 9)]


def test_a_file_that_was_replaced_under_its_name_is_no_base_for_a_repair(store: ObjectStore) -> None:
    """I9: a backup put back, in which a file of the same name is another file."""
    ours = world(store, "APPEND (1, 1)", "APPEND (2, 2)")
    txn = staged(ours, "UPDATE SET v = v + 1 WHERE k = 1", Options())
    key = names.commit_key(1)
    text = store.get(key).decode()
    (add,) = ours.state.log.commits(0, 1)[0].adds
    store.put(key, text.replace(f'"size":{add.size_bytes}', f'"size":{add.size_bytes + 1}').encode())
    rewritten(store, 1, "APPEND (7, 7)")
    with pytest.warns(CommitOverwrittenWarning), pytest.raises(ConcurrentWriteException, match="rewritten"):
        txn.commit("UPDATE")


@pytest.mark.parametrize("on_conflict", ["fail", "repair"])
def test_a_restore_over_a_rewritten_log(store: ObjectStore, on_conflict: Any) -> None:
    """I3, I9: who asked for conflicts is told; else the old version is brought back over what is there."""
    world(store, "APPEND (1, 1)", "APPEND (2, 2)")
    meanwhile = Meanwhile(lambda: rewritten(store, 1, "APPEND (7, 7)"))

    ours = InMemory(store=store)
    with use_observer(meanwhile), pytest.warns(CommitOverwrittenWarning):
        target = ours.state.log.at(1)
        if on_conflict == "fail":
            with pytest.raises(ConcurrentWriteException, match="rewritten"):
                restore(ours.table, target, {"version": 1}, options=Options(on_conflict="fail", lane=False))
        else:
            assert restore(ours.table, target, {"version": 1}, options=Options(lane=False)).version == 3
    assert values(InMemory(store=store)) == ([(1, 1), (7, 7)] if on_conflict == "fail" else [(1, 1)])


@pytest.mark.parametrize("options", POLICIES, ids=policy)
@pytest.mark.parametrize("script", ["APPEND (9, 9)", "UPDATE SET v = v + 1 WHERE k = 1"])
def test_a_table_that_was_deleted_meanwhile_is_not_there(tmp_path: Path, options: Options, script: str) -> None:
    """I9: said by name, and nothing of the table comes back."""
    place = tmp_path / "table"
    ours = world(LocalStore(place), "APPEND (1, 1)", "APPEND (2, 2)")
    txn = staged(ours, script, options)
    shutil.rmtree(place)
    with pytest.raises(TableNotFound):
        txn.commit("WRITE")
    assert not place.exists()


def test_a_clean_up_is_no_other_log(store: ObjectStore) -> None:
    """I8: a writer that slept through a clean-up of the log behind a checkpoint is on the same chain, and nobody is warned."""
    ours = world(store, "APPEND (1, 1)")
    before = ours.state.refresh()
    other = InMemory(store=store)
    for n in range(4):
        run(other.table, parse(f"APPEND ({n}, 7)"))
    other.state.log.write_checkpoint(other.state.refresh())
    for version in range(4):
        store.delete(names.commit_key(version))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        after = ours.state.refresh()
    assert after.version == 5 and after.chain == before.chain
