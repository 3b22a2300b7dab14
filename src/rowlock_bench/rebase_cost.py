"""What losing costs: an UPDATE of 1,000 rows of a 10-million-row table that loses to a winner, beside a full run of it.

    python -m rowlock_bench.rebase_cost [--rows 10000000] [--files 8]

Winners: one that changed 10 of the rows, and one that compacted the files.  Prints for each the files and
bytes that were read again, and seconds; then the same for running the whole statement once more.
"""

from __future__ import annotations

import argparse
import functools
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rowlock
from rowlock import DeltaTable
from rowlock.engines.spark.read.scan import Scanner
from rowlock.parquet.rows import Rows
from rowlock.transaction.state.phases import Observer, use_observer


class Reads:
    """Which data files are opened, by Spark or on the driver, and how large they are."""

    def __init__(self) -> None:
        self.files: dict[str, int] = {}
        frame, read = Scanner.frame, Rows._read

        def scanned(scanner: Any, snapshot: Any, files: Any, *rest: Any, **more: Any) -> Any:
            self.files |= {f.path: f.size_bytes for f in files}
            return frame(scanner, snapshot, files, *rest, **more)

        def opened(rows: Any, file: Any, *rest: Any) -> Any:
            self.files[file.path] = file.size_bytes
            return read(rows, file, *rest)

        Scanner.frame, Rows._read = scanned, opened  # type: ignore[method-assign, assignment]


class Meet(Observer):
    """Lets a winner commit once the statement is staged, and counts from there."""

    def __init__(self, winner: Callable[[], Any], reads: Reads) -> None:
        self._winner, self._reads, self.start = winner, reads, 0.0

    def phase(self, name: str, txn: Any) -> None:
        if name == "staged":
            with use_observer(Observer()):
                self._winner()
            self._reads.files.clear()
            self.start = time.perf_counter()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--files", type=int, default=8)
    choices = parser.parse_args()
    spark = rowlock.spark(cores=2, memory_mb=4096)
    reads, root = Reads(), Path(tempfile.mkdtemp(prefix="rebase-cost"))
    print(f"{choices.rows:,} rows in {choices.files} files; UPDATE of 1,000 rows\n")
    print(f"{'':34}{'files read':>12}{'bytes read':>14}{'seconds':>10}{'rows rebased':>14}{'rows followed':>15}")
    for name in ("changed 10 of them", "compacted the files"):
        path = str(root / name.replace(" ", "-"))
        rowlock.write(spark.range(0, choices.rows, 1, choices.files).selectExpr("id", "id % 97 as g", "0L as v", "concat('row ', id) as s"), path)
        table, other = DeltaTable.forPath(spark, path), DeltaTable.forPath(spark, path)
        where = f"cast(id as double) % {choices.rows // 1000} = 5"
        few = functools.partial(other.update, f"{where} and id < {choices.rows // 100}", {"s": "'changed'"})
        meet = Meet(few if "10" in name else other.optimize().executeCompaction, reads)
        with use_observer(meet):
            table.update(where, {"v": "v + 1"})
        seconds, receipt = time.perf_counter() - meet.start, table.lastReceipt
        assert receipt is not None and receipt.rounds == 1
        print(
            f"{'lost to a winner that ' + name:<44}"[:44].ljust(34)
            + f"{len(reads.files):>12}{sum(reads.files.values()):>14,}{seconds:>10.2f}{receipt.rows_rebased:>14,}{receipt.rows_followed:>15,}"
        )
        reads.files.clear()
        start = time.perf_counter()
        table.update(where, {"v": "v + 1"})
        print(f"{'  a full run at the new head':<34}{len(reads.files):>12}{sum(reads.files.values()):>14,}{time.perf_counter() - start:>10.2f}")
        assert [tuple(r) for r in table.toDF().selectExpr("sum(v)").collect()] == [(2000,)]
    shutil.rmtree(root)


if __name__ == "__main__":
    main()
