"""Writes many rows with Spark's Parquet writer, into a new folder of the table, where the files stay: rows of statements, rows that stay of a
file that is written anew (copy on write), and change data.

Only files that the finished job left in that folder are committed; files of failed tasks are garbage that no commit
names (I10).  Statistics come from the footers.  Few changed rows are written on the driver.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import Column, DataFrame, functions as F
from pyspark.sql.types import LongType, StructField as SparkField, StructType as SparkStruct

from rowlock import clock
from rowlock.boundary.effects import Change, StagedFile
from rowlock.boundary.row_identity import identities_in
from rowlock.conflict.change_feed import CHANGE_TYPE, FOLDER, cdc_action
from rowlock.conflict.delta import Slice
from rowlock.engines.spark.catalyst.bridge import bare, nullable
from rowlock.engines.spark.driver_rows import read_slices
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.read.scan import POSITION, local_frame, physical_schema, project, reshaped, table_schema, without_void
from rowlock.engines.spark.read.stored_origin import stored_position
from rowlock.engines.spark.session.clouds import spark_root
from rowlock.exceptions import InvalidInput
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.blocks import StagedRows, logical
from rowlock.parquet.files import open_parquet
from rowlock.parquet.physical import names_in_files
from rowlock.parquet.writing import PartitionValues, codec_of
from rowlock.protocol import partition_values, paths, statistics
from rowlock.protocol.actions import AddCdcFile, AddFile
from rowlock.protocol.column_mapping import is_mapped
from rowlock.protocol.paths import is_hidden
from rowlock.protocol.schema import VOID, DataType, PrimitiveType, StructType, quote, type_names
from rowlock.protocol.statistics import has_ambiguous_names
from rowlock.storage.open import folds_names
from rowlock.storage.store import ObjectStore, discard


def _file_columns(snapshot: Snapshot) -> dict[str, Column]:
    """By logical name, the columns of a DataFrame that data files hold otherwise: all where columns are mapped, else structs with void fields, without these."""
    mapped = is_mapped(snapshot.metadata.configuration)
    names = {f.name for f in snapshot.schema.fields if mapped or (isinstance(f.type, StructType) and VOID in type_names(f.type))}
    return {f.name: _file_column(f, mapped) for f in (table_schema(snapshot).fields if names else ()) if f.name in names}


def _file_column(field: SparkField, mapped: bool) -> Column:
    """A column of a DataFrame; mapped with the physical name, the physical names of its nested fields and the field ids of data files."""
    stored = next(iter(without_void(SparkStruct([field])).fields), field)
    value = reshaped(F.col(quote(field.name)), bare(field.dataType), bare(stored.dataType))
    if not mapped:
        return value.alias(field.name)
    made = nullable(physical_schema(SparkStruct([stored]), "id"), metadata=True).fields[0]
    nested = made.dataType.typeName() in ("struct", "array", "map")
    metadata = {**made.metadata, "rowlock.written": True}  # Spark drops an alias that has what a column of the scan has, and the field id of a variant with it
    return (value.cast(made.dataType) if nested else value).alias(made.name, metadata=metadata)


_LIKE_NULL = f"(?:{paths.NULL_DIRECTORY})+"
_NO_TEXT = "\x01 no UTF-8: "
"""Prefix of a folder name that gives a string in hexadecimal.

