"""REORG TABLE ... APPLY (PURGE): no file holds deleted rows or dropped columns any more, and no row is another; beside delta-spark and other writers (I5, I6)."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import rowlock
from interop.readers import rows_by_all
from rowlock import DeltaTable
from rowlock.limits import limited
from rowlock.storage.open import open_store
from rowlock.transaction.state.shared import state_of
from spark.support import make, read, unchanged, winner

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("way", ["driver", "jobs"])
@pytest.mark.short("driver", why="28 s; the files are written as OPTIMIZE writes them, whose ways are compared in test_zorder")
def test_deleted_rows_and_dropped_columns_are_purged_and_nothing_else(spark: SparkSession, table_path: str, way: str) -> None:
    t = f"delta.`{table_path}`"
    frame = spark.sql("select cast(id as int) id, cast(id % 2 as int) p, concat('s', id) s, named_struct('a', id, 'b', id) n from range(40)")
    with limited(local_rows=0, driver_rows=0, moved_bytes=0) if way == "jobs" else limited():
        table = make(spark, table_path, frame, files=2, partition_by=["p"], **{"delta.columnMapping.mode": "name", "delta.enableRowTracking": "true"})
        table.delete("id in (1, 2, 3)")
        wanted = sorted((r[0], r[1], (r[3][0],)) for r in read(spark, table_path))
        ids = {r[0]: r[-2] for r in rowlock.read(spark, table_path, with_row_ids=True).collect()}
        rowlock.sql(spark, f"ALTER TABLE {t} DROP COLUMNS (s, n.b)")
        first = rowlock.sql(spark, f"REORG TABLE {t} WHERE P = 0 APPLY (PURGE)").first()
        with winner(lambda: table.delete("id = 5")):
            second = rowlock.sql(spark, f"REORG TABLE {t} APPLY (PURGE)").first()
    assert (first["path"], first["metrics"].numFilesRemoved > 0, second["metrics"].numFilesAdded > 0) == (f"file:{table_path}", True, True)
    left = [r for r in wanted if r[0] != 5]
    assert sorted((r[0], r[1], tuple(r[2])) for r in read(spark, table_path)) == left
    assert sorted(r[:2] for r in rows_by_all(spark, table_path)) == [r[:2] for r in left]
    assert {r[0]: r[-2] for r in rowlock.read(spark, table_path, with_row_ids=True).collect()} == {k: v for k, v in ids.items() if k != 5}
    head = state_of(open_store(table_path)).refresh()
    vectored = [f for f in head.files.adds() if f.deletion_vector is not None]
    assert sum(f.deletion_vector.cardinality for f in vectored) <= 1, "at most the row that was deleted meanwhile"
    physical = {f.physical_name for f in head.schema.fields}
    for file in head.files.adds():
        names = {n for n in pq.ParquetFile(f"{table_path}/{file.path}").schema_arrow.names if not n.startswith(("_row-", "__rowlock"))}
        assert names <= physical
    history = DeltaTable.forPath(spark, table_path).history().where("operation = 'REORG'").first()
    assert (history["operationParameters"]["applyPurge"], history["operationMetrics"]["numRemovedFiles"]) == ("true", str(second["metrics"].numFilesRemoved))
    rowlock.sql(spark, f"REORG TABLE {t} APPLY (PURGE)")
    with unchanged(table_path):
        assert rowlock.sql(spark, f"REORG TABLE {t} APPLY (PURGE)").first()["metrics"].numFilesAdded == 0
    spark.sql(f"REORG TABLE {t} APPLY (PURGE)")
    spark.sql(f"DELETE FROM {t} WHERE id = 7")
    assert len(rows_by_all(spark, table_path)) == len(left) - 1
