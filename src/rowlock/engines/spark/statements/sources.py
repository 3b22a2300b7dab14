"""The DataFrames that statements read: their files as of now, which versions of the target they read, and the source of a MERGE, which is pinned.

A source that reads versions of the target is validated at commit.  Any other is read once, so that every rebase sees the same rows: a second
reading could give others (rand(), a lost executor).  A small source is held on the driver, a large one in Parquet files below `_rowlock/` in the
table's folder, which other engines and VACUUM leave alone, until the statement is over.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, functions as F
from pyspark.sql.types import LongType, StructField, StructType

from rowlock import clock, threads
from rowlock.boundary.engine import TableRead
from rowlock.engines.spark.catalyst.bridge import Catalyst, JavaObject, analyzed, catalyst, class_name, normalized, nullable
from rowlock.engines.spark.catalyst.predicates import translated
from rowlock.engines.spark.catalyst.types import unbounded
from rowlock.engines.spark.driver_rows import first_if_small, most_rows
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.read.scan import FIXED_OPTION, VERSION_OPTION, local_frame, scan, spark_uri
from rowlock.engines.spark.read.stored_origin import SOURCE_ROW
from rowlock.engines.spark.statements.row_statements import row_mask
from rowlock.engines.spark.write.writer import data_files
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.files import num_rows
from rowlock.protocol import paths
from rowlock.protocol.column_mapping import is_mapped
from rowlock.protocol.schema import ROW_INDEX, PrimitiveType
from rowlock.storage.store import discard

_OF_FILES = "org.apache.spark.sql.execution.datasources.HadoopFsRelation"
"""The class of relations that read files; delta-spark's is an anonymous subclass."""


def frame_of_now(frame: DataFrame) -> DataFrame:
    """The DataFrame at the versions of this moment, which it keeps from then on: the same rows however often it is read.  Rows that Spark has cached stay those."""
    bridge = catalyst(frame.sparkSession)
    plan = None if bridge.scans is None else bridge.scans.pinned(frame._jdf)
    return frame if plan is None else bridge.dataframe(plan, frame.sparkSession)


_VERSIONED = re.compile(r"path: (.*?), range: ")
"""One file in the text form of a FileScanRDD's partition, with its URI percent-encoded."""

_listener: ContextVar[Callable[[DataFrame], None] | None] = ContextVar("a function that is called with each source", default=None)


def listening_to_sources(listener: Callable[[DataFrame], None] | None) -> AbstractContextManager[None]:
    """A block in which `listener` is called with each source of a statement, when it is asked what that reads."""
    return threads.holding(_listener, listener)


def versions_read(evaluator: Evaluator, frame: DataFrame, newest: int) -> tuple[int, ...]:
    """The versions of the evaluator's table that a DataFrame reads; empty where it does not read the table, or versions that the caller named.

    `newest` is given for a scan of the table's files that does not say which version it reads.  delta-spark's DataFrames
    read the version that is newest when they run: call this before and after.
    """
    if (listener := _listener.get()) is not None:
        with listening_to_sources(None):
            listener(frame)
    return tuple(sorted({version for _, version in _reading(evaluator, analyzed(frame), newest)}))


def table_reads(evaluator: Evaluator, frame: DataFrame, snapshot: Snapshot) -> tuple[TableRead, ...]:
    """What a DataFrame reads of the evaluator's table, of which `snapshot` is the newest version; empty as in `versions_read`.

    Of each scan that Spark's optimizer leaves, the condition right above it says which rows count: the rest of the plan sees no others.
    """
    versions = versions_read(evaluator, frame, snapshot.version)
    if versions == (snapshot.version,) and not _tells_time(evaluator.bridge, analyzed(frame)):
        with suppress(PySparkException, Py4JJavaError):  # what fails while it is planned fails when it is run
            if found := _conditional_reads(evaluator, frame._jdf.queryExecution().optimizedPlan(), snapshot):
                return tuple(found)
    return tuple(map(TableRead, versions))


def read_meanwhile(evaluator: Evaluator, frame: DataFrame, newest: int, read: Sequence[TableRead]) -> tuple[TableRead, ...]:
    """What a DataFrame that reads the table by another engine reads besides `read`, which it was asked before its rows were read: the newest version of now."""
    return tuple(TableRead(v) for v in versions_read(evaluator, frame, newest) if v not in {r.version for r in read}) if read else ()


