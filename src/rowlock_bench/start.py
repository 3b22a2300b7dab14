"""Measures a fresh process that appends once without Spark: its time above the import of pyarrow, which its rows need."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from typing import Any

import rowlock
from rowlock_bench.appends import ROWS, rows_of
from rowlock_bench.processes import Result, main, result

_APPEND = {
    "rowlock": "import rowlock; rowlock.append(path, rows)",
    "deltalake": "import deltalake; deltalake.write_deltalake(path, rows, mode='append')",
}
_PROGRAM = """
import sys, time
import pyarrow as pa
n = pa.array([0] * 100, pa.int64())
path, rows = sys.argv[1], pa.table({{"writer": n, "n": n, "text": ["a row"] * 100}})
began, used = time.perf_counter(), time.process_time()
{append}
print(time.perf_counter() - began, time.process_time() - used)
"""


def measure(given: dict[str, Any]) -> Result:
    """Starts `times` processes one after the other; the first, which compiles what it imports, is not counted."""
    with tempfile.TemporaryDirectory(prefix="rowlock-start-") as folder:
        path = f"{folder}/table"
        rowlock.append(path, rows_of(-1, 0), properties={"delta.enableDeletionVectors": "false"})
        program = [sys.executable, "-c", _PROGRAM.format(append=_APPEND[given["engine"]]), path]
        took = [[float(n) for n in subprocess.run(program, capture_output=True, text=True, check=True).stdout.split()] for _ in range(given["times"] + 1)]
        exact = rowlock.to_arrow(path).num_rows == ROWS * (given["times"] + 2)
    seconds, processor = (statistics.median(column) for column in zip(*took[1:], strict=True))
    return result({"import and one append, s": seconds, "import and one append, s of a processor": processor}, exact=exact)


if __name__ == "__main__":
    main(measure)
