"""Real bugs of peers, each as a test that fails on a build with the check taken out (regressions.toml, `make mutants`)."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent
from typing import Any

import orjson
import pytest

from model.schedules.in_memory import NO_LANE, InMemory
from model.schedules.play import Play, audit, schema_string
from model.schedules.schedule import parse_schedule
from rowlock.log.table_log import TableLog
from rowlock.maintenance.vacuum import vacuum
from rowlock.protocol import names
from rowlock.storage import Committed, LocalStore, Lost, MemoryStore, Unknown
from rowlock.storage.store import ObjectMeta, PutOutcome
from rowlock.transaction.state.options import Options
from rowlock.transaction.state.shared import SharedState
from rowlock.transaction.transaction import Table
from rowlock_simulation.memory.engine import MemoryEngine
from rowlock_simulation.memory.sql.script import Append, parse
from rowlock_simulation.memory.statements import commit, run, stage

SCHEMA = schema_string([("k", "long", True), ("v", "long", True)])


def play(text: str) -> None:
    Play(parse_schedule("regression", dedent(text)), InMemory()).run()


def world(*rows: tuple[int, int], **properties: str) -> InMemory:
    made = InMemory()
    made.create(SCHEMA, (), {"delta.enableDeletionVectors": "true", **properties})
    if rows:
        made.run(Append(rows))
    return made


def another(made: InMemory) -> Table:
    """A handle of another process on the same table."""
    store = made.state.store
    return Table(TableLog(store), MemoryEngine(store), state=SharedState(TableLog(store), store))


def found(made: InMemory) -> list[tuple[Any, ...]]:
    return sorted(tuple(r.values()) for r in made.rows())


# 1


def test_stale_base() -> None:
    """Validation starts at the version that was read, and not at a newer one: the first of two winners counts too."""
    play("""
        table: k LONG, v LONG
        file: (1, 10), (2, 20)
        T  begins   UPDATE SET v = v + 1 WHERE k = 1
        W1 commits  UPDATE SET v = 100 WHERE k = 1
        W2 commits  APPEND (3, 30)
        T  ends     rebase
    """)


# 2


@pytest.mark.parametrize("statement", ["UPDATE SET v = v + 1 WHERE k = 1", "MERGE USING (k: (1)) ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = 0"])
def test_missing_path(statement: str) -> None:
    """A row that was deleted stays deleted at every level, whichever statement changes it."""
    for level in ("serializable", "write_serializable", "snapshot"):
        made = world((1, 10), (2, 20), **{"rowlock.isolation": level})
        txn = stage(made.table, parse(statement), NO_LANE)
        made.run(parse("DELETE WHERE k = 1"))
        commit(txn, parse(statement))
        audit(made.state.log)
        assert found(made) == [(2, 20)]


# 3


def test_double_insert() -> None:
    """Two merges insert one new key: it is there once."""
    play("""
        table: k LONG, v LONG
        file: (1, 10)
        T  begins   MERGE USING (k, v: (7, 70)) ON t.k = s.k WHEN NOT MATCHED THEN INSERT *
        W  commits  MERGE USING (k, v: (7, 71)) ON t.k = s.k WHEN NOT MATCHED THEN INSERT *
        T  ends     nothing
    """)


# 4


def test_retry_with_spent_state() -> None:
    """After a lost put the next try still has all rows and all deletes."""
    play("""
        table: k LONG, v LONG
        file: (1, 10), (2, 20), (3, 30)
        T  begins   UPDATE SET v = v + 1 WHERE k <= 2
        T  reaches  before_put
        W  commits  APPEND (9, 90)
        T  ends     ok attempts=2
    """)
    play("""
        table: k LONG, v LONG
        T  begins   APPEND (1, 10), (2, 20)
        T  reaches  before_put
        W  commits  APPEND (9, 90)
        T  ends     ok attempts=2
    """)


# 6


class OldListing(MemoryStore):
    """Shows, as a catalog under its own isolation does, only what was there when `freeze` was called; single objects are read as they are."""

    shown: frozenset[str] | None = None
    puts = 0

    def freeze(self) -> None:
        self.shown = frozenset(m.key for m in super().list(recursive=True))

    def list(self, prefix: str = "", **more: Any) -> Iterator[ObjectMeta]:
        return (m for m in super().list(prefix, **more) if self.shown is None or m.key in self.shown)

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        self.puts += 1
        assert self.puts < 30, "the winner is not found, and the put is tried again and again"
        return super().put_if_absent(key, data)


def test_hidden_winner() -> None:
    """A listing that hides the winner's commit does not hide the winner (5)."""
    store = OldListing("memory://hidden-winner")
    world = InMemory(store=store)
    world.create(SCHEMA, (), {})
    world.run(Append(((1, 10), (2, 20))))
    store.freeze()
    ours = stage(world.table, parse("UPDATE SET v = v + 1 WHERE k = 1"), NO_LANE)
    assert run(InMemory(store=store).table, parse("UPDATE SET v = v + 100 WHERE k = 1"), NO_LANE).version == 2
    receipt = commit(ours, parse("UPDATE SET v = v + 1 WHERE k = 1"))
    assert (receipt.version, receipt.rows_rebased) == (3, 1)
    store.shown = None
    assert sorted((r["k"], r["v"]) for r in world.rows()) == [(1, 111), (2, 20)]


