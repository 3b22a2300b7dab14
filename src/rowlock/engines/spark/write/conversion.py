"""A folder of Parquet files on its way to being a Delta table: which files there are, what columns they have, what their folders say.

Owns the reading of a folder that no log describes.  Writes nothing.  Statistics are hints that must never be false (I5): bounds
are taken only from footers whose writer is known to keep Spark's calendar.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from rowlock.engines.spark.catalyst.bridge import bare, catalyst, nullable_type
from rowlock.engines.spark.read.scan import local_frame, read_parquet
from rowlock.exceptions import CorruptLog, InvalidInput, SchemaMismatch, UnsupportedFeature, WrongType
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.files import open_parquet
from rowlock.parquet.writing import stats_leaves
from rowlock.protocol import paths, statistics
from rowlock.protocol.actions import AddFile
from rowlock.protocol.partition_values import parse_stored, serialize
from rowlock.protocol.schema import PrimitiveType, parse_schema, type_name
from rowlock.protocol.schema import StructField as TableField
from rowlock.storage.store import ObjectMeta, ObjectStore
from rowlock.threads import side_by_side

_KEPT = ("comment", "__CHAR_VARCHAR_TYPE_STRING")
_THREADS = 8


def folder_in(spark: SparkSession, identifier: str) -> str:
    """The path in parquet.`/path`.  Raises Spark's ParseException, and UnsupportedFeature for a table in the catalog."""
    parts = catalyst(spark).list(spark._jsparkSession.sessionState().sqlParser().parseMultipartIdentifier(identifier))
    if len(parts) != 2 or str(parts[0]).lower() != "parquet":
        raise UnsupportedFeature(
            f"This version converts folders, named parquet.`/path/of/folder`, not {identifier}", feature="conversion of tables in the catalog", access="write"
        )
    return str(parts[1])


def partition_type(given: StructType | str | None) -> StructType:
    """The partition columns as a caller says them.  Raises Spark's ParseException, WrongType."""
    if given is None or isinstance(given, StructType):
        return given or StructType()
    if not isinstance(given, str):
        raise WrongType(f"partitionSchema must be a StructType or a string such as 'day date', not {type(given).__name__}")
    parsed = StructType.fromDDL(given)
    assert isinstance(parsed, StructType)
    return parsed


def files_in(spark: SparkSession, store: ObjectStore, partitions: StructType) -> list[AddFile]:
    """The folder's data files with the values that their folders say, without statistics.

    Raises InvalidInput where there is none or a value is not of its column's type, SchemaMismatch where the folders are of other columns.
    """
    found = [m for m in store.list(recursive=True) if not any(map(_hidden, m.key.split("/")))]
    if not found:
        raise InvalidInput("There is no Parquet file in the folder [DELTA_EMPTY_DIRECTORY]", table=store.root)
    said = [_said(m, partitions, store.root) for m in found]
    typed = parse_schema(partitions.json(), store.root).fields if partitions.names else ()
    moments = _moments(spark, [s[f.name] for s in said for f in typed if f.type == PrimitiveType("timestamp")])
    return [_file(m, s, typed, moments, store.root) for m, s in zip(found, said, strict=True)]


def _moments(spark: SparkSession, texts: Sequence[str]) -> dict[str, int | None]:
    """What the session makes of texts that are cast to a timestamp, in microseconds since 1970 (UTC); None where it makes nothing of it."""
    if not texts:
        return {}
    frame = local_frame(spark, pa.table({"text": sorted(set(texts))}), StructType([StructField("text", StringType())]))
    return {row[0]: row[1] for row in frame.select("text", F.unix_micros(F.col("text").try_cast("timestamp_ltz"))).collect()}


def _hidden(part: str) -> bool:
    return part.startswith(".") or (part.startswith("_") and "=" not in part)


