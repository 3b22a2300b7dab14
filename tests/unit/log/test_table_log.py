"""Snapshots out of a log, and commits into it. I1: nothing is overwritten; I9: damage is named; I10: checkpoints are right and never needed."""

from __future__ import annotations

import decimal
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import deltalake
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rowlock import clock
from rowlock.exceptions import CorruptLog, TableNotFound, UnsupportedFeature, VersionNotFound
from rowlock.log.pruning import FilePruner
from rowlock.log.struct_stats import texts
from rowlock.log.table_log import TableLog
from rowlock.protocol import deletion_vector, names, paths
from rowlock.protocol.actions import AddFile, CommitInfo, DomainMetadata, Metadata, Protocol, SetTransaction
from rowlock.protocol.commits import serialize_commit
from rowlock.protocol.features import protocol_for_new_table
from rowlock.protocol.predicates import compare
from rowlock.protocol.schema import DecimalType, PrimitiveType, StructField, StructType, schema_json
from rowlock.storage import Committed, LocalStore, Lost, MemoryStore, ObjectStore
from support.turning_down import turn_down

SCHEMA = StructType((StructField("id", PrimitiveType("long")), StructField("p", PrimitiveType("string"))))
VECTORS_ON = {"delta.enableDeletionVectors": "true"}


def info(version: int, table_id: str = "id") -> CommitInfo:
    return CommitInfo(
        {"timestamp": clock.now_ms(), "operation": "WRITE", "operationParameters": {}, "txnId": f"t{version} of {table_id}", "userMetadata": clock.new_id()}
    )


def create(log: TableLog, table_id: str = "id", **configuration: str) -> None:
    metadata = Metadata(table_id, schema_json(SCHEMA), ("p",), VECTORS_ON | {f"delta.{k}": v for k, v in configuration.items()}, created_time_ms=1)
    protocol = protocol_for_new_table(VECTORS_ON)
    protocol = Protocol(3, 7, protocol.reader_features, (protocol.writer_features or frozenset()) | {"domainMetadata"})
    assert log.put(0, serialize_commit(info(0, table_id), protocol=protocol, metadata=metadata)) == Committed()


def data_file(store: ObjectStore, n: int, rows: int = 3) -> AddFile:
    """A real file whose name needs escaping, in a partition whose value does."""
    path = f"p=a%3A{n % 3}/part {n}.parquet"
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [n * 10 + i for i in range(rows)]}), sink)
    store.put(path, sink.getvalue().to_pybytes())
    return AddFile(path, {"p": f"a:{n % 3}"}, sink.getvalue().size, clock.now_ms(), True, f'{{"numRecords":{rows}}}')


def grow(log: TableLog, commits: int, *, checkpoints: bool = True) -> dict[str, AddFile]:
    """Adds a file a commit, removes every fifth, gives every seventh a vector; returns what lives."""
    snapshot = log.latest()
    live = {a.path: a for a in snapshot.files.adds()}
    for version in range(snapshot.version + 1, snapshot.version + 1 + commits):
        adds, removes = [data_file(log.store, version)], []
        if version % 5 == 0 and live:
            removes.append(live.pop(next(iter(live))).removed(clock.now_ms(), True))
        if version % 7 == 0 and live:
            old = next((a for a in live.values() if a.deletion_vector is None), None)
            if old is not None:
                marked = AddFile(
                    old.path,
                    old.partition_values,
                    old.size_bytes,
                    old.modification_time_ms,
                    True,
                    old.stats,
                    deletion_vector.inline(deletion_vector.BitMap64([1]), limit_bytes=1024),
                )
                removes.append(old.removed(clock.now_ms(), True))
                adds.append(marked)
        live.update((a.path, a) for a in adds)
        txns, domains = [SetTransaction(f"app{version % 3}", version)], [DomainMetadata("d", f'{{"v":{version}}}', version % 2 == 0)]
        assert log.put(version, serialize_commit(info(version, snapshot.metadata.id), adds=adds, removes=removes, txns=txns, domains=domains)) == Committed()
        snapshot = log.latest(snapshot)
        assert snapshot.version == version and {a.key for a in snapshot.files.adds()} == {a.key for a in live.values()}
        if checkpoints:
            log.maybe_checkpoint(snapshot)
    return live


