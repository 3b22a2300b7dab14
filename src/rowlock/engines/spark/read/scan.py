"""Reads data files in Spark: a DataFrame of the rows of given files, with the address of each row where asked.

Files without deletion vectors are scanned plainly.  From the others dead rows are removed by a broadcast anti join on
bitmaps: one row for each bucket of 32,768 positions that holds a dead one.  Partition values come from the log, never from
folder names; columns get their logical names.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash
from pyroaring import BitMap64
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession, functions as F
from pyspark.sql.types import ArrayType, DataType, LongType, NullType, StringType, StructField, StructType

from rowlock.caches import PATHS, Cache
from rowlock.engines.spark.catalyst.bridge import arrow_schema, bare, catalyst, nullable, with_parts
from rowlock.engines.spark.catalyst.types import marked, padded
from rowlock.engines.spark.session.connect import is_connect
from rowlock.exceptions import UnsupportedFeature
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import paths
from rowlock.protocol.actions import AddFile
from rowlock.protocol.char_varchar import KEY
from rowlock.protocol.deletion_vector import bitmap_to_numpy
from rowlock.protocol.properties import column_mapping_mode
from rowlock.protocol.schema import quote, reserved_names
from rowlock.protocol.statistics import has_ambiguous_names
from rowlock.storage.open import missing_file

PATH, POSITION = "__rowlock_path", "__rowlock_pos"
ADDRESS = StructType([StructField(PATH, StringType()), StructField(POSITION, LongType())])

VERSION_OPTION = "rowlockversion"
"""An option of Rowlock's scans: the version of the table that is read (see `statements.sources`)."""
FIXED_OPTION = "rowlockfixed"
"""An option of scans of a version that the caller named: what they read stays right whatever others commit."""

_ADDRESS = (PATH, POSITION)
_KEY, _WORDS, _FILE, _VALUE = "__rowlock_key", "__rowlock_words", "__rowlock_file", "__rowlock_value"
_TASK = "__rowlock_task"
_METADATA = "_metadata"
_BUCKET_BITS = 15
_KEY_SHIFT = 24
_GLOB = re.compile(r"[{}\[\]*?\\]")
_PLAIN_PATH = re.compile(r"([a-z0-9]+://)?[A-Za-z0-9_\-./=]*\Z")
_ENTRY_BYTES = 300
"""What an entry of the cache of URIs takes beside its two texts."""

VectorOf = Callable[[AddFile], BitMap64]


def table_schema(snapshot: Snapshot) -> StructType:
    """The table's schema as Spark's type, with logical names."""
    import orjson

    return StructType.fromJson(orjson.loads(snapshot.metadata.schema_string))


def without_void(schema: StructType) -> StructType:
    """The schema without void columns and fields, of which files hold nothing."""
    kept = [f for f in schema.fields if not isinstance(f.dataType, NullType)]
    return StructType([StructField(f.name, without_void(f.dataType), f.nullable, f.metadata) if isinstance(f.dataType, StructType) else f for f in kept])


def reshaped(value: Column, have: DataType, want: DataType) -> Column:
    """A value whose structs have the fields of `want`: those of type void, which is all in which `have` may differ, are added as nulls or left out."""
    if have == want or not (isinstance(have, StructType) and isinstance(want, StructType)):
        return value
    known = {f.name: f.dataType for f in have.fields}
    fields = [reshaped(value.getField(f.name), known[f.name], f.dataType).alias(f.name) if f.name in known else F.lit(None).alias(f.name) for f in want.fields]
    return F.when(value.isNotNull(), F.struct(*fields))


def physical_schema(schema: StructType, mode: str) -> StructType:
    """The schema of data files: physical names, and field ids in column mapping mode `id`."""
    return StructType([_physical_field(f, mode) for f in schema.fields])


