"""Failed tries are kept beside the table, bounded, in nobody's way, and only where something went wrong (I10)."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from model.schedules.in_memory import InMemory
from model.schedules.play import schema_string
from rowlock import clock
from rowlock.advice import attempts
from rowlock.advice.attempts import FOLDER
from rowlock.advice.history import run_of_attempt
from rowlock.advice.read_history import read_history
from rowlock.boundary.engine import TableRead
from rowlock.exceptions import CommitUnknown, ConstraintViolated, DeltaConcurrentModificationException, InvalidInput, MultipleMatches
from rowlock.log.table_log import TableLog
from rowlock.maintenance.restore import restore
from rowlock.maintenance.vacuum import vacuum
from rowlock.storage.local import LocalStore
from rowlock.storage.memory import MemoryStore
from rowlock.storage.store import ObjectStore, Unknown
from rowlock.transaction.definition import alteration
from rowlock.transaction.failed_attempt import work_of
from rowlock.transaction.state.phases import Observer, use_observer
from rowlock.transaction.state.receipt import Reruns
from rowlock.transaction.transaction import Options, Transaction
from rowlock_simulation.memory import statements
from rowlock_simulation.memory.sql.script import parse
from unit.advice import histories
from unit.advice.world import Writer, play

COLUMNS = [("k", "long", True), ("v", "long", True)]


def world(store: ObjectStore | None = None, **properties: str) -> InMemory:
    made = InMemory(store=store)
    made.create(schema_string(COLUMNS), (), {"delta.enableDeletionVectors": "true", **properties})
    made.run(parse("APPEND (1, 10), (2, 20), (3, 30)"))
    return made


def staged(made: InMemory, text: str, **options: Any) -> Transaction:
    return statements.stage(made.table, parse(text), Options(lane=False, **options))


def kept(made: InMemory) -> list[dict[str, Any]]:
    assert attempts.flush()
    return attempts.read(made.state.store)[0]


def lose(made: InMemory, policy: str = "fail", granularity: str | None = None) -> Transaction:
    """A transaction that fails because another changed its row."""
    txn = staged(made, "UPDATE SET v = v + 1 WHERE k = 1", on_conflict=policy, granularity=granularity)
    made.run(parse("UPDATE SET v = v + 7 WHERE k = 1"))
    with pytest.raises(DeltaConcurrentModificationException):
        statements.commit(txn, parse("UPDATE SET v = v + 1 WHERE k = 1"))
    return txn


@pytest.mark.parametrize(
    ("policy", "granularity", "rule"), [("fail", "row", "rows changed by both"), ("rerun", "row", "rows changed by both"), ("fail", "file", "added files")]
)
def test_a_conflict_that_is_raised_is_kept(policy: str, granularity: str, rule: str) -> None:
    made = world()
    txn = lose(made, policy, granularity)
    (raw,) = kept(made)
    run = run_of_attempt(raw)
    assert run is not None and run.outcome == "conflict" and run.txn_id == txn.txn_id
    assert (run.version, run.read_version, run.ended_at, run.operation, run.policy) == (None, 1, 2, "UPDATE", policy)
    assert [(m.version, m.operation, m.rule) for m in run.met] == [(2, "UPDATE", rule)]
    assert run.thrown_rows == 1 and run.thrown_seconds > 0 and run.changes
    assert raw["granularity"] == granularity and raw["error"].startswith("Concurrent")
    history = read_history(made.state.store)
    assert [r.outcome for r in history.runs] == ["committed", "committed", "committed", "conflict"] and history.overlapping(history.runs[-1])[0].version == 2


def test_what_a_refused_rebase_had_met_is_kept() -> None:
    """It ended at the version that it met, so that what was committed meanwhile counts as beside it."""
    made, text = world(), "UPDATE SET v = v + 1 WHERE k < 3"
    txn = staged(made, text)
    made.run(parse("UPDATE SET v = v + 7 WHERE k = 1"))
    alteration.add_constraint(made.state, made.engine, "c", "v < 21 OR k = 3")
    with pytest.raises(ConstraintViolated):
        statements.commit(txn, parse(text))
    (raw,) = kept(made)
    run = run_of_attempt(raw)
    assert run is not None and [m.version for m in run.met] == [2] and run.ended_at == 2


def test_no_value_of_a_row_is_kept() -> None:
    made = world()
    made.run(parse("APPEND (4, 123456789)"))
    txn = staged(made, "UPDATE SET v = v + 1 WHERE k = 4", on_conflict="fail")
    made.run(parse("UPDATE SET v = 987654321 WHERE k = 4"))
    with pytest.raises(DeltaConcurrentModificationException, match="123456789"):
        statements.commit(txn, parse("UPDATE SET v = v + 1 WHERE k = 4"))
    text = orjson.dumps(kept(made)).decode()
    assert "123456789" not in text and "987654321" not in text


def test_where_nothing_went_wrong_there_is_no_folder(tmp_path: Path) -> None:
    made = world(LocalStore(tmp_path / "t"))
    txn = staged(made, "UPDATE SET v = v + 1 WHERE k = 1")
    made.run(parse("UPDATE SET v = 7 WHERE k = 1"))
    assert statements.commit(txn, parse("UPDATE SET v = v + 1 WHERE k = 1")).rounds == 1
    with pytest.raises(InvalidInput, match="over"):
        txn.execute()
    with pytest.raises(MultipleMatches):
        staged(made, "MERGE USING (k, v: (1, 1), (1, 2)) ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v")
    assert kept(made) == [] and not (tmp_path / "t" / "_rowlock").exists()


def test_a_second_match_that_others_brought_is_kept_as_refused() -> None:
    made, text = world(), "MERGE USING (k, v: (1, 1), (3, 2)) ON t.k = s.k OR t.v = s.v + 99 WHEN MATCHED THEN UPDATE SET v = s.v"
    txn = staged(made, text)
    made.run(parse("UPDATE SET v = 101 WHERE k = 1"))
    with pytest.raises(MultipleMatches):
        statements.commit(txn, parse(text))
    (raw,) = kept(made)
    assert (raw["outcome"], raw["error"]) == ("refused", "MultipleMatches")


def test_an_unknown_outcome_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore("memory://unknown")
    made = world(store)
    monkeypatch.setattr(clock, "sleep", lambda seconds: None)
    store.faults = lambda moment, key, data: Unknown("the reply was lost") if moment == "before" else None
    txn = staged(made, "DELETE WHERE k = 1")
    with pytest.raises(CommitUnknown):
        statements.commit(txn, parse("DELETE WHERE k = 1"))
    (raw,) = kept(made)
    assert (raw["outcome"], raw["txn_id"]) == ("unknown", txn.txn_id)


def test_a_transaction_is_kept_once() -> None:
    from rowlock.transaction import failed_attempt

    made = world()
    txn = lose(made)
    failed_attempt.record(txn, RuntimeError("again"), "UPDATE", {})
    assert len(kept(made)) == 1


def test_what_lands_in_the_end_says_what_was_thrown_away() -> None:
    made = world()
    first = lose(made, "rerun")
    txn = staged(made, "UPDATE SET v = v + 1 WHERE k = 1", on_conflict="rerun")
    txn.reruns = Reruns().after(first.txn_id, work_of(first))
    version = statements.commit(txn, parse("UPDATE SET v = v + 1 WHERE k = 1")).version
    run = read_history(made.state.store).by_version[version or 0]
    assert run.rerun_of == (first.txn_id,) and run.thrown_rows == 1 and run.thrown_seconds > 0
    plain = TableLog(made.state.store).read_commit(2)
    assert plain and plain.info and "rerun_of" not in (plain.info.rowlock or {})


def test_tries_with_an_account_are_not_counted_twice() -> None:
    from rowlock.advice.costs import costs

    history = histories.hot_rows()
    own = sum(r.thrown_seconds for r in history.failed)
    assert any(r.rerun_of for r in history.commits)
    assert costs(history).thrown_s * costs(history).changes == pytest.approx(own)


class Broken(MemoryStore):
    def put(self, key: str, data: bytes) -> None:
        if key.startswith("_rowlock"):
            raise OSError("read-only")
        super().put(key, data)


def test_a_store_that_refuses_it_is_nobodys_problem() -> None:
    made = world(Broken("memory://broken"))
    lose(made)
    assert kept(made) == []


class Slow(MemoryStore):
    """Accounts are not written before `go`."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.go = threading.Event()

    def put(self, key: str, data: bytes) -> None:
        if key.startswith("_rowlock"):
            assert self.go.wait(30)
        super().put(key, data)


