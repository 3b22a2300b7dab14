"""What is fuzzed: each target feeds bytes of anybody to one reader.  Only Rowlock's own errors may come of it (I9): all else is a crash.

`SEEDS` are well-formed inputs that a fuzzer changes.  `make fuzz` runs a coverage-guided fuzzer on them, test_readers.py changes them at random for a moment.
"""

from __future__ import annotations

import io
import posixpath
import struct
from collections.abc import Callable

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap, BitMap64

from rowlock.exceptions import RowlockError
from rowlock.log import checksums
from rowlock.log.checkpoint_reader import read_checkpoint, sidecars_of
from rowlock.log.checkpoint_writer import checkpoint_bytes
from rowlock.log.segment import find_segment
from rowlock.log.snapshot import Snapshot
from rowlock.log.table_log import TableLog
from rowlock.protocol import bounds, deletion_vector as dv, names, partition_values, paths, statistics
from rowlock.protocol.schema import PrimitiveType, parse_schema
from rowlock.storage.memory import MemoryStore

ROOT = "memory://fuzzed"
_SCHEMA = (
    '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},{"name":"s","type":"string","nullable":true,"metadata":{}},'
    '{"name":"t","type":"timestamp","nullable":true,"metadata":{}},{"name":"d","type":"decimal(20,3)","nullable":true,"metadata":{}},'
    '{"name":"p","type":"date","nullable":true,"metadata":{}}]}'
)
_STATS = '{"numRecords":3,"minValues":{"id":1,"s":"a","t":"2024-01-01T00:00:00.000Z","d":1.5},"maxValues":{"id":9,"s":"z"},"nullCount":{"id":0,"s":1},"tightBounds":true}'
_VECTOR = dv.inline(BitMap64([1, 70_000, 1 << 33]), limit_bytes=10_000)
assert _VECTOR is not None
_INLINE = {"storageType": "i", "pathOrInlineDv": _VECTOR.path_or_inline_dv, "sizeInBytes": _VECTOR.size_bytes, "cardinality": _VECTOR.cardinality}
_ADD = {
    "path": "p=2024-01-01/a%20b.parquet",
    "partitionValues": {"p": "2024-01-01"},
    "size": 7,
    "modificationTime": 1,
    "dataChange": True,
    "stats": _STATS,
    "deletionVector": _INLINE,
}
_FIRST = b"\n".join(
    map(
        orjson.dumps,
        [
            {"commitInfo": {"timestamp": 1, "operation": "WRITE", "txnId": "a"}},
            {
                "protocol": {
                    "minReaderVersion": 3,
                    "minWriterVersion": 7,
                    "readerFeatures": ["deletionVectors"],
                    "writerFeatures": ["deletionVectors", "domainMetadata"],
                }
            },
            {
                "metaData": {
                    "id": "i",
                    "format": {"provider": "parquet", "options": {}},
                    "schemaString": _SCHEMA,
                    "partitionColumns": ["p"],
                    "configuration": {},
                    "createdTime": 1,
                }
            },
            {"add": _ADD},
            {"txn": {"appId": "a", "version": 1}},
            {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}},
        ],
    )
)


def _store(**files: bytes) -> MemoryStore:
    store = MemoryStore(ROOT)
    store.put(names.commit_key(0), _FIRST)
    for key, body in files.items():
        store.put(key, body)
    return store


def _look_at(snapshot: Snapshot) -> None:
    """Reads what a snapshot says of its files, as skipping and scans do."""
    for add in snapshot.files.adds():
        typed = {}
        for field in snapshot.schema.fields:
            if field.physical_name in add.partition_values:
                typed[field.name] = partition_values.parse_stored(add.partition_values[field.physical_name], field.type, "UTC")
        stats = add.parsed_stats()
        for path, _ in snapshot.schema.leaves():
            bounds.bounds_in_files(path, [typed], [stats], snapshot.schema)
        statistics.widened(add.stats, add.num_records)
        if add.deletion_vector is not None and add.deletion_vector.is_inline:
            _use(dv.read_inline(add.deletion_vector))


def commit(data: bytes) -> None:
    """A commit file after a sound one."""
    _look_at(TableLog(_store(**{names.commit_key(1): data})).latest())


