"""Reads the rows that a caller gives, of any kind, as Arrow tables, and casts them to a table's columns by the rules of `protocol.schema_fit`.

Rows are read again from the start where a transaction runs again.  A stream can be read only once.  What is read of it is kept while it is small; a larger stream that would have to be read again is refused,
and so is one that was given to an earlier append: rows are never appended from a stream that has been read already.
What the types say is refused before a row is read; what only values say, such as a time between two microseconds, is refused while rows are
staged, so before a commit names one.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowlock import threads
from rowlock.exceptions import InvalidInput, SchemaMismatch, UnsupportedFeature, WrongType
from rowlock.limits import limits
from rowlock.parquet.physical import nullable_schema
from rowlock.parquet.values import fitted_text
from rowlock.parquet.variants import has_variant
from rowlock.protocol import schema_fit
from rowlock.protocol.arrow_types import from_arrow_type, to_arrow
from rowlock.protocol.char_varchar import bounds
from rowlock.protocol.column_values import DEFAULTS, Constant, Identity, NotConstant, column_defaults, constant, identity_columns, refuse_explicit
from rowlock.protocol.schema import DataType, PrimitiveType, StructField, StructType, nullable
from rowlock.transaction.definition.identity import Numbers

_spent: weakref.WeakSet[pa.RecordBatchReader] = weakref.WeakSet()
_lock = threads.module_lock()
_MOST_LEVELS = 80  # pyarrow reads no more than 100, and orjson writes no more than 254 of JSON, of which a struct's schema takes three


class Held:
    """Rows of a table in memory, which can be read any number of times."""

    def __init__(self, table: pa.Table) -> None:
        self.schema, self._table = table.schema, table

    def tables(self) -> Iterator[pa.Table]:
        """All rows, piece by piece."""
        step = max(1, self._table.num_rows * limits().stream_piece_bytes // max(1, self._table.nbytes))
        for start in range(0, self._table.num_rows, step):
            yield self._table.slice(start, step)


class Streamed:
    """Rows of a reader, which is read to its end while they are staged."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self.schema = reader.schema
        self._reader, self._is_taken = reader, False
        self._failed: Exception | None = None
        self._kept, self._left_bytes = list[pa.Table](), limits().stream_kept_bytes

    def tables(self) -> Iterator[pa.Table]:
        """The rows, piece by piece; where they are asked for again, those that were kept, and then what is left of the stream.

        Raises InvalidInput where the stream was read for another append, or would have to be read a second time and was too large to be kept.
        """
        if not self._is_taken:
            self._reader, self._is_taken = _taken(self._reader), True
        if self._left_bytes < 0:
            text = "The rows came from a stream that has been read, and must be staged again, since the table was changed or the stream failed: give them as a new reader, or as a table"
            raise InvalidInput(text) from self._failed
        yield from self._kept
        try:
            for batch in self._reader:
                table = pa.Table.from_batches([batch])
                self._left_bytes -= table.nbytes
                self._kept = [*self._kept, table] if self._left_bytes >= 0 else []
                yield table
        except Exception as e:  # not of those who ask for the rows: nothing more comes from it
            self._failed, self._left_bytes = e, -1
            raise


Rows = Held | Streamed


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
    text = f"data: rows are a pyarrow Table, RecordBatch or RecordBatchReader, a pandas or polars DataFrame, or another Arrow stream, not {type(data).__name__}"
    raise WrongType(text)