def test_a_writer_does_not_wait_for_it_and_what_is_too_much_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Slow("memory://slow")
    made = world(store)
    monkeypatch.setattr(attempts, "MAX_PENDING", 3)
    for _ in range(5):
        lose(made)  # returns, though nothing can be written
    store.go.set()
    assert len(kept(made)) == 3
    lose(made)
    assert kept(made)[-1]["unrecorded"] == 2 and read_history(store).unrecorded == 2


def test_old_ones_are_cleaned_up_by_time_and_number(monkeypatch: pytest.MonkeyPatch) -> None:
    store, now = MemoryStore("memory://old"), clock.now_ms()
    monkeypatch.setattr(attempts, "MAX_RECORDS", 4)
    ages_days = (90, 31, 29, 5, 4, 3, 2)
    for n, days in enumerate(ages_days):
        store.put(attempts.key_of(now - days * 86_400_000, f"t{n}"), b"{}")
    assert attempts.tidy(store, now) == 3
    assert [meta.key.rsplit("-", 1)[1] for meta in store.list(FOLDER)] == ["t3.json", "t4.json", "t5.json", "t6.json"]
    store.put(attempts.key_of(now - 31 * 86_400_000, "late"), b"{}")
    assert attempts.tidy(store, now) == 1


def test_the_first_account_of_a_process_cleans_up() -> None:
    made = world(MemoryStore("memory://first"))
    old = attempts.key_of(1, "ancient")
    made.state.store.put(old, b"{}")
    lose(made)
    assert len(kept(made)) == 1 and not made.state.store.exists(old)


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"\xff", b'{"outcome": "well"}', b'{"outcome": ["conflict"]}', b'"text"'])
def test_what_does_not_read_is_left_out(data: bytes) -> None:
    made = world()
    made.state.store.put(f"{FOLDER}/0000000000001-x.json", data)
    made.state.store.put(f"{FOLDER}/notes.txt", data)
    assert read_history(made.state.store).failed == ()


