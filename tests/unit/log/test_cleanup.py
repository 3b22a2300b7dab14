"""Log cleanup: what it deletes and keeps, by whose clock, and what readers and writers find wherever it stops (I2, I3, I9, I10)."""

from __future__ import annotations

import io
import random
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from model.schedules.in_memory import InMemory
from rowlock import clock
from rowlock.exceptions import ConcurrentWriteException, CorruptLog, InvalidInput, VersionNotFound
from rowlock.limits import limited
from rowlock.log import cleanup
from rowlock.log.cleanup import clean_up, horizon_ms
from rowlock.log.segment import list_log
from rowlock.log.snapshot import Snapshot
from rowlock.log.table_log import TableLog
from rowlock.protocol import names
from rowlock.storage.memory import MemoryStore
from rowlock.transaction import commit as loop
from rowlock.transaction.publish import outcome
from rowlock.transaction.state.options import Options
from rowlock.transaction.state.shared import SharedState
from rowlock_simulation.memory.sql.script import parse
from rowlock_simulation.memory.statements import statements_of

SCHEMA = '{"type":"struct","fields":[{"name":"k","type":"long","nullable":true,"metadata":{}}]}'
DAY_MS = 86_400_000
START_MS = 20_000 * DAY_MS + DAY_MS // 2


class Movable(clock.SystemClock):
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.at_ms = START_MS

    def now_ms(self) -> int:
        return self.at_ms

    def sleep(self, seconds: float) -> None:
        pass


@pytest.fixture
def time() -> Iterator[Movable]:
    with clock.use(Movable()) as movable:
        assert isinstance(movable, Movable)
        yield movable


class Killed(Exception):
    """The process of a cleanup ends here."""


class Mortal(MemoryStore):
    """A store in which deletions fail after the first `lives`; `deleted` are the keys in the order in which they went."""

    def __init__(self, lives: int | None = None) -> None:
        super().__init__(f"memory://{clock.new_id()}")
        self.lives, self.deleted = lives, list[str]()

    def delete(self, key: str) -> None:
        if self.lives is not None and len(self.deleted) >= self.lives:
            raise Killed
        self.deleted.append(key)
        super().delete(key)


def copied(store: MemoryStore, time: Movable, lives: int | None = None) -> Mortal:
    """Another store with the same objects, each with its time."""
    now, out = time.at_ms, Mortal(lives)
    for meta in store.list(recursive=True):
        time.at_ms = meta.modified_ms
        out.put(meta.key, store.get(meta.key))
    time.at_ms = now
    return out


def table(time: Movable, store: MemoryStore, days: int, **properties: str) -> InMemory:
    """A table with a commit for each day, whose log was never cleaned; checkpoints follow the interval that `properties` names."""
    made = InMemory(store=store)
    retentions = {"delta.logRetentionDuration": "interval 4 days", "delta.deletedFileRetentionDuration": "interval 0 days"}
    made.create(SCHEMA, (), {"delta.checkpointInterval": "3", **retentions, **properties})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "clean_up", lambda *_: 0)
        for day in range(1, days):
            time.at_ms += DAY_MS
            made.run(parse(f"APPEND ({day})"))
    return made


def clean(store: MemoryStore) -> int:
    return clean_up(store, TableLog(store).latest())


def versions(store: MemoryStore, kind: str = "commit") -> list[int]:
    return sorted({f.version for f in list_log(store) if f.kind == kind})


def earliest(store: MemoryStore) -> int:
    """The earliest version that is announced to who asks for one that is gone; 0 if none is."""
    try:
        TableLog(store).at(0)
    except VersionNotFound as e:
        found = re.search(r"the oldest version is (\d+)", str(e))
        assert found, e
        return int(found[1])
    return 0


def test_a_log_of_which_nothing_is_expired_is_hardly_looked_at(time: Movable, monkeypatch: pytest.MonkeyPatch) -> None:
    """I8: each checkpoint asks, so its writer must not wait for the times of a thousand files."""
    store = MemoryStore()
    table(time, store, 20, **{"delta.logRetentionDuration": "interval 40 days"})
    asked: list[int | None] = []
    listed = store.list
    monkeypatch.setattr(store, "list", lambda *given, limit=None, **more: asked.append(limit) or listed(*given, limit=limit, **more))
    assert clean(store) == 0
    assert [limit for limit in asked if limit is not None] == [16]


