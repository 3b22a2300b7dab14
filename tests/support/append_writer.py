"""One process of tests/processes/test_appends.py: PATH, its number, threads, appends of each thread.  Prints ready, waits for a line, prints what it was told as JSON."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

import rowlock


def rows_of(writer: str, n: int) -> pa.Table:
    return pa.table({"writer": [writer] * 3, "n": [n] * 3, "place": [0, 1, 2]})


def write(path: str, writer: str, count: int) -> list[list[object]]:
    told: list[list[object]] = []
    for n in range(count):
        receipt = rowlock.append(path, rows_of(writer, n), app_id=writer if n % 4 == 0 else None, app_version=n if n % 4 == 0 else None)
        told.append([writer, n, receipt.version])
        if n % 4 == 0:  # the same step again, as after a crash of the caller
            assert rowlock.append(path, rows_of(writer, n), app_id=writer, app_version=n).already_committed
    return told


def main(path: str, number: str, threads: int, count: int) -> None:
    rows_of("warm", 0)
    rowlock.to_arrow
    print("ready", flush=True)
    sys.stdin.readline()
    with ThreadPoolExecutor(threads) as pool:
        told = list(pool.map(lambda t: write(path, f"{number}-{t}", count), range(threads)))
    print(json.dumps([one for part in told for one in part]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
