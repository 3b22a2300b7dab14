"""The walk of a stream through a table's files: each once and in one order, whatever a batch's limits are (I2); what cannot be shown is named (I9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from pyroaring import BitMap64

from rowlock.api.stream_source.options import StreamOptions
from rowlock.api.stream_source.walk import NOTHING, Piece, Position, Room, Walk
from rowlock.exceptions import InvalidInput, VersionNotFound
from rowlock.log.table_log import TableLog
from rowlock.protocol import deletion_vector, names
from rowlock.protocol.actions import AddCdcFile, AddFile, CommitInfo, Metadata
from rowlock.protocol.commits import serialize_commit
from rowlock.protocol.features import protocol_for_new_table
from rowlock.protocol.schema import PrimitiveType, StructField, StructType, schema_json
from rowlock.storage import Committed, MemoryStore

ID, MORE = StructField("id", PrimitiveType("long")), StructField("more", PrimitiveType("string"))
PROPERTIES = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
TABLE = Metadata("table", schema_json(StructType((ID,))), (), PROPERTIES, created_time_ms=1)
INITIAL = Position(0, initial=True)


def file(name: str, *, at: int = 0, size: int = 10, moved: bool = False) -> AddFile:
    return AddFile(name, {}, size, at, not moved, '{"numRecords":3}')


def without(gone: AddFile, *, moved: bool = False) -> Any:
    return gone.removed(1, not moved)


class Made:
    """A table whose commits are written by hand."""

    def __init__(self, *first: AddFile) -> None:
        self.log = TableLog(MemoryStore())
        self.version = -1
        self.commit(*first, metadata=TABLE, protocol=protocol_for_new_table(PROPERTIES))

    def commit(self, *actions: Any, **more: Any) -> None:
        self.version += 1
        adds, removes = [a for a in actions if isinstance(a, AddFile)], [a for a in actions if not isinstance(a, (AddFile, AddCdcFile))]
        cdc = [a for a in actions if isinstance(a, AddCdcFile)]
        info = CommitInfo({"timestamp": self.version, "operation": "UPDATE" if removes else "WRITE", "operationParameters": {}, "txnId": f"t{self.version}"})
        assert self.log.put(self.version, serialize_commit(info, adds=adds, removes=removes, cdc=cdc, **more)) == Committed()

    def walk(self, **options: Any) -> Walk:
        return Walk(self.log, self.log.latest(), replace(StreamOptions(), **options))

    def names(self, start: Position = INITIAL, **options: Any) -> list[str]:
        return names_of(list(self.walk(**options).pieces(start, self.version)))


def names_of(pieces: Sequence[Piece]) -> list[str]:
    return [f.path for p in pieces for f in p.files]


def test_the_first_rows_by_time_and_name_then_each_version() -> None:
    made = Made(file("c", at=1), file("b", at=1), file("a", at=2))
    made.commit(file("z"), file("y"))
    made.commit()
    made.commit(file("x"))
    pieces = list(made.walk().pieces(INITIAL, made.version))
    assert names_of(pieces) == ["b", "c", "a", "z", "y", "x"]
    ends = [(p.end.version, p.end.index, p.end.initial) for p in pieces]
    assert ends == [(0, 0, True), (0, 1, True), (1, NOTHING, False), (1, 0, False), (2, NOTHING, False), (3, NOTHING, False), (4, NOTHING, False)]


def test_from_every_place_the_rest_is_read_once() -> None:
    made = Made(*(file(f"a{n}") for n in range(3)))
    made.commit(*(file(f"b{n}") for n in range(3)))
    made.commit(file("c"))
    whole = list(made.walk().pieces(INITIAL, made.version))
    for n, piece in enumerate(whole):
        assert names_of(whole[: n + 1]) + made.names(piece.end) == names_of(whole)


@pytest.mark.parametrize("files", [1, 2, 3, 1000, None])
@pytest.mark.parametrize("size", [1, 15, None])
def test_batches_of_every_limit_are_the_whole(files: int | None, size: int | None) -> None:
    made = Made(*(file(f"a{n}", size=8) for n in range(4)))
    made.commit(file("large", size=100), file("b"))
    made.commit()
    made.commit(*(file(f"c{n}") for n in range(3)))
    at, found, batches = INITIAL, list[str](), 0
    while True:
        room, taken = Room(files, size), list[Piece]()
        for piece in made.walk().pieces(at, made.version):
            if not room.admits(piece):
                break
            taken.append(piece)
        if not taken:
            break
        at, batches = taken[-1].end, batches + 1
        assert files is None or len(names_of(taken)) <= files
        assert size is None or sum(p.size_bytes for p in taken[:-1]) < size + 100
        found += names_of(taken)
    assert found == made.names() and len(found) == 9
    assert batches > 3 if files == 1 or size == 1 else batches >= 1


def test_versions_that_only_move_rows_pass() -> None:
    a, b = file("a"), file("b")
    made = Made(a, b)
    made.commit(without(a, moved=True), without(b, moved=True), file("ab", moved=True))
    made.commit(file("c"))
    assert made.names() == ["a", "b", "c"]
    assert made.names(Position(1)) == ["c"]


@pytest.mark.parametrize(
    ("options", "after_a_change", "after_a_delete"),
    [
        ({}, None, None),
        ({"ignore_deletes": True}, None, ["c"]),
        ({"ignore_changes": True}, ["a2", "c"], ["c"]),
        ({"skip_change_commits": True}, ["c"], ["c"]),
    ],
)
def test_versions_that_change_rows(options: dict[str, bool], after_a_change: list[str] | None, after_a_delete: list[str] | None) -> None:
    a = file("a")
    for removed, added, expected in ((a, [file("a2")], after_a_change), (a, [], after_a_delete)):
        made = Made(a)
        made.commit(without(removed), *added)
        made.commit(file("c"))
        if expected is None:
            with pytest.raises(InvalidInput, match=r"Version 1 changes or deletes rows \(UPDATE\).*skipChangeCommits.*readChangeFeed") as told:
                made.names(Position(1), **options)
            assert told.value.version == 1
        else:
            assert made.names(Position(1), **options) == expected


def test_a_new_deletion_vector_is_a_change() -> None:
    a = file("a")
    made = Made(a)
    vector = deletion_vector.inline(BitMap64([1]), limit_bytes=1000)
    made.commit(without(a), replace(a, deletion_vector=vector))
    with pytest.raises(InvalidInput, match="DELTA_SOURCE_TABLE_IGNORE_CHANGES"):
        made.names(Position(1))


def test_a_version_of_which_the_log_lost_the_file() -> None:
    made = Made(file("a"))
    for name in "bcd":
        made.commit(file(name))
    made.log.write_checkpoint(made.log.latest())
    for version in (0, 1):
        made.log.store.delete(names.commit_key(version))
    made.log = TableLog(made.log.store)
    with pytest.raises(VersionNotFound, match=r"version 1, which the log no longer has \(the oldest that it has is 2\).*failOnDataLoss"):
        made.names(Position(1))
    assert made.names(Position(1), fail_on_data_loss=False) == ["c", "d"]
    with pytest.raises(VersionNotFound):
        made.names(INITIAL)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema_string": schema_json(StructType((ID, MORE)))}, "adds a column 'more'"),
        ({"schema_string": schema_json(StructType((StructField("id", PrimitiveType("string")),)))}, "changes the type of column 'id'"),
        ({"schema_string": schema_json(StructType((MORE,)))}, "adds a column 'more'"),
        ({"partition_columns": ("id",)}, "is partitioned by other columns"),
    ],
)
def test_other_columns_end_a_stream(change: dict[str, Any], said: str) -> None:
    made = Made(file("a"))
    walk = made.walk()
    made.commit(file("b"))
    made.commit(file("c"), metadata=replace(TABLE, **change))
    pieces = walk.pieces(Position(1), made.version)
    assert names_of([next(pieces)]) == ["b"]
    with pytest.raises(InvalidInput, match=f"Version 2 {said}.*new DataFrame.*another checkpoint"):
        next(pieces)


def test_a_column_that_was_dropped_ends_a_stream() -> None:
    made = Made(file("a"))
    made.commit(metadata=replace(TABLE, schema_string=schema_json(StructType((ID, MORE)))))
    walk = made.walk()
    made.commit(metadata=TABLE)
    with pytest.raises(InvalidInput, match="drops column 'more'"):
        list(walk.pieces(Position(2), made.version))


def test_a_property_is_no_change_of_columns() -> None:
    made = Made(file("a"))
    walk = made.walk()
    made.commit(file("b"), metadata=replace(TABLE, configuration=PROPERTIES | {"delta.appendOnly": "true"}))
    assert names_of(list(walk.pieces(INITIAL, made.version))) == ["a", "b"]


def test_older_versions_with_fewer_columns_are_read_and_those_with_others_are_not() -> None:
    made = Made(file("a"))
    made.commit(file("b"), metadata=replace(TABLE, schema_string=schema_json(StructType((ID, MORE)))))
    walk = made.walk()
    walk.check_start(Position(0), made.version)
    assert names_of(list(walk.pieces(Position(0), made.version))) == ["a", "b"]
    made.commit(metadata=replace(TABLE, schema_string=schema_json(StructType((MORE,)))))
    with pytest.raises(InvalidInput, match="Version 1 had a column 'id', which is not there any more"):
        made.walk().check_start(Position(1), made.version)


def test_the_change_feed_takes_a_changed_version_as_one() -> None:
    a = file("a")
    made = Made(a, file("a1"))
    made.commit(without(a), file("a2"), AddCdcFile({"path": "_change_data/x", "size": 7, "partitionValues": {}, "dataChange": False}))
    made.commit(file("b"), file("c"))
    made.commit(without(file("b")))
    pieces = list(made.walk(read_change_feed=True).pieces(Position(0), made.version))
    told = [(p.version, [f.path for f in p.files], None if p.changes is None else p.changes.version, p.size_bytes) for p in pieces]
    assert told == [(0, ["a"], None, 10), (0, ["a1"], None, 10), (1, [], 1, 7), (2, ["b"], None, 10), (2, ["c"], None, 10), (3, [], 3, 10)]
    with pytest.raises(InvalidInput, match="another engine"):
        list(made.walk(read_change_feed=True).pieces(Position(1, 0), made.version))


def test_a_change_that_does_not_fit_waits_for_the_next_batch() -> None:
    a = file("a")
    made = Made(a)
    made.commit(without(a), file("a2"), file("a3"))
    room = Room(2, None)
    first, second = made.walk(read_change_feed=True).pieces(Position(0), made.version)
    assert room.admits(first) and not room.admits(second)
    assert Room(1, 1).admits(second), "one that is larger than any batch is a batch"


def test_versions_without_the_change_feed_are_refused() -> None:
    made = Made(file("a"))
    walk = made.walk(read_change_feed=True)
    made.commit(metadata=replace(TABLE, configuration={}))
    with pytest.raises(InvalidInput, match=r"DELTA_MISSING_CHANGE_DATA\] No change data feed was recorded for version 1: delta\.enableChangeDataFeed"):
        list(walk.pieces(Position(1), made.version))
