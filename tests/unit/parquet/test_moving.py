"""Live rows of data files that are moved into new ones, a portion at a time: none is lost, doubled or out of place, whatever the files look like (I5, I6)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

import rowlock
from rowlock.boundary.row_identity import columns_of
from rowlock.conflict.delta import Slice
from rowlock.exceptions import CorruptLog
from rowlock.limits import limited
from rowlock.log.snapshot import Snapshot
from rowlock.parquet import moving
from rowlock.parquet.curves import Order
from rowlock.parquet.moving import move_rows, moved_origin, sort_rows
from rowlock.parquet.physical import Doubtful
from rowlock.protocol.actions import AddFile
from rowlock.protocol.deletion_vector import positions_except
from rowlock.storage.local import LocalStore
from rowlock.storage.open import open_store
from rowlock.storage.store import ObjectStore
from rowlock.transaction.state.shared import state_of
from servers.minio import Minio

SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.float64()), ("s", pa.string()), ("l", pa.list_(pa.int32()))])


def table(path: str, sizes: Iterable[int], properties: dict[str, str] | None = None) -> Snapshot:
    """A table with a file for each size; ids are counted through."""
    rowlock.append(path, SCHEMA.empty_table(), properties=properties or {})
    first = 0
    for size in sizes:
        ids = np.arange(first, first + size)
        texts = pa.array([None if i % 7 == 3 else f"s{i}" for i in ids], pa.string())
        lists = pa.array([None if i % 5 == 2 else [i, None][: i % 3] for i in ids], pa.list_(pa.int32()))
        rowlock.append(path, pa.table([ids, ids / 4, texts, lists], schema=SCHEMA))
        first += size
    return state_of(open_store(path)).refresh()


def slices(snapshot: Snapshot, dead: dict[int, Iterable[int]] | None = None) -> list[Slice]:
    """All files in the order of their ids; `dead`: by the number of a file, positions that its vector marks."""
    files = sorted(snapshot.files.adds(), key=lambda f: json.loads(f.stats or "")["minValues"]["id"])
    return [Slice(f, without=BitMap64((dead or {}).get(n, ())) or None) for n, f in enumerate(files)]


def living_of(pieces: list[Slice]) -> dict[str, BitMap64]:
    return {s.path: positions_except(s.file.num_records or 0, s.without) for s in pieces}


def moved(path: str, store: ObjectStore, snapshot: Snapshot, pieces: list[Slice], **how: Any) -> list[pa.Table]:
    """What the new files hold; each says of its rows what is there, and the origin is that of every row."""
    living = living_of(pieces)
    files = move_rows(store, pieces, living, snapshot, **how)
    held = [pq.read_table(f"{path}/{f.path}") for f in files]
    for file, rows in zip(files, held, strict=True):
        said = json.loads(file.stats or "")
        assert (file.num_records, file.size_bytes) == (rows.num_rows, (Path(path) / file.path).stat().st_size)
        ids = rows.column("id").to_pylist()
        assert (said["minValues"]["id"], said["maxValues"]["id"], said["nullCount"]["s"]) == (min(ids), max(ids), rows.column("s").null_count)
    origin, at = moved_origin(pieces, living), 0
    wanted = {s.path: pq.read_table(f"{path}/{s.path}").column("id").to_numpy() for s in pieces}
    found = np.concatenate([np.empty(0, np.int64), *(t.column("id").to_numpy() for t in held)])
    for part in origin.parts():
        for name, rows in part.by_path():
            assert (found[at + rows] == wanted[name][part.position[rows]]).all()
        at += part.num_rows
    assert at == origin.num_rows == len(found) == sum(map(len, living.values()))
    for name, (start, size) in origin.in_order({p: b for p, b in living.items() if b}).items():
        assert (found[start : start + size] == wanted[name][list(living[name])]).all()
    return held


@pytest.mark.parametrize("portion", [1, 3, 1 << 17], ids=["one row at a time", "three", "whole"])
@pytest.mark.parametrize("most", [None, 1, 7], ids=["one file", "files of one row", "files of seven"])
def test_rows_are_moved_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, portion: int, most: int | None) -> None:
    """Files of several row groups, one without a live row, dead rows at both ends and in between, cut into portions, row groups and files anywhere."""
    path = str(tmp_path / "t")
    snapshot = table(path, (10, 4, 1, 23))
    monkeypatch.setattr(moving, "_PORTION_ROWS", portion)
    monkeypatch.setattr(moving, "_GROUP_ROWS", 2 * portion)
    pieces = slices(snapshot, {0: [0, 1, 9], 1: range(4), 3: [0, 5, 6, 7, 8, 22]})
    again = pieces[3].path
    pq.write_table(pq.read_table(f"{path}/{again}"), f"{path}/{again}", row_group_size=4)  # a row group of which nothing lives
    held = moved(path, LocalStore(path), snapshot, pieces, max_records=most)
    assert [t.num_rows for t in held[:-1]] == [most] * (len(held) - 1)
    rows = pa.concat_tables(held).cast(SCHEMA)
    ids = [i for i in range(38) if i not in {0, 1, 9, 10, 11, 12, 13, 15, 20, 21, 22, 23, 37}]
    before = pa.concat_tables([pq.read_table(f"{path}/{s.path}") for s in pieces]).cast(SCHEMA)
    assert rows.equals(before.take(pa.array(ids)))
    assert {p.suffix for p in Path(path).rglob("*") if p.is_file() and "_delta_log" not in str(p)} == {".parquet"}, "no half of a file is left"


@pytest.mark.parametrize("keys", [(("id",),), (("x",), ("s",))], ids=["one key", "two keys"])
@pytest.mark.parametrize("most", [None, 2], ids=["", "files of two"])
def test_rows_are_sorted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: tuple[tuple[str], ...], most: int | None) -> None:
    """Whatever their portions and row groups, all live rows are there once, with their ids and where each came from; one key divides them into equal files."""
    path = str(tmp_path / "t")
    snapshot = table(path, (10, 4, 1, 23), {"delta.enableRowTracking": "true"})
    monkeypatch.setattr(moving, "_PORTION_ROWS", 3)
    monkeypatch.setattr(moving, "_GROUP_ROWS", 4)
    pieces = slices(snapshot, {0: [0, 1, 9], 1: range(4), 3: [0, 5, 6, 7, 8, 22]})[::-1]
    there = {p.name for p in Path(path).rglob("*.parquet")}
    with limited(sorted_bytes=10), pytest.raises(Doubtful, match="more memory"):
        sort_rows(LocalStore(path), pieces, living_of(pieces), snapshot, Order(keys, 1), 4)
    assert {p.name for p in Path(path).rglob("*.parquet")} == there
    files, origin = sort_rows(LocalStore(path), pieces, living_of(pieces), snapshot, Order(keys, 1), 4, max_records=most)
    held = [pq.read_table(f"{path}/{f.path}") for f in files]
    assert [f.num_records for f in files] == [t.num_rows for t in held] and len(held) >= 4 and all(most is None or t.num_rows <= most for t in held)
    rows, before = pa.concat_tables(held), {s.path: pq.read_table(f"{path}/{s.path}") for s in pieces}
    parts = [(before[name].take(pa.array(origin.position[at])), at) for name, at in origin.by_path()]
    place = np.argsort(np.concatenate([at for _, at in parts]))
    assert rows.select(SCHEMA.names).cast(SCHEMA).equals(pa.concat_tables([t for t, _ in parts]).cast(SCHEMA).take(pa.array(place)))
    assert origin.bitmaps() == {p: b for p, b in living_of(pieces).items() if b}
    columns = columns_of(snapshot)
    assert columns is not None and len(set(rows.column(columns.row_id).to_pylist())) == rows.num_rows == 25
    if len(keys) == 1:
        assert rows.column("id").to_pylist() == sorted(rows.column("id").to_pylist()) and (most or {t.num_rows for t in held} == {6, 7})


def test_files_without_rows(tmp_path: Path) -> None:
    """No live row makes no file; an empty file among others is left out."""
    path = str(tmp_path / "t")
    snapshot = table(path, (3, 2))
    pieces = slices(snapshot, {0: range(3), 1: range(2)})
    assert moved(path, LocalStore(path), snapshot, pieces) == [] == moved(path, LocalStore(path), snapshot, [])
    assert sort_rows(LocalStore(path), pieces, living_of(pieces), snapshot, Order((("id",), ("x",)), 1), 1)[0] == []
    empty = pieces[0].path
    pq.write_table(SCHEMA.empty_table(), f"{path}/{empty}")
    changed = [Slice(file_of(pieces[0], 0)), Slice(pieces[1].file)]
    assert [t.num_rows for t in moved(path, LocalStore(path), snapshot, changed)] == [2]


def file_of(piece: Slice, num_rows: int) -> Any:
    """The add action of a piece with another number of rows in its statistics."""
    return replace(piece.file, stats=json.dumps({**json.loads(piece.file.stats or ""), "numRecords": num_rows}))


def test_a_file_of_which_the_log_says_other_rows(tmp_path: Path) -> None:
    """I9: positions are not guessed; the error names file and remedy, and no new file is left, not even one that was complete."""
    path = str(tmp_path / "t")
    snapshot = table(path, (3, 2))
    pieces = slices(snapshot)
    before = {p.name for p in Path(path).rglob("*.parquet")}
    with pytest.raises(CorruptLog, match=r"hold.* other rows than the log says.*rowlock check"):
        wrong = [pieces[0], Slice(file_of(pieces[1], 7))]
        move_rows(LocalStore(path), wrong, living_of(wrong), snapshot, max_records=3)
    with pytest.raises(CorruptLog, match="marks row 9"):
        wrong = [Slice(pieces[0].file, without=BitMap64([9]))]
        move_rows(LocalStore(path), wrong, living_of(wrong), snapshot)
    Path(path, pieces[1].path).write_bytes(b"PAR1 no file PAR1")
    with pytest.raises(CorruptLog, match=pieces[1].path):
        move_rows(LocalStore(path), pieces, living_of(pieces), snapshot, max_records=3)
    Path(path, pieces[1].path).unlink()
    with pytest.raises(CorruptLog, match=pieces[1].path):
        move_rows(LocalStore(path), pieces, living_of(pieces), snapshot)
    assert {p.name for p in Path(path).rglob("*.parquet")} <= before


def moved_by_sevens(path: str, monkeypatch: pytest.MonkeyPatch) -> AddFile:
    """All rows of the table in one new file, read and written seven at a time."""
    snapshot = state_of(open_store(path)).refresh()
    monkeypatch.setattr(moving, "_PORTION_ROWS", 7)
    monkeypatch.setattr(moving, "_GROUP_ROWS", 7)
    pieces = [Slice(f) for f in snapshot.files.adds()]
    (file,) = move_rows(LocalStore(path), pieces, living_of(pieces), snapshot)
    return file


def test_a_negative_zero_that_comes_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's reader finds no -0.0 in a dictionary where 0.0 is asked for: such a column has none, wherever the first one stands; the others have theirs."""
    path = str(tmp_path / "t")
    rows = pa.table({"id": range(60), "a": [0.0] * 60, "b": [0.0] * 50 + [-0.0] * 10, "c": [[0.0, -0.0 if n == 30 else 1.0] for n in range(60)]})
    rowlock.append(path, rows)
    file = moved_by_sevens(path, monkeypatch)
    assert pq.read_table(f"{path}/{file.path}").column("b").to_numpy().tobytes() == rows.column("b").to_numpy().tobytes()
    group = pq.ParquetFile(f"{path}/{file.path}").metadata.row_group(0)
    coded = {group.column(n).path_in_schema.split(".")[0]: "RLE_DICTIONARY" in group.column(n).encodings for n in range(4)}
    assert coded == {"id": True, "a": True, "b": False, "c": False} and file.num_records == 60


