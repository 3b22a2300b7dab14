"""Clustering beside delta-spark's: bytes that range queries skip, and bytes that incremental rounds rewrite, in one session.

    python -m rowlock_bench.clustering [--rows 5000000] [--target-kb 1024] [--queries 100] [--rounds 10] [--appended 0.02] [--seed 1]

Two tables begin with the same files, in no order: `x` is uniform, `y` is skewed, both are clustering keys.  One is optimized by Rowlock, the other by
delta-spark, with the same size of files.  A query is a range of `x`, of `y` or of both, over 0.1 to 10 % of the values; both tables' files are
skipped by the same code, from the bounds in their logs.  Then each round appends rows to both and optimizes both again.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from delta.tables import DeltaTable as Theirs
from pyspark.sql import SparkSession

import rowlock
from rowlock import DeltaTable, clock
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import predicates
from rowlock.protocol.predicates import And, Predicate
from rowlock.storage.open import open_store
from rowlock.transaction.state.shared import state_of
from rowlock_bench import delta_session
from rowlock_bench.large_statements import Usage

SPREAD = 1_000_000_000
"""Values of x are below this, those of y below its square root times a little: half of y's values are below an eighth of its range."""


class Optimized(NamedTuple):
    """An OPTIMIZE: the sizes of what it removed and added, seconds of processor time of the JVM, and of the clock."""

    removed_bytes: int
    added_bytes: int
    files: int
    cpu_s: float
    clock_s: float


class Engine:
    """A table and who optimizes it."""

    def __init__(self, name: str, spark: SparkSession, path: str) -> None:
        self.name, self.spark, self.path = name, spark, path

    def optimize(self) -> Optimized:
        """Optimizes the table and says what that rewrote."""
        before, cpu, started = head(self.path), cpu_seconds(self.spark), clock.monotonic_s()
        if self.name == "rowlock":
            DeltaTable.forPath(self.spark, self.path).optimize().executeCompaction()
        else:
            Theirs.forPath(self.spark, self.path).optimize().executeCompaction()
        took = clock.monotonic_s() - started, cpu_seconds(self.spark) - cpu
        old, new = ({f.path: f.size_bytes for f in s.files.adds()} for s in (before, head(self.path)))
        return Optimized(sum(n for p, n in old.items() if p not in new), sum(n for p, n in new.items() if p not in old), len(new), took[1], took[0])

    def skipped(self, queries: list[Predicate]) -> list[int]:
        """For each query the bytes of the files that it need not read."""
        snapshot = head(self.path)
        total = sum(f.size_bytes for f in snapshot.files.adds())
        return [total - sum(f.size_bytes for f in snapshot.files.prune(q, snapshot.schema, snapshot.partition_columns)) for q in queries]

    def total_bytes(self) -> int:
        return sum(f.size_bytes for f in head(self.path).files.adds())


def main() -> None:
    said = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("rows", 5_000_000), ("target-kb", 1024), ("queries", 100), ("rounds", 10), ("seed", 1), ("memory-mb", 3072)):
        said.add_argument(f"--{name}", type=int, default=default)
    said.add_argument("--appended", type=float, default=0.02, help="rows of a round, as a share of the table's first")
    given = said.parse_args()
    spark = delta_session.session(cores=2, memory_mb=given.memory_mb, shuffle_partitions=8)
    spark.conf.set("spark.databricks.delta.optimize.maxFileSize", str(given.target_kb * 1024))
    folder = Path(tempfile.mkdtemp(prefix="clustering-"))
    try:
        compare(spark, folder, given)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        spark.stop()