def test_no_table_is_said() -> None:
    log = TableLog(MemoryStore())
    assert not log.exists()
    for call in (log.latest, log.history, lambda: log.at_timestamp(0)):
        with pytest.raises(TableNotFound):
            call()


@pytest.mark.parametrize("overlay", [3, 2048])
def test_120_commits_with_checkpoints_read_alike_everywhere(tmp_path: Path, overlay: int, monkeypatch: pytest.MonkeyPatch) -> None:
    turn_down(monkeypatch, changed_files=overlay)
    log = TableLog(LocalStore(tmp_path))
    create(log)
    live = grow(log, 120 if overlay > 3 else 40)
    newest = log.latest().version
    assert orjson.loads(log.store.get(names.LAST_CHECKPOINT))["version"] == newest // 10 * 10
    loaded = TableLog(LocalStore(tmp_path)).latest()
    assert loaded.commits_since_checkpoint == 0 and {a.path: a.key for a in loaded.files.adds()} == {p: a.key for p, a in live.items()}
    assert {a.path: a.stats for a in loaded.files.adds()} == {p: a.stats for p, a in live.items()}
    assert {t.app_id: t.version for t in loaded.txns.values()} == {f"app{(newest - i) % 3}": newest - i for i in range(3)}
    assert (list(loaded.domains), loaded.txn_id) == ([], f"t{newest} of id")
    for file in list(log.store.list("_delta_log")):  # nothing but checkpoints is left before the newest of them
        parsed = names.parse(file.key)
        if parsed and parsed.kind == "commit" and parsed.version < newest:
            log.store.delete(file.key)
    table = deltalake.DeltaTable(str(tmp_path))
    assert table.version() == newest and set(table.file_uris()) == {f"{tmp_path}/{p}" for p in live}
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("duckdb_extensions").import_extension("delta")
    ids = duckdb.connect().execute("LOAD delta").execute(f"SELECT id FROM delta_scan('{tmp_path}')")
    expected = {n * 10 + i for a in live.values() for n in [int(a.path.split()[1].split(".")[0])] for i in range(3) if a.deletion_vector is None or i != 1}
    assert {row[0] for row in ids.fetchall()} == expected


def test_of_many_committers_one_wins() -> None:
    log = TableLog(MemoryStore())
    create(log)
    barrier = threading.Barrier(6)

    def race(i: int) -> list[object]:
        barrier.wait()
        return [log.put(v, serialize_commit(info(v))) for v in range(1, 30)]

    with ThreadPoolExecutor(6) as pool:
        outcomes = list(pool.map(race, range(6)))
    for column in zip(*outcomes, strict=True):
        assert sorted(map(repr, column)) == ["Committed()"] + ["Lost()"] * 5
    assert log.put(3, b"{}") == Lost() and log.latest().version == 29


