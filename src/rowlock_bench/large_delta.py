"""delta-spark as an engine of rowlock_bench.large_statements: the same scenario, delta-spark's own session and DeltaTable.

Started by `rowlock bench --large`.  Needs the package delta-spark (the extra `test`); its JARs come from Maven Central the first time.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from rowlock_bench import delta_session
from rowlock_bench.large_statements import LargeEngine, main


def session(*, cores: int, memory_mb: int) -> SparkSession:
    return delta_session.session(cores=cores, memory_mb=memory_mb, shuffle_partitions=2 * cores)


def write(rows: Any, path: str) -> None:
    rows.write.format("delta").option("delta.enableDeletionVectors", "true").mode("append").save(path)


main(LargeEngine("delta-spark", session, write, lambda spark, path: spark.read.format("delta").load(path), lambda: DeltaTable), json.loads(sys.argv[1]))
