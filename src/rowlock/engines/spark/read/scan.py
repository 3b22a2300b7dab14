"""Reads data files in Spark: a DataFrame of the rows of given files, with the address of each row where asked.

Files without deletion vectors are scanned plainly, the others without the rows whose bit is set in an array of the plan.  What the log
says of a file, such as its partition values, is a column that is constant in each file; columns get their logical names.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import xxhash
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame, SparkSession, functions as F
from pyspark.sql.types import DataType, LongType, NullType, StringType, StructField, StructType

from rowlock.arguments import is_set
from rowlock.caches import PATHS, VECTORS, Cache
from rowlock.engines.spark.catalyst.bridge import JavaObject, arrow_schema, bare, catalyst, fields_by_name, normalized, nullable, with_parts
from rowlock.engines.spark.catalyst.types import marked, padded
from rowlock.engines.spark.session.compiled import Classes
from rowlock.engines.spark.session.connect import is_connect
from rowlock.exceptions import UnsupportedFeature
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import paths
from rowlock.protocol.actions import AddFile
from rowlock.protocol.char_varchar import KEY
from rowlock.protocol.deletion_vector import bitmap_to_numpy
from rowlock.protocol.properties import column_mapping_mode
from rowlock.protocol.row_tracking import MaterializedColumns
from rowlock.protocol.schema import ROW_INDEX, TYPE_CHANGES, quote, reserved_names, schema_json
from rowlock.protocol.statistics import has_ambiguous_names

FROM, POSITION = "__rowlock_from", "__rowlock_pos"
ADDRESS = StructType([StructField(FROM, LongType()), StructField(POSITION, LongType())])
"""The address of a row: a hash of its file's URI, since rows that are shuffled should not carry the names of their files; and its position there."""

TIME_ZONE = "spark.sql.session.timeZone"
VERSION_OPTION = "rowlockversion"
"""An option of Rowlock's scans: the version of the table that is read (see `statements.sources`)."""
FIXED_OPTION = "rowlockfixed"
"""An option of scans of a version that the caller named: what they read stays right whatever others commit."""

_START, _BUCKETS = "__rowlock_start", "__rowlock_buckets"
_BASE, _VERSION = "__rowlock_base_row_id", "__rowlock_commit_version"
_METADATA = "_metadata"
_BUCKET_BITS, _NUMBERS = 11, 32  # small, since one dead row brings all of its bucket into the array
_IN_TASK_BYTES = 900 * 1024
"""The largest array of bits that each task brings along; of tasks above 1,000 KiB Spark warns, and larger ones are broadcast."""
_PLAIN_PATH = re.compile(r"([a-z0-9]+://)?[A-Za-z0-9_\-./=]*\Z")
_ENTRY_BYTES = 300
"""What an entry of the cache of URIs takes beside its two texts."""

VectorOf = Callable[[AddFile], BitMap64]
Constants = Mapping[str, tuple[DataType, Callable[[AddFile], Any]]]
"""Columns with one value for each file, a bigint or a text, by their names."""

_ARROW = {LongType: pa.int64(), StringType: pa.string()}
_bits: Cache[tuple[Any, int]] = Cache(VECTORS, lambda held: held[1])


def table_schema(snapshot: Snapshot) -> StructType:
    """The table's schema as Spark's type, with logical names."""
    return StructType.fromJson(orjson.loads(schema_json(snapshot.schema)))


def without_void(schema: StructType) -> StructType:
    """The schema without void columns and fields, of which files hold nothing."""
    fields = [f for f in schema.fields if not isinstance(f.dataType, NullType)]
    return StructType([StructField(f.name, without_void(f.dataType), f.nullable, f.metadata) if isinstance(f.dataType, StructType) else f for f in fields])


def reshaped(value: Column, have: DataType, want: DataType) -> Column:
    """A value whose structs have the fields of `want`: those of type void, which is all in which `have` may differ, are added as nulls or left out."""
    if have == want or not (isinstance(have, StructType) and isinstance(want, StructType)):
        return value
    return F.when(value.isNotNull(), F.struct(*fields_by_name(value, have, want, reshaped)))


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


