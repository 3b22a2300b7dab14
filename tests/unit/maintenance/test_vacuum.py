"""VACUUM keeps what was removed within the retention, whatever the table's checkpoints have dropped meanwhile (I10)."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rowlock
from model.schedules.in_memory import InMemory
from model.schedules.play import schema_string
from rowlock import clock
from rowlock.exceptions import InvalidInput, UnsupportedFeature
from rowlock.log.segment import newest_checkpoint
from rowlock.log.table_log import TableLog
from rowlock.maintenance.vacuum import Vacuumed, vacuum
from rowlock.protocol import names
from rowlock.protocol.properties import validate_properties
from rowlock.storage.hadoop import HadoopStore
from rowlock.storage.local import LocalStore
from rowlock.storage.store import ObjectMeta, ObjectStore
from rowlock.transaction.definition import creation
from rowlock_simulation.memory.sql.script import parse
from rowlock_simulation.memory.statements import run
from support.days import Days
from unit.storage.test_hadoop import LocalFiles

HOUR_MS = 3_600_000
OWN = "delta.deletedFileRetentionDuration"


@pytest.fixture
def days() -> Iterator[Days]:
    with clock.use(days := Days()):
        yield days


class World(InMemory):
    """A table with a row in each file; `removed`: the file of row 1, removed one day after it was written, two days ago by now."""

    def __init__(self, days: Days, own: str | None = "interval 1 hour", *, checkpoint: bool = True) -> None:
        super().__init__()
        self.create(schema_string([("k", "long", True)]), (), {OWN: own} if own else {})
        for k in (1, 2):
            run(self.table, parse(f"APPEND ({k})"))
        (self.removed,) = (a.path for a in self.commit(1).adds)
        self.state.store.put("left.bin", b"of nobody")
        days.pass_days(1)
        run(self.table, parse("DELETE WHERE k = 1"))
        assert [r.path for r in self.commit(3).removes] == [self.removed]
        days.pass_days(1)
        run(self.table, parse("APPEND (3)"))
        if checkpoint:
            self.checkpoint()
        days.pass_days(1)

    def commit(self, version: int) -> Any:
        return self.state.log.commits(version - 1, version)[0]

    def checkpoint(self) -> None:
        self.state.log.write_checkpoint(self.state.refresh())

    def cleaned_up(self, before: int) -> None:
        """As a clean-up of the log does it."""
        for version in range(before):
            self.state.store.delete(names.commit_key(version))

    def vacuum(self, hours: float | None = None, **options: Any) -> Vacuumed:
        return vacuum(TableLog(self.state.store), retention_hours=hours, **options)

    def has(self, key: str) -> bool:
        return self.state.store.head(key) is not None


def test_a_retention_longer_than_the_tables_own_keeps_what_was_removed_within_it(days: Days) -> None:
    """The checkpoint has dropped the remove, and the commits before it tell of it."""
    world = World(days)
    assert not any(r.path == world.removed for r in world.state.log.tombstones(world.state.refresh()))
    assert world.vacuum(60).files == ("left.bin",), "nobody ever named that one, and it is as old"
    assert world.has(world.removed)
    again = InMemory(store=world.state.store)
    assert [again.table.engine.count(f) for f in again.state.log.at(2).files.adds()] == [1, 1], "the version before the removal can be read"
    assert world.vacuum(36).files == (world.removed,), "removed two days ago"


@pytest.mark.parametrize(("hours", "goes"), [(60, False), (36, False), (20, True), (None, True)])
def test_where_the_log_no_longer_tells_nothing_is_deleted_that_it_does_not_name(days: Days, hours: float | None, goes: bool) -> None:
    """The commits before the checkpoint were cleaned up: what was removed before it was removed a day ago or more, and nobody knows when."""
    world = World(days)
    world.cleaned_up(world.state.refresh().version)
    days.pass_days(0.01)
    done = world.vacuum(hours)
    assert (world.removed in done.files) == goes == (not world.has(world.removed))
    assert done.unproven == (0 if goes else 2) and world.has("left.bin") != goes


def test_a_retention_that_was_raised_after_a_checkpoint(days: Days) -> None:
    """The table's own is a week now; it was an hour when the checkpoint dropped the remove."""
    world = World(days)
    creation.set_properties(world.state, {OWN: "interval 1 week"})
    world.checkpoint()
    assert world.vacuum().files == () and world.has(world.removed)


