"""`rowlock.changes`: the change data feed of a table as a DataFrame."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

from rowlock import arguments
from rowlock.api.connect import check_classic
from rowlock.api.handle import Handle
from rowlock.api.schema_compatibility import unreadable
from rowlock.conditions import named
from rowlock.conflict import change_feed
from rowlock.conflict.change_feed import changed_rows, refuse_its_columns
from rowlock.engines.spark.catalyst.types import DataFrame, SparkSession
from rowlock.exceptions import InvalidInput, VersionNotFound, WrongType
from rowlock.log.snapshot import Snapshot
from rowlock.log.table_log import outside_the_log
from rowlock.protocol import column_mapping
from rowlock.protocol.actions import Commit, Metadata

Bound = int | str | datetime.datetime
"""A version, or a time: text that Spark can cast to a timestamp, or a datetime."""
_SCHEMA_MODE = "spark.databricks.delta.changeDataFeed.defaultSchemaModeForColumnMappingTable"


def changes(spark: SparkSession, path: str, start: Bound, end: Bound | None = None, *, storage_options: Mapping[str, str] | None = None) -> DataFrame:
    """The rows that were inserted, updated and deleted between two versions or times, from a table's change data feed, whichever engine wrote it.

    The table's property `delta.enableChangeDataFeed` must have been true all the while.  The log is read now, on the driver; the rows are read
    by Spark jobs when the DataFrame is used.

    Args:
        spark: A classic SparkSession (not Spark Connect).
        path: A local path or a URL, as `DeltaTable.forPath` takes it.
        start: The first version, 0 or more; or a time, from which on: text that Spark can cast to a timestamp, or a datetime.
        end: The last version, the newest where it lies after that; or a time, up to which; None is the newest version.
        storage_options: How to reach a cloud, as in `DeltaTable.forPath`.

    Returns:
        A DataFrame with the table's columns and `_change_type` (insert, update_preimage, update_postimage or delete), `_commit_version` and
        `_commit_timestamp`.  It stays as it is, however the table goes on.

    Raises:
        TableNotFound: There is no Delta table at the path.
        VersionNotFound: The log does not hold the first version any more, or not yet; the end is a time after the newest commit.
        InvalidInput: The feed was off at one of the versions; the end lies before the start; the columns at one of the versions are others than those
            that are read; text that is no time.
        UnsupportedFeature: The table needs a feature that this version cannot read.
        CorruptLog: The table's log is damaged.

    Examples:
        >>> t.setProperties({"delta.enableChangeDataFeed": "true"})
        >>> t.update("id = 1", {"amount": "0"})
        >>> rowlock.changes(spark, path, start=2).select("id", "amount", "_change_type", "_commit_version").orderBy("_change_type").show()
        +---+------+----------------+---------------+
        | id|amount|    _change_type|_commit_version|
        +---+------+----------------+---------------+
        |  1|   0.0|update_postimage|              2|
        |  1|  10.0| update_preimage|              2|
        +---+------+----------------+---------------+
        <BLANKLINE>
    """
    check_classic(spark, "rowlock.changes")
    handle = Handle(spark, path, storage_options=storage_options)
    handle.session.settings().check("feed")
    newest = handle.state.refresh()
    times = dict(handle.state.log.commit_times(newest))
    first = _first(handle, start, times, newest)
    last = newest.version if end is None else _last(handle, end, times, newest)
    if first > newest.version or (last < first and _in_order(handle, start, end)):  # the session's setting allows it, or no commit lies between two times
        return handle.planner.changes(newest, [], times)
    if last < first:
        text = f"The changes end with version {last}, before they start, with version {first}: give an end that is not before the start"
        raise InvalidInput(text, table=path, condition=named("DELTA_INVALID_CDC_RANGE", start=first, end=last))
    commits = handle.state.log.commits(first - 1, last)
    shown = handle.state.log.at(last) if column_mapping.is_mapped(newest.metadata.configuration) and last < newest.version else newest
    if commits and writes_columns_anew(commits[0]) and first > min(times) and (what := unreadable(handle.state.log.at(first - 1).metadata, shown)):
        text = f"Version {first} removes rows of version {first - 1}, which {what}: its changes cannot be shown. Start with version {first + 1}"
        raise InvalidInput(text, table=path, version=first)
    _check_readable(handle.state.log.at(first), commits, shown)
    changed = [piece for commit in commits for piece in changed_rows(commit, handle.state.vectors.of, handle.path)]
    return handle.planner.changes(shown, changed, times)


def writes_columns_anew(commit: Commit) -> bool:
    """Whether a commit that may change the columns also removes rows that were written under those of before: not where RESTORE puts a file back with fewer deleted rows."""
    back = {a.path for a in commit.adds}
    return commit.metadata is not None and not commit.cdc and any(r.data_change and r.path not in back for r in commit.removes)


def _in_order(handle: Handle, start: Bound, end: Bound | None) -> bool:
    """Whether both bounds are times, the end not before the start."""
    if _version(start, "start") is not None or end is None or _version(end, "end") is not None:
        return False
    first, last = map(handle.time_ms, (start, end))
    return first <= last


def first_version(handle: Handle, start: Bound) -> int:
    """The first version that a version's number or a time asks for.  It is the one after the newest where the session's setting allows to start later.  Raises VersionNotFound where the log does not hold it, InvalidInput, WrongType."""
    return _first(handle, start, dict(handle.state.log.commit_times(newest := handle.state.refresh())), newest, of_stream=True)


def _first(handle: Handle, start: Bound, times: Mapping[int, int], newest: Snapshot, *, of_stream: bool = False) -> int:
    """The version that the changes start with."""
    version = _version(start, "start")
    if version is None:
        at = handle.time_ms(start)
        version = next((v for v, t in times.items() if t >= at), None)
        if version is None and _may_lie_later(handle):
            return newest.version + 1
        if version is None:
            raise outside_the_log(at, list(times.items()), handle.session.zone, handle.path)
    if version > newest.version and _may_lie_later(handle):
        return newest.version + 1
    gone = named("DELTA_VERSION_NOT_FOUND", userVersion=version, earliest=min(times), latest=newest.version)
    if version > newest.version:
        later = named("DELTA_CDC_START_VERSION_AFTER_LATEST", start=version, latest=newest.version)
        found = gone if of_stream else later
        raise VersionNotFound(f"There is no version {version} yet: the newest is {newest.version}", table=handle.path, version=version, condition=found)
    if version not in times:
        raise VersionNotFound(f"The log no longer contains version {version}; its oldest is {min(times)}", table=handle.path, version=version, condition=gone)
    return version


def _may_lie_later(handle: Handle) -> bool:
    """Whether the session's setting allows to start after the newest version, which gives no changes, and to end after the newest commit's time."""
    return handle.session.settings().flag("changeDataFeed.timestampOutOfRange.enabled")


def _last(handle: Handle, end: Bound, times: Mapping[int, int], newest: Snapshot) -> int:
    """The version that the changes end with: the newest where a later one is asked for.  Raises VersionNotFound for a time after it, as delta-spark does."""
    version = _version(end, "end")
    if version is not None:
        return min(version, newest.version)
    at = handle.time_ms(end)
    found = [v for v, t in times.items() if t <= at]
    if not found or (at > max(times.values()) and not _may_lie_later(handle)):
        raise outside_the_log(at, list(times.items()), handle.session.zone, handle.path)
    return found[-1]


def _version(bound: Bound, name: str) -> int | None:
    """A bound as a version; None for a time.  Raises WrongType."""
    if isinstance(bound, (str, datetime.datetime)):
        return None
    if isinstance(bound, bool) or not isinstance(bound, int):
        raise WrongType(f"{name} must be a version (an int) or a time (a str or a datetime), not {type(bound).__name__}")
    return arguments.number(bound, name)


def not_recorded(version: int, first: int, last: int, table: str) -> InvalidInput:
    """The error of a version between two others at which the feed was off."""
    text = f"No change data feed was recorded for version {version}: {change_feed.ENABLED} was not true then. Start with a later version"
    condition = named("DELTA_MISSING_CHANGE_DATA", startVersion=first, endVersion=last, version=version, key=change_feed.ENABLED)
    return InvalidInput(text, table=table, version=version, condition=condition)


def _check_readable(first: Snapshot, commits: Sequence[Commit], shown: Snapshot) -> None:
    """Raises InvalidInput where the feed was off at a version, or columns were others than those of `shown`."""
    refuse_its_columns(shown)
    protocol, metadata = first.protocol, first.metadata
    defined: list[tuple[int, Metadata]] = []
    for commit in commits:
        protocol = commit.protocol or protocol
        metadata = (commit.metadata or metadata) if commit.version > first.version else metadata
        if defined and metadata == defined[-1][1]:
            continue
        if not change_feed.is_enabled(protocol, metadata):
            raise not_recorded(commit.version, commits[0].version, commits[-1].version, shown.table)
        defined.append((commit.version, metadata))
    for version, metadata in (*defined[1:], *defined[:1]):  # as delta-spark has it, a change of the columns is named before those at the start
        if what := unreadable(metadata, shown):
            change, data = "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE", "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_DATA_SCHEMA"
            at_start = version == commits[0].version
            raise InvalidInput(
                f"Version {version} {what}, so its changes cannot be shown with those of version {shown.version}: read the versions before and after apart",
                table=shown.table,
                version=version,
                condition=named(
                    data if at_start else change,
                    start=commits[0].version,
                    end=commits[-1].version,
                    readSchema=shown.metadata.schema_string,
                    readVersion=shown.version,
                    incompatibleVersion=version,
                    **({"config": _SCHEMA_MODE} if at_start else {}),
                ),
            )
