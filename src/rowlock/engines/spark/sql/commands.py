"""Spark's commands by what they may do to tables and files: the list that decides what passes on a session with Rowlock.

A command that is in none of these sets is refused (I9): a new version of Spark may bring one that was never reviewed.
Names are those of the classes, of all versions of Spark together.  Pure.
"""

from __future__ import annotations

_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical."
_COMMAND = "org.apache.spark.sql.execution.command."
_SOURCES = "org.apache.spark.sql.execution.datasources."
_HIVE = "org.apache.spark.sql.hive.execution."


def _in(package: str, names: str) -> frozenset[str]:
    return frozenset(package + name for name in names.split())


HARMLESS = (
    _in(
        _LOGICAL,
        """CacheTable CacheTableAsSelect CloseCursor CommentOnNamespace CompoundBody CreateFunction CreateNamespace CreateUserDefinedFunction CreateVariable
        CreateView AlterViewAs AlterViewSchemaBinding DeclareCursor DescribeColumn DescribeFunction DescribeNamespace DescribeRelation
        DescribeTablePartition DropFunction DropVariable DropView FetchCursor NoopCommand OpenCursor RefreshFunction RefreshTable SetCatalogAndNamespace
        SetNamespaceLocation SetNamespaceProperties SetVariable SetViewProperties ShowColumns ShowCreateTable ShowFunctions ShowNamespaces ShowPartitions
        ShowTablePartition ShowTableProperties ShowTables ShowTablesExtended ShowViews UncacheTable UnsetViewProperties""",
    )
    | _in(
        _COMMAND,
        """AddArchivesCommand AddFilesCommand AddJarsCommand ClearCacheCommand$ AlterDatabasePropertiesCommand AlterDatabaseSetLocationCommand AlterViewAsCommand
        AlterViewSchemaBindingCommand CreateDatabaseCommand CreateFunctionCommand CreateMetricViewCommand CreateSQLFunctionCommand CreateViewCommand
        DescribeColumnCommand DescribeDatabaseCommand DescribeFunctionCommand DescribeProcedureCommand DescribeQueryCommand DescribeRelationJsonCommand
        DescribeTableCommand DropFunctionCommand DropTempViewCommand ExplainCommand ListArchivesCommand ListFilesCommand ListJarsCommand
        RefreshFunctionCommand RefreshTableCommand ResetCommand SetCatalogCommand SetCommand SetNamespaceCollationCommand SetNamespaceCommand
        ShowCatalogsCommand ShowCollationsCommand ShowColumnsCommand ShowCreateTableAsSerdeCommand ShowCreateTableCommand
        ShowCurrentNamespaceCommand ShowFunctionsCommand ShowNamespacesCommand ShowPartitionsCommand ShowProceduresCommand ShowTablePropertiesCommand
        ShowPartitionsJsonCommand ShowTablesCommand ShowTablesJsonCommand ShowViewsCommand StreamingExplainCommand UnsetNamespacePropertiesCommand""",
    )
    | _in(_SOURCES, "CreateTempViewUsing RefreshResource")
    | _in("org.apache.spark.sql.metricview.logical.", "CreateMetricView")
)
"""Commands that change no table's rows, files or entry in the catalog: they read, or they are about sessions, functions, views, caches and namespaces."""

CHECKED = (
    _in(
        _LOGICAL,
        """AddCheckConstraint AddColumns AddConstraint AddPartitions AlterColumns AlterTableClusterBy AlterTableCollation AnalyzeColumn AnalyzeTable AppendData
        CommentOnTable CreateIndex CreateTable CreateTableAsSelect CreateTableLike DeleteFromTable DeleteFromTableWithFilters DropColumns DropConstraint
        DropIndex DropNamespace DropPartitions DropTable InsertIntoStatement InsertOnlyMerge LoadData MergeIntoTable OverwriteByExpression OverwritePartitionsDynamic
        RecoverPartitions RenameColumn RenamePartitions RenameTable RepairTable ReplaceColumns ReplaceData ReplaceTable ReplaceTableAsSelect
        SetTableLocation SetTableProperties SetTableSerDeProperties TruncatePartition TruncateTable UnsetTableProperties UpdateTable WriteDelta""",
    )
    | _in(
        _COMMAND,
        """AlterTableAddColumnsCommand AlterTableAddPartitionCommand AlterTableChangeColumnCommand AlterTableDropPartitionCommand AlterTableRenameCommand
        AlterTableChangeColumnCommentsCommand AlterTableRenamePartitionCommand AlterTableSerDePropertiesCommand AlterTableSetLocationCommand AlterTableSetPropertiesCommand
        AlterTableUnsetPropertiesCommand AnalyzeColumnCommand AnalyzePartitionCommand AnalyzeTableCommand CreateDataSourceTableAsSelectCommand
        CreateDataSourceTableCommand CreateTableCommand CreateTableLikeCommand DropDatabaseCommand DropTableCommand InsertIntoDataSourceDirCommand
        LoadDataCommand RepairTableCommand SaveAsV1TableCommand TruncateTableCommand""",
    )
    | _in(_SOURCES, "CreateTable InsertIntoDataSourceCommand InsertIntoHadoopFsRelationCommand SaveIntoDataSourceCommand")
    | _in(_HIVE, "CreateHiveTableAsSelectCommand InsertIntoHiveDirCommand InsertIntoHiveTable")
    | _in("org.apache.spark.sql.catalyst.streaming.", "WriteToStream WriteToStreamStatement")
)
"""Commands that change tables or files: they pass where nothing that they name is a Delta table, or a folder on, in or above one."""

