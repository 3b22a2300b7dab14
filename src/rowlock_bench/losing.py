"""Measures what losing costs: an UPDATE of 1,000 rows of a table that loses to a winner, from then on, beside a full run of the statement."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rowlock
from rowlock import DeltaTable, clock
from rowlock.engines.spark.read.scan import Scanner
from rowlock.parquet.rows import Rows
from rowlock.transaction.state.phases import Observer, use_observer
from rowlock_bench.processes import Result, main, result


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

    def figures(self, what: str, began: float) -> dict[str, float]:
        """What was read since `began`, and the time; then counts anew."""
        seconds, megabytes = clock.monotonic_s() - began, sum(self.files.values()) / 1e6
        self.files.clear()
        return {f"{what}, s": seconds, f"{what}, MB read": megabytes}


class Meet(Observer):
    """Lets a winner commit once the statement is staged, and counts from there."""

    def __init__(self, winner: Callable[[], Any], reads: Reads) -> None:
        self._winner, self._reads, self.start = winner, reads, 0.0

    def phase(self, name: str, txn: Any) -> None:
        if name == "staged":
            with use_observer(Observer()):
                self._winner()
            self._reads.files.clear()
            self.start = clock.monotonic_s()


def measure(given: dict[str, Any]) -> Result:
    """Makes the table, lets the statement lose once, and runs it again without a competitor."""
    count, spark, reads, root = given["rows"], rowlock.spark(cores=2, memory_mb=4096), Reads(), tempfile.mkdtemp(prefix="rowlock-losing-")
    path = str(Path(root) / "table")
    try:
        rowlock.write(spark.range(0, count, 1, 8).selectExpr("id", "id % 97 as g", "0L as v", "concat('row ', id) as s"), path)
        table, other = DeltaTable.forPath(spark, path), DeltaTable.forPath(spark, path)
        where = f"cast(id as double) % {count // 1000} = 5"
        few = lambda: other.update(f"{where} and id < {count // 100}", {"s": "'changed'"})  # noqa: E731
        meet = Meet(few if given["winner"] == "rows" else other.optimize().executeCompaction, reads)
        with use_observer(meet):
            table.update(where, {"v": "v + 1"})
        figures, receipt = reads.figures("rebase and commit", meet.start), table.lastReceipt
        assert receipt is not None and receipt.rounds == 1
        began = clock.monotonic_s()
        table.update(where, {"v": "v + 1"})
        figures |= reads.figures("a full run at the new head", began)
        return result(figures, exact=[tuple(r) for r in table.toDF().selectExpr("sum(v)").collect()] == [(2000,)])
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main(measure)