def test_vacuum_and_other_engines_leave_the_folder_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"k": [1, 2, 3]}))
    before = DeltaTable(path).file_uris()
    store = LocalStore(path)
    for n in range(3):
        store.put(attempts.key_of(1000 + n, f"t{n}"), orjson.dumps({"outcome": "conflict", "operation": "UPDATE"}))
    names = [meta.key for meta in store.list(FOLDER)]
    table = DeltaTable(path)
    assert table.file_uris() == before and table.to_pyarrow_table().num_rows == 3
    write_deltalake(path, pa.table({"k": [4]}), mode="append")
    DeltaTable(path).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
    vacuum(TableLog(store), retention_hours=0, check_retention=False)
    assert [meta.key for meta in store.list(FOLDER)] == names, "names with an underscore are hidden"
    assert DeltaTable(path).to_pyarrow_table().num_rows == 4 and len(TableLog(store).latest().files) == 2
    assert len(read_history(store).failed) == 3


def test_a_partition_column_of_a_hidden_name_does_not_unhide_folders() -> None:
    made = InMemory()
    made.create(schema_string([("k", "long", True), ("_delta_log", "long", True)]), ("_delta_log",), {})
    made.run(parse("APPEND (1, 1), (2, 2)"))
    made.run(parse("DELETE WHERE _delta_log = 1"))
    gone = vacuum(made.state.log, retention_hours=0, check_retention=False).files
    assert all(key.startswith("_delta_log=1/") for key in gone) and made.rows() == [{"k": 2, "_delta_log": 2}]


def test_a_history_is_carried_on() -> None:
    made = world()
    lose(made)
    assert attempts.flush()
    first = read_history(made.state.store)
    reads: list[str] = []

    class Watched(MemoryStore):
        def get(self, key: str) -> bytes:
            reads.append(key)
            return made.state.store.get(key)

        def list(self, *args: Any, **more: Any) -> Any:
            return made.state.store.list(*args, **more)

    lose(made)
    assert attempts.flush()
    snapshot = made.state.refresh()
    second = read_history(Watched(made.state.store.root), previous=first, snapshot=snapshot)
    assert len(second.commits) == len(first.commits) + 1 and len(second.failed) == 2
    assert len(reads) == 2, "one commit and one account are new"
    whole = read_history(made.state.store, snapshot=snapshot)
    assert [(r.version, r.txn_id) for r in whole.runs] == [(r.version, r.txn_id) for r in second.runs]