@pytest.mark.parametrize("again", [False, True])
def test_a_retention_that_was_raised_after_the_log_was_cleaned_up(days: Days, again: bool) -> None:
    """The checkpoint dropped a remove of two days ago under a retention of an hour, and no commit tells of it: within 60 hours, the table's own by now."""
    world = World(days)
    world.cleaned_up(world.state.refresh().version)
    creation.set_properties(world.state, {OWN: "interval 60 hours"})
    if again:
        world.checkpoint()
    done = world.vacuum()
    assert world.has(world.removed) and world.has("left.bin") and done.files == () and done.unproven == 2
    assert world.vacuum(36, check_retention=False).unproven == 2, "nor does a shorter one find out"
    run(world.table, parse("DELETE WHERE k = 2"))
    gone = world.state.log.commits(world.state.refresh().version - 1, world.state.refresh().version)[0].removes[0].path
    days.pass_days(3)
    assert set(world.vacuum().files) == {gone, world.removed, "left.bin"}, "the commits that are left reach back far enough by now"


def test_a_remove_that_the_checkpoint_kept_from_before_says_that_it_dropped_none_since(days: Days) -> None:
    """No commit before the checkpoint is read then: tables with many commits have such removes."""
    world = World(days, "interval 30 days")
    world.cleaned_up(world.state.refresh().version)
    world.state.store.put("more.bin", b"of nobody")
    assert newest_checkpoint(world.state.store, 4)
    done = world.vacuum(36, check_retention=False)
    assert world.removed in done.files and done.unproven == 0


@pytest.mark.parametrize("value", ["nonsense", "interval 1 fortnight", "", "7", "interval -1 days"])
def test_an_unreadable_retention_is_named_and_nothing_is_deleted(days: Days, value: str) -> None:
    """I9: it was a week in silence."""
    with pytest.raises(InvalidInput, match=OWN):
        validate_properties({OWN: value})
    world = World(days, None, checkpoint=False)
    key = names.commit_key(0)
    world.state.store.put(
        key, world.state.store.get(key).replace(b'"configuration":{', b'"configuration":{"%s":"%s",' % (OWN.encode(), value.encode())).replace(b",}", b"}")
    )
    world = _reopened(world)
    days.pass_days(60)
    for hours in (None, 24.0 * 30):
        with pytest.raises(InvalidInput) as e:
            world.vacuum(hours)
        assert OWN in str(e.value) and repr(value) in str(e.value) and world.state.store.root in str(e.value)
    assert world.has("left.bin") and world.has(world.removed)
    world.checkpoint()
    assert any(r.path == world.removed for r in world.state.log.tombstones(world.state.refresh())), "nobody knows how long it is needed"
    assert world.vacuum(24.0 * 30, check_retention=False).unproven == 0 and not world.has("left.bin")


def _reopened(world: World) -> World:
    again = InMemory(store=world.state.store)
    again.__class__ = World
    again.removed = world.removed  # type: ignore[attr-defined]
    return again  # type: ignore[return-value]


@pytest.mark.parametrize("hours", [-1, float("nan"), float("inf"), -0.001])
def test_a_retention_that_is_no_number_of_hours_is_refused(days: Days, hours: float) -> None:
    world = World(days)
    with pytest.raises(InvalidInput, match="is not possible"):
        world.vacuum(hours, check_retention=False)
    assert world.has(world.removed)


@pytest.mark.parametrize(
    "spelling",
    [
        "./{name}",
        "sub/../{name}",
        ".//{name}",
        "../table/{name}",
        "inside/{name}",
        "{link}/{name}",
        "file:{link}/{name}",
        "{root}/{name}",
        "file:{root}/{name}",
    ],
)
def test_a_file_is_kept_however_the_log_spells_it(spelling: str, tmp_path: Path) -> None:
    """I10: other engines name files by whole places, through links, and with dots in them."""
    root, link = tmp_path / "table", tmp_path / "link"
    rowlock.append(root, pa.table({"k": [1]}))
    link.symlink_to(root)
    (root / "inside").symlink_to(root)
    (name,) = (p.name for p in root.glob("*.parquet"))
    commit = root / "_delta_log" / f"{0:020}.json"
    commit.write_text(commit.read_text().replace(f'"path":"{name}"', f'"path":"{spelling.format(name=name, link=link, root=root)}"'))
    age(root)
    assert vacuum(TableLog(LocalStore(link if "root" in spelling else root))).files == () and (root / name).exists()


