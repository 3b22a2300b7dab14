"""Deletion vectors in the log: every engine reads them and goes on from them, but delta-spark's VACUUM fails, which is why Rowlock keeps vectors in files.  I5."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import rowlock
from interop.peer_tables import make
from interop.readers import rows_by_all
from rowlock import DeltaTable
from rowlock.limits import limited
from rowlock.maintenance.check.run import check
from rowlock.storage.open import open_store

pytestmark = pytest.mark.spark


@pytest.mark.soak("9 s, about a defect of delta-spark; where vectors are written is asked in tests/unit", ci=True)
@pytest.mark.usual_limits("the size of vectors in the log is what is asked")
def test_vectors_are_in_files_since_vacuum_of_delta_spark_fails_on_those_in_the_log(spark: SparkSession, table_path: str) -> None:
    make(spark, table_path, "select id from range(0, 100, 1, 1)", enableDeletionVectors=True)
    table = DeltaTable.forPath(spark, table_path)
    table.delete("id < 3")
    spark.sql(f"VACUUM delta.`{table_path}` RETAIN 0 HOURS")
    rows = rows_by_all(spark, table_path)
    assert len(rows) == 97 and not noted(table_path)
    with limited(inline_vector_bytes=1000):
        table.delete("id < 5")
    assert len(rows_by_all(spark, table_path)) == 95
    assert noted(table_path) == ["vectors-in-log"]
    with pytest.raises(Exception, match=r"scala.MatchError: Some\(DeletionVectorDescriptor\(i,"):
        spark.sql(f"VACUUM delta.`{table_path}` RETAIN 0 HOURS").collect()
    rowlock.sql(spark, f"REORG TABLE delta.`{table_path}` APPLY (PURGE)")
    assert not noted(table_path) and len(rows_by_all(spark, table_path)) == 95


def noted(path: str) -> list[str]:
    """What a check finds, but that two engines wrote on a local disk."""
    return [f.code for f in check(open_store(path)).findings if f.level != "suspicion"]