def _said(meta: ObjectMeta, partitions: StructType, table: str) -> dict[str, str]:
    """What a file's folders say, by the names of the partition columns as they were given."""
    said = [part.split("=", 1) for part in meta.key.split("/")[:-1] if "=" in part]
    names, wanted = [unquote(name) for name, _ in said], partitions.names
    if sorted(n.lower() for n in names) != sorted(n.lower() for n in wanted):
        raise SchemaMismatch(
            f"The folders of {meta.key} say the partition columns [{', '.join(names)}], and [{', '.join(wanted)}] were given as partitionSchema [DELTA_UNEXPECTED_NUM_PARTITION_COLUMNS_FROM_FILE_NAME]",
            table=table,
        )
    texts = {unquote(name).lower(): unquote(text) for name, text in said}
    return {n: texts[n.lower()] for n in wanted}


def _file(meta: ObjectMeta, said: Mapping[str, str], partitions: Sequence[TableField], moments: Mapping[str, int | None], table: str) -> AddFile:
    values: dict[str, str | None] = {}
    for field in partitions:
        text = said[field.name]
        try:
            if text == paths.NULL_DIRECTORY:
                values[field.name] = None
            elif text in moments and field.type == PrimitiveType("timestamp"):
                values[field.name] = serialize(_known(moments[text], text), field.type)
            else:
                values[field.name] = serialize(parse_stored(text, field.type), field.type)
        except CorruptLog as e:
            raise InvalidInput(
                f"The folder of {meta.key} says {field.name} = {text!r}, which is no {type_name(field.type)} [DELTA_FAILED_CAST_PARTITION_VALUE]", table=table
            ) from e
    return AddFile(meta.key, values, meta.size_bytes, meta.modified_ms, True, None)


def _known(micros: int | None, text: str) -> int:
    if micros is None:
        raise CorruptLog(f"{text!r} is no timestamp")
    return micros


def schema_in(spark: SparkSession, root: str, files: Sequence[AddFile], partitions: StructType) -> StructType:
    """The columns of all files together, then the partition columns; all may be null.  One Spark job.  Raises SchemaMismatch where files contradict each other."""
    reader_options = {"mergeSchema": "true", "recursiveFileLookup": "true"}
    try:
        data = read_parquet(spark, None, [paths.join(root, f.path) for f in files], options=reader_options).schema
    except (PySparkException, Py4JJavaError) as e:
        reason = str(e.java_exception.getMessage()) if isinstance(e, Py4JJavaError) else str(e)
        raise SchemaMismatch(f"The files have no columns in common form: {reason}", table=root) from e
    taken = {n.lower() for n in partitions.names}
    if both := [n for n in data.names if n.lower() in taken]:
        raise SchemaMismatch(f"Column {both[0]!r} is in the files and in the names of their folders: it can be one of the two", table=root)
    return StructType([_plain(f) for f in (*data.fields, *partitions.fields)])


def _plain(f: StructField) -> StructField:
    """A nullable column without what another table's log said of it."""
    return StructField(f.name, nullable_type(bare(f.dataType)), True, {k: v for k, v in f.metadata.items() if k in _KEPT})


def footers_of(store: ObjectStore, files: Sequence[AddFile]) -> list[pq.FileMetaData]:
    """The files' footers, in their order.  Raises InvalidInput for a file that is no Parquet file."""

    def read(file: AddFile) -> pq.FileMetaData:
        try:
            with open_parquet(store, file.path, file.size_bytes) as source:
                return source.metadata
        except (pa.ArrowException, OSError) as e:
            raise InvalidInput(f"{file.path} is not a Parquet file: move it away, or give it a name that begins with '_'", table=store.root) from e

    return side_by_side(read, files, _THREADS)


def with_statistics(files: Sequence[AddFile], footers: Sequence[pq.FileMetaData], snapshot: Snapshot) -> list[AddFile]:
    """The files with what their footers say, as it may be believed."""
    leaves = stats_leaves(snapshot)
    return [
        replace(file, stats=statistics.from_parquet_metadata(footer, leaves if _keeps_the_calendar(footer) else []))
        for file, footer in zip(files, footers, strict=True)
    ]


def _keeps_the_calendar(footer: pq.FileMetaData) -> bool:
    """Whether Spark 3 or newer wrote the file, and not in its mode for older readers: other writers may count days before 1582 otherwise."""
    said = footer.metadata or {}
    version = said.get(b"org.apache.spark.version", b"").split(b".")[0]
    return version.isdigit() and int(version) >= 3 and not any(k.startswith(b"org.apache.spark.legacy") for k in said)
