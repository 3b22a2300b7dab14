"""Delta's own statements: OPTIMIZE, REORG, VACUUM, DESCRIBE HISTORY and DETAIL, RESTORE, CONVERT TO DELTA, GENERATE, SHALLOW CLONE, SYNC IDENTITY."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from rowlock.api.clones import clone_name, clone_to, convert as convert_to_delta, parquet_files
from rowlock.api.handle import Handle, Receipts
from rowlock.api.placement import open_by_name, place_named
from rowlock.api.sql.target import Target
from rowlock.conditions import named
from rowlock.engines.spark.catalog import Name, ParquetTable
from rowlock.engines.spark.catalyst.types import DataFrame, SparkSession, StructType
from rowlock.engines.spark.frames.answers import answer, counts_frame
from rowlock.engines.spark.frames.reading import files_of
from rowlock.engines.spark.sql.nodes import path_of
from rowlock.engines.spark.sql.own_syntax import OwnStatement
from rowlock.engines.spark.sql.parsing import parsed
from rowlock.engines.spark.sql.session import is_enabled
from rowlock.exceptions import InvalidInput, TableNotFound
from rowlock.protocol.paths import join, location
from rowlock.protocol.schema import dotted
from rowlock.storage.store import ObjectMeta

_SHOWN_FILES = 1000
"""How many files VACUUM DRY RUN shows at most, as delta-spark does."""


def run(target: Target, statement: OwnStatement) -> DataFrame | None:
    """Carries out a statement on the table that it names."""
    table, values = target.table(), statement.values
    if statement.kind == "OPTIMIZE":
        builder = table.optimize()
        if "where" in values:
            builder = builder.where(str(values["where"]))
        columns: Any = values.get("z_order")
        return builder.executeZOrderBy(columns) if columns else builder._compact(full=bool(values.get("full")))
    if statement.kind == "REORG":
        optimizing = table.optimize()
        return (optimizing.where(str(values["where"])) if "where" in values else optimizing)._purge()
    if statement.kind == "VACUUM":
        hours: Any = values.get("hours")
        listed = _inventory(target, values["inventory"]) if "inventory" in values else None
        done = table._vacuumed(hours, dry_run=bool(values.get("dry_run")), only_known=bool(values.get("lite")), inventory=listed)
        places = [join(target.path, key) for key in done.files[:_SHOWN_FILES]] if values.get("dry_run") else [target.path]
        return answer(target.spark, "VACUUM", [(location(place),) for place in places])
    if statement.kind == "HISTORY":
        limit: Any = values.get("limit")
        return table.history(limit)
    if statement.kind == "DETAIL":
        return table.detail()
    if statement.kind == "RESTORE":
        version: Any = values.get("version")
        return table.restoreToTimestamp(str(values["timestamp"])) if version is None else table.restoreToVersion(version)
    if statement.kind == "SYNC IDENTITY":
        table.syncIdentity(str(values["column"]))
        return None
    if statement.kind == "DROP FEATURE":
        table.dropFeatureSupport(str(values["feature"]), True if values["truncate"] else None)
        return None
    assert statement.kind == "GENERATE", statement.kind
    table.generate(values["mode"])  # type: ignore[arg-type]
    return None


def _inventory(target: Target, given: object) -> list[ObjectMeta]:
    """The files of an inventory, a query or the parts of a table's name, that lie in the table's folder.  Raises InvalidInput for other columns."""
    nodes = target.nodes
    query = given if isinstance(given, str) else "SELECT * FROM " + dotted(cast(Sequence[str], given))
    rows = target.spark.sql(query) if is_enabled(target.spark) else nodes.frame(parsed(nodes, query, None))
    return files_of(rows, location(target.path), target.path)


def convert(spark: SparkSession, statement: OwnStatement) -> None:
    """CONVERT TO DELTA parquet.`/path`, or of a Parquet table in the catalog, [NO STATISTICS] [PARTITIONED BY (columns)]."""
    convert_to_delta(spark, dotted(statement.table), statement.values.get("partitions"), statistics=not statement.values.get("no_statistics"))


def is_parquet(spark: SparkSession, parts: Sequence[str]) -> bool:
    """Whether a name is that of a folder of Parquet files, such as parquet.`/path`, or of a Parquet table in the catalog."""
    return _is_parquet_folder(parts) or (path_of(parts) is None and Name(spark, dotted(parts)).is_parquet)


def _is_parquet_folder(parts: Sequence[str]) -> bool:
    return len(parts) == 2 and parts[0].lower() == "parquet"


def _parquet(spark: SparkSession, parts: Sequence[str]) -> tuple[Handle, ParquetTable | None]:
    """A folder of Parquet files, and what the catalog holds of it where it was named by its name there."""
    if _is_parquet_folder(parts):
        return Handle(spark, parts[1]), None
    name = Name(spark, dotted(parts))
    listed = name.parquet()
    return Handle(spark, listed.folder, name=str(name)), listed


def clone(spark: SparkSession, statement: OwnStatement) -> DataFrame:
    """CREATE TABLE target SHALLOW CLONE source, which answers with delta-spark's metrics."""
    values: Any = statement.values
    parquet, path = is_parquet(spark, values["source"]), path_of(values["source"])
    listed: ParquetTable | None = None
    if parquet:
        source, listed = _parquet(spark, values["source"])
    else:
        source = Handle(spark, path) if path is not None else open_by_name(spark, dotted(values["source"]))
    place = place_named(spark, statement.table, values.get("location"))
    if values["mode"] == "createIfNotExists" and (place.listed or (place.name is None and place.has_log)):
        return counts_frame(spark, "CLONE", {})
    receipts = Receipts()
    if parquet and ("timestamp" in values or "version" in values or source.state.log.exists()):
        raise InvalidInput("A folder of Parquet files has no log, and no older versions: name a Delta table delta.`/path`", table=source.path)
    if parquet:
        snapshot = parquet_files(source, StructType() if listed is None else listed.partition_columns, listed)
    else:
        snapshot = source.at(values.get("version"), values.get("timestamp"))
    if values["mode"] == "replace" and not place.has_log:
        missing = named("DELTA_CANNOT_REPLACE_MISSING_TABLE", tableName=dotted(statement.table))
        raise TableNotFound("There is no table to replace; use CREATE OR REPLACE TABLE ... SHALLOW CLONE", table=place.handle.path, condition=missing)
    name = f"parquet.`{location(source.path)}`" if parquet and listed is None else clone_name(source)
    clone_to(place, snapshot, name=name, replaces=values["mode"] in ("replace", "createOrReplace"), properties=values.get("properties", {}), receipts=receipts)
    return counts_frame(spark, "CLONE", receipts.last.metrics if receipts.last is not None else {})