class Counting(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def get(self, key: str) -> bytes:
        self.calls.append(f"get {key}")
        return super().get(key)

    def tag(self, key: str) -> str | None:
        self.calls.append(f"tag {key}")
        return super().tag(key)

    def list(self, prefix: str = "", **more):  # type: ignore[no-untyped-def]
        self.calls.append(f"list {prefix}")
        return super().list(prefix, **more)


class Behind(MemoryStore):
    """A store that lists some objects later than it gives them out, and later than some that were put after them."""

    unlisted: frozenset[str] = frozenset()

    def list(self, prefix: str = "", **more):  # type: ignore[no-untyped-def]
        return (meta for meta in super().list(prefix, **more) if meta.key not in self.unlisted)


@pytest.mark.parametrize("versions", [(3,), (3, 4, 6), (0,), (0, 1)])
def test_a_commit_that_is_not_listed_yet_is_no_gap(versions: tuple[int, ...]) -> None:
    store = Behind()
    log = TableLog(store)
    create(log)
    grow(log, 8, checkpoints=False)
    paths = {a.path for a in log.latest().files.adds()}
    store.unlisted = frozenset(map(names.commit_key, versions))
    found = TableLog(store).latest()
    assert found.version == 8 and {a.path for a in found.files.adds()} == paths
    assert TableLog(store).at(5).version == 5


@pytest.mark.usual_limits("what was read is kept")
def test_a_refresh_reads_only_what_is_new() -> None:
    """Cases B, C and D of the table of a refresh."""
    store = Counting()
    log = TableLog(store)
    create(log)
    grow(log, 3)
    previous = log.at(1)
    store.calls.clear()
    assert log.latest(previous).version == 3
    assert store.calls == [*(f"get {names.commit_key(v)}" for v in (2, 3, 4)), f"tag {names.commit_key(1)}"]
    store.calls.clear()
    newest = log.latest(previous)
    assert log.latest(newest) is newest
    store.calls.clear()
    assert [c.version for c in log.commits(1, 3)] == [2, 3] and not store.calls, "what was read is kept"
    assert log.commits(3, 3) == []
    with pytest.raises(VersionNotFound):
        log.commits(3, 4)


def test_a_refresh_after_a_clean_up_or_a_new_table_starts_afresh() -> None:
    """Case E."""
    log = TableLog(MemoryStore())
    create(log)
    grow(log, 3)
    previous = log.latest()
    grow(log, 20)
    for version in range(15):
        log.store.delete(names.commit_key(version))
    assert log.latest(previous).version == 23
    with pytest.raises(VersionNotFound, match="can no longer be built"):
        log.at(5)
    assert log.at(20).version == 20 and log.at(22).version == 22
    for meta in list(log.store.list("_delta_log")):
        log.store.delete(meta.key)
    create(log, appendOnly="true")
    grow(log, 1, checkpoints=False)
    fresh = log.latest(previous)
    assert fresh.version == 1 and fresh.properties.append_only


class MadeAgain(MemoryStore):
    """A store whose table is dropped, and made again within the same moment, right after the file `read` of its log was read."""

    again, read = False, names.commit_key(0)

    def get_tagged(self, key: str) -> tuple[bytes, str]:
        found = super().get_tagged(key)
        self._make_again(key)
        return found

    def get(self, key: str) -> bytes:
        found = super().get(key)
        self._make_again(key)
        return found

    def _make_again(self, read: str) -> None:
        if read == self.read and not self.again:
            self.again = True
            for meta in list(self.list(recursive=True)):
                self.delete(meta.key)
            create(TableLog(self), "again", appendOnly="true")
            grow(TableLog(self), 2 if self.read == names.commit_key(0) else 12)


@pytest.mark.parametrize("commits", [0, 1])
def test_a_table_that_is_made_again_while_it_is_read_is_one_of_the_two(commits: int) -> None:
    """A reader that met version 0 of the one and version 1 of the other wrote rows under the columns of the first into the second (I3)."""
    store = MadeAgain()
    create(TableLog(store))
    for version in range(1, 1 + commits):
        assert TableLog(store).put(version, serialize_commit(info(version), adds=[data_file(store, version)])) == Committed()
    found = TableLog(store).latest()
    assert found.version == 2 and found.metadata.id == "again" and found.properties.append_only
    assert len(found.files) == 2


@pytest.mark.parametrize(
    ("commits", "read"), [(10, names.commit_key(10)), (10, names.checkpoint_key(10)), (11, names.commit_key(11)), (11, names.checkpoint_key(10))]
)
def test_a_table_that_is_made_again_while_its_checkpoint_is_read_is_one_of_the_two(commits: int, read: str) -> None:
    """I3, I5: as above, with a checkpoint of the one and a commit of the other, whichever was read first; the file times of both are the same."""
    store = MadeAgain()
    store.read = names.commit_key(99)
    create(TableLog(store))
    grow(TableLog(store), commits)
    store.read = read
    found = TableLog(store).latest()
    assert store.again and found.version == 12 and found.metadata.id == "again" and found.properties.append_only
    assert [a.path for a in found.files.adds()] == [a.path for a in TableLog(store).latest().files.adds()]


@pytest.mark.parametrize(("commits", "requests"), [(0, 4), (1, 6), (10, 6), (11, 6), (13, 8)])
def test_a_log_is_known_as_one_by_one_request(commits: int, requests: int) -> None:
    """The hint, the listing, each file, the first commit again where another file was read, and the next version, which is missing."""
    store = Counting()
    create(TableLog(store))
    grow(TableLog(store), commits)
    store.calls.clear()
    assert TableLog(store).latest().version == commits
    assert len(store.calls) == requests, store.calls


def test_gaps_and_rubbish() -> None:
    log = TableLog(MemoryStore())
    create(log)
    grow(log, 12, checkpoints=False)
    kept = log.store.get(names.commit_key(6))
    log.store.delete(names.commit_key(6))
    with pytest.raises(CorruptLog) as e:
        log.latest()
    assert e.value.version == 6 and "00000000000000000006.json" in str(e.value)
    assert log.at(5).version == 5
    for version in (13, -1):
        with pytest.raises(VersionNotFound):
            log.at(version)
    log.store.put(names.commit_key(6), kept[:-20])
    with pytest.raises(CorruptLog, match="00000000000000000006"):
        log.latest()
    log.store.put(names.commit_key(6), kept)
    log.store.put("_delta_log/_last_checkpoint", b"rubbish")
    log.store.put(f"{names.LOG_DIRECTORY}/{10:020d}.checkpoint.{1:010d}.{2:010d}.parquet", b"half of a checkpoint")
    log.store.put("_delta_log/00000000000000000013.json.tmp", b"x")
    assert log.latest().version == 12, "a hint, an unfinished checkpoint and other files do no harm"


@pytest.mark.parametrize("older", [False, True], ids=["the first commit", "an older checkpoint"])
def test_a_damaged_checkpoint_is_read_past_where_the_log_reaches_back(older: bool, caplog: pytest.LogCaptureFixture) -> None:
    """As delta-spark does.  Nobody could read such a table, or write it, until `rowlock repair` had run."""
    log = TableLog(MemoryStore())
    create(log)
    live = grow(log, 25)
    if older:
        log.store.delete(names.commit_key(3))
    else:
        log.store.put(names.checkpoint_key(10), b"")
    log.store.put(names.checkpoint_key(20), b"not a checkpoint")
    found = log.latest()
    assert (found.version, {f.path for f in found.files.adds()}) == (25, set(live)) and log.at(22).version == 22
    assert "read past a damaged checkpoint" in caplog.text and "00000000000000000020.checkpoint" in caplog.text
    log.store.delete(names.commit_key(13))
    with pytest.raises(CorruptLog, match=r"00000000000000000020\.checkpoint"):
        log.latest()


def test_a_multipart_checkpoint_is_read_when_it_is_whole() -> None:
    log = TableLog(MemoryStore())
    create(log)
    live = grow(log, 12)
    table = pq.read_table(pa.BufferReader(log.store.get(names.checkpoint_key(10))))
    log.store.delete(names.checkpoint_key(10))
    for part, rows in ((1, table.slice(0, 5)), (2, table.slice(5))):
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink)
        log.store.put(f"{names.LOG_DIRECTORY}/{10:020d}.checkpoint.{part:010d}.{2:010d}.parquet", sink.getvalue().to_pybytes())
    for version in range(10):
        log.store.delete(names.commit_key(version))
    assert {a.key for a in log.latest().files.adds()} == {a.key for a in live.values()}


