"""`rowlock.to_arrow`: a version of a table as one Arrow table, with no Spark and no JVM.

The rows are those that Spark would read.  A file of which that is not certain is named and refused (I9).
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping, Sequence

import pyarrow as pa

from rowlock import arguments
from rowlock.api.append import opened
from rowlock.engines.appends.engine import ArrowEngine
from rowlock.exceptions import InvalidInput, UnsupportedFeature
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.physical import Doubtful, doubting, nullable_schema
from rowlock.parquet.reading import read_file
from rowlock.protocol.actions import AddFile
from rowlock.protocol.arrow_types import to_arrow as arrow_schema
from rowlock.protocol.deletion_vector import living_mask
from rowlock.protocol.schema import StructField
from rowlock.threads import side_by_side
from rowlock.transaction.state.shared import SharedState, local_milliseconds, snapshot_of


def to_arrow(
    path: str | os.PathLike[str],
    version: int | None = None,
    timestamp: str | datetime.datetime | None = None,
    columns: Sequence[str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    time_zone: str | None = None,
) -> pa.Table:
    """A table's rows as one Arrow table, in no particular order.  Needs no Spark and no JVM.

    Args:
        path: A local path or a URL, as `rowlock.append` takes it.
        version: The version to read, 0 or more; by default the newest.
        timestamp: Read the version that was the newest then: a datetime or ISO text, in the time zone of the Python process where it has none.
        columns: Names of the columns wanted, in any case, in the order of the result; only they are read.  By default all.
        storage_options: How to reach a cloud, as in `rowlock.append`.
        time_zone: The zone of timestamp partition values that state none, as `Europe/Vienna`, `UTC` or `+02:00`: what the session's zone is to Spark.  Without it such a
            value is refused.

    Returns:
        A pyarrow Table.  Timestamps are microseconds, with the zone UTC or with none.  A variant is a struct of the binaries `value` and `metadata`, as
        PySpark gives it.

    Raises:
        TableNotFound: There is no Delta table at the path.
        VersionNotFound: The log does not hold the version, or does not reach to the time.
        InvalidInput: The table lacks a column, both a version and a timestamp are given, text that is no time, or a time zone that is not known.
        UnsupportedFeature: What Spark would read of a file is not certain, or the table needs a feature that this version cannot read; use `rowlock.read`.
        CorruptLog: The table's log is damaged, or a data file is gone.

    Examples:
        >>> rowlock.to_arrow(path, columns=["amount"]).column("amount").to_pylist()
        [10.0, 20.0, 30.0]
    """
    zone = None if time_zone is None else arguments.time_zone(time_zone, "time_zone")
    wanted_version = None if version is None else arguments.number(version, "version")
    state = opened(path, storage_options)
    snapshot = snapshot_of(state, wanted_version, None if timestamp is None else local_milliseconds(timestamp, state.store.root))
    chosen = _chosen(snapshot, columns)
    files = list(snapshot.files.adds())
    wanted = _wanted(snapshot, chosen)
    tables = side_by_side(lambda f: _living(state, f, snapshot, wanted, zone), files, limits().file_threads)
    return _joined(tables, snapshot, chosen)


def first_rows(state: SharedState, snapshot: Snapshot, columns: Sequence[str], limit: int) -> pa.Table:
    """Up to `limit` rows, whichever are at hand; no more files are read than it takes."""
    chosen, tables, left = _chosen(snapshot, columns), [], limit
    for file in snapshot.files.adds():
        if left <= 0:
            break
        tables.append(_living(state, file, snapshot, _wanted(snapshot, chosen)).slice(0, left))
        left -= tables[-1].num_rows
    return _joined(tables, snapshot, chosen)


def count_rows(state: SharedState, snapshot: Snapshot) -> int:
    """How many rows live in a version: by the log, and by the footers of files whose statistics do not say it."""
    count = ArrowEngine(state.store).count
    dead = sum(f.dead_rows for f in snapshot.files.adds())
    return sum(f.physical_rows(count) for f in snapshot.files.adds()) - dead


def _wanted(snapshot: Snapshot, chosen: Sequence[StructField]) -> pa.Schema:
    """The Arrow schema to read files with."""
    every = {f.name: f for f in arrow_schema(snapshot.schema)}
    return nullable_schema(pa.schema([every[f.name] for f in chosen]))


def _joined(tables: Sequence[pa.Table], snapshot: Snapshot, chosen: Sequence[StructField]) -> pa.Table:
    """The files' rows as one table in the wanted columns."""
    wanted = _wanted(snapshot, chosen)
    rows = pa.concat_tables(tables) if tables else wanted.empty_table()
    return pa.Table.from_arrays(rows.columns, schema=pa.schema([f.with_nullable(own.nullable) for f, own in zip(wanted, chosen, strict=True)]))


def _chosen(snapshot: Snapshot, columns: Sequence[str] | None) -> list[StructField]:
    """The fields of the wanted columns.  Raises InvalidInput for a column that the table lacks."""
    fields = list(snapshot.schema.fields)
    if columns is not None:
        columns = arguments.name_list(columns, "columns", snapshot.table)
        if not columns or len({c.lower() for c in columns}) < len(columns):
            raise InvalidInput(f"Name the columns, each once, or leave columns out; not {list(columns)}", table=snapshot.table)
        found = [(name, snapshot.schema.find(name)) for name in columns]
        if missing := [name for name, field in found if field is None]:
            raise InvalidInput(f"The table has no column {missing[0]!r}; it has {', '.join(snapshot.schema.names)}", table=snapshot.table)
        fields = [field for _, field in found if field is not None]
    return fields


def _living(state: SharedState, file: AddFile, snapshot: Snapshot, wanted: pa.Schema, zone: str | None = None) -> pa.Table:
    """The rows of a file that no deletion vector marks."""
    try:
        with doubting():
            rows = read_file(state.store, file, snapshot, wanted, time_zone=zone)
    except Doubtful as e:
        text = f"what Spark would read of file {file.path} is not certain without it: {e}; use rowlock.read(spark, path)"
        raise UnsupportedFeature(text, feature=e.feature, access="read", table=snapshot.table, version=snapshot.version) from None
    dead = state.vectors.of(file)
    if not dead:
        return rows
    return rows.filter(pa.array(living_mask(rows.num_rows, dead, file.path, snapshot.table)))