class Scanner:
    """Makes DataFrames of a table's files on one session.  Driver only; executors open the files when the DataFrame runs."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.spark, self.root = spark, root
        self.time_zone = str(spark.conf.get(TIME_ZONE))

    def frame(
        self,
        snapshot: Snapshot,
        files: Sequence[AddFile],
        vector_of: VectorOf,
        *,
        address: bool = False,
        strict: bool = False,
        ids: MaterializedColumns | None = None,
        hidden: bool = False,
        fixed: bool = False,
        constants: Constants | None = None,
    ) -> DataFrame:
        """The rows of `files` with the table's logical columns, FROM and POSITION with `address`, the columns of `constants`, and row ids and commit versions with `ids`.

        Positions that `vector_of` marks are left out.  With `strict` columns are as nullable
        as in the table, which Spark's optimizer then relies on; else all are nullable.  Ids and commit versions have the names that
        these columns have in data files, and are null for rows of a file that is not committed yet, unless it holds them (I6).
        With `hidden` a query that names Spark's `_metadata` finds it, also where files are read by two scans.  `fixed` says
        that the caller named the version.
        """
        own = table_schema(snapshot)
        check_names(snapshot)
        schema = own if strict else nullable(own, metadata=True)
        given, carried = constants or {}, () if ids is None else ids.names
        beside = [*(ADDRESS.fields if address else []), *(StructField(n, t) for n, (t, _) in given.items()), *(StructField(n, LongType()) for n in carried)]
        read = {**({FROM: (LongType(), lambda f: hash_of_uri(self.uri(f)))} if address else {}), **given, **({} if ids is None else OF_IDS)}
        if not files:
            return empty_frame(self.spark, StructType([*(StructField(f.name, bare(f.dataType), f.nullable) for f in schema.fields), *beside]))
        dead = {f.path: vector for f in files if (vector := vector_of(f))}
        numbered = address or ids is not None
        metadata = hidden and (numbered or bool(dead)) and snapshot.schema.find(_METADATA) is None  # a plain scan shows it by itself
        frames: list[DataFrame] = []
        for some, vectors in ([f for f in files if f.path not in dead], {}), ([f for f in files if f.path in dead], dead):
            if not some:
                continue
            counted = numbered or bool(vectors)
            raw = self._read(snapshot, schema, some, vectors, read, carried, counted=counted, metadata=metadata, fixed=fixed)
            values = {} if ids is None else _ids_of_rows(ids)
            if address:
                values[POSITION] = catalyst(self.spark).known_not_null(F.col(ROW_INDEX))
            columns: dict[str, str | Column] = {f.name: self._column(snapshot, f) for f in schema.fields}
            columns |= {f.name: values[f.name].alias(f.name) if f.name in values else f.name for f in beside}
            frames.append(project(raw, columns | ({_METADATA: _metadata_of(raw, counted=counted)} if metadata else {})))
        rows = functools.reduce(DataFrame.unionAll, frames)
        return catalyst(self.spark).hiding_last(rows) if metadata else rows

    def _read(
        self,
        snapshot: Snapshot,
        schema: StructType,
        files: Sequence[AddFile],
        dead: Mapping[str, BitMap64],
        constants: Constants,
        carried: Sequence[str],
        *,
        counted: bool,
        metadata: bool,
        fixed: bool,
    ) -> DataFrame:
        """The living rows of files under the names of their columns there, with all that the log says of each file."""
        mode = column_mapping_mode(snapshot.metadata.configuration)
        data = without_void(StructType([f for f in schema.fields if f.name not in snapshot.metadata.partition_columns]))
        physical = StructType([*physical_schema(data, mode).fields, *(StructField(n, LongType()) for n in [*carried, *([ROW_INDEX] if counted else [])])])
        options = {VERSION_OPTION: str(snapshot.version)} | ({FIXED_OPTION: "true"} if fixed else {})
        if has_ambiguous_names(snapshot.schema):
            options["parquet.filter.dictionary.enabled"] = "false"
        if any(c["fromType"].startswith("decimal") for _, f in snapshot.schema.all_fields() for c in f.metadata.get(TYPE_CHANGES, ())):
            options["rowlockunfiltered"] = "true"
        values = {n: (t, pa.array([value_of(f) for f in files], _ARROW[type(t)])) for n, (t, value_of) in constants.items()}
        for field in schema.fields:
            if field.name in snapshot.metadata.partition_columns and not isinstance(field.dataType, NullType):
                key = _physical_field(field, mode).name
                values[key] = (bare(field.dataType), pa.array([f.partition_values.get(key) or None for f in files], pa.string()))
        bits = None
        if dead:
            bits, places = dead_bits([dead[f.path] for f in files])
            values |= {n: (LongType(), pa.array(numbers, pa.int64())) for n, numbers in zip((_START, _BUCKETS), zip(*places, strict=True), strict=True)}
        listed = [(self.uri(f), f.size_bytes, f.modification_time_ms) for f in files]
        raw = scan(self.spark, self.root, listed, physical, values, options, metadata=metadata and counted)
        return raw if bits is None else raw.where(_is_alive(self.spark, bits))

    def _column(self, snapshot: Snapshot, f: StructField) -> str | Column:
        """A column of the table, as the name of one of the files, or as it is computed of them."""
        if isinstance(f.dataType, NullType):
            return F.lit(None).alias(f.name)
        mode = column_mapping_mode(snapshot.metadata.configuration)
        if f.name in snapshot.metadata.partition_columns:
            value = padded(F.col(quote(_physical_field(f, mode).name)), f)
            return marked(value if f.nullable else catalyst(self.spark).known_not_null(value), f)
        (held,) = without_void(StructType([f])).fields
        physical = _physical_field(held, mode)
        logical, wanted = bare(held.dataType), bare(f.dataType)
        same = physical.dataType == logical or mode == "none"
        if same and logical == wanted:
            return physical.name
        column = F.col(quote(physical.name))
        return reshaped(column if same else column.cast(logical), logical, wanted).alias(f.name)

    def uri(self, file: AddFile) -> str:
        """A file's URI as Spark's `_metadata.file_path` spells it."""
        return spark_uri(self.spark, paths.join(self.root, file.path))


def scan(
    spark: SparkSession,
    root: str,
    files: Sequence[tuple[str, int, int]],
    schema: StructType,
    values: Mapping[str, tuple[DataType, pa.Array]],
    options: Mapping[str, str] | None = None,
    *,
    metadata: bool = False,
) -> DataFrame:
    """The rows of a table's Parquet files, given as (URI, bytes, time of modification in ms), with columns as nullable as in `schema`.  Nothing is listed.

    `values` are more columns: one value for each file, which Spark casts to the type.  Spark takes them for the values of partitions: a row
    costs nothing more, and conditions on them skip files.  With `metadata` the last column is Spark's `_metadata` without row numbers.
    """
    listed = "\n".join(f"{uri} {size} {time}" for uri, size, time in files)  # a URI has no blanks
    typed = None
    if values:
        table = pa.table({n: held for n, (_, held) in values.items()})
        typed = local_frame(spark, table).select(*(F.col(quote(n)).cast(t).alias(n) for n, (t, _) in values.items()))._jdf
    bridge = catalyst(spark)
    types = bridge.data_type.fromJson(schema.json())
    plan = in_jvm(spark).scan(spark._jsparkSession, spark_uri(spark, root), types, listed, typed, dict(options or {}), metadata)
    return bridge.dataframe(plan, spark)


def project(frame: DataFrame, columns: Mapping[str, str | Column], metadata: Mapping[str, Mapping[str, Any]] | None = None) -> DataFrame:
    """The frame with these columns: each is one of its own by its name there, with other metadata where given, or a Column by that name.

    The JVM is called once for all of its own: a Column of pyspark takes five calls, which for a thousand columns is more than the scan.
    """
    spark, given = frame.sparkSession, metadata or {}
    said = {n: {} if isinstance(c, Column) else {"from": c, **({"as": given[n]} if given.get(n) else {})} for n, c in columns.items()}
    types = catalyst(spark).data_type.fromJson(StructType([StructField(n, NullType(), True, {**says}) for n, says in said.items()]).json())
    computed = catalyst(spark).array_list(c._jc for c in columns.values() if isinstance(c, Column))
    return DataFrame(in_jvm(spark).project(frame._jdf, types, computed), spark)


OF_IDS: Constants = {_BASE: (LongType(), lambda f: f.base_row_id), _VERSION: (LongType(), lambda f: f.default_row_commit_version)}
"""What the log says of the ids and commit versions of a file's rows."""