It is used for a string that itself begins like a prefix; with `!` after it, for the first bytes of a string that is not UTF-8, which is refused."""
_LONG = "\x01 long: "
"""Prefix of a folder name that gives the digest of a value that is too long for one."""
_ESCAPED = r"""[\x01-\x1f"#%'*/:=?\\\x7f{\[\]^]"""
"""The characters of which Spark makes three in the name of a folder."""
_TEXTS = (PrimitiveType("string"), PrimitiveType("binary"))


def folder_text(name: str, type_: DataType, *, folds: bool, room: int = paths.NAME_BYTES) -> Column:
    """A partition column as text for folder names, which does not depend on the time zone or any setting of the session.

    Folder names only carry the values to the driver; the log gets what `partition_value` makes of them.
    `folds`: for a disk on which names that differ in case, or in how letters are composed, are one; each text ends with a mark of its own there.
    `room`: how many bytes a text may have.
    """
    column = F.col(quote(name))
    if type_ == PrimitiveType("timestamp"):
        return F.unix_micros(column).cast("string")
    if type_ == PrimitiveType("binary"):
        return _within(room, F.hex(column), column)
    text = column.cast("string")
    if type_ != PrimitiveType("string"):
        return text
    like_null = F.concat(text, F.lit(paths.NULL_DIRECTORY))
    data = column.cast("binary")
    refused = F.concat(F.lit(_NO_TEXT + "!"), F.hex(F.substring(data, 1, 32)))
    in_hexadecimal = F.concat(F.lit(_NO_TEXT), F.hex(data))
    said = (
        F.when(~F.is_valid_utf8(text), refused).when(text.startswith("\x01 "), in_hexadecimal).when(text.rlike(rf"\A{_LIKE_NULL}\z"), like_null).otherwise(text)
    )
    return F.concat(_within(room - 9, said, data), F.lit("."), F.substring(F.md5(data), 1, 8)) if folds else _within(room, said, data)


def _within(room: int, text: Column, value: Column) -> Column:
    """The text for the name of a folder; the digest of the value, as `_LONG` says, where it would be longer than `room` bytes there."""
    # No text is longer than three times its value and a prefix; most values are short, and their texts are not looked at.
    is_long = (F.octet_length(value) * 3 + 64 > room) & (F.octet_length(F.regexp_replace(text, _ESCAPED, "123")) > room)
    return F.when(is_long, F.concat(F.lit(_LONG), F.sha2(value, 256))).otherwise(text)


def partition_value(text: str, type_: DataType, *, folds: bool, long: Callable[[str], str] = str) -> str | None:
    """The partition value, as the log spells it, from the text that `folder_text` made.  Raises InvalidInput for a value that the log cannot hold.

    `long`: the long value that a digest names.
    """
    if text == paths.NULL_DIRECTORY:
        return None
    if folds and type_ == PrimitiveType("string"):
        text = text.rpartition(".")[0]
    if text.startswith(_LONG):
        return long(text[len(_LONG) :])
    if type_ == PrimitiveType("string") and text.startswith(_NO_TEXT):
        hexadecimal = text[len(_NO_TEXT) :]
        if hexadecimal.startswith("!"):
            raise partition_values.not_utf8(bytes.fromhex(hexadecimal[1:]), type_)
        return partition_values.serialize(bytes.fromhex(hexadecimal).decode(), type_)
    if type_ == PrimitiveType("timestamp"):
        return partition_values.serialize(int(text), type_)
    if type_ == PrimitiveType("string") and re.fullmatch(_LIKE_NULL, text):
        text = text[len(paths.NULL_DIRECTORY) :]
    return partition_values.serialize(bytes.fromhex(text) if type_ == PrimitiveType("binary") else partition_values.parse_stored(text, type_), type_)


def write_native(
    frame: DataFrame,
    store: ObjectStore,
    snapshot: Snapshot,
    *,
    group: str | None = None,
    within: str | None = None,
    values: PartitionValues | None = None,
    max_records: int | None = None,
) -> list[tuple[str | None, AddFile]]:
    """Writes a DataFrame with logical column names and returns (text of `group`, file) for each file that has rows.  One Spark job; runs on executors.

    group   a column by which the files are split too, and which they do not hold
    within  a folder of the table for files that are not data files, such as _change_data
    values  the partition values of all rows, as the log spells them, where they are known.  They are kept in that spelling,
            and the rows of a task keep their order, which Spark's own sort changes where it splits rows by partition

    max_records: how many rows a file holds at most, 0 for no limit; by default as the session says.  POSITION is stored in the form of `stored_position`.
    """
    stored, known = names_in_files(snapshot), dict(values or {})
    partitions = [n for n in snapshot.metadata.partition_columns if stored[n] not in known]
    prefix = None if within else snapshot.properties.random_prefix_length
    job = f"rl-{clock.new_id()[:13]}"
    folder = (f"{within}/" if within else f"{clock.new_id()[:prefix]}/" if prefix else "") + job
    types, held = {f.name: f.type for f in snapshot.schema.fields}, _file_columns(snapshot)
    folds = folds_names(store)
    texts = {n: folder_text(n, types[n], folds=folds, room=_room(stored[n])) for n in partitions}
    long = _long_values(frame, {n: text for n, text in texts.items() if types[n] in _TEXTS}, store.root)
    columns: dict[str, str | Column] = {
        n: texts[n].alias(stored[n]) if n in partitions else held.get(n, n)
        for n in frame.columns
        if n not in (POSITION, group) and stored.get(n) not in known and types.get(n) != PrimitiveType(VOID)
    }
    columns |= {job: group} if group else {}  # under its own name, which begins with _, its folders would be hidden from every VACUUM
    columns |= stored_position() if POSITION in frame.columns else {}
    writer = project(frame, columns).write.option("compression", codec_of(snapshot.metadata.configuration).spark)
    writer = writer.option("spark.sql.variant.inferShreddingSchema", snapshot.properties.shreds_variants)
    writer = writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", False)  # no file _SUCCESS, which VACUUM would leave there
    if has_ambiguous_names(snapshot.schema):
        writer = writer.option("parquet.enable.dictionary", "false")
    if max_records is not None:
        writer = writer.option("maxRecordsPerFile", max_records)
    by = ([job] if group else []) + [stored[n] for n in partitions]
    if by:
        writer = writer.partitionBy(*by)
    writer.parquet(paths.join(spark_root(store), folder))
    value_of = functools.partial(partition_value, folds=folds, long=long)
    written = [_file(store, folder, key, size, by, job if group else None, snapshot, value_of) for key, size in data_files(store, folder)]
    discard(store, (f.path for _, f in written if not f.num_records))
    return [(of_group, replace(f, partition_values={**f.partition_values, **known})) for of_group, f in written if f.num_records]


def data_files(store: ObjectStore, folder: str) -> list[tuple[str, int]]:
    """The keys and sizes of the files that a job's tasks have put into a folder.

    Without those of tries that came too late (a task that ran twice, a worker that was lost): they lie in hidden folders of Hadoop's committers, such as
    `_temporary`, and a try may still write there after the job has ended and cleared them away.
    """
    return [(m.key, m.size_bytes) for m in store.list(folder, recursive=True) if m.key.endswith(".parquet") and not is_hidden(m.key[len(folder) + 1 :])]


def _file(
    store: ObjectStore,
    folder: str,
    key: str,
    size_bytes: int,
    by: Sequence[str],
    group: str | None,
    snapshot: Snapshot,
    value_of: Callable[[str, DataType], str | None],
) -> tuple[str | None, AddFile]:
    texts = {name: unquote(part.split("=", 1)[1]) for part, name in zip(key[len(folder) + 1 :].split("/"), by, strict=False)}
    of_group = texts.pop(group) if group else None
    stored = names_in_files(snapshot)
    values = {stored[f.name]: value_of(texts[stored[f.name]], f.type) for f in snapshot.schema.fields if stored[f.name] in texts}
    with open_parquet(store, key, size_bytes) as source:
        metadata = source.metadata
    if not store.is_remote:
        _sync(paths.join(store.root, key))
    stats = statistics.from_parquet_metadata(metadata, snapshot.stats_leaves(), text_characters=snapshot.properties.stats_text_characters)
    return of_group, AddFile(key, values, size_bytes, clock.now_ms(), True, stats)


def _room(column: str) -> int:
    """How many bytes of a folder's name are left for the value of a partition column."""
    return paths.NAME_BYTES + 1 - len(paths.partition_directory({column: "1"}).encode())


def _long_values(frame: DataFrame, texts: Mapping[str, Column], table: str) -> Callable[[str], str]:
    """A function that returns the value that a digest in `texts` names: the first call reads such values of the rows once more, which few tables have.

    It raises InvalidInput where the rows are others by then.
    """

    @functools.cache
    def values() -> Mapping[str, str]:
        each = [frame.where(text.startswith(_LONG)).select(F.col(quote(name)).cast("binary").alias("value")) for name, text in texts.items()]
        found = functools.reduce(DataFrame.union, each).distinct().collect()
        return {hashlib.sha256(row.value).hexdigest(): bytes(row.value).decode() for row in found}

    def value(digest: str) -> str:
        if digest not in values():
            text = "The rows have other partition values each time they are read, and one is too long for the name of a folder: store them first, or cache them"
            raise InvalidInput(text, table=table)
        return values()[digest]

    return value


def _sync(place: str) -> None:
    """Forces a file to disk, before a commit names it."""
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_GROUP = "__rowlock_copy"


def copy_slices(evaluator: Evaluator, slices: Sequence[Slice], snapshot: Snapshot) -> dict[str, list[StagedFile]]:
    """Writes the rows of each slice into new files, which are returned by the slice's path.  Small files on the driver, the others in one Spark job."""
    out: dict[str, list[StagedFile]] = {}
    large: list[Slice] = []
    for piece in slices:
        found = evaluator.rows.read_slice(piece, snapshot) if evaluator.num_rows(piece.file) <= limits().local_rows else None
        if found is None:
            large.append(piece)
            continue
        rows = evaluator.with_ids(found[0], snapshot, functools.partial(identities_in, piece.file, found[1]))
        out[piece.path] = evaluator.rows.write(rows, snapshot) if rows.num_rows else []
    return out | (_copied_by_spark(evaluator, large, snapshot) if large else {})


def _copied_by_spark(evaluator: Evaluator, slices: Sequence[Slice], snapshot: Snapshot) -> dict[str, list[StagedFile]]:
    """`copy_slices`, in one Spark job."""
    number = {s.path: n for n, s in enumerate(slices)}
    out: dict[str, list[StagedFile]] = {s.path: [] for s in slices}
    frame = evaluator.live_frame(snapshot, slices, ids=True, constants={_GROUP: (LongType(), lambda f: number[f.path])})
    for group, file in write_native(frame, evaluator.store, snapshot, group=_GROUP):
        out[slices[int(group or 0)].path].append(StagedFile(file))
    return out


def write_changes(evaluator: Evaluator, changes: Sequence[Change], snapshot: Snapshot) -> list[AddCdcFile]:
    """Writes the changed rows, each with its `_change_type`, into files under `_change_data/`."""
    tables = _on_driver(evaluator, changes, snapshot)
    if tables is not None:
        return [cdc_action(s.add) for s in evaluator.rows.write(pa.concat_tables(tables), snapshot, folder=FOLDER)]
    frames = [frame.withColumn(CHANGE_TYPE, F.lit(change.type)) for change in changes for frame in _frames(evaluator, change, snapshot)]
    written = write_native(functools.reduce(DataFrame.unionAll, frames), evaluator.store, snapshot, within=FOLDER)
    return [cdc_action(f) for _, f in written]


def _on_driver(evaluator: Evaluator, changes: Sequence[Change], snapshot: Snapshot) -> list[pa.Table] | None:
    """The changed rows with their types; None where they are many or Arrow cannot read them as Spark would."""
    blocks = [b for c in changes for b in c.blocks]
    slices = [s for c in changes for s in c.slices]
    if any(b.payload.files for b in blocks) or sum(s.num_rows or 0 for s in slices) + sum(b.num_rows for b in blocks) > limits().driver_rows:
        return None
    out: list[pa.Table] = []
    for change in changes:
        if (read := read_slices(evaluator, change.slices, snapshot)) is None:
            return None
        out += [_typed(table, change) for table in (*read, *(logical(table, snapshot) for b in change.blocks for table in b.payload.tables))]
    return out


def _typed(table: pa.Table, change: Change) -> pa.Table:
    return table.append_column(CHANGE_TYPE, pa.repeat(pa.scalar(change.type, pa.string()), table.num_rows))


def _frames(evaluator: Evaluator, change: Change, snapshot: Snapshot) -> list[DataFrame]:
    out = [evaluator.live_frame(snapshot, change.slices)] if change.slices else []
    schema = SparkStruct(nullable(table_schema(snapshot)).fields)
    for block in change.blocks:
        out += [local_frame(evaluator.scanner.spark, logical(table, snapshot), schema) for table in block.payload.tables]
        if block.payload.files:
            out.append(_staged_frame(evaluator, block.payload, snapshot))
    return out


def _staged_frame(evaluator: Evaluator, rows: StagedRows, snapshot: Snapshot) -> DataFrame:
    return evaluator.scanner.frame(snapshot, rows.files, lambda f: rows.dead.get(f.path) or evaluator.vectors.of(f))
