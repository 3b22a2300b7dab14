"""Tables over data files that are there: shallow clones of a table, at a path or under a name in the catalog, and CONVERT TO DELTA.

CONVERT commits version 0 over the Parquet files in a folder, which stay as they are; such files can be the source of a clone, too.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

from rowlock import arguments
from rowlock.api import expressions
from rowlock.api.handle import Handle, Receipts
from rowlock.api.placement import Place, place_of
from rowlock.conditions import named
from rowlock.engines.appends.engine import ArrowEngine
from rowlock.engines.spark import catalog
from rowlock.engines.spark.catalyst.types import SparkSession, StructType
from rowlock.engines.spark.write import conversion
from rowlock.exceptions import InvalidInput, TableExists, UnsupportedFeature
from rowlock.log.live_files import LiveFiles
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.paths import FORMATS, is_absolute, location
from rowlock.protocol.properties import column_mapping_mode
from rowlock.protocol.schema import dotted
from rowlock.transaction.definition import creation
from rowlock.transaction.definition.clone import shallow_clone


def convert(
    spark: SparkSession, identifier: str, partition_schema: Any, storage_options: Mapping[str, str] | None = None, *, statistics: bool = True
) -> Handle:
    """The table in the folder that `identifier` names, made where there is none yet; a table that is there is left as it is, and so is a name of one.

    Raises InvalidInput, SchemaMismatch, UnsupportedFeature, NameNotFound, TableNotFound (of delta.`/path`) before anything is written.
    """
    expressions.session(spark, "sparkSession")
    named_by, path = conversion.folder_in(spark, arguments.text(identifier, "identifier"))
    partitions = conversion.partition_type(partition_schema)
    if path is not None:
        handle = Handle(spark, path, storage_options=storage_options)
        if named_by in FORMATS:
            handle.state.refresh()
        else:
            _convert(handle, partitions, None, {}, statistics)
        return handle
    name = catalog.Name(spark, identifier)
    entry = name.entry()
    if entry is not None and entry.folder is not None:
        return Handle(spark, name.folder(), name=name.parts)
    listed = name.parquet()
    handle = Handle(spark, listed.folder, name=name.parts, storage_options=storage_options)
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
    _convert(handle, listed.partition_columns, listed, {"catalogTable": dotted(name.parts)}, statistics)
    name.point_to(listed.folder, managed=listed.managed)
    return handle


def _convert(handle: Handle, partitions: StructType, listed: catalog.ParquetTable | None, parameters: Mapping[str, str], statistics: bool) -> None:
    """Commits version 0 over the Parquet files in a folder, unless it is a table already."""
    if handle.state.log.exists():
        return
    with handle.commits("convert"), contextlib.suppress(TableExists):  # another writer was first: a table is left as it is
        found = parquet_files(handle, partitions, listed, statistics=statistics)
        metadata, adds = found.metadata, tuple(found.files.adds())
        how = {"numFiles": len(adds), "partitionedBy": list(metadata.partition_columns), "collectStats": statistics, "sourceFormat": "parquet"}
        creation.create_from(handle.state, metadata, operation="CONVERT", parameters={**parameters, **how}, adds=adds, metrics={"numConvertedFiles": len(adds)})


def parquet_files(handle: Handle, partitions: StructType, listed: catalog.ParquetTable | None = None, *, statistics: bool = True) -> Snapshot:
    """The Parquet files in a folder, with their statistics, as a table that no log names yet.  Raises InvalidInput, SchemaMismatch, UnsupportedFeature.

    `listed`: what the catalog holds of them, whose columns, properties and comment the table gets.
    """
    found = conversion.parquet_folder(handle.engine.evaluator, partitions, listed, handle.path, with_footers=statistics)
    properties, comment = (listed.properties, listed.comment) if listed is not None else ({}, None)
    metadata = creation.new_metadata(found.columns.json(), partitions.names, properties, description=comment, table=handle.path)
    creation.check_new_table(metadata, handle.path)
    if (mode := column_mapping_mode(metadata.configuration)) != "none":
        text = f"delta.columnMapping.mode = {mode} cannot be given to files that are there, whose columns have no ids: leave it out, and set it afterwards"
        raise InvalidInput(text, table=handle.path, condition=named("DELTA_CONVERSION_UNSUPPORTED_COLUMN_MAPPING"))
    draft = creation.draft_snapshot(metadata, handle.path)
    return replace(draft, files=LiveFiles.of_adds(found.adds(draft)))


def clone_name(source: Handle) -> str:
    """What the history of a clone calls its source."""
    return source.name or f"delta.`{location(source.path)}`"


def clone_to(place: Place, source: Snapshot, *, name: str, replaces: bool, properties: Mapping[str, str], receipts: Receipts) -> None:
    """Makes the clone and gives it its name.  Raises what `Place.check` and `shallow_clone` raise."""
    if not replaces and (place.listed or place.has_log):
        there = named("DELTA_TABLE_ALREADY_EXISTS", tableName=str(place.name)) if place.listed else None
        raise TableExists("There is a table already: a clone makes a new one; name another place", table=place.handle.path, condition=there)
    place.check("createOrReplace" if replaces else "create")
    place.check_empty()
    count = ArrowEngine(place.handle.state.store).count
    with place.handle.commits("clone"):
        receipts.last = shallow_clone(source, place.handle.state, properties, name=name, replaces=replaces, count=count)
    place.register()


class Clones:
    """The methods of a table that make clones of it."""

    _handle: Handle
    _receipts: Receipts

    def __init__(self, handle: Handle, *, alias: str | None = None, receipts: Receipts | None = None) -> None:
        """As DeltaTable has it: a clone is one, too."""

    def clone(self, target: str, isShallow: bool = False, replace: bool = False, properties: dict[str, str] | None = None) -> Self:
        """Makes a table that begins as a shallow clone of this one's newest version: it uses the data files that are there, and copies none.

        From then on both are tables of their own; what one commits the other never sees, and nothing is written into this table's folder.  Files that
        VACUUM deletes here are gone for the clone as well.  Runs no Spark job.

        Args:
            target: Where the clone is to be: a whole path, a URI, or a name in the catalog.
            isShallow: True; deep clones, which copy data files, are refused by name.
            replace: Whether an empty table that is there may be replaced.
            properties: Table properties that the clone gets beside this table's, or in their place.

        Returns:
            The clone, as a DeltaTable.

        Raises:
            UnsupportedFeature: `isShallow` is False, or the table has a feature that this version cannot write.
            TableExists: There is a table at the target already.
            StatementRefused: The table to be replaced has rows.
            InvalidInput: A property is not allowed, or one of the tables would lie in the other's folder.

        Examples:
            >>> c = t.clone(folder + "/clone", isShallow=True)
            >>> c.delete()
            >>> c.toDF().count(), t.toDF().count()
            (0, 3)
        """
        return self._cloned(None, None, target, isShallow, replace, properties)

    def cloneAtVersion(self, version: int, target: str, isShallow: bool = False, replace: bool = False, properties: dict[str, str] | None = None) -> Self:
        """Makes a shallow clone of an older version, as `clone` does of the newest.  Runs no Spark job.

        Args:
            version: The version to clone, 0 or more.
            target: Where the clone is to be.
            isShallow: True; deep clones are refused by name.
            replace: Whether an empty table that is there may be replaced.
            properties: Table properties that the clone gets beside this table's.

        Returns:
            The clone, as a DeltaTable.

        Raises:
            VersionNotFound: The log does not hold the version.
            UnsupportedFeature: `isShallow` is False, or the table has a feature that this version cannot write.
            TableExists: There is a table at the target already.

        Examples:
            >>> t.delete()
            >>> t.cloneAtVersion(0, folder + "/clone", isShallow=True).toDF().count()
            3
        """
        return self._cloned(arguments.number(version, "version"), None, target, isShallow, replace, properties)

    def cloneAtTimestamp(
        self, timestamp: str | datetime.datetime, target: str, isShallow: bool = False, replace: bool = False, properties: dict[str, str] | None = None
    ) -> Self:
        """Makes a shallow clone of the version that was the newest at a time, as `clone` does of the newest of all.  Runs no Spark job.

        Args:
            timestamp: The time, as for `restoreToTimestamp`.
            target: Where the clone is to be.
            isShallow: True; deep clones are refused by name.
            replace: Whether an empty table that is there may be replaced.
            properties: Table properties that the clone gets beside this table's.

        Returns:
            The clone, as a DeltaTable.

        Raises:
            InvalidInput: The text is no time.
            VersionNotFound: The log does not reach to that time.
            UnsupportedFeature: `isShallow` is False, or the table has a feature that this version cannot write.
            TableExists: There is a table at the target already.

        Examples:
            >>> written_at = t.history().first()["timestamp"]
            >>> t.cloneAtTimestamp(written_at, folder + "/clone", isShallow=True).toDF().count()
            3
        """
        if not isinstance(timestamp, datetime.datetime):
            arguments.text(timestamp, "timestamp")
        return self._cloned(None, timestamp, target, isShallow, replace, properties)

    def _cloned(
        self, version: int | None, timestamp: str | datetime.datetime | None, target: str, shallow: bool, replace: bool, properties: dict[str, str] | None
    ) -> Self:
        where = arguments.text(target, "target")
        if not arguments.flag(shallow, "isShallow"):
            text = "This version of Rowlock has no deep clones: use isShallow=True, or copy the rows with rowlock.write"
            raise UnsupportedFeature(text, feature="deep clones", access="write", condition=named("DELTA_UNSUPPORTED_DEEP_CLONE"))
        replaces, given = arguments.flag(replace, "replace"), arguments.properties(properties, "properties")
        source = self._handle.at(version, timestamp)
        place = place_of(self._handle.spark, None, where) if is_absolute(where) else place_of(self._handle.spark, where, None)
        made = type(self)(place.handle)
        clone_to(place, source, name=clone_name(self._handle), replaces=replaces, properties=given, receipts=made._receipts)
        return made
