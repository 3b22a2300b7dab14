"""One writer of `rowlock bench --appends` that is deltalake: PATH, the writer's number, seconds.  Speaks as `rowlock_bench.appends` does."""

from __future__ import annotations

import json
import sys
import time

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

ROWS = 100


def rows_of(writer: int, n: int) -> pa.Table:
    return pa.table(
        {"writer": pa.array([writer] * ROWS, pa.int64()), "n": pa.array([n] * ROWS, pa.int64()), "text": [f"row {i} of append {n}" for i in range(ROWS)]}
    )


def main(path: str, writer: int, seconds: float) -> None:
    DeltaTable(path)
    rows_of(writer, 0)
    print("ready", flush=True)
    sys.stdin.readline()
    start, took, done, failed, n = time.perf_counter(), [], [], 0, 0
    while (begun := time.perf_counter()) - start < seconds:
        try:
            write_deltalake(path, rows_of(writer, n), mode="append", commit_properties=CommitProperties(max_commit_retries=100))
            done.append(n)
            took.append(time.perf_counter() - begun)
        except CommitFailedError:
            failed += 1
        n += 1
    print(json.dumps({"elapsed": time.perf_counter() - start, "seconds": took, "done": done, "failed": failed}), flush=True)


main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
