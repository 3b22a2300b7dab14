"""Table properties: typed access with defaults, and validation when they are set.

Owns the names and allowed values of `delta.*` and `rowlock.*`.  Unknown names with either prefix are refused;
other names are not checked.  Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, cast, get_args

from rowlock.conditions import Condition, named
from rowlock.display import did_you_mean
from rowlock.exceptions import InvalidInput
from rowlock.protocol import delta_properties
from rowlock.protocol.delta_properties import bytes_of, interval_ms

OnConflict = Literal["repair", "rerun", "fail", "lockless"]
Isolation = Literal["serializable", "write_serializable", "snapshot"]
Granularity = Literal["row", "file"]
Lock = Literal["none", "writes", "table", "partition", "auto"]

KNOBS: dict[str, tuple[str, ...]] = {
    "rowlock.onConflict": get_args(OnConflict),
    "rowlock.isolation": get_args(Isolation),
    "rowlock.granularity": get_args(Granularity),
    "rowlock.lock": get_args(Lock),
}
"""The allowed values of Rowlock's properties; the first is the default."""

GROUP_COMMIT, CHECKSUMS = "rowlock.groupCommit", "rowlock.checksums"
LOCK_PROVIDER, LOCK_TIMEOUT, LOCK_TERM, LOCK_KEY = "rowlock.lockProvider", "rowlock.lockTimeout", "rowlock.lockTerm", "rowlock.lockKey"
_LOG_RETENTION, _FILE_RETENTION = "delta.logRetentionDuration", "delta.deletedFileRetentionDuration"
_LOCK_SETTINGS = (LOCK_PROVIDER, LOCK_TIMEOUT, LOCK_TERM, LOCK_KEY)
_PROVIDER = re.compile(r"object|postgresql|dynamodb:[A-Za-z0-9_.\-]{3,255}")

DELTA_LEVELS: dict[Isolation, str] = {"serializable": "Serializable", "write_serializable": "WriteSerializable", "snapshot": "SnapshotIsolation"}
"""Delta's names of the isolation levels, for the property `delta.isolationLevel` and for commitInfo."""

LOCKLESS_ALONE = "lockless is a level of its own and cannot be combined with an isolation level (choose repair, rerun or fail for isolation)"

_COLUMNS = re.compile(r"(?:`(?:[^`]|``)*`|[^,`])+")
_FREE_PREFIXES = ("delta.constraints.", "delta.feature.")


def is_true(configuration: Mapping[str, str], name: str) -> bool:
    """Whether a boolean table property that is off by default is set to true."""
    return configuration.get(name, "").strip().lower() == "true"


def column_mapping_mode(configuration: Mapping[str, str]) -> str:
    """The table's column mapping mode: `none`, `name` or `id` (or what another writer has set)."""
    return configuration.get("delta.columnMapping.mode", "none").strip().lower() or "none"


def validate_properties(properties: Mapping[str, str], table: str | None = None, *, arbitrary: bool = False) -> None:
    """Raises InvalidInput for the first property that cannot be set, naming it, its value and the allowed values; `arbitrary`: names that Delta does not know may be set."""
    for name, value in properties.items():
        if arbitrary and name.lower().startswith("delta.") and delta_properties.find(name) is None:
            continue
        if allowed := _problem(name, str(value)):
            shown = "..." if name.lower() == LOCK_PROVIDER.lower() else value  # it may be a connection string with a password
            raise InvalidInput(f"property {name} = {shown!r} is not possible: {allowed}", table=table, condition=_condition(name, str(value)))


