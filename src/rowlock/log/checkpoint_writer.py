"""Writes classic checkpoints, in one Parquet file, which every Delta reader supports.

A checkpoint holds the whole state of a version: live files, tombstones within retention, protocol, metadata,
application transactions (within a retention if the table has one) and metadata domains; never commitInfo or cdc.  It is optional: failing to write one
never fails a commit, and the caller decides what to do (I10).
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rowlock import clock
from rowlock.limits import limits
from rowlock.log import frames
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import action_json, names, paths
from rowlock.protocol.actions import RemoveFile, SetTransaction
from rowlock.storage.store import ObjectStore

_MAP = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    [("storageType", pa.string()), ("pathOrInlineDv", pa.string()), ("offset", pa.int32()), ("sizeInBytes", pa.int32()), ("cardinality", pa.int64())]
)
_ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", _MAP),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
        ("tags", _MAP),
        ("deletionVector", _VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
        ("clusteringProvider", pa.string()),
    ]
)
_REMOVE = pa.struct(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", _MAP),
        ("size", pa.int64()),
        ("deletionVector", _VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
    ]
)
_FORMAT = pa.struct([("provider", pa.string()), ("options", _MAP)])
_METADATA = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("format", _FORMAT),
        ("schemaString", pa.string()),
        ("partitionColumns", pa.list_(pa.field("element", pa.string()))),
        ("configuration", _MAP),
        ("createdTime", pa.int64()),
    ]
)
_FEATURES = pa.list_(pa.field("element", pa.string()))
_PROTOCOL = pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32()), ("readerFeatures", _FEATURES), ("writerFeatures", _FEATURES)])
SCHEMA = pa.schema(
    [
        ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])),
        ("add", _ADD),
        ("remove", _REMOVE),
        ("metaData", _METADATA),
        ("protocol", _PROTOCOL),
        ("domainMetadata", pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())])),
    ]
)


def write_checkpoint(store: ObjectStore, snapshot: Snapshot, tombstones: Iterable[RemoveFile]) -> None:
    """Writes the checkpoint of a snapshot, then points `_last_checkpoint` to it.  Raises StorageError."""
    tables = [_small_table(snapshot, tombstones), *_add_tables(snapshot)]
    table = pa.concat_tables(tables)
    body = _parquet_body(table)
    store.put(names.checkpoint_key(snapshot.version), body)
    hint = {"version": snapshot.version, "size": table.num_rows, "sizeInBytes": len(body), "numOfAddFiles": len(snapshot.files)}
    store.put(names.LAST_CHECKPOINT, orjson.dumps(hint))


def _parquet_body(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, compression="snappy", row_group_size=limits().snapshot_chunk_files, write_statistics=False)
    return out.getvalue()


def _small_table(snapshot: Snapshot, tombstones: Iterable[RemoveFile]) -> pa.Table:
    """The checkpoint's rows for everything except the live files."""
    rows: list[tuple[str, dict[str, Any]]] = [
        ("protocol", action_json.protocol_json(snapshot.protocol)),
        ("metaData", action_json.metadata_json(snapshot.metadata)),
    ]
    rows += [("txn", action_json.txn_json(t)) for t in _kept_applications(snapshot)]
    rows += [("domainMetadata", action_json.domain_json(d)) for d in snapshot.domains.values()]
    rows += [("remove", action_json.remove_json(r) | {"dataChange": False}) for r in tombstones]
    arrays = [pa.array([_maps_as_pairs(value) if kind == f.name else None for kind, value in rows], f.type) for f in SCHEMA]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _kept_applications(snapshot: Snapshot) -> list[SetTransaction]:
    """The versions of applications within delta.setTransactionRetentionDuration; one without a time is kept."""
    retention_ms = snapshot.properties.application_retention_ms
    if retention_ms is None:
        return list(snapshot.txns.values())
    horizon = clock.now_ms() - retention_ms
    return [t for t in snapshot.txns.values() if t.last_updated_ms is None or t.last_updated_ms > horizon]


_MAPS = frozenset({"partitionValues", "tags", "configuration", "options"})


def _maps_as_pairs(value: Mapping[str, Any]) -> dict[str, Any]:
    """The action with maps as lists of pairs, as Arrow expects, also inside structs.  (A domain's `configuration` is text, not a map.)"""
    return {k: v if not isinstance(v, Mapping) else list(v.items()) if k in _MAPS else _maps_as_pairs(v) for k, v in value.items()}


def _add_tables(snapshot: Snapshot) -> Iterator[pa.Table]:
    recent = list(snapshot.files.recent.values())
    parts = [*snapshot.files.live_frames(), *([frames.from_adds(recent)] if recent else [])]
    for frame in parts:
        for start in range(0, frame.height, limits().snapshot_chunk_files):
            yield _add_table(frame[start : start + limits().snapshot_chunk_files])


def _add_table(frame: pl.DataFrame) -> pa.Table:
    plain = frame["path"].str.contains(paths.UNESCAPED)
    spelled = (o or paths.encode(p) for p, o in zip(frame["path"], frame["log_path"], strict=True))
    path = frame["path"] if plain.all() and not frame["log_path"].is_not_null().any() else pl.Series("path", spelled, dtype=pl.String)
    columns = {
        "path": _arrow(path),
        "partitionValues": _map(frame["partition_values"], null_is_empty=True),
        "size": _arrow(frame["size"]),
        "modificationTime": _arrow(frame["modification_time"]),
        "dataChange": pa.repeat(pa.scalar(False), frame.height),
        "stats": _arrow(frame["stats"]),
        "tags": _map(frame["tags"]),
        "deletionVector": _vectors(frame),
        "baseRowId": _arrow(frame["base_row_id"]),
        "defaultRowCommitVersion": _arrow(frame["commit_version"]),
        "clusteringProvider": _arrow(frame["clustering"]),
    }
    arrays = [columns[f.name].cast(f.type) for f in _ADD]
    adds = pa.StructArray.from_arrays(arrays, fields=list(_ADD))
    return pa.Table.from_arrays([adds if f.name == "add" else pa.nulls(frame.height, f.type) for f in SCHEMA], schema=SCHEMA)


def _arrow(series: pl.Series) -> pa.Array:
    array = series.rechunk().to_arrow()
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _map(series: pl.Series, *, null_is_empty: bool = False) -> pa.Array:
    """A series of lists of key-value structs, as an Arrow map array."""
    if null_is_empty:
        series = series.fill_null([])
    lists = _arrow(series).cast(pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())])))
    pairs = lists.flatten()
    offsets = pc.cumulative_sum(pc.fill_null(pc.list_value_length(lists), 0).cast(pa.int32()))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), offsets])
    maps = pa.MapArray.from_arrays(offsets, pc.struct_field(pairs, ["key"]), pc.struct_field(pairs, ["value"]))
    if not lists.null_count:
        return maps
    return pc.if_else(lists.is_valid(), maps, pa.nulls(len(maps), maps.type))


def _vectors(frame: pl.DataFrame) -> pa.Array:
    arrays = [_arrow(frame[name]) for name in ("dv_type", "dv_path", "dv_offset", "dv_size", "dv_cardinality")]
    return pa.StructArray.from_arrays(
        [a.cast(f.type) for a, f in zip(arrays, _VECTOR, strict=True)], fields=list(_VECTOR), mask=frame["dv_type"].is_null().to_arrow()
    )