def _ids_of_rows(ids: MaterializedColumns) -> dict[str, Column]:
    """The row id and the commit version of each row of a scan with OF_IDS: those that the file holds, else those that follow from its place in the file."""
    held = F.col(quote(ids.row_id)), F.col(quote(ids.commit_version))
    return {ids.row_id: F.coalesce(held[0], F.col(_BASE) + F.col(ROW_INDEX)), ids.commit_version: F.coalesce(held[1], F.col(_VERSION))}


def in_jvm(spark: SparkSession) -> JavaObject:
    """`rowlock.DataFiles` in the session's JVM; its class is loaded with the first call."""
    bridge = catalyst(spark)
    if bridge.data_files is None:
        classes = Classes(spark)
        classes.load("files")
        bridge.data_files = classes.new("DataFiles")
    return bridge.data_files


def _metadata_of(raw: DataFrame, *, counted: bool) -> Column:
    """Spark's `_metadata` of a scan, marked as such through a union.  Where the scan counts its rows already, their numbers come from there."""
    found = raw.metadataColumn(_METADATA)
    if counted:
        rest = raw.schema[_METADATA].dataType
        assert isinstance(rest, StructType)
        found = F.struct(*(F.col(_METADATA).getField(n).alias(n) for n in rest.names), F.col(ROW_INDEX).alias("row_index"))
    return found.alias(_METADATA, metadata={"__metadata_col": _METADATA})