def validate_together(configuration: Mapping[str, str], table: str | None = None, *, given: Mapping[str, str]) -> None:
    """Raises InvalidInput for properties that are valid one by one but not together.

    `given`: those that the statement sets.  A retention among them is compared with the other one that the statement sets or else with its default, as in
    delta-spark, and not with what the table has.
    """
    if TableProperties(given).log_retention_ms < TableProperties(given).deleted_file_retention_ms:
        text = (
            f"{_LOG_RETENTION} ({given.get(_LOG_RETENTION, 'by default 30 days')}) must be at least {_FILE_RETENTION} ({given.get(_FILE_RETENTION, 'by default 1 week')}): "
            "set both in one statement"
        )
        raise InvalidInput(text, table=table, condition=named("UNSUPPORTED_TABLE_CHANGE", message=text))
    if configuration.get("rowlock.onConflict") != "lockless":
        return
    if "rowlock.isolation" in configuration:
        raise InvalidInput(
            f"rowlock.onConflict = 'lockless' and rowlock.isolation = {configuration['rowlock.isolation']!r} are not possible together: {LOCKLESS_ALONE}",
            table=table,
        )
    if not TableProperties(configuration).row_tracking:
        raise InvalidInput("rowlock.onConflict = 'lockless' needs delta.enableRowTracking = 'true' as well: it identifies rows by their row ids", table=table)


def _condition(name: str, value: str) -> Condition | None:
    """What delta-spark calls it where a property cannot be set: it has a condition for unknown ones."""
    known = delta_properties.find(name)
    if known is not None and known.kind == "interval":
        return named("DELTA_INVALID_INTERVAL", interval=value)
    unknown = name.lower().startswith("delta.") and known is None
    setting = "spark.databricks.delta.allowArbitraryProperties.enabled"
    return named("DELTA_UNKNOWN_CONFIGURATION", config=name, disableCheckConfig=setting) if unknown else None


def _problem(name: str, value: str) -> str | None:
    """Why a property cannot have this value, as a phrase for the error; None if it can."""
    lowered = name.lower()
    if lowered.startswith("rowlock."):
        if name in _LOCK_SETTINGS:
            return _lock_problem(name, value)
        if name in (GROUP_COMMIT, CHECKSUMS):
            return None if value in ("true", "false") else "allowed are true, false"
        if name not in KNOBS:
            return f"there is no such property{did_you_mean(name, KNOBS)}; known are {', '.join((*KNOBS, GROUP_COMMIT, CHECKSUMS, *_LOCK_SETTINGS))}"
        if value not in KNOBS[name]:
            return f"allowed are {', '.join(KNOBS[name])}"
        return None
    if not lowered.startswith("delta.") or lowered.startswith(_FREE_PREFIXES):
        return None
    return _delta_problem(name, value)


def _lock_problem(name: str, value: str) -> str | None:
    if name == LOCK_PROVIDER and not _PROVIDER.fullmatch(value):
        return "allowed are object, dynamodb:TABLE, postgresql; the connection string for PostgreSQL is taken from the environment (ROWLOCK_LOCK_DSN) and never written into a table"
    if name == LOCK_KEY and not value.strip():
        return "the name of a column is needed"
    if name in (LOCK_TIMEOUT, LOCK_TERM):
        try:
            if interval_ms(value) <= 0:
                raise ValueError
        except ValueError:
            return "an interval such as 'interval 30 seconds' is needed"
    return None


def _delta_problem(name: str, value: str) -> str | None:
    known = delta_properties.find(name)
    if known is None:
        return f"Delta knows no property of this name{did_you_mean(name, delta_properties.DELTA_PROPERTIES)}"
    return known.problem(value) if name == known.name or known.name == delta_properties.UNIFORM else f"it is spelled {known.name}"