REFUSED = _in(
    _LOGICAL,
    """AnalyzeTables CreateFlowCommand CreateMaterializedViewAsSelect CreateStreamingTable CreateStreamingTableAsSelect CreateStreamingTableAutoCdc""",
) | _in(_COMMAND, "AnalyzeTablesCommand ExternalCommandExecutor SetPathCommand")
"""Commands that do not say which tables or files they change: pipelines, ANALYZE TABLES of a whole schema, commands of other systems; and SET PATH, after
which a name without a schema may be that of another table than Rowlock finds.

They are refused as those are that are in no set; here they are listed as reviewed."""

NOT_ANSWERED = _in(_LOGICAL, "DescribeColumn DescribeTablePartition ShowColumns ShowCreateTable ShowPartitions ShowTablePartition ShowTableProperties") | _in(
    _COMMAND,
    """DescribeColumnCommand DescribeRelationJsonCommand ShowColumnsCommand ShowCreateTableAsSerdeCommand ShowCreateTableCommand ShowPartitionsCommand
    ShowPartitionsJsonCommand ShowTablePropertiesCommand""",
)
"""Harmless commands that would answer from the catalog's entry of a Delta table, which knows neither columns nor properties: refused for one."""

_KINDS = {_SOURCES + "CreateTable": "SaveAsV1TableCommand", _COMMAND + "CreateTableLikeCommand": "CreateTableLike"}
"""The classes that earlier versions have for a statement, and what the newest calls them."""


def kind_of(command: str) -> str:
    """The short name of a command's class, as the newest version of Spark calls what it says."""
    return _KINDS.get(command) or command.rsplit(".", 1)[-1]


_SPOKEN = {
    "UpdateTable": "UPDATE",
    "DeleteFromTable": "DELETE",
    "MergeIntoTable": "MERGE",
    "InsertIntoStatement": "INSERT",
    "AppendData": "an append",
    "OverwriteByExpression": "INSERT ... REPLACE WHERE",
    "OverwritePartitionsDynamic": "an overwrite of partitions",
    "SaveAsV1TableCommand": "saveAsTable",
    "InsertIntoHadoopFsRelationCommand": "a write of files",
    "SaveIntoDataSourceCommand": "a write by format name",
    "InsertIntoDataSourceDirCommand": "INSERT OVERWRITE DIRECTORY",
    "InsertIntoHiveDirCommand": "INSERT OVERWRITE DIRECTORY",
    "CreateDataSourceTableCommand": "CREATE TABLE",
    "CreateDataSourceTableAsSelectCommand": "CREATE TABLE AS SELECT",
    "AddCheckConstraint": "ALTER TABLE ADD CONSTRAINT",
    "AddConstraint": "ALTER TABLE ADD CONSTRAINT",
    "DropConstraint": "ALTER TABLE DROP CONSTRAINT",
    "AddColumns": "ALTER TABLE ADD COLUMNS",
    "DropColumns": "ALTER TABLE DROP COLUMNS",
    "AlterColumns": "ALTER TABLE ALTER COLUMN",
    "RenameColumn": "ALTER TABLE RENAME COLUMN",
    "RenameTable": "ALTER TABLE RENAME",
    "SetTableProperties": "ALTER TABLE SET TBLPROPERTIES",
    "UnsetTableProperties": "ALTER TABLE UNSET TBLPROPERTIES",
    "SetTableLocation": "ALTER TABLE SET LOCATION",
    "WriteToStream": "a stream into files",
    "DropNamespace": "DROP SCHEMA",
    "DropDatabaseCommand": "DROP SCHEMA",
}


def statement_name(command: str) -> str:
    """What a command is called in SQL or in PySpark, by its class: `...AlterTableDropPartitionCommand` is ALTER TABLE DROP PARTITION."""
    short = command.rsplit(".", 1)[-1].removesuffix("$")
    if short in _SPOKEN:
        return _SPOKEN[short]
    words: list[str] = []
    for letter in short.removesuffix("Command").removesuffix("Statement"):
        if letter.isupper() and (not words or not words[-1][-1:].isupper()):
            words.append("")
        words[-1] += letter
    return " ".join(words).upper()
