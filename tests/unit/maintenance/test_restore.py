"""RESTORE in memory: every version of a history, with ids, change data and the rules of commits; what is decided is decided by two snapshots."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from model.schedules.in_memory import InMemory
from model.schedules.play import audit, schema_string
from rowlock import clock
from rowlock.exceptions import StatementRefused
from rowlock.log.table_log import TableLog
from rowlock.maintenance.restore import restoration
from rowlock.maintenance.vacuum import vacuum
from rowlock.protocol import row_tracking
from rowlock.protocol.feature_removal import with_properties
from rowlock.storage.memory import MemoryStore
from rowlock.transaction.definition import creation, table_features
from rowlock.transaction.definition.head_commit import commit_from_head
from rowlock_simulation.memory.sql.script import parse
from support.days import Days
from support.turning_down import turn_down

HISTORY = """
APPEND (1, 10), (2, 20), (3, 30), (4, 40)
APPEND (5, 50), (6, 60)
DELETE WHERE k = 2
UPDATE SET v = v + 1 WHERE k >= 3
OPTIMIZE
DELETE WHERE k = 4 OR k = 5
MERGE USING (k, v: (1, 5), (7, 70)) ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *
OVERWRITE (8, 80), (1, 1)
DELETE WHERE k = 8
""".strip().splitlines()
LAST = len(HISTORY)


def lived(days: Days | None = None, store: MemoryStore | None = None, **properties: str) -> InMemory:
    """A table with that history; where `days` is given a day lies between two versions."""
    world = InMemory(store=store)
    world.create(schema_string([("k", "long", True), ("v", "long", True)]), (), properties)
    for text in HISTORY:
        if days is not None:
            days.pass_days(1)
        world.run(parse(text))
    return world


def rows(world: InMemory, version: int | None = None) -> Counter[Any]:
    return Counter((r["k"], r["v"]) for r in world.rows(version))


@pytest.mark.parametrize("vectors", ["true", "false"])
@pytest.mark.parametrize("first", range(LAST))
def test_from_any_version_to_any(first: int, vectors: str) -> None:
    world = lived(**{"delta.enableDeletionVectors": vectors, "delta.enableRowTracking": "true", "delta.enableChangeDataFeed": "true"})
    mark = -1
    for target in (first, LAST, (first * 5 + 3) % LAST):
        before = rows(world)
        receipt = world.restore(target)
        assert receipt.version is not None
        head, found = world.identified(receipt.version)
        _, wanted = world.identified(target)
        assert Counter(map(str, found)) == Counter(map(str, wanted))
        high = row_tracking.high_water_mark(head.domains)
        assert high >= mark
        mark = high
        net = Counter[Any]()
        for change, row in world.feed(receipt.version):
            net[row["k"], row["v"]] += {"insert": 1, "delete": -1}[change]
        net.update(before)
        assert +net == rows(world, target) and not -net
        old = TableLog(world.state.store).at(target).files
        assert (
            (receipt.metrics["numOfFilesAfterRestore"], receipt.metrics["tableSizeAfterRestore"])
            == (len(old), old.total_size_bytes)
            == (len(head.files), head.files.total_size_bytes)
        )
    audit(world.state.log)


@pytest.mark.parametrize("again", [True, False])
def test_row_ids_after_the_feature_was_dropped(again: bool) -> None:
    """I6: the old version tracked its rows, the table no longer does, or does again from the beginning: every row has an id of its own, above all that are given."""
    world = lived(**{"delta.enableRowTracking": "true", "delta.enableDeletionVectors": "true"})
    table_features.drop_feature(world.state, "rowTracking", lambda _: None)
    if again:
        table_features.set_properties(world.state, world.table.engine, {"delta.enableRowTracking": "true"})
        world.run(parse("APPEND (9, 90), (10, 100)"))
    given = row_tracking.high_water_mark(world.table.refresh().domains)
    for target in (3, LAST, 5):
        receipt = world.restore(target)
        assert receipt.version is not None
        head, found = world.identified(receipt.version)
        assert Counter((r["k"], r["v"]) for r in found) == rows(world, target)
        assert all(f.base_row_id is not None for f in head.files.adds())
        ids = [r["_row_id"] for r in found]
        assert len(set(ids)) == len(ids) and max(ids) <= row_tracking.high_water_mark(head.domains)
        if target == 3:
            assert not again or min(ids) > given


def test_row_ids_come_back_where_the_feature_was_not_dropped_in_the_end() -> None:
    """I6: DROP FEATURE took ids from files and did not reach its end."""
    world = lived(**{"delta.enableRowTracking": "true"})
    _, wanted = world.identified(LAST)
    creation.change_metadata(
        world.state, "SET TBLPROPERTIES", {}, lambda head: with_properties(head.metadata, {row_tracking.ENABLED: "false", row_tracking.SUSPENDED: "true"})
    )
    commit_from_head(world.state, "ROW TRACKING UNBACKFILL", {}, table_features._take_row_ids)
    receipt = world.restore(LAST)
    assert receipt.version is not None and receipt.metrics["numRestoredFiles"] == 0
    assert Counter(map(str, world.identified(receipt.version)[1])) == Counter(map(str, wanted))


def test_row_ids_after_a_version_of_the_dropping_was_restored() -> None:
    """I6: the feature came back suspended, by a RESTORE to a version between the steps of dropping it; then one that tracked its rows was restored (`local` 183,000,701)."""
    world = lived(**{"delta.enableRowTracking": "true"})
    table_features.drop_feature(world.state, "rowTracking", lambda _: None)
    suspended = world.table.refresh().version - 1
    for target in (suspended, LAST):
        assert world.restore(target).version is not None
    head, found = world.identified(world.table.refresh().version)
    assert min(r["_row_id"] for r in found) >= 0 and max(r["_row_id"] for r in found) <= row_tracking.high_water_mark(head.domains)


def test_files_that_did_not_change_are_left_alone() -> None:
    world = lived()
    world.restore(2)
    world.run(parse("APPEND (9, 90)"))
    log = TableLog(world.state.store)
    found = restoration(log.at(2), log.latest(), 0)
    assert found is not None and len(found.removes) == 1 and not found.adds and not found.domains
    assert (found.metadata, found.protocol) == (log.latest().metadata, log.latest().protocol)


def test_what_is_refused() -> None:
    world = lived()
    log = TableLog(world.state.store)
    assert restoration(log.latest(), log.latest(), 0) is None, "the newest version needs no commit"
    lost = next(iter(log.at(1).files.adds())).path
    world.state.store.delete(lost)
    with pytest.raises(StatementRefused, match=lost):
        world.restore(1)
    assert log.latest().version == LAST


class Vacuumed(MemoryStore):
    """A store of which a file is deleted right after somebody has looked whether it is there."""

    suffix: str | None = None

    def head(self, key: str) -> Any:
        found = super().head(key)
        if self.suffix is not None and key.endswith(self.suffix) and not key.startswith("_delta_log"):
            self.delete(key)
        return found


@pytest.mark.parametrize("feed", ["true", "false"])
@pytest.mark.parametrize("suffix", [".bin", ".json"], ids=["vector", "data file"])
def test_files_that_a_vacuum_deletes_after_they_were_found(suffix: str, feed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is not damaged: the version cannot be restored any more, and nothing is committed."""
    turn_down(monkeypatch, inline_vector_bytes=0)
    store = Vacuumed("memory://vacuumed")
    with clock.use(days := Days()):
        world = lived(days, store, **{"delta.deletedFileRetentionDuration": "interval 36 hours", "delta.enableChangeDataFeed": feed})
        store.suffix = suffix
        with pytest.raises(StatementRefused, match=rf"cannot be restored: [^ ]*\{suffix}.* missing, most likely vacuumed"):
            InMemory(store=store).restore(3)
        assert world.state.log.latest().version == LAST


