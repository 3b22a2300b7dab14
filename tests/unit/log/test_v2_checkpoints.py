"""V2 checkpoints: sidecars of a bounded size and a top file that names them, what a failure leaves, and when they are written (I9, I10)."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest

from model.schedules.in_memory import InMemory
from rowlock import clock
from rowlock.exceptions import StorageError
from rowlock.limits import limited
from rowlock.log.segment import list_log, newest_checkpoint, read_hint
from rowlock.log.table_log import TableLog
from rowlock.protocol import names
from rowlock.protocol.features import reader_features, writer_features
from rowlock.protocol.names import LogFile
from rowlock.storage.memory import MemoryStore
from rowlock.transaction.definition import creation
from rowlock_simulation.memory.sql.script import parse
from unit.log.test_cleanup import DAY_MS, START_MS, Killed, Movable, clean, copied, earliest, table

SCHEMA = '{"type":"struct","fields":[{"name":"k","type":"long","nullable":true,"metadata":{}}]}'
V2 = {"delta.checkpointPolicy": "v2"}


@pytest.fixture
def time() -> Iterator[Movable]:
    with clock.use(Movable()) as movable:
        assert isinstance(movable, Movable)
        yield movable


def written(store: MemoryStore, **properties: str) -> InMemory:
    """A table with four live files, two that were removed and a checkpoint of version 7."""
    made = InMemory(store=store)
    made.create(SCHEMA, (), {"delta.checkpointInterval": "7", "delta.enableDeletionVectors": "false", **properties})
    for k in range(1, 6):
        made.run(parse(f"APPEND ({k})"))
    made.run(parse("DELETE WHERE k = 1"))
    made.run(parse("UPDATE SET k = k + 10 WHERE k = 2"))
    return made


def tops(store: MemoryStore) -> list[LogFile]:
    return [f for f in list_log(store) if f.kind == "v2_checkpoint"]


def sidecars(store: MemoryStore) -> list[str]:
    return sorted(m.key for m in store.list(names.SIDECAR_DIRECTORY))


def rows_in(store: MemoryStore, key: str) -> list[dict[str, Any]]:
    """The actions of a file of a checkpoint."""
    return [{k: v for k, v in row.items() if v is not None} for row in pq.read_table(io.BytesIO(store.get(key))).to_pylist(maps_as_pydicts="lossy")]


def test_what_a_v2_checkpoint_holds() -> None:
    store = MemoryStore()
    with limited(snapshot_chunk_files=2):
        made = written(store, **V2)
    (top,) = tops(store)
    assert top.version == 7 and top.key.endswith(".parquet") and not store.head(names.checkpoint_key(7))
    parts = [rows_in(store, key) for key in sidecars(store)]
    assert [len(part) for part in parts] == [2, 2, 2], "four live files and two that were removed"
    assert {kind for part in parts for row in part for kind in row} == {"add", "remove"}
    small = rows_in(store, top.key)
    kinds = [next(iter(row)) for row in small]
    assert kinds == ["checkpointMetadata", "protocol", "metaData", "sidecar", "sidecar", "sidecar"]
    assert small[0]["checkpointMetadata"]["version"] == 7
    named = [row["sidecar"] for row in small[3:]]
    assert sorted(names.sidecar_key(s["path"]) for s in named) == sidecars(store)
    assert all(s["sizeInBytes"] == store.head(names.sidecar_key(s["path"])) for s in named)
    hint = orjson.loads(store.get(names.LAST_CHECKPOINT))
    assert (hint["version"], hint["size"], hint["v2Checkpoint"]["path"]) == (7, 6 + 6, top.key.rpartition("/")[2])
    assert hint["v2Checkpoint"]["sizeInBytes"] == store.head(top.key) and read_hint(store) == 7
    assert sorted(r["k"] for r in made.rows()) == [3, 4, 5, 12]


@pytest.mark.parametrize("chunk", [1, 2, 50_000])
def test_it_reads_as_a_classic_one_does(chunk: int) -> None:
    """The same files, removes and actions by both policies, however many sidecars there are."""
    found = []
    for policy in ("classic", "v2"):
        with limited(snapshot_chunk_files=chunk):
            store = MemoryStore()
            written(store, **{"delta.checkpointPolicy": policy})
            for key in [f.key for f in list_log(store) if f.kind == "commit" and f.version < 7]:
                store.delete(key)
            log = TableLog(store)
            snapshot = log.latest()
            assert {f.kind for f in newest_checkpoint(store, 7)} == {"checkpoint" if policy == "classic" else "v2_checkpoint"}
            rows = sorted(r["k"] for r in InMemory(store=store).rows())
            found.append((rows, len(snapshot.files), len(log.tombstones(snapshot)), sorted(snapshot.txns)))
    assert found[0] == found[1] and found[0][0] == [3, 4, 5, 12]


def test_the_feature_is_listed_and_the_policy_counts() -> None:
    """Setting the property adds the feature; without the feature, as in a table of others, readers would not look for such a file."""
    store = MemoryStore()
    made = written(store)
    creation.set_properties(made.state, {**V2, "delta.checkpointInterval": "1"})
    protocol = made.state.refresh().protocol
    assert "v2Checkpoint" in reader_features(protocol) & writer_features(protocol)
    made.run(parse("APPEND (7)"))
    assert [t.version for t in tops(store)][-1] == made.state.refresh().version
    creation.set_properties(made.state, {"delta.checkpointPolicy": "classic"})
    head = made.run(parse("APPEND (8)")).version
    assert head is not None and store.head(names.checkpoint_key(head))
    snapshot = made.state.refresh()
    unlisted = replace(
        snapshot, metadata=replace(snapshot.metadata, configuration=V2), protocol=replace(protocol, reader_features=frozenset(), writer_features=frozenset())
    )
    before = len(tops(store))
    TableLog(store).write_checkpoint(unlisted)
    assert len(tops(store)) == before


def test_a_version_gets_one_checkpoint() -> None:
    store = MemoryStore()
    made = written(store, **V2)
    assert not made.state.log.maybe_checkpoint(made.state.refresh()) and len(tops(store)) == 1


class Failing(MemoryStore):
    """Fails the put of the object whose name has `where` in it; with `unknown`, after it was put."""

    where, unknown, left = "", False, 0
    late: tuple[str, bytes] | None = None

    def put(self, key: str, data: bytes) -> None:
        if self.where and self.where in key:
            self.left -= 1
            if self.left < 0:
                self.late = None if self.unknown or "_sidecars" in key else (key, data)
                if self.unknown:
                    super().put(key, data)
                raise StorageError("it does not answer", table=self.root)
        super().put(key, data)


@pytest.mark.parametrize(
    ("where", "left", "unknown", "kept"), [("_sidecars", 0, False, 0), ("_sidecars", 2, False, 0), (".checkpoint.", 0, False, 3), (".checkpoint.", 0, True, 3)]
)
def test_a_checkpoint_that_fails_leaves_no_sidecars(where: str, left: int, unknown: bool, kept: int) -> None:
    """But where the put of its own file was tried, they stay: it may arrive late, and names them."""
    store = Failing()
    with limited(snapshot_chunk_files=2):
        made = written(store, **V2, **{"delta.checkpointInterval": "100"})
        store.where, store.left, store.unknown = where, left, unknown
        with pytest.raises(StorageError):
            made.state.log.write_checkpoint(made.state.refresh())
    assert len(sidecars(store)) == kept and len(tops(store)) == int(unknown)
    store.where = ""
    if store.late is not None:
        store.put(*store.late)
    assert len(tops(store)) == int(where == ".checkpoint.")
    assert sorted(r["k"] for r in InMemory(store=store).rows()) == [3, 4, 5, 12]


def test_cleanup_keeps_the_sidecars_that_are_named(time: Movable) -> None:
    """Wherever a cleanup is killed: a checkpoint that is there is whole, and what no checkpoint names goes with a later run."""
    store = MemoryStore()
    table(time, store, 13, **V2)
    store.put(names.sidecar_key("of a checkpoint that is being written.parquet"), b"")
    count = clean(undisturbed := copied(store, time))
    assert earliest(undisturbed) == 6 and [t.version for t in tops(undisturbed)] == [6, 9, 12]
    named = {names.sidecar_key(row["sidecar"]["path"]) for t in tops(undisturbed) for row in rows_in(undisturbed, t.key) if "sidecar" in row}
    assert {*sidecars(undisturbed)} == named | {names.sidecar_key("of a checkpoint that is being written.parquet")}
    for lives in range(count):
        killed = copied(store, time, lives)
        with pytest.raises(Killed):
            clean(killed)
        first = earliest(killed)
        for version in range(first, 13):
            assert sorted(r["k"] for r in InMemory(store=killed).rows(version)) == list(range(1, version + 1))
    assert time.at_ms == START_MS + 12 * DAY_MS
