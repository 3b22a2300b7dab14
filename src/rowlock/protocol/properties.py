"""Table properties: typed access with defaults, and validation when they are set.

Owns the names and allowed values of `delta.*` and `rowlock.*`.  Unknown names with either prefix are refused;
other names are not checked.  Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, TypeVar, get_args

from rowlock.conditions import Condition, named
from rowlock.display import did_you_mean
from rowlock.exceptions import InvalidInput
from rowlock.protocol import delta_properties
from rowlock.protocol.delta_properties import FEATURE_PREFIX, bytes_of, interval_ms

T = TypeVar("T")
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

STATS_COLUMNS = "delta.dataSkippingStatsColumns"
GROUP_COMMIT, CHECKSUMS, ORDER = "rowlock.groupCommit", "rowlock.checksums", "rowlock.order"
LOCK_PROVIDER, LOCK_TIMEOUT, LOCK_TERM, LOCK_KEY = "rowlock.lockProvider", "rowlock.lockTimeout", "rowlock.lockTerm", "rowlock.lockKey"
_LOG_RETENTION, _FILE_RETENTION = "delta.logRetentionDuration", "delta.deletedFileRetentionDuration"
PROTECTION, _APPLICATIONS = "delta.requireCheckpointProtectionBeforeVersion", "delta.setTransactionRetentionDuration"
MANIFESTS = "delta.compatibility.symlinkFormatManifest.enabled"
TRUNCATION = "delta.dropFeatureTruncateHistory.retentionDuration"
_PROVIDER = re.compile(r"object|postgresql|dynamodb:[A-Za-z0-9_.\-]{3,255}")

DELTA_LEVELS: dict[Isolation, str] = {"serializable": "Serializable", "write_serializable": "WriteSerializable", "snapshot": "SnapshotIsolation"}
"""Delta's names of the isolation levels, for the property `delta.isolationLevel` and for commitInfo."""

LOCKLESS_ALONE = "lockless is a level of its own and cannot be combined with an isolation level (choose repair, rerun or fail for isolation)"

_WHOLE = re.compile(r"-?[0-9]{1,9}")
_COLUMNS = re.compile(r"(?:`(?:[^`]|``)*`|[^,`])+")
_FREE_PREFIXES = ("delta.constraints.",)
FEATURE_VALUES = ("supported", "enabled")
"""What a property `delta.feature.` can be, in any case; both mean the same."""


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
            text = f"property {name} = {shown!r} is not possible: {allowed}"
            raise InvalidInput(text, table=table, condition=_condition(name, str(value), text))


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
    if is_true(configuration, MANIFESTS):
        _check_manifests(configuration, table)
    if configuration.get("rowlock.onConflict") != "lockless":
        return
    if "rowlock.isolation" in configuration:
        text = f"rowlock.onConflict = 'lockless' and rowlock.isolation = {configuration['rowlock.isolation']!r} are not possible together: {LOCKLESS_ALONE}"
        raise InvalidInput(text, table=table)
    if not TableProperties(configuration).row_tracking:
        raise InvalidInput("rowlock.onConflict = 'lockless' needs delta.enableRowTracking = 'true' as well: it identifies rows by their row ids", table=table)


def _check_manifests(configuration: Mapping[str, str], table: str | None) -> None:
    """Raises InvalidInput for a table with manifests whose rows or columns readers of manifests would misread."""
    if is_true(configuration, "delta.enableDeletionVectors"):
        text = f"{MANIFESTS} and delta.enableDeletionVectors are not possible together: a manifest cannot say which rows of a file are deleted"
        raise InvalidInput(text, table=table, condition=no_manifests("PERSISTENT", table))
    if column_mapping_mode(configuration) != "none":
        text = f"{MANIFESTS} and delta.columnMapping.mode are not possible together: a manifest cannot say what columns are called"
        raise InvalidInput(text, table=table, condition=named("DELTA_UNSUPPORTED_MANIFEST_GENERATION_WITH_COLUMN_MAPPING"))


