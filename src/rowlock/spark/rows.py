"""Rows on the driver: small data files and a few rows of large ones, as Arrow tables.

Files never change, so a small one is read once and kept.  What is read here must be what Spark would
read; a file of which that is not certain (INT96, an old calendar, other types) is
left to Spark: `read` returns None.
"""

from __future__ import annotations

import io
import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark

from rowlock import clock
from rowlock.conflict.delta import Slice
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import partition_values, paths, statistics
from rowlock.protocol.actions import AddFile
from rowlock.protocol.arrow_types import to_arrow
from rowlock.protocol.column_mapping import is_mapped
from rowlock.protocol.deletion_vector import bitmap_to_numpy
from rowlock.protocol.properties import TableProperties
from rowlock.protocol.schema import PrimitiveType
from rowlock.spark.physical import file_schema, found_by_id, names_in_files, relabelled
from rowlock.storage.store import ObjectStore
from rowlock.transaction.effects import StagedFile

_CACHE_BYTES = 96 * 1024 * 1024
_COLUMN_BYTES = 192 * 1024 * 1024
_SPARK_VERSION = b"org.apache.spark.version"
_CREATED = {_SPARK_VERSION: pyspark.__version__.encode()}


class RowCache:
    """Arrow tables of whole small files by path, least recently used out first.  Thread-safe."""

    def __init__(self, limit_bytes: int = _CACHE_BYTES) -> None:
        self._tables: OrderedDict[str, pa.Table] = OrderedDict()
        self._bytes, self._limit, self._lock = 0, limit_bytes, threading.Lock()

    def get(self, path: str) -> pa.Table | None:
        with self._lock:
            if path in self._tables:
                self._tables.move_to_end(path)
            return self._tables.get(path)

    def put(self, path: str, table: pa.Table) -> None:
        if table.nbytes > self._limit // 8:
            return
        with self._lock:
            before = self._tables.pop(path, None)
            self._bytes += table.nbytes - (before.nbytes if before is not None else 0)
            self._tables[path] = table
            while self._bytes > self._limit:
                _, out = self._tables.popitem(last=False)
                self._bytes -= out.nbytes


def nullable_schema(schema: pa.Schema) -> pa.Schema:
    """The same with all columns and fields nullable: Arrow cannot cast a null struct whose fields may not be null."""
    return pa.schema([pa.field(f.name, _nullable_type(f.type), True) for f in schema])