@pytest.mark.parametrize(("portion", "texts"), [(1, True), (3, True), (3, False), (50_000, True)])
def test_statistics_that_a_checkpoint_holds_only_as_a_struct(monkeypatch: pytest.MonkeyPatch, portion: int, texts: bool) -> None:
    """I10: each file has its own statistics, in portions of any size, also beside files that have them as text."""
    log = TableLog(MemoryStore())
    create(log)
    grow(log, 10)
    table = pq.read_table(pa.BufferReader(log.store.get(names.checkpoint_key(10))))
    rows = table.column("add").to_pylist()
    expected = {}
    for n, row in enumerate(rows):
        if row is not None:
            row["stats_parsed"] = {"numRecords": 3, "minValues": {"id": n}, "nullCount": {"id": None}}
            row["stats"] = '{"numRecords":3}' if texts and n % 3 == 0 else None
            expected[paths.decode(row["path"])] = row["stats"] or f'{{"numRecords":3,"minValues":{{"id":{n}}},"nullCount":{{}}}}'
    parsed = pa.struct([("numRecords", pa.int64()), ("minValues", pa.struct([("id", pa.int64())])), ("nullCount", pa.struct([("id", pa.int64())]))])
    type_ = pa.struct([*(f for f in table.schema.field("add").type if texts or f.name != "stats"), pa.field("stats_parsed", parsed)])
    sink = pa.BufferOutputStream()
    pq.write_table(table.set_column(table.schema.get_field_index("add"), "add", pa.array(rows, type_)), sink)
    log.store.put(names.checkpoint_key(10), sink.getvalue().to_pybytes())
    turn_down(monkeypatch, snapshot_chunk_files=portion, changed_files=0)
    assert {a.path: a.stats for a in log.latest().files.adds()} == expected and len(set(expected.values())) > 3