def test_dropped_payload() -> None:
    """Two deletes in one file: neither takes the other's back."""
    play("""
        table: k LONG, v LONG
        file: (1, 10), (2, 20), (3, 30)
        T  begins   DELETE WHERE k = 1
        W  commits  DELETE WHERE k = 2
        T  ends     ok
    """)


# 7


def test_bare_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rival that commits between our look and our commit on a local disk is not overwritten."""
    key, rival, store = "_delta_log/0.json", LocalStore(tmp_path / "table"), LocalStore(tmp_path / "table")
    write = store._write_temporary

    def write_slowly(place: str, data: bytes) -> str:
        temporary = write(place, data)
        assert rival.put_if_absent(key, b"the rival's") == Committed()
        return temporary

    monkeypatch.setattr(store, "_write_temporary", write_slowly)
    assert store.put_if_absent(key, b"ours") == Lost()
    assert store.get(key) == b"the rival's"


# 8


def at_most(puts: int, made: InMemory) -> list[str]:
    """The keys that are put into the log from now on; more than so many is no progress."""
    tried: list[str] = []

    def count(moment: str, key: str, data: bytes) -> None:
        if moment == "before" and key.startswith("_delta_log/"):
            tried.append(key)
            assert len(tried) <= puts, "puts without end"

    assert isinstance(made.state.store, MemoryStore)
    made.state.store.faults = count
    return tried


def test_livelock() -> None:
    """Whoever lost goes on at the next version, so each round brings somebody to an end."""
    calm = InMemory()
    at_most(20, calm)
    text = """
        table: k LONG, v LONG
        file: (1, 10)
        T  begins   APPEND (2, 20)
        T  reaches  before_put
        W  commits  APPEND (3, 30)
        T  reaches  before_put
        W  commits  APPEND (4, 40)
        T  ends     ok attempts=3
    """
    Play(parse_schedule("lost rounds", dedent(text)), calm).run()
    made = world((1, 0))
    puts, together = at_most(200, made), threading.Barrier(4)

    def increment(_: int) -> list[int]:
        table = another(made)
        together.wait()
        return [run(table, parse("UPDATE SET v = v + 1 WHERE k = 1"), NO_LANE).attempts for _ in range(4)]

    with ThreadPoolExecutor(4) as pool:
        attempts = [n for done in pool.map(increment, range(4)) for n in done]
    assert found(made) == [(1, 16)] and sum(attempts) == len(puts)


# 9


def test_two_live_entries() -> None:
    """A new vector takes the old entry of its file away in the same commit."""
    made = world((1, 10), (2, 20), (3, 30))
    for k in (1, 2):
        made.run(parse(f"DELETE WHERE k = {k}"))
    audit(made.state.log)
    live: dict[tuple[str, str | None], int] = {}
    for c in made.state.log.commits(-1, 3):
        for key in (r.key for r in c.removes):
            del live[key]
        live |= {a.key: c.version for a in c.adds}
    assert list(live.values()) == [3]


# 10


@pytest.mark.parametrize("reply", [Unknown("the reply was lost"), Lost()], ids=["unknown", "a 412 after the store's own retry"])
def test_lost_reply(reply: Any) -> None:
    """The put landed and its reply did not: the winner does not do its work twice."""
    made, lost = world((1, 10)), []

    def faults(moment: str, key: str, data: bytes) -> Any:
        if moment == "after" and key == names.commit_key(2) and not lost:
            lost.append(key)
            return reply
        return None

    assert isinstance(made.state.store, MemoryStore)
    made.state.store.faults = faults
    assert made.run(parse("UPDATE SET v = v + 1 WHERE k = 1")).version == 2
    assert lost and found(made) == [(1, 11)] and TableLog(made.state.store).latest().version == 2


# 11


def test_by_name() -> None:
    """A winner is judged by its rows: one that calls itself a blind append, and moves a row into what we delete."""
    made = world((1, 5), (2, 20), **{"rowlock.isolation": "write_serializable"})
    mine = parse("DELETE WHERE v > 10")
    txn = stage(made.table, mine, NO_LANE)
    receipt = run(another(made), parse("UPDATE SET v = 15 WHERE k = 1"), NO_LANE)
    assert receipt.version is not None
    key = names.commit_key(receipt.version)
    lines = [orjson.loads(line) for line in made.state.store.get(key).splitlines()]
    lines[0]["commitInfo"] |= {"operation": "WRITE", "isBlindAppend": True}
    made.state.store.put(key, "\n".join(json.dumps(line) for line in lines).encode())
    commit(txn, mine)
    assert found(made) == []


# 13


def test_vacuum_eats_vectors(tmp_path: Path) -> None:
    """Vacuum keeps the vector files of live entries, and of those that were removed within the retention (12)."""
    store = LocalStore(tmp_path)
    world = InMemory(store=store)
    world.create(SCHEMA, (), {"delta.enableDeletionVectors": "true"})
    world.run(Append(tuple((k, k) for k in range(9000))))
    world.run(parse("DELETE WHERE k % 2 = 1"))
    vectors = {m.key for m in store.list() if m.key.startswith("deletion_vector_")}
    assert len(vectors) == 1, "the vector lies in a file"
    before = world.rows()
    vacuum(TableLog(store), retention_hours=0, check_retention=False)
    assert {m.key for m in store.list()} >= vectors
    assert InMemory(store=store).rows() == before and len(before) == 4500


@pytest.mark.failing_checkpoints
def test_after_publishing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes wrong once the version is visible is no failure of the commit, and the table can be opened."""
    made = world(**{"delta.checkpointInterval": "1"})

    def broken(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(TableLog, "write_checkpoint", broken)
    assert made.run(Append(((1, 10),))).version == 1
    assert found(made) == [(1, 10)]


# 14


def test_stale_handle() -> None:
    """A handle that went on while a slow writer was publishing sees that writer's commit."""
    made = world((1, 10))
    handle, slow, reached, go = another(made), another(made), threading.Event(), threading.Event()
    assert handle.refresh().version == 1

    def hold(moment: str, key: str, data: bytes) -> None:
        if moment == "before" and b'"slow"' in data and not reached.is_set():
            reached.set()
            assert go.wait(30)

    assert isinstance(made.state.store, MemoryStore)
    made.state.store.faults = hold
    mine = parse("UPDATE SET v = 11 WHERE k = 1")
    txn = stage(slow, mine, Options(lane=False))
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(txn.commit, "UPDATE", {"who": "slow"})
        assert reached.wait(30)
        assert run(handle, Append(((2, 20),)), NO_LANE).version == 2
        assert handle.refresh().version == 2
        go.set()
        assert late.result(30).version == 3
    assert handle.refresh().version == 3
    assert found(made) == [(1, 11), (2, 20)]
