"""Measures processes that append a few rows at a time to one local table, with Rowlock and with deltalake.

All writers start together when the last one is ready.  With a path as its second argument this program is one writer.
"""

from __future__ import annotations

import json
import sys
import tempfile
from typing import Any

from rowlock import clock
from rowlock_bench.processes import Result, main, result, together, wait_for_the_others

ROWS = 100


def measure(given: dict[str, Any], command: list[str] | None = None) -> Result:
    """Runs the writers of an engine on a new table and sums up their results.  Raises RowlockError if one of them ends early."""
    import rowlock

    with tempfile.TemporaryDirectory(prefix="rowlock-appends-") as folder:
        path = f"{folder}/table"
        rowlock.append(path, rows_of(-1, 0), properties={"delta.enableDeletionVectors": "false"})
        started = [*(command or [sys.executable, "-m", "rowlock_bench.appends", json.dumps(given)]), path]
        writers, _ = together([[*started, str(n)] for n in range(given["writers"])])
        there = rowlock.to_arrow(path, columns=["writer", "n"]).group_by(["writer", "n"]).aggregate([([], "count_all")]).to_pylist()
    counted = {(row["writer"], row["n"]): row["count_all"] for row in there}
    took = sorted(t for one in writers for t in one["seconds"])
    done = [(n, k) for n, one in enumerate(writers) for k in one["done"]]
    exact = all(counted.get(key) == ROWS for key in done) and all(count == ROWS for count in counted.values())
    figures = {"appends/s": len(done) / max(one["elapsed"] for one in writers), "p50 of an append, s": took[len(took) // 2]}
    figures |= {"p99 of an append, s": took[len(took) * 99 // 100], "appends that raised": sum(one["failed"] for one in writers)}
    return result(figures, exact=exact)


def rows_of(writer: int, n: int) -> Any:
    """The rows of append number `n` of a writer, with both numbers as columns."""
    import pyarrow as pa

    return pa.table(
        {"writer": pa.array([writer] * ROWS, pa.int64()), "n": pa.array([n] * ROWS, pa.int64()), "text": [f"row {i} of append {n}" for i in range(ROWS)]}
    )


def write(given: dict[str, Any], path: str, writer: int) -> dict[str, Any]:
    """One writer: appends until the time is over; returns which appends succeeded, their seconds, and how many failed."""
    if given["engine"] == "deltalake":
        from deltalake import CommitProperties, DeltaTable, write_deltalake
        from deltalake.exceptions import CommitFailedError as Conflict

        DeltaTable(path)

        def append(rows: Any) -> object:
            return write_deltalake(path, rows, mode="append", commit_properties=CommitProperties(max_commit_retries=100))
    else:
        import rowlock
        from rowlock.exceptions import DeltaConcurrentModificationException as Conflict  # type: ignore[assignment]

        rowlock.to_arrow(path)

        def append(rows: Any) -> object:
            return rowlock.append(path, rows)

    rows_of(writer, 0)  # so that pyarrow's imports are not measured with the first append
    wait_for_the_others()
    start, took, done, failed, n = clock.monotonic_s(), [], [], 0, 0
    while (begun := clock.monotonic_s()) - start < given["seconds"]:
        try:
            append(rows_of(writer, n))
            done.append(n)
            took.append(clock.monotonic_s() - begun)
        except Conflict:
            failed += 1
        n += 1
    return {"elapsed": clock.monotonic_s() - start, "seconds": took, "done": done, "failed": failed}


if __name__ == "__main__":
    if sys.argv[2:]:
        print(json.dumps(write(json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3]))), flush=True)
    else:
        main(measure)
