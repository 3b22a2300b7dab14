"""Checksums beside delta-spark: it goes on from those that we write, and those that it writes agree with what we read."""

from __future__ import annotations

import warnings
from pathlib import Path

import orjson
import pytest
from pyspark.sql import SparkSession

import rowlock
from rowlock import DeltaTable
from rowlock.log.checksums import differences
from rowlock.log.table_log import TableLog
from rowlock.protocol import names
from rowlock.storage.open import open_store
from spark.support import delta_spark_rows, make, read

pytestmark = pytest.mark.spark


@pytest.mark.soak("27 s of turns with delta-spark; what a checksum says is in tests/unit/log/test_checksums.py")
def test_each_engine_goes_on_from_the_others(spark: SparkSession, table_path: str) -> None:
    table = make(
        spark, table_path, [(n, "a") for n in range(6)], "id int, s string", files=3, **{"rowlock.checksums": "true", "delta.enableRowTracking": "true"}
    )
    log = TableLog(open_store(table_path))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for turn in range(3):
            table.update(f"id = {turn}", {"s": "'ours'"})
            rowlock.write(spark.createDataFrame([(10 + turn, "new")], "id int, s string"), table_path, app_id="loader", app_version=turn)
            spark.sql(f"DELETE FROM delta.`{table_path}` WHERE id = {turn + 3}")
            spark.sql(f"INSERT INTO delta.`{table_path}` VALUES ({20 + turn}, 'theirs')")
            DeltaTable.forPath(spark, table_path).setProperties({"delta.checkpointInterval": str(20 + turn)})
        for file in sorted(Path(table_path, "_delta_log").glob("0*.crc")):
            version = int(file.stem)
            assert differences(log.store.get(names.checksum_key(version)), log.at(version)) == [], version
    assert log.store.head(names.checksum_key(log.latest().version)) is not None
    assert orjson.loads(log.store.get(names.checksum_key(log.latest().version)))["setTransactions"]
    assert read(spark, table_path) == delta_spark_rows(spark, table_path)
