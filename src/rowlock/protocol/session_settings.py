"""The settings of a Spark session that Delta knows, `spark.databricks.delta.*`, and Spark's own for data files: what each does here, and typed access to them.

One entry for each setting that Delta documents or makes public as of delta-spark 4.4, and for internal ones that would change rows or the log;
`docs/settings.md` is generated from it.  A setting is read when a statement runs, never when a handle is created.  Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from rowlock.conditions import named
from rowlock.display import nearest
from rowlock.exceptions import InvalidInput, UnsupportedFeature
from rowlock.protocol.actions import SetTransaction
from rowlock.protocol.delta_properties import DELTA_PROPERTIES, FEATURE_PREFIX, MIN_READER_VERSION, MIN_WRITER_VERSION, bytes_of, spelled

PREFIX = "spark.databricks.delta."
DEFAULTS = "properties.defaults."
Effect = Literal["works", "idle", "refused"]
Kind = Literal["boolean", "integer", "bytes", "text"]
Work = Literal["write", "merge", "update", "delete", "create", "alter", "optimize", "vacuum", "restore", "clone", "convert", "feed", "stream"]
"""The kinds of statements that settings distinguish."""

ROWS: tuple[Work, ...] = ("write", "merge", "update", "delete")


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a session.

    name     without PREFIX; of Spark's own settings whole
    default  delta-spark's; None where it has none
    effect   works    it has the effect that Delta documents
             idle     it can change no result here: another value than the default is named once in a warning
             refused  another value than the default is refused by name at a statement that it would change
    description  what Rowlock does, as a sentence; of a refused one also what is done instead
    at       the statements that it is for
    alike    other values than the default that change nothing either
    """

    name: str
    kind: Kind
    default: str | None
    effect: Effect
    description: str
    at: tuple[Work, ...] = ()
    alike: tuple[str, ...] = ()

    @property
    def whole_name(self) -> str:
        """The name as a session has it."""
        return self.name if self.name.startswith("spark.") else PREFIX + self.name

    def is_default(self, value: str) -> bool:
        """Whether a value changes nothing."""
        return value.strip().lower() in ((self.default or "").lower(), *(v.lower() for v in self.alike))

    def problem(self, value: str) -> str | None:
        """Why the setting cannot have this value, as a phrase for an error; None if it can."""
        text = value.strip().lower()
        if self.kind == "boolean" and text not in ("true", "false"):
            return "is true or false"
        if self.kind == "integer" and not text.removeprefix("-").isdecimal():
            return "is a whole number"
        if self.kind == "bytes" and not bytes_of(text):
            return "is a number of bytes such as 134217728 or 128mb"
        return None


def _works(name: str, kind: Kind, default: str | None, description: str, *at: Work) -> Setting:
    return Setting(name, kind, default, "works", description, at)


def _idle(name: str, kind: Kind, default: str | None, description: str) -> Setting:
    return Setting(name, kind, default, "idle", description)


def _refused(name: str, default: str, description: str, *at: Work, alike: tuple[str, ...] = ()) -> Setting:
    return Setting(name, "boolean" if default in ("true", "false") else "text", default, "refused", description, at, alike)


_CALENDAR = (
    "Dates and times are always written in the calendar of today, also those before 1582 that EXCEPTION would refuse: check the rows before they are written"
)
_WHOLE = "A data file that is gone or cannot be read is an error: its rows would be left out, and lost where a statement writes the others anew"
_BY_THE_LOG = "The log says which files are the table's"
_NO_ICEBERG = "Rowlock converts no Iceberg or Hudi tables, and writes no metadata for them"
_DELETED = "Files are deleted by several threads of the driver, on a local disk one after the other, which is faster there"
_ONE_WAY = "Rowlock has one way of its own, which gives the same rows"
_UNSAFE_STREAM = "A stream that meets such a change of the schema ends with an error that names what to do"
_GOES_ON = "always: a stream with schemaTrackingLocation goes on after"
_OF_ONE_STREAM = re.compile(r"\.ckpt_-?\d+$")
"""Ends a setting's name that is for the stream with this checkpoint alone."""

