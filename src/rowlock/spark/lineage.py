"""What a DataFrame reads of a table, found in its plan: a source that reads the target is validated, any other is pinned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from rowlock.spark.catalyst import JavaObject, class_name
from rowlock.spark.plane import Plane
from rowlock.spark.scan import VERSION_OPTION


def versions_read(plane: Plane, frame: DataFrame, newest: int) -> tuple[int, ...]:
    """The versions of the plane's table that a frame's rows come from; empty where they come from elsewhere.

    `newest` stands for the version of a scan of the table's files that does not say which one it reads.  delta-spark's
    frames read the version that is the newest when they run: ask before and after.
    """
    root = plane.root if plane.store.is_remote else f"file:{plane.root}"  # a Hadoop path as text is not encoded
    return tuple(sorted({_version(relation, newest) for relation in _relations(plane, frame._jdf.queryExecution().analyzed()) if _is_below(relation, root)}))


def _relations(plane: Plane, plan: JavaObject) -> Iterator[JavaObject]:
    for part in [plan, *plane.bridge.list(plan.subqueriesAll())]:
        for leaf in plane.bridge.list(part.collectLeaves()):
            if class_name(leaf) == "LogicalRelation" and _is_of_files(plane, leaf.relation()):
                yield leaf.relation()


def _is_of_files(plane: Plane, relation: JavaObject) -> bool:
    """Whether it is a HadoopFsRelation, or a nameless kind of one, as delta-spark's is."""
    return plane.bridge.is_a(relation, "org.apache.spark.sql.execution.datasources.HadoopFsRelation")


def _is_below(relation: JavaObject, root: str) -> bool:
    places = str(relation.location().rootPaths().mkString("\n")).split("\n")
    return any(p == root or p.startswith(f"{root}/") for p in (_one_slash(p) for p in places))


def _one_slash(place: str) -> str:
    """One spelling of a place: `file:/a`, and s3a for all of S3."""
    if place.startswith(("s3://", "s3n://")):
        return "s3a://" + place.partition("://")[2]
    return "file:/" + place[5:].lstrip("/") if place.startswith("file:") else place


def _version(relation: JavaObject, newest: int) -> int:
    said: Any = relation.options().get(VERSION_OPTION)
    if said.isDefined():
        return int(said.get())
    try:
        return int(relation.location().version())  # delta-spark's file index
    except Exception:  # noqa: BLE001 - a folder that is read as plain files has no version
        return newest