def test_a_nan_that_comes_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's reader takes the bounds of a footer for those of all values, and pyarrow leaves NaN out: such a column has none in any row group."""
    path, nan = str(tmp_path / "t"), float("nan")
    rows = pa.table({"id": range(60), "a": [1.0, None] * 30, "b": [1.0] * 50 + [nan] * 10, "c": [{"x": 1.0, "y": nan if n == 30 else 1.0} for n in range(60)]})
    rowlock.append(path, rows)
    file = moved_by_sevens(path, monkeypatch)
    metadata = pq.ParquetFile(f"{path}/{file.path}").metadata
    for group in (metadata.row_group(n) for n in range(metadata.num_row_groups)):
        bounded = {group.column(n).path_in_schema for n in range(5) if group.column(n).is_stats_set}
        assert bounded == {"id", "a"}
    said = json.loads(file.stats or "")
    assert set(said["minValues"]) == {"id", "a", "c"} and said["minValues"]["c"] == {"x": 1.0}, "nor has it bounds in the log"


@pytest.mark.parametrize("num_rows", [20_000, 400_000])
def test_a_column_that_is_no_smaller_with_a_dictionary(tmp_path: Path, num_rows: int) -> None:
    """Values that hardly repeat are written as they are, for pyarrow would keep a full dictionary beside them or in their place; the file is no larger than with one."""
    path = str(tmp_path / "t")
    ids = np.arange(num_rows)
    rowlock.append(path, pa.table({"id": ids, "g": ids % 100, "s": pa.array(ids).cast(pa.string())}))
    snapshot = state_of(open_store(path)).refresh()
    pieces = [Slice(f) for f in snapshot.files.adds()]
    (file,) = move_rows(LocalStore(path), pieces, living_of(pieces), snapshot)
    group = pq.ParquetFile(f"{path}/{file.path}").metadata.row_group(0)
    assert ["RLE_DICTIONARY" in group.column(n).encodings for n in range(3)] == [False, True, False]
    with_all = pa.BufferOutputStream()
    pq.write_table(pq.read_table(f"{path}/{file.path}"), with_all, store_schema=False)
    assert file.size_bytes < with_all.tell()