def test_a_disk_that_takes_two_names_for_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """I10: macOS lists the files of the partitions `a` and `A`, and of `é` composed and in two characters, in one folder each: live ones were deleted."""
    path = str(tmp_path / "t")
    rowlock.append(path, pa.table({"id": [1, 2, 3, 4], "p": ["A", "a", "\u00e9", "e\u0301"]}), partition_by=["p"])
    (tmp_path / "t" / "left.bin").write_bytes(b"of nobody")
    age(tmp_path)
    listed = LocalStore.list

    def as_one(store: LocalStore, *given: Any, **more: Any) -> Iterator[ObjectMeta]:
        for m in listed(store, *given, **more):
            yield replace(m, key=m.key.replace("p=a/", "p=A/").replace("p=e\u0301/", "p=\u00e9/"))

    monkeypatch.setattr(LocalStore, "list", as_one)
    assert vacuum(TableLog(LocalStore(path))).files == ("left.bin",)


def test_a_table_inside_of_another_is_left_alone(tmp_path: Path) -> None:
    """I10: its files are named by a log of its own."""
    rowlock.append(tmp_path, pa.table({"k": [1]}))
    rowlock.append(tmp_path / "inner", pa.table({"k": [2]}))
    (tmp_path / "left.bin").write_bytes(b"of nobody")
    age(tmp_path)
    assert vacuum(TableLog(LocalStore(tmp_path))).files == ("left.bin",)
    assert rowlock.to_arrow(tmp_path / "inner")["k"].to_pylist() == [2]


def test_a_file_whose_name_is_no_key_stays_and_the_others_go(tmp_path: Path) -> None:
    """I10: no store takes a name with a backslash as a key, so such a file is not deleted; it hinders no listing."""
    rowlock.append(tmp_path, pa.table({"k": [1]}))
    (tmp_path / "o\\dd").mkdir()
    for name in ("left.bin", "o\\dd.bin", "o\\dd/left.bin"):
        (tmp_path / name).write_bytes(b"of nobody")
    age(tmp_path)
    assert vacuum(TableLog(LocalStore(tmp_path))).files == ("left.bin",)


def test_a_clock_that_is_ahead_of_the_stores(days: Days, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """I10: what a writer staged a moment ago is as old as the store says."""
    rowlock.append(tmp_path, pa.table({"k": [1]}))
    (tmp_path / "left.bin").write_bytes(b"of nobody")
    age(tmp_path)
    (tmp_path / "staged.parquet").write_bytes(b"to be committed")
    days.pass_days(30)
    assert vacuum(TableLog(LocalStore(tmp_path)), dry_run=True).files == ("left.bin", "staged.parquet"), "a dry run writes nothing, and goes by its own clock"
    assert vacuum(TableLog(LocalStore(tmp_path))).files == ("left.bin",) and (tmp_path / "staged.parquet").exists()
    assert "ahead" in caplog.text
    assert not [p for p in (tmp_path / "_delta_log").iterdir() if p.name.endswith(".time")]


def test_an_inventory_is_no_proof(tmp_path: Path) -> None:
    """I10: it may be old, leave logs out, and name what is no part of the table; only what it names goes."""
    root = tmp_path / "table"
    rowlock.append(root, pa.table({"k": [1]}))
    rowlock.append(root / "inner" / "deep", pa.table({"k": [2]}))
    (tmp_path / "outside").mkdir()
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "sub").mkdir()
    spared = [tmp_path / "outside" / "mine.bin", root / "_hidden.bin", root / "unlisted.bin", *(p for p in root.rglob("*.parquet"))]
    for place in (*spared[:3], root / "left.bin", root / "sub" / "left.bin"):
        place.write_bytes(b"of nobody")
    age(tmp_path)
    young = root / "staged.parquet"
    young.write_bytes(b"to be committed")
    told = ["left.bin", "sub/left.bin", "gone.bin", "link/mine.bin", "../outside/mine.bin", "sub/../left.bin", "a//b", "sub/", "_hidden.bin", "staged.parquet"]
    told += [p.relative_to(root).as_posix() for p in root.rglob("*.parquet")] + ["left.bin"]
    inventory = [ObjectMeta(key, 9, 0) for key in told]
    log = TableLog(LocalStore(root))
    assert vacuum(log, inventory=[ObjectMeta("left.bin", 9, clock.now_ms())]).files == (), "a file that the inventory calls young stays"
    for dry in (True, False):
        assert vacuum(log, inventory=inventory, dry_run=dry).files == ("left.bin", "sub/left.bin")
    assert not (root / "left.bin").exists() and not (root / "sub" / "left.bin").exists()
    assert all(p.exists() for p in (*spared, young)) and vacuum(log, inventory=[]).files == ()


