"""Reads by options: `spark.read.format("delta").option(...)`, `spark.read.option(...).table(name)` and the function `table_changes`."""

from __future__ import annotations

import contextlib
import datetime
import re
from collections.abc import Iterator, Mapping

from rowlock.api import frames
from rowlock.api.change_feed import Bound, changes
from rowlock.api.frames import following
from rowlock.conditions import Condition, named
from rowlock.display import did_you_mean
from rowlock.engines.spark.catalyst.types import DataFrame, SparkSession
from rowlock.engines.spark.sql.nodes import marked
from rowlock.engines.spark.sql.relations import Named
from rowlock.engines.spark.sql.session import is_enabled
from rowlock.exceptions import InvalidInput, PathNotFound, TableNotFound, UnsupportedFeature
from rowlock.storage.open import open_store

_VERSION_IN_PATH = re.compile(r"(.+)@v(\d+)\Z")
_VERSION, _TIME = "versionasof", "timestampasof"
_FEED = ("readchangefeed", "readchangedata")
_BOUNDS = ("startingversion", "endingversion", "startingtimestamp", "endingtimestamp")
_NO_EFFECT = frozenset(("path", "serialization.format"))
_SPELLED = ("versionAsOf", "timestampAsOf", "readChangeFeed", "startingVersion", "endingVersion", "startingTimestamp", "endingTimestamp")
_KNOWN = frozenset((*_NO_EFFECT, _VERSION, _TIME, *_FEED, *_BOUNDS))


def frame_of(spark: SparkSession, path: str, options: Mapping[str, str]) -> DataFrame:
    """The rows that options of a DataFrameReader ask for; their names are in small letters.

    Raises UnsupportedFeature for an option without effect, PathNotFound (an AnalysisException, as delta-spark raises) where there is no table.
    """
    try:
        return _frame(spark, path, options)
    except TableNotFound as e:
        raise path_not_found(path) from e


def _frame(spark: SparkSession, path: str, options: Mapping[str, str]) -> DataFrame:
    if unknown := sorted(set(options) - _KNOWN):
        raise UnsupportedFeature(
            f"The option {unknown[0]} of a read is refused: this version of Rowlock does nothing with it{did_you_mean(unknown[0], _SPELLED)}. It knows versionAsOf, timestampAsOf, readChangeFeed and "
            "its bounds (startingVersion, endingVersion, startingTimestamp, endingTimestamp)",
            feature=f"option {unknown[0]}",
            access="read",
            table=path,
        )
    version, timestamp = options.get(_VERSION), options.get(_TIME)
    if not any(options.get(name, "").lower() == "true" for name in _FEED):
        if said := next((name for name in _BOUNDS if name in options), None):
            raise InvalidInput(f"The option {said} goes with readChangeFeed=true, which is not set", table=path)
        return _read(spark, path, None if version is None else _number(version, "versionAsOf", path), timestamp)
    if version is not None or timestamp is not None:
        raise InvalidInput("readChangeFeed does not go with versionAsOf or timestampAsOf: use startingVersion and endingVersion", table=path)
    start = _bound(options, "starting", path)
    if start is None:
        raise InvalidInput("readChangeFeed needs startingVersion or startingTimestamp", table=path, condition=named("DELTA_NO_START_FOR_CDC_READ"))
    return changes(spark, path, start, _bound(options, "ending", path))


def frame_of_named(spark: SparkSession, found: Named) -> DataFrame:
    """The rows of a table that a query names: as it is, at a version or a time, or its changes."""
    if found.options:
        if found.version is not None or found.timestamp is not None:
            raise InvalidInput("Options do not go with VERSION AS OF or TIMESTAMP AS OF: leave one of them out", table=found.path)
        return frame_of(spark, found.path, found.options)
    if found.changes:
        try:
            return changes(spark, found.path, *found.changes)
        except TableNotFound as e:
            raise path_not_found(found.path, named("DELTA_MISSING_DELTA_TABLE", tableName=f"`{found.path}`")) from e
    return _read(spark, found.path, found.version, found.timestamp)


def _read(spark: SparkSession, path: str, version: int | None, timestamp: str | datetime.datetime | None) -> DataFrame:
    """The rows of a table, of a version where the path ends with one (`/lake/sales@v3`) and is no table itself."""
    read = following if is_enabled(spark) else frames.read
    try:
        frame = read(spark, path, version, timestamp)
        return marked(frame, path) if version is None and timestamp is None else frame
    except TableNotFound:
        found = _VERSION_IN_PATH.match(path)
        if found is None or version is not None or timestamp is not None:
            raise
        return read(spark, found[1], int(found[2]))


def _bound(options: Mapping[str, str], name: str, path: str) -> Bound | None:
    """The version or the time with which the changes start or end."""
    version, timestamp = options.get(f"{name}version"), options.get(f"{name}timestamp")
    if version is not None and timestamp is not None:
        raise InvalidInput(f"Give {name}Version or {name}Timestamp, not both", table=path)
    return timestamp if version is None else _number(version, f"{name}Version", path)


def _number(text: str, name: str, path: str) -> int:
    if not text.removeprefix("-").isdecimal():
        condition = (
            named("DELTA_TIME_TRAVEL_INVALID_BEGIN_VALUE", timeTravelKey=name)
            if name == "versionAsOf"
            else named("DELTA_ILLEGAL_OPTION", input=text, name=name, explain="must be a version")
        )
        raise InvalidInput(f"{name} is a number, not {text!r}", table=path, condition=condition)
    return int(text)


def path_not_found(path: str, condition: Condition | None = None) -> PathNotFound:
    """The error for a path that is no table's, for which a read has one condition where there is nothing and another where there is something else."""
    if condition is None:
        there = next(iter(open_store(path).list(recursive=True, limit=1)), None) is not None
        condition = named("DELTA_TABLE_NOT_FOUND", tableName=f"`{path}`") if there else named("PATH_NOT_FOUND", path=path)
    return PathNotFound(f"{path} is not a Delta table: correct the path, or make the table", table=path, condition=condition)


_OF_ROWS = frozenset(("UpdateTable", "DeleteFromTable", "MergeIntoTable", "InsertIntoStatement", "AppendData"))


@contextlib.contextmanager
def no_table_is_no_path(statement: str = "UpdateTable") -> Iterator[None]:
    """A block in which a table that is not there is a path that is not there: so it is for statements on rows, and not for ALTER TABLE and OPTIMIZE."""
    try:
        yield
    except TableNotFound as e:
        if statement not in _OF_ROWS or e.table is None or e.condition is None or e.condition.name != "DELTA_MISSING_DELTA_TABLE":
            raise
        raise path_not_found(e.table) from e