def no_manifests(which: Literal["PERSISTENT", "EXISTING"], table: str | None) -> Condition:
    """delta-spark's condition for deletion vectors that are possible (PERSISTENT) or present (EXISTING) on a table with manifests."""
    return named(f"DELTA_VIOLATE_TABLE_PROPERTY_VALIDATION_FAILED.{which}_DELETION_VECTORS_WITH_INCREMENTAL_MANIFEST_GENERATION", table=table or "")


def _condition(name: str, value: str, text: str) -> Condition | None:
    """delta-spark's condition for a property that cannot be set, with the message `text`; None for unknown properties without its prefix."""
    known = delta_properties.find(name)
    if name.lower().startswith(FEATURE_PREFIX):
        return named("DELTA_UNSUPPORTED_FEATURE_STATUS", feature=name, status=value)
    if known is not None and known.kind == "interval":
        return named("DELTA_INVALID_INTERVAL", interval=value)
    unknown = name.lower().startswith("delta.") and known is None
    if name == "delta.isolationLevel":
        return named("DELTA_INVALID_ISOLATION_LEVEL", isolationLevel=value)
    if known is not None:
        return named("UNSUPPORTED_TABLE_CHANGE", message=text)
    setting = "spark.databricks.delta.allowArbitraryProperties.enabled"
    return named("DELTA_UNKNOWN_CONFIGURATION", config=name, disableCheckConfig=setting) if unknown else None


def _problem(name: str, value: str) -> str | None:
    """Why a property cannot have this value, as a phrase for the error; None if it can."""
    lowered = name.lower()
    if lowered.startswith("rowlock."):
        if (problem := OWN.get(name)) is None:
            return f"there is no such property{did_you_mean(name, OWN)}; known are {', '.join(OWN)}"
        return problem(value)
    if lowered.startswith(FEATURE_PREFIX):
        return None if value.lower() in FEATURE_VALUES else f"allowed are {', '.join(FEATURE_VALUES)}"
    if not lowered.startswith("delta.") or lowered.startswith(_FREE_PREFIXES):
        return None
    return _delta_problem(name, value)


def _no_interval(value: str) -> str | None:
    try:
        return None if interval_ms(value) > 0 else _INTERVAL
    except ValueError:
        return _INTERVAL


def _none_of(allowed: Sequence[str]) -> Callable[[str], str | None]:
    return lambda value: None if value in allowed else f"allowed are {', '.join(allowed)}"


_INTERVAL = "an interval such as 'interval 30 seconds' is needed"
_PROVIDERS = "allowed are object, dynamodb:TABLE, postgresql; the connection string for PostgreSQL is taken from the environment (ROWLOCK_LOCK_DSN) and never written into a table"
OWN: dict[str, Callable[[str], str | None]] = {
    **{name: _none_of(values) for name, values in KNOBS.items()},
    GROUP_COMMIT: _none_of(("true", "false")),
    CHECKSUMS: _none_of(("true", "false")),
    LOCK_PROVIDER: lambda value: None if _PROVIDER.fullmatch(value) else _PROVIDERS,
    LOCK_TIMEOUT: _no_interval,
    LOCK_TERM: _no_interval,
    LOCK_KEY: lambda value: None if value.strip() else "the name of a column is needed",
    ORDER: lambda value: None if _WHOLE.fullmatch(value) else "a whole number is needed, such as -1",
}
"""Rowlock's properties, each with why it cannot have a value, as a phrase for the error; None if it can."""


def _delta_problem(name: str, value: str) -> str | None:
    known = delta_properties.find(name)
    if known is None:
        return f"Delta knows no property of this name{did_you_mean(name, delta_properties.DELTA_PROPERTIES)}"
    return known.problem(value)


def _readable(name: str, text: str | None, default: str) -> str:
    """The text of a property, or its default.  Raises InvalidInput for a value that cannot be read."""
    value = default if text is None else text
    if allowed := _delta_problem(name, value):
        raise InvalidInput(f"the table's property {name} = {value!r} cannot be read: {allowed}. Set it again, or unset it for the default, {default!r}")
    return value