def test_rows_keep_their_ids(tmp_path: Path) -> None:
    """I6: ids and commit versions by a file's base, and those that the file holds for some rows, stand in the new file."""
    path = str(tmp_path / "t")
    snapshot = table(path, (4, 3), {"delta.enableRowTracking": "true"})
    columns = columns_of(snapshot)
    assert columns is not None
    pieces = slices(snapshot, {0: [1]})
    rows = pq.read_table(f"{path}/{pieces[1].path}")
    kept = rows.append_column(columns.row_id, pa.array([70, None, 72])).append_column(columns.commit_version, pa.array([None, 5, None], pa.int64()))
    pq.write_table(kept, f"{path}/{pieces[1].path}")
    (file,) = move_rows(LocalStore(path), pieces, living_of(pieces), snapshot)
    found = pq.read_table(f"{path}/{file.path}")
    one, other = pieces[0].file, pieces[1].file
    first, second = one.base_row_id or 0, other.base_row_id or 0
    assert found.column(columns.row_id).to_pylist() == [first, first + 2, first + 3, 70, second + 1, 72]
    versions = [one.default_row_commit_version] * 3 + [other.default_row_commit_version, 5, other.default_row_commit_version]
    assert found.column(columns.commit_version).to_pylist() == versions


def test_what_spark_alone_can_read_is_left_to_it(tmp_path: Path) -> None:
    """I9: where it is found in a later file, the part that was written is gone."""
    path = str(tmp_path / "t")
    snapshot = table(path, (3, 2))
    pieces = slices(snapshot)
    rows = pq.read_table(f"{path}/{pieces[1].path}")
    pq.write_table(rows.set_column(2, "s", pa.array([b"\xff", b"a"])), f"{path}/{pieces[1].path}")
    before = set(Path(path).rglob("*"))
    with pytest.raises(Doubtful):
        move_rows(LocalStore(path), pieces, living_of(pieces), snapshot, max_records=3)
    assert set(Path(path).rglob("*")) == before


