"""Versions of several tables by one TransactWriteItems: all or none, whatever is lost on the way (I1, I2)."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from botocore.exceptions import ClientError

from contract.arbiter.delta_side import Stopped
from contract.arbiter.world import TABLE, Faulty, NoCopy, World
from rowlock import clock
from rowlock.protocol.names import commit_key
from rowlock.storage import Committed, Lost, MemoryStore, Unknown
from rowlock.storage.dynamodb import EntryTable
from rowlock.storage.dynamodb.arbiter import Taken, Version, common_arbiter, put_all
from rowlock.storage.store import StorageError
from support.locks.clocks import TestClock


@dataclass
class Tables:
    worlds: list[World]

    def versions(self, number: int, text: str, *, client: Any = None, only_read: tuple[int, ...] = (), without_copy: bool = False) -> list[Version]:
        stores = [w.ours(client=client, store=NoCopy(w.store) if without_copy else None) for w in self.worlds]
        return [Version(s, number, None if n in only_read else f"{text}{n}".encode()) for n, s in enumerate(stores)]

    def there(self, number: int) -> list[bytes | None]:
        """What Delta's log store finds, which finishes what was claimed."""
        out = []
        for w in self.worlds:
            names = w.delta().list()
            out.append(w.store.get(commit_key(number)) if f"{number:020d}.json" in names else None)
        return out


def temporary(w: World, number: int) -> list[str]:
    """The temporary files of a version."""
    return [m.key for m in w.store.list("_delta_log/.tmp") if f"{number:020d}" in m.key]


class NoFiles(MemoryStore):
    """A store that takes temporary files and no commit."""

    def put_if_absent(self, key: str, data: bytes) -> Unknown:
        return Unknown("down")

    def get_tagged(self, key: str) -> tuple[bytes, str]:
        raise StorageError("down")


@pytest.fixture
def tables(world: Callable[..., World]) -> Tables:
    made = [world() for _ in range(3)]
    for w in made:
        w.delta().write(0, b"zero")
    return Tables(made)


def test_all_are_committed_and_delta_reads_them(tables: Tables) -> None:
    assert put_all(tables.versions(1, "a")) == [Committed()] * 3
    assert tables.there(1) == [b"a0", b"a1", b"a2"]
    for w in tables.worlds:
        entry = w.entry(1)
        assert entry is not None and entry.complete and temporary(w, 1) == []
        w.delta().write(2, b"next")  # Spark goes on from there


@pytest.mark.parametrize("taken", [0, 1, 2])
def test_where_one_is_taken_none_is_written(tables: Tables, taken: int) -> None:
    tables.worlds[taken].delta().write(1, b"theirs")
    assert put_all(tables.versions(1, "a")) == Taken(frozenset({taken}))
    assert [w.entry(1) is not None for w in tables.worlds] == [n == taken for n in range(3)]
    assert [temporary(w, 1) for n, w in enumerate(tables.worlds) if n != taken] == [[], []]


@pytest.mark.parametrize("only_read", [(), (1,)])
@pytest.mark.parametrize("claimed", [0, 2])
def test_an_entry_whose_file_is_not_there_yet_counts(tables: Tables, claimed: int, only_read: tuple[int, ...]) -> None:
    w = tables.worlds[claimed]
    with pytest.raises(Stopped):
        w.ours_stopped_before("copy").put_if_absent(commit_key(1), b"dead")
    assert put_all(tables.versions(1, "a", only_read=only_read)) == Taken(frozenset({claimed}))
    assert tables.there(1) == [b"dead" if n == claimed else None for n in range(3)]