def _nullable_type(t: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(t):
        return pa.struct([pa.field(f.name, _nullable_type(f.type), True) for f in t])
    if pa.types.is_list(t):
        return pa.list_(pa.field(t.value_field.name, _nullable_type(t.value_type), True))
    if pa.types.is_map(t):
        return pa.map_(pa.field(t.key_field.name, _nullable_type(t.key_type), False), pa.field(t.item_field.name, _nullable_type(t.item_type), True))
    return t


class Rows:
    """Reads and writes small numbers of rows of one table on the driver."""

    def __init__(self, store: ObjectStore) -> None:
        self.store, self.cache, self.columns = store, RowCache(), RowCache(_COLUMN_BYTES)

    def read(self, file: AddFile, snapshot: Snapshot) -> pa.Table | None:
        """All physical rows of a file under the table's logical columns, or None where Spark must read it."""
        kept = self.cache.get(_key(file.path, snapshot))
        wanted = nullable_schema(to_arrow(snapshot.schema))
        if kept is not None and kept.schema.equals(wanted):
            return kept
        if _in_doubt(file, snapshot):
            return None
        table = self._read(file, snapshot, wanted, None)
        if table is not None:
            self.cache.put(_key(file.path, snapshot), table)
        return table

    def read_positions(self, file: AddFile, positions: np.ndarray[Any, Any], snapshot: Snapshot) -> pa.Table | None:
        """The rows at sorted physical positions; only the row groups that hold them are read."""
        kept = self.cache.get(_key(file.path, snapshot))
        wanted = nullable_schema(to_arrow(snapshot.schema))
        if kept is not None and kept.schema.equals(wanted):
            return kept.take(pa.array(positions))
        if _in_doubt(file, snapshot):
            return None
        return self._read(file, snapshot, wanted, positions)

    def read_slice(self, piece: Slice, snapshot: Snapshot) -> tuple[pa.Table, np.ndarray[Any, Any]] | None:
        """The rows that a slice means and their positions, or None where Spark must read them."""
        if piece.only is not None:
            positions = bitmap_to_numpy(piece.only)
            table = self.read_positions(piece.file, positions, snapshot)
            return None if table is None else (table, positions)
        table = self.read(piece.file, snapshot)
        if table is None:
            return None
        if not piece.without:
            return table, np.arange(table.num_rows, dtype=np.int64)
        mask = np.ones(table.num_rows, dtype=np.bool_)
        mask[bitmap_to_numpy(piece.without)] = False
        return table.filter(pa.array(mask)), np.flatnonzero(mask).astype(np.int64)

    def read_columns(self, file: AddFile, names: Sequence[str], snapshot: Snapshot) -> pa.Table | None:
        """Some columns of all physical rows of a file; kept by column, because statement after statement reads the same ones."""
        if _in_doubt(file, snapshot):
            return None
        keys = {n: f"{file.path}\0{stored}" for n, stored in names_in_files(snapshot).items()}
        wanted = nullable_schema(to_arrow(snapshot.schema))
        found = {n: self.columns.get(keys[n]) for n in names}
        missing = [n for n, kept in found.items() if kept is None or kept.schema.field(0).type != wanted.field(n).type]  # a field of a struct may have come or gone
        if missing:
            table = self._read(file, snapshot, pa.schema([wanted.field(n) for n in missing]), None)
            if table is None:
                return None
            for name in missing:
                found[name] = table.select([name])
                self.columns.put(keys[name], table.select([name]))
        return pa.table([t.column(0) for t in found.values() if t is not None], names=list(names))

    def read_at(self, file: AddFile, positions: np.ndarray[Any, Any], names: Sequence[str], snapshot: Snapshot) -> pa.Table | None:
        """Some columns of the rows at positions, out of the columns that are kept."""
        table = self.read_columns(file, names, snapshot)
        return None if table is None else table.take(pa.array(positions))

    def _open(self, file: AddFile) -> pq.ParquetFile:
        place = paths.join(self.store.root, file.path)
        return pq.ParquetFile(place if place.startswith("/") else io.BytesIO(self.store.get(file.path)))

    def num_rows(self, file: AddFile) -> int:
        """The physical number of rows, from the footer."""
        with self._open(file) as source:
            return int(source.metadata.num_rows)

    def _read(self, file: AddFile, snapshot: Snapshot, wanted: pa.Schema, positions: np.ndarray[Any, Any] | None) -> pa.Table | None:
        with self._open(file) as source:
            if not _is_plain(source) or not found_by_id(source, snapshot):
                return None
            stored, there = names_in_files(snapshot), set(source.schema_arrow.names)
            names = [n for n in wanted.names if stored[n] in there and n not in snapshot.metadata.partition_columns]
            schema = file_schema(snapshot, names)
            if any(not _reads_alike(source.schema_arrow.field(f.name).type, f.type) for f in schema):
                return None
            if positions is None:
                data, num_rows = source.read(columns=schema.names), source.metadata.num_rows
            else:
                data, num_rows = _at(source, schema.names, positions), len(positions)
        data = relabelled(data.select(schema.names).cast(schema), pa.schema([wanted.field(n) for n in names]))
        return _logical(data, num_rows, file, snapshot, wanted)

    def write(self, table: pa.Table, snapshot: Snapshot, *, folder: str | None = None) -> list[StagedFile]:
        """Writes rows (logical columns of the table, and others that go into the file alone) into one new file for each partition, with statistics.

        With `folder` they are files of changes below it, and no part of the table.
        """
        out: list[StagedFile] = []
        place, kind = (f"{folder}/", "cdc") if folder else ("", "part")
        for values, part in split_by_partition(table, snapshot):
            below = paths.partition_directory(values)
            path = place + (f"{below}/" if below else "") + f"{kind}-00000-{clock.new_id()}-c000.snappy.parquet"
            data = part.drop_columns(list(snapshot.metadata.partition_columns)) if values else part
            schema = nullable_schema(to_arrow(snapshot.schema))
            own = [n for n in data.column_names if n in schema.names]
            extra = [n for n in data.column_names if n not in schema.names]
            own_rows = data.select(own).cast(pa.schema([schema.field(n) for n in own]))
            stored = relabelled(own_rows, file_schema(snapshot, own).with_metadata(_CREATED))
            for name in extra:
                stored = stored.append_column(data.schema.field(name), data.column(name))
            data = own_rows
            sink = pa.BufferOutputStream()
            pq.write_table(stored, sink, compression="snappy", store_schema=False)
            body = sink.getvalue().to_pybytes()
            self.store.put(path, body)
            stats = statistics.from_arrow(stored, stats_leaves(snapshot))
            add = AddFile(path, values, len(body), clock.now_ms(), True, stats)
            if not folder:
                self.cache.put(_key(path, snapshot), _logical(data, data.num_rows, add, snapshot, schema))  # as it will be read: an empty partition value is null
            out.append(StagedFile(add))
        return out


def stats_leaves(snapshot: Snapshot) -> list[Any]:
    """The leaf columns that get statistics."""
    properties = TableProperties(snapshot.metadata.configuration)
    return statistics.indexed_leaves(
        snapshot.schema, num_indexed=properties.num_indexed_columns, stats_columns=properties.stats_columns, partition_columns=snapshot.metadata.partition_columns
    )


def split_by_partition(table: pa.Table, snapshot: Snapshot) -> list[tuple[dict[str, str | None], pa.Table]]:
    """(partition values by their columns' names in files, rows) for each partition that occurs."""
    columns, stored = snapshot.metadata.partition_columns, names_in_files(snapshot)
    if not columns:
        return [({}, table)] if table.num_rows else []
    types = {f.name: f.type for f in snapshot.schema.fields}
    keys = [[partition_values.serialize(v, types[c]) for v in table.column(c).to_pylist()] for c in columns]
    groups: dict[tuple[str | None, ...], list[int]] = {}
    for row, key in enumerate(zip(*keys, strict=True)):
        groups.setdefault(key, []).append(row)
    return [(dict(zip([stored[c] for c in columns], key, strict=True)), table.take(pa.array(rows))) for key, rows in groups.items()]


def _logical(data: pa.Table, num_rows: int, file: AddFile, snapshot: Snapshot, wanted: pa.Schema) -> pa.Table:
    columns: list[Any] = []
    stored = names_in_files(snapshot)
    for f in wanted:
        if f.name in snapshot.metadata.partition_columns:
            field = snapshot.schema.find(f.name)
            assert field is not None
            value = partition_values.parse(file.partition_values.get(stored[f.name]), field.type)
            columns.append(pa.repeat(pa.scalar(value, f.type), num_rows))
        elif f.name in data.column_names:
            columns.append(data.column(f.name).cast(f.type))
        else:
            columns.append(pa.nulls(num_rows, f.type))
    return pa.table(columns, schema=wanted) if columns else pa.table({})


def _key(path: str, snapshot: Snapshot) -> str:
    """What a file's rows are kept under: where columns are mapped, for one naming of them, since two may change their names for each other's."""
    return f"{path}\0{hash(snapshot.metadata.schema_string)}" if is_mapped(snapshot.metadata.configuration) else path


def _in_doubt(file: AddFile, snapshot: Snapshot) -> bool:
    """A partition value whose meaning depends on a session's time zone."""
    stored = names_in_files(snapshot) if snapshot.metadata.partition_columns else {}
    zoned = [f.name for f in snapshot.schema.fields if f.type == PrimitiveType("timestamp")]
    return any(not (file.partition_values.get(stored[c]) or "Z").endswith("Z") for c in snapshot.metadata.partition_columns if c in zoned)


def _is_plain(source: pq.ParquetFile) -> bool:
    """Whether dates and times in the file mean to Arrow what they mean to Spark."""
    metadata = source.metadata.metadata or {}
    if any(k.startswith(b"org.apache.spark.legacy") for k in metadata):
        return False
    version = metadata.get(_SPARK_VERSION)
    if version is not None and (found := re.match(rb"(\d+)", version)) and int(found[1]) < 3:
        return False
    return all(source.schema.column(i).physical_type != "INT96" for i in range(len(source.schema)))


def _reads_alike(have: pa.DataType, want: pa.DataType) -> bool:
    """Whether a file's column of one Arrow type is surely the same values in the other."""
    if have == want:
        return True
    if pa.types.is_timestamp(have) and pa.types.is_timestamp(want):
        return bool(have.unit in ("us", "ms") and (have.tz is None) == (want.tz is None))
    if pa.types.is_struct(have) and pa.types.is_struct(want):
        return have.num_fields == want.num_fields and all(a.name == b.name and _reads_alike(a.type, b.type) for a, b in zip(have, want, strict=True))
    if pa.types.is_list(have) and pa.types.is_list(want):
        return _reads_alike(have.value_type, want.value_type)
    if pa.types.is_map(have) and pa.types.is_map(want):
        return _reads_alike(have.key_type, want.key_type) and _reads_alike(have.item_type, want.item_type)
    return False


def _at(source: pq.ParquetFile, columns: Sequence[str], positions: np.ndarray[Any, Any]) -> pa.Table:
    """Rows at sorted positions, reading only the row groups in which one lies."""
    sizes = [source.metadata.row_group(g).num_rows for g in range(source.metadata.num_row_groups)]
    starts = np.r_[0, np.cumsum(sizes)]
    parts = []
    for g in range(len(sizes)):
        inside = positions[(positions >= starts[g]) & (positions < starts[g + 1])] - starts[g]
        if len(inside):
            parts.append(source.read_row_group(g, columns=list(columns)).take(pa.array(inside)))
    return pa.concat_tables(parts) if parts else source.schema_arrow.empty_table().select(list(columns))


__all__ = ["RowCache", "Rows", "nullable_schema", "split_by_partition", "stats_leaves"]
