"""Writes rows into new data files, one for each partition, with statistics; they are durable when a call returns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rowlock import clock
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.compression import codec_of
from rowlock.parquet.physical import file_schema, names_in_files, nullable_schema, relabelled, without_void
from rowlock.parquet.reading import SPARK_VERSION
from rowlock.parquet.values import stored_values
from rowlock.protocol import partition_values, paths, statistics
from rowlock.protocol.actions import AddFile
from rowlock.protocol.arrow_types import to_arrow
from rowlock.protocol.properties import TableProperties
from rowlock.protocol.schema import DataType
from rowlock.protocol.statistics import has_ambiguous_names
from rowlock.storage.store import ObjectStore

_CALENDAR = {SPARK_VERSION.decode(): "4.0.0"}
"""Written into the footer: Spark reads dates and times by the calendar of the writing version, and ours is that of Spark 3 and later."""
PartitionValues = dict[str, str | None]


def write_rows(store: ObjectStore, table: pa.Table, snapshot: Snapshot, *, folder: str | None = None) -> list[tuple[AddFile, pa.Table]]:
    """Writes rows into one new file for each partition; returns each file with the values of its rows in the table's columns, partition columns left out.

    The rows have logical columns of the table, and others that are written under their own names.  With `folder` the files
    are change data files below that folder, not data files of the table.
    """
    return [write_file(store, part, values, snapshot, folder=folder) for values, part in split_by_partition(table, snapshot)]


def write_files(store: ObjectStore, table: pa.Table, snapshot: Snapshot, max_records: int) -> list[AddFile]:
    """Writes rows with logical columns into new files of at most `max_records` rows each."""
    parts = [(v, p.slice(at, max_records)) for v, p in split_by_partition(table, snapshot) for at in range(0, p.num_rows, max_records)]
    return [write_file(store, part, values, snapshot)[0] for values, part in parts]


def write_file(store: ObjectStore, part: pa.Table, values: PartitionValues, snapshot: Snapshot, *, folder: str | None = None) -> tuple[AddFile, pa.Table]:
    """Writes the rows of one partition into one new file; returns it with its rows, as `write_rows` does."""
    place, kind = (f"{folder}/", "cdc") if folder else ("", "part")
    prefix = snapshot.properties.random_prefix_length
    below = paths.partition_directory(values) if folder or prefix is None else clock.new_id()[:prefix]
    codec = codec_of(snapshot.metadata.configuration)
    path = place + (f"{below}/" if below else "") + f"{kind}-00000-{clock.new_id()}-c000{codec.suffix}.parquet"
    data = part.drop_columns(list(snapshot.metadata.partition_columns)) if values else part
    schema = nullable_schema(to_arrow(snapshot.schema))
    own = [n for n in data.column_names if n in schema.names and not pa.types.is_null(schema.field(n).type)]
    own_rows = data.select(own).cast(pa.schema([schema.field(n) for n in own]))
    stored = without_void(relabelled(own_rows, file_schema(snapshot, own)))
    for name in (n for n in data.column_names if n not in schema.names):
        stored = stored.append_column(data.schema.field(name), data.column(name))
    encodes = not has_ambiguous_names(snapshot.schema) and not any(_has_negative_zero(c) for c in stored.columns)
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, stored.schema, compression=codec.arrow, store_schema=False, use_dictionary=encodes) as writer:
        writer.write_table(stored)
        writer.add_key_value_metadata(_CALENDAR)
    body = sink.getvalue().to_pybytes()
    store.put(path, body)
    stats = statistics.from_arrow(stored, stats_leaves(snapshot), text_characters=snapshot.properties.stats_text_characters)
    return AddFile(path, values, len(body), clock.now_ms(), True, stats), own_rows


def _has_negative_zero(column: Any) -> bool:
    """Whether numbers of a column, or within its values, are -0.0: Spark's reader does not find one in a dictionary where 0.0 is asked for."""
    if isinstance(column, pa.ChunkedArray):
        return any(_has_negative_zero(chunk) for chunk in column.chunks)
    if pa.types.is_floating(column.type):
        numbers = column.to_numpy(zero_copy_only=False)
        return bool(((numbers == 0) & np.signbit(numbers)).any())
    if pa.types.is_map(column.type):
        return _has_negative_zero(column.keys) or _has_negative_zero(column.items)
    if pa.types.is_list(column.type):
        return _has_negative_zero(column.values)
    return pa.types.is_struct(column.type) and any(_has_negative_zero(column.field(n)) for n in range(column.type.num_fields))


def stats_leaves(snapshot: Snapshot) -> list[Any]:
    """The leaf columns for which statistics are collected."""
    properties = TableProperties(snapshot.metadata.configuration)
    return statistics.indexed_leaves(
        snapshot.schema,
        num_indexed=properties.num_indexed_columns,
        stats_columns=properties.stats_columns,
        partition_columns=snapshot.metadata.partition_columns,
    )


def split_by_partition(table: pa.Table, snapshot: Snapshot) -> list[tuple[PartitionValues, pa.Table]]:
    """(partition values by physical column name, rows) for each partition that occurs, in the order of first rows."""
    columns, stored = snapshot.metadata.partition_columns, names_in_files(snapshot)
    if not table.num_rows:
        return []
    if not columns:
        return [({}, table)]
    types = {f.name: f.type for f in snapshot.schema.fields}
    keys = [_partition_codes(table.column(c), types[c]) for c in columns]
    together = np.stack([codes for codes, _ in keys])
    found, first, group = np.unique(together, axis=1, return_index=True, return_inverse=True)
    rows = np.split(np.argsort(group.ravel(), kind="stable"), np.cumsum(np.bincount(group.ravel()))[:-1])
    out: list[tuple[PartitionValues, pa.Table]] = []
    for g in np.argsort(first):
        values = {stored[c]: texts[found[n, g]] for n, (c, (_, texts)) in enumerate(zip(columns, keys, strict=True))}
        out.append((values, table if len(rows) == 1 else table.take(pa.array(rows[g]))))
    return out


def _partition_codes(column: Any, type_: DataType) -> tuple[np.ndarray[Any, Any], list[str | None]]:
    """Dictionary-encodes a partition column: a code for each row, and by code the value's text in the log."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column  # before encoding: Arrow cannot unify dictionaries with nulls
    encoded = pc.dictionary_encode(whole, null_encoding="encode")
    texts: dict[str | None, int] = {}
    values = stored_values(encoded.dictionary)
    codes = np.array([texts.setdefault(partition_values.serialize(v, type_), len(texts)) for v in values], np.int64)
    return codes[encoded.indices.to_numpy(zero_copy_only=False)], list(texts)
