"""I2: a stream into a table that is killed again and again writes each row once.

Short, within one process: tests/spark/test_sql_statements.py takes a batch's mark away and runs it again.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rowlock

pytestmark = pytest.mark.spark

SRC = str(Path(__file__).parents[2] / "src")
FILES, ROWS, KILLS = 40, 50, int(os.environ.get("ROWLOCK_STREAM_KILLS", "5"))
QUERY = """
import sys
import rowlock

spark = rowlock.enable(rowlock.spark(cores=1, memory_mb=512))
root = sys.argv[1]
rows = spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).parquet(f"{root}/in")
print("begins", flush=True)
rows.writeStream.format("delta").option("checkpointLocation", f"{root}/checkpoint").trigger(availableNow=True).start(f"{root}/table").awaitTermination()
"""


@pytest.mark.soak("six JVMs one after the other; a batch that runs twice is one of the statements of spark/test_sql_statements.py")
def test_each_row_once(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for n in range(FILES):
        pq.write_table(pa.table({"id": pa.array(range(n * ROWS, (n + 1) * ROWS), pa.int64())}), tmp_path / "in" / f"{n}.parquet")
    environment = os.environ | {"PYTHONPATH": SRC, "PYSPARK_PYTHON": sys.executable}
    chance, killed = random.Random(7), 0
    while True:
        running = subprocess.Popen([sys.executable, "-c", QUERY, str(tmp_path)], env=environment, stdout=subprocess.PIPE, start_new_session=True, cwd=tmp_path)
        assert running.stdout is not None
        running.stdout.readline()
        if killed < KILLS:
            time.sleep(chance.uniform(0.5, 6))
            killed += running.poll() is None
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
        elif running.wait() == 0:
            break
        else:
            pytest.fail("the query that nobody killed failed")
    ids = rowlock.to_arrow(str(tmp_path / "table"))["id"].to_pylist()
    assert sorted(ids) == list(range(FILES * ROWS))
