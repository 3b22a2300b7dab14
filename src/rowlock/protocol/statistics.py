"""Per-file statistics: minima, maxima and null counts of a file's columns, as the log's JSON; and the leaf columns of a Parquet file, from which they come.

Every written bound is a true bound: strings are truncated for a minimum and raised for a maximum, timestamps
rounded down and up to the millisecond, and columns that cannot be bounded are left out.  A false bound would be
a lost update (I5).

A footer names a leaf by its path with dots in between, so that a column `a.b` and the field b of a struct a
look the same; here the file's schema is walked instead.  Names are matched as in Spark, ignoring case.  Pure.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rowlock.conditions import named
from rowlock.exceptions import InvalidInput
from rowlock.protocol import schema as schemas
from rowlock.protocol.actions import Metadata
from rowlock.protocol.arrow_types import is_list, to_arrow_type
from rowlock.protocol.partition_values import since_1970
from rowlock.protocol.properties import STATS_COLUMNS, TableProperties
from rowlock.protocol.schema import ArrayType, ColumnPath, DataType, DecimalType, MapType, PrimitiveType, StructType, column_path, lower_case


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf column: its index in the footer, its path through structs, and whether it is inside an array or map (`repeated`)."""

    index: int
    path: ColumnPath
    repeated: bool


def leaves_of(metadata: pq.FileMetaData) -> list[Leaf] | None:
    """Every leaf of a file, in footer order; None if the footer and Arrow's schema disagree on their number, so that no leaf can be identified."""
    every = (leaf for f in metadata.schema.to_arrow_schema() for leaf in _leaves((f.name,), f.type, False))
    found = [Leaf(n, path, repeated) for n, (path, repeated) in enumerate(every)]
    return found if len(found) == metadata.num_columns else None


def _leaves(path: ColumnPath, type_: pa.DataType, repeated: bool) -> Iterator[tuple[ColumnPath, bool]]:
    if isinstance(type_, pa.BaseExtensionType):
        type_ = type_.storage_type
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    if pa.types.is_struct(type_):
        for f in type_:
            yield from _leaves(path if repeated else (*path, f.name), f.type, repeated)
    elif pa.types.is_map(type_):
        yield from _leaves(path, type_.key_type, True)
        yield from _leaves(path, type_.item_type, True)
    elif is_list(type_):
        yield from _leaves(path, type_.value_type, True)
    else:
        yield path, repeated


def has_ambiguous_names(schema: StructType) -> bool:
    """Whether two columns in data files may have the same dotted name.

    parquet-mr then mistakes the dictionary of one column for the other's and skips row groups by it, so files of
    such tables are written without dictionaries, and Spark reads them without dictionary filters.
    """
    dotted = any("." in f.physical_name or "." in f.name for _, f in schema.all_fields())
    return dotted and any(isinstance(f.type, (StructType, ArrayType, MapType)) for f in schema.fields)


STRING_PREFIX_CHARACTERS = 32
_NO_BOUNDS = frozenset({"binary", "boolean", "variant", "void"})
_EPOCH = dt.datetime(1970, 1, 1)
_COUNT_FIRST = re.compile(r'\{\s*"numRecords"\s*:\s*\d')


def indexed_leaves(
    schema: StructType, *, num_indexed: int = 32, stats_columns: Sequence[str] | None = None, partition_columns: Iterable[str] = ()
) -> list[tuple[ColumnPath, DataType]]:
    """The leaf columns that get statistics, as (physical path, type): the first `num_indexed` (-1: all), or those at or below `stats_columns`."""
    partitions = {p.lower() for p in partition_columns}
    named = None if stats_columns is None else [lower_case(column_path(c.strip())) for c in stats_columns]
    leaves = [(path, leaf) for path, leaf in schema.leaves() if path[0].lower() not in partitions]
    if named is not None:
        leaves = [(path, leaf) for path, leaf in leaves if any(lower_case(path)[: len(n)] == n for n in named)]
    elif num_indexed >= 0:
        leaves = leaves[:num_indexed]
    return [(physical, leaf.type) for path, leaf in leaves if (physical := schema.physical_path(path)) is not None]


