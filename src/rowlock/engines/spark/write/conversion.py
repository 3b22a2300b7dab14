"""Reads a folder of Parquet files for CONVERT TO DELTA: its files, their columns, and the partition values in folder names.

Writes nothing.  Statistics are hints that must never be false (I5): bounds are taken only from footers whose writer is known
to use Spark's calendar.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import unquote

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, functions as F
from pyspark.sql.types import StructField, StructType

from rowlock.conditions import named
from rowlock.engines.spark.catalog import Name, ParquetTable
from rowlock.engines.spark.catalyst.bridge import bare, catalyst, nullable_type
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.read.scan import local_frame
from rowlock.exceptions import CorruptLog, InvalidInput, SchemaMismatch, WrongType
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.files import open_parquet
from rowlock.protocol import paths, statistics
from rowlock.protocol.actions import AddFile
from rowlock.protocol.arrow_types import SPARK_VERSION, legacy_calendars
from rowlock.protocol.partition_values import parse_stored, serialize
from rowlock.protocol.paths import is_hidden
from rowlock.protocol.schema import INTEGER_BITS, DataType, PrimitiveType, StructField as TableField, dotted, parse_schema, schema_json, type_name
from rowlock.protocol.schema_fit import merged_schema, type_changes
from rowlock.storage.store import ObjectMeta, ObjectStore
from rowlock.threads import side_by_side

_KEPT = ("comment", "__CHAR_VARCHAR_TYPE_STRING")
_SPARKS_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_GLOB = re.compile(r"[{}\[\]*?\\]")


@dataclass(frozen=True, slots=True)
class ParquetFolder:
    """The Parquet files in a folder and their columns.  `footers`: of each file, None where no statistics were asked for."""

    files: Sequence[AddFile]
    columns: StructType
    footers: Sequence[pq.FileMetaData] | None

    def adds(self, snapshot: Snapshot) -> Sequence[AddFile]:
        """The files with statistics from their footers; bounds only where these can be trusted."""
        if self.footers is None:
            return self.files
        leaves, characters = snapshot.stats_leaves(), snapshot.properties.stats_text_characters
        return [
            replace(file, stats=statistics.from_parquet_metadata(footer, leaves if _has_sparks_calendar(footer) else [], text_characters=characters))
            for file, footer in zip(self.files, self.footers, strict=True)
        ]


def parquet_folder(evaluator: Evaluator, partitions: StructType, listed: ParquetTable | None, path: str, *, with_footers: bool) -> ParquetFolder:
    """Reads the table's folder, whose `path` errors name; `listed` is what the catalog holds of it.  Raises InvalidInput, SchemaMismatch."""
    files = _files_in(evaluator.spark, evaluator.store, partitions)
    footers = _footers_of(evaluator.store, files) if with_footers else None
    columns = _columns_in(evaluator, files, partitions, footers)
    if listed is not None:
        _check_partitions(listed, files, path)
        columns = _in_catalog(listed, columns, path)
    return ParquetFolder(files, columns, footers)


def folder_in(spark: SparkSession, identifier: str) -> tuple[str, str | None]:
    """(format, path) of an identifier such as parquet.`/path` or delta.`/path`; the path is None for a name in the catalog, which may have a schema `parquet`.

    Raises Spark's ParseException.
    """
    parts = catalyst(spark).list(spark._jsparkSession.sessionState().sqlParser().parseMultipartIdentifier(identifier))
    first = str(parts[0]).lower()
    is_folder = paths.path_of([str(p) for p in parts]) is not None or (len(parts) == 2 and first == "parquet" and Name(spark, identifier).entry() is None)
    return first, str(parts[1]) if is_folder else None


def parquet_named(spark: SparkSession, parts: Sequence[str]) -> tuple[str, ParquetTable | None] | None:
    """The folder of Parquet files that a name stands for, and what the catalog holds of it where that has the name; None for any other name, and a table's path."""
    if parts[0].lower() == "parquet" and folder_in(spark, dotted(parts))[1] is not None:
        return parts[1], None
    if paths.path_of(parts) is not None or not (name := Name(spark, dotted(parts))).is_parquet:
        return None
    listed = name.parquet()
    return listed.folder, listed


def _check_partitions(listed: ParquetTable, files: Sequence[AddFile], root: str) -> None:
    """Raises InvalidInput where the partitions that the catalog knows are others than those in the table's folder: rows would go, or come."""
    if listed.partitions is None:
        return
    there = {paths.join(root, f.path).rpartition("/")[0] for f in files}
    if other := sorted(p for p in listed.partitions if not p.startswith(root + "/")):
        raise InvalidInput(f"The partition in {other[0]} is not below the table's folder: move it there first", table=root)
    if other := sorted(there - listed.partitions):
        raise InvalidInput(f"The catalog knows no partition in {other[0]}, where files are: MSCK REPAIR TABLE adds it, or delete the folder", table=root)


