"""Live files as Arrow record batches (frames), one row per file, converted from and to `AddFile` values.

Owns the frame's schema and the conversions from add actions and from a checkpoint's Arrow struct.  Frames are Arrow and numpy,
whose threads a forked child process starts anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowlock.protocol import arrays, paths
from rowlock.protocol.actions import AddFile, DeletionVectorDescriptor
from rowlock.protocol.deletion_vector import checked_kind
from rowlock.protocol.intervals import FALSE

MAP = pa.map_(pa.string(), pa.string())
FROM_ADD: tuple[tuple[str, str, pa.DataType], ...] = (
    ("path", "path", pa.string()),
    ("partitionValues", "partition_values", MAP),
    ("size", "size", pa.int64()),
    ("modificationTime", "modification_time", pa.int64()),
    ("dataChange", "data_change", pa.bool_()),
    ("stats", "stats", pa.string()),
    ("tags", "tags", MAP),
    ("baseRowId", "base_row_id", pa.int64()),
    ("defaultRowCommitVersion", "commit_version", pa.int64()),
    ("clusteringProvider", "clustering", pa.string()),
)
ADD_FIELDS = (*(field for field, _, _ in FROM_ADD), "deletionVector")
"""The fields of a checkpoint's `add` struct from which a frame is built."""
FROM_VECTOR: tuple[tuple[str, str, pa.DataType], ...] = (
    ("storageType", "dv_type", pa.string()),
    ("pathOrInlineDv", "dv_path", pa.string()),
    ("offset", "dv_offset", pa.int64()),
    ("sizeInBytes", "dv_size", pa.int64()),
    ("cardinality", "dv_cardinality", pa.int64()),
)
_TYPES = {name: type_ for _, name, type_ in FROM_ADD} | {name: type_ for _, name, type_ in FROM_VECTOR} | {"log_path": pa.string()}
_ORDER = ("path", "partition_values", "size", "modification_time", "data_change", "stats", "dv_type", "dv_path", "dv_offset", "dv_size", "dv_cardinality")
SCHEMA = pa.schema([(name, _TYPES[name]) for name in (*_ORDER, "tags", "base_row_id", "commit_version", "clustering", "log_path")])
"""The columns of a frame of files, and their types."""


def from_adds(adds: Iterable[AddFile]) -> pa.RecordBatch:
    """A frame of add actions."""
    columns = list(zip(*map(_row_of, adds), strict=True)) or [()] * len(SCHEMA)
    return pa.record_batch([pa.array(values, f.type) for values, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def _row_of(add: AddFile) -> tuple[Any, ...]:
    dv = add.deletion_vector
    vector = (dv.storage_type, dv.path_or_inline_dv, dv.offset, dv.size_bytes, dv.cardinality) if dv else (None,) * 5
    return (
        add.path,
        list(add.partition_values.items()),
        add.size_bytes,
        add.modification_time_ms,
        add.data_change,
        add.stats,
        *vector,
        None if add.tags is None else list(add.tags.items()),
        add.base_row_id,
        add.default_row_commit_version,
        add.clustering_provider,
        add.log_path,
    )


def to_adds(frame: pa.RecordBatch) -> Iterator[AddFile]:
    """The rows as `AddFile` values, created lazily in chunks."""
    for start in range(0, frame.num_rows, 10_000):
        chunk = frame.slice(start, 10_000)
        for row in zip(*map(_values, chunk.columns), strict=False):
            yield _add_of(row)


def _values(column: pa.Array) -> Iterable[Any]:
    """The values of a column, maps as dicts; endless where all are null."""
    if column.null_count == len(column):
        return repeat(None)
    return _dicts(column) if pa.types.is_map(column.type) else column.to_pylist()


def _dicts(column: pa.MapArray) -> Iterator[dict[str, str | None] | None]:
    """The maps as dicts; of a duplicate key the last value."""
    offsets = arrays.to_numpy(column.offsets)
    first = int(offsets[0])
    entries = list(zip(column.keys[first : offsets[-1]].to_pylist(), column.items[first : offsets[-1]].to_pylist(), strict=True))
    for valid, start, end in zip(column.is_valid().to_pylist(), (offsets[:-1] - first).tolist(), (offsets[1:] - first).tolist(), strict=True):
        yield dict(entries[start:end]) if valid else None


def _add_of(row: tuple[Any, ...]) -> AddFile:
    path, values, size, modified, data_change, stats, *vector, tags, base_row_id, commit_version, clustering, spelling = row
    dv = None if vector[0] is None else DeletionVectorDescriptor(*vector)
    return AddFile(path, values or {}, size, modified or 0, data_change is not False, stats, dv, tags, base_row_id, commit_version, clustering, spelling)


def from_checkpoint(adds: pa.StructArray, root: str) -> pa.RecordBatch:
    """A frame of the `add` column of a checkpoint of the table at `root`; rows without a path are left out."""
    if adds.null_count or adds.field("path").null_count:
        adds = adds.filter(pc.is_valid(pc.struct_field(adds, ["path"])))
    columns = _pick(adds, FROM_ADD)
    if adds.type.get_field_index("deletionVector") >= 0:
        columns |= _pick(pc.struct_field(adds, ["deletionVector"]), FROM_VECTOR)
        for kind in columns["dv_type"].unique().drop_null().to_pylist():
            checked_kind(kind, root)
        if any(columns[name].null_count > columns["dv_type"].null_count for name in ("dv_path", "dv_size", "dv_cardinality")):
            raise ValueError("a deletion vector lacks its place, its size or its number of rows")
    path = columns["path"]
    if "size" not in columns or columns["size"].null_count:
        raise ValueError("an add action lacks its size")
    plain = pc.match_substring_regex(path, paths.PLAIN)
    if not pc.all(plain).as_py():
        pairs = ((text, None) if same else paths.decode_with_spelling(text, root) for text, same in zip(path.to_pylist(), plain.to_pylist(), strict=True))
        decoded, others = zip(*pairs, strict=True)
        columns |= {"path": pa.array(decoded, pa.string()), "log_path": pa.array(others, pa.string())}
    missing = [f for f in SCHEMA if f.name not in columns]
    columns |= zip((f.name for f in missing), pa.nulls(len(adds), pa.struct(missing)).flatten(), strict=True)  # all in the memory of one
    return pa.record_batch([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def merged(parts: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The rows of several frames, in as few frames as can be: a column of one holds at most 2 GiB of text."""
    return [batch for batch in pa.Table.from_batches(parts, SCHEMA).combine_chunks().to_batches() if batch.num_rows]


def with_columns(frame: pa.RecordBatch, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """The frame with these columns in place of its own."""
    return pa.record_batch([columns.get(f.name, frame.column(f.name)) for f in SCHEMA], schema=SCHEMA)


def rows_at(mask: Any) -> np.ndarray[Any, Any]:
    """The row numbers at which an Arrow mask is true."""
    return np.flatnonzero(arrays.to_numpy(pc.fill_null(mask, FALSE)))


def _pick(struct: pa.StructArray, fields: Sequence[tuple[str, str, pa.DataType]]) -> dict[str, pa.Array]:
    columns = dict(zip((f.name for f in struct.type), struct.flatten(), strict=True))
    return {ours: c if (c := columns[theirs]).type == type_ else c.cast(type_) for theirs, ours, type_ in fields if theirs in columns}
