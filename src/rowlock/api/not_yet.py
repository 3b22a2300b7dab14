"""What `delta.tables.DeltaTable` has and this version has not: every method is there, and refuses by its feature's name (I9)."""

from __future__ import annotations

from typing import Any, NoReturn

from rowlock.exceptions import UnsupportedFeature


def _refuse(feature: str, remedy: str = "use another engine on the same table") -> NoReturn:
    raise UnsupportedFeature(f"This version of Rowlock has no {feature}: {remedy}", feature=feature, access="write")


class NotYet:
    """The methods of `delta.tables.DeltaTable` that are refused."""

    def clone(self, target: str, isShallow: bool = False, replace: bool = False, properties: dict[str, str] | None = None) -> Any:
        _refuse("clones")

    def cloneAtVersion(self, version: int, target: str, isShallow: bool = False, replace: bool = False, properties: dict[str, str] | None = None) -> Any:
        _refuse("clones")

    def cloneAtTimestamp(self, timestamp: str, target: str, isShallow: bool = False, replace: bool = False, properties: dict[str, str] | None = None) -> Any:
        _refuse("clones")