def _physical_field(f: StructField, mode: str) -> StructField:
    name = f.metadata.get("delta.columnMapping.physicalName", f.name) if mode != "none" else f.name
    metadata = {"parquet.field.id": f.metadata["delta.columnMapping.id"]} if mode == "id" and "delta.columnMapping.id" in f.metadata else {}
    if KEY in f.metadata:  # the mark of CHAR columns, which Spark pads on reading
        metadata[KEY] = f.metadata[KEY]
    return StructField(name, _physical_type(f.dataType, mode), f.nullable, metadata)


def _physical_type(t: DataType, mode: str) -> DataType:
    return with_parts(t, lambda part: _physical_type(part, mode), lambda f: _physical_field(f, mode))


def wrap_session(spark: SparkSession, session: Any) -> SparkSession:
    """A Python SparkSession for a JVM session."""
    return SparkSession(spark.sparkContext, jsparkSession=session)


@dataclass(frozen=True, slots=True)
class _Beside:
    """What a scan gives beside the table's columns (see `Scanner.frame`)."""

    address: bool
    carried: Sequence[str]
    metadata: bool
    fixed: bool

    def of(self, rows: DataFrame) -> list[Column]:
        """The columns, of rows that have them; `_metadata` keeps its mark through a union."""
        named = [*(_ADDRESS if self.address else ()), *self.carried]
        metadata = [rows.metadataColumn(_METADATA).alias(_METADATA, metadata={"__metadata_col": _METADATA})] if self.metadata else []
        return [*(F.col(quote(n)) for n in named), *metadata]