def check_stats_columns(metadata: Metadata, given: Mapping[str, str], table: str | None) -> None:
    """Raises InvalidInput where `given` lists a column to have statistics that is not there, partitions the table, has a type without bounds, or is listed twice."""
    if STATS_COLUMNS not in given:
        return
    schema, seen = schemas.parse_schema(metadata.schema_string), list[ColumnPath]()
    fields, partitions = {lower_case(path): f for path, f in schema.all_fields()}, {p.lower() for p in metadata.partition_columns}
    for path in map(column_path, TableProperties(given).stats_columns or ()):
        name, found = schemas.column_name(path), fields.get(lower_case(path))
        if len(path) == 1 and path[0].lower() in partitions:
            what, condition = f"{name} is a partition column", named("DELTA_COLUMN_DATA_SKIPPING_NOT_SUPPORTED_PARTITIONED_COLUMN", column=name)
        elif found is None:
            what, condition = f"there is no column {name}", named("DELTA_COLUMN_NOT_FOUND_IN_SCHEMA", columnName=name, tableSchema=", ".join(schema.names))
        elif len(path) == 1 and (isinstance(found.type, (ArrayType, MapType)) or schemas.type_name(found.type) in _NO_BOUNDS - {"variant"}):
            type_ = schemas.type_name(found.type, sql=True)
            what, condition = f"{name} is of type {type_}, which has no bounds", named("DELTA_COLUMN_DATA_SKIPPING_NOT_SUPPORTED_TYPE", column=name, type=type_)
        elif twice := next((max(c, path, key=len) for c in seen if c[: len(path)] == path or path[: len(c)] == c), None):
            name = schemas.column_name(twice)
            what, condition = f"{name} is listed twice", named("DELTA_DUPLICATE_DATA_SKIPPING_COLUMNS", columns=name)
        else:
            seen.append(path)
            continue
        raise InvalidInput(f"property {STATS_COLUMNS} = {given[STATS_COLUMNS]!r} is not possible: {what}", table=table, condition=condition)


def with_stats_columns(metadata: Metadata, path: ColumnPath, new: str | None) -> Metadata:
    """The metadata with the columns to have statistics as they are called once a column is renamed; without it and its fields where `new` is None."""
    if (listed := TableProperties(metadata.configuration).stats_columns) is None:
        return metadata
    names, depth = map(column_path, listed), len(path)
    after = [(*n[: depth - 1], new, *n[depth:]) if new is not None and lower_case(n[:depth]) == lower_case(path) else n for n in names]
    kept = [n for n in after if new is not None or lower_case(n[:depth]) != lower_case(path)]
    return replace(metadata, configuration={**metadata.configuration, STATS_COLUMNS: ",".join(map(schemas.column_name, kept))})


class Gathered:
    """The statistics of one file whose rows come in portions, as tables with columns by physical name; bounds of texts have at most so many characters."""

    def __init__(self, leaves: Sequence[tuple[ColumnPath, DataType]], *, text_characters: int = STRING_PREFIX_CHARACTERS) -> None:
        self._leaves, self._text_characters, self._num_rows = leaves, text_characters, 0
        self._nulls: dict[ColumnPath, int] = {}
        self._bounds: dict[ColumnPath, tuple[Any, ...] | None] = {}
        """None where the values have no bounds: a NaN is among them, or text that is not UTF-8."""

    def add(self, table: pa.Table) -> None:
        """Counts more rows in."""
        self._num_rows += table.num_rows
        for path, type_ in self._leaves:
            column = leaf_values(table, path)
            nulls = table.num_rows if column is None else column.null_count
            self._nulls[path] = self._nulls.get(path, 0) + nulls
            known = self._bounds.get(path, ())
            if column is not None and nulls < len(column) and known is not None and has_bounds(type_):
                more = _extremes(column, type_)
                self._bounds[path] = (min(known[0], more[0]), max(known[1], more[1])) if known and more else more

    def text(self) -> str:
        """The statistics of all rows so far."""
        return with_bounds(self._num_rows, self._leaves, self._bounds, self._nulls, self._text_characters)


def from_arrow(table: pa.Table, leaves: Sequence[tuple[ColumnPath, DataType]], *, text_characters: int = STRING_PREFIX_CHARACTERS) -> str:
    """The statistics of one file that holds the rows of `table` (see `Gathered`)."""
    gathered = Gathered(leaves, text_characters=text_characters)
    gathered.add(table)
    return gathered.text()


