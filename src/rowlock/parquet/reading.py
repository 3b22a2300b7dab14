"""Reads one data file under the table's columns, with exactly the values that Spark would read.

Where that is not certain, `Doubtful` is raised: a caller with Spark then lets Spark read the file, one without names the
cause to the user (I9).  Old calendars and INT96 are certain if every value lies after the last difference between the
calendars; so are columns whose type was widened after the file was written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rowlock.exceptions import CorruptLog, UnsupportedFeature
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.files import open_parquet
from rowlock.parquet.physical import Doubtful, columns_by_id, columns_in, file_schema, names_in_files, relabelled, spelled_as
from rowlock.parquet.values import leaves, padded, padded_within
from rowlock.parquet.variants import has_variant, is_variant_group, with_whole_variants
from rowlock.protocol import partition_values
from rowlock.protocol.actions import AddFile
from rowlock.protocol.arrow_types import from_arrow_type, is_list, is_variant, legacy_calendars
from rowlock.protocol.char_varchar import KEY, Inner, bounds, inner_bounds, is_char
from rowlock.protocol.properties import column_mapping_mode
from rowlock.protocol.schema import PrimitiveType
from rowlock.protocol.schema_fit import is_wider
from rowlock.protocol.statistics import leaves_of
from rowlock.storage.store import ObjectStore

Positions = np.ndarray[Any, Any]

_GREGORIAN_DAY = -141_427
"""1582-10-15 in days since 1970-01-01: for earlier dates the calendars of Spark 2 and Spark 3 differ."""
_GREGORIAN_MICROS = -2_208_988_800_000_000
"""1900-01-01T00:00Z in microseconds since 1970: for later times both calendars agree in every time zone."""


def read_file(
    store: ObjectStore,
    file: AddFile,
    snapshot: Snapshot,
    wanted: pa.Schema,
    positions: Positions | None = None,
    *,
    case_sensitive: bool = False,
    time_zone: str | None = None,
) -> pa.Table:
    """Reads the physical rows of a file, or those at sorted `positions`, under the columns `wanted` (of the table, all nullable).

    Reads only the footer and the columns and row groups that are needed.  `case_sensitive` is spark.sql.caseSensitive:
    without it names that differ by case are the same column.  `time_zone` is that of timestamp partition values which state none.
    Raises Doubtful, CorruptLog.
    """
    if snapshot.metadata.partition_columns:
        _check_zones(file, snapshot, wanted.names, time_zone)
    with open_parquet(store, file.path, file.size_bytes) as source:
        opened = DataFile(source, file, snapshot, wanted, case_sensitive=case_sensitive, time_zone=time_zone)
        if positions is None:
            data, num_rows = source.read(columns=opened.given), source.metadata.num_rows
        else:
            data, num_rows = _read_positions(source, opened.given, positions), len(positions)
    return opened.logical(data, num_rows)


class DataFile:
    """An open data file and the columns `wanted` in it (see `read_file`).  Raises Doubtful for one that Spark might read otherwise."""

    def __init__(
        self,
        source: pq.ParquetFile,
        file: AddFile,
        snapshot: Snapshot,
        wanted: pa.Schema,
        *,
        case_sensitive: bool = False,
        time_zone: str | None = None,
    ) -> None:
        self.source, self._file, self._snapshot, self._wanted, self._time_zone = source, file, snapshot, wanted, time_zone
        there, by_id = source.schema_arrow, column_mapping_mode(snapshot.metadata.configuration) == "id"
        own = [n for n in wanted.names if n not in snapshot.metadata.partition_columns]
        held = columns_by_id(there, snapshot, own) if by_id else columns_in(there, snapshot, own, case_sensitive=case_sensitive)
        self._names, self.given = list(held), list(held.values())
        self._schema = file_schema(snapshot, self._names)
        pairs = [(there.field(n), f) for f, n in zip(self._schema, self.given, strict=True)]
        self._spelled = pa.schema([pa.field(f.name, spelled_as(have.type, f.type, case_sensitive=case_sensitive, by_id=by_id)) for have, f in pairs])
        self._times = _DatesAndTimes(source)
        for have, f, n in zip(self._spelled, self._schema, self.given, strict=True):
            _check_type(have.type, f.type, f.name, self._times.is_int96(n))

    def portions(self, group: int, portion_rows: int, also: Sequence[str] = ()) -> Iterator[tuple[pa.Table, pa.Table]]:
        """The rows of a row group, so many at a time: under the columns `wanted`, and the columns `also` as the file has them."""
        read = [*self.given, *also]
        if not read:
            yield self.logical(pa.table({}), self.source.metadata.row_group(group).num_rows), pa.table({})
            return
        for batch in self.source.iter_batches(portion_rows, row_groups=[group], columns=read):
            data = pa.Table.from_batches([batch])
            yield self.logical(data, batch.num_rows), data.select(list(also))

    def logical(self, data: pa.Table, num_rows: int) -> pa.Table:
        """Rows of the columns `given` as they were read, under the columns `wanted`."""
        data = data.select(self.given)
        self._times.check(data)
        try:
            whole = _unshredded(relabelled(data, self._spelled), self._schema).cast(self._schema)
            data = relabelled(whole, pa.schema([self._wanted.field(n) for n in self._names]))
        except pa.ArrowInvalid as e:  # binary values in a text column
            raise Doubtful(str(e), "text that is not UTF-8") from e
        except pa.ArrowKeyError as e:  # a dictionary inside of a column that has another name in the file
            raise Doubtful(str(e), "a dictionary in a column that differs by case") from e
        return logical_rows(data, num_rows, self._file, self._snapshot, self._wanted, self._time_zone)


def _unshredded(data: pa.Table, schema: pa.Schema) -> pa.Table:
    for n, f in enumerate(schema):
        if has_variant(f.type):
            data = data.set_column(n, f.name, with_whole_variants(data.column(n), f.type))
    return data


def logical_rows(data: pa.Table, num_rows: int, file: AddFile, snapshot: Snapshot, wanted: pa.Schema, time_zone: str | None = None) -> pa.Table:
    """Completes a file's columns to the schema `wanted`: partition values from the log, nulls for columns that the file lacks."""
    columns: list[Any] = []
    stored, bound, held = names_in_files(snapshot), bounds(snapshot.schema), dict(zip(data.column_names, data.columns, strict=True))
    for f in wanted:
        if f.name in snapshot.metadata.partition_columns:
            field = snapshot.schema.find(f.name)
            assert field is not None
            try:
                value = partition_values.parse_stored(file.partition_values.get(stored[f.name]), field.type, time_zone)
            except CorruptLog as e:
                raise CorruptLog(str(e), table=snapshot.table, file=file.path) from e
            columns.append(pa.repeat(pa.scalar(value, f.type), num_rows))
        elif f.name in held:
            columns.append(held[f.name].cast(f.type))
        else:
            columns.append(pa.nulls(num_rows, f.type))
        if f.name in bound:
            columns[-1] = padded(columns[-1], bound[f.name])
        elif (inner := _inner_chars(f.name, snapshot)) is not None:
            columns[-1] = padded_within(columns[-1], inner).cast(f.type)
    return pa.table(columns, schema=wanted) if columns else pa.table({})


