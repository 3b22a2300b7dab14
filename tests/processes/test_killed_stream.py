"""I2: a stream into a table, and one out of it, that are killed again and again write each row once.

Short, within one process: tests/spark/test_sql_statements.py takes a batch's mark away and runs it again, tests/spark/test_stream_source.py asks for
batches again as a query does after a crash.
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
FILES, ROWS, KILLS = 25, 50, int(os.environ.get("ROWLOCK_STREAM_KILLS", "3"))
BEGIN = """
import sys
import rowlock

spark = rowlock.enable(rowlock.spark(cores=1, memory_mb=512))
# a kill while Spark writes the first offset leaves a temporary file, over which Spark 4.2 would refuse to start
spark.conf.set("spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart", "false")
root = sys.argv[1]
"""
INTO = f"""{BEGIN}
rows = spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).parquet(f"{{root}}/in")
print("begins", flush=True)
rows.writeStream.format("delta").option("checkpointLocation", f"{{root}}/checkpoint").trigger(availableNow=True).start(f"{{root}}/table").awaitTermination()
"""
THROUGH = f"""{BEGIN}
rows = spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(f"{{root}}/source")
to = rowlock.streaming.sink(f"{{root}}/by function")
print("begins", flush=True)
begun = [
    rows.writeStream.format("delta").option("checkpointLocation", f"{{root}}/checkpoint").trigger(availableNow=True).start(f"{{root}}/table"),
    rows.writeStream.foreachBatch(to).option("checkpointLocation", f"{{root}}/another checkpoint").trigger(availableNow=True).start(),
]
for query in begun:
    query.awaitTermination()
"""


def killed_again_and_again(script: str, root: Path, kills: int, files: int = FILES, meanwhile: int = 0) -> int:
    """Runs a script until it ends by itself, after so many kills; `meanwhile` appends so many files between them.  Returns the rows of the source."""
    environment = os.environ | {"PYTHONPATH": SRC, "PYSPARK_PYTHON": sys.executable}
    chance, killed = random.Random(7), 0
    while True:
        running = subprocess.Popen([sys.executable, "-c", script, str(root)], env=environment, stdout=subprocess.PIPE, start_new_session=True, cwd=root)
        assert running.stdout is not None
        running.stdout.readline()
        if killed < kills:
            time.sleep(chance.uniform(0.5, 6))
            killed += running.poll() is None
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
            for _ in range(meanwhile):
                rowlock.append(str(root / "source"), rows_of(files))
                files += 1
        elif running.wait() == 0:
            return files * ROWS
        else:
            pytest.fail("the query that nobody killed failed")


def rows_of(n: int) -> pa.Table:
    return pa.table({"id": pa.array(range(n * ROWS, (n + 1) * ROWS), pa.int64())})


@pytest.mark.soak("four JVMs one after the other; a batch that runs twice is one of the statements of spark/test_sql_statements.py")
def test_each_row_once(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for n in range(FILES):
        pq.write_table(rows_of(n), tmp_path / "in" / f"{n}.parquet")
    killed_again_and_again(INTO, tmp_path, KILLS)
    ids = rowlock.to_arrow(str(tmp_path / "table"))["id"].to_pylist()
    assert sorted(ids) == list(range(FILES * ROWS))


@pytest.mark.soak("four JVMs one after the other; a batch that runs twice is asked for in spark/test_stream_source.py")
def test_each_row_once_out_of_a_table_into_another(tmp_path: Path) -> None:
    """Two queries read a table that others append to; one writes by format name, the other by function."""
    for n in range(FILES):
        rowlock.append(str(tmp_path / "source"), rows_of(n))
    num_rows = killed_again_and_again(THROUGH, tmp_path, KILLS, FILES, meanwhile=2)
    for name in ("table", "by function"):
        ids = rowlock.to_arrow(str(tmp_path / name))["id"].to_pylist()
        assert sorted(ids) == list(range(num_rows))
