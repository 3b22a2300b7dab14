"""Writes checkpoints: classic ones in one Parquet file, which every Delta reader supports, or V2 ones if the table's policy is v2.

A V2 checkpoint is a Parquet file of a unique name that holds everything but the file actions; those are in sidecar files of a bounded number
of actions each, so that only one file's actions are in memory at a time.  The sidecars are written first, so an existing checkpoint is
complete; if its own file is never put they are deleted, and a failure's other files are orphans, which log cleanup deletes later (I10).

A checkpoint holds the whole state of a version: live files, tombstones within retention, protocol, metadata,
application transactions (within a retention if the table has one) and metadata domains; never commitInfo or cdc.  It is optional: failing to write one
never fails a commit, and the caller decides what to do (I10).
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rowlock import clock
from rowlock.exceptions import StorageError
from rowlock.limits import limits
from rowlock.log import frames, struct_stats
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import action_json, names, paths
from rowlock.protocol.actions import RemoveFile, SetTransaction
from rowlock.protocol.arrow_types import CALENDAR, to_arrow_type
from rowlock.protocol.features import V2_CHECKPOINTS, reader_features
from rowlock.protocol.schema import StructField
from rowlock.storage.store import ObjectStore

_TEXT, _INT, _LONG, _BOOL, _MAP = pa.string(), pa.int32(), pa.int64(), pa.bool_(), frames.MAP
_TEXTS = pa.list_(pa.field("element", _TEXT))


def _struct(**fields: pa.DataType) -> pa.StructType:
    return pa.struct(list(fields.items()))


_VECTOR = _struct(storageType=_TEXT, pathOrInlineDv=_TEXT, offset=_INT, sizeInBytes=_INT, cardinality=_LONG)
_ADD = _struct(**{theirs: type_ for theirs, _, type_ in frames.FROM_ADD}, deletionVector=_VECTOR)
_OF_REMOVE = {"path": _TEXT, "deletionTimestamp": _LONG, "dataChange": _BOOL, "extendedFileMetadata": _BOOL, "partitionValues": _MAP, "size": _LONG}
_REMOVE = _struct(**_OF_REMOVE, deletionVector=_VECTOR, baseRowId=_LONG, defaultRowCommitVersion=_LONG)
_OF_TABLE = {"id": _TEXT, "name": _TEXT, "description": _TEXT, "format": _struct(provider=_TEXT, options=_MAP), "schemaString": _TEXT}
_METADATA = _struct(**_OF_TABLE, partitionColumns=_TEXTS, configuration=_MAP, createdTime=_LONG)
_PROTOCOL = _struct(minReaderVersion=_INT, minWriterVersion=_INT, readerFeatures=_TEXTS, writerFeatures=_TEXTS)
_TXN, _DOMAIN = _struct(appId=_TEXT, version=_LONG, lastUpdated=_LONG), _struct(domain=_TEXT, configuration=_TEXT, removed=_BOOL)
SCHEMA = pa.schema(_struct(txn=_TXN, add=_ADD, remove=_REMOVE, metaData=_METADATA, protocol=_PROTOCOL, domainMetadata=_DOMAIN))

_SIDECAR = _struct(path=_TEXT, sizeInBytes=_LONG, modificationTime=_LONG, tags=_MAP)
V2_SCHEMA = pa.schema([*SCHEMA, *_struct(checkpointMetadata=_struct(version=_LONG, tags=_MAP), sidecar=_SIDECAR)])
"""The file columns exist and are empty: readers look for them in the file before they know its sidecars."""


def write_checkpoint(store: ObjectStore, snapshot: Snapshot, tombstones: Iterable[RemoveFile]) -> None:
    """Writes the checkpoint of a snapshot, then points `_last_checkpoint` to it.  Raises StorageError."""
    if writes_v2(snapshot):
        hint = _write_v2(store, snapshot, list(tombstones))
    else:
        table = _classic(snapshot, tombstones)
        body = _parquet_body(table)
        store.put(names.checkpoint_key(snapshot.version), body)
        hint = {"version": snapshot.version, "size": table.num_rows, "sizeInBytes": len(body), "numOfAddFiles": len(snapshot.files)}
    store.put(names.LAST_CHECKPOINT, orjson.dumps(hint))


def checkpoint_bytes(snapshot: Snapshot, tombstones: Iterable[RemoveFile] = ()) -> bytes:
    """The bytes of a classic checkpoint of a snapshot, which tables with V2 checkpoints may have as well."""
    return _parquet_body(_classic(snapshot, tombstones))


def _classic(snapshot: Snapshot, tombstones: Iterable[RemoveFile]) -> pa.Table:
    schema = _with_structs(SCHEMA, snapshot)
    return pa.concat_tables([_table(_small_rows(snapshot) + _removes(tombstones), schema), *(_add_table(f, schema, snapshot) for f in _portions(snapshot))])


def _with_structs(schema: pa.Schema, snapshot: Snapshot) -> pa.Schema:
    """The schema of a checkpoint, with structs of statistics and of partition values in `add` where the table asks for them.

    It has no statistics as JSON where the table wants none and structs hold them all: other readers take the structs only where there is no JSON.
    It has structs of partition values only where they hold those of every file: other readers take one that is missing for nulls, and skip the file.
    """
    if not snapshot.properties.stats_as_struct:
        return schema
    parsed = struct_stats.struct_type(snapshot.stats_leaves())
    as_json = snapshot.properties.stats_as_json or any(struct_stats.structs(f.column("stats"), parsed) is None for f in _portions(snapshot))
    fields = [f for f in _ADD if as_json or f.name != "stats"] + [pa.field("stats_parsed", parsed)]
    columns = _partition_fields(snapshot)
    if columns and all(struct_stats.partition_structs(f.column("partition_values"), columns) is not None for f in _portions(snapshot)):
        fields.append(pa.field("partitionValues_parsed", pa.struct([(f.physical_name, to_arrow_type(f.type)) for f in columns])))
    return schema.set(schema.get_field_index("add"), pa.field("add", pa.struct(fields)))


def _partition_fields(snapshot: Snapshot) -> list[StructField]:
    return [f for name in snapshot.partition_columns if (f := snapshot.schema.find(name)) is not None]


def writes_v2(snapshot: Snapshot) -> bool:
    """Whether this table's checkpoints are V2 ones: its policy is v2 and its protocol lists the feature, without which readers would not find them."""
    return snapshot.properties.checkpoint_policy == "v2" and V2_CHECKPOINTS in reader_features(snapshot.protocol)


