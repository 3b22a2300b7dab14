"""Each damage is made in a table, named by the deep check, and mended by repair without a row being lost; then the check is clean (I5, I9, I10)."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyroaring import BitMap64

import rowlock
from rowlock.api.append import opened
from rowlock.exceptions import ChecksumWarning, UnsupportedFeature
from rowlock.limits import limited
from rowlock.log.checkpoint_reader import read_checkpoint
from rowlock.log.segment import newest_checkpoint
from rowlock.log.table_log import TableLog
from rowlock.maintenance.check.finding import KINDS, LEVELS, Finding
from rowlock.maintenance.check.run import check
from rowlock.maintenance.repair import DAMAGED, repair
from rowlock.protocol import names, row_tracking
from rowlock.protocol.actions import AddCdcFile, AddFile, CommitInfo
from rowlock.protocol.commits import serialize_commit
from rowlock.storage.local import LocalStore
from rowlock.storage.open import open_store
from rowlock.transaction.state.shared import SharedState
from support.appends import rows

pytestmark = pytest.mark.filterwarnings("ignore::rowlock.exceptions.ChecksumWarning")


def fresh(path: Path) -> SharedState:
    """The table as a process sees it that comes to it new."""
    store = LocalStore(path)
    return SharedState(TableLog(store), store)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Six versions: four appends of texts, numbers and nulls, a deletion vector, a checkpoint at version 3, checksums, row ids."""
    path = tmp_path / "table"
    properties = {"delta.enableRowTracking": "true", "rowlock.checksums": "true", "delta.enableChangeDataFeed": "true"}
    for n in range(4):
        part = pa.table({"id": [n * 10 + i for i in range(5)], "s": ["a" * 40, None, f"é{n}", "z" * 33, ""], "x": [1.5, None, float(n), -0.0, 2e300]})
        rowlock.append(str(path), part, properties=None if n else properties)
    state = fresh(path)
    state.log.write_checkpoint(state.refresh())
    mark(state, 1, 3)
    rowlock.append(str(path), pa.table({"id": [99], "s": ["b"], "x": [0.0]}))
    assert not findings(path) and not repair(fresh(path)).damages
    return path


def mark(state: SharedState, *positions: int) -> AddFile:
    """Commits a deletion vector for the file that begins at id 10, and its change data."""
    head = state.refresh()
    add = next(f for f in head.files.adds() if f.base_row_id == 5)
    (vector,) = state.vectors.store_all([BitMap64(positions)])
    marked = replace(add, deletion_vector=vector, stats=(add.stats or "").replace('"tightBounds":true', '"tightBounds":false'))
    folder = Path(state.store.root) / "_change_data"
    folder.mkdir(exist_ok=True)
    gone = rowlock.to_arrow(state.store.root).filter(pa.compute.field("id").isin([10 + p for p in positions]))
    pq.write_table(gone.append_column("_change_type", pa.array(["delete"] * gone.num_rows)), folder / "cdc-0.parquet")
    cdc = AddCdcFile({"path": "_change_data/cdc-0.parquet", "partitionValues": {}, "size": (folder / "cdc-0.parquet").stat().st_size, "dataChange": False})
    info = CommitInfo({"timestamp": 1, "operation": "DELETE", "txnId": "d"})
    body = serialize_commit(info, removes=[add.removed(deletion_timestamp_ms=9_999_999_999_999, data_change=True)], adds=[marked], cdc=[cdc])
    state.log.put(head.version + 1, body)
    return marked


def findings(path: Path) -> dict[str, Finding]:
    return {f.code: f for f in check(open_store(str(path)), deep=True).findings if f.level in ("damage", "danger")}


def added(path: Path, change: Callable[[AddFile], AddFile], where: Callable[[AddFile], bool] = lambda add: add.deletion_vector is not None) -> None:
    """Adds files of the newest version again as `change` makes them, behind everybody's back."""
    state = fresh(path)
    head = state.refresh()
    adds = [replace(change(f), data_change=False) for f in head.files.adds() if where(f)]
    assert adds
    state.log.put(head.version + 1, serialize_commit(CommitInfo({"timestamp": 1, "operation": "SPOILED"}), adds=adds))


def stats(**changed: Any) -> Callable[[AddFile], AddFile]:
    return lambda add: replace(add, stats=orjson.dumps(add.parsed_stats() | changed).decode())


def every(add: AddFile) -> bool:
    return True


def last_checkpoint(body: bytes) -> Callable[[Path], None]:
    return lambda path: (path / names.LAST_CHECKPOINT).write_bytes(body) and None


def spoil_checkpoint(path: Path) -> None:
    (path / names.checkpoint_key(3)).write_bytes(b"PAR1 no longer PAR1")


