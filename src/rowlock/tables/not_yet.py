"""What `delta.tables.DeltaTable` has and this version has not: every method is there, and refuses by its feature's name (I9)."""

from __future__ import annotations

from typing import Any, NoReturn

from rowlock.exceptions import UnsupportedFeature


def _refuse(feature: str, remedy: str = "use another engine on the same table") -> NoReturn:
    raise UnsupportedFeature(f"This version of Rowlock has no {feature}: {remedy}", feature=feature, access="write")


class NotYet:
    """The methods of `delta.tables.DeltaTable` that are refused."""

    def vacuum(self, retentionHours: float | None = None) -> Any:
        _refuse("vacuum")

    def restoreToVersion(self, version: int) -> Any:
        _refuse("restore", "rowlock.write(rowlock.read(spark, path, version=n), path, mode='overwrite') gives the same rows")

    def restoreToTimestamp(self, timestamp: str) -> Any:
        _refuse("restore", "rowlock.write(rowlock.read(spark, path, timestamp=t), path, mode='overwrite') gives the same rows")

    def clone(self, target: str, isShallow: bool = False, replace: bool = False, properties: dict[str, str] | None = None) -> Any:
        _refuse("clones")

    def cloneAtVersion(self, version: int, target: str, isShallow: bool = False, replace: bool = False, properties: dict[str, str] | None = None) -> Any:
        _refuse("clones")

    def cloneAtTimestamp(self, timestamp: str, target: str, isShallow: bool = False, replace: bool = False, properties: dict[str, str] | None = None) -> Any:
        _refuse("clones")