def _write_v2(store: ObjectStore, snapshot: Snapshot, tombstones: Sequence[RemoveFile]) -> dict[str, Any]:
    """Writes sidecars and then the file that names them; returns the content of `_last_checkpoint`."""
    sidecars: list[dict[str, Any]] = []
    key, now_ms = names.v2_checkpoint_key(snapshot.version, clock.new_id()), clock.now_ms()
    actions = 0
    try:
        schema = _with_structs(V2_SCHEMA, snapshot)
        for part in _file_actions(snapshot, tombstones, schema):
            body, name = _parquet_body(part), f"{clock.new_id()}.parquet"
            sidecars.append({"path": name, "sizeInBytes": len(body), "modificationTime": now_ms, "tags": {}})
            store.put(names.sidecar_key(name), body)
            actions += part.num_rows
        held_bytes = sum(s["sizeInBytes"] for s in sidecars)
        tags = {"sidecarNumActions": str(actions), "sidecarSizeInBytes": str(held_bytes), "numOfAddFiles": str(len(snapshot.files))}
        rows = [("checkpointMetadata", {"version": snapshot.version, "tags": tags}), *_small_rows(snapshot), *(("sidecar", s) for s in sidecars)]
        body = _parquet_body(_table(rows, schema))
    except Exception:
        with suppress(StorageError):
            for sidecar in sidecars:
                store.delete(names.sidecar_key(sidecar["path"]))
        raise
    store.put(key, body)  # from here on the sidecars remain, also if this fails: a put without a reply may arrive later
    named = {"path": key.rpartition("/")[2], "sizeInBytes": len(body), "modificationTime": now_ms}
    counts = {"size": len(rows) + actions, "sizeInBytes": len(body) + held_bytes, "numOfAddFiles": len(snapshot.files)}
    return {"version": snapshot.version, **counts, "v2Checkpoint": named}


def _file_actions(snapshot: Snapshot, tombstones: Sequence[RemoveFile], schema: pa.Schema) -> Iterator[pa.Table]:
    """The file actions in tables of a bounded number of rows each.  Only they may be in a sidecar file."""
    schema = pa.schema([schema.field("add"), schema.field("remove")])
    yield from (_add_table(f, schema, snapshot) for f in _portions(snapshot))
    for start in range(0, len(tombstones), limits().snapshot_chunk_files):
        yield _table(_removes(tombstones[start : start + limits().snapshot_chunk_files]), schema)


def _parquet_body(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(CALENDAR), out, compression="snappy", row_group_size=limits().snapshot_chunk_files, write_statistics=False)
    return out.getvalue()