def first_commit(data: bytes) -> None:
    """The only commit file of a table."""
    store = MemoryStore(ROOT)
    store.put(names.commit_key(0), data)
    _look_at(TableLog(store).latest())


def checkpoint(data: bytes) -> None:
    """A classic checkpoint."""
    _checkpoint(names.checkpoint_key(0), data)


def checkpoint_rows(data: bytes) -> None:
    """A classic checkpoint of actions that are given as lines of JSON: with the columns of ours, and with those that the values themselves make."""
    try:
        rows = [row for line in data.splitlines() if isinstance(row := orjson.loads(line), dict)]
    except orjson.JSONDecodeError:
        return
    for columns in (_COLUMNS, None):
        out = io.BytesIO()
        try:
            pq.write_table(pa.Table.from_pylist(rows, columns), out)
        except (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError):  # no such table can be made
            continue
        try:
            _checkpoint(names.checkpoint_key(0), out.getvalue())
        except RowlockError:
            continue


def json_checkpoint(data: bytes) -> None:
    """A V2 checkpoint in JSON, whose sidecar is one, too."""
    _checkpoint("_delta_log/00000000000000000000.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json", data)


def _checkpoint(key: str, data: bytes) -> None:
    if not data:
        return
    store = _store(**{key: data, names.sidecar_key("s.parquet"): data})
    files = find_segment(store).checkpoint
    sidecars_of(store, files)
    read_checkpoint(store, files, removes_only=True)
    _look_at(TableLog(store).latest())


def last_checkpoint(data: bytes) -> None:
    """`_last_checkpoint`, which is a hint: nothing that it says may hinder a read."""
    assert TableLog(_store(**{names.LAST_CHECKPOINT: data})).latest().version == 0


def checksum(data: bytes) -> None:
    """A version checksum: whatever it says, rows come from the log."""
    checksums.differences(data, TableLog(_store()).latest())


def vector(data: bytes) -> None:
    """A serialized deletion vector, and a file of them."""
    size = struct.unpack_from(">i", data, 1)[0] if len(data) >= 5 else 0
    place = dv.DeletionVectorDescriptor("u", "0" * 20, 1, size, 2)
    for read in (lambda: dv.deserialize(data), lambda: dv.read_from_file(place, data, any_cardinality=True)):
        try:
            _use(read())
        except RowlockError:
            continue


def _use(bitmap: BitMap64) -> None:
    """What is done with a vector that was read; as many positions as rows are never made at once."""
    if bitmap:
        assert 0 <= bitmap.min() <= bitmap.max()
    if len(bitmap) < 1 << 20:
        assert len(dv.bitmap_to_numpy(bitmap)) == len(bitmap)
    dv.serialize(bitmap | BitMap64([1]))


def footer(data: bytes) -> None:
    """A data file's footer, and statistics out of it."""
    schema = parse_schema(_SCHEMA)
    try:
        metadata = pq.read_metadata(pa.BufferReader(data))
    except (pa.ArrowException, OSError):
        return
    said = statistics.from_parquet_metadata(metadata, statistics.indexed_leaves(schema))
    assert isinstance(orjson.loads(said), dict)


def stats(data: bytes) -> None:
    """Statistics of an add action."""
    text = data.decode("utf-8", "replace")
    schema = parse_schema(_SCHEMA)
    parsed = orjson.loads(_STATS)
    try:
        parsed = orjson.loads(text)
    except orjson.JSONDecodeError:
        statistics.widened(text, 3)
    if isinstance(parsed, dict):
        for path, _ in schema.leaves():
            bounds.bounds_in_files(path, [{}], [parsed], schema)


def schema(data: bytes) -> None:
    """A schema string."""
    for path, _ in parse_schema(data.decode("utf-8", "replace")).leaves():
        assert path


def path(data: bytes) -> None:
    """A path of the log: what it is decoded to lies in the table's folder, is a whole path, or is no key."""
    text = data.decode("utf-8", "replace")
    for root in ("/lake/table", "s3://bucket/table"):
        found, _ = paths.decode_with_spelling(text, root)
        if not paths.is_absolute(found):
            key = paths.check_key(found)
            assert posixpath.normpath(posixpath.join("/lake/table", key)).startswith("/lake/table/"), (text, found)


