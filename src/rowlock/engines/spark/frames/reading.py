"""Reads a snapshot, with or without the staged work of a transaction, as a DataFrame on the user's session; the change data feed; and a stream's batches.

A version's changes are in its change data files; where it has none, its adds are inserts and its removes deletes, and a file that got another
deletion vector lost or got back the rows in which the two vectors differ.

A plan may also name a table without its files (`Scan` in sql/scans.java): they are chosen when it runs, so DataFrames and views follow the table.
Also the inventory of a table's folder for VACUUM.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame, functions as F
from pyspark.sql.types import BooleanType, DataType, LongType, StringType, StructField, StructType, TimestampType

from rowlock.boundary.effects import Effects
from rowlock.boundary.row_identity import columns_of
from rowlock.conditions import named
from rowlock.conflict.change_feed import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, Changed, refuse_its_columns
from rowlock.engines.spark.catalyst.bridge import JavaObject, analyzed, bare, nullable, nullable_type, to_arrow, with_parts
from rowlock.engines.spark.catalyst.predicates import translated
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.read.scan import OF_IDS, Constants, check_names, empty_frame, local_frame, project, table_schema
from rowlock.exceptions import InvalidInput, SchemaMismatch
from rowlock.log.live_files import LiveFiles
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.blocks import logical
from rowlock.protocol import schema as schemas
from rowlock.protocol.actions import AddFile
from rowlock.protocol.paths import SCHEME_ALIASES
from rowlock.protocol.row_tracking import MaterializedColumns
from rowlock.protocol.schema import quote
from rowlock.protocol.schema_fit import MERGE_SCHEMA
from rowlock.storage.store import ObjectMeta

ROW_ID, ROW_COMMIT_VERSION = "_row_id", "_row_commit_version"


def relabelled(frame: DataFrame, metadata: Mapping[str, dict[str, Any]]) -> DataFrame:
    """The columns that `metadata` names, in its order, with that metadata (a comment, say)."""
    if not any(metadata.values()):
        return frame
    return project(frame, {n: n for n in metadata}, metadata)


_METADATA = "_metadata"
_OF_FILES = (
    "file_path: string, file_name: string, file_size: bigint, file_block_start: bigint, file_block_length: bigint, file_modification_time: timestamp, "
    "row_index: bigint"
)
"""The fields of Spark's column `_metadata`."""
_OF_ROWS = ("base_row_id", "default_row_commit_version", "row_id", "row_commit_version")
"""Those that it has more in tables that track their rows: two that the log says of the file, and what follows from them for the row."""


def _shown(snapshot: Snapshot) -> StructType:
    """The columns as a query sees them, without what Delta alone keeps with them and with their fields."""
    return StructType([_shown_field(f) for f in table_schema(snapshot).fields])


def _shown_field(f: StructField) -> StructField:
    return StructField(f.name, _shown_type(f.dataType), f.nullable, {k: v for k, v in f.metadata.items() if not k.startswith("delta.")})


def _shown_type(t: DataType) -> DataType:
    return with_parts(t, _shown_type, _shown_field)


_COLUMNS = StructType(
    [StructField("path", StringType()), StructField("length", LongType()), StructField("isDir", BooleanType()), StructField("modificationTime", LongType())]
)


def files_of(rows: DataFrame, location: str, table: str) -> list[ObjectMeta]:
    """The files of an inventory below the table's location, a URI, by their keys.  One Spark job.  Raises InvalidInput for other columns."""
    types = {f.name: f.dataType for f in rows.schema.fields}
    if any(types.get(f.name) != f.dataType for f in _COLUMNS.fields):
        wanted = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in _COLUMNS.fields)
        text = f"An inventory has the columns {wanted}; this one has {rows.schema.simpleString()[7:-1]}"
        raise InvalidInput(text, table=table, condition=named("DELTA_INVALID_INVENTORY_SCHEMA", expectedSchema=wanted))
    is_file = ~F.col("isDir") & F.col("length").isNotNull() & F.col("modificationTime").isNotNull()
    others = "|".join(other for other, scheme in SCHEME_ALIASES.items() if location.startswith(f"{scheme}:"))  # Hadoop says s3a
    path = F.regexp_replace("path", f"^({others}):", location.partition(":")[0] + ":") if others else F.col("path")
    below = rows.where(F.startswith(path, F.lit(f"{location}/")) & is_file)
    found = to_arrow(below.select(F.substring(path, len(location) + 2, 2**31 - 1).alias("path"), "length", "modificationTime"))
    return [ObjectMeta(*row) for row in zip(*(c.to_pylist() for c in found.columns), strict=True)]


COLUMNS = (StructField(CHANGE_TYPE, StringType()), StructField(COMMIT_VERSION, LongType()), StructField(COMMIT_TIMESTAMP, TimestampType()))
_T = TypeVar("_T")
_TYPE = "__rowlock_type"


def each_file_once(items: Iterable[_T], path_of: Callable[[_T], str]) -> list[list[_T]]:
    """The items in lists in which no file is twice: each list can be one scan."""
    out: dict[int, list[_T]] = {}
    times: Counter[str] = Counter()
    for one in items:
        out.setdefault(times[path_of(one)], []).append(one)
        times[path_of(one)] += 1
    return list(out.values())