def test_what_arrow_does_not_read_is_left_to_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An encoding or a codec that pyarrow lacks is no damage: Spark may have it."""
    path = str(tmp_path / "t")
    snapshot = table(path, (3, 2))
    pieces = slices(snapshot)

    def lacking(*_: Any) -> Any:
        raise pa.ArrowNotImplementedError("Support for codec 'lzo' not built")

    monkeypatch.setattr(moving.DataFile, "portions", lacking)
    with pytest.raises(Doubtful, match="lzo"):
        move_rows(LocalStore(path), pieces, living_of(pieces), snapshot)


class Failing(LocalStore):
    """A store whose first put of a data file fails in the midst of it."""

    failures = 1

    def put_parts(self, key: str, parts: Any) -> None:
        if self.failures:
            self.failures -= 1
            next(iter(parts()))
        super().put_parts(key, parts)


def test_a_put_that_is_tried_again_begins_anew(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    snapshot = table(path, (5, 6))
    (held,) = moved(path, Failing(path), snapshot, slices(snapshot, {0: [2]}))
    assert held.num_rows == 10


def test_on_an_object_store(minio: Minio, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows come in ranges of bytes and go in parts; a late -0.0, and a file that Spark must read, come through the client of the store as what they are."""
    root, options = minio.fresh_root(), minio.storage_options
    monkeypatch.setattr(moving, "_PORTION_ROWS", 70_000)
    monkeypatch.setattr(moving, "_GROUP_ROWS", 70_000)
    ids, numbers = np.arange(150_000), np.random.default_rng(1).random((4, 150_000))
    numbers[0, :100_000] = 0.0
    numbers[0, 149_999] = -0.0
    rows = pa.table({"id": ids, **{f"x{n}": x for n, x in enumerate(numbers)}, "s": pa.array(ids).cast(pa.string())})
    for start in (0, 75_000):
        rowlock.append(root, rows.slice(start, 75_000), storage_options=options)
    store = open_store(root, options)
    snapshot = state_of(store).refresh()
    pieces = slices(snapshot, {0: [0, 5]})
    with limited(whole_object_bytes=0):
        (file,) = move_rows(store, pieces, living_of(pieces), snapshot)
    held = pq.read_table(pa.BufferReader(store.get(file.path)))
    assert store.head(file.path) == file.size_bytes > 5 << 20, "it took several parts"
    assert held.equals(rows.take(pa.array([*range(1, 5), *range(6, 150_000)])).cast(held.schema))
    assert np.signbit(held.column("x0").to_numpy()[-1])
    bad = pa.BufferOutputStream()
    pq.write_table(rows.slice(75_000).set_column(5, "s", pa.array([b"\xff"] * 75_000)), bad)
    store.put(pieces[1].path, bad.getvalue().to_pybytes())
    wrong = [pieces[0], Slice(replace(pieces[1].file, size_bytes=len(bad.getvalue())))]
    before = {m.key for m in store.list(recursive=True)}
    began = time.monotonic()
    with pytest.raises(Doubtful):
        move_rows(store, wrong, living_of(wrong), snapshot)
    assert {m.key for m in store.list(recursive=True)} == before
    assert time.monotonic() - began < 10, "no try again of what cannot be"
