"""Pins the source of a MERGE: it is read once, so that every rebase sees the same rows.

A second reading could give other rows (rand(), a lost executor).

A small source is held on the driver, a large one in Parquet files below `_rowlock/` in the table's folder, which other
engines and VACUUM leave alone, until the statement is over.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from rowlock import clock
from rowlock.engines.spark.catalyst.bridge import Catalyst, JavaObject, normalized, nullable, to_arrow
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.read.scan import local_frame, read_parquet
from rowlock.engines.spark.read.stored_origin import SOURCE_ROW
from rowlock.limits import limits
from rowlock.parquet.files import open_parquet
from rowlock.protocol import paths
from rowlock.storage.store import discard

_WANTED, _TASK = "__rowlock_wanted", "__rowlock_task"


@dataclass(frozen=True, slots=True)
class Source:
    """A pinned source: `table` on the driver, or `files` (path, rows, number of the task that wrote it) under `folder`.  Rows are numbered from 0 in their order.

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
            wanted = local_frame(evaluator.reading_session, pa.table({_WANTED: pa.array(numbers)}), StructType([StructField(_WANTED, LongType())]))
            frame = frame.join(wanted, F.col(SOURCE_ROW) == F.col(_WANTED), "left_semi")
        return evaluator.bound(frame._jdf.queryExecution().analyzed(), evaluator.bridge.list(attributes))

    def numbered_frame(self, evaluator: Evaluator) -> DataFrame:
        """The rows with their numbers as last column."""
        return self._stored(evaluator) if self.table is None else local_frame(evaluator.reading_session, self.numbered(), self.numbered_schema)

    def _stored(self, evaluator: Evaluator) -> DataFrame:
        names = [n for n, _, _ in self.files]
        stored = StructType([*(StructField(f"c{n}", f.dataType, True) for n, f in enumerate(self.schema.fields)), StructField(_TASK, IntegerType())])
        raw = read_parquet(evaluator.reading_session, stored, names)
        offsets = np.zeros(1 + max(task for _, _, task in self.files), np.int64)
        for (_, _, task), start in zip(self.files, np.cumsum([0, *(size for _, size, _ in self.files)])[:-1], strict=True):
            offsets[task] = start
        before = F.get(F.expr(f"array({', '.join(f'{n}L' for n in offsets)})"), F.col(_TASK))
        columns = [F.col(f"c{n}").alias(f.name) for n, f in enumerate(self.schema.fields)]
        return raw.select(*columns, (before + raw.metadataColumn("_metadata").getField("row_index")).alias(SOURCE_ROW))

    def release(self, evaluator: Evaluator) -> None:
        """Deletes the pinned files, and those in which matches were recorded."""
        discard(evaluator.store, self.scratch)
        self.scratch.clear()
        if self.folder:
            for meta in list(evaluator.store.list(self.folder, recursive=True)):
                evaluator.store.delete(meta.key)
            if not evaluator.store.is_remote:
                shutil.rmtree(
                    paths.join(evaluator.store.root, self.folder), ignore_errors=True
                )  # the folder with Hadoop's checksum files, which the store does not list


def pin(evaluator: Evaluator, source: DataFrame, bridge: Catalyst) -> Source:
    """Reads the source once, in one Spark job, and holds its rows.  Column names may repeat."""
    names = [f"c{n}" for n in range(len(source.columns))]
    positional = source.toDF(*names)
    most = positional._jdf.queryExecution().optimizedPlan().maxRows()
    allowed = limits().driver_rows
    known_small = most.isDefined() and int(most.get()) <= allowed
    table = to_arrow(positional if known_small else positional.limit(allowed + 1))
    if table.num_rows <= allowed:
        return Source(source.schema, table.num_rows, normalized(table))
    folder = f"_rowlock/staging/{clock.new_id()}"
    place = paths.join(evaluator.root, folder)
    numbered = positional.withColumn(_TASK, F.spark_partition_id())
    frame = evaluator.bridge.dataframe(numbered._jdf.queryExecution().analyzed(), evaluator.spark, evaluator.session())
    frame.write.option("maxRecordsPerFile", 0).parquet(place)  # one file a task, so that a row's number follows from its task and its place in the file
    found = {m.key: m.size_bytes for m in evaluator.store.list(folder, recursive=True) if m.key.endswith(".parquet")}
    files = tuple((paths.join(evaluator.root, k), rows, task) for k in found for rows, task in _rows_and_task(evaluator, k) if rows)
    return Source(source.schema, sum(n for _, n, _ in files), None, folder, files, sum(found.values()))


def _rows_and_task(evaluator: Evaluator, key: str) -> list[tuple[int, int]]:
    """[(rows, number of the task that wrote them)] of a pinned file; empty where it has no row."""
    with open_parquet(evaluator.store, key) as source:
        if not source.metadata.num_rows:
            return []
        first = next(source.iter_batches(batch_size=1, columns=[_TASK]))
        return [(int(source.metadata.num_rows), int(first.column(0)[0].as_py()))]