def test_a_table_with_a_feature_that_is_not_known_is_not_vacuumed(tmp_path: Path) -> None:
    """I9: features of writers may have files of their own, such as the metadata that Iceberg's readers need (PROTOCOL.md, VACUUM Protocol Check)."""
    rowlock.append(tmp_path, pa.table({"k": [1]}))
    first = tmp_path / "_delta_log" / f"{0:020}.json"
    plain = first.read_text()
    first.write_text(plain.replace('"writerFeatures":[', '"writerFeatures":["icebergCompatV2",'))
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "v1.metadata.json").write_text("{}")
    age(tmp_path)
    with pytest.raises(UnsupportedFeature, match="icebergCompatV2"):
        vacuum(TableLog(LocalStore(tmp_path)))
    assert (tmp_path / "metadata" / "v1.metadata.json").exists()
    first.write_text(plain.replace('"configuration":{', '"configuration":{"delta.enableRowTracking":"true",'))
    assert vacuum(TableLog(LocalStore(tmp_path))).files == ("metadata/v1.metadata.json",), "what else forbids to write a table names no files"


def test_what_killed_writers_leave_goes(tmp_path: Path) -> None:
    """I10: the file that a process was writing, which its store hides, and what the tasks of a Spark job had written, in folders that Hadoop hides."""
    rowlock.append(tmp_path, pa.table({"k": [1]}))
    one = clock.new_id()
    goes = [
        f".part.parquet.{one}.tmp",
        f"p=1/.part.parquet.{one}.tmp",
        *(f"{at}rl-{one[:13]}/_temporary/0/task_1/p=1/part.parquet" for at in ("", "ab/", "_change_data/")),
        f"_rowlock/staging/{one}/part.parquet",
        f"_rowlock/staging/{one}/_temporary/0/task_1/part.parquet",
    ]
    stays = [
        f"_delta_log/.0.json.{one}.tmp",
        ".mine.tmp",
        "_temporary/0/part.parquet",
        f"_mine/rl-{one[:13]}/_temporary/part.parquet",
        "rl-mine/_temporary/part.parquet",
        "_rowlock/locks/cell.json",
    ]
    for key in (*goes, *stays):
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_bytes(b"of nobody")
    assert vacuum(TableLog(LocalStore(tmp_path))).files == (), "a writer may be at work"
    age(tmp_path)
    assert sorted(vacuum(TableLog(LocalStore(tmp_path))).files) == sorted(goes) and all((tmp_path / key).exists() for key in stays)


@pytest.mark.parametrize("store_of", [LocalStore, lambda folder: HadoopStore(LocalFiles(folder))], ids=["local", "hadoop"])
def test_the_folder_of_a_spark_job_goes_with_its_last_file(tmp_path: Path, store_of: Callable[[Path], ObjectStore]) -> None:
    """Each large statement, and each OPTIMIZE by Spark, has a folder of its own: a table would gather empty ones for good.  Folders of partitions stay."""
    rowlock.append(tmp_path, pa.table({"k": [1]}))
    full, empty, within = (f"{at}rl-{clock.new_id()[:13]}" for at in ("", "", "ab/"))
    for key in (f"{full}/old", f"{full}/new", f"{empty}/p=1/old", f"{empty}/.old.crc", f"{within}/old", "p=1/old"):
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_bytes(b"of nobody")
    age(tmp_path)
    os.utime(tmp_path / full / "new")
    checksum = tmp_path / empty / ".old.crc"
    checksum.rename(tmp_path / empty / "p=1" / ".old.crc") if store_of is LocalStore else checksum.unlink()  # which Hadoop's client deletes with its file
    vacuum(TableLog(store_of(tmp_path)))
    assert {p.name for p in tmp_path.iterdir()} == {"_delta_log", full, "ab", "p=1", *(f.path for f in TableLog(LocalStore(tmp_path)).latest().files.adds())}
    assert not list((tmp_path / "ab").iterdir())


def age(folder: Path) -> None:
    """Makes all files in a folder thirty days older."""
    then = time.time() - 30 * 86_400
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (then, then))


