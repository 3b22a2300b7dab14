"""Reads checkpoints in every format: classic, multi-part, V2 as JSON or Parquet, with sidecars.

File actions are read by column, one row group at a time, never as a Python object per file.  Statistics that
exist only as a struct (`stats_parsed`) are converted to JSON.  An unreadable checkpoint raises CorruptLog (I9).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rowlock.exceptions import CorruptLog
from rowlock.limits import limits
from rowlock.log import frames, struct_stats
from rowlock.protocol import action_json, arrays, names
from rowlock.protocol.actions import DomainMetadata, Metadata, Protocol, RemoveFile, SetTransaction
from rowlock.protocol.arrow_types import legacy_calendars
from rowlock.protocol.names import LogFile
from rowlock.storage.store import NotFound, ObjectStore, RangeFile

UNREADABLE = (pa.ArrowException, orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError, OverflowError, OSError)
"""The errors of pyarrow and of the parsing of actions for a file that is no checkpoint."""
_MANY_ROWS = 10_000
_SMALL = ("protocol", "metaData", "txn", "domainMetadata", "sidecar")


@dataclass(slots=True)
class CheckpointState:
    """The contents of a checkpoint: `frames` (see `frames`) hold the live files; `removes` are read only on request; `sidecars`: their keys."""

    protocol: Protocol | None = None
    metadata: Metadata | None = None
    txns: dict[str, SetTransaction] = field(default_factory=dict)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)
    frames: list[pa.RecordBatch] = field(default_factory=list)
    removes: list[RemoveFile] = field(default_factory=list)
    sidecars: list[str] = field(default_factory=list)


def read_checkpoint(store: ObjectStore, files: Sequence[LogFile], *, removes_only: bool = False) -> CheckpointState:
    """Reads a checkpoint from its files; with `removes_only`, the remove actions alone.  Raises CorruptLog."""
    state, wanted = CheckpointState(), "remove" if removes_only else "add"
    for file in files:
        _read_file(store, file.key, state, wanted)
    for sidecar in state.sidecars:
        _read_file(store, sidecar, state, wanted)
    _keep_one_per_path(state, twice=_has_twice(state, store.root, files))
    return state


def sidecars_of(store: ObjectStore, checkpoint: Sequence[LogFile]) -> set[str]:
    """The keys of the sidecar files that a checkpoint names.  Of a Parquet file only the footer and that column are read.

    Raises CorruptLog if a file of the checkpoint is missing or cannot be opened.
    """
    state = CheckpointState()
    for file in checkpoint:
        _read_file(store, file.key, state, "sidecar", file.size_bytes)
    return set(state.sidecars)


def _keep_one_per_path(state: CheckpointState, *, twice: bool) -> None:
    """Keeps one entry per path: other writers may have added one file under two spellings, which commit replay treats as one file too."""
    if twice or any(frame.column("log_path").null_count < frame.num_rows for frame in state.frames):
        last = {path: (n, at) for n, frame in enumerate(state.frames) for at, path in enumerate(frame.column("path").to_pylist())}
        if len(last) < sum(frame.num_rows for frame in state.frames):
            retained = [[at for k, at in last.values() if k == n] for n in range(len(state.frames))]
            state.frames = [frame.take(pa.array(sorted(rows), pa.int64())) for frame, rows in zip(state.frames, retained, strict=True) if rows]


def _has_twice(state: CheckpointState, root: str, files: Sequence[LogFile]) -> bool:
    """Whether a path with a deletion vector has two entries that say the same, which delta-spark takes for one.

    Raises CorruptLog where their vectors differ, as after a writer that did not remove the entry before: the order here says nothing.
    """
    paths, kinds = (pa.chunked_array([f.column(name) for f in state.frames], pa.string()) for name in ("path", "dv_type"))
    if kinds.null_count:  # else all are asked for as they lie: copies of a million paths take 100 MB each
        paths = paths.filter(pc.is_in(paths, value_set=paths.filter(kinds.is_valid())))
    if pc.count_distinct(paths).as_py() == len(paths):
        return False
    counts: Any = paths.value_counts()
    twice = counts.field("values").filter(pc.greater(counts.field("counts"), arrays.scalar(1, pa.int64())))
    hits = (add for f in state.frames for add in frames.to_adds(f.filter(pc.is_in(f.column("path"), value_set=twice))))
    vectors: dict[str, str | None] = {}
    if other := next((a.path for a in hits if vectors.setdefault(*a.key) != a.key[1]), None):
        text = f"the checkpoint holds {other} twice, and not which of its deletion vectors is newer: delete the checkpoint where the commits before it are there, which say it"
        raise CorruptLog(text, table=root, version=files[0].version, file=files[0].key)
    return True


def _read_file(store: ObjectStore, key: str, state: CheckpointState, wanted: str, size_bytes: int = 0) -> None:
    """Reads a file's actions of the kind `wanted` and its small actions; for `sidecar` those only, and a large file in ranges."""
    try:
        if key.endswith(".json"):
            _read_json(store.get(key), state, wanted, store.root)
        elif wanted == "sidecar" and size_bytes > limits().whole_object_bytes:
            _read_parquet(RangeFile(store, key, size_bytes), state, wanted, store.root)
        else:
            _read_parquet(pa.BufferReader(store.get(key)), state, wanted, store.root)
    except NotFound as e:
        raise CorruptLog("a file of a checkpoint is missing from the log", table=store.root, file=key) from e
    except UNREADABLE as e:
        raise CorruptLog(f"the checkpoint cannot be read: {type(e).__name__}: {e}", table=store.root, file=key) from e