def test_the_part_before_the_newest_expired_checkpoint_goes(time: Movable) -> None:
    """Of versions 0 to 12, a day each, with a retention of 4 days: version 8 is past the horizon, and checkpoint 6 the newest up to it."""
    store = MemoryStore()
    made = table(time, store, 13)
    store.put(names.checksum_key(2), b"{}")
    store.put(names.checksum_key(6), b"{}")
    for first, last in ((0, 4), (6, 9), (7, 9)):
        store.put(f"_delta_log/{first:020d}.{last:020d}.compacted.json", b"")
    store.put(f"{names.LOG_DIRECTORY}/{3:020d}.checkpoint.{1:010d}.{2:010d}.parquet", b"half of a checkpoint")
    store.put("_delta_log/notes.txt", b"not of the log")
    assert clean(store) == 6 + 1 + 1 + 2 + 1
    assert versions(store) == list(range(6, 13)) and versions(store, "checkpoint") == [6, 9, 12]
    assert versions(store, "checksum") == [6] and versions(store, "compacted") == [7] and versions(store, "multipart") == []
    assert store.head("_delta_log/notes.txt") and earliest(store) == 6
    assert sorted(r["k"] for r in made.rows(6)) == [1, 2, 3, 4, 5, 6] and len(made.rows()) == 12
    assert clean(store) == 0


@pytest.mark.parametrize(
    ("properties", "oldest"),
    [
        ({}, 6),
        ({"delta.enableExpiredLogCleanup": "false"}, 0),
        ({"delta.enableExpiredLogCleanup": "TRUE "}, 6),
        ({"delta.logRetentionDuration": "interval 30 days"}, 0),
        ({"delta.logRetentionDuration": "interval 0 days"}, 12),
        ({"delta.requireCheckpointProtectionBeforeVersion": "6"}, 6),
        ({"delta.requireCheckpointProtectionBeforeVersion": "7"}, 0),
    ],
)
def test_properties_say_what_is_kept(time: Movable, properties: dict[str, str], oldest: int) -> None:
    store = MemoryStore()
    table(time, store, 13, **properties)
    time.at_ms += DAY_MS // 2  # past midnight
    store.put(names.LAST_CHECKPOINT, store.get(names.LAST_CHECKPOINT))
    clean(store)
    assert earliest(store) == oldest


@pytest.mark.parametrize("name", ["logRetentionDuration", "requireCheckpointProtectionBeforeVersion"])
def test_a_property_that_cannot_be_read_keeps_everything(time: Movable, name: str) -> None:
    """Another engine may have written it; a default could be too short."""
    store = MemoryStore()
    table(time, store, 13)
    metadata = TableLog(store).latest().metadata
    raw = {
        "metaData": {
            **orjson.loads(store.get(names.commit_key(0)).split(b"\n")[2])["metaData"],
            "configuration": {**metadata.configuration, f"delta.{name}": "soon"},
        }
    }
    store.put(names.commit_key(13), orjson.dumps(raw))
    with pytest.raises(InvalidInput, match=name):
        clean(store)
    assert earliest(store) == 0


def test_protected_versions_go_in_one_run(time: Movable) -> None:
    """Checkpoint protection: up to the version that it names, all or nothing, however many commits a run is to delete."""
    store = MemoryStore()
    table(time, store, 31, **{"delta.requireCheckpointProtectionBeforeVersion": "20"})
    with limited(cleaned_files=0):
        clean(store)
        assert earliest(store) == 21
        clean(store)
    assert earliest(store) == 24


def test_a_run_deletes_a_bounded_number_of_commits_and_the_next_goes_on(time: Movable) -> None:
    store = Mortal()
    table(time, store, 40)
    seen = []
    with limited(cleaned_files=8):
        while clean(store):
            seen.append(earliest(store))
    assert seen == [6, 12, 18, 24, 30, 33], "at most 8 commits, up to a checkpoint"


