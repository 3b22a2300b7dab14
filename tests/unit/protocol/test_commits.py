"""Commit files as bytes. I4: one add and one remove per path; I9: damage is named, unknown actions are ignored."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from rowlock.exceptions import CorruptLog, InvalidInput
from rowlock.protocol.actions import AddCdcFile, AddFile, CommitInfo, DeletionVectorDescriptor, DomainMetadata, Metadata, Protocol, SetTransaction
from rowlock.protocol.commits import parse_commit, serialize_commit

VECTOR = DeletionVectorDescriptor("u", "ab^-aqEH.-t@S}K{vb[*k^", 4, 40, 6)
ADD = AddFile("p=a%3Ab/x y.parquet", {"p": "a:b", "q": None}, 10, 1000, True, '{"numRecords":7}', VECTOR, {"T": "1"}, 3, 4, "liquid")
INFO = CommitInfo({"txnId": "t", "operation": "WRITE", "timestamp": 5, "isBlindAppend": True, "rowlock": {"rounds": 2, "deep": {"x": [1]}}})


def test_round_trip() -> None:
    plain = AddFile("b.parquet", {}, 1, 2, False, None)
    data = serialize_commit(
        INFO,
        protocol=Protocol(3, 7, frozenset({"deletionVectors"}), frozenset({"deletionVectors", "invariants"})),
        metadata=Metadata("id", '{"type":"struct","fields":[]}', ("p",), {"a": "b"}, "n", "d", created_time_ms=9),
        adds=[ADD, plain],
        removes=[replace(ADD, deletion_vector=None).removed(77, True)],
        txns=[SetTransaction("app", 3, 4)],
        domains=[DomainMetadata("dom", "{}", False)],
        cdc=[AddCdcFile({"path": "_change_data/x", "size": 1, "partitionValues": {}, "dataChange": False})],
    )
    assert list(orjson.loads(data.split(b"\n")[0])) == ["commitInfo"]
    commit = parse_commit(3, data)
    assert commit.adds == (ADD, plain)
    assert commit.removes[0].key == (ADD.path, None) and commit.removes[0].deletion_timestamp_ms == 77 and commit.removes[0].extended_file_metadata
    assert commit.protocol is not None and commit.protocol.reader_features == {"deletionVectors"}
    assert commit.metadata is not None and commit.metadata.partition_columns == ("p",) and commit.metadata.created_time_ms == 9
    assert (commit.txns[0].version, commit.domains[0].domain, commit.cdc[0].raw["size"]) == (3, "dom", 1)
    assert commit.info is not None and commit.info.rowlock == {"rounds": 2, "deep": {"x": [1]}} and commit.info.is_blind_append
    assert (commit.txn_id, commit.size_bytes, commit.version) == ("t", len(data), 3)
    assert b"p=a%253Ab/x%20y.parquet" in data


def test_maps_of_commit_info_hold_text() -> None:
    """Nested values there make other engines' history fail."""
    data = serialize_commit(
        CommitInfo({"operationParameters": {"a": 1, "b": ["x"], "c": True, "d": "s", "e": None}, "operationMetrics": {"n": 5}, "tags": {"x": False, "y": None}})
    )
    info = orjson.loads(data)["commitInfo"]
    assert info == {"operationParameters": {"a": "1", "b": '["x"]', "c": "true", "d": "s", "e": None}, "operationMetrics": {"n": "5"}, "tags": {"x": "false"}}
    with pytest.raises(InvalidInput):
        serialize_commit(CommitInfo({"userMetadata": {"a": 1}}))


def test_actions_come_by_name_or_as_they_are() -> None:
    removed = AddFile("old", {}, 1, 1, True, None).removed(1, True)
    assert serialize_commit(INFO, ADD, Protocol(1, 2), removed) == serialize_commit(INFO, protocol=Protocol(1, 2), adds=[ADD], removes=[removed])


def test_what_breaks_i4_is_not_written() -> None:
    same = ADD.removed(1, True)
    for adds, removes in (([ADD, replace(ADD, deletion_vector=None)], []), ([], [same, same]), ([ADD], [same])):
        with pytest.raises(InvalidInput):
            serialize_commit(INFO, adds=adds, removes=removes)
    with pytest.raises(InvalidInput):
        serialize_commit(INFO, txns=[SetTransaction("a", 1), SetTransaction("a", 2)])


LINE = b'{"add":{"path":"a","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}'


@pytest.mark.parametrize(
    "data",
    [
        b'{"add":',
        b"[]",
        b'{"add":{"size":1}}',
        b'{"add":{"path":"a"}}',
        LINE + b"\n" + LINE,
        b'{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}\n' * 2,
        b'{"metaData":{"schemaString":"{}"}}',
        LINE.replace(b"}}", b',"deletionVector":{"storageType":7,"pathOrInlineDv":"x","sizeInBytes":1,"cardinality":1}}}').replace(b"{},", b"{},"),
        b"\x00\x00",
    ],
)
def test_damage_is_named(data: bytes) -> None:
    with pytest.raises(CorruptLog) as e:
        parse_commit(7, data, "/t")
    assert e.value.version == 7 and e.value.table == "/t" and "00000000000000000007.json" in str(e.value)


def test_what_others_add_is_ignored() -> None:
    commit = parse_commit(0, b'\n{"futureAction":{"x":1}}\r\n{"add":null,"txn":{"appId":"a","version":1,"new":2}}\n\n')
    assert commit.txns == (SetTransaction("a", 1),) and not commit.adds


def test_records_are_counted_from_any_statistics() -> None:
    counts = {'{"numRecords":5}': 5, '{"minValues":{"numRecords":9},"numRecords":4}': 4, '{"numRecords" : 6 ,"x":1}': 6, "{}": None, "x": None}
    for stats, count in counts.items():
        assert replace(ADD, stats=stats).num_records == count
    assert replace(ADD, stats=None).num_records is None
