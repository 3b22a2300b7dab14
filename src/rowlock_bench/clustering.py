"""Measures clustering: what the first OPTIMIZE costs, bytes that range queries skip after it, and bytes that incremental rounds rewrite.

`x` is uniform, `y` is skewed, both are clustering keys; the table begins in no order.  A query is a range of `x`, of `y` or of both, over 0.1 to 10 % of
the values; files are skipped by the same code for every engine, from the bounds in the table's log.  Then each round appends rows and optimizes again.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

import rowlock
from rowlock import DeltaTable, clock
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import predicates
from rowlock.protocol.predicates import And, Predicate
from rowlock.storage.open import open_store
from rowlock.transaction.state.shared import state_of
from rowlock_bench.engines import delta_session, engine
from rowlock_bench.processes import Result, main, result
from rowlock_bench.statements import Usage

_SPREAD = 1_000_000_000
"""Values of x are below this, those of y below its square root times a little: half of y's values are below an eighth of its range."""
_QUERIES, _APPENDED, _SEED = 100, 0.02, 1


def measure(given: dict[str, Any]) -> Result:
    """Makes the table, lets the engine optimize it, asks the queries, and runs the rounds."""
    spark = delta_session(cores=2, memory_mb=3072, shuffle_partitions=8)
    spark.conf.set("spark.databricks.delta.optimize.maxFileSize", str(given["target_kb"] * 1024))
    folder = tempfile.mkdtemp(prefix="rowlock-clustering-")
    path, rows = str(Path(folder) / "table"), given["rows"]
    usage = Usage((os.getpid(), int(spark._jvm.java.lang.ProcessHandle.current().pid())))
    try:
        columns = spark.sql("select id, id as x, id as y, string(id) as v from range(0)").schema
        DeltaTable.create(spark).location(path).addColumns(columns).clusterBy("x", "y").property("delta.targetFileSize", f"{given['target_kb']}kb").execute()
        append(spark, path, 0, rows, _SEED, files=16)
        table = engine(given["engine"]).table_class.forPath(spark, path)  # type: ignore[union-attr]
        began, used = clock.monotonic_s(), usage.cpu_s()
        table.optimize().executeCompaction()
        figures = {"first OPTIMIZE, s": clock.monotonic_s() - began, "first OPTIMIZE, s of a processor": usage.cpu_s() - used}
        figures |= {"size of the files, MB": sizes(head(path)) / 1e6, "read by the queries, MB": read(path, ranges(_QUERIES, _SEED)) / 1e6}
        few, rewritten = int(rows * _APPENDED), 0
        for number in range(given["rounds"]):
            append(spark, path, rows + number * few, few, _SEED + 1 + number, files=2)
            before = head(path)
            table.optimize().executeCompaction()
            there = {f.path for f in head(path).files.adds()}
            rewritten += sum(f.size_bytes for f in before.files.adds() if f.path not in there)
        figures |= {"rewritten by the rounds, MB": rewritten / 1e6, "read by the queries after the rounds, MB": read(path, ranges(_QUERIES, _SEED)) / 1e6}
        count, total = spark.read.format("delta").load(path).selectExpr("count(*)", "sum(id)").first()
        whole = rows + few * given["rounds"]
        return result(figures, exact=(count, total) == (whole, whole * (whole - 1) // 2))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def append(spark: Any, path: str, start: int, count: int, seed: int, *, files: int) -> None:
    """Appends `count` rows whose keys say nothing of each other."""
    uniform = "pmod(xxhash64(id, {}), 1000000000)"
    frame = spark.range(start, start + count, numPartitions=files).selectExpr(
        "id", f"{uniform.format(1)} as x", f"cast(pow({uniform.format(2)} / 1e9, 3) * 1e9 as bigint) as y", f"concat('row ', hex(xxhash64(id, {seed}))) as v"
    )
    rowlock.write(frame, path)


def ranges(count: int, seed: int) -> list[Predicate]:
    """Ranges of x, of y and of both, in turn, over 0.1 to 10 % of the values each."""
    dice = random.Random(seed)

    def between(column: str) -> Predicate:
        share = 10 ** dice.uniform(-3, -1)
        low = dice.uniform(0, 1 - share)
        bounds = [(low + n * share) ** (3 if column == "y" else 1) * _SPREAD for n in (0, 1)]
        return And((predicates.compare(">=", (column,), int(bounds[0])), predicates.compare("<", (column,), int(bounds[1]))))

    return [[between("x"), between("y"), And((between("x"), between("y")))][n % 3] for n in range(count)]


def read(path: str, queries: list[Predicate]) -> int:
    """Bytes of the files that the queries must read, all together."""
    snapshot = head(path)
    return sum(f.size_bytes for q in queries for f in snapshot.files.prune(q, snapshot.schema, snapshot.partition_columns))


def sizes(snapshot: Snapshot) -> int:
    return sum(f.size_bytes for f in snapshot.files.adds())


def head(path: str) -> Snapshot:
    return state_of(open_store(path)).refresh()


if __name__ == "__main__":
    main(measure)
