"""A clustered table that Rowlock and delta-spark write in turns: neither sorts again what the other has sorted."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import rowlock
from rowlock import DeltaTable
from rowlock.protocol.actions import AddFile
from rowlock.storage.open import open_store
from rowlock.transaction.state.shared import state_of
from spark.support import delta_spark_rows, read, unchanged

pytestmark = pytest.mark.spark
COLUMNS = "id bigint, `a.b` bigint, s struct<`1x`: bigint, `é`: string>"


def files(path: str) -> dict[str, AddFile]:
    return {f.path: f for f in state_of(open_store(path)).refresh().files.adds()}


def cubes(path: str) -> set[str]:
    return {(f.tags or {})["ZCUBE_ID"] for f in files(path).values()}


@pytest.mark.parametrize("keys", ["`a.b`, s.`1x`, s.`é`", "id"], ids=["odd", "one"])
@pytest.mark.short(ci=("odd",), why="12 s of turns with delta-spark; which files are sorted again is asked in tests/spark/test_clustering.py")
def test_neither_sorts_the_others_files_again(spark: SparkSession, table_path: str, keys: str) -> None:
    """Runs that Rowlock adds later join the cube, so that delta-spark finds one cube and nothing to do; its cubes are runs for Rowlock."""
    name = f"delta.`{table_path}`"
    spark.sql(
        f"create table {name} ({COLUMNS}) using delta cluster by ({keys}) tblproperties ('delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true')"
    )
    table = DeltaTable.forPath(spark, table_path)

    def append(start: int, stop: int) -> None:
        frame = spark.range(start, stop, numPartitions=1)
        rowlock.write(frame.selectExpr("id", "id * 7 % 31 as `a.b`", "named_struct('1x', id % 5, 'é', string(id)) as s"), table_path)

    def nothing_to_do() -> None:
        with unchanged(table_path):
            spark.sql(f"optimize {name}")
            spark.sql(f"optimize {name} full")
            table.optimize().executeCompaction()

    append(0, 1000)
    table.optimize().executeCompaction()
    nothing_to_do()
    first = set(files(table_path))
    append(1000, 1100)
    table.optimize().executeCompaction()
    assert first < set(files(table_path)) and len(cubes(table_path)) == 1
    nothing_to_do()
    append(1100, 1200)
    spark.sql(f"optimize {name}")
    assert not first & set(files(table_path)), "delta-spark merges small cubes with what is new"
    nothing_to_do()
    theirs = set(files(table_path))
    append(1200, 1300)
    table.optimize().executeCompaction()
    assert theirs < set(files(table_path)) and len(cubes(table_path)) == 1
    nothing_to_do()
    table.delete("id = 1205")
    spark.sql(f"delete from {name} where id = 7")
    nothing_to_do()
    assert read(spark, table_path) == delta_spark_rows(spark, table_path) and rowlock.read(spark, table_path).count() == 1298