class Scanner:
    """Makes DataFrames of a table's files on one session.  Driver only; executors open the files when the DataFrame runs."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.spark, self.root = spark, root

    def frame(
        self,
        snapshot: Snapshot,
        files: Sequence[AddFile],
        vector_of: VectorOf | None,
        *,
        address: bool = False,
        strict: bool = False,
        carried: Sequence[str] = (),
        hidden: bool = False,
        fixed: bool = False,
    ) -> DataFrame:
        """The rows of `files` with the table's logical columns, and PATH and POSITION with `address`.

        Positions that `vector_of` marks are left out; None gives all physical rows.  With `strict` columns are as nullable
        as in the table, which Spark's optimizer then relies on; else all are nullable.  `carried` names further bigint
        columns that data files may hold; null where a file does not.  With `hidden` a query that names Spark's `_metadata`
        finds it, also where files are read by several scans.  `fixed` says that the caller named the version.
        """
        own = table_schema(snapshot)
        check_names(snapshot)
        schema = own if strict else nullable(own, metadata=True)
        if not files:
            return empty_frame(
                self.spark,
                StructType(
                    [
                        *(StructField(f.name, bare(f.dataType), f.nullable) for f in schema.fields),
                        *(ADDRESS.fields if address else []),
                        *(StructField(n, LongType()) for n in carried),
                    ]
                ),
            )
        groups = self._groups(snapshot, files, vector_of)
        metadata = hidden and len(groups) > 1 and snapshot.schema.find(_METADATA) is None  # a single scan shows it by itself
        beside = _Beside(address, carried, metadata, fixed)
        sides = {side: [f for (_, of), g in groups.items() if of == side for f in g] for side in sorted({side for _, side in groups})}
        dead = {side: self._buckets({self.uri(f): vector_of(f) for f in g}) for side, g in sides.items() if side and vector_of is not None}
        if len(groups) <= limits().scan_groups:
            frames = [self._group_frame(snapshot, schema, g, dict(values), dead.get(side), beside) for (values, side), g in groups.items()]
        else:
            frames = [self._joined_frame(snapshot, schema, g, dead.get(side), beside) for side, g in sides.items()]
        rows = functools.reduce(DataFrame.unionAll, frames)
        return catalyst(self.spark).hiding_last(rows) if metadata else rows

    def _groups(
        self, snapshot: Snapshot, files: Sequence[AddFile], vector_of: VectorOf | None
    ) -> dict[tuple[tuple[tuple[str, str | None], ...], int], list[AddFile]]:
        """The files by partition values and side: 0 without a vector; else 1, and the next one for each file whose key another of that side has.

        A side has one frame of buckets for all its groups, which Spark then broadcasts once.
        """
        groups: dict[tuple[tuple[tuple[str, str | None], ...], int], list[AddFile]] = {}
        partitioned = bool(snapshot.metadata.partition_columns)
        sharing = Counter[int]()
        for f in files:
            values = tuple(sorted(f.partition_values.items())) if partitioned else ()
            side = 0
            if vector_of is not None and vector_of(f):
                sharing[prefix := _prefix(self.uri(f))] += 1
                side = sharing[prefix]
            groups.setdefault((values, side), []).append(f)
        return groups

    def _read(self, snapshot: Snapshot, schema: StructType, files: Sequence[AddFile], beside: _Beside) -> DataFrame:
        mode = column_mapping_mode(snapshot.metadata.configuration)
        data = without_void(StructType([f for f in schema.fields if f.name not in snapshot.metadata.partition_columns]))
        names = [paths.join(self.root, f.path) for f in files]
        physical = StructType([*physical_schema(data, mode).fields, *(StructField(n, LongType()) for n in beside.carried)])
        options = {"parquet.filter.dictionary.enabled": "false"} if has_ambiguous_names(snapshot.schema) else {}
        try:
            return read_parquet(self.spark, physical, names, snapshot.version, options | ({FIXED_OPTION: "true"} if beside.fixed else {}))
        except AnalysisException as e:
            if e.getCondition() != "PATH_NOT_FOUND":
                raise
            named = (e.getMessageParameters() or {}).get("path", "")
            raise missing_file(snapshot.table, paths.relative_to(self.root, named), version=snapshot.version) from None

    def _group_frame(
        self,
        snapshot: Snapshot,
        schema: StructType,
        files: Sequence[AddFile],
        values: Mapping[str, str | None],
        dead: DataFrame | None,
        beside: _Beside,
    ) -> DataFrame:
        raw = self._read(snapshot, schema, files, beside)
        if beside.address or dead is not None:
            raw = _located(raw, dead)
        columns = [self._column(snapshot, f, lambda name: F.lit(values.get(name) or None)) for f in schema.fields]
        return raw.select(*columns, *beside.of(raw))

    def _joined_frame(
        self,
        snapshot: Snapshot,
        schema: StructType,
        files: Sequence[AddFile],
        dead: DataFrame | None,
        beside: _Beside,
    ) -> DataFrame:
        """Files of many partitions in one scan: the partition values come from a broadcast join by path."""
        raw = _located(self._read(snapshot, schema, files, beside), dead)
        names = [_partition_key(snapshot, c) for c in snapshot.metadata.partition_columns]
        rows = pa.table(
            {
                _FILE: [self.uri(f) for f in files],
                **{f"{_VALUE}{n}": pa.array([f.partition_values.get(c) or None for f in files], pa.string()) for n, c in enumerate(names)},
            }
        )
        values = local_frame(self.spark, rows, StructType([StructField(n, StringType()) for n in rows.column_names]))
        joined = raw.join(F.broadcast(values), F.col(PATH) == F.col(_FILE))
        columns = [self._column(snapshot, f, lambda name: F.col(f"{_VALUE}{names.index(name)}")) for f in schema.fields]
        return joined.select(*columns, *beside.of(joined))

    def _column(self, snapshot: Snapshot, f: StructField, value_of: Callable[[str], Column]) -> Column:
        if isinstance(f.dataType, NullType):
            return F.lit(None).alias(f.name)
        mode = column_mapping_mode(snapshot.metadata.configuration)
        if f.name in snapshot.metadata.partition_columns:
            value = padded(value_of(_partition_key(snapshot, f.name)).cast(f.dataType), f)
            return marked(value if f.nullable else catalyst(self.spark).known_not_null(value), f)
        (held,) = without_void(StructType([f])).fields
        physical = _physical_field(held, mode)
        column, logical = F.col(quote(physical.name)), bare(held.dataType)
        column = column if physical.dataType == logical or mode == "none" else column.cast(logical)
        return reshaped(column, logical, bare(f.dataType)).alias(f.name)

    def _buckets(self, vectors: Mapping[str, BitMap64]) -> DataFrame:
        table = bucket_table(vectors)
        schema = StructType([StructField(_KEY, LongType()), StructField(_WORDS, ArrayType(LongType()))])
        jdf = local_frame(self.spark, table, schema)
        return F.broadcast(jdf)

    def uri(self, file: AddFile) -> str:
        """A file's URI as Spark's `_metadata.file_path` spells it."""
        return spark_uri(self.spark, paths.join(self.root, file.path))


def read_parquet(
    spark: SparkSession, schema: StructType | None, names: Sequence[str], version: int | None = None, options: Mapping[str, str] | None = None
) -> DataFrame:
    """The rows of exactly these files, whatever characters their names hold; columns as in `schema`, or as in the files where it is None."""
    reader = spark.read.options(**(options or {}))
    reader = reader if schema is None else reader.schema(schema)
    if version is not None:
        reader = reader.option(VERSION_OPTION, str(version))
    if any(_GLOB.search(n) for n in names):  # without globbing Spark would read all files once for each name that looks like a pattern
        frame = reader.parquet(*(_GLOB.sub(r"\\\g<0>", n) for n in names))
    else:
        frame = reader.option("__globPaths__", "false").parquet(*names)
    return frame if schema is None or schema == nullable(schema, metadata=True) else catalyst(spark).with_schema(frame, schema, spark)


def local_frame(spark: SparkSession, table: pa.Table, schema: StructType) -> DataFrame:
    """Rows on the driver as a DataFrame, without pyspark's conversions and without making `spark` the thread's active session."""
    if is_connect(spark):
        return spark.createDataFrame([tuple(row.values()) for row in table.to_pylist(maps_as_pydicts="strict")], schema)
    return DataFrame(catalyst(spark).frame_of(table, schema.json(), spark._jsparkSession), spark)


def rows_frame(spark: SparkSession, columns: StructType, rows: Iterable[Sequence[Any]]) -> DataFrame:
    """Few rows of Python values as a DataFrame, by way of Arrow: pyspark's own conversion starts a worker of Python on an executor."""
    listed, arrow = list(rows), arrow_schema(columns)
    values = zip(*listed, strict=True) if listed else ((),) * len(arrow)
    arrays = [pa.array([list(v.items()) if isinstance(v, Mapping) else v for v in column], f.type) for column, f in zip(values, arrow, strict=True)]
    return local_frame(spark, pa.table(arrays, schema=arrow), columns)


