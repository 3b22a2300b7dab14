"""CONVERT TO DELTA: version 0 over the Parquet files that are in a folder, which stay as they are; and such files as the source of a clone."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rowlock import arguments
from rowlock.api import expressions
from rowlock.api.handle import Handle
from rowlock.conditions import named
from rowlock.engines.spark.catalog import SESSION_CATALOG, Name, ParquetTable
from rowlock.engines.spark.catalyst.types import SparkSession, StructType
from rowlock.engines.spark.write.conversion import check_partitions, files_in, folder_in, footers_of, in_catalog, partition_type, schema_in, with_statistics
from rowlock.exceptions import InvalidInput, TableExists
from rowlock.log.live_files import LiveFiles
from rowlock.log.snapshot import Snapshot
from rowlock.transaction.definition import creation


def convert(
    spark: SparkSession, identifier: str, partition_schema: Any, storage_options: Mapping[str, str] | None = None, *, statistics: bool = True
) -> Handle:
    """The table in the folder that `identifier` names, made where there is none yet; a table that is there is left as it is, and so is a name of one.

    Raises InvalidInput, SchemaMismatch, UnsupportedFeature, NameNotFound before anything is written.
    """
    expressions.session(spark, "sparkSession")
    path = folder_in(spark, arguments.text(identifier, "identifier"))
    partitions = partition_type(partition_schema)
    if path is not None:
        handle = Handle(spark, path, storage_options=storage_options)
        _convert(handle, partitions, None, {}, statistics)
        return handle
    name = Name(spark, identifier)
    entry = name.entry()
    if entry is not None and entry.folder is not None:
        return Handle(spark, name.folder(), name=str(name))
    listed = name.parquet()
    handle = Handle(spark, listed.folder, name=str(name), storage_options=storage_options)
    if partitions.fields and partitions != listed.partition_columns:
        raise InvalidInput(
            f"The catalog says that {name} is partitioned by {listed.partition_columns.simpleString()}: leave PARTITIONED BY out",
            table=handle.path,
            condition=named(
                "DELTA_UNEXPECTED_PARTITION_SCHEMA_FROM_USER",
                catalogPartitionSchema=listed.partition_columns.simpleString(),
                userPartitionSchema=partitions.simpleString(),
            ),
        )
    _convert(handle, listed.partition_columns, listed, {"catalogTable": f"`{SESSION_CATALOG}`.{name.quoted}"}, statistics)
    name.point_to(listed.folder, managed=listed.managed)
    return handle


def _convert(handle: Handle, partitions: StructType, listed: ParquetTable | None, parameters: Mapping[str, str], statistics: bool) -> None:
    """Commits version 0 over the Parquet files in a folder, unless it is a table already."""
    if handle.state.log.exists():
        return
    with handle.commits("convert"), contextlib.suppress(TableExists):  # another writer was first: a table is left as it is
        found = parquet_files(handle, partitions, listed, statistics=statistics)
        metadata, adds = found.metadata, tuple(found.files.adds())
        how = {"numFiles": len(adds), "partitionedBy": list(metadata.partition_columns), "collectStats": statistics, "sourceFormat": "parquet"}
        creation.create_from(handle.state, metadata, operation="CONVERT", parameters={**parameters, **how}, adds=adds)


def parquet_files(handle: Handle, partitions: StructType, listed: ParquetTable | None = None, *, statistics: bool = True) -> Snapshot:
    """The Parquet files in a folder, with their statistics, as a table that no log names yet.  Raises InvalidInput, SchemaMismatch, UnsupportedFeature.

    `listed`: what the catalog holds of them, whose columns, properties and comment the table gets.
    """
    files = files_in(handle.spark, handle.state.store, partitions)
    footers = footers_of(handle.state.store, files) if statistics else None
    schema = schema_in(handle.evaluator.reading_session, handle.evaluator.root, files, partitions)
    if listed is not None:
        check_partitions(listed, files, handle.path)
        schema = in_catalog(listed, schema, handle.path)
    properties, comment = (listed.properties, listed.comment) if listed is not None else ({}, None)
    metadata = creation.new_metadata(schema.json(), partitions.names, properties, description=comment, table=handle.path)
    creation.check_new_table(metadata, handle.path)
    draft = creation.draft_snapshot(metadata, handle.path)
    return replace(draft, files=LiveFiles.of_adds(files if footers is None else with_statistics(files, footers, draft)))
