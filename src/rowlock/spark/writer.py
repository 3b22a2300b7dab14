"""Large writes: Spark's own Parquet writer into a fresh folder of the table that is already the final place.

Only files that the finished job left in that folder are committed; what a lost task left behind is
garbage that no commit names (I10).  Statistics come from the footers.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from rowlock import clock
from rowlock.arrow.files import open_parquet
from rowlock.arrow.physical import names_in_files
from rowlock.arrow.writing import PartitionValues, stats_leaves
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import paths, statistics
from rowlock.protocol.actions import AddFile
from rowlock.protocol.column_mapping import is_mapped
from rowlock.spark.blocks import stored_position
from rowlock.spark.clouds import spark_root
from rowlock.spark.physical import file_column
from rowlock.spark.scan import POSITION, quote
from rowlock.storage.store import ObjectStore

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"


def partition_text(name: str, data_type: Any) -> Column:
    """A partition column as the text that the log holds."""
    column = F.col(quote(name))
    if isinstance(data_type, TimestampType):
        return F.date_format(F.to_utc_timestamp(column, F.current_timezone()), "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'").alias(name)
    return column.cast("string").alias(name)


def write_native(frame: DataFrame, store: ObjectStore, snapshot: Snapshot, *, extra: Sequence[str] = (), group: str | None = None, within: str | None = None, values: PartitionValues | None = None) -> list[tuple[str | None, AddFile]]:
    """Writes a frame (logical columns, `extra` columns kept in the files) and returns its files.

    With `group` the files are split by that column as well, whose text comes back beside each file.  `within`: a
    folder of the table for files that are no part of it.  `values`: the partition that all rows are of, by its text in
    the log, where that is known: it is kept as it is spelled, and the rows of a task are written in the order in which
    they come, which Spark changes where it splits them by partition (its own sort takes the place of ours).
    POSITION is stored as `stored_position` has it.  One Spark job; runs on executors.
    """
    stored = names_in_files(snapshot)
    known = dict(values or {})
    partitions = [n for n in snapshot.metadata.partition_columns if stored[n] not in known]
    folder = (f"{within}/" if within else "") + f"rl-{clock.new_id()[:13]}"
    types = {f.name: f.dataType for f in frame.schema.fields}
    mapped = is_mapped(snapshot.metadata.configuration)
    columns = [
        partition_text(n, types[n]).alias(stored[n]) if n in partitions else file_column(snapshot, n) if mapped and n in stored else F.col(quote(n))
        for n in frame.columns
        if n != POSITION and stored.get(n) not in known
    ]
    writer = frame.select(*columns, *(stored_position() if POSITION in types else ())).write.option("compression", "snappy")
    by = ([group] if group else []) + [stored[n] for n in partitions]
    if by:
        writer = writer.partitionBy(*by)
    writer.parquet(paths.join(spark_root(store), folder))
    written = [_file(store, folder, key, size, by, group, snapshot) for key, size in _data_files(store, folder)]
    return [(of_group, replace(f, partition_values={**f.partition_values, **known})) for of_group, f in written]


def _data_files(store: ObjectStore, folder: str) -> list[tuple[str, int]]:
    found = [(m.key, m.size_bytes) for m in store.list(folder, recursive=True)]
    return [(k, size) for k, size in found if k.endswith(".parquet") and not k.rsplit("/", 1)[-1].startswith(("_", "."))]


def _file(store: ObjectStore, folder: str, key: str, size_bytes: int, by: Sequence[str], group: str | None, snapshot: Snapshot) -> tuple[str | None, AddFile]:
    values: dict[str, str | None] = {}
    for part, name in zip(key[len(folder) + 1 :].split("/"), by, strict=False):
        text = unquote(part.split("=", 1)[1])
        values[name] = None if text == NULL_FOLDER else text
    of_group = values.pop(group) if group else None
    with open_parquet(store, key, size_bytes) as source:
        metadata = source.metadata
    if not store.is_remote:
        _sync(paths.join(store.root, key))
    stats = statistics.from_parquet_metadata(metadata, stats_leaves(snapshot))
    return of_group, AddFile(key, values, size_bytes, clock.now_ms(), True, stats)


def _sync(place: str) -> None:
    """Durable before a commit names it."""
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