def empty_frame(spark: SparkSession, schema: StructType) -> DataFrame:
    """A DataFrame of this schema without rows."""
    return local_frame(spark, arrow_schema(schema).empty_table(), schema)


def _located(raw: DataFrame, dead: DataFrame | None) -> DataFrame:
    """The columns of files with PATH and POSITION, without the rows that `dead` (see `bucket_table`) marks.

    Partition values are added above this frame, so that conditions on them still skip whole files.
    """
    meta = raw.metadataColumn("_metadata")
    out = raw.select("*", meta.getField("file_path").alias(PATH), meta.getField("row_index").alias(POSITION))
    return out if dead is None else _pushdown_barrier(without_dead(out, dead))


def without_dead(frame: DataFrame, buckets: DataFrame) -> DataFrame:
    """The rows of a frame with addresses whose bit is not set in `buckets`."""
    key = F.expr(f"shiftleft(xxhash64({PATH}), {_KEY_SHIFT}) | shiftright({POSITION}, {_BUCKET_BITS})")
    bit = F.expr(f"getbit({_WORDS}[cast(shiftright({POSITION}, 6) & 511 as int)], cast({POSITION} & 63 as int)) = 1")
    return frame.join(buckets, (key == F.col(_KEY)) & bit, "left_anti")


def _pushdown_barrier(living: DataFrame) -> DataFrame:
    """The same rows, through which the optimizer pushes no condition down: under ANSI a condition may raise on a dead row."""
    return living.withColumn(_TASK, F.spark_partition_id()).where(F.col(_TASK) >= 0).drop(_TASK)