def test_a_run_that_sleeps_leaves_a_table_made_anew_alone(time: Movable, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is replaced by that of another table while a cleanup is under way: what the run chose is not deleted from the new log."""
    store, other = Mortal(), Mortal()
    table(time, store, 40)
    table(time, other, 9)
    passed = iter(range(10_000))
    monkeypatch.setattr(time, "monotonic_s", lambda: float(next(passed)))  # so every deletion looks again
    delete = store.delete

    def replaced(key: str) -> None:
        delete(key)
        if len(store.deleted) == 3:
            for name in ("_objects", "_keys"):
                vars(store)[name] = vars(other)[name]

    monkeypatch.setattr(store, "delete", replaced)
    monkeypatch.setattr("rowlock.log.cleanup._MOST_SECONDS", 1e9)
    clean(store)
    assert versions(store) == list(range(9)), "the new table has all of its versions"


def test_a_run_leaves_a_table_alone_that_was_made_anew_before_its_first_deletion(time: Movable, monkeypatch: pytest.MonkeyPatch) -> None:
    """I1: the log was replaced between the listing and the deletions, and version 0 of the new table was deleted (`s3` 180,000,285)."""
    store, other = Mortal(), Mortal()
    table(time, store, 40)
    table(time, other, 4)
    check = cleanup._check_whole

    def replaced(*given: Any) -> None:
        check(*given)
        for name in ("_objects", "_keys"):
            vars(store)[name] = vars(other)[name]

    monkeypatch.setattr(cleanup, "_check_whole", replaced)
    assert clean(store) == 0
    assert versions(store) == list(range(4))


def test_a_run_ends_after_its_time_and_the_next_goes_on(time: Movable, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Mortal()
    table(time, store, 40)
    passed = iter(range(10_000))
    monkeypatch.setattr(time, "monotonic_s", lambda: float(next(passed)))
    assert 0 < clean(store) < 12, "a second passes between two looks, and a run has five"
    while clean(store):
        assert earliest(store) <= 33
    assert earliest(store) == 33


def test_checkpoints_far_apart_do_not_stop_it(time: Movable) -> None:
    """Where one checkpoint lies behind more commits than a run deletes, the runs go on nevertheless, and only dead versions lie between."""
    store = MemoryStore()
    table(time, store, 45, **{"delta.checkpointInterval": "30"})
    TableLog(store).write_checkpoint(TableLog(store).latest())
    made = TableLog(store).latest()
    with limited(cleaned_files=8), pytest.MonkeyPatch.context() as patch:
        patch.setattr("rowlock.protocol.properties.TableProperties.checkpoint_interval", 4, raising=False)  # a descriptor has no value on its class
        patch.setattr("rowlock.log.cleanup._PAGE", 5)
        assert [clean_up(store, made) for _ in range(5)] == [8, 8, 8, 6, 0]
    assert versions(store)[0] == 30 == earliest(store)


def test_a_log_that_begins_at_a_checkpoint_is_cleaned_up_to_one_far_away(time: Movable) -> None:
    """The simulation found it (`local` 160,001,790): runs ended at the checkpoint at which the log began, and the log grew without a bound."""
    store = MemoryStore()
    table(time, store, 45, **{"delta.checkpointInterval": "30"})
    log = TableLog(store)
    for snapshot in log.at(1), log.latest():
        log.write_checkpoint(snapshot)
    made = log.latest()
    with limited(cleaned_files=8), pytest.MonkeyPatch.context() as patch:
        patch.setattr("rowlock.protocol.properties.TableProperties.checkpoint_interval", 4, raising=False)  # a descriptor has no value on its class
        while clean_up(store, made):
            pass
    assert versions(store)[0] == 30 == earliest(store)


def test_ages_are_those_that_the_store_gives(time: Movable) -> None:
    """A client whose clock runs a year ahead deletes nothing that is not old for the store."""
    store = MemoryStore()
    table(time, store, 13, **{"delta.logRetentionDuration": "interval 20 days"})
    snapshot = TableLog(store).latest()
    time.at_ms += 365 * DAY_MS
    assert clean_up(store, snapshot) == 0 and earliest(store) == 0
    store.put(names.LAST_CHECKPOINT, store.get(names.LAST_CHECKPOINT))
    assert clean_up(store, snapshot) > 0 and earliest(store) == 12


def test_in_commit_timestamps_must_have_expired_too(time: Movable) -> None:
    """A log whose files were copied has old times of files, or young ones; the later of both counts."""
    store = MemoryStore()
    table(time, store, 13, **{"delta.enableInCommitTimestamps": "true"})
    for version in range(4, 13):
        raw = store.get(names.commit_key(version))
        stated = time.at_ms - (12 - version) * DAY_MS
        time_there = re.sub(rb'"inCommitTimestamp":\d+', b'"inCommitTimestamp":%d' % (stated + 3 * DAY_MS), raw)
        now, time.at_ms = time.at_ms, stated
        store.put(names.commit_key(version), time_there)
        time.at_ms = now
    clean(store)
    assert earliest(store) == 3, "versions 4 to 12 say that they were committed three days later"


def test_a_commit_file_that_is_young_keeps_those_after_it(time: Movable) -> None:
    """As in Delta: the times of commits only increase, so a later one is at least as young."""
    store = MemoryStore()
    table(time, store, 13)
    store.put(names.commit_key(4), store.get(names.commit_key(4)))
    clean(store)
    assert earliest(store) == 3


def test_the_horizon_is_a_midnight_and_never_now() -> None:
    noon = 100 * DAY_MS + DAY_MS // 2
    assert horizon_ms(noon, 3 * DAY_MS) == 97 * DAY_MS and horizon_ms(noon, 0) == 100 * DAY_MS
    assert horizon_ms(100 * DAY_MS + 5, 0) == 100 * DAY_MS + 5 - 60_000


def checkpoint_with_sidecars(store: MemoryStore, version: int, sidecars: list[str], *, as_json: bool) -> None:
    """A V2 checkpoint of a version whose file actions lie in sidecars."""
    state = pq.read_table(io.BytesIO(store.get(names.checkpoint_key(version))))
    for n, name in enumerate(sidecars):
        out = io.BytesIO()
        pq.write_table(state.filter(state.column("add").is_valid()) if n == 0 else state.slice(0, 0), out)
        store.put(names.sidecar_key(name), out.getvalue())
    small = [{"protocol": row} for row in state.column("protocol").to_pylist() if row] + [
        {"metaData": row} for row in state.column("metaData").to_pylist(maps_as_pydicts="lossy") if row
    ]
    actions = [{"checkpointMetadata": {"version": version}}, *small, *({"sidecar": {"path": s, "sizeInBytes": 1, "modificationTime": 1}} for s in sidecars)]
    key = f"_delta_log/{version:020d}.checkpoint.00000000-0000-0000-0000-{version:012d}."
    if as_json:
        store.put(f"{key}json", b"\n".join(orjson.dumps(a) for a in actions))
    else:
        rest = state.filter(state.column("add").is_null())
        rows = [{"path": s, "sizeInBytes": 1, "modificationTime": 1} for s in sidecars]
        type_ = pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64())])
        nulls = pa.Table.from_arrays([pa.nulls(len(rows), f.type) for f in rest.schema], schema=rest.schema)
        whole = pa.concat_tables([rest, nulls]).append_column("sidecar", pa.array([None] * rest.num_rows + rows, type_))
        out = io.BytesIO()
        pq.write_table(whole, out)
        store.put(f"{key}parquet", out.getvalue())
    store.delete(names.checkpoint_key(version))


@pytest.mark.parametrize("as_json", [True, False])
def test_sidecars_go_when_no_checkpoint_names_them(time: Movable, as_json: bool) -> None:
    """Those of a checkpoint that is left stay, also where an older one names them as well, and so do young ones."""
    store = Mortal()
    made = table(time, store, 13)
    end_ms, time.at_ms = time.at_ms, START_MS + 5 * DAY_MS
    checkpoint_with_sidecars(store, 3, ["a.parquet", "b.parquet"], as_json=as_json)
    checkpoint_with_sidecars(store, 6, ["c.parquet", "b.parquet"], as_json=as_json)
    store.put(names.sidecar_key("lost.parquet"), b"")
    time.at_ms = end_ms
    store.put(names.sidecar_key("of a checkpoint that is being written.parquet"), b"")
    clean(store)
    assert sorted(m.key.rpartition("/")[2] for m in store.list(names.SIDECAR_DIRECTORY)) == [
        "b.parquet",
        "c.parquet",
        "of a checkpoint that is being written.parquet",
    ]
    assert earliest(store) == 6 and len(made.rows(6)) == 6


def test_sidecars_stay_beside_a_checkpoint_of_an_unknown_name(time: Movable) -> None:
    store = MemoryStore()
    table(time, store, 13)
    end_ms, time.at_ms = time.at_ms, START_MS
    store.put(names.sidecar_key("a.parquet"), b"")
    time.at_ms = end_ms
    store.put(f"{names.LOG_DIRECTORY}/{6:020}.checkpoint.of-another-form.json", b"")
    assert clean(store) > 0 and earliest(store) == 6
    assert store.exists(names.sidecar_key("a.parquet"))


def test_a_checkpoint_that_another_cleanup_deletes_meanwhile_is_no_damage(time: Movable, monkeypatch: pytest.MonkeyPatch) -> None:
    """DROP FEATURE cleans the log after its commit: it failed although it is committed (`s3` 193,000,535)."""
    store, check = MemoryStore(), cleanup._check_whole
    table(time, store, 13)
    head = TableLog(store).latest()

    def after_another(*given: Any) -> None:
        monkeypatch.setattr(cleanup, "_check_whole", check)
        assert cleanup.truncate(store, head, time.at_ms) > 0
        check(*given)

    monkeypatch.setattr(cleanup, "_check_whole", after_another)
    assert clean(store) == 0
    assert earliest(store) == 9


@pytest.mark.parametrize("damage", ["no sidecar", "cut off", "its pages", "no rows"])
def test_a_checkpoint_that_cannot_be_read_is_no_boundary(time: Movable, damage: str) -> None:
    """I9: nothing is deleted that it would be needed for, and the damage is named."""
    store = MemoryStore()
    table(time, store, 13)
    if damage == "cut off":
        store.put(names.checkpoint_key(6), store.get(names.checkpoint_key(6))[:-9])
    elif damage == "its pages":
        whole = store.get(names.checkpoint_key(6))
        store.put(names.checkpoint_key(6), whole[:4] + bytes(len(whole) // 2) + whole[4 + len(whole) // 2 :])
    elif damage == "no rows":
        pq.write_table(pq.read_table(io.BytesIO(store.get(names.checkpoint_key(6)))).slice(0, 0), out := io.BytesIO())
        store.put(names.checkpoint_key(6), out.getvalue())
    else:
        checkpoint_with_sidecars(store, 6, ["c.parquet"], as_json=True)
        store.delete(names.sidecar_key("c.parquet"))
    before = [m.key for m in store.list(recursive=True)]
    with pytest.raises(CorruptLog, match="checkpoint"):
        clean(store)
    assert [m.key for m in store.list(recursive=True)] == before


def test_a_commit_cleans_the_log_and_never_fails_by_it(time: Movable, caplog: pytest.LogCaptureFixture) -> None:
    """I10: only after a checkpoint, and whatever it meets."""
    store = Mortal(lives=4)
    made = table(time, store, 12)
    assert made.run(parse("APPEND (100)")).version == 12
    assert len(store.deleted) == 4 and versions(store)[0] == 3 and "could not be cleaned up" in caplog.text
    store.lives = None
    for k in range(2):
        made.run(parse(f"APPEND ({k})"))
    assert len(store.deleted) == 4
    made.run(parse("APPEND (3)"))
    assert versions(store)[0] == 6


# ---- whatever it has done when it stops ----


def random_history(seed: int, time: Movable) -> tuple[MemoryStore, InMemory, dict[int, list[int]]]:
    """A table with a random history, and its rows at each version."""
    chance = random.Random(seed)
    store = MemoryStore(f"memory://{clock.new_id()}")
    made = table(
        time, store, 2, **{"delta.checkpointInterval": str(chance.choice([2, 3, 5])), "delta.enableInCommitTimestamps": chance.choice(["true", "false"])}
    )
    rows = {v: sorted(r["k"] for r in made.rows(v)) for v in (0, 1)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "clean_up", lambda *_: 0)
        while len(rows) < 18:
            time.at_ms += chance.choice([1, DAY_MS // 3, DAY_MS, 2 * DAY_MS])
            k = chance.randrange(100, 200)
            version = made.run(
                parse(chance.choice([f"APPEND ({k}), ({k + 1})", f"DELETE WHERE k < {k} AND k > 20", f"UPDATE SET k = k + 1 WHERE k > {k}"]))
            ).version
            if version is not None:
                rows[version] = sorted(r["k"] for r in made.rows(version))
    if chance.random() < 0.5:
        for version in range(0, 18, 2):
            now, time.at_ms = time.at_ms, START_MS
            store.put(names.checksum_key(version), b"{}")
            time.at_ms = now
    log = TableLog(store)
    log.write_checkpoint(log.latest())
    return store, made, rows


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.short(
    "0",
    "1",
    ci=(
        "2",
        "3",
    ),
    why="more seeds",
)
def test_wherever_it_is_killed_each_version_is_whole_or_said_to_be_gone(seed: int, time: Movable) -> None:
    """Every version from the earliest that is announced to the head reads as before; the next cleanup ends where an undisturbed one does."""
    store, _, rows = random_history(seed, time)
    undisturbed = copied(store, time)
    count = clean(undisturbed)
    for lives in range(count):
        killed = copied(store, time, lives)
        with pytest.raises(Killed):
            clean(killed)
        check_versions(killed, rows)
        killed.lives = None
        clean(killed)
        assert [m.key for m in killed.list(recursive=True)] == [m.key for m in undisturbed.list(recursive=True)]
    check_versions(undisturbed, rows)
    assert earliest(undisturbed) in versions(undisturbed) or not count


def check_versions(store: MemoryStore, rows: dict[int, list[int]]) -> None:
    reader, first = InMemory(store=store), earliest(store)
    for version, expected in rows.items():
        if version >= first:
            assert sorted(r["k"] for r in reader.rows(version)) == expected
        else:
            with pytest.raises(VersionNotFound, match=f"the oldest version is {first}"):
                reader.rows(version)
    assert [c.version for c in TableLog(store).history()] == sorted(versions(store), reverse=True)
    kept = versions(store)
    assert kept == list(range(kept[0], max(rows) + 1)), "a commit is never missing while an older one is there"


@pytest.mark.parametrize("script", ["APPEND (7)", "DELETE WHERE k = 1"])
@pytest.mark.parametrize("on_conflict", ["repair", "fail"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.short(
    "0-repair-APPEND (7)",
    "0-repair-DELETE WHERE k = 1",
    "0-fail-APPEND (7)",
    "0-fail-DELETE WHERE k = 1",
    ci=(
        "1-repair-APPEND (7)",
        "1-repair-DELETE WHERE k = 1",
        "1-fail-APPEND (7)",
        "1-fail-DELETE WHERE k = 1",
        "2-repair-APPEND (7)",
        "2-repair-DELETE WHERE k = 1",
        "2-fail-APPEND (7)",
        "2-fail-DELETE WHERE k = 1",
    ),
    why="more seeds",
)
def test_a_writer_of_any_base_commits_or_is_told(seed: int, script: str, on_conflict: Any, time: Movable) -> None:
    """I3: who began before the earliest version that is left is rebased over the difference, or raises by its policy; nothing is half done."""
    store, _, rows = random_history(seed, time)
    count = clean(copied(store, time))
    for lives in (0, count // 2, count):
        for base in range(1, max(rows), 4):
            other = copied(store, time)
            late = InMemory(store=other)
            txn = late.table.begin(Options(lane=False, on_conflict=on_conflict), snapshot=late.state.log.at(base))
            txn.execute(*statements_of(parse(script), txn.base))
            other.lives = lives
            try:
                clean(other)
            except Killed:
                other.lives = None
            before = sorted(r["k"] for r in late.rows())
            try:
                version = txn.commit("X").version
            except ConcurrentWriteException:
                assert sorted(r["k"] for r in late.rows()) == before
            else:
                expected = sorted([*before, 7]) if "APPEND" in script else [k for k in before if k != 1]
                assert sorted(r["k"] for r in late.rows()) == expected and version == (max(rows) + 1 if expected != before else None)


def test_a_put_beside_a_cleanup_counts_or_is_told(time: Movable) -> None:
    """I2: writers that fell asleep before their puts wake up wherever a cleanup stands, on any version, also one on the other's; who is told that it won is seen by readers."""
    store, _, rows = random_history(1, time)
    heads = [TableLog(store).at(v) for v in sorted(rows)]
    count = clean(copied(store, time))
    told = 0
    for lives in range(0, count + 1, 3):
        for n, head in enumerate(heads[:-4]):
            other = copied(store, time, lives)
            with suppress(Killed):
                clean(other)
            for sleeper in (head, heads[n + 1]):
                told += not is_won_or_lost(other, sleeper)
    assert told > count / 2


def is_won_or_lost(store: MemoryStore, head: Snapshot) -> bool:
    """Puts a commit on `head`; False where it raises that this can no longer be, in which case no reader sees it."""
    txn_id, version = clock.new_id(), head.version + 1
    line = orjson.dumps({"commitInfo": {"timestamp": clock.now_ms(), "operation": "WRITE", "txnId": txn_id}})
    try:
        won = outcome.put(SharedState(TableLog(store), store), head, lambda: line, txn_id)
    except ConcurrentWriteException:
        with pytest.raises(VersionNotFound):
            TableLog(store).at(version)
        return False
    there = TableLog(store).read_commit(version)
    assert there is not None and won == (there.txn_id == txn_id)
    assert not won or TableLog(store).at(version).txn_id == txn_id
    return True