_ALL = (
    # ---- what writes do ----
    _works("schema.autoMerge.enabled", "boolean", "false", "Columns that a table lacks are added by MERGE, INSERT and writes of DataFrames", *ROWS),
    _works("write.txnAppId", "text", None, "With write.txnVersion: what writes rows is that step of the application, and is committed once", *ROWS),
    _works("write.txnVersion", "integer", None, "The number of the step", *ROWS),
    _works("write.txnVersion.autoReset.enabled", "boolean", "false", "write.txnVersion is unset after the statement that used it", *ROWS),
    _works("commitInfo.userMetadata", "text", None, "The text is in every commit of the session, and in the history"),
    _works("lastCommitVersionInSession", "integer", None, "Rowlock sets it to the version of the session's last commit"),
    _works("replaceWhere.dataColumns.enabled", "boolean", "true", "false: replaceWhere may name partition columns alone", "write"),
    _works("replaceWhere.constraintCheck.enabled", "boolean", "true", "false: new rows need not meet the condition of replaceWhere", "write"),
    _works("history.metricsEnabled", "boolean", "true", "false: commits have no operation metrics"),
    _works(
        "optimizeWrite.enabled", "boolean", None, "Rows that Spark writes are shuffled first, so that each partition gets few files; the property else", "write"
    ),
    _works("optimizeWrite.binSize", "bytes", "512", "How many MB of shuffled rows go into one file, or a size such as 1g", "write"),
    _works("autoCompact.enabled", "boolean", None, "Small files are compacted after a commit of rows; the property else", *ROWS),
    _works("autoCompact.minNumFiles", "integer", "50", "So many small files of a partition are compacted", *ROWS),
    _works("autoCompact.maxFileSize", "bytes", "134217728", "The size up to which files are packed", *ROWS),
    _works("autoCompact.minFileSize", "bytes", None, "A file below this size is small; by default half of autoCompact.maxFileSize", *ROWS),
    # ---- tables ----
    _works(
        f"{DEFAULTS}*",
        "text",
        None,
        "The property delta.* of each table that is made or replaced, unless the statement sets it; the values are those of the property",
        "create",
    ),
    _works("allowArbitraryProperties.enabled", "boolean", "false", "true: properties delta.* that Delta does not know can be set", "create", "alter"),
    _works("constraints.assumesDropIfExists.enabled", "boolean", "false", "true: DROP CONSTRAINT passes over a constraint that is not there", "alter"),
    _works("tableFeatures.fastDropFeature.enabled", "boolean", "true", "false: DROP FEATURE waits until no version in the log uses the feature", "alter"),
    _refused("alterLocation.bypassSchemaCheck", "false", "SET LOCATION always compares the columns: make the new table's columns the same", "alter"),
    # ---- reads ----
    _works(
        "changeDataFeed.timestampOutOfRange.enabled", "boolean", "false", "true: a change feed that starts or ends after the newest commit is no error", "feed"
    ),
    _idle("checkLatestSchemaOnRead", "boolean", "true", "The schema is compared in any case"),
    _idle("stalenessLimit", "text", "0", "Every statement sees the newest version"),
    _works("streaming.allowSourceColumnRename", "text", None, f"{_GOES_ON} columns that were renamed", "stream"),
    _works("streaming.allowSourceColumnDrop", "text", None, f"{_GOES_ON} columns that were dropped", "stream"),
    _works("streaming.allowSourceColumnRenameAndDrop", "text", None, f"{_GOES_ON} columns that were renamed or dropped", "stream"),
    _works("streaming.allowSourceColumnTypeChange", "text", None, f"{_GOES_ON} types that were widened", "stream"),
    _works(
        "streaming.allowSchemaLocationOutsideCheckpointLocation", "boolean", "false", "true: schemaTrackingLocation may lie outside of the checkpoint", "stream"
    ),
    # ---- upkeep ----
    _works("retentionDurationCheck.enabled", "boolean", "true", "false: VACUUM takes a retention shorter than the table's own", "vacuum"),
    _works(
        "optimize.maxFileSize", "bytes", "1073741824", "OPTIMIZE packs files up to this size; where it is set it wins over delta.targetFileSize", "optimize"
    ),
    _works("optimize.minFileSize", "bytes", "1073741824", "OPTIMIZE packs files below this size; by default below the size up to which it packs", "optimize"),
    _works("vacuum.lite.enabled", "boolean", "false", "true: VACUUM deletes only files that the log names, as VACUUM LITE does", "vacuum"),
    _refused("vacuum.logging.enabled", "false", "VACUUM writes no commits: leave it unset", "vacuum"),
    _refused("restore.protocolDowngradeAllowed", "false", "RESTORE and clones keep the features that the table has", "restore", "clone"),
    _refused("replace.protocolDowngradeAllowed", "false", "A replaced table keeps the features that it has", "create"),
    _refused("convert.partitionValues.ignoreCastFailure", "false", "Folders whose names are no values of their column's type are an error", "convert"),
    _refused("convert.metadataCheck.enabled", "true", "A table that is there is left as it is", "convert"),
    _refused("convert.useMetadataLog", "true", "All Parquet files of the folder are converted", "convert"),
    _refused("convert.useCatalogSchema", "true", "The columns are those of the table in the catalog, of a folder those of its files", "convert"),
    # ---- how delta-spark does its work ----
    _idle("vacuum.parallelDelete.enabled", "boolean", "false", _DELETED),
    _idle("vacuum.parallelDelete.parallelism", "integer", None, _DELETED),
    _idle("merge.materializeSource.maxAttempts", "integer", "4", "The source of a MERGE is kept as Rowlock needs it"),
    _idle("merge.repartitionBeforeWrite.enabled", "boolean", "true", "Rowlock shuffles what it writes as it needs"),
    _idle("optimizeWrite.numShuffleBlocks", "integer", "50000000", "Spark's adaptive execution says how many blocks a shuffle has"),
    _idle("optimizeWrite.maxShufflePartitions", "integer", "2000", "spark.sql.shuffle.partitions says how many partitions a shuffle has"),
    _idle("optimize.repartition.enabled", "boolean", "false", "Rowlock shuffles what it writes as it needs"),
    _idle("writeChecksumFile.enabled", "boolean", "true", "Checksums are written where the table's rowlock.checksums says so; no reader needs them"),
    _idle("checkpoint.partSize", "integer", None, "Checkpoints are one file, or sidecar files"),
    _idle("deltaLog.minorCompaction.useForReads", "boolean", "true", "Readers do not depend on compacted commits"),
    _idle("snapshotPartitions", "integer", None, "The log is read on the driver"),
    _idle("delta.log.cacheSize", "integer", "10000", "rowlock.set_limits sets the memory of caches"),
    _idle("commitMetrics.enabled", "boolean", "true", "No metrics are sent to a catalog"),
    _idle("catalog.update.enabled", "boolean", "false", "The catalog has a table's name and place; its columns are asked of the log"),
    _idle("v2.enableMode", "text", "AUTO", _ONE_WAY),
    _idle("clusteredTable.enableClusteringTablePreview", "boolean", "false", "Clustering is there without it"),
    _idle("tableFeatures.fastDropFeature.dvTombstoneCountThreshold", "integer", "10000", "One commit names all files of deletion vectors that are kept"),
    _idle("convert.iceberg.useNativePartitionValues", "boolean", "true", _NO_ICEBERG),
    _idle("convert.iceberg.partitionEvolution.enabled", "boolean", "false", _NO_ICEBERG),
    _idle("uniform.iceberg.maxActionsToConvertForCommitLarge", "integer", "1000000", _NO_ICEBERG),
    _idle("iceberg.maxPendingCommits", "integer", "100", _NO_ICEBERG),
    _idle("iceberg.maxPendingActions", "integer", "100000", _NO_ICEBERG),
    _idle("hudi.maxPendingCommits", "integer", "100", _NO_ICEBERG),
    # ---- Spark's own, for data files ----
    _works(
        "spark.sql.parquet.compression.codec", "text", "snappy", "New data files are compressed so, unless the write or the table's property says otherwise"
    ),
    Setting(
        "spark.sql.parquet.outputTimestampType",
        "text",
        "INT96",
        "refused",
        "Times keep their microseconds, which TIMESTAMP_MILLIS would cut off; the other values change none",
        (*ROWS, "create", "optimize"),
        ("TIMESTAMP_MICROS",),
    ),
    _idle("spark.sql.parquet.writeLegacyFormat", "boolean", "false", "Decimals and lists are always written in the form that every reader knows"),
    _works("spark.sql.files.maxRecordsPerFile", "integer", "0", "New data files have at most so many rows, unless the write says otherwise; 0: no limit"),
    _idle("spark.sql.parquet.fieldId.write.enabled", "boolean", "true", "Data files always have the ids that column mapping gives"),
    _idle("spark.sql.files.ignoreMissingFiles", "boolean", "false", _WHOLE),
    _idle("spark.sql.files.ignoreCorruptFiles", "boolean", "false", _WHOLE),
    _refused("spark.sql.parquet.datetimeRebaseModeInWrite", "CORRECTED", _CALENDAR, *ROWS, "create", "optimize", alike=("LEGACY",)),
    _refused("spark.sql.parquet.int96RebaseModeInWrite", "CORRECTED", _CALENDAR, *ROWS, "create", "optimize", alike=("LEGACY",)),
    _idle("spark.sql.parquet.output.committer.class", "text", None, _BY_THE_LOG),
    _idle("spark.sql.sources.outputCommitterClass", "text", None, _BY_THE_LOG),
    _idle("spark.sql.sources.commitProtocolClass", "text", None, _BY_THE_LOG),
    # ---- internal ones of delta-spark that would change rows or what a commit holds ----
    _refused("dynamicPartitionOverwrite.enabled", "true", "Say partitionOverwriteMode=static for the write", "write"),
    _refused("replaceWhere.dataColumnsWithCDF.enabled", "true", "The change feed always has the rows that replaceWhere replaces", "write"),
    _refused("convertEmptyToNullForStringPartitionCol", "true", "The empty text is always null in a partition column", *ROWS),
    _refused("insert.preserveNullSourceStructs", "true", "A null struct always stays null", "write"),
    _refused("merge.preserveNullSourceStructs", "true", "A null struct always stays null", "merge"),
    _refused("resolveMergeUpdateStructsByName", "true", "Fields of structs always go by name", "merge", "update"),
    _refused("updateAndMergeCastingFollowsAnsiEnabledFlag", "false", "spark.sql.storeAssignmentPolicy says how values are cast", "merge", "update"),
    _refused("insert.byName.schemaEvolution.enabled", "true", "INSERT BY NAME evolves the schema as by position", "write"),
    _works(
        "typeWidening.allowAutomaticWidening", "text", "ALWAYS", "SAME_FAMILY_TYPE: whole numbers stay such when the schema evolves; NEVER", "write", "merge"
    ),
    _refused("write.utcTimestampPartitionValues", "true", "Times in partition columns are always written in UTC", *ROWS),
    _refused("identityColumn.enabled", "true", "Identity columns are always numbered", *ROWS),
    _refused("identityColumn.allowSyncIdentityToLowerHighWaterMark.enabled", "false", "Numbers that were given are never given again", "alter"),
    _refused("delete.deletionVectors.persistent", "true", "Set delta.enableDeletionVectors=false on the table", "delete"),
    _refused("update.deletionVectors.persistent", "true", "Set delta.enableDeletionVectors=false on the table", "update"),
    _refused("merge.deletionVectors.persistent", "true", "Set delta.enableDeletionVectors=false on the table", "merge"),
    _refused("deltaTableBuilder.forceTablePropertyLowerCase.enabled", "false", "Properties keep the case that they are given in", "create"),
    _refused("legacy.storeOptionsAsProperties", "false", "Options of a writer that are no properties are not stored", "create"),
    _refused("clone.replaceEnabled", "true", "Leave OR REPLACE out", "clone"),
    _refused("rowTracking.backfill.enabled", "true", "Enabling row tracking gives ids to the rows that are there", "alter"),
    _refused("changeDataFeed.unsafeBatchReadOnIncompatibleSchemaChanges.enabled", "false", "Read the changes before and after the change one by one", "feed"),
    _refused("changeDataFeed.defaultSchemaModeForColumnMappingTable", "endVersion", "The columns are those of the last version that is read", "feed"),
    _refused("changeDataFeed.allowTimeTravelOptionsForSchema", "false", "The columns are those of the last version that is read", "feed"),
    _refused("withEventTimeOrder.enabled", "false", "The first version of a stream is read in the order of its files", "stream"),
    _refused("streaming.unsafeReadOnIncompatibleColumnMappingSchemaChanges.enabled", "false", _UNSAFE_STREAM, "stream"),
    _refused("streaming.unsafeReadOnIncompatibleSchemaChangesDuringStreamStart.enabled", "false", _UNSAFE_STREAM, "stream"),
    _refused("streaming.unsafeReadOnPartitionColumnChanges.enabled", "false", _UNSAFE_STREAM, "stream"),
    _refused("streaming.unsafeReadOnNullabilityChange.enabled", "false", _UNSAFE_STREAM, "stream"),
)