def _in_catalog(listed: ParquetTable, files: StructType, root: str) -> StructType:
    """The columns that the catalog says, made nullable.  Raises SchemaMismatch where those of the files have other types."""
    have = {f.name.lower(): nullable_type(bare(f.dataType)) for f in files.fields}
    columns = StructType([_plain(f) for f in listed.columns.fields])
    for f in columns.fields:
        if have.get(f.name.lower(), f.dataType) != f.dataType:
            text = f"Column {f.name!r} is {f.dataType.simpleString()} in the catalog and {have[f.name.lower()].simpleString()} in files"
            raise SchemaMismatch(text, table=root)
    return columns


def partition_type(given: StructType | str | None) -> StructType:
    """The partition columns, given as a StructType, as DDL or not at all.  Raises Spark's ParseException, WrongType."""
    if given is None or isinstance(given, StructType):
        return given or StructType()
    if not isinstance(given, str):
        raise WrongType(f"partitionSchema must be a StructType or a string such as 'day date', not {type(given).__name__}")
    parsed = StructType.fromDDL(given)
    assert isinstance(parsed, StructType)
    return parsed


def _files_in(spark: SparkSession, store: ObjectStore, partitions: StructType) -> list[AddFile]:
    """The data files in the store's folder with the partition values in their folder names, without statistics.

    Raises InvalidInput where there is no file or a value is not of its column's type, SchemaMismatch where folder names have other columns.
    """
    found = [m for m in store.list(recursive=True) if not is_hidden(m.key)]
    if not found:
        raise InvalidInput("There is no Parquet file in the folder", table=store.root, condition=named("DELTA_EMPTY_DIRECTORY"))
    texts = [_texts_in_folders(m, partitions, store.root) for m in found]
    typed = parse_schema(partitions.json(), store.root).fields if partitions.names else ()
    timestamps = _timestamps(spark, [s[f.name] for s in texts for f in typed if f.type == PrimitiveType("timestamp")])
    return [_file(m, s, typed, timestamps, store.root) for m, s in zip(found, texts, strict=True)]


def _timestamps(spark: SparkSession, texts: Sequence[str]) -> dict[str, int | None]:
    """The microseconds since 1970 (UTC) of each text, cast to a timestamp by the session; None for text that it cannot cast."""
    if not texts:
        return {}
    frame = local_frame(spark, pa.table({"text": sorted(set(texts))}))
    return {row[0]: row[1] for row in frame.select("text", F.unix_micros(F.col("text").try_cast("timestamp_ltz"))).collect()}


def _texts_in_folders(meta: ObjectMeta, partitions: StructType, table: str) -> dict[str, str]:
    """The partition values as text in the names of a file's folders, by the given names of the partition columns.  Raises SchemaMismatch."""
    pairs = [part.split("=", 1) for part in meta.key.split("/")[:-1] if "=" in part]
    names, wanted = [unquote(name) for name, _ in pairs], partitions.names
    if sorted(n.lower() for n in names) != sorted(n.lower() for n in wanted):
        raise SchemaMismatch(
            f"The folders of {meta.key} say the partition columns [{', '.join(names)}], and [{', '.join(wanted)}] were given as partitionSchema",
            table=table,
            condition=named("DELTA_UNEXPECTED_NUM_PARTITION_COLUMNS_FROM_FILE_NAME"),
        )
    texts = {unquote(name).lower(): unquote(text) for name, text in pairs}
    return {n: texts[n.lower()] for n in wanted}


def _file(meta: ObjectMeta, texts: Mapping[str, str], partitions: Sequence[TableField], timestamps: Mapping[str, int | None], table: str) -> AddFile:
    values: dict[str, str | None] = {}
    for field in partitions:
        text = texts[field.name]
        try:
            if text == paths.NULL_DIRECTORY:
                values[field.name] = None
            elif text in timestamps and field.type == PrimitiveType("timestamp"):
                values[field.name] = serialize(_checked(timestamps[text], text), field.type)
            else:
                values[field.name] = serialize(parse_stored(text, field.type), field.type)
        except CorruptLog as e:
            raise InvalidInput(
                f"The folder of {meta.key} says {field.name} = {text!r}, which is no {type_name(field.type)}",
                table=table,
                condition=named("DELTA_FAILED_CAST_PARTITION_VALUE"),
            ) from e
    return AddFile(meta.key, values, meta.size_bytes, meta.modified_ms, True, None)


def _checked(micros: int | None, text: str) -> int:
    if micros is None:
        raise CorruptLog(f"{text!r} is no timestamp")
    return micros