def lose_a_file_in_checkpoint(path: Path) -> None:
    held = pq.read_table(path / names.checkpoint_key(3))
    lost = next(n for n, add in enumerate(held.column("add").to_pylist()) if add is not None)
    pq.write_table(pa.concat_tables([held.slice(0, lost), held.slice(lost + 1)]), path / names.checkpoint_key(3))


def double_in_checkpoint(path: Path) -> None:
    state = fresh(path)
    at = state.log.at(3)
    more = at.files.apply((), [replace(next(iter(at.files.adds())), path="ghost.parquet")])
    state.log.write_checkpoint(replace(at, files=more))


def spoil_checksum(text: bytes) -> Callable[[Path], None]:
    return lambda path: (path / names.checksum_key(2)).write_bytes(text) and None


def wrong_count_in_checksum(path: Path) -> None:
    key = path / names.checksum_key(2)
    key.write_bytes(orjson.dumps(orjson.loads(key.read_bytes()) | {"numFiles": 17}))


def lower_mark(path: Path) -> None:
    state = fresh(path)
    state.log.put(state.refresh().version + 1, serialize_commit(CommitInfo({"timestamp": 1}), domains=[row_tracking.mark_domain(3)]))


MENDED: dict[str, tuple[Callable[[Path], None], str | None]] = {
    "a hint that cannot be parsed": (last_checkpoint(b'{"vers'), None),
    "a hint that names no version": (last_checkpoint(b'{"version": "3"}'), None),
    "a hint into the void": (last_checkpoint(b'{"version": 4, "size": 3}'), None),
    "a hint with parts that are not there": (last_checkpoint(b'{"version": 3, "size": 3, "parts": 2}'), None),
    "a checkpoint that does not read": (spoil_checkpoint, "checkpoint-does-not-read"),
    "a checkpoint that lacks a file": (lose_a_file_in_checkpoint, "checkpoint-wrong"),
    "a checkpoint with a file too many": (double_in_checkpoint, "checkpoint-wrong"),
    "a checksum that cannot be parsed": (spoil_checksum(b"{"), "checksum-wrong"),
    "a checksum that is no object": (spoil_checksum(b"[1]"), "checksum-wrong"),
    "a checksum that counts wrongly": (wrong_count_in_checksum, "checksum-wrong"),
    "a minimum above a value": (lambda path: added(path, stats(minValues={"id": 12})), "contents-contradict-log"),
    "a maximum below a value": (lambda path: added(path, stats(maxValues={"id": 13})), "contents-contradict-log"),
    "a truncated maximum that was not raised": (lambda path: added(path, stats(maxValues={"s": "a" * 32}), every), "contents-contradict-log"),
    "no nulls where there are": (lambda path: added(path, stats(nullCount={"s": 0}), lambda f: f.base_row_id == 0), "contents-contradict-log"),
    "all null where there are values": (lambda path: added(path, stats(nullCount={"id": 5})), "contents-contradict-log"),
    "a number of rows": (lambda path: added(path, stats(numRecords=4), lambda f: f.base_row_id == 0), "contents-contradict-log"),
    "no number of rows beside a vector": (lambda path: added(path, lambda f: replace(f, stats=None)), "contents-contradict-log"),
    "statistics that cannot be parsed": (lambda path: added(path, lambda f: replace(f, stats="{")), "contents-contradict-log"),
    "the cardinality of a vector": (
        lambda path: added(path, lambda f: replace(f, deletion_vector=replace(f.deletion_vector, cardinality=4))),  # type: ignore[type-var]
        "contents-contradict-log",
    ),
    "the high-water mark of row ids": (lower_mark, "row-id-mark-low"),
}


@pytest.mark.parametrize("damage", MENDED)
def test_damage_is_named_and_mended(table: Path, damage: str) -> None:
    spoil, code = MENDED[damage]
    wanted = rows(str(table))
    held = {p: p.read_bytes() for p in table.rglob("*") if p.is_file()}
    spoil(table)
    assert code is None or code in findings(table)
    spoiled = {p: p.read_bytes() for p in table.rglob("*") if p.is_file()}
    planned = repair(fresh(table))
    assert planned.damages and all(d.can for d in planned.damages) and not planned.is_whole
    assert {p: p.read_bytes() for p in table.rglob("*") if p.is_file()} == spoiled, "a dry run writes nothing"
    done = repair(fresh(table), dry_run=False)
    assert done.is_whole and [d.what for d in done.damages] == [d.what for d in planned.damages]
    assert not findings(table) and not repair(fresh(table)).damages
    data = [p for p in held if "_delta_log" not in p.parts or p.suffix == ".json"]
    assert all(p.read_bytes() == held[p] for p in data), "no data file, vector or commit is touched"
    kept = [p.read_bytes() for p in (table / DAMAGED).glob("*")] if (table / DAMAGED).exists() else []
    assert all(body in kept for p, body in spoiled.items() if not p.exists() or p.read_bytes() != body), "what is replaced is kept"
    state = fresh(table)
    assert sorted(rowlock.to_arrow(str(table))["id"].to_pylist()) == sorted(r[0] for r in wanted) and state.refresh().version >= 5
    assert DeltaTable(str(table)).version() == state.refresh().version
    with warnings.catch_warnings():
        warnings.simplefilter("error", ChecksumWarning)
        assert all(state.log.at(v).version == v for v in range(state.refresh().version + 1))