def test_a_history_is_bounded() -> None:
    made = play([Writer(lambda n: f"APPEND ({n}, 0)", 10)], store=(store := MemoryStore("memory://bounded")))
    newest = made.commits[-1].version
    few = read_history(store, 4)
    assert [r.version for r in few.commits] == list(range((newest or 0) - 3, (newest or 0) + 1)) and not few.whole and made.whole


def test_a_source_that_was_read_at_another_version_is_kept() -> None:
    made = world()
    made.run(parse("UPDATE SET v = v + 7 WHERE k = 1"))
    txn = made.table.begin()
    with pytest.raises(DeltaConcurrentModificationException, match="read from this table at version 1"):
        txn.note_read(TableRead(1))
    (raw,) = kept(made)
    assert raw["account"]["conflicts"][-1]["rule"] == "rows read" and raw["outcome"] == "conflict"


def test_a_compaction_that_failed_would_have_waited_for_nobody() -> None:
    made = world()
    made.run(parse("APPEND (4, 40)"))
    txn = staged(made, "OPTIMIZE", on_conflict="fail", granularity="file")
    made.run(parse("DELETE WHERE k = 1"))
    with pytest.raises(DeltaConcurrentModificationException):
        statements.commit(txn, parse("OPTIMIZE"))
    assert kept(made)[0]["moves"]
    (failed,) = read_history(made.state.store).failed
    assert failed.operation == "OPTIMIZE" and not failed.changes


SCRIPT = """
import sys, threading
from rowlock.advice import attempts
from rowlock.storage.local import LocalStore

class Store(LocalStore):
    def put(self, key, data):
        if "hang" in sys.argv:
            threading.Event().wait()
        super().put(key, data)

attempts.AT_EXIT_S = 0.5
attempts.atexit.unregister(attempts.flush)
attempts.atexit.register(attempts.flush, attempts.AT_EXIT_S)
for n in range(20):
    attempts.record(Store(sys.argv[1]), {"txn_id": f"t{n}", "outcome": "conflict"})
raise SystemExit(3)
"""


def test_a_process_that_ends_writes_what_it_has_and_is_not_kept_by_a_store_that_hangs(tmp_path: Path) -> None:
    def end(*more: str) -> int:
        done = subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path / "t"), *more], capture_output=True, timeout=60, check=False)
        assert done.stderr == b""
        return done.returncode

    assert end("hang") == 3 and not (tmp_path / "t" / FOLDER).exists()
    assert end() == 3 and len(list((tmp_path / "t" / FOLDER).iterdir())) == 20


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_records_its_own(tmp_path: Path) -> None:
    store = Slow(str(tmp_path))
    attempts.record(store, {"txn_id": "parent"})
    place = LocalStore(tmp_path / "t")
    child = os.fork()
    if child == 0:  # the parent's account waits; the child's does not wait for it
        try:
            attempts.record(place, {"txn_id": "child"})
            os._exit(0 if attempts.flush(10) else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    store.go.set()
    assert attempts.flush() and len(attempts.read(store)[0]) == 1 and len(attempts.read(place)[0]) == 1


class Meanwhile(Observer):
    """Another commits once a restore has read the table."""

    def __init__(self, made: InMemory) -> None:
        self._made: InMemory | None = made

    def phase(self, name: str, txn: Any) -> None:
        made, self._made = self._made, None
        if name == "staged" and made is not None:
            made.run(parse("UPDATE SET v = v + 7 WHERE k = 1"))


def test_a_restore_that_failed_is_kept() -> None:
    made = world()
    made.run(parse("DELETE WHERE k = 2"))
    with use_observer(Meanwhile(made)), pytest.raises(DeltaConcurrentModificationException):
        restore(made.table, made.state.log.at(1), {"version": 1}, options=Options(lane=False, on_conflict="fail"))
    (run,) = read_history(made.state.store).failed if kept(made) else ()
    assert (run.operation, run.outcome, run.read_version, run.ended_at) == ("RESTORE", "conflict", 2, 3) and run.met[-1].version == 3 and run.changes
