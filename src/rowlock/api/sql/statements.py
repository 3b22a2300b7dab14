"""Maps each SQL statement on a Delta table to the function that carries it out; any other statement on one is refused by name.
And carries out Delta's own: OPTIMIZE, REORG, VACUUM, DESCRIBE HISTORY and DETAIL, RESTORE, CONVERT TO DELTA, GENERATE, SHALLOW CLONE, SYNC IDENTITY.

A statement on a Delta table that is in no list here is refused (I9).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from rowlock.api.clones import clone_name, clone_to, convert as convert_to_delta, parquet_files
from rowlock.api.handle import Handle, Receipts, session_commits
from rowlock.api.placement import open_by_name, place_named
from rowlock.api.sql import alterations, descriptions, own_syntax, row_statements, table_statements
from rowlock.api.sql.descriptions import no_partitions
from rowlock.api.sql.own_syntax import OwnStatement
from rowlock.api.sql.target import Target
from rowlock.conditions import named
from rowlock.engines.spark import catalog
from rowlock.engines.spark.catalyst.types import DataFrame, SparkSession, StructType
from rowlock.engines.spark.frames.reading import files_of
from rowlock.engines.spark.frames.results import Results
from rowlock.engines.spark.sql.nodes import Nodes
from rowlock.engines.spark.user_session import Session
from rowlock.engines.spark.write import conversion
from rowlock.exceptions import InvalidInput, TableNotFound, refuse
from rowlock.protocol.paths import join, location, moment_in, path_of
from rowlock.protocol.schema import dotted
from rowlock.storage.store import ObjectMeta

Run = Callable[[Target, Any], DataFrame | None]

_BY_TABLE: dict[str, Run] = {
    "UpdateTable": row_statements.update,
    "DeleteFromTable": row_statements.delete,
    "InsertIntoStatement": row_statements.insert,
    "AppendData": row_statements.append,
    "OverwriteByExpression": row_statements.overwrite,
    "OverwritePartitionsDynamic": row_statements.overwrite_partitions,
    "TruncateTable": row_statements.truncate,
    "DropTable": table_statements.drop,
    "DropNamespace": table_statements.drop_schema,
    "RefreshTable": table_statements.refresh,
    "SetTableProperties": alterations.set_properties,
    "UnsetTableProperties": alterations.unset_properties,
    "AddColumns": alterations.add_columns,
    "ReplaceColumns": alterations.replace_columns,
    "RenameColumn": alterations.rename_column,
    "DropColumns": alterations.drop_columns,
    "AlterColumns": alterations.alter_columns,
    "AlterTableClusterBy": alterations.cluster_by,
    "AddCheckConstraint": alterations.add_constraint,
    "AddConstraint": alterations.add_constraint,
    "DropConstraint": alterations.drop_constraint,
    "MergeIntoTable": row_statements.merge,
    "CommentOnTable": alterations.comment,
    "RenameTable": alterations.rename_table,
    "SetTableLocation": alterations.set_location,
    "DescribeRelation": descriptions.describe,
    "DescribeColumn": descriptions.describe_column,
    "ShowTableProperties": descriptions.show_properties,
    "ShowColumns": descriptions.show_columns,
    "ShowPartitions": descriptions.show_partitions,
    "ShowCreateTable": descriptions.show_create,
}
_BY_NAME: dict[str, Run] = {
    "CreateTable": table_statements.create,
    "CreateTableLike": table_statements.create_like,
    "CreateTableAsSelect": table_statements.create_as_select,
    "ReplaceTable": table_statements.replace,
    "ReplaceTableAsSelect": table_statements.replace_as_select,
    "SaveAsV1TableCommand": table_statements.save_as_table,
}
MAKES = frozenset(_BY_NAME)
"""The statements that make a table, by the classes of their plans."""
_OF_ROWS = ("UpdateTable", "DeleteFromTable", "MergeIntoTable")
HANDLED = _BY_TABLE | _BY_NAME
"""What carries out each statement on a Delta table, by the class of its plan."""

_REFUSED_BY_SPARK = {
    **{
        kind: (statement, named("NOT_SUPPORTED_COMMAND_FOR_V2_TABLE", cmd=statement))
        for kind, statement in {
            "AnalyzeColumn": "ANALYZE TABLE",
            "AnalyzeTable": "ANALYZE TABLE",
            "DescribeRelationJsonCommand": "DESCRIBE TABLE AS JSON",
            "LoadData": "LOAD DATA",
            "RecoverPartitions": "ALTER TABLE ... RECOVER PARTITIONS",
            "RepairTable": "MSCK REPAIR TABLE",
            "SetTableSerDeProperties": "ALTER TABLE ... SET [SERDE|SERDEPROPERTIES]",
        }.items()
    },
    "TruncatePartition": ("TRUNCATE TABLE ... PARTITION", named("DELTA_TRUNCATE_TABLE_PARTITION_NOT_SUPPORTED")),
}
"""Statements that Spark has and refuses for Delta tables: what each is called, and the condition of its error."""
_OF_A_PARTITION = {
    "AddPartitions": "ALTER TABLE ... ADD PARTITION",
    "DescribeTablePartition": "DESCRIBE ... PARTITION",
    "DropPartitions": "ALTER TABLE ... DROP PARTITION",
    "RenamePartitions": "ALTER TABLE ... RENAME TO PARTITION",
    "ShowTablePartition": "SHOW TABLE EXTENDED ... PARTITION",
}
"""Statements on one partition, which Spark refuses likewise: what each is called."""
_INSTEAD = "docs/sql.md lists the statements that Rowlock has; rowlock.DeltaTable has the same as methods"


def target_of(nodes: Nodes, plan: Any) -> Target | None:
    """The Delta table that a command is on, or is about to make; None for a command on something else.  Raises UnsupportedFeature."""
    kind, name = nodes.kind(plan), nodes.statement_name(plan)
    if kind not in HANDLED and nodes.is_harmless(plan, on_delta=True):
        return None
    if kind == "DropNamespace":
        schema = nodes.dropped_schema(plan)
        return None if schema is None else Target(nodes, name, (schema,), None)
    for parts, alias in nodes.targets(plan, makes=kind in MAKES):
        folder = nodes.folder(parts)
        if folder is not None or (kind in MAKES and nodes.makes_delta(plan)):
            return Target(nodes, name, tuple(parts), folder, alias)
        if (kind in _OF_ROWS and nodes.is_view(parts)) or (kind == "InsertIntoStatement" and nodes.is_source(parts)):
            return _through_view(nodes, name, parts, alias)
        if kind in ("AddCheckConstraint", "AddConstraint") and nodes.is_view(parts):  # Spark looks through the view
            raise nodes.not_found(parts, "ALTER TABLE ... ADD CONSTRAINT")
    return None


def _through_view(nodes: Nodes, statement: str, parts: list[str], alias: str | None) -> Target:
    """The table that a temporary view shows whole, called by the view's name.  Raises UnsupportedFeature for any other view."""
    found, name = nodes.folder_behind(parts), ".".join(parts)
    if found is None:
        why = f"{name} is a view, and not a temporary one of all columns and rows of a Delta table under their own names"
        refuse(f"{statement} on a view", None, why, "Name the table itself", nodes.not_whole(parts, statement))
    folder, columns = found
    if {c.lower() for c in columns} != {c.lower() for c in Handle(nodes.spark, folder).state.refresh().schema.names}:
        why = f"{name} is a view of {', '.join(columns)}, and the table has other columns"
        refuse(f"{statement} on a view", folder, why, "Name the table itself", named("DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS"))
    return Target(nodes, statement, tuple(parts), folder, alias or parts[-1])