def _taken(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Marks a reader as read and returns it.  Raises InvalidInput where it was given to an append before."""
    with _lock:
        if reader in _spent:
            raise InvalidInput("This reader was given before and has been read: appending it again would add nothing, or a part. Make a new one")
        _spent.add(reader)
    return reader


def schema_of_rows(schema: pa.Schema, table: str) -> StructType:
    """The columns of Arrow rows as Delta types, all nullable with all that is in them.

    Raises SchemaMismatch for a type that no column of a Delta table holds, such as uint64, and where two names differ at most by case.
    """
    schema_fit.check_names(schema.names, table)
    if deep := next((f.name for f in schema if _is_deeper(f.type, _MOST_LEVELS)), None):
        text = f"Column {deep} is nested in more than {_MOST_LEVELS} levels, of which an array counts two, and readers of Parquet files take no more than 100: flatten it"
        raise SchemaMismatch(text, table=table)
    out = nullable(StructType(tuple(StructField(f.name, _column_type(f, table)) for f in schema)))
    if bare := next((f.name for f in schema if _holds_no_field(f.type)), None):
        raise SchemaMismatch(f"Column {bare} holds a struct without fields, which Parquet files cannot hold: give it a field, or drop the column", table=table)
    return out


def _is_deeper(type_: pa.DataType, levels: int) -> bool:
    """Whether a type is nested in more than so many levels of a Parquet file."""
    left = levels - (1 if pa.types.is_struct(type_) else 2)
    return levels < 0 or any(_is_deeper(type_.field(n).type, left) for n in range(type_.num_fields))


def _holds_no_field(type_: pa.DataType) -> bool:
    """Whether a type is a struct without fields, or one is in it."""
    return (pa.types.is_struct(type_) and not type_.num_fields) or any(_holds_no_field(type_.field(n).type) for n in range(type_.num_fields))


def _column_type(field: pa.Field, table: str) -> DataType:
    if pa.types.is_null(field.type):
        return PrimitiveType("void")
    if has_variant(field.type):
        text = f"column {field.name} holds variants, whose bytes only Spark checks: leave it out, or use rowlock.write(df, path)"
        raise UnsupportedFeature(text, feature="variantType", access="write", table=table)
    try:
        return from_arrow_type(field.type)
    except UnsupportedFeature:
        text = f"Column {field.name} has the Arrow type {field.type}, which no column of a Delta table holds; cast or drop it"
        raise SchemaMismatch(text, table=table) from None


def _default_of(field: StructField, table: str) -> Constant:
    """What an absent column holds.  Raises UnsupportedFeature for a default that is no plain literal."""
    try:
        return constant(field)
    except NotConstant as e:
        text = f"column {field.name} is absent from the rows and has the default {e}, which is Spark's SQL: give the column, or use rowlock.write(df, path)"
        raise UnsupportedFeature(text, feature=DEFAULTS, access="write", table=table) from None


class Fitting:
    """Casts rows of one Arrow schema to the columns of a table; made once and used for every batch."""

    def __init__(self, rows: pa.Schema, table: StructType, path: str, numbers: Callable[[Sequence[Identity]], Numbers]) -> None:
        """Raises SchemaMismatch for an unknown column, an absent NOT NULL column, or a type that does not fit, UnsupportedFeature for an absent column
        whose default only Spark can evaluate, StatementRefused for a column that is GENERATED ALWAYS AS IDENTITY.  `numbers` reserves those of identity columns."""
        identities = {i.name: i for i in identity_columns(table)}
        self._fit = schema_fit.fit(schema_of_rows(rows, path), table, path, computed=column_defaults(table).keys() | identities.keys())
        refuse_explicit(table, {name.lower() for name in rows.names}, path)
        self._identities = {name: i for name, i in identities.items() if self._fit.given[name] is None}
        self._numbers, self._firsts = numbers(tuple(self._identities.values())), dict[str, int]()
        self._absent = {f.name: _default_of(f, path) for f in table.fields if self._fit.given[f.name] is None}
        self._schema, self._path, self._bounds = nullable_schema(to_arrow(table)), path, bounds(table)

    @property
    def columns(self) -> tuple[str, ...]:
        """The table's columns for which the rows have values, numbers of identity columns included."""
        return (*self._fit.columns, *self._identities)

    def __call__(self, rows: pa.Table) -> pa.Table:
        """Rows under the table's names, order and types, all nullable.  Raises SchemaMismatch where a value does not fit."""
        self._firsts = dict(self._numbers.take(rows.num_rows))
        columns = [self._filled(f, rows) if (given := self._fit.given[f.name]) is None else self._column(rows.column(given), f) for f in self._schema]
        if self._bounds:
            columns = [fitted_text(c, bound) if (bound := self._bounds.get(f.name)) is not None else c for c, f in zip(columns, self._schema, strict=True)]
        return pa.Table.from_arrays(columns, schema=self._schema)

    def _filled(self, wanted: pa.Field, rows: pa.Table) -> pa.Array:
        """The values of a column that the rows lack: numbers of an identity column, or its default."""
        identity = self._identities.get(wanted.name)
        if identity is None:
            return pa.repeat(pa.scalar(self._absent[wanted.name], wanted.type), rows.num_rows)
        return pa.array(self._firsts[identity.name] + np.arange(rows.num_rows, dtype=np.int64) * identity.step)

    def _column(self, values: pa.ChunkedArray, wanted: pa.Field) -> pa.ChunkedArray:
        if values.type == wanted.type:
            return values
        try:
            return pa.chunked_array([_cast(chunk, wanted.type) for chunk in values.chunks], wanted.type)
        except pa.ArrowInvalid as e:
            raise SchemaMismatch(f"A value of column {wanted.name} does not fit {wanted.type} exactly: {e}; round or cast it", table=self._path) from None
        except pa.ArrowNotImplementedError as e:
            text = f"Column {wanted.name} is {values.type} in the rows, which Arrow cannot make {wanted.type}: {e}; cast it"
            raise SchemaMismatch(text, table=self._path) from None


def _cast(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Values of a type that fits, as the wanted type; struct fields are matched without regard to case."""
    if pa.types.is_dictionary(values.type):
        return pa.DictionaryArray.from_arrays(values.indices, values.dictionary.cast(wanted)).dictionary_decode()
    if pa.types.is_list(wanted) and not pa.types.is_null(values.type):
        lists = values if pa.types.is_list(values.type) else values.cast(pa.list_(values.type.value_type))
        return _around(lists, wanted, _cast(lists.values, wanted.value_type))
    if pa.types.is_map(wanted) and pa.types.is_map(values.type):
        held = [_cast(values.keys, wanted.key_type), _cast(values.items, wanted.item_type)]
        return _around(values, wanted, pa.StructArray.from_arrays(held, fields=[wanted.key_field, wanted.item_field]))
    if not (pa.types.is_struct(wanted) and pa.types.is_struct(values.type)):
        return values.cast(wanted)
    at = {f.name.lower(): n for n, f in enumerate(values.type)}
    parts = [_cast(pc.struct_field(values, [at[f.name.lower()]]), f.type) if f.name.lower() in at else pa.nulls(len(values), f.type) for f in wanted]
    return pa.StructArray.from_arrays(parts, fields=list(wanted), mask=pc.is_null(values))


def _around(values: pa.Array, wanted: pa.DataType, held: pa.Array) -> pa.Array:
    """Lists or maps with other contents in the same places."""
    return pa.Array.from_buffers(wanted, len(values), values.buffers()[:2], offset=values.offset, children=[held])