@pytest.mark.parametrize(("unit", "far"), [("us", 253_402_300_800_000_000), ("us", -62_198_755_200_000_000), ("ms", 253_402_300_800_000)])
def test_bounds_of_years_that_python_has_not(unit: str, far: int) -> None:
    """I9: a checkpoint whose `stats_parsed` bounds lie before year 1 or after 9999 is read; these bounds are not known, the others are."""
    log = TableLog(MemoryStore())
    create(log)
    grow(log, 10)
    table = pq.read_table(pa.BufferReader(log.store.get(names.checkpoint_key(10))))
    adds = table.column("add").combine_chunks()
    bounds = [
        pa.array([far] * len(adds), pa.int64()).cast(pa.timestamp(unit, "UTC")),
        pa.array([3_000_000] * len(adds), pa.int32()).cast(pa.date32()),
        pa.array([7] * len(adds)),
    ]
    low = pa.StructArray.from_arrays(bounds, ["t", "d", "numRecords"])
    parsed = pa.StructArray.from_arrays([pa.array([3] * len(adds)), low], ["numRecords", "minValues"])
    kept = [f.name for f in adds.type if f.name != "stats"]
    made = pa.StructArray.from_arrays([*(adds.field(n) for n in kept), parsed], [*kept, "stats_parsed"], mask=adds.is_null())
    sink = pa.BufferOutputStream()
    pq.write_table(table.set_column(table.schema.get_field_index("add"), "add", made), sink)
    log.store.put(names.checkpoint_key(10), sink.getvalue().to_pybytes())
    assert {a.stats for a in log.latest().files.adds()} == {'{"numRecords":3,"minValues":{"numRecords":7}}'}


