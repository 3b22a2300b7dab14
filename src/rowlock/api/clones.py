"""Shallow clones of a table, at a path or under a name in the catalog."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Self

from rowlock import arguments
from rowlock.api.handle import Handle, Receipts
from rowlock.api.placement import Place, place_of
from rowlock.conditions import named
from rowlock.engines.appends.engine import ArrowEngine
from rowlock.engines.spark.frames.arguments import milliseconds, session_zone
from rowlock.exceptions import TableExists, UnsupportedFeature
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.paths import is_absolute, location
from rowlock.transaction.definition.clone import shallow_clone
from rowlock.transaction.state.versions import snapshot_of


def clone_name(source: Handle) -> str:
    """What the history of a clone calls its source."""
    return source.name or f"delta.`{location(source.path)}`"


def clone_to(place: Place, source: Snapshot, *, name: str, replaces: bool, properties: Mapping[str, str], receipts: Receipts) -> None:
    """Makes the clone and gives it its name.  Raises what `Place.check` and `shallow_clone` raise."""
    if not replaces and (place.listed or place.has_log):
        there = named("DELTA_TABLE_ALREADY_EXISTS", tableName=str(place.name)) if place.listed else None
        raise TableExists("There is a table already: a clone makes a new one; name another place", table=place.handle.path, condition=there)
    place.check("createOrReplace" if replaces else "create")
    count = ArrowEngine(place.handle.state.store).count
    with place.handle.commits("clone"):
        receipts.last = shallow_clone(source, place.handle.state, properties, name=name, replaces=replaces, count=count)
    place.register()


class Clones:
    """The methods of a table that make clones of it."""

    _handle: Handle
    _receipts: Receipts

    def __init__(self, handle: Handle, *, alias: str | None = None, receipts: Receipts | None = None) -> None:
        """As DeltaTable has it: a clone is one, too."""

    def clone(self, target: str, isShallow: bool = False, replace: bool = False, properties: dict[str, str] | None = None) -> Self:
        """Makes a table that begins as a shallow clone of this one's newest version: it uses the data files that are there, and copies none.

        From then on both are tables of their own; what one commits the other never sees, and nothing is written into this table's folder.  Files that
        VACUUM deletes here are gone for the clone as well.  Runs no Spark job.

        Args:
            target: Where the clone is to be: a whole path, a URI, or a name in the catalog.
            isShallow: True; deep clones, which copy data files, are refused by name.
            replace: Whether an empty table that is there may be replaced.
            properties: Table properties that the clone gets beside this table's, or in their place.

        Returns:
            The clone, as a DeltaTable.

        Raises:
            UnsupportedFeature: `isShallow` is False, or the table has a feature that this version cannot write.
            TableExists: There is a table at the target already.
            StatementRefused: The table to be replaced has rows.
            InvalidInput: A property is not allowed, or one of the tables would lie in the other's folder.
            WrongType: An argument is of another type.

        Examples:
            >>> c = t.clone(folder + "/clone", isShallow=True)
            >>> c.delete()
            >>> c.toDF().count(), t.toDF().count()
            (0, 3)
        """
        return self._cloned(None, None, target, isShallow, replace, properties)

    def cloneAtVersion(self, version: int, target: str, isShallow: bool = False, replace: bool = False, properties: dict[str, str] | None = None) -> Self:
        """Makes a shallow clone of an older version, as `clone` does of the newest.  Runs no Spark job.

        Args:
            version: The version to clone, 0 or more.
            target: Where the clone is to be.
            isShallow: True; deep clones are refused by name.
            replace: Whether an empty table that is there may be replaced.
            properties: Table properties that the clone gets beside this table's.

        Returns:
            The clone, as a DeltaTable.

        Raises:
            VersionNotFound: The log does not hold the version.
            UnsupportedFeature: `isShallow` is False, or the table has a feature that this version cannot write.
            TableExists: There is a table at the target already.
            WrongType: An argument is of another type.

        Examples:
            >>> t.delete()
            >>> t.cloneAtVersion(0, folder + "/clone", isShallow=True).toDF().count()
            3
        """
        return self._cloned(arguments.number(version, "version"), None, target, isShallow, replace, properties)

    def cloneAtTimestamp(
        self, timestamp: str | datetime.datetime, target: str, isShallow: bool = False, replace: bool = False, properties: dict[str, str] | None = None
    ) -> Self:
        """Makes a shallow clone of the version that was the newest at a time, as `clone` does of the newest of all.  Runs no Spark job.

        Args:
            timestamp: The time, as for `restoreToTimestamp`.
            target: Where the clone is to be.
            isShallow: True; deep clones are refused by name.
            replace: Whether an empty table that is there may be replaced.
            properties: Table properties that the clone gets beside this table's.

        Returns:
            The clone, as a DeltaTable.

        Raises:
            InvalidInput: The text is no time.
            VersionNotFound: The log does not reach to that time.
            UnsupportedFeature: `isShallow` is False, or the table has a feature that this version cannot write.
            TableExists: There is a table at the target already.
            WrongType: An argument is of another type.

        Examples:
            >>> written_at = t.history().first()["timestamp"]
            >>> t.cloneAtTimestamp(written_at, folder + "/clone", isShallow=True).toDF().count()
            3
        """
        if not isinstance(timestamp, datetime.datetime):
            arguments.text(timestamp, "timestamp")
        return self._cloned(None, timestamp, target, isShallow, replace, properties)

    def _cloned(
        self, version: int | None, timestamp: str | datetime.datetime | None, target: str, shallow: bool, replace: bool, properties: dict[str, str] | None
    ) -> Self:
        where = arguments.text(target, "target")
        if not arguments.flag(shallow, "isShallow"):
            raise UnsupportedFeature(
                "This version of Rowlock has no deep clones: use isShallow=True, or copy the rows with rowlock.write", feature="deep clones", access="write"
            )
        replaces, given = arguments.flag(replace, "replace"), arguments.properties(properties, "properties")
        state, spark = self._handle.state, self._handle.spark
        source = snapshot_of(state, version, None if timestamp is None else milliseconds(spark, timestamp, self._handle.path), session_zone(spark))
        place = place_of(spark, None, where) if is_absolute(where) else place_of(spark, where, None)
        made = type(self)(place.handle)
        clone_to(place, source, name=clone_name(self._handle), replaces=replaces, properties=given, receipts=made._receipts)
        return made
