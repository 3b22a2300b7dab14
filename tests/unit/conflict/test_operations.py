"""Whole operations against each other, in memory: the peers' cases that need an engine, a store or several threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from textwrap import dedent

import orjson
import pytest

from model.schedules.in_memory import InMemory
from model.schedules.play import Play, schema_string
from model.schedules.schedule import parse_schedule
from rowlock.exceptions import InvalidInput, TableExists
from rowlock.log.table_log import TableLog
from rowlock.protocol import names
from rowlock.protocol.actions import CommitInfo, SetTransaction
from rowlock.protocol.commits import serialize_commit
from rowlock.storage import Committed, MemoryStore, Unknown
from rowlock.transaction.definition import creation
from rowlock.transaction.state.shared import SharedState
from rowlock_simulation.memory.sql.script import Append, parse

SCHEMA = schema_string([("k", "long", True), ("v", "long", True)])
BY_FILE = "property: rowlock.onConflict = fail\nproperty: rowlock.granularity = file\n"


def world(**properties: str) -> InMemory:
    made = InMemory()
    made.create(SCHEMA, (), {"delta.enableDeletionVectors": "true", **properties})
    return made


def play(text: str) -> None:
    Play(parse_schedule("case", dedent(text).replace("BY_FILE\n", BY_FILE)), InMemory()).run()


# the commit loop


def puts_of(made: InMemory, version: int, fault) -> list[str]:
    """The keys of commits that are put from now on; `fault(moment, n)` meets the n-th put of `version`."""
    tried: list[str] = []

    def faults(moment: str, key: str, data: bytes):
        if not key.startswith("_delta_log/"):
            return None
        if moment == "before":
            tried.append(key)
        return fault(moment, tried.count(key)) if key == names.commit_key(version) else None

    store = made.state.store
    assert isinstance(store, MemoryStore)
    store.faults = faults
    return tried


def test_a_put_that_did_not_arrive_is_tried_again_at_the_same_version() -> None:
    made = world()
    tried = puts_of(made, 1, lambda moment, n: Unknown("it did not arrive") if moment == "before" and n <= 4 else None)
    assert made.run(Append(((1, 1),))).version == 1
    assert tried == [names.commit_key(1)] * 5


def test_a_reply_is_lost_and_the_next_try_finds_the_version_taken() -> None:
    """By ourselves: the transaction's id says so, and the rows are there once."""
    made = world()
    tried = puts_of(made, 1, lambda moment, n: Unknown("the reply is lost") if moment == "after" and n == 1 else None)
    receipt = made.run(Append(((1, 1),)))
    assert (receipt.version, made.rows()) == (1, [{"k": 1, "v": 1}])
    assert tried == [names.commit_key(1)]


def test_what_is_no_outcome_of_a_put_is_not_tried_again() -> None:
    made = world()

    def broken(moment: str, n: int) -> None:
        raise RuntimeError("a programming error")

    tried = puts_of(made, 1, broken)
    with pytest.raises(RuntimeError, match="a programming error"):
        made.run(Append(((1, 1),)))
    assert len(tried) == 1 and TableLog(made.state.store).latest().version == 0


def test_appends_of_five_workers() -> None:
    made = world()
    with ThreadPoolExecutor(5) as pool:
        list(pool.map(lambda n: [made.run(Append(((n, i),))) for i in range(3)], range(5)))
    snapshot = TableLog(made.state.store).latest()
    assert snapshot.version == 15
    assert sorted((r["k"], r["v"]) for r in made.rows()) == [(n, i) for n in range(5) for i in range(3)]


def test_of_five_creators_one_wins() -> None:
    """And the others are told, as delta-spark and the kernel do; delta-rs lets them go on."""
    store, together = MemoryStore(), threading.Barrier(5)

    def create(n: int) -> int | None:
        state = SharedState(TableLog(store), store)
        together.wait()
        try:
            return creation.create(state, SCHEMA).version
        except TableExists:
            return None

    with ThreadPoolExecutor(5) as pool:
        versions = list(pool.map(create, range(5)))
    assert sorted(versions, key=str) == [0, None, None, None, None]


@pytest.mark.parametrize("appends", [5, 12])
def test_an_append_over_many_appends(appends: int) -> None:
    made = world()
    stage = made.table.begin()
    from rowlock_simulation.memory.statements import commit, statements_of

    mine = Append(((0, 0),))
    stage.execute(*statements_of(mine, stage.base))
    for n in range(appends):
        made.run(Append(((n + 1, 0),)))
    assert commit(stage, mine).version == appends + 1
    assert sorted(r["k"] for r in made.rows()) == list(range(appends + 1))


def test_a_change_of_properties_over_an_append() -> None:
    made = world()
    done: list[int] = []

    def first_an_append(moment: str, n: int) -> None:
        if moment == "before" and not done:
            done.append(1)
            made.run(Append(((1, 1),)))

    puts_of(made, 1, first_an_append)
    assert creation.set_properties(made.state, {"delta.checkpointInterval": "20"}).version == 2
    head = TableLog(made.state.store).latest()
    assert (head.version, head.metadata.configuration["delta.checkpointInterval"], len(made.rows())) == (2, "20", 1)


# statements against statements


def test_merges_of_the_same_keys() -> None:
    play("""
        table: k LONG, v LONG
        BY_FILE
        file: (1, 10), (2, 20)
        T  begins   MERGE USING (k, v: (1, 11), (7, 70)) ON t.k = s.k WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *
        W  commits  MERGE USING (k, v: (1, 12), (7, 71)) ON t.k = s.k WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *
        T  ends     ConcurrentAppendException
    """)