@pytest.mark.parametrize(
    "held", ["99999999999999999999999999999999999998", "-99999999999999999999999999999999999998", "18446744073709551617", "9007199254740993", "7"]
)
def test_parsed_bounds_of_decimals_beyond_64_bits(held: str) -> None:
    """I5, I9: a checkpoint whose `stats_parsed` holds a decimal that JSON integers cannot be is read, and no file is skipped that holds the value."""
    log = TableLog(MemoryStore())
    create(log)
    grow(log, 10)
    table = pq.read_table(pa.BufferReader(log.store.get(names.checkpoint_key(10))))
    adds = table.column("add").combine_chunks()
    value = Decimal(held)
    bound = pa.StructArray.from_arrays([pa.array([value] * len(adds), pa.decimal128(38, 0))], ["n"])
    parsed = pa.StructArray.from_arrays([pa.array([3] * len(adds)), bound, bound], ["numRecords", "minValues", "maxValues"])
    kept = [f.name for f in adds.type if f.name != "stats"]
    made = pa.StructArray.from_arrays([*(adds.field(n) for n in kept), parsed], [*kept, "stats_parsed"], mask=adds.is_null())
    sink = pa.BufferOutputStream()
    pq.write_table(table.set_column(table.schema.get_field_index("add"), "add", made), sink)
    log.store.put(names.checkpoint_key(10), sink.getvalue().to_pybytes())
    schema = StructType((StructField("n", DecimalType(38, 0)),))
    live = list(log.latest().files.adds())
    assert live and all(a.num_records == 3 for a in live)
    for op in ("=", "<=", ">="):
        assert FilePruner(compare(op, ("n",), value), schema, []).matching(live) == live


def test_tombstones_stay_until_they_expire() -> None:
    log = TableLog(MemoryStore())
    create(log)
    grow(log, 20)
    snapshot = log.latest()
    removed = {r.key for c in log.commits(0, 20) for r in c.removes}
    alive = {a.key for a in snapshot.files.adds()}
    assert {r.key for r in log.tombstones(snapshot)} == removed - alive
    held = pq.read_table(pa.BufferReader(log.store.get(names.checkpoint_key(20))), columns=["remove"]).column("remove").combine_chunks()
    assert len(held.filter(held.is_valid())) == len(removed - alive)
    create_again = TableLog(MemoryStore())
    create(create_again, deletedFileRetentionDuration="interval 0 days")
    grow(create_again, 20)
    assert create_again.tombstones(create_again.latest()) == []


def test_a_table_that_was_made_again_gets_no_checkpoint_of_the_one_before() -> None:
    """I5: a writer that was slow to write its checkpoint would give the new table the rows of the old one."""
    store = MemoryStore()
    slow = TableLog(store)
    create(slow)
    grow(slow, 4, checkpoints=False)
    before = slow.latest()
    for meta in list(store.list(recursive=True)):
        store.delete(meta.key)
    other = TableLog(store)
    create(other, "another")
    grow(other, 6, checkpoints=False)
    slow.write_checkpoint(before)
    assert not [m.key for m in store.list("_delta_log") if "checkpoint" in m.key]
    other.write_checkpoint(other.latest())
    assert TableLog(store).latest().commits_since_checkpoint == 0


def test_a_checkpoint_keeps_domains_and_applications() -> None:
    """I9: the configuration of a domain is text, whatever maps of the same name other actions have."""
    log = TableLog(MemoryStore())
    create(log)
    said = DomainMetadata("delta.rowTracking", '{"rowIdHighWaterMark":41}')
    assert log.put(1, serialize_commit(CommitInfo({"txnId": "d"}), domains=(said,), txns=(SetTransaction("app", 7, 1),))) == Committed()
    before = log.latest()
    log.write_checkpoint(before)
    log.store.delete(names.commit_key(0))
    after = TableLog(log.store).latest()
    assert after.commits_since_checkpoint == 0 and after.domains == before.domains == {said.domain: said}
    assert after.txns == before.txns and after.metadata == before.metadata and after.protocol == before.protocol