def test_a_table_that_was_only_read_must_not_have_moved(tables: Tables) -> None:
    assert put_all(tables.versions(1, "a", only_read=(1,))) == [Committed(), None, Committed()]
    assert tables.there(1) == [b"a0", None, b"a2"]
    tables.worlds[0].delta().write(2, b"next")
    tables.worlds[2].delta().write(2, b"next")
    tables.worlds[1].delta().write(1, b"moved")
    moved = [Version(v.store, 1 if n == 1 else 3, v.data) for n, v in enumerate(tables.versions(3, "b", only_read=(1,)))]
    assert put_all(moved) == Taken(frozenset({1}))
    assert tables.there(3) == [None] * 3


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("times", [1, 3])
def test_a_lost_reply_is_resolved(tables: Tables, moment: str, times: int) -> None:
    left = [times]

    def lose(name: str, _: Any) -> str | None:
        if name == "transact_write_items" and left[0]:
            left[0] -= 1
            return moment
        return None

    assert put_all(tables.versions(1, "a", client=Faulty(tables.worlds[0].client, lose=lose))) == [Committed()] * 3
    assert tables.there(1) == [b"a0", b"a1", b"a2"]


def test_no_reply_at_all_is_unknown_and_never_half(tables: Tables) -> None:
    client = Faulty(tables.worlds[0].client, lose=lambda name, _: "after" if name == "transact_write_items" else None)
    with clock.use(TestClock()):
        assert isinstance(put_all(tables.versions(1, "a", client=client)), Unknown)
    assert tables.there(1) == [b"a0", b"a1", b"a2"]


def test_a_lost_reply_and_then_another_is_there(tables: Tables) -> None:
    """The request never arrived, and another writer took one of the versions meanwhile: lost, for certain."""

    def lose(name: str, _: Any) -> str | None:
        if name == "transact_write_items" and tables.worlds[1].entry(1) is None:
            tables.worlds[1].delta().write(1, b"theirs")
            return "before"
        return None

    assert put_all(tables.versions(1, "a", client=Faulty(tables.worlds[0].client, lose=lose))) == Taken(frozenset({1}))
    assert tables.there(1) == [None, b"theirs", None]


def test_a_look_that_is_refused_after_a_lost_reply_is_unknown(tables: Tables) -> None:
    """The request was served; before its entries were looked for, the credentials ran out: it is no failure."""
    asked: list[str] = []

    def lose(name: str, _: Any) -> str | None:
        if name == "transact_write_items":
            asked.append(name)
            if len(asked) == 1:
                return "after"
            raise ClientError({"Error": {"Code": "TransactionCanceledException"}, "CancellationReasons": [{"Code": "ConditionalCheckFailed"}] * 3}, name)  # type: ignore[typeddict-unknown-key]
        if name == "get_item" and len(asked) > 1:
            raise ClientError({"Error": {"Code": "ExpiredTokenException"}, "ResponseMetadata": {"HTTPStatusCode": 400}}, name)
        return None

    with clock.use(TestClock()):
        outcome = put_all(tables.versions(1, "a", client=Faulty(tables.worlds[0].client, lose=lose)))
    assert isinstance(outcome, Unknown) and "ExpiredToken" in outcome.reason
    assert tables.there(1) == [b"a0", b"a1", b"a2"]


def test_a_request_whose_token_is_forgotten_finds_its_own_entries(tables: Tables) -> None:
    """After ten minutes DynamoDB does not know the token any more: the conditions fail on the entries that the first request made."""
    first: list[Any] = []

    class Forgetful:
        def __getattr__(self, name: str) -> Any:
            def call(**arguments: Any) -> Any:
                if name == "transact_write_items":
                    arguments["ClientRequestToken"] = str(uuid.uuid4())
                    if not first:
                        first.append(tables.worlds[0].client.transact_write_items(**arguments))
                        raise ClientError({"Error": {"Code": "InternalServerError"}, "ResponseMetadata": {"HTTPStatusCode": 500}}, name)
                return getattr(tables.worlds[0].client, name)(**arguments)

            return call

    assert put_all(tables.versions(1, "a", client=Forgetful())) == [Committed()] * 3