def answer_of(nodes: Nodes, plan: Any, top: bool) -> StructType | None:
    """The columns of what a command returns if Rowlock carries it out; None leaves it to Spark.  Raises UnsupportedFeature for what is refused."""
    target = target_of(nodes, plan)
    if target is None:
        return None
    kind = nodes.kind(plan)
    if kind not in HANDLED:
        unknown = (_OF_A_PARTITION[kind], no_partitions(target)) if kind in _OF_A_PARTITION else (target.statement, None)
        statement, condition = _REFUSED_BY_SPARK.get(kind, unknown)
        why = f"{'.'.join(target.parts)} is a Delta table, and this version of Rowlock has no such statement"
        refuse(statement, target.folder, why, _INSTEAD, condition)
    if not top:
        refuse(f"{target.statement} within another statement", target.folder, "Rowlock carries out one statement at a time", "Write them one by one")
    return descriptions.partition_columns(target) if kind == "ShowPartitions" else Results.columns(kind)


def carry_out(nodes: Nodes, plan: Any) -> DataFrame | None:
    """Runs a statement that `answer_of` has an answer for."""
    target = target_of(nodes, plan)
    if target is None:
        raise TableNotFound(f"The table of the statement is no Delta table any more: {plan.nodeName()}")
    work = HANDLED[nodes.kind(plan)]
    with target.handle.commits("alter") if work.__module__ == alterations.__name__ else session_commits(Session(nodes.spark)):
        return work(target, plan)


# ---- Delta's own statements ------------------------------------------------------------------


def parsed_own(spark: SparkSession, text: str) -> OwnStatement | None:
    """The statement in a text that the session's Spark has no grammar for.  Raises InvalidInput, UnsupportedFeature."""
    return own_syntax.parse(text, constraints=not Session(spark).parses_constraints)


