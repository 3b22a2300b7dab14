"""Writes rows into new data files, one for each partition, with statistics; they are durable when a call returns.

The codec is that of the write, else of the table's property, else of the session's setting; by default snappy.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rowlock import clock, threads
from rowlock.exceptions import InvalidInput
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.physical import file_schema, names_in_files, relabelled, rows_schema, without_void
from rowlock.parquet.values import leaves, stored_values
from rowlock.parquet.variants import with_required_binaries
from rowlock.protocol import partition_values, paths, statistics
from rowlock.protocol.actions import AddFile
from rowlock.protocol.arrow_types import CALENDAR
from rowlock.protocol.schema import DataType
from rowlock.protocol.statistics import has_ambiguous_names
from rowlock.storage.store import ObjectStore

PROPERTY = "delta.parquet.compression.codec"
SETTING = "spark.sql.parquet.compression.codec"


@dataclass(frozen=True, slots=True)
class Codec:
    """A codec by Spark's and by pyarrow's name, and what it adds to the names of files."""

    spark: str
    arrow: str
    suffix: str


_CODECS = {
    "snappy": Codec("snappy", "snappy", ".snappy"),
    "zstd": Codec("zstd", "zstd", ".zstd"),
    "gzip": Codec("gzip", "gzip", ".gz"),
    "lz4": Codec("lz4_raw", "lz4", ".lz4raw"),  # the older lz4 of Hadoop is read by few
    "lz4_raw": Codec("lz4_raw", "lz4", ".lz4raw"),
    "lz4raw": Codec("lz4_raw", "lz4", ".lz4raw"),
    "none": Codec("none", "none", ""),
    "uncompressed": Codec("none", "none", ""),
}
NAMES = tuple(_CODECS)
_chosen: ContextVar[tuple[str | None, str | None]] = ContextVar("the codecs that a write and its session ask for", default=(None, None))


def compressing(option: str | None, setting: str | None) -> AbstractContextManager[None]:
    """Compresses the data files of the block by `option`, else by their table's property, else by `setting`; None: not given.

    Raises InvalidInput for an unknown codec.
    """
    for name, codec in (("The option compression", option), (f"The setting {SETTING}", setting)):
        if codec is not None and codec.strip().lower() not in _CODECS:
            raise InvalidInput(f"{name} is one of {', '.join(NAMES)}, not {codec!r}")
    return threads.holding(_chosen, (option, setting))


def codec_of(configuration: Mapping[str, str]) -> Codec:
    """The codec of new data files of a table with these properties."""
    option, setting = _chosen.get()
    codec = option or configuration.get(PROPERTY) or setting or "snappy"
    return _CODECS.get(codec.strip().lower(), _CODECS["snappy"])  # what others have set that Rowlock does not write


_SAMPLED_ROWS, _DICTIONARY_BYTES, _LITTLE_BYTES = 1 << 18, 1 << 20, 1 << 16
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
    path = _new_path(values, snapshot, folder)
    data = part.drop_columns(list(snapshot.metadata.partition_columns)) if values else part
    stored, own_rows = stored_rows(data, snapshot)
    gathered = _statistics(snapshot)
    body = b"".join(_encoded([stored], snapshot, gathered, _Unlike()))
    store.put(path, body)
    return AddFile(path, values, len(body), clock.now_ms(), True, gathered.text()), own_rows


def write_portions(store: ObjectStore, portions: Callable[[], Iterable[pa.Table]], values: PartitionValues, snapshot: Snapshot) -> AddFile:
    """Writes rows of one partition that come in portions, of which few are in memory at a time, into one new file.

    The portions have columns by physical name (see `stored_rows`).  `portions` is called again where the file must be begun anew.  Raises what it raises.
    """
    path, unlike = _new_path(values, snapshot), _Unlike()
    failed: list[BaseException] = []
    size_bytes, gathered = 0, _statistics(snapshot)

    def pieces() -> Iterator[bytes]:
        nonlocal size_bytes, gathered
        if failed:
            raise failed[0]  # the client of a store takes some errors for its own, and asks again
        size_bytes, gathered = 0, _statistics(snapshot)
        try:
            for piece in _encoded(portions(), snapshot, gathered, unlike, page_index=True):
                size_bytes += len(piece)
                yield piece
        except Exception as e:
            failed.append(e)
            raise

    while True:
        try:
            store.put_parts(path, pieces)
            return AddFile(path, values, size_bytes, clock.now_ms(), True, gathered.text())
        except Exception:
            if not failed:
                raise
            cause = failed.pop()
            if not isinstance(cause, _Late):
                raise cause from None


def _new_path(values: PartitionValues, snapshot: Snapshot, folder: str | None = None) -> str:
    """The name of a new file with rows of one partition."""
    place, kind = (f"{folder}/", "cdc") if folder else ("", "part")
    prefix = snapshot.properties.random_prefix_length
    below = paths.partition_directory(values) if folder or prefix is None else clock.new_id()[:prefix]
    if any(len(name.encode()) > paths.NAME_BYTES for name in below.split("/")):
        below = clock.new_id()[:2]  # as delta-spark names the folders of tables that map columns; the log has the values
    return place + (f"{below}/" if below else "") + f"{kind}-00000-{clock.new_id()}-c000{codec_of(snapshot.metadata.configuration).suffix}.parquet"


def stored_rows(data: pa.Table, snapshot: Snapshot) -> tuple[pa.Table, pa.Table]:
    """Rows as data files hold them, with columns by physical name; and under the table's columns.  Columns that are not the table's stay as they are."""
    fields = {f.name: f for f in rows_schema(snapshot)}
    own = [n for n in data.column_names if n in fields and not pa.types.is_null(fields[n].type)]
    own_rows = data.select(own).cast(pa.schema([fields[n] for n in own]))
    stored = with_required_binaries(without_void(relabelled(own_rows, file_schema(snapshot, own))))
    for name in (n for n in data.column_names if n not in fields):
        stored = stored.append_column(data.schema.field(name), data.column(name))
    return stored, own_rows


def _statistics(snapshot: Snapshot) -> statistics.Gathered:
    return statistics.Gathered(snapshot.stats_leaves(), text_characters=snapshot.properties.stats_text_characters)


@dataclass
class _Unlike:
    """Columns of a file, by physical name, that are written without a dictionary, and those without bounds in the footer (see `_encoded`)."""

    plain: set[str] = field(default_factory=set)
    unbounded: set[str] = field(default_factory=set)

    def note(self, rows: pa.Table) -> bool:
        """Takes in the columns in which these rows have -0.0 or NaN; returns whether one is new."""
        known = len(self.plain), len(self.unbounded)
        for f, column in zip(rows.schema, rows.columns, strict=True):
            if f.name not in self.plain and _has_number(column, _is_negative_zero):
                self.plain.add(f.name)
            if f.name not in self.unbounded and _has_number(column, pc.is_nan):
                self.unbounded.add(f.name)
        return known != (len(self.plain), len(self.unbounded))


class _Late(Exception):
    """A column holds its first -0.0 or NaN where some of its values are written already."""


def _encoded(portions: Iterable[pa.Table], snapshot: Snapshot, gathered: statistics.Gathered, unlike: _Unlike, *, page_index: bool = False) -> Iterator[bytes]:
    """The bytes of a file, in pieces, with each portion a row group or several; `page_index` lets readers skip parts of a row group.

    A column with -0.0 gets no dictionary: Spark's reader does not find it in one where 0.0 is asked for; nor does a column that is no smaller with one.
    A column with NaN gets no bounds: pyarrow leaves NaN out of them, which for Spark is above every number, so its reader would pass over such rows.
    Raises _Late where either is found after the first portion; then `unlike` has the column.
    """
    sink, writer = _Pieces(), None
    for rows in portions:
        more = unlike.note(rows)
        if writer is None:
            unlike.plain |= {f.name for f, c in zip(rows.schema, rows.columns, strict=True) if _is_better_plain(c)}
            writer = _writer(sink, rows.schema, snapshot, unlike, page_index)
        elif more:
            raise _Late
        gathered.add(rows)
        writer.write_table(rows)
        yield from sink.taken()
    if writer is not None:
        writer.add_key_value_metadata(CALENDAR)
        writer.close()
    yield from sink.taken()


def _writer(sink: _Pieces, schema: pa.Schema, snapshot: Snapshot, unlike: _Unlike, page_index: bool) -> pq.ParquetWriter:
    ambiguous, codec = has_ambiguous_names(snapshot.schema), codec_of(snapshot.metadata.configuration).arrow
    encoded: Any = not ambiguous and _leaves_but(schema, unlike.plain)
    bounded: Any = not unlike.unbounded if ambiguous else _leaves_but(schema, unlike.unbounded)
    return pq.ParquetWriter(sink, schema, compression=codec, store_schema=False, use_dictionary=encoded, write_statistics=bounded, write_page_index=page_index)


def _leaves_but(schema: pa.Schema, without: Collection[str]) -> bool | list[str]:
    """The leaf columns of a file but those of some columns, in the form that pyarrow takes."""
    return not without or [leaf for leaf in _leaf_names(schema) if not any(leaf == name or leaf.startswith(f"{name}.") for name in without)]


def _leaf_names(schema: pa.Schema) -> list[str]:
    """The leaf columns of a file with this schema, as pyarrow names them."""
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink, store_schema=False)
    return [c.path for c in pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema]


def _is_better_plain(column: pa.ChunkedArray) -> bool:
    """Whether a dictionary of a column, and the number of each value in it, take more than the values; or more than pyarrow lets a dictionary have."""
    sample = column.slice(0, _SAMPLED_ROWS)
    if pa.types.is_nested(column.type) or sample.nbytes <= _LITTLE_BYTES:
        return False
    distinct = pc.count_distinct(sample).as_py()
    dictionary = distinct * sample.nbytes // len(sample)
    return bool(dictionary > _DICTIONARY_BYTES or dictionary + len(sample) * distinct.bit_length() // 8 >= sample.nbytes)


class _Pieces(io.RawIOBase):
    """What a writer has written since it was asked last."""

    def __init__(self) -> None:
        super().__init__()
        self._held: list[bytes] = []
        self._at = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._held.append(bytes(data))
        self._at += len(data)
        return len(data)

    def tell(self) -> int:
        return self._at

    def taken(self) -> list[bytes]:
        taken, self._held = self._held, []
        return taken


def _is_negative_zero(numbers: pa.Array) -> pa.Array:
    found = numbers.to_numpy(zero_copy_only=False)
    return pa.array((found == 0) & np.signbit(found))


def _has_number(column: pa.ChunkedArray, which: Callable[[Any], Any]) -> bool:
    """Whether floating-point numbers of a column, or within its values, satisfy `which`."""
    return any(pa.types.is_floating(leaf.type) and pc.any(which(leaf)).as_py() for chunk in column.chunks for leaf in leaves(chunk))


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