class _Property(Generic[T]):
    """A property of a table by its name, as a value: what `read` makes of its text, or of None where it is not set."""

    def __init__(self, name: str, read: Callable[[str | None], T]) -> None:
        self._name, self._read = name, read

    def __get__(self, properties: TableProperties, owner: type) -> T:
        return self._read(properties.configuration.get(self._name))


def _boolean(name: str, default: bool = False) -> _Property[bool]:
    return _Property(name, lambda text: {"true": True, "false": False}.get((text or "").strip().lower(), default))


def _integer(name: str, default: int) -> _Property[int]:
    return _Property(name, lambda text: int(text) if text and text.strip() and _delta_problem(name, text.strip()) is None else default)


def _seconds(name: str, default: str) -> _Property[float]:
    return _Property(name, lambda text: interval_ms(default if text is None or _no_interval(text) else text) / 1000)


def _retention(name: str, default: str) -> _Property[int]:
    """In milliseconds.  Raises InvalidInput for a value that cannot be read: a wrong default would delete files for good."""
    return _Property(name, lambda text: interval_ms(_readable(name, text, default)))


def _knob(name: str) -> Any:
    """One of the values of KNOBS.  Raises InvalidInput for another."""

    def read(text: str | None) -> str:
        value = KNOBS[name][0] if text is None else text
        if value not in KNOBS[name]:
            raise InvalidInput(f"the table's property {name} = {value!r} is not supported: allowed are {', '.join(KNOBS[name])}")
        return value

    return _Property(name, read)