@pytest.mark.parametrize("mode", ["name", "id"])
def test_a_file_by_a_writer_that_knows_no_column_mapping_is_named(tmp_path: Path, mode: str) -> None:
    """I9: its rows are null to every reader."""
    path, held = tmp_path / "table", pa.table({"id": [1], "s": ["a"]})
    rowlock.append(path, held, properties={"delta.columnMapping.mode": mode})
    assert not findings(path)
    pq.write_table(held, path / "by-name.parquet")
    state, size = fresh(path), (path / "by-name.parquet").stat().st_size
    add = AddFile("by-name.parquet", {}, size, 1, True, '{"numRecords":1}')
    state.log.put(1, serialize_commit(CommitInfo({"operation": "WRITE", "txnId": "x"}), adds=[add]))
    (found,) = findings(path).values()
    assert (found.code, found.level, found.files) == ("columns-by-other-names", "damage", ("by-name.parquet",)) and "id, s" in found.text
    done = repair(fresh(path), dry_run=False)
    assert [d.can for d in done.damages] == [False] and "append their rows" in done.damages[0].how


def test_what_cannot_be_mended_is_said(table: Path) -> None:
    """A data file that is gone, a vector of another file, row ids twice, a checkpoint whose commits are gone: named, and everything else is mended."""
    added(table, lambda f: replace(f, base_row_id=10), lambda f: f.base_row_id == 5)
    added(table, stats(minValues={"id": 100}), lambda f: f.base_row_id == 15)
    gone = next(f for f in fresh(table).refresh().files.adds() if f.base_row_id == 0)
    (table / gone.path).unlink()
    assert {"file-missing", "row-ids-doubled", "contents-contradict-log"} <= findings(table).keys()
    done = repair(fresh(table), dry_run=False)
    assert not done.is_whole and [d.can for d in done.damages].count(True) == 1
    assert any(gone.path in d.what and "backup" in d.how for d in done.damages if not d.can)
    assert {"file-missing", "row-ids-doubled"} <= findings(table).keys() and "contents-contradict-log" not in findings(table)


def test_a_checkpoint_whose_commits_are_gone_is_left_alone(table: Path) -> None:
    spoil_checkpoint(table)
    (table / names.commit_key(1)).unlink()
    before = {p: p.read_bytes() for p in table.rglob("*") if p.is_file()}
    done = repair(fresh(table), dry_run=False)
    assert not done.is_whole and "not all commits before it exist" in done.damages[0].how and "cannot be read" in done.damages[-1].what
    assert {p: p.read_bytes() for p in table.rglob("*") if p.is_file()} == before


def test_nothing_is_written_anew_in_a_table_that_cannot_be_written_here(table: Path) -> None:
    """I9: a checkpoint may hold more than is known here."""
    first = table / names.commit_key(0)
    first.write_text(first.read_text().replace('"writerFeatures":[', '"writerFeatures":["somethingNew",'))
    spoil_checkpoint(table)
    before = {p: p.read_bytes() for p in table.rglob("*") if p.is_file()}
    with pytest.raises(UnsupportedFeature, match="somethingNew"):
        repair(fresh(table), dry_run=False)
    assert {p: p.read_bytes() for p in table.rglob("*") if p.is_file()} == before


def test_of_two_checkpoints_that_differ_none_is_written_of_the_other(tmp_path: Path) -> None:
    """I5: the older one may be the one that lacks a file, where the commits before it are gone."""
    for n in range(8):
        rowlock.append(str(tmp_path), pa.table({"id": [n]}))
        if n in (3, 6):
            state = fresh(tmp_path)
            state.log.write_checkpoint(state.refresh())
    for version in range(3):
        (tmp_path / names.commit_key(version)).unlink()
    older = tmp_path / names.checkpoint_key(3)
    held = pq.read_table(older)
    first = next(n for n, add in enumerate(held.column("add").to_pylist()) if add)
    pq.write_table(pa.concat_tables([held.slice(0, first), held.slice(first + 1)]), older)
    assert not any(done.can for done in repair(fresh(tmp_path), dry_run=False).damages)
    assert sorted(rowlock.to_arrow(str(tmp_path)).column("id").to_pylist()) == list(range(8))


