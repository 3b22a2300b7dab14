"""CONVERT TO DELTA: version 0 over the Parquet files that are in a folder, which stay as they are; and such files as the source of a clone."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rowlock import arguments
from rowlock.api import expressions
from rowlock.api.handle import Handle
from rowlock.engines.spark.catalyst.types import SparkSession, StructType
from rowlock.engines.spark.write.conversion import files_in, folder_in, footers_of, partition_type, schema_in, with_statistics
from rowlock.exceptions import TableExists
from rowlock.log.live_files import LiveFiles
from rowlock.log.snapshot import Snapshot
from rowlock.transaction.definition import creation


def convert(spark: SparkSession, identifier: str, partition_schema: Any, storage_options: Mapping[str, str] | None = None) -> Handle:
    """The table in the folder that `identifier` names, made where there is none yet; a table that is there is left as it is.

    Raises InvalidInput, SchemaMismatch, UnsupportedFeature before anything is written.
    """
    expressions.session(spark, "sparkSession")
    handle = Handle(spark, folder_in(spark, arguments.text(identifier, "identifier")), storage_options=storage_options)
    partitions = partition_type(partition_schema)
    if handle.state.log.exists():
        return handle
    with handle.commits("convert"):
        found = parquet_files(handle, partitions)
        metadata, adds = found.metadata, tuple(found.files.adds())
        parameters = {"numFiles": len(adds), "partitionedBy": list(metadata.partition_columns), "collectStats": True, "sourceFormat": "parquet"}
        with contextlib.suppress(TableExists):  # another writer was first: a table is left as it is
            creation.create_from(handle.state, metadata, operation="CONVERT", parameters=parameters, adds=adds)
    return handle


def parquet_files(handle: Handle, partitions: StructType) -> Snapshot:
    """The Parquet files in a folder, with their statistics, as a table that no log names yet.  Raises InvalidInput, SchemaMismatch, UnsupportedFeature."""
    files = files_in(handle.spark, handle.state.store, partitions)
    footers = footers_of(handle.state.store, files)
    schema = schema_in(handle.evaluator.reading_session, handle.evaluator.root, files, partitions)
    metadata = creation.new_metadata(schema.json(), partitions.names, {}, table=handle.path)
    creation.check_new_table(metadata, handle.path)
    draft = creation.draft_snapshot(metadata, handle.path)
    return replace(draft, files=LiveFiles.of_adds(with_statistics(files, footers, draft)))
