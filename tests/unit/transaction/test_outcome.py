"""I2: what became of a put, whatever the store said about it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from model.schedules.in_memory import InMemory
from model.schedules.play import schema_string
from rowlock import clock
from rowlock.exceptions import CommitUnknown, ConcurrentWriteException, CorruptLog
from rowlock.log.table_log import TableLog
from rowlock.protocol import names
from rowlock.protocol.actions import CommitInfo
from rowlock.protocol.commits import serialize_commit
from rowlock.storage import Committed, Lost, MemoryStore, PutOutcome, StorageError, Unknown
from rowlock.storage.local import LocalStore, SystemCalls
from rowlock.transaction.publish.outcome import TRIES, landed
from rowlock_simulation.memory.sql.script import parse
from rowlock_simulation.memory.statements import run

OURS, THEIRS = "ours", "theirs"


class Quick(clock.SystemClock):
    """Sleeps in no time, and tells how long it would have slept."""

    def __init__(self) -> None:
        self.slept_s = 0.0

    def sleep(self, seconds: float) -> None:
        self.slept_s += seconds


@pytest.fixture(autouse=True)
def quick() -> Iterator[Quick]:
    with clock.use(Quick()) as c:
        yield c  # type: ignore[misc]


def commit(txn_id: str) -> bytes:
    return serialize_commit(CommitInfo({"operation": "WRITE", "txnId": txn_id}))


class Unclear(MemoryStore):
    """A store whose puts go as a script says: 'lost-reply', 'never-sent', 'called-lost', 'late' (it lands at the next reading), 'fails'."""

    def __init__(self, *script: str) -> None:
        super().__init__("memory://outcome")
        self.script, self.tries, self.late, self.blind = list(script), 0, dict[str, bytes](), 0

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        self.tries += 1
        what = self.script.pop(0) if self.script else "well"
        if what == "fails":
            raise StorageError("access was denied")
        if what == "never-sent":
            return Unknown("no reply")
        if what == "late":
            self.late[key] = data
            return Unknown("no reply")
        done = super().put_if_absent(key, data)
        return {"lost-reply": Unknown("no reply"), "called-lost": Lost()}.get(what, done)

    def get(self, key: str) -> bytes:
        if self.blind:
            self.blind -= 1
            raise StorageError("no answer")
        try:
            return super().get(key)
        finally:
            if key in self.late:
                super().put_if_absent(key, self.late.pop(key))


def settle(store: MemoryStore, version: int = 1, txn_id: str = OURS) -> bool:
    log, data = TableLog(store), commit(txn_id)
    return landed(log, version, lambda: data, txn_id, log.put(version, data))


@pytest.mark.parametrize(
    ("script", "tries"),
    [
        ((), 1),
        (("lost-reply",), 1),
        (("called-lost",), 1),
        (("never-sent",), 2),
        (("never-sent", "never-sent", "lost-reply"), 3),
        (("late",), 2),
        (("late", "called-lost"), 2),
        (("never-sent", "fails", "never-sent"), 4),
    ],
    ids=lambda x: "+".join(x) or "well" if isinstance(x, tuple) else None,
)
def test_ours_is_found_to_be_ours(script: tuple[str, ...], tries: int) -> None:
    store = Unclear("well", *script)
    store.put_if_absent(names.commit_key(0), commit("before"))
    store.tries = 0
    assert settle(store) is True
    assert store.get(names.commit_key(1)) == commit(OURS) and store.tries == tries


@pytest.mark.parametrize("script", [(), ("lost-reply",), ("never-sent",), ("called-lost",)])
def test_anothers_is_found_to_be_anothers(script: tuple[str, ...]) -> None:
    store = Unclear("well", "well", *script)
    store.put_if_absent(names.commit_key(0), commit("before"))
    store.put_if_absent(names.commit_key(1), commit(THEIRS))
    assert settle(store) is False
    assert store.get(names.commit_key(1)) == commit(THEIRS)


def test_another_may_come_between_two_of_our_tries() -> None:
    store = Unclear("well", "never-sent")
    store.put_if_absent(names.commit_key(0), commit("before"))
    MemoryStore.put_if_absent(store, names.commit_key(1), commit(THEIRS))
    assert settle(store) is False


def test_reading_back_is_tried_again() -> None:
    store = Unclear("well", "lost-reply")
    store.put_if_absent(names.commit_key(0), commit("before"))
    store.blind = 4
    assert settle(store) is True


@pytest.mark.parametrize("script", [["never-sent"] * 99, ["never-sent", *["fails"] * 99]])
def test_what_cannot_be_found_out_is_said(script: list[str], quick: Quick) -> None:
    store = Unclear("well", *script)
    store.put_if_absent(names.commit_key(0), commit("before"))
    with pytest.raises(CommitUnknown, match="txnId ours") as e:
        settle(store)
    assert (e.value.version, e.value.txn_id, store.tries) == (1, OURS, TRIES + 2) and 5 < quick.slept_s < 60


def test_a_refused_first_put_is_a_failure_and_not_unknown() -> None:
    store = Unclear("fails")
    with pytest.raises(StorageError, match="denied"):
        settle(store, 0)
    assert list(store.list("_delta_log")) == []


def log_of(versions: Iterator[int] | range, checkpoint: int | None = None) -> MemoryStore:
    store = MemoryStore("memory://outcome")
    for v in versions:
        store.put(names.commit_key(v), commit(f"v{v}"))
    if checkpoint is not None:
        store.put(names.checkpoint_key(checkpoint), b"PAR1")
    return store


def aged(store: MemoryStore) -> MemoryStore:
    """As if all of it had been written a minute ago."""
    objects: dict[str, Any] = store._objects
    for key, (data, at) in objects.items():
        objects[key] = (data, at - 60_000)
    return store


def test_a_version_that_clean_up_made_free_is_not_won() -> None:
    """The writer read version 4 and slept; the log went on to 9 and was cleaned up, by a checkpoint at 8, up to 7 or up to 5."""
    for kept in (range(8, 10), range(6, 10)):
        store = aged(log_of(iter(kept), checkpoint=8))
        with pytest.raises(ConcurrentWriteException, match="at version 9 and was cleaned up") as e:
            settle(store, 5)
        assert "Run the statement again" in str(e.value)


def test_a_put_whose_first_answer_was_lost_is_not_told_that_nothing_landed() -> None:
    """I2: the first put may have landed, been built on and been cleaned away while its writer slept: to run the statement again would double its rows."""
    store = aged(log_of(range(8, 10), checkpoint=8))
    with pytest.raises(CommitUnknown):
        landed(TableLog(store), 5, lambda: commit(OURS), OURS, Unknown(StorageError("the answer was lost")))


def test_a_commit_on_a_checkpoint_whose_own_commit_is_gone_is_won() -> None:
    assert settle(aged(log_of(range(0), checkpoint=4)), 5)


def test_a_commit_that_others_have_built_on_is_won() -> None:
    store = aged(log_of(range(0), checkpoint=4))
    log, data = TableLog(store), commit(OURS)
    outcome = log.put(5, data)
    store.put(names.commit_key(6), commit("v6"))
    store.put(names.checkpoint_key(6), b"PAR1")
    assert outcome == Committed() and landed(log, 5, lambda: data, OURS, outcome)


def test_a_table_that_was_made_anew_is_named() -> None:
    with pytest.raises(CorruptLog, match="created again meanwhile") as e:
        settle(log_of(range(2)), 5)
    assert e.value.file == names.commit_key(5)


def test_the_first_version_is_won_where_there_is_no_log_and_only_there() -> None:
    assert settle(MemoryStore("memory://outcome"), 0)
    with pytest.raises(ConcurrentWriteException):
        settle(aged(log_of(range(8, 10), checkpoint=8)), 0)


def covered_at_once(version: int) -> tuple[MemoryStore, bytes, str]:
    """A table whose newest version has a checkpoint, with the bytes and the txnId of that version; its files are of one time."""
    store = MemoryStore("memory://outcome")
    world, log = InMemory(store=store), TableLog(store)
    world.create(schema_string([("k", "long", True)]), (), {})
    for k in range(version):
        run(world.table, parse(f"APPEND ({k})"))
    log.write_checkpoint(log.latest())
    made = log.read_commit(version)
    assert made is not None and made.txn_id is not None
    return store, store.get(names.commit_key(version)), made.txn_id


@pytest.mark.parametrize("sure", [True, False])
@pytest.mark.parametrize("change", ["APPEND (7)", "DELETE WHERE k = 0", "UPDATE SET k = 8 WHERE k = 1"])
def test_a_checkpoint_of_the_table_that_was_here_before_covers_no_commit(change: str, sure: bool) -> None:
    """I2: found by the simulation (s3 278,005,081): the table was dropped while two waited, one to put version 5, one to put its checkpoint of another version 5."""
    store, _, _ = covered_at_once(4)
    for key in (names.checkpoint_key(4), names.LAST_CHECKPOINT):
        store.delete(key)
    kept = {m.key: store.get(m.key) for m in store.list(recursive=True)}
    run(InMemory(store=store).table, parse("APPEND (6)"))
    theirs = TableLog(store)
    theirs.write_checkpoint(theirs.latest())
    late = store.get(names.checkpoint_key(5))
    ours = MemoryStore("memory://outcome")
    for key, data in kept.items():
        ours.put(key, data)
    run(InMemory(store=ours).table, parse(change))
    data, made = ours.get(names.commit_key(5)), TableLog(ours).read_commit(5)
    assert made is not None and made.txn_id is not None
    store.delete(names.commit_key(4))
    store.put(names.commit_key(5), data)
    store.put(names.checkpoint_key(5), late)
    with pytest.raises(ConcurrentWriteException if sure else CommitUnknown):
        landed(TableLog(store), 5, lambda: data, made.txn_id, Committed() if sure else Lost())


@pytest.mark.parametrize(("kept", "version"), [(range(0), 0), (range(4, 5), 5)])
def test_a_commit_of_which_another_has_written_a_checkpoint_at_once_is_won(kept: range, version: int) -> None:
    """I2: a new table, or one whose older log was cleaned up behind that checkpoint; its writer was told that nothing of it can be seen."""
    store, data, made = covered_at_once(version)
    for v in kept:
        store.delete(names.commit_key(v))
    assert landed(TableLog(store), version, lambda: data, made, Committed())


def test_a_new_table_whose_first_file_is_put_again_after_its_checkpoint_is_won() -> None:
    """I2: with a DynamoDB arbiter others finish version 0, read it and write a checkpoint; then its maker puts the same file (`dynamodb` 170,000,563)."""
    store = MemoryStore("memory://outcome")
    world, log = InMemory(store=store), TableLog(store)
    world.create(schema_string([("k", "long", True)]), (), {})
    log.write_checkpoint(log.latest())
    data = store.get(names.commit_key(0))
    aged(store).put(names.commit_key(0), data)
    made = log.read_commit(0)
    assert made is not None and made.txn_id is not None
    assert landed(log, 0, lambda: data, made.txn_id, Committed())
    other = data.replace(log.latest().metadata.id.encode(), b"the-table-of-another-that-came-too-late")
    store.put(names.commit_key(0), other)
    with pytest.raises(ConcurrentWriteException, match="was cleaned up"):
        landed(log, 0, lambda: other, made.txn_id, Committed())


@pytest.mark.parametrize("tag_known", [True, False])
def test_a_commit_after_that_of_another_table_is_not_acknowledged(tag_known: bool) -> None:
    """I2: a DynamoDB arbiter without conditional copies tells no tag of the commit that it has put, and the base is often such a commit (`dynamodb` 220,006,783)."""
    store = MemoryStore("memory://outcome")
    InMemory(store=store).create(schema_string([("k", "long", True)]), (), {})
    log, data = TableLog(store), commit(OURS)
    head = log.latest()
    base = head if tag_known else replace(head, last_commit_tag=None)
    assert landed(log, 1, lambda: data, OURS, log.put(1, data), base)
    first = store.get(names.commit_key(0))
    store.put(names.commit_key(0), first.replace(head.metadata.id.encode(), b"the-next-table").replace((head.txn_id or "").encode(), b"of-another"))
    with pytest.raises(CorruptLog, match="replaced by that of another table"):
        landed(log, 1, lambda: data, OURS, Committed(), base)


class UnclearDisk(SystemCalls):
    """A network disk, at version 3: the sync of the folder fails once; or the link is done and denied, and the comparison of the two names fails."""

    def __init__(self, fails: str) -> None:
        self._fails = [fails]
        self._folders: dict[int, str] = {}
        self.durable: set[str] = set()

    def _fail(self, what: str) -> None:
        if self._fails == [what]:
            self._fails.clear()
            raise OSError(errno.EIO, "Input/output error")

    def open(self, path: str, flags: int = os.O_RDONLY) -> int:
        descriptor = super().open(path, flags)
        self._folders[descriptor] = path
        return descriptor

    def fsync(self, descriptor: int) -> None:
        folder = Path(self._folders[descriptor])
        if folder.is_dir() and (folder / "00000000000000000003.json").exists():
            self._fail("sync")
        super().fsync(descriptor)
        self.durable |= {p.name for p in folder.iterdir()} if folder.is_dir() else set()

    def link(self, source: str, target: str) -> None:
        super().link(source, target)
        if target.endswith("3.json") and self._fails == ["compare"]:
            raise OSError(errno.EIO, "Input/output error")

    def samefile(self, one: str, other: str) -> bool:
        self._fail("compare")
        return super().samefile(one, other)


@pytest.mark.parametrize("fails", ["compare", "sync"])
def test_a_commit_that_was_read_back_is_durable_before_it_is_acknowledged(tmp_path: Path, fails: str) -> None:
    """I2: found by the simulation (local 813): acknowledged, and gone with the machine's power, for nobody had synced the folder after the put was Unknown."""
    disk = UnclearDisk(fails)
    world = InMemory(store=LocalStore(str(tmp_path), disk))
    world.create(schema_string([("k", "long", True)]), (), {})
    for k in range(3):
        assert run(world.table, parse(f"APPEND ({k})")).version == k + 1
        assert names.commit_key(k + 1).rpartition("/")[2] in disk.durable
