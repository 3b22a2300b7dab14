"""Sessions drawn by setting."""

from __future__ import annotations

from model.differential.draw import Draw

SETTINGS: tuple[tuple[str, tuple[str, ...], float], ...] = (
    ("spark.sql.ansi.enabled", ("false",), 0.3),
    ("spark.sql.storeAssignmentPolicy", ("LEGACY", "STRICT"), 0.25),
    ("spark.sql.caseSensitive", ("true",), 0.2),
    (
        "spark.sql.session.timeZone",
        ("America/Los_Angeles", "Asia/Kolkata", "+05:30", "America/Sao_Paulo", "Pacific/Apia", "Australia/Lord_Howe", "Europe/Amsterdam"),
        0.4,
    ),
    ("spark.sql.timestampType", ("TIMESTAMP_NTZ",), 0.15),
    ("spark.sql.sources.partitionOverwriteMode", ("DYNAMIC",), 0.2),
    ("spark.sql.parquet.outputTimestampType", ("INT96", "TIMESTAMP_MILLIS"), 0.04),
    ("spark.sql.parquet.compression.codec", ("zstd",), 0.03),
    ("spark.sql.legacy.charVarcharAsString", ("true",), 0.03),
    ("spark.sql.readSideCharPadding", ("false",), 0.03),
    ("spark.sql.ansi.doubleQuotedIdentifiers", ("true",), 0.03),
    ("spark.sql.sources.default", ("delta",), 0.03),
    ("spark.sql.legacy.createHiveTableByDefault", ("false",), 0.03),
    ("spark.sql.defaultColumn.useNullsForMissingDefaultValues", ("false",), 0.03),
    ("spark.sql.parser.escapedStringLiterals", ("true",), 0.02),
    ("spark.sql.mapKeyDedupPolicy", ("LAST_WIN",), 0.02),
    ("spark.sql.parquet.datetimeRebaseModeInWrite", ("LEGACY", "EXCEPTION"), 0.03),
    ("spark.sql.parquet.int96RebaseModeInWrite", ("LEGACY",), 0.02),
    ("spark.sql.files.maxRecordsPerFile", ("1",), 0.03),
    ("spark.sql.codegen.wholeStage", ("false",), 0.02),
    ("spark.sql.legacy.sizeOfNull", ("true",), 0.02),
    ("spark.sql.legacy.timeParserPolicy", ("LEGACY",), 0.03),
    ("spark.sql.parquet.writeLegacyFormat", ("true",), 0.03),
    ("spark.sql.parquet.fieldId.write.enabled", ("false",), 0.02),
    ("spark.sql.legacy.allowNegativeScaleOfDecimal", ("true",), 0.02),
    ("spark.sql.decimalOperations.allowPrecisionLoss", ("false",), 0.02),
    (
        "spark.sql.optimizer.excludedRules",
        ("org.apache.spark.sql.catalyst.optimizer.ConstantFolding,org.apache.spark.sql.catalyst.optimizer.NullPropagation",),
        0.03,
    ),
    ("spark.sql.ansi.enforceReservedKeywords", ("true",), 0.02),
    ("spark.sql.crossJoin.enabled", ("false",), 0.02),
    ("spark.sql.variable.substitute", ("false",), 0.02),
    ("spark.sql.legacy.charVarcharCodegen", ("true",), 0.01),
    ("spark.sql.preserveCharVarcharTypeInfo", ("true",), 0.03),
    ("spark.sql.legacy.disableMapKeyNormalization", ("true",), 0.02),
    ("spark.sql.autoBroadcastJoinThreshold", ("-1",), 0.03),
    ("spark.sql.sources.useV1SourceList", ("",), 0.03),
    ("spark.sql.parquet.enableVectorizedReader", ("false",), 0.03),
    ("spark.sql.files.maxPartitionBytes", ("500",), 0.03),
    ("spark.sql.adaptive.enabled", ("false",), 0.03),
    ("spark.sql.codegen.factoryMode", ("NO_CODEGEN",), 0.02),
    ("spark.sql.parquet.filterPushdown", ("false",), 0.02),
    ("spark.sql.sources.parallelPartitionDiscovery.threshold", ("0",), 0.02),
    ("spark.databricks.delta.merge.optimizeInsertOnlyMerge.enabled", ("false",), 0.02),
    ("spark.databricks.delta.schema.autoMerge.enabled", ("true",), 0.08),
    ("spark.databricks.delta.commitInfo.userMetadata", ("said",), 0.03),
    ("spark.databricks.delta.properties.defaults.enableChangeDataFeed", ("true",), 0.04),
    ("spark.databricks.delta.properties.defaults.enableDeletionVectors", ("true", "false"), 0.04),
    ("spark.databricks.delta.properties.defaults.columnMapping.mode", ("name",), 0.03),
    ("spark.databricks.delta.properties.defaults.appendOnly", ("true",), 0.02),
    ("spark.databricks.delta.replaceWhere.dataColumns.enabled", ("false",), 0.05),
    ("spark.databricks.delta.replaceWhere.constraintCheck.enabled", ("false",), 0.05),
    ("spark.databricks.delta.constraints.assumesDropIfExists.enabled", ("true",), 0.03),
    ("spark.databricks.delta.checkLatestSchemaOnRead", ("false",), 0.02),
    ("spark.databricks.delta.history.metricsEnabled", ("false",), 0.02),
    ("spark.databricks.delta.restore.protocolDowngradeAllowed", ("true",), 0.02),
    ("spark.databricks.delta.optimizeWrite.enabled", ("true",), 0.02),
    ("spark.databricks.delta.autoCompact.enabled", ("true",), 0.02),
    ("spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled", ("true",), 0.02),
    ("spark.databricks.delta.vacuum.lite.enabled", ("true",), 0.02),
)
"""Names, values that differ from the default, and how often one is set."""


def settings(draw: Draw) -> dict[str, str]:
    """The settings of a session."""
    out = {}
    for name, options, probability in SETTINGS:
        at = draw.within(name)
        if at.maybe("set", probability):
            out[name] = at.pick("to", options)
    if draw.maybe("txn", 0.03):
        out |= {"spark.databricks.delta.write.txnAppId": "app", "spark.databricks.delta.write.txnVersion": "1"}
        if draw.maybe("reset", 0.5):
            out["spark.databricks.delta.write.txnVersion.autoReset.enabled"] = "true"
    return out