def _small_rows(snapshot: Snapshot) -> list[tuple[str, dict[str, Any]]]:
    """The actions of a checkpoint that are not about files."""
    rows: list[tuple[str, dict[str, Any]]] = [
        ("protocol", action_json.protocol_json(snapshot.protocol)),
        ("metaData", action_json.metadata_json(snapshot.logged)),
    ]
    rows += [("txn", action_json.txn_json(t)) for t in _retained_applications(snapshot)]
    return rows + [("domainMetadata", action_json.domain_json(d)) for d in snapshot.domains.values()]


def _removes(tombstones: Iterable[RemoveFile]) -> list[tuple[str, dict[str, Any]]]:
    return [("remove", action_json.remove_json(r) | {"dataChange": False}) for r in tombstones]


def _table(rows: Sequence[tuple[str, dict[str, Any]]], schema: pa.Schema) -> pa.Table:
    """Actions, each with its kind, as rows of a checkpoint."""
    columns = {name: [_maps_as_pairs(value) if kind == name else None for kind, value in rows] for name in {kind for kind, _ in rows}}
    arrays = [pa.array(columns[f.name], f.type) if f.name in columns else pa.nulls(len(rows), f.type) for f in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _retained_applications(snapshot: Snapshot) -> list[SetTransaction]:
    """The application versions within delta.setTransactionRetentionDuration, and those without a time."""
    retention_ms = snapshot.properties.application_retention_ms
    if retention_ms is None:
        return list(snapshot.txns.values())
    horizon = clock.now_ms() - retention_ms
    return [t for t in snapshot.txns.values() if t.last_updated_ms is None or t.last_updated_ms > horizon]


_MAPS = frozenset({"partitionValues", "tags", "configuration", "options"})


def _maps_as_pairs(value: Mapping[str, Any]) -> dict[str, Any]:
    """The action with maps as lists of pairs, as Arrow expects, also inside structs.  (A domain's `configuration` is text, not a map.)"""
    return {k: v if not isinstance(v, Mapping) else list(v.items()) if k in _MAPS else _maps_as_pairs(v) for k, v in value.items()}


def _portions(snapshot: Snapshot) -> Iterator[pa.RecordBatch]:
    """The live files in frames of a bounded number of rows each."""
    recent = list(snapshot.files.recent.values())
    parts = [*snapshot.files.live_frames(), *([frames.from_adds(recent)] if recent else [])]
    for frame in parts:
        for start in range(0, frame.num_rows, limits().snapshot_chunk_files):
            yield frame.slice(start, limits().snapshot_chunk_files)


def _add_table(frame: pa.RecordBatch, schema: pa.Schema, snapshot: Snapshot) -> pa.Table:
    path, spellings = frame.column("path"), frame.column("log_path")
    if spellings.null_count < frame.num_rows or not pc.all(pc.match_substring_regex(path, paths.UNESCAPED)).as_py():
        path = pa.array([o or paths.encode(p) for p, o in zip(path.to_pylist(), spellings.to_pylist(), strict=True)], pa.string())
    columns = {theirs: frame.column(ours) for theirs, ours, _ in frames.FROM_ADD} | {
        "path": path,
        "partitionValues": _without_nulls(frame.column("partition_values")),
        "dataChange": pa.repeat(pa.scalar(False), frame.num_rows),
        "deletionVector": _vectors(frame),
    }
    type_ = schema.field("add").type
    if type_.get_field_index("stats_parsed") >= 0:
        columns |= _structs(frame, type_, snapshot)
    adds = pa.StructArray.from_arrays([columns.get(f.name, pa.nulls(frame.num_rows, f.type)) for f in type_], fields=list(type_))
    return pa.Table.from_arrays([adds if f.name == "add" else pa.nulls(frame.num_rows, f.type) for f in schema], schema=schema)


def _structs(frame: pa.RecordBatch, type_: pa.StructType, snapshot: Snapshot) -> dict[str, pa.Array]:
    """Statistics and partition values as structs, where the texts have the form for it."""
    out: dict[str, pa.Array] = {}
    if (parsed := struct_stats.structs(frame.column("stats"), type_.field("stats_parsed").type)) is not None:
        out["stats_parsed"] = parsed
    if type_.get_field_index("partitionValues_parsed") >= 0:
        out["partitionValues_parsed"] = struct_stats.partition_structs(frame.column("partition_values"), _partition_fields(snapshot))
    return out


def _without_nulls(maps: pa.MapArray) -> pa.MapArray:
    """The maps with an empty one in place of null."""
    return maps if not maps.null_count else pa.array([pairs or [] for pairs in maps.to_pylist()], maps.type)


def _vectors(frame: pa.RecordBatch) -> pa.Array:
    arrays = [c if (c := frame.column(ours)).type == f.type else c.cast(f.type) for (_, ours, _), f in zip(frames.FROM_VECTOR, _VECTOR, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=list(_VECTOR), mask=frame.column("dv_type").is_null())