@pytest.mark.parametrize("in_files", [False, True])
@pytest.mark.parametrize("target", range(LAST))
def test_files_that_a_vacuum_is_deleting_are_brought_back_under_new_names(target: int, in_files: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """I3, I10: it has looked before RESTORE commits, and deletes afterwards what had been removed longer ago than the retention."""
    if in_files:
        turn_down(monkeypatch, inline_vector_bytes=0, copied_piece_bytes=7)
    with clock.use(days := Days()):
        world = lived(
            days, **{"delta.deletedFileRetentionDuration": "interval 36 hours", "delta.enableRowTracking": "true", "delta.enableChangeDataFeed": "true"}
        )
        wanted, had = world.identified(target)[1], rows(world)
        under_way = vacuum(world.state.log, dry_run=True).files
        receipt = world.restore(target)
        assert receipt.version is not None
        for key in under_way:
            world.state.store.delete(key)
        again = InMemory(store=world.state.store)
        assert Counter(map(str, again.identified(receipt.version)[1])) == Counter(map(str, wanted))
        net = Counter[Any](had)
        for change, row in again.feed(receipt.version):
            net[row["k"], row["v"]] += {"insert": 1, "delete": -1}[change]
        assert +net == rows(again) and not -net
        audit(again.state.log)
        assert not {f.path for f in again.state.log.latest().files.adds()} & set(under_way)
        assert under_way or target == LAST - 1, "a test that cannot fail"