def partition_value(data: bytes) -> None:
    """A partition value of each type."""
    text = data.decode("utf-8", "replace")
    partition_values.states_zone(text)
    for name in ("long", "byte", "float", "double", "boolean", "date", "timestamp", "timestamp_ntz", "binary", "string"):
        try:
            partition_values.serialize(partition_values.parse_stored(text, PrimitiveType(name), "Europe/Vienna"), PrimitiveType(name))
            partition_values.parse(text, PrimitiveType(name))
        except RowlockError:
            continue


TARGETS: dict[str, Callable[[bytes], None]] = {
    f.__name__: f
    for f in (
        commit,
        first_commit,
        checkpoint,
        checkpoint_rows,
        json_checkpoint,
        last_checkpoint,
        checksum,
        vector,
        footer,
        stats,
        schema,
        path,
        partition_value,
    )
}


def run(target: str, data: bytes) -> None:
    """Feeds one input; passes over the named errors."""
    try:
        TARGETS[target](data)
    except RowlockError:
        return


def _parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"id": [1, 2, None], "s": ["a", None, "z"], "p": pa.array([1, 2, 3], pa.date32())}), out)
    return out.getvalue()


def _native() -> bytes:
    parts = [BitMap([1, 70_000]).serialize(), BitMap(range(5000)).serialize()]
    return struct.pack("<ii", dv.MAGIC_NATIVE, len(parts)) + b"".join(struct.pack("<i", len(p)) + p for p in parts)


_RUNS = BitMap64(range(70_000))
_V2 = [
    {"checkpointMetadata": {"version": 0}},
    *(orjson.loads(line) for line in _FIRST.split(b"\n")[1:3]),
    {"add": _ADD},
    {"sidecar": {"path": "s.parquet", "sizeInBytes": 9, "modificationTime": 1}},
]
_HEAD = TableLog(_store()).latest()
_COLUMNS = pq.read_schema(io.BytesIO(checkpoint_bytes(_HEAD)))
SEEDS: dict[str, list[bytes]] = {
    "commit": [orjson.dumps({"add": _ADD}), orjson.dumps({"remove": {"path": _ADD["path"], "dataChange": True, "deletionVector": _INLINE}}), _FIRST],
    "first_commit": [_FIRST],
    "checkpoint": [checkpoint_bytes(_HEAD)],
    "checkpoint_rows": [b"\n".join(map(orjson.dumps, [*_V2[1:-1], {"remove": {"path": "r", "deletionTimestamp": 1, "dataChange": True}}]))],
    "json_checkpoint": [b"\n".join(map(orjson.dumps, _V2)), b"\n".join(map(orjson.dumps, _V2[:-1]))],
    "last_checkpoint": [b'{"version":0,"size":4,"parts":2,"sizeInBytes":9,"v2Checkpoint":{"path":"x"}}'],
    "checksum": [checksums.checksum(_HEAD)],
    "vector": [dv.serialize(BitMap64([1, 5, 1 << 40])), dv.serialize(_RUNS), _native(), dv.pack_vectors([BitMap64([1, 2]), _RUNS])[0]],
    "footer": [_parquet()],
    "stats": [_STATS.encode()],
    "schema": [
        _SCHEMA.encode(),
        b'{"type":"struct","fields":[{"name":"m","type":{"type":"map","keyType":"string","valueType":{"type":"array","elementType":"long","containsNull":true},"valueContainsNull":true},"nullable":true,"metadata":{"delta.columnMapping.id":1}}]}',
    ],
    "path": [
        b"a/b.parquet",
        b"p=x%20y/part-0.parquet",
        b"../x/y",
        b"s3://b/c/../d",
        b"file:///lake/table/./a",
        b"/lake/table/../other/a",
        b"a%2F..%2F..%2Fb",
        b"%2e%2e/%2e%2e/a",
    ],
    "partition_value": [
        b"2024-05-06 12:03:17.5 Europe/Vienna",
        b"2024-05-06T12:03:17+02:00",
        b"-0044-03-15",
        b"1.5E-300",
        b"NaN",
        b"true",
        b"12345678901234567890",
    ],
}
"""Well-formed inputs of each target."""
