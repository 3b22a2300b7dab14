"""What `delta.tables.DeltaTable` has and this version has not: every method is there, and refuses by its feature's name (I9)."""

from __future__ import annotations

from typing import Any, NoReturn

from rowlock.exceptions import UnsupportedFeature


def _refuse(feature: str, remedy: str = "use another engine on the same table") -> NoReturn:
    raise UnsupportedFeature(f"This version of Rowlock has no {feature}: {remedy}", feature=feature, access="write")


class NotYet:
    """The methods of `delta.tables.DeltaTable` that are refused."""

    @classmethod
    def convertToDelta(cls, sparkSession: Any, identifier: str, partitionSchema: Any = None) -> Any:
        _refuse("conversion of Parquet folders", "read the folder and write it with rowlock.write")

    def generate(self, mode: str) -> None:
        _refuse("manifests")

    def upgradeTableProtocol(self, readerVersion: int, writerVersion: int) -> None:
        _refuse("protocol upgrades")

    def addFeatureSupport(self, featureName: str) -> None:
        _refuse("protocol upgrades")

    def dropFeatureSupport(self, featureName: str, truncateHistory: bool | None = None) -> None:
        _refuse("protocol downgrades")

    def clone(self, target: str, isShallow: bool = False, replace: bool = False, properties: dict[str, str] | None = None) -> Any:
        _refuse("clones")

    def cloneAtVersion(self, version: int, target: str, isShallow: bool = False, replace: bool = False, properties: dict[str, str] | None = None) -> Any:
        _refuse("clones")

    def cloneAtTimestamp(self, timestamp: str, target: str, isShallow: bool = False, replace: bool = False, properties: dict[str, str] | None = None) -> Any:
        _refuse("clones")
