"""Reads the change data feed, the rows that versions of a table inserted, updated and deleted, each with its type, version and time; and a stream's batches.

A version's changes are in its change data files; where it has none, its adds are inserts and its removes deletes, and a file that got
another deletion vector lost or got back the rows in which the two vectors differ.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from rowlock.conflict.delta import Slice, VectorOf, delta_of, live_slice
from rowlock.engines.spark.catalyst.bridge import analyzed, bare, nullable
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.read.scan import PATH, empty_frame, local_frame, table_schema
from rowlock.exceptions import CorruptLog, InvalidInput
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import paths
from rowlock.protocol import schema as schemas
from rowlock.protocol.actions import AddCdcFile, AddFile, Commit, RemoveFile
from rowlock.protocol.change_feed import CHANGE_TYPE
from rowlock.protocol.schema import quote

COMMIT_VERSION, COMMIT_TIMESTAMP = "_commit_version", "_commit_timestamp"
COLUMNS = (StructField(CHANGE_TYPE, StringType()), StructField(COMMIT_VERSION, LongType()), StructField(COMMIT_TIMESTAMP, TimestampType()))
"""What the feed adds to the columns of the table."""
_T = TypeVar("_T")
_FILE = "__rowlock_file"
_TYPE = "__rowlock_type"


@dataclass(frozen=True, slots=True)
class Changed:
    """Some rows of one file that a version changed.  `type` is None where the file itself says it of each row."""

    version: int
    type: str | None
    rows: Slice


def changed_rows(commit: Commit, vector_of: VectorOf, table: str, takes: Callable[[AddFile], bool] = lambda file: True) -> list[Changed]:
    """The rows that a version changed, of the files that are to be read.  Raises CorruptLog where its actions do not say which they are."""
    if commit.cdc:
        return [Changed(commit.version, None, Slice(f)) for c in commit.cdc if takes(f := _cdc_file(c, table))]
    removed = [_removed_file(r, commit.version, table) for r in commit.removes if r.data_change]
    before = {f.path: live_slice(f, vector_of) for f in removed if takes(f)}
    after = {f.path: live_slice(f, vector_of) for f in commit.adds if f.data_change and takes(f)}
    delta = delta_of(after, before, after)
    return [*(Changed(commit.version, "delete", s) for s in delta.gone), *(Changed(commit.version, "insert", s) for s in delta.born)]


def _cdc_file(action: AddCdcFile, table: str) -> AddFile:
    """A change data file as a data file."""
    raw = action.raw
    try:
        return AddFile(
            path=paths.decode(str(raw["path"])),
            partition_values=dict(raw.get("partitionValues") or {}),
            size_bytes=int(raw["size"]),
            modification_time_ms=0,
            data_change=False,
            stats=None,
        )
    except (KeyError, TypeError, ValueError) as e:
        raise CorruptLog(f"A cdc action cannot be read: {e}", table=table) from e


def _removed_file(action: RemoveFile, version: int, table: str) -> AddFile:
    """The file that a remove names, as it was."""
    if action.partition_values is None:
        raise CorruptLog(
            f"Version {version} removes {action.path} without saying what its partition values were, so its rows cannot be told", table=table, version=version
        )
    return AddFile(
        path=action.path,
        partition_values=action.partition_values,
        size_bytes=action.size_bytes or 0,
        modification_time_ms=0,
        data_change=True,
        stats=action.stats,
        deletion_vector=action.deletion_vector,
        log_path=action.log_path,
    )


def changes_frame(evaluator: Evaluator, snapshot: Snapshot, changed: Iterable[Changed], times_ms: Mapping[int, int]) -> DataFrame:
    """The changed rows under the columns of `snapshot`, followed by their type, version and time; `times_ms` are the times of the versions."""
    held = list(changed)
    apart = [(typed, [c for c in held if (c.type is not None) == typed]) for typed in (True, False)]
    frames = [_layer(evaluator, snapshot, files, times_ms, typed=typed) for typed, some in apart for files in each_file_once(some, lambda c: c.rows.path)]
    columns = [StructField(f.name, f.dataType, True) for f in table_schema(snapshot).fields]
    frame = functools.reduce(DataFrame.unionAll, frames) if frames else empty_frame(evaluator.reading_session, StructType([*columns, *COLUMNS]))
    return evaluator.bridge.dataframe(analyzed(frame), evaluator.spark)


def refuse_its_columns(snapshot: Snapshot) -> None:
    """Raises InvalidInput where the table has a column that the feed adds."""
    added = [f.name for f in COLUMNS]
    if taken := [n for n in snapshot.schema.names if n.lower() in added]:
        raise InvalidInput(f"The table has a column {taken[0]!r} itself, which the change data feed adds: rename it first", table=snapshot.table)


def each_file_once(items: Iterable[_T], path_of: Callable[[_T], str]) -> list[list[_T]]:
    """The items in lists in which no file is twice: each list can be one scan."""
    out: dict[int, list[_T]] = {}
    times: Counter[str] = Counter()
    for one in items:
        out.setdefault(times[path_of(one)], []).append(one)
        times[path_of(one)] += 1
    return list(out.values())


def _layer(evaluator: Evaluator, snapshot: Snapshot, changed: Sequence[Changed], times_ms: Mapping[int, int], *, typed: bool) -> DataFrame:
    dead = {c.rows.path: evaluator.dead_positions(c.rows) for c in changed}
    seen = snapshot if typed else _with_types(snapshot)
    scanner = evaluator.scanner
    scanned = scanner.frame(seen, [c.rows.file for c in changed], lambda f: dead[f.path], address=True)
    told = pa.table(
        {
            _FILE: [scanner.uri(c.rows.file) for c in changed],
            _TYPE: pa.array([c.type for c in changed], pa.string()),
            COMMIT_VERSION: pa.array([c.version for c in changed], pa.int64()),
            COMMIT_TIMESTAMP: pa.array([times_ms[c.version] for c in changed], pa.int64()),
        }
    )
    schema = StructType([StructField(n, StringType() if n in (_FILE, _TYPE) else LongType()) for n in told.column_names])
    rows = scanned.join(F.broadcast(local_frame(evaluator.reading_session, told, schema)), F.col(PATH) == F.col(_FILE))
    return rows.select(
        *(F.col(quote(n)) for n in snapshot.schema.names),
        F.col(_TYPE if typed else CHANGE_TYPE).alias(CHANGE_TYPE),
        F.col(COMMIT_VERSION),
        F.timestamp_millis(F.col(COMMIT_TIMESTAMP)).alias(COMMIT_TIMESTAMP),
    )


def _with_types(snapshot: Snapshot) -> Snapshot:
    """The snapshot as change data files hold its rows: with one more column, their type."""
    schema = schemas.StructType((*snapshot.schema.fields, schemas.StructField(CHANGE_TYPE, schemas.PrimitiveType("string"))))
    return replace(snapshot, schema=schema, metadata=replace(snapshot.metadata, schema_string=schemas.schema_json(schema)))


def columns_of_stream(snapshot: Snapshot, *, with_changes: bool) -> StructType:
    """The columns of a stream of a table's rows, or of its changes.  All may be null: older files may lack a column, or the table its NOT NULL.

    Raises InvalidInput where the table has a column that its changes have themselves.
    """
    own = [
        StructField(f.name, bare(f.dataType), True, {k: v for k, v in f.metadata.items() if not k.startswith("delta.")}) for f in table_schema(snapshot).fields
    ]
    if not with_changes:
        return nullable(StructType(own), metadata=True)
    refuse_its_columns(snapshot)
    return nullable(StructType([*own, *COLUMNS]), metadata=True)


def same_columns(one: StructType, other: StructType) -> bool:
    """Whether two schemas have the same names and types, in the same order."""
    return [(f.name.lower(), nullable_bare(f)) for f in one.fields] == [(f.name.lower(), nullable_bare(f)) for f in other.fields]


def nullable_bare(field: StructField) -> StructField:
    """A field without metadata, and all in it nullable."""
    return nullable(StructType([StructField("it", bare(field.dataType))])).fields[0]


def rows_of_files(evaluator: Evaluator, snapshot: Snapshot, files: Iterable[AddFile]) -> DataFrame:
    """The live rows of files, under the columns of `snapshot`; a file that is given twice is read twice, each time with its own deletion vector."""
    frames = [evaluator.scanner.frame(snapshot, some, evaluator.vectors.of) for some in each_file_once(files, lambda f: f.path) or [[]]]
    return functools.reduce(DataFrame.unionAll, frames)