def _apply(name: str, raw: dict[str, Any], state: CheckpointState) -> None:
    """Applies one action that is not a file action to `state`."""
    if name == "protocol":
        state.protocol = action_json.protocol_from(raw)
    elif name == "metaData":
        state.metadata = action_json.metadata_from(raw)
    elif name == "txn":
        txn = action_json.txn_from(raw)
        state.txns[txn.app_id] = txn
    elif name == "domainMetadata":
        domain = action_json.domain_from(raw)
        if not domain.removed:
            state.domains[domain.domain] = domain
    elif name == "sidecar":
        state.sidecars.append(names.sidecar_key(raw["path"]))


def _read_json(body: bytes, state: CheckpointState, wanted: str, root: str) -> None:
    adds = []
    for line in body.split(b"\n"):
        for name, raw in (orjson.loads(line) if line.strip() else {}).items():
            if raw is None:
                continue
            if name == wanted == "add":
                adds.append(action_json.add_from(raw, root))
            elif name == wanted == "remove":
                state.removes.append(action_json.remove_from(raw, root))
            else:
                _apply(name, raw, state)
    if adds:
        state.frames.append(frames.from_adds({add.key: add for add in adds}.values()))


def _read_parquet(source: Any, state: CheckpointState, wanted: str, root: str) -> None:
    file = pq.ParquetFile(source, read_dictionary=[], coerce_int96_timestamp_unit=struct_stats.INT96.unit)
    schema = file.schema_arrow
    small = [name for name in (_SMALL if wanted == "add" else ("sidecar",)) if schema.get_field_index(name) >= 0]
    files = [wanted] if wanted in ("add", "remove") and schema.get_field_index(wanted) >= 0 else []
    columns = [f"add.{name}" for name in frames.ADD_FIELDS if schema.field("add").type.get_field_index(name) >= 0] if files == ["add"] else files

    def applied(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for name in small:
                for raw in _non_null_actions(batch.column(name), name):
                    _apply(name, raw, state)
            yield batch

    for group in range(file.num_row_groups):
        batches = applied(_batches(file, group, [*small, *columns]))
        if files == ["add"]:
            state.frames += _add_frames(batches, file, group, root)
        for batch in batches:
            state.removes += [action_json.remove_from(raw, root) for name in files for raw in _non_null_actions(batch.column(name), name)]


_REQUIRED = {"protocol": "minReaderVersion", "metaData": "id", "txn": "appId", "domainMetadata": "domain", "sidecar": "path", "remove": "path"}


def _non_null_actions(column: pa.Array, name: str) -> Iterator[dict[str, Any]]:
    """The non-null actions in a column, as dicts, maps included; some writers store a struct of nulls instead of null."""
    for row in frames.rows_at(column.is_valid()).tolist() if column.null_count < len(column) else ():
        if (value := column[row].as_py(maps_as_pydicts="lossy")).get(_REQUIRED[name]) is not None:
            yield value


def _add_frames(batches: Iterable[pa.RecordBatch], file: pq.ParquetFile, group: int, root: str) -> Iterator[pa.RecordBatch]:
    """The add actions of a row group, by column, in frames."""
    structs: Iterator[pa.StructArray] | None = None
    for n, adds in enumerate(_joined(batches)):
        part = frames.from_checkpoint(adds, root)
        if structs is None and part.column("stats").null_count and file.schema_arrow.field("add").type.get_field_index("stats_parsed") >= 0:
            structs = islice(_joined(_batches(file, group, ["add.path", "add.stats_parsed"])), n, None)
        if structs is not None:
            part = frames.with_columns(part, {"stats": pc.coalesce(part.column("stats"), _parsed_stats(next(structs), file))})
        if part.num_rows:
            yield part


def _batches(file: pq.ParquetFile, group: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """These columns of a row group, decoded in portions: the memory that one takes serves the next."""
    many = file.metadata.row_group(group).num_rows > _MANY_ROWS  # decoding fewer is not worth the hand-over to other threads
    return file.iter_batches(min(limits().snapshot_chunk_files, _MANY_ROWS), [group], columns, use_threads=many)  # type: ignore[no-any-return]


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.StructArray]:
    """The add actions of the batches, as many at a time as a frame has, in no more memory than they need."""
    portions = (adds for batch in batches if (adds := batch.column("add")).null_count < len(adds))
    while some := list(islice(portions, max(1, limits().snapshot_chunk_files // _MANY_ROWS))):
        yield pa.concat_arrays(some)


def _parsed_stats(adds: pa.StructArray, file: pq.ParquetFile) -> pa.Array:
    """The `stats_parsed` structs as JSON, one per row that has a path."""
    parsed = pc.struct_field(adds, ["stats_parsed"]).filter(pc.is_valid(pc.struct_field(adds, ["path"])))
    return struct_stats.texts(parsed, _SAME_IN_BOTH) if any(legacy_calendars(file.metadata.metadata or {})) else struct_stats.texts(parsed)


_SAME_IN_BOTH = dt.datetime(1900, 1, 2)
"""From this day on the calendars of Spark 2 and Spark 3 agree in every time zone."""