@pytest.mark.parametrize("overtaken", [False, True], ids=["a newer checkpoint that serves", "the log of that version is gone"])
def test_a_vacuum_that_stood_still_while_the_log_was_cleaned_up_looks_again(days: Days, monkeypatch: pytest.MonkeyPatch, overtaken: bool) -> None:
    """I9: the checkpoint that it was about to read went beneath it, which is no damage (found by the simulation: dynamodb 2000155)."""
    world = World(days)
    first = newest_checkpoint(world.state.store, 4)
    head = run(world.table, parse("APPEND (4)")).version
    assert head is not None
    get, met = world.state.store.get, []
    reads = 1 if overtaken else 2  # VACUUM reads the checkpoint for its snapshot, and again for the removes

    def late(key: str) -> bytes:
        met.extend([key] * (key == first[0].key and len(met) < reads))
        if key == first[0].key and len(met) == reads and world.has(key):
            if overtaken:
                run(world.table, parse("APPEND (5)"))
            with monkeypatch.context() as undisturbed:
                undisturbed.setattr(world.state.store, "get", get)
                world.checkpoint()
            world.cleaned_up(head + overtaken)
            world.state.store.delete(key)
        return get(key)

    found = TableLog(world.state.store)
    old = found.latest()
    monkeypatch.setattr(world.state.store, "get", late)
    if overtaken:
        assert old.version == head
        found.write_checkpoint(old)  # it has a successor, so there is nothing to write
        assert len(met) == reads and newest_checkpoint(world.state.store, head) == ()
        met.clear()
    assert world.removed in world.vacuum().files and len(met) == (0 if overtaken else reads)
    assert InMemory(store=world.state.store).state.refresh().version == head + overtaken


def test_folders_in_which_nothing_is_left_go_with_the_next_vacuum(tmp_path: Path) -> None:
    """As delta-spark's: the one that empties a folder leaves it, and one that a writer has just made stays.  Hidden ones stay, and those of a table inside."""
    path = str(tmp_path / "t")
    rowlock.append(path, pa.table({"k": [1, 2], "p": [1, 2]}), partition_by=["p"])
    log = TableLog(LocalStore(path))
    old, inside = time.time() - 700 * HOUR_MS / 1000, ("_hidden/a", "nested/_delta_log", "nested/empty", "a/b", "young", "_change_data/p=1", "p=7")
    for name in inside:
        (tmp_path / "t" / name).mkdir(parents=True)
        os.utime(tmp_path / "t" / name, (old, old))
    (tmp_path / "t" / "a" / "b" / "left.parquet").write_bytes(b"")
    for name in ("a/b/left.parquet", "a/b"):
        os.utime(tmp_path / "t" / name, (old, old))
    os.utime(tmp_path / "t" / "young")

    def left() -> list[str]:
        return [name for name in inside if (tmp_path / "t" / name).exists()]

    assert vacuum(log).files == ("a/b/left.parquet",)
    assert left() == ["_hidden/a", "nested/_delta_log", "nested/empty", "a/b", "young"]
    os.utime(tmp_path / "t" / "a" / "b", (old, old))
    assert vacuum(log, dry_run=True) == Vacuumed((), 0) and (tmp_path / "t" / "a" / "b").exists()
    assert vacuum(log) == Vacuumed((), 0)
    assert left() == ["_hidden/a", "nested/_delta_log", "nested/empty", "young"]
    assert rowlock.to_arrow(path).num_rows == 2


def test_a_link_to_itself_leads_nowhere(tmp_path: Path) -> None:
    """It ended VACUUM, by an error that named no file; delta-spark passes over it as over a link whose target is gone."""
    path = str(tmp_path / "t")
    rowlock.append(path, pa.table({"k": [1]}))
    for name in ("loop.parquet", "_delta_log/loop"):
        (tmp_path / "t" / name).symlink_to(tmp_path / "t" / name)
    assert vacuum(TableLog(LocalStore(path)), retention_hours=0, check_retention=False) == Vacuumed((), 0)
    assert rowlock.append(path, pa.table({"k": [2]})).version == 1


def test_a_local_disk_deletes_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In threads 5,000 files took 0.35 s, and in turn 0.1 s."""
    path = str(tmp_path / "t")
    rowlock.append(path, pa.table({"k": [1]}))
    old, deleted = time.time() - 700 * HOUR_MS / 1000, []
    for n in range(3):
        (tmp_path / "t" / f"{n}.parquet").write_bytes(b"")
        os.utime(tmp_path / "t" / f"{n}.parquet", (old, old))
    monkeypatch.setattr(LocalStore, "delete", lambda _, key: deleted.append((key, threading.current_thread().name)))
    vacuum(TableLog(LocalStore(path)))
    assert [d for d in deleted if d[0].endswith(".parquet")] == [(f"{n}.parquet", threading.current_thread().name) for n in range(3)]
