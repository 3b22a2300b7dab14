"""Measures large statements: each changes a large part of a table, one after the other, with any engine that has delta-spark's DeltaTable interface.

The scenario uses only what delta-spark's DeltaTable and Rowlock's have in common; plain Parquet takes part where the work is the same without a log.
`python -m rowlock_bench.large_statements` runs it with Rowlock, `rowlock_bench.large_delta` with delta-spark.  It prints one line: RESULT {json}.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rowlock import clock
from rowlock.threads import side_by_side

STATEMENTS = ("write", "update_half", "delete_third", "merge_tenth", "merge_wide", "scan", "optimize", "two_merges")
"""The statements in the order in which they run."""
ON_PARQUET = ("write", "scan", "optimize")
"""Statements that are also measured on plain Parquet files."""
_TRIES = 20
_PORTION = 1_000_000


@dataclass(frozen=True, slots=True)
class LargeEngine:
    """An engine in the scenario: its session, how it writes and reads a table, and its DeltaTable class, None for plain files."""

    name: str
    session: Callable[..., Any]
    write: Callable[[Any, str], object]
    read: Callable[[Any, str], Any]
    table_class: Callable[[], Any] | None


@dataclass(frozen=True, slots=True)
class LargeScenario:
    """The scenario's parameters: rows of the table, the statements to run, the JVM's heap in MB, how many tasks run at once."""

    rows: int = 2_000_000
    statements: tuple[str, ...] = STATEMENTS
    memory_mb: int = 4096
    cores: int = 2


@dataclass(slots=True)
class Usage:
    """Usage of memory of this process and of its JVM since the last `reset`, in MB, and their processor time; 0 where the system does not say (it must be Linux)."""

    pids: tuple[int, int]

    def reset(self) -> None:
        for pid in self.pids:
            with suppress(OSError):
                Path(f"/proc/{pid}/clear_refs").write_text("5")

    def read(self) -> tuple[int, int]:
        """(Python's, the JVM's)."""
        return _peak_mb(self.pids[0]), _peak_mb(self.pids[1])

    def cpu_s(self) -> float:
        """Seconds of processor time that both have used so far: what a statement costs, however busy the machine is."""
        return sum(map(_cpu_s, self.pids))


def _cpu_s(pid: int) -> float:
    with suppress(OSError):
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _peak_mb(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) >> 10
    return 0


@dataclass(frozen=True, slots=True)
class Work:
    """What the Spark jobs of a session did so far: jobs, rows read and written by their stages, bytes shuffled and spilled."""

    jobs: int = 0
    rows_read: int = 0
    rows_written: int = 0
    shuffled: int = 0
    spilled: int = 0

    @classmethod
    def of(cls, spark: Any) -> Work:
        """Reads the sums from Spark's own status store."""
        store, jvm = spark.sparkContext._jsc.sc().statusStore(), spark.sparkContext._jvm
        nothing = jvm.java.util.ArrayList()
        found = store.stageList(nothing, False, False, spark.sparkContext._gateway.new_array(jvm.double, 0), nothing)
        stages = [found.apply(n) for n in range(found.size())]
        return cls(
            store.jobsList(nothing).size(),
            *(sum(getattr(s, name)() for s in stages) for name in ("inputRecords", "outputRecords", "shuffleWriteBytes", "memoryBytesSpilled")),
        )

    def since(self, before: Work) -> dict[str, int]:
        return {name: getattr(self, name) - getattr(before, name) for name in self.__slots__}