def _with_types(snapshot: Snapshot) -> Snapshot:
    """The snapshot as change data files hold its rows: with one more column, their type."""
    schema = schemas.StructType((*snapshot.schema.fields, schemas.StructField(CHANGE_TYPE, schemas.PrimitiveType("string"))))
    return replace(snapshot, schema=schema, metadata=replace(snapshot.metadata, schema_string=schemas.schema_json(schema)))


def columns_of_stream(snapshot: Snapshot, *, with_changes: bool) -> StructType:
    """The columns of a stream of a table's rows, or of its changes.  All may be null: older files may lack a column, or the table its NOT NULL.

    Raises InvalidInput where the table has a column that its changes have themselves.
    """
    if with_changes:
        refuse_its_columns(snapshot)
    return nullable(StructType([*_shown(snapshot).fields, *(COLUMNS if with_changes else ())]), metadata=True)


def same_columns(one: StructType, other: StructType) -> bool:
    """Whether two schemas have the same names and types, in the same order."""
    bare_fields = ([(f.name.lower(), nullable_type(bare(f.dataType))) for f in columns.fields] for columns in (one, other))
    return next(bare_fields) == next(bare_fields)


class Reader:
    """Reads one table on one session.  Each DataFrame is on the user's session; nothing is evaluated."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator

    def rows(
        self,
        snapshot: Snapshot,
        staged: Effects | None = None,
        *,
        fixed: bool = False,
        ids: MaterializedColumns | None = None,
        constants: Constants | None = None,
    ) -> DataFrame:
        """The live rows of a snapshot, with the table's column names, comments and nullability; with `staged`, as these effects would leave them.

        `fixed`: the caller named the version, so that a statement over these rows is right whatever the table has become.  `ids` and `constants`: see `Scanner.frame`.
        """
        if not snapshot.schema.fields:
            text = f"The table has no columns yet: a write with {MERGE_SCHEMA} gives it some"
            raise SchemaMismatch(text, table=snapshot.table, condition=named("DELTA_READ_TABLE_WITHOUT_COLUMNS", deltaName=snapshot.table))
        dead: dict[str, BitMap64] = dict(staged.tombstones) if staged else {}
        files = sorted(snapshot.files.adds(), key=lambda f: f.path)
        frames: list[DataFrame] = []
        schema = StructType([StructField(f.name, bare(f.dataType), f.nullable) for f in table_schema(snapshot).fields])
        for block in staged.blocks if staged else ():
            if block.kind != "matched":
                frames += [local_frame(self.evaluator.scanner.spark, logical(table, snapshot), schema) for table in block.payload.tables]
                files += block.payload.files
                dead |= block.payload.dead

        def vector_of(file: AddFile) -> BitMap64:
            ours = dead.get(file.path)
            before = self.evaluator.vectors.of(file)
            return before | ours if ours else before

        frame = self.evaluator.scanner.frame(snapshot, files, vector_of, strict=True, ids=ids, hidden=not frames, fixed=fixed, constants=constants)
        for more in frames:
            frame = frame.unionAll(more)
        metadata = {f.name: f.metadata for f in _shown(snapshot).fields} | {n: {} for n in (*(constants or ()), *(() if ids is None else ids.names))}
        return self.evaluator.bridge.dataframe(analyzed(relabelled(frame, metadata)), self.evaluator.spark)

    def rows_with_ids(self, snapshot: Snapshot, *, fixed: bool = False) -> DataFrame:
        """The live rows of a snapshot with two more columns: `_row_id`, and `_row_commit_version`, the version that last changed the row.

        Raises InvalidInput where the table does not track rows, or has columns of these names itself.
        """
        columns = columns_of(snapshot)
        if columns is None:
            text = "The table does not track its rows: set delta.enableRowTracking to true first, from which on every row has an id"
            raise InvalidInput(text, table=snapshot.table)
        if taken := [n for n in snapshot.schema.names if n.lower() in (ROW_ID, ROW_COMMIT_VERSION)]:
            raise InvalidInput(f"The table has a column {taken[0]!r} itself: read it without row ids", table=snapshot.table)
        frame = self.rows(snapshot, fixed=fixed, ids=columns)
        ids = F.col(quote(columns.row_id)).alias(ROW_ID), F.col(quote(columns.commit_version)).alias(ROW_COMMIT_VERSION)
        return project(frame, {n: n for n in snapshot.schema.names} | dict(zip((ROW_ID, ROW_COMMIT_VERSION), ids, strict=True)))

    def scan(self, snapshot: Snapshot, columns: str, *, fixed: bool = False) -> DataFrame:
        """The rows of a table under the columns of a snapshot, read when the DataFrame runs: of the newest version, with `fixed` of the snapshot's.

        `columns` is what the rows are compared with then (see `api.schema_compatibility`).
        """
        check_names(snapshot)
        version = str(snapshot.version) if fixed else None
        plan = self.evaluator.bridge.scans.plan(
            self.evaluator.spark._jsparkSession,
            self.evaluator.store.root,
            self.evaluator.root,
            version,
            columns,
            _shown(snapshot).json(),
            self.evaluator.bridge.array_list(snapshot.partition_columns),
            snapshot.metadata.description,
            columns_of(snapshot) is not None,
        )
        return self.evaluator.bridge.dataframe(plan, self.evaluator.spark)

    def scanned(self, snapshot: Snapshot, names: list[str], *, fixed: bool, hidden: list[str] | None, condition: JavaObject | None) -> JavaObject:
        """The plan of the rows of a snapshot, with its files, for a scan of these columns; with `hidden` the column `_metadata` of these fields comes last.

        Files are left out of which the log shows that `condition` is true of no row in them.
        """
        if condition is not None:
            bridge = self.evaluator.bridge
            named_in = {int(a.exprId().id()): snapshot.schema.find(str(a.name())) for a in bridge.list(condition.references().toSeq())}
            known = translated(bridge, condition, {n: f.name for n, f in named_in.items() if f is not None})
            if known is not None and known.reads is not None:
                chosen = snapshot.files.prune(known.reads, snapshot.schema, snapshot.partition_columns)
                chosen = chosen or [next(snapshot.files.adds())]  # a scan, by which `versions_read` sees what a plan read
                snapshot = snapshot if len(chosen) == len(snapshot.files) else replace(snapshot, files=LiveFiles.of_adds(chosen))
        columns: dict[str, str | Column] = {n: n for n in names}
        if hidden is None:
            frame = self.rows(snapshot, fixed=fixed)
            return analyzed(frame if list(snapshot.schema.names) == names else project(frame, columns))
        more = [n for n in _OF_ROWS if n in hidden]
        tracked = columns_of(snapshot) if more else None
        frame = self.rows(snapshot, fixed=fixed, ids=tracked, constants=OF_IDS if tracked else None)
        if not len(snapshot.files):
            fields = f"struct<{_OF_FILES}{''.join(f', {n}: bigint' for n in more)}>"
            return analyzed(project(frame, columns | {_METADATA: F.lit(None).cast(fields).alias(_METADATA)}))
        found = frame.metadataColumn(_METADATA)
        if not more:
            return analyzed(project(frame, columns | {_METADATA: found.alias(_METADATA)}))
        ids = dict.fromkeys(_OF_ROWS, F.lit(None).cast("bigint"))
        if tracked is not None:
            ids = {n: F.col(quote(column)) for n, column in zip(_OF_ROWS, (*OF_IDS, *tracked.names), strict=True)}
        shown = [found.getField(n).alias(n) for n in hidden if n not in _OF_ROWS]
        return analyzed(project(frame, columns | {_METADATA: F.struct(*shown, *(ids[n].alias(n) for n in more)).alias(_METADATA)}))

    def changes(self, snapshot: Snapshot, changed: Iterable[Changed], times_ms: Mapping[int, int]) -> DataFrame:
        """The changed rows under the columns of `snapshot`, followed by their type, version and time; `times_ms` are the times of the versions."""
        held = list(changed)
        apart = [(typed, [c for c in held if (c.type is not None) == typed]) for typed in (True, False)]
        frames = [self._layer(snapshot, files, times_ms, typed=typed) for typed, some in apart for files in each_file_once(some, lambda c: c.rows.path)]
        columns = [StructField(f.name, f.dataType, True) for f in table_schema(snapshot).fields]
        frame = functools.reduce(DataFrame.unionAll, frames) if frames else empty_frame(self.evaluator.scanner.spark, StructType([*columns, *COLUMNS]))
        return self.evaluator.bridge.dataframe(analyzed(frame), self.evaluator.spark)

    def _layer(self, snapshot: Snapshot, changed: Sequence[Changed], times_ms: Mapping[int, int], *, typed: bool) -> DataFrame:
        of = {c.rows.path: c for c in changed}
        constants: Constants = {
            _TYPE: (StringType(), lambda f: of[f.path].type),
            COMMIT_VERSION: (LongType(), lambda f: of[f.path].version),
            COMMIT_TIMESTAMP: (LongType(), lambda f: times_ms[of[f.path].version]),
        }
        rows = self.evaluator.live_frame(snapshot if typed else _with_types(snapshot), [c.rows for c in changed], constants=constants)
        own = {**{n: n for n in snapshot.schema.names}, CHANGE_TYPE: _TYPE if typed else CHANGE_TYPE, COMMIT_VERSION: COMMIT_VERSION}
        return project(rows, {**own, COMMIT_TIMESTAMP: F.timestamp_millis(COMMIT_TIMESTAMP).alias(COMMIT_TIMESTAMP)})

    def rows_of_files(self, snapshot: Snapshot, files: Iterable[AddFile]) -> DataFrame:
        """The live rows of files, under the columns of `snapshot`; a file that is given twice is read twice, each time with its own deletion vector."""
        frames = [self.evaluator.scanner.frame(snapshot, some, self.evaluator.vectors.of) for some in each_file_once(files, lambda f: f.path) or [[]]]
        return functools.reduce(DataFrame.unionAll, frames)