def local_frame(spark: SparkSession, table: pa.Table, schema: StructType | None = None) -> DataFrame:
    """Rows on the driver as a DataFrame, without pyspark's conversions and without making `spark` the thread's active session.  By default of texts and bigints."""
    schema = schema or StructType([StructField(f.name, StringType() if pa.types.is_string(f.type) else LongType()) for f in table.schema])
    if is_connect(spark):
        return spark.createDataFrame([tuple(row.values()) for row in table.to_pylist(maps_as_pydicts="strict")], schema)
    large = is_set(spark, "spark.sql.execution.arrow.useLargeVarTypes")
    return DataFrame(catalyst(spark).frame_of(normalized(table, large=True) if large else table, schema.json(), spark._jsparkSession), spark)


def rows_frame(spark: SparkSession, columns: StructType, rows: Iterable[Sequence[Any]]) -> DataFrame:
    """Few rows of Python values as a DataFrame, by way of Arrow: pyspark's own conversion starts a worker of Python on an executor."""
    listed, arrow = list(rows), arrow_schema(columns)
    values = zip(*listed, strict=True) if listed else ((),) * len(arrow)
    arrays = [pa.array([list(v.items()) if isinstance(v, Mapping) else v for v in column], f.type) for column, f in zip(values, arrow, strict=True)]
    return local_frame(spark, pa.table(arrays, schema=arrow), columns)


def empty_frame(spark: SparkSession, schema: StructType) -> DataFrame:
    """A DataFrame of this schema without rows."""
    return local_frame(spark, arrow_schema(schema).empty_table(), schema)


def dead_bits(vectors: Sequence[BitMap64]) -> tuple[bytes, list[tuple[int, int]]]:
    """Which rows of some files are dead, as 64-bit numbers, and for each file where its part of them begins and how many buckets of rows it names.

    A file's part holds for each bucket of 2,048 positions the place of its 32 numbers; after its buckets, and for those without dead rows, that of 32 zeros.
    """
    sizes = [(v.max() >> _BUCKET_BITS) + 1 if v else 0 for v in vectors]
    zeros = sum(sizes) + len(sizes)
    places, blocks = np.full(zeros, zeros, np.int64), [np.zeros(_NUMBERS, np.int64)]
    starts, end = [int(n) for n in np.cumsum([0, *(size + 1 for size in sizes)])[:-1]], zeros + _NUMBERS
    for vector, start in ((v, s) for v, s in zip(vectors, starts, strict=True) if v):
        positions = bitmap_to_numpy(vector)
        numbers, first = np.unique(positions >> 6, return_index=True)
        buckets, block = np.unique(numbers // _NUMBERS, return_inverse=True)
        bits = np.zeros(len(buckets) * _NUMBERS, np.int64)
        bits[block * _NUMBERS + numbers % _NUMBERS] = np.bitwise_or.reduceat(np.int64(1) << (positions & 63), first)
        places[start + buckets] = np.arange(end, end + len(bits), _NUMBERS)
        blocks.append(bits)
        end += len(bits)
    return np.concatenate([places, *blocks]).astype("<i8").tobytes(), list(zip(starts, sizes, strict=True))


def _is_alive(spark: SparkSession, bits: bytes) -> Column:
    """Whether a row of a scan with ROW_INDEX, and _START and _BUCKETS of `dead_bits`, is not dead.

    `Living` in files.java plans a filter of its own of it, below all others: under ANSI another condition may raise on a dead row.
    """
    bridge, files = catalyst(spark), in_jvm(spark)
    key = f"{spark.sparkContext.applicationId} {xxhash.xxh3_128_hexdigest(bits)}"
    held = _bits.get(key)  # the same for equal scans, whose results Spark then shares
    numbers, _ = held or _bits.setdefault(key, (files.numbers(spark.sparkContext._jsc, bits, _IN_TASK_BYTES), len(bits)))

    def at(place: Column) -> Column:
        return bridge.column(files.at(numbers, bridge.column_of.expression(place.cast("int")._jc)))

    row = F.col(ROW_INDEX)
    block = at(F.col(_START) + F.least(F.shiftright(row, _BUCKET_BITS), F.col(_BUCKETS)))
    return F.getbit(at(block + F.shiftright(row, 6).bitwiseAND(F.lit(_NUMBERS - 1))), row.bitwiseAND(F.lit(63)).cast("int")) == 0


def hash_of_uri(uri: str) -> int:
    """Spark's `xxhash64(uri)`, a signed 64-bit number."""
    number = xxhash.xxh64_intdigest(uri.encode(), seed=42)  # Spark's seed
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


def check_names(snapshot: Snapshot) -> None:
    """Raises UnsupportedFeature for a column, by its name in the table or in data files, that would hide Spark's row numbers or a column of Rowlock's own."""
    names = [name for f in snapshot.schema.fields for name in (f.name, f.physical_name)]
    if taken := reserved_names(names):
        text = f"A column named {taken[0]} would hide one by which rows are found in data files; rename it with the engine that made it"
        raise UnsupportedFeature(text, feature=taken[0], access="read", table=snapshot.table, version=snapshot.version)
