"""Shallow clones: whole places in the log, nothing outside of the clone's folder written or deleted, and what is refused (I5, I9, I10)."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from pyroaring import BitMap64

import rowlock
from rowlock.api.append import opened
from rowlock.engines.appends.engine import ArrowEngine
from rowlock.exceptions import CorruptLog, InvalidInput, StatementRefused, TableExists
from rowlock.limits import limited
from rowlock.log.checksums import differences
from rowlock.log.table_log import TableLog
from rowlock.maintenance.vacuum import vacuum
from rowlock.protocol import names
from rowlock.protocol.actions import CommitInfo
from rowlock.protocol.commits import serialize_commit
from rowlock.protocol.properties import PROTECTION
from rowlock.protocol.schema import PrimitiveType, StructField
from rowlock.transaction.definition.clone import shallow_clone
from rowlock.transaction.state.receipt import Receipt
from support.appends import commit, create, rows


def refuse_uncounted(file: object) -> int:
    raise AssertionError("statistics say how many rows there are")


def clone(source: str, target: str, *, version: int | None = None, replaces: bool = False, **properties: str) -> Receipt:
    state = opened(source)
    found = state.refresh() if version is None else state.log.at(version)
    return shallow_clone(found, opened(target), properties, name="it", replaces=replaces, count=refuse_uncounted)


@pytest.fixture
def source(tmp_path: Path) -> str:
    """Two partitions whose folders need escapes, in a folder that does too, and a vector over one row."""
    path = str(tmp_path / "a b%20ü" / "source")
    rowlock.append(path, pa.table({"k": [1, 2, 3], "p": ["x/y", "x/y", "ä b"]}), partition_by="p", properties={"delta.enableRowTracking": "true"})
    state = opened(path)
    add = next(a for a in state.refresh().files.adds() if a.num_records == 2)
    with limited(inline_vector_bytes=1):
        (vector,) = state.vectors.store_all([BitMap64([0])])
    assert vector.storage_type == "u"
    removed = add.removed(deletion_timestamp_ms=1, data_change=True)
    state.log.put(1, serialize_commit(CommitInfo({"timestamp": 1, "operation": "DELETE"}), removes=[removed], adds=[replace(add, deletion_vector=vector)]))
    return path


def everything(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_clone_is_a_table_of_its_own(source: str, tmp_path: Path) -> None:
    """Its rows are those of the source, and what either does the other never sees; each file of the clone is named by its whole place."""
    target = str(tmp_path / "target")
    before = everything(Path(source))
    receipt = clone(source, target, mine="1")
    assert rows(target) == rows(source) == [(2, "x/y"), (3, "ä b")]
    found, theirs = opened(target).refresh(), opened(source).refresh()
    assert receipt.version == 0 and found.metadata.id != theirs.metadata.id and found.metadata.configuration["mine"] == "1"
    assert receipt.metrics == {
        "sourceTableSize": theirs.files.total_size_bytes, "sourceNumOfFiles": 2, "numRemovedFiles": 0, "numCopiedFiles": 0, "removedFilesSize": 0, "copiedFilesSize": 0,
    }  # fmt: skip
    written = [orjson.loads(line)["add"] for line in (Path(target) / "_delta_log" / f"{0:020d}.json").read_bytes().splitlines() if b'"add"' in line[:8]]
    assert all(a["path"].startswith("file:/") and not a["path"].startswith("file://") and "%2520" in a["path"] and " " not in a["path"] for a in written)
    ids = [range(f.base_row_id, f.base_row_id + (f.num_records or 0)) for f in found.files.adds() if f.base_row_id is not None]
    assert sorted(n for span in ids for n in span) == [0, 1, 2]
    for key in ("delta.rowTracking.materializedRowIdColumnName", "delta.rowTracking.materializedRowCommitVersionColumnName"):
        assert found.metadata.configuration[key] != theirs.metadata.configuration[key], "ids of the source's rows are not those of the clone's"
    rowlock.append(target, pa.table({"k": [9], "p": ["q"]}))
    assert (9, "q") in rows(target) and (9, "q") not in rows(source) and everything(Path(source)) == before
    assert clone(source, str(tmp_path / "first"), version=0).version == 0 and len(rows(str(tmp_path / "first"))) == 3


def test_a_clone_of_a_clone(source: str, tmp_path: Path) -> None:
    """Files of both tables before it, each by its whole place."""
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    clone(source, first)
    rowlock.append(first, pa.table({"k": [9], "p": ["q"]}))
    clone(first, second)
    assert rows(second) == rows(first) and len(rows(second)) == 3


def test_a_clone_whose_properties_ask_for_checksums_has_one_of_its_first_version(source: str, tmp_path: Path) -> None:
    """I10: only CREATE TABLE and CTAS wrote one."""
    target = str(tmp_path / "target")
    clone(source, target, **{"rowlock.checksums": "true"})
    log = opened(target).log
    assert differences(log.store.get(names.checksum_key(0)), log.latest()) == []


def test_vacuum_of_a_clone_deletes_nothing_of_its_source(source: str, tmp_path: Path) -> None:
    target = str(tmp_path / "target")
    before = everything(Path(source))
    clone(source, target)
    state = opened(target)
    removes = [f.removed(deletion_timestamp_ms=1, data_change=True) for f in state.refresh().files.adds()]
    state.log.put(1, serialize_commit(CommitInfo({"timestamp": 1, "operation": "DELETE"}), removes=removes))
    (Path(target) / "garbage.parquet").write_bytes(b"")
    os.utime(Path(target) / "garbage.parquet", (1, 1))  # a file of this millisecond is not older than no retention at all
    vacuum(state.log, retention_hours=0, check_retention=False)
    assert everything(Path(source)) == before and not (Path(target) / "garbage.parquet").exists()


def test_checkpoints_hold_the_whole_places(source: str, tmp_path: Path) -> None:
    target = str(tmp_path / "target")
    clone(source, target, **{"delta.checkpointPolicy": "v2"})
    state = opened(target)
    state.log.write_checkpoint(state.refresh())
    (Path(target) / "_delta_log" / f"{0:020d}.json").unlink()
    assert rows(target) == rows(source)


def test_only_an_empty_table_is_replaced(source: str, tmp_path: Path) -> None:
    """As delta-spark has it; the table keeps its id and its history."""
    target = str(tmp_path / "target")
    rowlock.append(target, pa.table({"z": [1]}))
    with pytest.raises(TableExists):
        clone(source, target)
    with pytest.raises(StatementRefused, match="has rows"):
        clone(source, target, replaces=True)
    state = opened(target)
    before = state.refresh()
    removes = [f.removed(deletion_timestamp_ms=1, data_change=True) for f in before.files.adds()]
    protected = replace(before.metadata, configuration={PROTECTION: "1"})
    state.log.put(1, serialize_commit(CommitInfo({"timestamp": 1, "operation": "DELETE"}), metadata=protected, removes=removes))
    assert clone(source, target, replaces=True).version == 2
    assert rows(target) == rows(source) and opened(target).refresh().metadata.id == before.metadata.id
    assert opened(target).refresh().properties.protected_before == 1, "the log, whose checkpoints hide a dropped feature, is the same"
    clone(target, str(tmp_path / "another"))
    assert opened(str(tmp_path / "another")).refresh().properties.protected_before == 0, "and another's has no such checkpoints"
    assert commit(target, 2).info is not None


def test_places_where_a_vacuum_would_take_files_for_garbage_are_refused(source: str) -> None:
    before = everything(Path(source).parent)
    for place in (source, f"{source}/below", str(Path(source).parent)):
        with pytest.raises(InvalidInput):
            clone(source, place)
    assert everything(Path(source).parent) == before


@pytest.mark.parametrize("properties", [{"delta.columnMapping.mode": "name"}, {"delta.no such": "1"}, {"delta.checkpointInterval": "none"}])
def test_wrong_properties_are_refused(source: str, tmp_path: Path, properties: dict[str, str]) -> None:
    with pytest.raises(InvalidInput) as caught:
        clone(source, str(tmp_path / "target"), **properties)
    if "delta.columnMapping.mode" in properties:
        assert caught.value.condition is not None and caught.value.condition.name == "DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE"
    assert not (tmp_path / "target").exists()


def test_on_s3(minio: Any) -> None:
    """Its own store's places, which delta-spark reads by the scheme of Spark's connector."""
    source, target = minio.fresh_root() + "/a b", minio.fresh_root()
    options = minio.storage_options
    rowlock.append(source, pa.table({"k": [1, 2]}), storage_options=options)
    shallow_clone(opened(source, options).refresh(), opened(target, options), {}, name="it", replaces=False, count=refuse_uncounted)
    rowlock.append(target, pa.table({"k": [3]}), storage_options=options)
    assert sorted(rowlock.to_arrow(target, storage_options=options)["k"].to_pylist()) == [1, 2, 3]
    assert b'"path":"s3a://' in opened(target, options).store.get("_delta_log/00000000000000000000.json")


@pytest.mark.parametrize(
    "name",
    [
        "delta.rowTracking.materializedRowIdColumnName",
        "delta.inCommitTimestampEnablementVersion",
        "delta.columnMapping.maxColumnId",
        "delta.constraints.positive",
    ],
)
def test_what_follows_from_the_rows_cannot_be_given(source: str, tmp_path: Path, name: str) -> None:
    """I5, I6: names of columns that hold ids, versions and constraints are those of the source's rows, not properties of a caller's."""
    with pytest.raises(InvalidInput, match=name.rpartition(".")[2]):
        clone(source, str(tmp_path / "target"), **{name: "k > 7"})
    assert not (tmp_path / "target").exists()


def test_all_properties_of_the_source_may_be_given(source: str, tmp_path: Path) -> None:
    """As a copy of what the source's detail says: ids in its files stay its own (I6)."""
    target = str(tmp_path / "target")
    held = dict(opened(source).refresh().metadata.configuration)
    clone(source, target, **held)
    column = "delta.rowTracking.materializedRowIdColumnName"
    assert opened(target).refresh().metadata.configuration[column] != held[column]