@dataclass(frozen=True, slots=True)
class TableProperties:
    """Typed access to table properties.

    A value that cannot be parsed, and a time of a lock that is not above 0, gives the default, since another engine may have
    written it; only a retention that cannot be parsed raises InvalidInput.
    """

    configuration: Mapping[str, str] = field(default_factory=dict, hash=False)

    row_tracking = _boolean("delta.enableRowTracking")
    shreds_variants = _boolean("delta.enableVariantShredding")
    type_widening = _boolean("delta.enableTypeWidening")
    in_commit_timestamps = _boolean("delta.enableInCommitTimestamps")
    append_only = _boolean("delta.appendOnly")
    """Whether rows must not be changed or deleted."""
    group_commit = _boolean(GROUP_COMMIT, True)
    """Whether appends that queue are committed as one version."""
    writes_checksums = _boolean(CHECKSUMS)
    """Whether a version checksum is written after each commit."""
    writes_manifests = _boolean(MANIFESTS)
    """Whether the manifests follow each commit."""
    optimizes_writes = _boolean("delta.autoOptimize.optimizeWrite")
    """Whether rows are shuffled before they are written."""
    _auto_optimizes = _boolean("delta.autoOptimize")
    _auto_compacts = _boolean("delta.autoOptimize.autoCompact")
    checkpoint_policy = _Property("delta.checkpointPolicy", lambda text: "v2" if (text or "").strip() == "v2" else "classic")
    """`v2`, or `classic`, which any other value means."""
    stats_as_json = _boolean("delta.checkpoint.writeStatsAsJson", True)
    """Whether checkpoints hold statistics as JSON; as structs else."""
    _stats_as_struct = _boolean("delta.checkpoint.writeStatsAsStruct")
    checkpoint_interval = _integer("delta.checkpointInterval", 10)
    """Commits between two checkpoints."""
    num_indexed_columns = _integer("delta.dataSkippingNumIndexedCols", 32)
    """How many leaf columns, from the first, have statistics; -1 means all."""
    stats_text_characters = _integer("delta.dataSkippingStringPrefixLength", 32)
    """How many characters of a text's bounds statistics hold."""
    target_file_bytes = _Property("delta.targetFileSize", lambda text: bytes_of(text or "") or 1 << 30)
    """The size in bytes that OPTIMIZE gives a file, given as a number or like `128mb`."""
    _prefix_length = _integer("delta.randomPrefixLength", 2)
    _random_prefixes = _boolean("delta.randomizeFilePrefixes")
    log_retention_ms = _retention(_LOG_RETENTION, "interval 30 days")
    """How long old commits are kept, in milliseconds."""
    truncated_retention_ms = _retention(TRUNCATION, "interval 24 hours")
    """How long commits are kept from DROP FEATURE ... TRUNCATE HISTORY, in milliseconds."""
    deleted_file_retention_ms = _retention(_FILE_RETENTION, "interval 1 week")
    """How long removed data files are kept for vacuum, in milliseconds."""
    cleans_log = _Property("delta.enableExpiredLogCleanup", lambda text: ("true" if text is None else text).strip().lower() == "true")
    """Whether commits and checkpoints older than the log retention are deleted; a value that is neither true nor false counts as false."""
    protected_before = _Property(PROTECTION, lambda text: int(_readable(PROTECTION, text, "0")))
    """The log before this version is cleaned up in one go or not at all; 0 if nothing is protected.  Raises InvalidInput for a value that is no whole number."""
    application_retention_ms = _Property(_APPLICATIONS, lambda text: None if text is None or _delta_problem(_APPLICATIONS, text) else interval_ms(text))
    """How long versions of applications are kept in checkpoints, in milliseconds; None: for ever, also for a value that cannot be read."""
    on_conflict: ClassVar[_Property[OnConflict]] = _knob("rowlock.onConflict")
    """What happens to a transaction that conflicts with winners."""
    _isolation: ClassVar[_Property[Isolation]] = _knob("rowlock.isolation")
    granularity: ClassVar[_Property[Granularity]] = _knob("rowlock.granularity")
    """Whether rows or files conflict."""
    lock: ClassVar[_Property[Lock]] = _knob("rowlock.lock")
    """What a writer takes a lease on."""
    lock_provider = _Property(LOCK_PROVIDER, lambda text: text if text is not None and _PROVIDER.fullmatch(text) else "object")
    """`object`, `dynamodb:TABLE` or `postgresql`; never a connection string, even if someone wrote one into the table."""
    lock_timeout_s = _seconds(LOCK_TIMEOUT, "interval 2 minutes")
    """Seconds that a writer waits for a lease before it goes on without one."""
    lock_term_s = _seconds(LOCK_TERM, "interval 10 seconds")
    """Seconds without a renewal after which a lease may be taken over."""
    lock_key = _Property(LOCK_KEY, lambda text: text)
    """The column whose values `rowlock.lock = partition` divides into buckets, besides the partition columns."""
    order = _Property(ORDER, lambda text: int(text) if text is not None and _WHOLE.fullmatch(text) else 0)
    """The table's place among those of a transaction over several tables: the least, by this and then by id, is its home."""

    @property
    def stats_columns(self) -> tuple[str, ...] | None:
        """The columns that have statistics if the table lists them by name (as spelled there, see `column_path`); they override `num_indexed_columns`."""
        value = self.configuration.get(STATS_COLUMNS)
        return None if value is None else tuple(part.strip() for part in _COLUMNS.findall(value) if part.strip())

    @property
    def auto_compacts(self) -> bool:
        """`delta.autoOptimize.autoCompact`, or its former name: whether small files are compacted after a commit of rows."""
        return self._auto_optimizes or self._auto_compacts

    @property
    def stats_as_struct(self) -> bool:
        """Whether checkpoints hold statistics as structs: beside JSON, or instead of it."""
        return self._stats_as_struct or not self.stats_as_json

    @property
    def random_prefix_length(self) -> int | None:
        """How many characters the random folders of new data files have; None where they lie in those of their partitions."""
        return self._prefix_length if self._random_prefixes else None

    @property
    def isolation(self) -> Isolation:
        """The isolation level: `rowlock.isolation`, or Delta's own `delta.isolationLevel` if that is not set."""
        if "rowlock.isolation" not in self.configuration:
            theirs = self.configuration.get("delta.isolationLevel", "").strip().lower()
            return next((level for level, name in DELTA_LEVELS.items() if name.lower() == theirs), "serializable")
        return self._isolation
