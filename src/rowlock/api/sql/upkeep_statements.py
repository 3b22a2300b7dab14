"""Delta's own statements: OPTIMIZE, REORG, VACUUM, DESCRIBE HISTORY and DETAIL, RESTORE, CONVERT TO DELTA, GENERATE, SYNC IDENTITY."""

from __future__ import annotations

from typing import Any

from rowlock.api.delta_table import DeltaTable
from rowlock.api.sql.target import Target
from rowlock.engines.spark.catalyst.types import DataFrame, SparkSession, StructType
from rowlock.engines.spark.frames.descriptions import DETAIL, HISTORY, RESTORE
from rowlock.engines.spark.frames.optimize_metrics import ANSWER
from rowlock.engines.spark.frames.paths import PATH, path_frame
from rowlock.engines.spark.sql.nodes import dotted
from rowlock.engines.spark.sql.own_syntax import OwnStatement

ANSWERS: dict[str, StructType] = {"OPTIMIZE": ANSWER, "REORG": ANSWER, "VACUUM": PATH, "HISTORY": HISTORY, "DETAIL": DETAIL, "RESTORE": RESTORE}
"""The columns of what each statement returns; the others return nothing."""


def run(target: Target, statement: OwnStatement) -> DataFrame | None:
    """Carries out a statement on the table that it names."""
    table, said = target.table(), statement.values
    if statement.kind == "OPTIMIZE":
        builder = table.optimize()
        if "where" in said:
            builder = builder.where(str(said["where"]))
        columns: Any = said.get("z_order")
        return builder.executeZOrderBy(columns) if columns else builder.executeCompaction()
    if statement.kind == "REORG":
        optimizing = table.optimize()
        return (optimizing.where(str(said["where"])) if "where" in said else optimizing)._purge()
    if statement.kind == "VACUUM":
        hours: Any = said.get("hours")
        table.vacuum(hours)
        return path_frame(target.spark, target.path)
    if statement.kind == "HISTORY":
        limit: Any = said.get("limit")
        return table.history(limit)
    if statement.kind == "DETAIL":
        return table.detail()
    if statement.kind == "RESTORE":
        version: Any = said.get("version")
        return table.restoreToTimestamp(str(said["timestamp"])) if version is None else table.restoreToVersion(version)
    if statement.kind == "SYNC IDENTITY":
        table.syncIdentity(str(said["column"]))
        return None
    assert statement.kind == "GENERATE", statement.kind
    table.generate(said["mode"])  # type: ignore[arg-type]
    return None


def convert(spark: SparkSession, statement: OwnStatement) -> None:
    """CONVERT TO DELTA parquet.`/path` [PARTITIONED BY (columns)], or of a Parquet table in the catalog."""
    parts = statement.table
    identifier = f"parquet.`{parts[1]}`" if len(parts) == 2 and parts[0].lower() == "parquet" else dotted(parts)
    partitions: Any = statement.values.get("partitions")
    DeltaTable.convertToDelta(spark, identifier, partitions)
