"""One writer of `rowlock bench --appends` that is deltalake: PATH, the writer's number, seconds.  Speaks as `rowlock_bench.appends` does."""

from __future__ import annotations

import json
import sys
import time

from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from rowlock_bench.appends import rows_of


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
