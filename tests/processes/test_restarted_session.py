"""A program that stops its session and begins another, as notebooks do: what belongs to the SparkContext of before is not asked again (I9)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src"

PROGRAM = """
import json, sys
import rowlock

folder = sys.argv[1]
found = []
for _ in range(2):
    first = rowlock.enable(rowlock.spark(cores=1, memory_mb=512))
    for spark in (first, first.newSession()):
        if not found:
            rowlock.write(spark.range(20).selectExpr("id", "'a' as v").coalesce(1), f"{folder}/t")
        spark.sql(f"DELETE FROM delta.`{folder}/t` WHERE id = {len(found)}")
        spark.sql(f"MERGE INTO delta.`{folder}/t` t USING (SELECT 19L AS id, '{len(found)}' AS v) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = t.v || s.v")
        query = spark.readStream.format("delta").option("skipChangeCommits", "true").load(f"{folder}/t").writeStream.format("delta")
        query.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start(f"{folder}/copy").awaitTermination()
        rows = spark.read.format("delta").load(f"{folder}/t")
        found.append([rows.count(), rows.where("id = 19").first().v, spark.read.format("delta").load(f"{folder}/copy").count()])
    first.stop()
print(json.dumps(found))
"""


@pytest.mark.spark
@pytest.mark.soak("a JVM of its own, half a minute", ci="always")
def test_another_session_after_stop(tmp_path: Path) -> None:
    """With deletion vectors, sessions beside the one that was enabled, and a stream that goes on."""
    environment = os.environ | {"PYTHONPATH": str(SOURCES), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.strip().splitlines()[-1]) == [[19, "a0", 19], [18, "a01", 19], [17, "a012", 19], [16, "a0123", 19]]