def compare(spark: SparkSession, folder: Path, given: argparse.Namespace) -> None:
    """Prints all figures."""
    ours, theirs = Engine("rowlock", spark, str(folder / "rowlock")), Engine("delta-spark", spark, str(folder / "delta"))
    columns = spark.sql("select id, id as x, id as y, string(id) as v from range(0)").schema
    DeltaTable.create(spark).location(ours.path).addColumns(columns).clusterBy("x", "y").property("delta.targetFileSize", f"{given.target_kb}kb").execute()
    append(spark, ours.path, 0, given.rows, given.seed, files=16)
    shutil.copytree(ours.path, theirs.path)
    queries = ranges(given.queries, given.seed)
    engines = [ours, theirs] if random.Random(given.seed).random() < 0.5 else [theirs, ours]
    print(f"{given.rows:,} rows, {ours.total_bytes():,} bytes, load {os.getloadavg()[0]:.1f}; {engines[0].name} first", flush=True)
    first = {e.name: e.optimize() for e in engines}
    for e in (ours, theirs):
        say(f"{e.name}, first OPTIMIZE", first[e.name])
    print(f"ratio of processor time {first['rowlock'].cpu_s / first['delta-spark'].cpu_s:.2f}", flush=True)
    say_skipped(queries, ours, theirs)
    appended = int(given.rows * given.appended)
    totals = {e.name: 0 for e in engines}
    for number in range(given.rounds):
        for e in engines:
            append(spark, e.path, given.rows + number * appended, appended, given.seed + 1 + number, files=2)
        done = {e.name: e.optimize() for e in engines}
        totals = {name: totals[name] + found.removed_bytes for name, found in done.items()}
        rewritten = {name: f"{found.removed_bytes:,}" for name, found in done.items()}
        print(f"round {number + 1}: bytes rewritten {rewritten['rowlock']} beside {rewritten['delta-spark']}", flush=True)
        assert done["rowlock"].removed_bytes <= done["delta-spark"].removed_bytes
    if given.rounds:
        print(f"all rounds: {totals['rowlock']:,} beside {totals['delta-spark']:,} bytes, {totals['rowlock'] / totals['delta-spark']:.3f} of it")
        say_skipped(queries, ours, theirs)
    rows = [spark.read.format("delta").load(e.path).selectExpr("count(*)", "sum(id)", "sum(hash(*))").collect()[0] for e in (ours, theirs)]
    assert rows[0] == rows[1], f"the tables differ: {rows}"
    print(f"load {os.getloadavg()[0]:.1f} at the end; both tables hold the same {rows[0][0]:,} rows")


def append(spark: SparkSession, path: str, start: int, count: int, seed: int, *, files: int) -> None:
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
        bounds = [(low + n * share) ** (3 if column == "y" else 1) * SPREAD for n in (0, 1)]
        return And((predicates.compare(">=", (column,), int(bounds[0])), predicates.compare("<", (column,), int(bounds[1]))))

    return [[between("x"), between("y"), And((between("x"), between("y")))][n % 3] for n in range(count)]


def say(what: str, found: Optimized) -> None:
    print(
        f"{what}: {found.files} files, {found.removed_bytes:,} bytes read, {found.added_bytes:,} written, {found.cpu_s:.1f} s of processor time, {found.clock_s:.1f} s"
    )


def say_skipped(queries: list[Predicate], ours: Engine, theirs: Engine) -> None:
    """Prints the bytes that all queries skip in both tables, and the same for queries of one and of both keys."""
    found = {e.name: e.skipped(queries) for e in (ours, theirs)}
    shares = {e.name: [sum(found[e.name][k::3]) / e.total_bytes() / len(found[e.name][k::3]) for k in range(min(3, len(queries)))] for e in (ours, theirs)}
    sums = {e.name: (sum(found[e.name]), e.total_bytes() * len(queries)) for e in (ours, theirs)}
    share = {name: skipped / total for name, (skipped, total) in sums.items()}
    print(
        f"{len(queries)} queries skip {sums['rowlock'][0]:,} bytes beside {sums['delta-spark'][0]:,}; as shares of the tables {share['rowlock']:.4f} beside {share['delta-spark']:.4f}"
    )
    print("  bytes left to read: " + " beside ".join(f"{total - skipped:,}" for skipped, total in sums.values()))
    for name, of_key in shares.items():
        print(f"  {name}: of the table are skipped, by x, by y, by both: {', '.join(f'{100 * s:.1f} %' for s in of_key)}", flush=True)


def head(path: str) -> Snapshot:
    return state_of(open_store(path)).refresh()


def cpu_seconds(spark: SparkSession) -> float:
    """Seconds of processor time of this process and of the JVM."""
    return Usage((os.getpid(), int(spark._jvm.java.lang.ProcessHandle.current().pid()))).cpu_s()  # type: ignore[union-attr]


if __name__ == "__main__":
    main()