def bucket_table(vectors: Mapping[str, BitMap64]) -> pa.Table:
    """One row (key, bitmap of 512 words) for each bucket of positions that holds a dead one.  No two of the files may share a prefix of keys."""
    keys: list[int] = []
    words: list[np.ndarray[Any, Any]] = []
    for uri, vector in vectors.items():
        prefix = _prefix(uri)
        positions = bitmap_to_numpy(vector)
        buckets = positions >> _BUCKET_BITS
        starts = np.flatnonzero(np.r_[True, buckets[1:] != buckets[:-1]]) if len(positions) else np.empty(0, np.int64)
        for start, end in zip(starts, np.r_[starts[1:], len(positions)], strict=True):
            inside = positions[start:end] & ((1 << _BUCKET_BITS) - 1)
            bits = np.zeros(1 << _BUCKET_BITS, dtype=np.uint8)
            bits[inside] = 1
            words.append(np.packbits(bits, bitorder="little").view("<i8"))
            keys.append(prefix | int(buckets[start]))
    flat = np.concatenate(words) if words else np.empty(0, np.int64)
    offsets = np.arange(0, len(flat) + 1, 512, dtype=np.int32)
    return pa.table({_KEY: pa.array(keys, pa.int64()), _WORDS: pa.ListArray.from_arrays(pa.array(offsets), pa.array(flat, pa.int64()))})


def _prefix(uri: str) -> int:
    """The high bits of a file's keys, equal to Spark's `shiftleft(xxhash64(uri), _KEY_SHIFT)`, a signed 64-bit number."""
    return _signed(_digest(uri) << _KEY_SHIFT & (2**64 - 1))


def hash_of_uri(uri: str) -> int:
    """Spark's `xxhash64(uri)`, a signed 64-bit number."""
    return _signed(_digest(uri))


def _digest(uri: str) -> int:
    return xxhash.xxh64_intdigest(uri.encode(), seed=42)  # Spark's seed


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


_uris: Cache[str] = Cache(PATHS, lambda uri: _ENTRY_BYTES + 2 * len(uri))


def spark_uri(spark: SparkSession, full_path: str) -> str:
    """The URI that Spark makes of a full path.  Paths of plain characters need no call into the JVM; the others are cached."""
    local = full_path.startswith("/")
    if _PLAIN_PATH.match(full_path):
        return "file:" + full_path if local else full_path
    if (known := _uris.get(full_path)) is not None:
        return known
    uri = str(catalyst(spark).hadoop_path(full_path).toUri().toString())
    uri = uri if not local or uri.startswith("file:") else "file:" + uri
    _uris.put(full_path, uri)
    return uri


def _partition_key(snapshot: Snapshot, name: str) -> str:
    """The key of a partition column in the partitionValues of the log: its physical name under column mapping."""
    field = snapshot.schema.find(name)
    return field.physical_name if field is not None and column_mapping_mode(snapshot.metadata.configuration) != "none" else name


def check_names(snapshot: Snapshot) -> None:
    """Raises UnsupportedFeature for a column, by its name in the table or in data files, that would hide Spark's row numbers or a column of Rowlock's own."""
    names = [name for f in snapshot.schema.fields for name in (f.name, f.physical_name)]
    if taken := [n for n in names if n == "_tmp_metadata_row_index"] or reserved_names(names):
        raise UnsupportedFeature(
            f"A column named {taken[0]} would hide one by which rows are found in data files; rename it with the engine that made it",
            feature=taken[0],
            access="read",
            table=snapshot.table,
            version=snapshot.version,
        )
