"""Delta's table properties: which values can be set through Rowlock, and what it does with each.

One entry for each property of delta-spark 4.4 and for those that other engines leave in tables; `docs/properties.md` is generated from it.  A property
is only ever refused when it is set: a table of others that has it is read and written, unless a feature that it needs is refused
(`features`).  Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeVar

MAX_READER_VERSION, MAX_WRITER_VERSION = 3, 7
"""The highest versions of the protocol that Delta has."""
MIN_READER_VERSION, MIN_WRITER_VERSION, FEATURE_PREFIX = "delta.minReaderVersion", "delta.minWriterVersion", "delta.feature."
"""Properties that change the protocol when they are set, and are not stored."""

T = TypeVar("T")
Treatment = Literal["effect", "refused", "feature", "ignored"]
Kind = Literal["boolean", "integer", "interval", "choice", "bytes", "text"]

_MS = {"microsecond": 0.001, "millisecond": 1, "second": 1000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000, "week": 604_800_000}
_INTERVAL_PART = re.compile(r"(-?\d+)\s+([a-z]+?)s?(?=\s|$)")
_BYTES, _SHIFTS = re.compile(r"(\d+)\s*([kmgtp]?)b?"), {"": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}


@dataclass(frozen=True, slots=True)
class DeltaProperty:
    """One of Delta's table properties.

    treatment  effect   it has the effect that Delta documents
               refused  it cannot be set through Rowlock but to `only`, the values that ask for what happens anyway
               feature  true is refused by the name of a feature that Rowlock does not write, of a table that is there as well
               ignored  it can be set and has nothing to do here, for the reason in `description`
    description  what Rowlock does, as a sentence; of a refused one also what is done instead
    least      the smallest whole number
    feature    for the treatment "feature"
    harmless   no change of it can invalidate staged work: where it counts, each commit asks the head
    """

    name: str
    kind: Kind
    treatment: Treatment
    description: str
    least: int = 0
    choices: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    feature: str = ""
    harmless: bool = False

    def problem(self, value: str) -> str | None:
        """Why the property cannot be set to this value, as a phrase for an error; None if it can."""
        text = value.strip()
        if self.treatment == "refused":
            allowed = f"; it can only be set to {', '.join(self.only)}" if self.only else ""
            return None if text.lower() in self.only else f"{self.description}{allowed}"
        if self.kind == "boolean" and text.lower() not in ("true", "false"):
            return "allowed are true, false"
        if self.kind == "integer" and not (re.fullmatch(r"-?\d+", text) and int(text) >= self.least):
            return f"a whole number of at least {self.least} is needed"
        if self.kind == "choice" and value not in self.choices:
            return f"allowed are {', '.join(self.choices)}"
        if self.kind == "bytes" and not bytes_of(text):
            return "a number of bytes such as 134217728 or 128mb is needed"
        if self.kind == "interval" and not _is_interval(text):
            return "an interval such as 'interval 30 days' is needed"
        return None


def interval_ms(text: str) -> int:
    """The milliseconds of an interval such as `interval 30 days` or `2 hours 5 minutes`; raises ValueError."""
    body = text.strip().lower().removeprefix("interval").strip()
    parts = _INTERVAL_PART.findall(body)
    if not parts or _INTERVAL_PART.sub("", body).strip() or any(unit not in _MS for _, unit in parts):
        raise ValueError(f"{text!r} is not an interval")
    return int(sum(int(count) * _MS[unit] for count, unit in parts))


def _is_interval(text: str) -> bool:
    try:
        return interval_ms(text) >= 0
    except ValueError:
        return False


def bytes_of(text: str) -> int | None:
    """The number of bytes that a text such as `1048576` or `128mb` names; None if it names none, or 0."""
    found = _BYTES.fullmatch(text.strip().lower())
    return int(found[1]) << _SHIFTS[found[2]] or None if found else None


def _effect(name: str, kind: Kind, description: str, *, least: int = 0, choices: Iterable[str] = (), harmless: bool = False) -> DeltaProperty:
    return DeltaProperty(f"delta.{name}", kind, "effect", description, least, tuple(choices), harmless=harmless)


_upkeep = partial(_effect, harmless=True)  # how files, checkpoints and the log are laid out and kept


def _ignored(name: str, kind: Kind, description: str) -> DeltaProperty:
    return DeltaProperty(f"delta.{name}", kind, "ignored", description, harmless=True)


def _refused(name: str, description: str, *only: str, harmless: bool = False) -> DeltaProperty:
    return DeltaProperty(f"delta.{name}", "text", "refused", description, only=only, harmless=harmless)


def _of_feature(name: str, feature: str) -> DeltaProperty:
    text = f"true needs the feature {feature}, which Rowlock does not write; tables with it can be read"
    return DeltaProperty(f"delta.{name}", "boolean", "feature", text, feature=feature)


_ICEBERG = "Rowlock writes no Iceberg metadata and does not keep to what Iceberg needs of the files"
_COORDINATED = "Rowlock commits to the log itself, by no coordinator"
_PROTOCOL = "Raises the protocol to support all features of this version, and never lowers it; it is not stored among the properties"
_MATERIALIZED = "It names the column of data files that holds ids of rewritten rows: the table gives it, once, where delta.enableRowTracking is set"
_REDIRECT = "Rowlock follows no redirection to another table"

_ALL = (
    # ---- the log ----
    _upkeep(
        "logRetentionDuration",
        "interval",
        "After a checkpoint, the log before the newest checkpoint older than this is deleted; 30 days by default, and never shorter than delta.deletedFileRetentionDuration",
    ),
    _upkeep("enableExpiredLogCleanup", "boolean", "false keeps the log for ever"),
    _effect("requireCheckpointProtectionBeforeVersion", "integer", "The log before this version is deleted in one go or not at all"),
    _upkeep("checkpointInterval", "integer", "A checkpoint is written after so many commits; 10 by default", least=1),
    _effect(
        "checkpointPolicy",
        "choice",
        "v2: checkpoints have unique names and keep file actions in sidecar files; it adds the feature v2Checkpoint. classic: one Parquet file",
        choices=("classic", "v2"),
    ),
    _upkeep(
        "checkpoint.writeStatsAsJson",
        "boolean",
        "false: checkpoints hold statistics as structs and not as JSON. Statistics that a struct cannot hold stay JSON",
    ),
    _upkeep("checkpoint.writeStatsAsStruct", "boolean", "true: checkpoints hold statistics, and partition values, as structs too"),
    _upkeep(
        "setTransactionRetentionDuration",
        "interval",
        "A checkpoint leaves out the versions of applications that were last updated longer ago; without it all are kept",
    ),
    _ignored(
        "checkpointRetentionDuration", "interval", "It permits to keep checkpoints for less time than the log; Rowlock keeps them as long, as delta-spark does"
    ),
    _ignored("enableFullRetentionRollback", "boolean", "Every version within the log retention can be restored in any case"),
    _effect("enableInCommitTimestamps", "boolean", "Commits carry their own times, which only increase"),
    _effect("inCommitTimestampEnablementVersion", "integer", "From this version on commits carry times; Rowlock sets it"),
    _effect("inCommitTimestampEnablementTimestamp", "integer", "The time of that version; Rowlock sets it"),
    _effect(
        "isolationLevel", "choice", "The isolation level where rowlock.isolation is not set", choices=("Serializable", "WriteSerializable", "SnapshotIsolation")
    ),
    # ---- data files ----
    _upkeep("dataSkippingNumIndexedCols", "integer", "So many columns, from the first, get statistics; 32 by default, -1 for all", least=-1),
    _upkeep(
        "dataSkippingStatsColumns",
        "text",
        "These columns get statistics, and no others; one that is not there, partitions the table or has a type without bounds is refused",
    ),
    _upkeep("dataSkippingStringPrefixLength", "integer", "Statistics hold so many characters of a text's bounds; 32 by default"),
    _upkeep(
        "randomizeFilePrefixes",
        "boolean",
        "New data files lie in folders with random names, not in those of their partitions; the files of one Spark job in one",
    ),
    _upkeep("randomPrefixLength", "integer", "So many characters have these names; 2 by default", least=1),
    _upkeep("deletedFileRetentionDuration", "interval", "VACUUM keeps removed files for so long, and checkpoints keep their removal; 1 week by default"),
    _upkeep("targetFileSize", "bytes", "OPTIMIZE packs files up to this size; 1 GB by default"),
    _refused("tuneFileSizesForRewrites", "No statement of Rowlock chooses the size of its files by a table's history", "false", harmless=True),
    _upkeep("autoOptimize", "boolean", "The former name of delta.autoOptimize.autoCompact"),
    _upkeep(
        "autoOptimize.autoCompact",
        "boolean",
        "After a commit of rows through a Spark session, partitions that it wrote to and that hold 50 small files are compacted, in a commit of its own",
    ),
    _upkeep("autoOptimize.optimizeWrite", "boolean", "Rows that Spark writes are shuffled first, so that each partition gets few files"),
    _upkeep(
        "parquet.compression.codec",
        "choice",
        "New data files are compressed so, unless the write says otherwise; by default as the session's spark.sql.parquet.compression.codec, else snappy",
        choices=("snappy", "zstd", "gzip", "lz4", "uncompressed", "SNAPPY", "ZSTD", "GZIP", "LZ4", "UNCOMPRESSED"),
    ),
    _refused("parquet.format.version", "Data files have the format version of the writing library, Spark or pyarrow", harmless=True),
    _refused("writePartitionColumnsToParquet", "Partition values are in the log and not in data files", "false"),
    _effect(
        "compatibility.symlinkFormatManifest.enabled",
        "boolean",
        "After each commit of files the manifests in _symlink_format_manifest are written; not together with deletion vectors, which new tables have none of then, or column mapping",
    ),
    _ignored("sampleRetentionDuration", "interval", "No samples of data files are kept"),
    # ---- rows ----
    _effect("appendOnly", "boolean", "Rows can be added only"),
    _effect("enableDeletionVectors", "boolean", "Rows are deleted by deletion vectors; on for new tables"),
    _effect("enableChangeDataFeed", "boolean", "Each version's changes can be read row by row"),
    _refused("enableChangeDataCapture", "This is the former name of delta.enableChangeDataFeed: set that", "false"),
    _effect("enableRowTracking", "boolean", "Rows keep their ids"),
    _refused("rowTrackingSuspended", "Row ids are always given where the table has them", "false"),
    _refused("rowTracking.materializedRowIdColumnName", _MATERIALIZED),
    _refused("rowTracking.materializedRowCommitVersionColumnName", _MATERIALIZED),
    # ---- columns and protocol ----
    _effect(
        "columnMapping.mode",
        "choice",
        "Columns can be renamed and dropped without writing files again. Setting it back to none, or unsetting it, writes all data files again in one commit; not where rows keep their ids",
        choices=("none", "name", "id"),
    ),
    _refused("columnMapping.maxColumnId", "It is the highest id that a column was given: the table sets it"),
    _effect(
        "enableVariantShredding", "boolean", "Spark's writer stores fields of variants in columns of their own; what Rowlock writes on the driver is whole"
    ),
    _effect("enableTypeWidening", "boolean", "Columns' types can be widened"),
    *(
        _effect(f"min{kind}Version", "choice", _PROTOCOL, choices=tuple(map(str, range(1, highest + 1))))
        for kind, highest in (("Reader", MAX_READER_VERSION), ("Writer", MAX_WRITER_VERSION))
    ),
    _upkeep("ignoreProtocolDefaults", "boolean", "true: the table gets no versions and no features of the protocol from the session's properties.defaults"),
    _upkeep("dropFeatureTruncateHistory.retentionDuration", "interval", "DROP FEATURE ... TRUNCATE HISTORY keeps versions for so long; 24 hours by default"),
    # ---- other formats and services ----
    _of_feature("enableMaterializePartitionColumnsFeature", "materializePartitionColumns"),
    *(_of_feature(f"enableIceberg{name}", f"iceberg{name}") for name in ("CompatV1", "CompatV2", "CompatV3", "WriterCompatV1")),
    _refused("universalFormat.enabledFormats", _ICEBERG, ""),
    _refused("universalFormat.config", _ICEBERG, ""),
    _refused("universalFormat.iceberg.atomicConversion.supported", _ICEBERG, "false"),
    _refused("castIcebergTimeType", "Rowlock converts no Iceberg tables", "false"),
    _refused("ignoreIcebergBucketPartition", "Rowlock converts no Iceberg tables", "false"),
    *(_refused(f"coordinatedCommits.{name}-preview", _COORDINATED) for name in ("commitCoordinator", "commitCoordinatorConf", "tableConf")),
    *(_refused(f"redirect{name}-preview", _REDIRECT) for name in ("ReaderWriter", "WriterOnly")),
)

DELTA_PROPERTIES = {p.name: p for p in _ALL}
"""By name, as Delta spells it."""
_BY_LOWER_NAME = {p.name.lower(): p for p in _ALL}
UNIFORM = "delta.universalFormat.config"
"""Beginning of properties with any further name."""


def find(name: str) -> DeltaProperty | None:
    """The property of a name in any case; None if Delta has none."""
    lowered = name.lower()
    return _BY_LOWER_NAME.get(UNIFORM.lower() if lowered.startswith(f"{UNIFORM.lower()}.") else lowered)


def spelled(properties: Mapping[str, T]) -> dict[str, T]:
    """The properties with their names as Delta spells them, which it takes in any letters; names that it does not know are as they are."""
    return {known.name if (known := _BY_LOWER_NAME.get(name.lower())) is not None else name: value for name, value in properties.items()}
