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
from pyspark.sql.types import LongType, StructField, StructType

from rowlock import clock
from rowlock.engines.spark.catalyst.bridge import Catalyst, JavaObject, normalized, nullable, to_arrow
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.read.scan import local_frame, read_parquet, spark_uri
from rowlock.engines.spark.read.stored_origin import SOURCE_ROW, paths_by_hash
from rowlock.engines.spark.write.writer import data_files
from rowlock.limits import limits
from rowlock.parquet.files import open_parquet
from rowlock.protocol import paths
from rowlock.storage.store import discard

_WANTED = "__rowlock_wanted"
_OF, _AT, _FILE, _START = "__rowlock_of", "__rowlock_at", "__rowlock_file", "__rowlock_start"


@dataclass(frozen=True, slots=True)
class Source:
    """A pinned source: `table` on the driver, or `files` (path, rows) under `folder`.  Rows are numbered from 0 in their order.

    size_bytes  of the files
    scratch     files in which the MERGE recorded matches for a rebase, and which no commit names
    """

    schema: StructType
    num_rows: int
    table: pa.Table | None
    folder: str | None = None
    files: tuple[tuple[str, int], ...] = ()
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
        """The rows of the files with their numbers: how many rows are in the files before theirs, and their place in it.

        Which file a row is in, only its reader tells: what the writer's plan said of its tasks, Spark may have computed elsewhere.
        """
        names = [n for n, _ in self.files]
        stored = StructType([StructField(f"c{n}", f.dataType, True) for n, f in enumerate(self.schema.fields)])
        raw = read_parquet(evaluator.reading_session, stored, names)
        starts = {name: int(start) for name, start in zip(names, np.cumsum([0, *(size for _, size in self.files)])[:-1], strict=True)}
        hashes = paths_by_hash((n, spark_uri(evaluator.spark, n)) for n in names)
        table = pa.table({_FILE: pa.array(hashes, pa.int64()), _START: pa.array([starts[n] for n in hashes.values()], pa.int64())})
        offsets = local_frame(evaluator.reading_session, table, StructType([StructField(_FILE, LongType()), StructField(_START, LongType())]))
        meta = raw.metadataColumn("_metadata")
        located = raw.select("*", F.xxhash64(meta.getField("file_path")).alias(_OF), meta.getField("row_index").alias(_AT))
        joined = located.join(F.broadcast(offsets), F.col(_OF) == F.col(_FILE), "left")
        start = F.when(F.col(_START).isNull(), F.raise_error("a file of the source of a MERGE is read under another name").cast("long")).otherwise(
            F.col(_START)
        )
        columns = [F.col(f"c{n}").alias(f.name) for n, f in enumerate(self.schema.fields)]
        return joined.select(*columns, (start + F.col(_AT)).alias(SOURCE_ROW))

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
    if table.num_rows <= allowed and table.nbytes <= limits().held_source_bytes:
        return Source(source.schema, table.num_rows, normalized(table))
    folder = f"_rowlock/staging/{clock.new_id()}"
    place = paths.join(evaluator.root, folder)
    evaluator.bridge.dataframe(positional._jdf.queryExecution().analyzed(), evaluator.spark, evaluator.session()).write.parquet(place)
    found = dict(data_files(evaluator.store, folder))
    files = tuple((paths.join(evaluator.root, k), rows) for k in found if (rows := _num_rows(evaluator, k)))
    return Source(source.schema, sum(n for _, n in files), None, folder, files, sum(found.values()))


def _num_rows(evaluator: Evaluator, key: str) -> int:
    with open_parquet(evaluator.store, key) as source:
        return int(source.metadata.num_rows)
