"""Reads the rows that a caller gives, of any kind, as Arrow tables; again from the start where a transaction runs again.

A stream can be read only once.  What is read of it is kept while it is small; a larger stream that would have to be read again is refused,
and so is one that was given to an earlier append: rows are never appended from a stream that has been read already.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any, Protocol

import pyarrow as pa

from rowlock import threads
from rowlock.exceptions import InvalidInput, SchemaMismatch, WrongType
from rowlock.limits import limits

_spent: weakref.WeakSet[pa.RecordBatchReader] = weakref.WeakSet()
_lock = threads.module_lock()


class Rows(Protocol):
    """Rows of one Arrow schema."""

    @property
    def schema(self) -> pa.Schema: ...
    def tables(self) -> Iterator[pa.Table]:
        """All rows, piece by piece.  Raises InvalidInput where they cannot be read a second time."""
        ...


class Held:
    """Rows of a table in memory, which can be read any number of times."""

    def __init__(self, table: pa.Table) -> None:
        self.schema, self._table = table.schema, table

    def tables(self) -> Iterator[pa.Table]:
        step = max(1, self._table.num_rows * limits().stream_piece_bytes // max(1, self._table.nbytes))
        for start in range(0, self._table.num_rows, step):
            yield self._table.slice(start, step)


class Streamed:
    """Rows of a reader, which is read to its end while they are staged."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self.schema = reader.schema
        self._reader: pa.RecordBatchReader | None = reader
        self._kept: list[pa.Table] | None = []

    def tables(self) -> Iterator[pa.Table]:
        """The rows, piece by piece; the second time those that were kept.

        Raises InvalidInput where the stream was read for another append, or would have to be read a second time and was too large to be kept.
        """
        if self._reader is None:
            if self._kept is None:
                raise InvalidInput(
                    "The rows came from a stream that has been read, and the table was changed so that they must be staged again: give them as a new reader, or as a table"
                )
            yield from self._kept
            return
        reader, self._reader, kept_bytes = _taken(self._reader), None, 0
        for batch in reader:
            table = pa.Table.from_batches([batch])
            kept_bytes += table.nbytes
            if self._kept is not None:
                self._kept = [*self._kept, table] if kept_bytes <= limits().stream_kept_bytes else None
            yield table


def rows_of(data: Any) -> Rows:
    """The rows of a pyarrow Table, RecordBatch or RecordBatchReader, a pandas or polars DataFrame, or of whatever else exports an Arrow stream.

    A pandas index is left out.  Raises WrongType, SchemaMismatch for a frame that Arrow cannot hold.
    """
    if isinstance(data, pa.Table):
        return Held(data)
    if isinstance(data, pa.RecordBatch):
        return Held(pa.Table.from_batches([data]))
    if isinstance(data, pa.RecordBatchReader):
        return Streamed(data)
    package = type(data).__module__.partition(".")[0]
    try:
        if package == "pandas" and hasattr(data, "columns"):
            return Held(pa.Table.from_pandas(data, preserve_index=False))
        if package == "polars" and hasattr(data, "__arrow_c_stream__") and hasattr(data, "columns"):
            return Held(pa.table(data))
        if hasattr(data, "__arrow_c_stream__"):
            return Streamed(pa.RecordBatchReader.from_stream(data))
        if hasattr(data, "__arrow_c_array__"):
            return Held(pa.Table.from_batches([pa.record_batch(data)]))
    except (pa.ArrowException, ValueError) as e:
        raise SchemaMismatch(f"The {package} rows have no form in Arrow: {e}") from e
    raise WrongType(
        f"data: rows are a pyarrow Table, RecordBatch or RecordBatchReader, a pandas or polars DataFrame, or another Arrow stream, not {type(data).__name__}"
    )


def _taken(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Marks a reader as read and returns it.  Raises InvalidInput where it was given to an append before."""
    with _lock:
        if reader in _spent:
            raise InvalidInput("This reader was given before and has been read: appending it again would add nothing, or a part. Make a new one")
        _spent.add(reader)
    return reader