def _conditional_reads(evaluator: Evaluator, plan: JavaObject, snapshot: Snapshot) -> list[TableRead]:
    """A read for each scan of the table in an optimized plan; empty where one is not Rowlock's own, such as one of cached rows."""
    bridge, fields = evaluator.bridge, {f.physical_name: f for f in snapshot.schema.fields}
    plain = not is_mapped(snapshot.metadata.configuration)  # else the fields of a struct have other names in the plan, perhaps those of its other fields
    known = {n: f.name for n, f in fields.items() if f.name in evaluator.target(snapshot).ids.values() and (plain or isinstance(f.type, PrimitiveType))}
    conditions = {_first_id(node.child()): node.condition() for part in _parts(bridge, plan) for node in _filters(bridge, part)}
    found = []
    for leaf, version in _reading(evaluator, plan, snapshot.version):
        if class_name(leaf) != "LogicalRelation" or not leaf.relation().options().contains(VERSION_OPTION) or version != snapshot.version:
            return []
        above = conditions.get(_first_id(leaf))
        names = () if above is None else bridge.list(above.references().toSeq())
        condition = translated(bridge, above, {int(a.exprId().id()): known[name] for a in names if (name := str(a.name())) in known})
        found.append(TableRead(version, None if condition is None else condition.reads, row_mask(condition)))
    return found


def _filters(bridge: Catalyst, plan: JavaObject) -> Iterator[JavaObject]:
    """The nodes of a plan that filter the rows of a leaf."""
    children = bridge.list(plan.children())
    if len(children) == 1 and class_name(plan) == "Filter" and class_name(children[0]) == "LogicalRelation":
        yield plan
    for child in children:
        yield from _filters(bridge, child)


def _first_id(leaf: JavaObject) -> int:
    """The id of a relation's first attribute, which no other relation of the plan has."""
    return int(leaf.output().head().exprId().id())


def _tells_time(bridge: Catalyst, plan: JavaObject) -> bool:
    """Whether a plan asks for the current time, which is another each time it is optimized."""
    return any(part.containsPattern(bridge.current_time) for part in _parts(bridge, plan))


def _parts(bridge: Catalyst, plan: JavaObject) -> list[JavaObject]:
    """A plan and those of its subqueries."""
    return [plan, *bridge.list(plan.subqueriesAll())]


def _reading(evaluator: Evaluator, plan: JavaObject, newest: int) -> Iterator[tuple[JavaObject, int]]:
    """(a leaf node that reads the table, its version), but for versions that the caller named."""
    is_below = _below(evaluator)
    for leaf in _leaves(evaluator, plan):
        kind = class_name(leaf)
        if kind in ("LogicalRelation", "FileSourceScanExec") and evaluator.bridge.is_a(leaf.relation(), _OF_FILES):
            places = str(leaf.relation().location().rootPaths().mkString("\n")).split("\n")  # a Hadoop path as text is not encoded
            if not leaf.relation().options().contains(FIXED_OPTION) and any(map(is_below, places)):
                yield leaf, _version(leaf.relation(), newest)
        elif kind == "LogicalRDD" and any(map(is_below, _files_of(evaluator, leaf.rdd()))):
            yield leaf, newest


def _leaves(evaluator: Evaluator, plan: JavaObject) -> Iterator[JavaObject]:
    """The leaf nodes of a plan and of its subqueries, and those of the plan by which cached rows were computed."""
    for part in _parts(evaluator.bridge, plan):
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
                yield from map(unquote, _VERSIONED.findall(str(jvm.scala.runtime.ScalaRunTime.stringOf(part.files()))))
        waiting += [dependency.rdd() for dependency in evaluator.bridge.list(rdd.dependencies())]


def _below(evaluator: Evaluator) -> Callable[[str], bool]:
    """A function that returns whether a path lies in the table's folder, whatever its spelling and through symbolic links."""
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
    if relation.options().contains(VERSION_OPTION):
        return int(relation.options().apply(VERSION_OPTION))
    try:
        return int(relation.location().version())  # delta-spark's file index
    except Exception:  # noqa: BLE001 - a folder that is read as plain files has no version
        return newest


_WANTED = "__rowlock_wanted"
_START = "__rowlock_start"


