"""What `delta.tables.DeltaTable` has and this version has not: every method is there, and refuses by its feature's name (I9)."""

from __future__ import annotations

from typing import Any, NoReturn

from rowlock.exceptions import UnsupportedFeature


def _refuse(feature: str, remedy: str = "use another engine on the same table") -> NoReturn:
    """Raises UnsupportedFeature for a feature that this version lacks."""
    raise UnsupportedFeature(f"This version of Rowlock has no {feature}: {remedy}", feature=feature, access="write")


class NotYet:
    """The methods of `delta.tables.DeltaTable` that are refused."""

    def clone(self, target: str, isShallow: bool = False, replace: bool = False, properties: dict[str, str] | None = None) -> Any:
        """Refused: this version makes no clones.  Runs no Spark job.

        Args:
            target: Where the clone would be.
            isShallow: Whether it would use the table's data files.
            replace: Whether it would replace a table that is there.
            properties: Properties that it would get.

        Returns:
            Nothing: it always raises.

        Raises:
            UnsupportedFeature: Always.

        Examples:
            >>> t.clone(folder + "/clone")
            Traceback (most recent call last):
            ...
            rowlock.exceptions.UnsupportedFeature: This version of Rowlock has no clones: use another engine on the same table
        """
        _refuse("clones")

    def cloneAtVersion(self, version: int, target: str, isShallow: bool = False, replace: bool = False, properties: dict[str, str] | None = None) -> Any:
        """Refused: this version makes no clones.  Runs no Spark job.

        Args:
            version: The version that would be cloned.
            target: Where the clone would be.
            isShallow: Whether it would use the table's data files.
            replace: Whether it would replace a table that is there.
            properties: Properties that it would get.

        Returns:
            Nothing: it always raises.

        Raises:
            UnsupportedFeature: Always.

        Examples:
            >>> t.cloneAtVersion(0, folder + "/clone")
            Traceback (most recent call last):
            ...
            rowlock.exceptions.UnsupportedFeature: This version of Rowlock has no clones: use another engine on the same table
        """
        _refuse("clones")

    def cloneAtTimestamp(self, timestamp: str, target: str, isShallow: bool = False, replace: bool = False, properties: dict[str, str] | None = None) -> Any:
        """Refused: this version makes no clones.  Runs no Spark job.

        Args:
            timestamp: The time of the version that would be cloned.
            target: Where the clone would be.
            isShallow: Whether it would use the table's data files.
            replace: Whether it would replace a table that is there.
            properties: Properties that it would get.

        Returns:
            Nothing: it always raises.

        Raises:
            UnsupportedFeature: Always.

        Examples:
            >>> t.cloneAtTimestamp("2026-01-31 12:00:00", folder + "/clone")
            Traceback (most recent call last):
            ...
            rowlock.exceptions.UnsupportedFeature: This version of Rowlock has no clones: use another engine on the same table
        """
        _refuse("clones")