@dataclass(frozen=True, slots=True)
class TableProperties:
    """Typed access to table properties.

    A value that cannot be parsed gives the default, since another engine may have written it; only a retention
    that cannot be parsed raises InvalidInput.
    """

    configuration: Mapping[str, str] = field(default_factory=dict, hash=False)

    def _boolean(self, name: str, default: bool) -> bool:
        return {"true": True, "false": False}.get(self.configuration.get(name, "").strip().lower(), default)

    def _integer(self, name: str, default: int) -> int:
        value = self.configuration.get(name, "").strip()
        return int(value) if value and _delta_problem(name, value) is None else default

    def _interval(self, name: str, default: str) -> int:
        try:
            return interval_ms(self.configuration.get(name, default))
        except ValueError:
            return interval_ms(default)

    def _retention(self, name: str, default: str) -> int:
        """A retention in milliseconds.  Raises InvalidInput for a value that cannot be parsed: a wrong default would delete files for good."""
        return interval_ms(self._checked(name, default))

    def _checked(self, name: str, default: str) -> str:
        value = self.configuration.get(name, default)
        if allowed := _delta_problem(name, value):
            raise InvalidInput(f"the table's property {name} = {value!r} cannot be read: {allowed}. Set it again, or unset it for the default, {default!r}")
        return value

    @property
    def deletion_vectors(self) -> bool:
        """`delta.enableDeletionVectors`."""
        return self._boolean("delta.enableDeletionVectors", False)

    @property
    def group_commit(self) -> bool:
        """`rowlock.groupCommit`: whether appends that queue are committed as one version."""
        return self._boolean(GROUP_COMMIT, True)

    @property
    def writes_checksums(self) -> bool:
        """`rowlock.checksums`: whether a version checksum is written after each commit."""
        return self._boolean(CHECKSUMS, False)

    @property
    def row_tracking(self) -> bool:
        """`delta.enableRowTracking`."""
        return self._boolean("delta.enableRowTracking", False)

    @property
    def shreds_variants(self) -> bool:
        """`delta.enableVariantShredding`."""
        return self._boolean("delta.enableVariantShredding", False)

    @property
    def type_widening(self) -> bool:
        """`delta.enableTypeWidening`."""
        return self._boolean("delta.enableTypeWidening", False)

    @property
    def append_only(self) -> bool:
        """`delta.appendOnly`: whether rows must not be changed or deleted."""
        return self._boolean("delta.appendOnly", False)

    @property
    def checkpoint_policy(self) -> str:
        """`delta.checkpointPolicy`: `v2`, or `classic`, which any other value means."""
        return "v2" if self.configuration.get("delta.checkpointPolicy", "").strip() == "v2" else "classic"

    @property
    def checkpoint_interval(self) -> int:
        """Commits between two checkpoints."""
        return self._integer("delta.checkpointInterval", 10)

    @property
    def in_commit_timestamps(self) -> bool:
        """`delta.enableInCommitTimestamps`."""
        return self._boolean("delta.enableInCommitTimestamps", False)

    @property
    def num_indexed_columns(self) -> int:
        """How many leaf columns, from the first, have statistics; -1 means all."""
        return self._integer("delta.dataSkippingNumIndexedCols", 32)

    @property
    def stats_text_characters(self) -> int:
        """`delta.dataSkippingStringPrefixLength`: how many characters of a text's bounds statistics hold."""
        return self._integer("delta.dataSkippingStringPrefixLength", 32)

    @property
    def stats_columns(self) -> tuple[str, ...] | None:
        """The columns that have statistics if the table lists them by name (as spelled there, see `column_path`); they override `num_indexed_columns`."""
        value = self.configuration.get("delta.dataSkippingStatsColumns")
        if value is None:
            return None
        return tuple(part.strip() for part in _COLUMNS.findall(value) if part.strip())

    @property
    def target_file_bytes(self) -> int | None:
        """`delta.targetFileSize` in bytes (given as a number, or like `128mb`); None if the table does not set it."""
        return bytes_of(self.configuration.get("delta.targetFileSize", ""))

    @property
    def auto_compacts(self) -> bool:
        """`delta.autoOptimize.autoCompact`, or its former name: whether small files are compacted after a commit of rows."""
        return self._boolean("delta.autoOptimize", False) or self._boolean("delta.autoOptimize.autoCompact", False)

    @property
    def optimizes_writes(self) -> bool:
        """`delta.autoOptimize.optimizeWrite`: whether rows are shuffled before they are written."""
        return self._boolean("delta.autoOptimize.optimizeWrite", False)

    @property
    def random_prefix_length(self) -> int | None:
        """How many characters the random folders of new data files have; None where they lie in those of their partitions."""
        return self._integer("delta.randomPrefixLength", 2) if self._boolean("delta.randomizeFilePrefixes", False) else None

    @property
    def log_retention_ms(self) -> int:
        """How long old commits are kept, in milliseconds."""
        return self._retention(_LOG_RETENTION, "interval 30 days")

    @property
    def cleans_log(self) -> bool:
        """`delta.enableExpiredLogCleanup`: whether commits and checkpoints older than the log retention are deleted; a value that is neither true nor false says no."""
        return self.configuration.get("delta.enableExpiredLogCleanup", "true").strip().lower() == "true"

    @property
    def protected_before(self) -> int:
        """`delta.requireCheckpointProtectionBeforeVersion`: the log before this version is cleaned up in one go or not at all; 0 if nothing is protected.

        Raises InvalidInput for a value that is no whole number.
        """
        return int(self._checked("delta.requireCheckpointProtectionBeforeVersion", "0"))

    @property
    def application_retention_ms(self) -> int | None:
        """`delta.setTransactionRetentionDuration`: how long versions of applications are kept in checkpoints, in milliseconds; None: for ever, also for a value that cannot be read."""
        value = self.configuration.get("delta.setTransactionRetentionDuration")
        return None if value is None or _delta_problem("delta.setTransactionRetentionDuration", value) else interval_ms(value)

    @property
    def deleted_file_retention_ms(self) -> int:
        """How long removed data files are kept for vacuum, in milliseconds."""
        return self._retention(_FILE_RETENTION, "interval 1 week")

    def _knob(self, name: str) -> str:
        value = self.configuration.get(name, KNOBS[name][0])
        if value not in KNOBS[name]:
            raise InvalidInput(f"the table's property {name} = {value!r} is not supported: allowed are {', '.join(KNOBS[name])}")
        return value

    @property
    def on_conflict(self) -> OnConflict:
        """`rowlock.onConflict`: what happens to a transaction that conflicts with winners."""
        return cast(OnConflict, self._knob("rowlock.onConflict"))

    @property
    def isolation(self) -> Isolation:
        """The isolation level: `rowlock.isolation`, or Delta's own `delta.isolationLevel` if that is not set."""
        if "rowlock.isolation" not in self.configuration:
            theirs = self.configuration.get("delta.isolationLevel", "").strip().lower()
            return next((level for level, name in DELTA_LEVELS.items() if name.lower() == theirs), "serializable")
        return cast(Isolation, self._knob("rowlock.isolation"))

    @property
    def granularity(self) -> Granularity:
        """`rowlock.granularity`: whether rows or files conflict."""
        return cast(Granularity, self._knob("rowlock.granularity"))

    @property
    def lock(self) -> Lock:
        """`rowlock.lock`: what a writer takes a lease on."""
        return cast(Lock, self._knob("rowlock.lock"))

    @property
    def lock_provider(self) -> str:
        """`object`, `dynamodb:TABLE` or `postgresql`; never a connection string, even if someone wrote one into the table."""
        said = self.configuration.get(LOCK_PROVIDER, "")
        return said if _PROVIDER.fullmatch(said) else "object"

    @property
    def lock_timeout_s(self) -> float:
        """Seconds that a writer waits for a lease before it goes on without one."""
        return self._interval(LOCK_TIMEOUT, "interval 2 minutes") / 1000

    @property
    def lock_term_s(self) -> float:
        """Seconds without a renewal after which a lease may be taken over."""
        return self._interval(LOCK_TERM, "interval 10 seconds") / 1000

    @property
    def lock_key(self) -> str | None:
        """The column whose values `rowlock.lock = partition` divides into buckets, besides the partition columns."""
        return self.configuration.get(LOCK_KEY)