def test_time_travel_and_history() -> None:
    class Ticking(clock.SystemClock):
        def __init__(self) -> None:
            self.at = 1_700_000_000_000

        def now_ms(self) -> int:
            self.at += 1
            return self.at

    with clock.use(Ticking()):
        log = TableLog(MemoryStore())
        create(log)
        grow(log, 12)
        times = log.commit_times()
        assert [v for v, _ in times] == list(range(13)) and [t for _, t in times] == sorted({t for _, t in times})
        assert log.at_timestamp(times[5][1]).version == 5 and log.at_timestamp(times[6][1] - 1).version == 5
        for outside in (times[0][1] - 1, times[-1][1] + 1):
            with pytest.raises(VersionNotFound):
                log.at_timestamp(outside)
        history = log.history(3)
        assert [(c.version, c.txn_id, len(c.adds)) for c in history] == [(12, "t12 of id", 0), (11, "t11 of id", 0), (10, "t10 of id", 0)]
        assert history[0].txns and len(log.history()) == 13


def test_commits_are_asked_for_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a bucket each takes its time: one after the other, a history of a thousand took half a minute."""
    log, meeting = TableLog(MemoryStore()), threading.Barrier(2, timeout=20)
    create(log, enableInCommitTimestamps="true")
    grow(log, 3)
    newest, get_tagged = log.latest(), log.store.get_tagged
    monkeypatch.setattr(type(log.store), "is_remote", True)
    monkeypatch.setattr(log.store, "get_tagged", lambda key: (meeting.wait(), get_tagged(key))[1])
    assert [c.version for c in log.history()] == [3, 2, 1, 0] and [v for v, _ in log.commit_times(newest)] == [0, 1, 2, 3]


def test_a_new_process_asks_a_bucket_for_commits_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    store, meeting = MemoryStore(), threading.Barrier(2, timeout=20)
    create(TableLog(store))
    grow(TableLog(store), 4)
    later, get_tagged = {names.commit_key(v) for v in range(1, 5)}, store.get_tagged
    monkeypatch.setattr(type(store), "is_remote", True)
    monkeypatch.setattr(store, "get_tagged", lambda key: (key in later and meeting.wait(), get_tagged(key))[1])
    assert TableLog(store).latest().version == 4


def test_a_hint_between_checkpoints_hides_no_version() -> None:
    """I9: `_last_checkpoint` may be older than the checkpoints that are there; a version before these is built from the commits."""
    log = TableLog(MemoryStore())
    create(log)
    grow(log, 9, checkpoints=False)
    for version in (4, 8):
        log.write_checkpoint(log.at(version))
    log.store.put(names.LAST_CHECKPOINT, b'{"version": 2, "size": 1}')
    assert [TableLog(log.store).at(v).version for v in range(10)] == list(range(10))


def test_an_unreadable_table_is_refused_by_name() -> None:
    log = TableLog(MemoryStore())
    features = frozenset({"catalogManaged"})
    assert log.put(0, serialize_commit(info(0), protocol=Protocol(3, 7, features, features), metadata=Metadata("id", schema_json(SCHEMA)))) == Committed()
    with pytest.raises(UnsupportedFeature, match="catalogManaged"):
        log.latest()
    other = TableLog(MemoryStore())
    create(other, "another")
    before = other.latest()
    assert other.put(1, serialize_commit(info(1), protocol=Protocol(3, 7, features, features))) == Committed()
    with pytest.raises(UnsupportedFeature, match="catalogManaged"):
        other.latest(before)


def test_a_bound_of_decimals_that_a_writer_cut_off_is_not_known() -> None:
    """delta-rs states bounds of decimals beyond 64 bits as the last number of 64 bits; as skipping would believe them, the file would be passed over."""
    bounds = pa.array([decimal.Decimal(text) for text in ("-9223372036854775808", "9223372036854775807.00", "1e30", "7.10")], pa.decimal128(38, 2))
    found = texts(pa.StructArray.from_arrays([bounds], ["n"])).to_pylist()
    assert found == [None, None, '{"n":1' + "0" * 30 + ".00}", '{"n":7.10}']