def _extremes(column: pa.ChunkedArray, type_: DataType) -> tuple[Any, Any] | None:
    """The least and the greatest value of a column that has one, a time as its number since 1970; None where they are no bounds."""
    if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
        return None
    found = pc.min_max(column.cast(to_arrow_type(type_)))
    try:  # Spark casts binary to text that may not be valid UTF-8, which JSON cannot hold
        return _scalar_value(found["min"]), _scalar_value(found["max"])
    except UnicodeDecodeError:
        return None


def with_bounds(
    num_rows: int,
    leaves: Sequence[tuple[ColumnPath, DataType]],
    bounds: Mapping[ColumnPath, tuple[Any, ...] | None],
    nulls: Mapping[ColumnPath, int],
    text_characters: int,
) -> str:
    """The statistics of one file from the (least, greatest) value of each leaf that has bounds, and the number of its nulls."""
    stated = [(path, _stated(type_, found[0], found[1], text_characters)) for path, type_ in leaves if (found := bounds.get(path)) is not None]
    lows, highs = ({path: both[n] for path, both in stated if both[n] is not None} for n in (0, 1))
    parts = {"minValues": _nested(lows), "maxValues": _nested(highs), "nullCount": _nested(nulls)}
    return orjson.dumps({"numRecords": num_rows, **parts, "tightBounds": True}).decode()


def _scalar_value(scalar: pa.Scalar) -> Any:
    """The Python value of a scalar; a time as its number since 1970, since Python's years end at 9999."""
    return scalar.value if pa.types.is_timestamp(scalar.type) or pa.types.is_date32(scalar.type) else scalar.as_py()


def leaf_values(table: pa.Table, path: ColumnPath) -> pa.ChunkedArray | None:
    """The values of a nested leaf, null where an enclosing struct is null; None if the rows lack the column."""
    if (at := table.schema.get_field_index(path[0])) < 0:
        return None
    column: pa.ChunkedArray = table.column(at)
    for name in path[1:]:
        if not pa.types.is_struct(column.type) or column.type.get_field_index(name) < 0:
            return None
        column = pc.struct_field(column, [name])
    return column


def from_parquet_metadata(metadata: pq.FileMetaData, leaves: Sequence[tuple[ColumnPath, DataType]], *, text_characters: int = STRING_PREFIX_CHARACTERS) -> str:
    """The statistics of one file from its Parquet footer; bounds that the footer does not hold exactly are left out, those of texts have at most so many characters."""
    index: dict[ColumnPath, list[int]] = {}
    for leaf in leaves_of(metadata) or ():
        if not leaf.repeated:
            index.setdefault(lower_case(leaf.path), []).append(leaf.index)
    nulls: dict[ColumnPath, int] = {}
    known: dict[ColumnPath, tuple[Any, Any]] = {}
    for path, type_ in leaves:
        found = index.get(lower_case(path), ())
        if len(found) != 1 or isinstance(type_, (ArrayType, MapType)):
            continue  # absent, or ambiguous because two columns differ only by case
        footers = footer_statistics(metadata, found[0])
        if any(s is None or not s.has_null_count for s in footers):
            continue
        nulls[path] = sum(s.null_count for s in footers)
        filled = [s for g, s in enumerate(footers) if s.null_count < metadata.row_group(g).num_rows]
        if not filled or not has_bounds(type_) or any(not s.has_min_max for s in filled):
            continue
        try:
            bounds = [(_footer_value(s.min, type_), _footer_value(s.max, type_)) for s in filled]
        except (TypeError, ValueError, ArithmeticError):
            continue
        if any(b is None for pair in bounds for b in pair) or (isinstance(type_, PrimitiveType) and type_.name in ("float", "double")):
            continue  # a footer may leave out NaN, which Spark orders above every number
        known[path] = min(b[0] for b in bounds), max(b[1] for b in bounds)
    return with_bounds(metadata.num_rows, leaves, known, nulls, text_characters)


def footer_statistics(metadata: pq.FileMetaData, column: int) -> list[Any]:
    """A column's `pq.Statistics` in each row group; None where a group has none, or has another type of the column than the file's schema."""
    type_ = metadata.schema.column(column).physical_type
    chunks = (metadata.row_group(g).column(column) for g in range(metadata.num_row_groups))
    return [chunk.statistics if chunk.physical_type == type_ else None for chunk in chunks]  # pyarrow 26 ends the process where the types differ


