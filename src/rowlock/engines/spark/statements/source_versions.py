"""Finds in the plan of a DataFrame which versions of the target table it reads: such a source is validated at commit, any other is pinned."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame

from rowlock.engines.spark.catalyst.bridge import JavaObject, class_name
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.read.scan import FIXED_OPTION, VERSION_OPTION
from rowlock.protocol import paths

_FILE = re.compile(r"path: (.*?), range: ")
"""One file in the text form of a FileScanRDD's partition, with its URI percent-encoded."""


def versions_read(evaluator: Evaluator, frame: DataFrame, newest: int) -> tuple[int, ...]:
    """The versions of the evaluator's table that a DataFrame reads; empty where it does not read the table, or versions that the caller named.

    `newest` is given for a scan of the table's files that does not say which version it reads.  delta-spark's DataFrames
    read the version that is newest when they run: call this before and after.
    """
    is_below = _below(evaluator)
    found: set[int] = set()
    for leaf in _leaves(evaluator, frame._jdf.queryExecution().analyzed()):
        kind = class_name(leaf)
        if kind in ("LogicalRelation", "FileSourceScanExec") and _is_of_files(evaluator, leaf.relation()):
            places = str(leaf.relation().location().rootPaths().mkString("\n")).split("\n")  # a Hadoop path as text is not encoded
            if not leaf.relation().options().contains(FIXED_OPTION) and any(map(is_below, places)):
                found.add(_version(leaf.relation(), newest))
        elif kind == "LogicalRDD" and any(map(is_below, _files_of(evaluator, leaf.rdd()))):
            found.add(newest)
    return tuple(sorted(found))


def _leaves(evaluator: Evaluator, plan: JavaObject) -> Iterator[JavaObject]:
    """The leaf nodes of a plan and of its subqueries, and those of the plan by which cached rows were computed."""
    for part in [plan, *evaluator.bridge.list(plan.subqueriesAll())]:
        for leaf in evaluator.bridge.list(part.collectLeaves()):
            yield from _cached_scans(evaluator, leaf.cacheBuilder().cachedPlan()) if class_name(leaf) == "InMemoryRelation" else [leaf]


def _cached_scans(evaluator: Evaluator, plan: JavaObject) -> list[JavaObject]:
    """The leaf nodes of the physical plan of cached rows."""
    adaptive = class_name(plan) == "AdaptiveSparkPlanExec"
    return evaluator.bridge.list((plan.initialPlan() if adaptive else plan).collectLeaves())


def _files_of(evaluator: Evaluator, rdd: JavaObject) -> Iterator[str]:
    """The paths of the data files that an RDD reads, through all its dependencies; a checkpoint cuts these off."""
    waiting, seen = [rdd], set[int]()
    jvm: Any = evaluator.spark._jvm
    while waiting:
        rdd = waiting.pop()
        if (number := int(rdd.id())) in seen:
            continue
        seen.add(number)
        if class_name(rdd) == "FileScanRDD":
            for part in evaluator.bridge.list(rdd.filePartitions()):
                yield from map(unquote, _FILE.findall(str(jvm.scala.runtime.ScalaRunTime.stringOf(part.files()))))
        waiting += [dependency.rdd() for dependency in evaluator.bridge.list(rdd.dependencies())]


def _is_of_files(evaluator: Evaluator, relation: JavaObject) -> bool:
    """Whether a relation reads files: a HadoopFsRelation, or an anonymous subclass of it, as delta-spark's is."""
    return evaluator.bridge.is_a(relation, "org.apache.spark.sql.execution.datasources.HadoopFsRelation")


def _below(evaluator: Evaluator) -> Callable[[str], bool]:
    """A function that tells whether a path lies in the table's folder, whatever its spelling and through symbolic links."""
    real = functools.cache(os.path.realpath)

    def one(place: str) -> str:
        place = paths.canonical(place)
        if not place.startswith("/"):
            return place
        folder, _, name = place.rpartition("/")
        return f"{real(folder or '/')}/{name}"  # data files are no links, and many share a folder, which is resolved once

    roots = {one(paths.canonical(evaluator.root)), paths.canonical(evaluator.root) if evaluator.store.is_remote else os.path.realpath(evaluator.root)}

    def is_below(place: str) -> bool:
        spelled = one(place)
        if spelled.startswith("/") and Path(spelled).is_symlink():  # a link to a folder that is read as a whole
            spelled = real(spelled)
        return any(spelled == root or spelled.startswith(f"{root}/") for root in roots)

    return is_below


def _version(relation: JavaObject, newest: int) -> int:
    """The version that a scan of the table's files reads; `newest` where it does not say."""
    option: Any = relation.options().get(VERSION_OPTION)
    if option.isDefined():
        return int(option.get())
    try:
        return int(relation.location().version())  # delta-spark's file index
    except Exception:  # noqa: BLE001 - a folder that is read as plain files has no version
        return newest