def test_merges_of_keys_in_other_files() -> None:
    play("""
        table: k LONG, v LONG
        partition: k
        BY_FILE
        file: (1, 10)
        file: (2, 20)
        T  begins   MERGE USING (k, v: (1, 11)) ON t.k = s.k WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *
        W  commits  MERGE USING (k, v: (2, 12)) ON t.k = s.k WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *
        T  ends     rebase
    """)


def test_merges_of_other_keys_in_one_file() -> None:
    play("""
        table: k LONG, v LONG
        BY_FILE
        file: (1, 10), (2, 20), (3, 30)
        T  begins   MERGE USING (k, v: (1, 11), (3, 31)) ON t.k = s.k WHEN MATCHED THEN UPDATE SET *
        W  commits  MERGE USING (k, v: (2, 12)) ON t.k = s.k WHEN MATCHED THEN UPDATE SET *
        T  ends     ConcurrentAppendException
    """)


def test_a_compaction_meets_an_append() -> None:
    play("""
        table: k LONG, v LONG
        BY_FILE
        file: (1, 10)
        file: (2, 20)
        T  begins   OPTIMIZE
        W  commits  APPEND (3, 30)
        T  ends     ok
    """)


def test_a_compaction_meets_a_removal_elsewhere() -> None:
    play("""
        table: k LONG, v LONG
        partition: k
        BY_FILE
        file: (1, 10)
        file: (1, 11)
        file: (2, 20)
        T  begins   OPTIMIZE
        W  commits  DELETE WHERE k = 2
        T  ends     ok
    """)


def test_overwrites_at_once_with_a_reader_beside_them() -> None:
    """One of two overwrites fails, and a reader never sees another number of rows."""
    play("""
        table: k LONG, v LONG
        BY_FILE
        file: (1, 10), (2, 20)
        T  begins   OVERWRITE (3, 30), (4, 40)
        W  commits  OVERWRITE (5, 50), (6, 60)
        T  ends     ConcurrentAppendException
    """)
    made, seen, over = world(), [], threading.Event()
    made.run(Append(((0, 0), (0, 1))))

    def read() -> None:
        while not over.is_set():
            seen.append(len(made.rows()))

    with ThreadPoolExecutor(3) as pool:
        reader = pool.submit(read)
        writers = [pool.submit(lambda n=n: [made.run(parse(f"OVERWRITE ({n}, {i}), ({n}, {i})")) for i in range(5)]) for n in (1, 2)]
        for w in writers:
            w.result()
        over.set()
        reader.result()
    assert set(seen) == {2}


def test_steps_of_different_applications() -> None:
    made = world()
    for n, app in enumerate(("a", "b"), 1):
        info = CommitInfo({"txnId": app, "operation": "WRITE"})
        assert made.state.log.put(n, serialize_commit(info, txns=[SetTransaction(app, 1)])) == Committed()
    assert {a: t.version for a, t in TableLog(made.state.store).latest().txns.items()} == {"a": 1, "b": 1}


# what a commit may hold


def test_a_log_without_metadata_is_no_table() -> None:
    from rowlock.exceptions import CorruptLog

    store = MemoryStore()
    store.put(names.commit_key(0), serialize_commit(CommitInfo({"txnId": "x"})))
    with pytest.raises(CorruptLog, match="protocol"):
        TableLog(store).latest()


def test_an_application_id_is_named_once() -> None:
    """delta-spark drops the second of two equal ones; nothing of ours writes two."""
    with pytest.raises(InvalidInput, match="one txn for each appId"):
        serialize_commit(CommitInfo({}), txns=[SetTransaction("a", 1), SetTransaction("a", 1)])


def test_two_definitions_in_one_commit_are_refused() -> None:
    metadata = world().state.refresh().metadata
    with pytest.raises(InvalidInput, match="one metaData"):
        serialize_commit(CommitInfo({}), metadata, metadata)


def duplicates() -> dict[str, list[str]]:
    return {
        "remove twice": ["remove", "remove"],
        "remove twice, same vector": ["remove 1", "remove 1"],
        "remove twice, without and with a vector": ["remove", "remove 1"],
        "remove twice, different vectors": ["remove 1", "remove 2"],
        "add twice": ["add", "add"],
        "add twice, same vector": ["add 1", "add 1"],
        "add twice, with and without a vector": ["add", "add 1"],
        "add twice, different vectors": ["add 1", "add 2"],
        "remove and add": ["remove", "add"],
        "remove and add, same vector": ["add 1", "remove 1"],
    }


@pytest.mark.parametrize("case", duplicates())
def test_one_file_twice_in_a_commit(case: str) -> None:
    from rowlock.protocol.actions import AddFile, DeletionVectorDescriptor

    def action(text: str):
        kind, _, vector = text.partition(" ")
        file = AddFile("f", {}, 1, 0, True, None, DeletionVectorDescriptor("i", vector, None, 1, 1) if vector else None)
        return file if kind == "add" else file.removed(0, True)

    with pytest.raises(InvalidInput, match=r"twice|adds and removes"):
        serialize_commit(CommitInfo({}), *map(action, duplicates()[case]))


@pytest.mark.parametrize("stats", [None, "{}", '{"minValues":{"k":1}}'])
def test_a_file_without_a_count_of_rows_gets_one_with_its_first_vector(stats: str | None) -> None:
    made = world()
    made.run(Append(((1, 1), (2, 2))))
    (file,) = made.state.refresh().files.adds()
    bare = replace(file, stats=stats, data_change=False)
    assert made.state.log.put(2, serialize_commit(CommitInfo({"txnId": "x"}), adds=[bare])) == Committed()
    made.run(parse("DELETE WHERE k = 1"))
    (file,) = made.state.refresh().files.adds()
    assert file.deletion_vector is not None
    assert orjson.loads(file.stats or "{}") == {**orjson.loads(stats or "{}"), "numRecords": 2, "tightBounds": False}