def _footer_value(value: Any, type_: DataType) -> Any:
    """A footer's minimum or maximum, a time as its number since 1970; None if it does not fit the column's type."""
    name = type_.name if isinstance(type_, (PrimitiveType, DecimalType)) else ""
    if name.startswith("timestamp"):
        return since_1970(value) if isinstance(value, dt.datetime) else None
    if isinstance(type_, DecimalType):
        return value if isinstance(value, decimal.Decimal) else None
    if name == "string":
        return value if isinstance(value, str) else None
    if name == "date":
        return since_1970(value) if isinstance(value, dt.date) and not isinstance(value, dt.datetime) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else value if isinstance(value, float) else None


def has_bounds(type_: DataType) -> bool:
    """Whether statistics have a least and a greatest value of columns of this type."""
    return isinstance(type_, DecimalType) or (isinstance(type_, PrimitiveType) and type_.name not in _NO_BOUNDS)


def _stated(type_: DataType, low: Any, high: Any, text_characters: int) -> tuple[Any, Any]:
    """The bounds as statistics state them, rounded outwards; None for one that they cannot."""
    name = type_.name if isinstance(type_, (PrimitiveType, DecimalType)) else ""
    if name == "string":
        low, high = low[:text_characters], upper_bound_prefix(high, text_characters)
    elif name in ("timestamp", "timestamp_ntz"):
        zone = "Z" if name == "timestamp" else ""
        low, high = _millis_text(low // 1000, zone), _millis_text(-(-high // 1000), zone)
    elif name == "date":
        low, high = _day_text(low), _day_text(high)
    elif isinstance(type_, DecimalType):
        low, high = orjson.Fragment(format(low, "f")), orjson.Fragment(format(high, "f"))  # exact
    elif isinstance(low, float):
        low = None if not math.isfinite(low) else -0.0 if low == 0 else low
        high = None if not math.isfinite(high) else 0.0 if high == 0 else high
    return low, high


def _millis_text(millis: int, zone: str) -> str | None:
    try:
        return (_EPOCH + dt.timedelta(milliseconds=millis)).isoformat(timespec="milliseconds") + zone
    except OverflowError:
        return None


def _day_text(days: int) -> str | None:
    """A date as ISO text; None for a year that not every reader supports."""
    try:
        return (_EPOCH + dt.timedelta(days=days)).date().isoformat()
    except OverflowError:
        return None


def upper_bound_prefix(value: str, limit: int = STRING_PREFIX_CHARACTERS) -> str | None:
    """An upper bound of `value` of at most `limit` characters, in code point, UTF-8 and UTF-16 order alike; None if there is none.

    The last character that can be raised is raised: ASCII to DEL, others by one.  Characters from the surrogates on
    are not raised, since the three orders differ there.
    """
    if len(value) <= limit:
        return value
    for cut in range(limit - 1, -1, -1):
        code = ord(value[cut])
        if code < 0x7F:
            return value[:cut] + "\x7f"
        if code < 0xD7FF:
            return value[:cut] + chr(code + 1)
    return None


def _nested(values: Mapping[ColumnPath, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for path, value in values.items():
        into = out
        for name in path[:-1]:
            into = into.setdefault(name, {})
        into[path[-1]] = value
    return out


def widened(stats: str | None, num_records: int | None = None) -> str | None:
    """The statistics of an add with a deletion vector: the same bounds, marked as wide (`tightBounds` false).

    `num_records` (physical rows) is filled in if the statistics lack it, since a deletion vector requires it.
    """
    if stats is None:
        return None if num_records is None else f'{{"numRecords":{num_records},"tightBounds":false}}'
    body = stats.strip()
    if num_records is None or _COUNT_FIRST.match(body):  # the first and last keys are top-level ones, whatever the columns are called
        if body.endswith('"tightBounds":false}'):
            return stats
        if body.endswith('"tightBounds":true}'):
            return body[: -len("true}")] + "false}"
    try:
        parsed = json.loads(body, parse_float=orjson.Fragment, parse_int=orjson.Fragment)  # numbers as they are written
    except ValueError:
        parsed = None
    parsed = parsed if isinstance(parsed, dict) else {}
    if num_records is not None and "numRecords" not in parsed:
        parsed = {"numRecords": num_records, **parsed}
    return orjson.dumps({**parsed, "tightBounds": False}).decode()