def own_statement(nodes: Nodes, text: str) -> OwnStatement | None:
    """The statement of Delta's own in a text, on a Delta table.  Raises InvalidInput, UnsupportedFeature, TableNotFound."""
    found = parsed_own(nodes.spark, text)
    if found is None:
        return None
    named: Any = found.values["source"] if found.kind == "CLONE" else found.table
    if found.kind != "CONVERT" and not (found.kind == "CLONE" and conversion.parquet_named(nodes.spark, named) is not None) and nodes.folder(named) is None:
        raise nodes.not_found(named, found.kind)
    return found


def carry_out_own(nodes: Nodes, statement: OwnStatement) -> DataFrame | None:
    """Runs one of Delta's own statements."""
    if statement.kind in ("CONVERT", "CLONE"):
        with session_commits(Session(nodes.spark)):
            return (_convert if statement.kind == "CONVERT" else _clone)(nodes.spark, statement)
    target = Target(nodes, statement.kind, statement.table, nodes.folder(statement.table))
    if statement.kind.endswith(" CONSTRAINT"):
        with target.handle.commits("alter"):
            alterations.own_constraint(target, statement)
        return None
    return _run_own(target, statement)


_SHOWN_FILES = 1000
"""How many files VACUUM DRY RUN shows at most, as delta-spark does."""


def _run_own(target: Target, statement: OwnStatement) -> DataFrame | None:
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
        return target.results.of("VACUUM", [(location(place),) for place in places])
    if statement.kind == "HISTORY":
        limit: Any = values.get("limit")
        return table.history(limit)
    if statement.kind == "DETAIL":
        name = None if path_of(target.parts) is not None or target.path == target.parts[-1] else str(catalog.Name(target.spark, dotted(target.parts)))
        return target.results.of_detail(target.head, name)
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
    query = given if isinstance(given, str) else "SELECT * FROM " + dotted(cast(Sequence[str], given))
    return files_of(target.nodes.rows(query), location(target.path), target.path)


def _convert(spark: SparkSession, statement: OwnStatement) -> None:
    """CONVERT TO DELTA parquet.`/path`, or of a Parquet table in the catalog, [NO STATISTICS] [PARTITIONED BY (columns)]."""
    convert_to_delta(spark, dotted(statement.table), statement.values.get("partitions"), statistics=not statement.values.get("no_statistics"))


def _clone(spark: SparkSession, statement: OwnStatement) -> DataFrame:
    """CREATE TABLE target SHALLOW CLONE source, which answers with delta-spark's metrics."""
    values: Any = statement.values
    parquet, path = conversion.parquet_named(spark, values["source"]), path_of(values["source"])
    version, timestamp = values.get("version"), values.get("timestamp")
    listed = None if parquet is None else parquet[1]
    if parquet is not None:
        source = Handle(spark, parquet[0], name=() if listed is None else catalog.Name(spark, dotted(values["source"])).parts)
    else:
        source = Handle(spark, path) if path is not None else open_by_name(spark, dotted(values["source"]))
        if path is not None and version is None and timestamp is None and (moment := moment_in(path)) is not None and not source.state.log.exists():
            source, version, timestamp = Handle(spark, moment[0]), *moment[1:]
    if values["mode"] == "createIfNotExists" and path_of(statement.table) is None and catalog.Name(spark, dotted(statement.table)).entry() is not None:
        return Results(spark).of_counts("CLONE", {})
    place = place_named(spark, statement.table, values.get("location"))
    if values["mode"] == "createIfNotExists" and place.name is None and place.has_log:
        return Results(spark).of_counts("CLONE", {})
    receipts = Receipts()
    if parquet and (timestamp is not None or version is not None or source.state.log.exists()):
        raise InvalidInput("A folder of Parquet files has no log, and no older versions: name a Delta table delta.`/path`", table=source.path)
    columns = StructType() if listed is None else listed.partition_columns
    snapshot = parquet_files(source, columns, listed) if parquet else source.at(version, timestamp)
    if values["mode"] == "replace" and not place.has_log:
        missing = named("DELTA_CANNOT_REPLACE_MISSING_TABLE", tableName=dotted(statement.table))
        raise TableNotFound("There is no table to replace; use CREATE OR REPLACE TABLE ... SHALLOW CLONE", table=place.handle.path, condition=missing)
    name = f"parquet.`{location(source.path)}`" if parquet and listed is None else clone_name(source)
    clone_to(place, snapshot, name=name, replaces=values["mode"] in ("replace", "createOrReplace"), properties=values.get("properties", {}), receipts=receipts)
    return Results(spark).of_counts("CLONE", receipts.last.metrics if receipts.last is not None else {})