def test_files_without_row_ids_are_no_damage_before_row_tracking_is_enabled(tmp_path: Path) -> None:
    rowlock.append(str(tmp_path), pa.table({"id": [1]}))
    state = fresh(tmp_path)
    protocol = replace(state.refresh().protocol, min_writer_version=7, writer_features=frozenset({"rowTracking", "domainMetadata"}), min_reader_version=1)
    state.log.put(1, serialize_commit(CommitInfo({"timestamp": 1}), protocol=protocol))
    assert not findings(tmp_path)


def test_proof_of_an_overwritten_commit_is_not_mended_away(table: Path) -> None:
    """The checksum of another transaction is the only trace of the commit that was lost."""
    key = table / names.checksum_key(2)
    key.write_bytes(orjson.dumps(orjson.loads(key.read_bytes()) | {"txnId": "another"}))
    held = key.read_bytes()
    done = repair(fresh(table), dry_run=False)
    assert not done.is_whole and "two writers" in done.damages[0].how and key.read_bytes() == held


def test_a_feed_that_says_otherwise(table: Path) -> None:
    """Rows of _change_data are compared with the difference of the versions."""
    cdc = table / "_change_data" / "cdc-0.parquet"
    held = pq.read_table(cdc)
    pq.write_table(held.slice(1), cdc)
    assert findings(table)["feed-contradicts-versions"].versions == (4,)


def test_a_v2_checkpoint_that_lacks_a_sidecar_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "table"
    for n in range(3):
        rowlock.append(str(path), pa.table({"id": [n]}), properties=None if n else {"delta.checkpointPolicy": "v2"})
        if n == 1:
            state = fresh(path)
            state.log.write_checkpoint(state.refresh())
    for sidecar in (path / names.SIDECAR_DIRECTORY).iterdir():
        sidecar.unlink()
    assert {"sidecar-missing", "checkpoint-wrong"} <= findings(path).keys()
    assert repair(fresh(path), dry_run=False).is_whole and not findings(path)
    assert rows(str(path)) == [(0,), (1,), (2,)]


def test_tombstones_stay_in_a_checkpoint_that_is_written_anew(table: Path) -> None:
    """I10: without them VACUUM would take files of older versions for garbage."""
    state = fresh(table)
    head = state.refresh()
    state.log.write_checkpoint(head)
    wanted = removed_in_checkpoint(state, head.version)
    assert len(wanted) == 1
    (table / names.checkpoint_key(head.version)).write_bytes(b"no Parquet")
    assert repair(fresh(table), dry_run=False).is_whole
    assert removed_in_checkpoint(state, head.version) == wanted


def removed_in_checkpoint(state: SharedState, version: int) -> list[tuple[str, str | None]]:
    found = newest_checkpoint(state.store, version)
    assert found[0].version == version
    return [r.key for r in read_checkpoint(state.store, found, removes_only=True).removes]


def test_a_writer_that_commits_first_is_heeded(table: Path) -> None:
    """The commit is made anew from the head: a file that a winner removed is not brought back."""
    added(table, stats(minValues={"id": 100}), every)
    state = fresh(table)
    find, raced = state.refresh, []

    def refresh() -> Any:
        head = find()
        if len(raced) < 2:
            raced.append(1)
            if len(raced) == 2:
                first = next(f for f in head.files.adds() if f.base_row_id == 0)
                body = serialize_commit(CommitInfo({"timestamp": 1}), removes=[first.removed(deletion_timestamp_ms=9_999_999_999_999, data_change=True)])
                state.log.put(head.version + 1, body)
        return head

    state.refresh = refresh  # type: ignore[method-assign]
    repair(state, dry_run=False)
    assert len(raced) == 2 and 0 not in rowlock.to_arrow(str(table))["id"].to_pylist() and len(rows(str(table))) == 14
    assert not findings(table)


def test_small_limits(table: Path) -> None:
    """Many files in many portions are the same findings."""
    with limited(snapshot_chunk_files=1, changed_files=1, replay_batch_bytes=1):
        added(table, stats(minValues={"id": 100}), every)
        assert len(findings(table)["contents-contradict-log"].files) == 5
        assert repair(fresh(table), dry_run=False).is_whole and not findings(table)


def test_progress_is_told(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int, str]] = []
    monkeypatch.setattr("rowlock.progress.count", lambda *said: told.append(said))
    check(open_store(str(table)), deep=True)
    assert (6, 6, "versions") in told and (5, 5, "files") in told
    opened(str(table))


def test_every_kind_of_finding_names_its_level() -> None:
    """The page on checks names what a deep check finds; each code that it names is one of the table's."""
    named = set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", (Path(__file__).parents[3] / "docs" / "check.md").read_text()))
    assert named - {"delta-spark", "delta-rs"} <= set(KINDS) and {level for level, _ in KINDS.values()} == set(LEVELS)