@dataclass(frozen=True, slots=True)
class Source:
    """A pinned source: `table` on the driver, or `files` (path, bytes, rows) under `folder`.  Rows are numbered from 0 in their order.

    size_bytes  of the files
    scratch     files in which the MERGE recorded matches for a rebase, and which no commit names
    """

    schema: StructType
    num_rows: int
    table: pa.Table | None
    folder: str | None = None
    files: tuple[tuple[str, int, int], ...] = ()
    size_bytes: int = 0
    scratch: list[str] = field(default_factory=list, compare=False)

    def numbered(self) -> pa.Table:
        """The rows on the driver with their numbers as last column."""
        assert self.table is not None
        return self.table.append_column(SOURCE_ROW, pa.array(np.arange(self.num_rows, dtype=np.int64)))

    def take(self, numbers: npt.NDArray[np.int64]) -> pa.Table:
        """The rows on the driver with these numbers, the number as last column."""
        assert self.table is not None
        return self.table.take(pa.array(numbers)).append_column(SOURCE_ROW, pa.array(numbers))

    @property
    def numbered_schema(self) -> StructType:
        return StructType([*nullable(self.schema).fields, StructField(SOURCE_ROW, LongType())])

    def plan(self, evaluator: Evaluator, attributes: JavaObject, session: JavaObject, numbers: npt.NDArray[np.int64] | None = None) -> JavaObject:
        """The plan of the rows (only those with `numbers`, if given) under `attributes` (a Scala Seq), the last of which is the row number."""
        if self.table is not None:
            rows = self.numbered() if numbers is None else self.take(numbers)
            return evaluator.bridge.local(attributes, rows, self.numbered_schema.json(), session)
        frame = self._stored(evaluator)
        if numbers is not None:
            wanted = local_frame(evaluator.scanner.spark, pa.table({_WANTED: pa.array(numbers)}))
            frame = frame.join(wanted, F.col(SOURCE_ROW) == F.col(_WANTED), "left_semi")
        return evaluator.bound(analyzed(frame), evaluator.bridge.list(attributes))

    def numbered_frame(self, evaluator: Evaluator) -> DataFrame:
        """The rows with their numbers as last column."""
        return self._stored(evaluator) if self.table is None else local_frame(evaluator.scanner.spark, self.numbered(), self.numbered_schema)

    def _stored(self, evaluator: Evaluator) -> DataFrame:
        """The rows of the files with their numbers: how many rows are in the files before theirs, and their place in it.

        Only the reader of a row knows which file it is in: Spark may have run the writer's tasks again elsewhere.
        """
        stored = StructType([StructField(f"c{n}", f.dataType, True) for n, f in enumerate(self.schema.fields)])
        starts = np.cumsum([0, *(rows for _, _, rows in self.files)])[:-1]
        files = [(spark_uri(evaluator.spark, name), size, 0) for name, size, _ in self.files]
        begins = {_START: (LongType(), pa.array(starts, pa.int64()))}
        located = scan(evaluator.scanner.spark, evaluator.root, files, stored.add(ROW_INDEX, LongType()), begins)
        columns = [F.col(f"c{n}").alias(f.name) for n, f in enumerate(self.schema.fields)]
        return located.select(*columns, (F.col(_START) + F.col(ROW_INDEX)).alias(SOURCE_ROW))

    def release(self, evaluator: Evaluator) -> None:
        """Deletes the pinned files, and those in which matches were recorded."""
        discard(evaluator.store, self.scratch)
        self.scratch.clear()
        if self.folder:
            for meta in list(evaluator.store.list(self.folder, recursive=True)):
                evaluator.store.delete(meta.key)
            if not evaluator.store.is_remote:
                # The folder with Hadoop's checksum files, which the store does not list.
                shutil.rmtree(paths.join(evaluator.store.root, self.folder), ignore_errors=True)


def pin(evaluator: Evaluator, source: DataFrame) -> Source:
    """Reads the source once, in one Spark job, and holds its rows.  Column names may repeat."""
    names = [f"c{n}" for n in range(len(source.columns))]
    positional, schema = source.toDF(*names), unbounded(source.schema)
    assert isinstance(schema, StructType)
    if schema != source.schema:  # PySpark has no Arrow type for CHAR and VARCHAR
        positional = positional.select(*(F.col(n).cast(f.dataType).alias(n) for n, f in zip(names, schema.fields, strict=True)))
    most, allowed = evaluator.bridge.option(positional._jdf.queryExecution().optimizedPlan().maxRows()), most_rows(8.0 * len(names))
    table = first_if_small(positional, -1 if most is not None and int(most) <= allowed else allowed + 1)
    if table is not None and table.num_rows <= allowed and table.nbytes <= limits().held_source_bytes:
        return Source(schema, table.num_rows, normalized(table))
    folder = f"_rowlock/staging/{clock.new_id()}"
    place = paths.join(evaluator.root, folder)
    evaluator.bridge.dataframe(analyzed(positional), evaluator.spark, evaluator.session()).write.parquet(place)
    found = dict(data_files(evaluator.store, folder))
    files = tuple((paths.join(evaluator.root, k), size, rows) for k, size in found.items() if (rows := num_rows(evaluator.store, k, size)))
    return Source(schema, sum(rows for _, _, rows in files), None, folder, files, sum(found.values()))
