"""The origin of rows in files that Spark has written for large results: read in portions, summed up by file (`StoredOrigin`).

Such data files hold, beside the table's columns, where each row came from: the hash of the old file's URI (`__rowlock_from`), and its
position there in two parts.  Readers of the table ignore these columns and the next compaction drops them.  The origin is never
concluded from the order in which Spark got the rows: its writer may change that order or split the rows into several files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark.sql import Column, functions as F

from rowlock.boundary.provenance import Numbers, Provenance, SourceNumbers, StoredOrigin
from rowlock.engines.spark.read.scan import FROM, POSITION, hash_of_uri
from rowlock.exceptions import UnsupportedFeature
from rowlock.parquet.files import open_parquet
from rowlock.protocol.actions import AddFile
from rowlock.protocol.deletion_vector import bitmap_of
from rowlock.storage.store import ObjectStore

SOURCE_ROW = "__rowlock_source"
_HIGH, _LOW = f"{POSITION}_high", f"{POSITION}_low"
_LOW_BITS = 10
_PORTION_ROWS = 1 << 20


def stored_position() -> dict[str, Column]:
    """POSITION as data files hold it, in a high and a low part.

    For rows in the order of their old file the high part hardly changes and the low part repeats, which Parquet encodes
    in a bit or two for each row instead of eight bytes.
    """
    parts = {_HIGH: F.shiftright(POSITION, _LOW_BITS), _LOW: F.col(POSITION).bitwiseAND(F.lit((1 << _LOW_BITS) - 1))}
    return {n: part.cast("int").alias(n) for n, part in parts.items()}


def paths_by_hash(uris: Iterable[tuple[str, str]]) -> dict[int, str]:
    """The path of each file by the hash of its URI; `uris` are pairs of both.  Raises UnsupportedFeature where two files share a hash."""
    out: dict[int, str] = {}
    for path, uri in uris:
        if out.setdefault(hash_of_uri(uri), path) != path:
            text = f"Two data files share a hash, {path} and another: compact the table with optimize().executeCompaction()"
            raise UnsupportedFeature(text, feature="deletionVectors", access="write")
    return out


@dataclass(slots=True)
class _Summary:
    """A summary of the origin of many rows: bitmaps by path, the number of rows, and which paths lie in one ascending run."""

    positions: dict[str, BitMap64] = field(default_factory=dict)
    num_rows: int = 0
    ends: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """By path: number of the first row, rows, the last position."""
    broken: set[str] = field(default_factory=set)

    def add(self, part: Provenance) -> None:
        for path, rows in part.by_path():
            at = part.position[rows]
            known = self.positions.setdefault(path, BitMap64())
            known |= bitmap_of(at)
            if path not in self.broken:
                self._extend(path, self.num_rows + int(rows[0]), int(rows[-1] - rows[0]) + 1 == len(rows) and bool((at[1:] > at[:-1]).all()), at)
        self.num_rows += part.num_rows

    def _extend(self, path: str, start: int, ascending: bool, at: Numbers) -> None:
        first, size, last = self.ends.get(path, (start, 0, -1))
        if ascending and first + size == start and last < at[0]:
            self.ends[path] = first, size + len(at), int(at[-1])
        else:
            self.broken.add(path)
            self.ends.pop(path, None)


def stored_origin(files: Sequence[AddFile], store: ObjectStore, names: Mapping[int, str]) -> StoredOrigin:
    """The origin of the rows of `files`, summed up from the columns for it; `names` are the paths by their hash (see `paths_by_hash`)."""

    def read() -> Iterator[Provenance]:
        for file in files:
            for batch in _batches(file, store, [FROM, _HIGH, _LOW]):
                yield _provenance(batch, names)

    summary = _Summary()
    for part in read():
        summary.add(part)
    runs = {path: (first, size) for path, (first, size, _) in summary.ends.items()}
    return StoredOrigin(tuple(summary.positions), summary.num_rows, read, summary.positions, runs)


def _provenance(batch: pa.RecordBatch, names: Mapping[int, str]) -> Provenance:
    encoded = pc.dictionary_encode(batch.column(0))
    found = tuple(names[number] for number in encoded.dictionary.to_pylist())
    high, low = (batch.column(n).to_numpy().astype(np.int64) for n in (1, 2))
    return Provenance(found, encoded.indices.to_numpy(), (high << _LOW_BITS) | low)


def stored_source_rows(files: Sequence[AddFile], store: ObjectStore) -> SourceNumbers:
    """The number of the source row of each row that a MERGE wrote, in the same portions as `stored_origin`."""

    def read() -> Iterator[Numbers]:
        for file in files:
            for batch in _batches(file, store, [SOURCE_ROW]):
                yield np.asarray(batch.column(0).to_numpy(), dtype=np.int64)

    return SourceNumbers(sum(f.num_records or 0 for f in files), read)


def inserted_origin(files: Sequence[AddFile], store: ObjectStore, path: str) -> StoredOrigin:
    """The origin of rows that a MERGE inserted: `path` (its `fresh_path`), and the numbers of their source rows."""
    numbers = stored_source_rows(files, store)

    def read() -> Iterator[Provenance]:
        for part in numbers.parts():
            yield Provenance((path,), np.zeros(len(part), np.int32), part)

    return StoredOrigin((path,), numbers.num_rows, read)


def _batches(file: AddFile, store: ObjectStore, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Columns of a file in portions, which are the same for every choice of columns."""
    with open_parquet(store, file.path, file.size_bytes) as source:
        yield from source.iter_batches(batch_size=_PORTION_ROWS, columns=columns)