def _inner_chars(name: str, snapshot: Snapshot) -> Inner:
    field = snapshot.schema.find(name)
    try:
        return inner_bounds(field) if field is not None and is_char(field.metadata.get(KEY)) else None
    except ValueError as e:
        raise Doubtful(f"column {name} holds char values, but which is not clear: {e}", "char inside of other types") from e


def _check_zones(file: AddFile, snapshot: Snapshot, wanted: Sequence[str], time_zone: str | None) -> None:
    """Raises Doubtful for a timestamp partition value of a wanted column that has no time zone, or one that Spark alone knows: it is read in the session's."""
    stored = names_in_files(snapshot)
    for f in snapshot.schema.fields:
        value = file.partition_values.get(stored[f.name]) if f.name in wanted and f.name in snapshot.metadata.partition_columns else None
        if not value or f.type != PrimitiveType("timestamp") or (stated := partition_values.states_zone(value)):
            continue
        if stated is None:
            raise Doubtful(f"partition value {value!r} of column {f.name} is a time that only Spark knows", "partition timestamps as Spark alone reads them")
        if time_zone is None:
            text = f"partition value {value!r} of column {f.name} has no time zone: Spark takes it in that of its session; say which with time_zone="
            raise Doubtful(text, "partition timestamps without a zone")