SETTINGS = {s.name: s for s in _ALL}
"""By name, without PREFIX."""
_PROTOCOL = (MIN_READER_VERSION, MIN_WRITER_VERSION)
_IGNORES_PROTOCOL = "delta.ignoreProtocolDefaults"


@dataclass(frozen=True, slots=True)
class Settings:
    """The values of a session's settings at one moment, by their names without PREFIX."""

    given: Mapping[str, str] = field(default_factory=dict)

    def text(self, name: str) -> str | None:
        """A setting's value, else its default.  Raises InvalidInput, which names the setting, for a value of another type."""
        setting = SETTINGS[name]
        value = self.given.get(name)
        if value is None:
            return setting.default
        if problem := setting.problem(value):
            raise InvalidInput(f"The setting {setting.whole_name} {problem}, not {value!r}")
        return value

    def flag(self, name: str, otherwise: bool = False) -> bool:
        """Whether a setting is true; `otherwise` where it is not set and has no default.  Raises as `text`."""
        value = self.text(name)
        return otherwise if value is None else value.strip().lower() == "true"

    def size(self, name: str) -> int | None:
        """A setting in bytes, None where it is not set.  Raises as `text`."""
        return bytes_of(self.text(name) or "") if name in self.given else None

    @property
    def application(self) -> SetTransaction | None:
        """The step of an application that the session's next statement is.  Raises InvalidInput where only one of its two settings is there."""
        app, version = self.text("write.txnAppId"), self.text("write.txnVersion")
        if app is None and version is None:
            return None
        if app is None or version is None:
            condition = named("DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS", reason="both txnVersion and txnAppId must be set")
            raise InvalidInput(f"{PREFIX}write.txnAppId and {PREFIX}write.txnVersion go together: set both, or unset both", condition=condition)
        return SetTransaction(app, int(version))

    def table_defaults(self, properties: Mapping[str, str]) -> dict[str, str]:
        """The properties that the session gives a new table beside the `properties` of the statement.  Raises InvalidInput for a name or value that is none."""
        out = {f"delta.{name.removeprefix(DEFAULTS)}": value for name, value in self.given.items() if name.startswith(DEFAULTS)}
        for name, value in out.items():
            known = DELTA_PROPERTIES.get(name)
            if known is None and not name.startswith(FEATURE_PREFIX):
                raise InvalidInput(f"The setting {PREFIX}{DEFAULTS}{name[6:]} has no effect: Delta knows no property {name}{_near(name, DELTA_PROPERTIES)}")
            if known is not None and name not in _PROTOCOL and (problem := known.problem(value)):
                raise InvalidInput(f"The setting {PREFIX}{DEFAULTS}{name[6:]} = {value!r} is not possible: {problem}")
        if {**out, **spelled(properties)}.get(_IGNORES_PROTOCOL, "").lower() == "true":
            out = {k: v for k, v in out.items() if k not in _PROTOCOL and not k.startswith(FEATURE_PREFIX)}
        if (out.get(_PROTOCOL[0], "1"), out.get(_PROTOCOL[1], "2")) == ("1", "2"):
            out = {k: v for k, v in out.items() if k not in _PROTOCOL}
        return {**out, **spelled(properties)}

    def check(self, work: Work) -> None:
        """Raises for settings that a statement cannot heed: UnsupportedFeature for a refused one, InvalidInput for a value of another type."""
        for name in self.given:
            setting = SETTINGS.get(name)
            if setting is None or work not in setting.at:
                continue
            value = self.text(name) or ""
            if setting.effect == "refused" and not setting.is_default(value):
                raise UnsupportedFeature(
                    f"The setting {setting.whole_name} = {value} is refused, since Rowlock does not heed it. {setting.description}, and unset it: "
                    f'spark.conf.unset("{setting.whole_name}")',
                    feature=f"setting {setting.whole_name}",
                    access="write",
                )

    def without_effect(self) -> dict[str, str]:
        """Remarks on settings that have no effect here, by their whole names."""
        out = {}
        for name, value in self.given.items():
            setting = SETTINGS.get(_OF_ONE_STREAM.sub("", name))
            if setting is None and not name.startswith((DEFAULTS, "spark.")):
                out[PREFIX + name] = f"The setting {PREFIX}{name} has no effect: Rowlock knows none of this name{_near(name, SETTINGS)}"
            elif setting is not None and setting.effect == "idle" and not setting.is_default(value):
                whole = setting.whole_name
                out[whole] = f"The setting {whole} = {value} has no effect on Rowlock, and can change no result: {setting.description}"
        return out


def _near(name: str, known: Mapping[str, object]) -> str:
    """A question that ends a message: which known name is meant; empty where none is like it."""
    found = nearest(name, known, 0.8)
    return f"; is {found} meant?" if found else ""