class Run:
    """One run of the scenario with one engine, on one table."""

    def __init__(self, engine: LargeEngine, scenario: LargeScenario, path: str) -> None:
        self.engine, self.scenario, self.path = engine, scenario, path
        self.spark = engine.session(cores=scenario.cores, memory_mb=scenario.memory_mb)
        jvm = int(self.spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
        self.usage = Usage((int(Path("/proc/self").resolve().name) if Path("/proc/self").exists() else 0, jvm))
        self.in_vain = 0
        self.receipts: list[Any] = []

    def measured(self) -> dict[str, Any]:
        """Runs the statements; returns for each its seconds, peaks of memory, what Spark did, and the phases of its receipt."""
        steps: dict[str, Any] = {}
        total = (0, 0)
        for name in self.scenario.statements:
            if self.engine.table_class is None and name not in ON_PARQUET:
                continue
            self.receipts, before = [], Work.of(self.spark)
            self.usage.reset()
            began, used = clock.monotonic_s(), self.usage.cpu_s()
            getattr(self, name)()
            seconds, peaks, used = clock.monotonic_s() - began, self.usage.read(), self.usage.cpu_s() - used
            total = max(total[0], peaks[0]), max(total[1], peaks[1])
            spent = {"s": round(seconds, 2), "cpu_s": round(used, 2), "python_mb": peaks[0], "jvm_mb": peaks[1]}
            steps[name] = {**spent, **Work.of(self.spark).since(before), "phases": self._phases()}
            print(f"{self.engine.name} {name} {seconds:.2f} s", file=sys.stderr, flush=True)
        v, rows = self.engine.read(self.spark, self.path).selectExpr("sum(v)", "count(*)").first()
        found = [int(v or 0), int(rows)]
        return {"engine": self.engine.name, "steps": steps, "python_mb": total[0], "jvm_mb": total[1], "in_vain": self.in_vain, "found": found}

    def _phases(self) -> dict[str, float]:
        """The seconds of the statement's receipts by phase, with its tries to put; empty for engines without receipts."""
        out: dict[str, float] = {}
        for receipt in self.receipts:
            for phase, seconds in getattr(receipt, "seconds", {}).items():
                out[phase] = round(out.get(phase, 0.0) + seconds, 2)
        return out

    # ---- statements ------------------------------------------------------------------------

    def _table(self) -> Any:
        assert self.engine.table_class is not None
        return self.engine.table_class().forPath(self.spark, self.path)

    def _note(self, table: Any) -> None:
        self.receipts.append(getattr(table, "lastReceipt", None))

    def write(self) -> None:
        rows = self.spark.range(0, self.scenario.rows, 1, 16).selectExpr(
            "id",
            "cast(id % 1000 as int) as g",
            "rand(7) as x",
            "concat('name-', cast(id % 100000 as string)) as name",
            "id * 7 % 1000003 as k",
            "cast(0 as bigint) as v",
        )
        self.receipts.append(self.engine.write(rows, self.path))

    def update_half(self) -> None:
        table = self._table()
        table.update("id % 2 = 0", {"v": "v + 1"})
        self._note(table)

    def delete_third(self) -> None:
        table = self._table()
        table.delete("id % 3 = 1")
        self._note(table)

    def merge_tenth(self) -> None:
        self._merge(0, self.scenario.rows + self.scenario.rows // 10, 10)

    def merge_wide(self) -> None:
        self._merge(self.scenario.rows // 2, self.scenario.rows + self.scenario.rows // 2, 1)

    def _merge(self, first: int, end: int, step: int) -> None:
        source = self.spark.range(first, end, step, 4).selectExpr(
            "id", "cast(5 as int) as g", "cast(0.5 as double) as x", "'m' as name", "id as k", "cast(100 as bigint) as v"
        )
        table = self._table()
        merge = table.alias("t").merge(source.alias("s"), "t.id = s.id")
        merge.whenMatchedUpdate(set={"v": "t.v + s.v", "name": "s.name"}).whenNotMatchedInsertAll().execute()
        self._note(table)

    def scan(self) -> None:
        self.engine.read(self.spark, self.path).selectExpr("sum(v)", "count(*)", "sum(x)").collect()

    def optimize(self) -> None:
        if self.engine.table_class is None:
            self.spark.read.parquet(self.path).coalesce(1).write.parquet(f"{self.path}-optimized")
            return
        table = self._table()
        table.optimize().executeCompaction()
        self._note(table)

    def two_merges(self) -> None:
        """Two MERGEs of different rows at once; each is run again until it commits."""
        side_by_side(self._until_it_commits, (0, 10), 2)

    def _until_it_commits(self, first: int) -> None:
        for left in range(_TRIES, 0, -1):
            try:
                self._merge(first, self.scenario.rows, 20)
                return
            except Exception as error:
                if "Concurrent" not in type(error).__name__ or left == 1:
                    raise
                self.in_vain += 1


def expected(rows: int, statements: Iterable[str]) -> list[int]:
    """[sum of v, number of rows] after the statements, worked out with numpy, a portion of the ids at a time."""
    total = count = 0
    merges = {"merge_tenth": [(0, rows + rows // 10, 10)], "merge_wide": [(rows // 2, rows + rows // 2, 1)], "two_merges": [(0, rows, 20), (10, rows, 20)]}
    for start in range(0, rows + rows // 2, _PORTION):
        ids = np.arange(start, min(start + _PORTION, rows + rows // 2), dtype=np.int64)
        lives, v = np.zeros(len(ids), np.bool_), np.zeros(len(ids), np.int64)
        for name in statements:
            if name == "write":
                lives |= ids < rows
            elif name == "update_half":
                v[lives & (ids % 2 == 0)] += 1
            elif name == "delete_third":
                lives &= ids % 3 != 1
            for first, end, step in merges.get(name, ()):
                given = (ids >= first) & (ids < end) & ((ids - first) % step == 0)
                v[given] = np.where(lives[given], v[given] + 100, 100)
                lives |= given
        total, count = total + int(v[lives].sum()), count + int(lives.sum())
    return [total, count]


def main(engine: LargeEngine, scenario: Mapping[str, Any]) -> None:
    """Runs the scenario on a table in a temporary folder and prints its RESULT."""
    folder = Path(tempfile.mkdtemp(prefix="rowlock-large-"))
    try:
        wanted = LargeScenario(**{**scenario, "statements": tuple(scenario["statements"])})
        print("RESULT " + json.dumps(Run(engine, wanted, str(folder / "table")).measured()), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _session(*, cores: int, memory_mb: int) -> Any:
    import rowlock

    spark = rowlock.spark(cores=cores, memory_mb=memory_mb)
    spark.conf.set("spark.sql.shuffle.partitions", str(2 * cores))
    return spark


def rowlock_engine() -> LargeEngine:
    """Rowlock in the scenario."""
    import rowlock

    return LargeEngine("rowlock", _session, lambda rows, path: rowlock.write(rows, path, mode="append"), rowlock.read, lambda: rowlock.DeltaTable)


def parquet_engine() -> LargeEngine:
    """Plain Parquet files, without a table, in the scenario."""
    return LargeEngine("parquet", _session, lambda rows, path: rows.write.parquet(path), lambda spark, path: spark.read.parquet(path), None)


if __name__ == "__main__":
    main(parquet_engine() if sys.argv[2:] == ["parquet"] else rowlock_engine(), json.loads(sys.argv[1]))