class _DatesAndTimes:
    """Knows which dates and times of one file may have been written in the calendar of Spark 2."""

    def __init__(self, source: pq.ParquetFile) -> None:
        known = leaves_of(source.metadata)
        if known is None:
            raise Doubtful("its columns are not as many to Arrow as its footer says", "an unknown kind of column")
        leaves = [(leaf.path[0], source.schema.column(leaf.index)) for leaf in known]
        self._int96 = {top for top, leaf in leaves if leaf.physical_type == "INT96"}
        self._naive = {top for top, leaf in leaves if leaf.physical_type == "INT64" and "isAdjustedToUTC=false" in str(leaf.logical_type)}
        self._legacy, self._legacy_int96 = legacy_calendars(source.metadata.metadata or {})

    def is_int96(self, column: str) -> bool:
        """Whether a column is INT96: Arrow reads it without a time zone, but its values are instants in UTC."""
        return column in self._int96 and column not in self._naive

    def check(self, data: pa.Table) -> None:
        """Raises Doubtful where a value that was read may be in the old calendar."""
        for name in data.column_names:
            if self._legacy or (name in self._int96 and self._legacy_int96):
                for chunk in data.column(name).chunks:
                    _check_recent(chunk, name)


def _check_recent(values: pa.Array, name: str) -> None:
    for leaf in leaves(values):
        if pa.types.is_timestamp(leaf.type):
            first, limit = pc.min(leaf).cast(pa.timestamp("us", tz=leaf.type.tz)), _GREGORIAN_MICROS
        elif pa.types.is_date32(leaf.type):
            first, limit = pc.min(leaf), _GREGORIAN_DAY
        else:
            continue
        if first.is_valid and first.value < limit:
            raise Doubtful(f"column {name} holds {first.as_py()}, which may be counted in the calendar of Spark 2", "dates and times in an old calendar")


def _check_type(have: pa.DataType, want: pa.DataType, name: str, int96: bool) -> None:
    if not _reads_alike(have, want, int96):
        held = f"{have} as INT96" if int96 else str(have)
        raise Doubtful(f"column {name} is {held} in the file and {want} in the table", f"a column of type {want} that is {held} in a file")


def _reads_alike(have: pa.DataType, want: pa.DataType, int96: bool) -> bool:
    """Whether a file's column of type `have` certainly reads as the same values of type `want`; with `int96`, times without a zone are UTC."""
    if is_variant(want):
        return is_variant_group(have)
    if have == want and not pa.types.is_nested(have):
        return not (int96 and pa.types.is_timestamp(have))
    if pa.types.is_timestamp(want):
        if pa.types.is_date32(have):
            return want.tz is None
        if not (pa.types.is_timestamp(have) and have.unit in ("us", "ms")):
            return False
        return want.tz is not None or (have.tz is None and not int96)  # to a column of instants Spark's reader takes local times as they are, in UTC
    if pa.types.is_struct(have) and pa.types.is_struct(want):
        known = {f.name: f.type for f in have}
        return (
            len(known) == have.num_fields
            and any(f.name in known for f in want)
            and all(_reads_alike(known[f.name], f.type, int96) for f in want if f.name in known)
        )
    if is_list(have) and pa.types.is_list(want):
        return _reads_alike(have.value_type, want.value_type, int96)
    if pa.types.is_map(have) and pa.types.is_map(want):
        return _reads_alike(have.key_type, want.key_type, int96) and _reads_alike(have.item_type, want.item_type, int96)
    return _is_exact(have, want)


def _is_exact(have: pa.DataType, want: pa.DataType) -> bool:
    if pa.types.is_null(have):
        return not pa.types.is_nested(want)
    if any(pa.types.is_nested(t) or pa.types.is_null(t) for t in (have, want)):
        return False
    try:
        actual, wanted = from_arrow_type(have), from_arrow_type(want)
    except UnsupportedFeature:
        return False
    binaries = {PrimitiveType("string"), PrimitiveType("binary")}
    return is_wider(actual, wanted) or actual == wanted or ({actual, wanted} == binaries and not pa.types.is_fixed_size_binary(have))


def _read_positions(source: pq.ParquetFile, columns: Sequence[str], positions: Positions) -> pa.Table:
    """Reads the rows at sorted positions, from only those row groups that hold one."""
    sizes = [source.metadata.row_group(g).num_rows for g in range(source.metadata.num_row_groups)]
    starts = np.r_[0, np.cumsum(sizes)]
    parts = []
    for g in range(len(sizes)):
        inside = positions[(positions >= starts[g]) & (positions < starts[g + 1])] - starts[g]
        if len(inside):
            parts.append(source.read_row_group(g, columns=list(columns)).take(pa.array(inside)))
    return pa.concat_tables(parts) if parts else source.schema_arrow.empty_table().select(list(columns))