def test_a_conflict_with_another_transaction_is_tried_again(tables: Tables) -> None:
    left = [3]

    def lose(name: str, _: Any) -> None:
        if name == "transact_write_items" and left[0]:
            left[0] -= 1
            reasons = [{"Code": "None"}, {"Code": "TransactionConflict"}, {"Code": "None"}]
            raise ClientError({"Error": {"Code": "TransactionCanceledException"}, "CancellationReasons": reasons}, name)  # type: ignore[typeddict-unknown-key]

    busy = Faulty(tables.worlds[0].client, lose=lose)
    with clock.use(TestClock()):
        assert put_all(tables.versions(1, "a", client=busy)) == [Committed()] * 3
        left[0] = 10**6
        assert put_all(tables.versions(2, "b", client=busy)) == Taken(frozenset({0, 1, 2}))
    assert tables.there(2) == [None] * 3


def test_a_commit_of_one_table_beside_a_transaction_is_tried_again(tables: Tables) -> None:
    """DynamoDB refuses a PutItem on an entry that a transaction holds just then."""
    left = [2]

    def lose(name: str, _: Any) -> None:
        if name == "put_item" and left[0]:
            left[0] -= 1
            raise ClientError({"Error": {"Code": "TransactionConflictException"}, "ResponseMetadata": {"HTTPStatusCode": 400}}, name)

    held = Faulty(tables.worlds[0].client, lose=lose)
    assert tables.worlds[0].ours(client=held).put_if_absent(commit_key(1), b"alone") == Committed() and not left[0]


def test_a_writer_that_dies_after_the_claim_has_committed_everywhere(tables: Tables) -> None:
    with pytest.raises(Stopped):
        put_all(tables.versions(1, "a", without_copy=True))
    assert [w.ours().get(commit_key(1)) for w in tables.worlds] == [b"a0", b"a1", b"a2"]
    assert put_all(tables.versions(2, "b")) == [Committed()] * 3


def test_a_file_that_cannot_be_written_is_decided_all_the_same(tables: Tables) -> None:
    versions = tables.versions(1, "a")

    there = versions[2].store.inner
    down = NoFiles(there.root)
    for m in there.list(recursive=True):
        down.put(m.key, there.get(m.key))
    versions[2].store.inner = down
    outcomes = put_all(versions)
    assert isinstance(outcomes, list) and outcomes[:2] == [Committed()] * 2 and isinstance(outcomes[2], Unknown)
    assert all((entry := w.entry(1)) is not None and entry.complete == (n < 2) for n, w in enumerate(tables.worlds))


def test_a_version_of_a_writer_that_passes_the_arbiter_by_is_lost_and_named(tables: Tables) -> None:
    versions = tables.versions(1, "a")
    publish = versions[1].store.publish

    def late(entry: Any, data: bytes) -> Any:
        tables.worlds[1].store.put(commit_key(1), b"bypass")
        return publish(entry, data)

    versions[1].store.publish = late  # type: ignore[method-assign]
    assert put_all(versions) == [Committed(), Lost(), Committed()]


def test_many_at_once_each_version_has_one_writer(tables: Tables) -> None:
    won: list[tuple[int, str]] = []

    def write(name: str) -> None:
        for _ in range(60):
            number = max(int(n[:20]) for n in tables.worlds[0].delta().list() if n.endswith(".json")) + 1
            done = put_all(tables.versions(number, name))
            if isinstance(done, list):
                won.append((number, name))
                if len(won) >= 12:
                    return

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len({n for n, _ in won}) == len(won) >= 12
    for number, name in won:
        assert tables.there(number) == [f"{name}{n}".encode() for n in range(3)]


def test_common_arbiter(client: Any, world: Callable[..., World]) -> None:
    a, b = world(), world()
    assert common_arbiter([a.ours(), b.ours()]) is not None
    assert common_arbiter([a.ours(), b.store]) is None
    other = b.ours()
    other.entries = EntryTable(client, TABLE + "2")
    assert common_arbiter([a.ours(), other]) is None