def test_a_file_of_the_source_that_is_gone_is_named_with_its_remedy(source: str, tmp_path: Path) -> None:
    """One error by each way of reading: table, file and what to do."""
    target = str(tmp_path / "target")
    clone(source, target)
    state = opened(target)
    marked = next(f for f in state.refresh().files.adds() if f.deletion_vector is not None)
    vector = marked.deletion_vector.path if marked.deletion_vector else None
    assert vector is not None
    for gone, reads in ((vector, (rows, vectors_of)), (marked.path, (rows, counted))):
        held = Path(gone).read_bytes()
        Path(gone).unlink()
        for read in reads:
            state.vectors.forget()
            with pytest.raises(CorruptLog, match=r"is not there.*shallow clone.*RESTORE") as e:
                read(target)
            assert e.value.table == target and e.value.file == gone
        Path(gone).write_bytes(held)


def vectors_of(table: str) -> None:
    state = opened(table)
    for file in state.refresh().files.adds():
        state.vectors.of(file)


def counted(table: str) -> None:
    state = opened(table)
    for file in state.refresh().files.adds():
        ArrowEngine(state.store).count(file)


def test_replacing_goes_on_where_another_made_the_table_first(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CREATE OR REPLACE promises a table either way; only CREATE says that there is one."""
    target = str(tmp_path / "target")
    state, real = opened(target), TableLog.exists
    raced = []

    def exists(log: TableLog) -> bool:
        there = real(log)
        if not there and not raced:
            raced.append(1)
            create(target, StructField("z", PrimitiveType("long"), True))
        return there

    monkeypatch.setattr(TableLog, "exists", exists)
    assert shallow_clone(opened(source).refresh(), state, {}, name="it", replaces=True, count=refuse_uncounted).version == 1
    assert raced and rows(target) == rows(source)


def test_places_are_compared_as_they_are_and_not_as_they_are_spelled(source: str, tmp_path: Path) -> None:
    """I10: symbolic links, `..`, and the tables before a source that is a clone itself: VACUUM of each would delete the other's files."""
    (tmp_path / "link").symlink_to(Path(source).parent)
    for place in (tmp_path / "link" / "source" / "in", tmp_path / "link" / "source", tmp_path / "x" / ".." / "link" / "source" / "deep" / "er"):
        with pytest.raises(InvalidInput, match="onto itself" if place.name == "source" else "each other's folders"):
            clone(source, str(place))
    middle = str(tmp_path / "middle")
    clone(source, middle)
    for place in (Path(source) / "in", Path(source).parent):
        with pytest.raises(InvalidInput, match="each other's folders"):
            clone(middle, str(place))
    assert not (Path(source) / "in").exists()
    assert clone(middle, str(Path(source).parent / "beside")).version == 0 and rows(str(Path(source).parent / "beside")) == rows(source)