def _columns_in(evaluator: Evaluator, files: Sequence[AddFile], partitions: StructType, footers: Sequence[pq.FileMetaData] | None) -> StructType:
    """The merged columns of all files, and the partition columns, all nullable.  Raises SchemaMismatch where files contradict each other.

    A partition column that files hold as well is where it is in them, and its values are those of the folders, as Spark reads such folders.
    `footers`: those of the files, where they were read.
    """
    names = [paths.join(evaluator.root, f.path) for f in files]
    try:
        data = _read_schema(evaluator.scanner.spark, names)
        if len({n.lower() for n in data.names}) < len(data.names):
            data = _merged_one_by_one(evaluator, names, files, footers)
    except (PySparkException, Py4JJavaError) as e:
        reason = str(e.java_exception.getMessage()) if isinstance(e, Py4JJavaError) else str(e)
        if "CANNOT_MERGE" not in reason:
            raise SchemaMismatch(f"The files have no columns in common form: {reason}", table=evaluator.root) from e
        data = _merged_one_by_one(evaluator, names, files, footers)
    of_folders = {f.name.lower(): f for f in partitions.fields}
    beside = [f for f in partitions.fields if f.name.lower() not in {n.lower() for n in data.names}]
    return StructType([_plain(of_folders.get(f.name.lower(), f)) for f in (*data.fields, *beside)])


def _read_schema(spark: SparkSession, names: Sequence[str]) -> StructType:
    """The columns of files as Spark merges them.  One Spark job."""
    reader = spark.read.options(mergeSchema="true", recursiveFileLookup="true")
    if any(_GLOB.search(n) for n in names):  # without globbing Spark would read all files once for each name that looks like a pattern
        return reader.parquet(*(_GLOB.sub(r"\\\g<0>", n) for n in names)).schema
    return reader.option("__globPaths__", "false").parquet(*names).schema


def _merged_one_by_one(evaluator: Evaluator, names: Sequence[str], files: Sequence[AddFile], footers: Sequence[pq.FileMetaData] | None) -> StructType:
    """The columns of files in which one has a name in other letters, or as a narrower whole number, which Parquet holds as it holds an int.

    A Spark job for each form that files have.  Raises SchemaMismatch for types that contradict each other.
    """
    root, footers = evaluator.store.root, _footers_of(evaluator.store, files) if footers is None else footers
    forms = {f"{footer.schema}{(footer.metadata or {}).get(_SPARKS_SCHEMA)!r}": name for name, footer in zip(names, footers, strict=True)}
    each = [parse_schema(_read_schema(evaluator.scanner.spark, [name]).json(), root) for name in forms.values()]
    merged = functools.reduce(lambda one, other: merged_schema(one, other, widening=_within_an_int), each)
    for path, other, type_ in (found for one in each for found in type_changes(one, merged)):
        if not _within_an_int(other, type_):
            name = ".".join(path)
            condition = named("DELTA_FAILED_TO_MERGE_FIELDS", currentField=name, updateField=name)
            text = f"The files have no columns in common form: {name} is {type_name(other, sql=True)} in one and {type_name(type_, sql=True)} in another"
            raise SchemaMismatch(text, table=root, condition=condition)
    return StructType.fromJson(orjson.loads(schema_json(merged)))


def _within_an_int(old: DataType, new: DataType) -> bool:
    return isinstance(old, PrimitiveType) and isinstance(new, PrimitiveType) and INTEGER_BITS.get(old.name, 64) < INTEGER_BITS.get(new.name, 64) < 64


def _plain(f: StructField) -> StructField:
    """The column made nullable, without metadata that another table's log gave it."""
    return StructField(f.name, nullable_type(bare(f.dataType)), True, {k: v for k, v in f.metadata.items() if k in _KEPT})


def _footers_of(store: ObjectStore, files: Sequence[AddFile]) -> list[pq.FileMetaData]:
    """The footers of the files, in the same order.  Raises InvalidInput for a file that is not Parquet."""

    def read(file: AddFile) -> pq.FileMetaData:
        try:
            with open_parquet(store, file.path, file.size_bytes) as source:
                return source.metadata
        except CorruptLog as e:
            raise InvalidInput(f"{file.path} is not a Parquet file: move it away, or give it a name that begins with '_'", table=store.root) from e

    return side_by_side(read, files, limits().file_threads)


def _has_sparks_calendar(footer: pq.FileMetaData) -> bool:
    """Whether Spark wrote the file, and not in the calendar of Spark 2: other writers may count days before 1582 differently."""
    metadata = footer.metadata or {}
    return SPARK_VERSION.encode() in metadata and not legacy_calendars(metadata)[0]
