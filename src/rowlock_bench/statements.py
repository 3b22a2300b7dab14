"""Measures statements that run one after the other on one table, with any engine that has delta-spark's DeltaTable interface.

Plain Parquet takes part where the work is the same without a log.  At the end the rows of the table are compared with what numpy works out.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rowlock import clock
from rowlock.threads import side_by_side
from rowlock_bench.engines import ROWLOCK, engine
from rowlock_bench.processes import Result, main, result

_TRIES = 20
_PORTION = 1_000_000


@dataclass(frozen=True, slots=True)
class Scenario:
    """The scenario's parameters: rows of the table, the statements to run, the JVM's heap in MB, how many tasks run at once."""

    engine: str
    rows: int
    statements: tuple[str, ...]
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


class Run:
    """One run of the scenario with one engine, on one table."""

    def __init__(self, scenario: Scenario, path: str) -> None:
        self.engine, self.scenario, self.path = engine(scenario.engine), scenario, path
        self.spark = self.engine.session(cores=scenario.cores, memory_mb=scenario.memory_mb, shuffle_partitions=2 * scenario.cores)
        self.usage = Usage((os.getpid(), int(self.spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())))
        self.receipts: list[Any] = []

    def measured(self) -> Result:
        """Runs the statements; returns for each its seconds, processor time and the phases of its receipt, and the peak of this process's memory."""
        figures: dict[str, float] = {}
        phases, peak, is_table = {}, 0, self.engine.table_class is not None
        for name in self.scenario.statements:
            chosen = STATEMENTS[name]
            if not is_table and not chosen.on_parquet:
                continue
            self.receipts = []
            self.usage.reset()
            began, used = clock.monotonic_s(), self.usage.cpu_s()
            chosen.run(self)
            figures |= {f"{name}, s": clock.monotonic_s() - began, f"{name}, s of a processor": self.usage.cpu_s() - used}
            peak = max(peak, self.usage.read()[0])
            phases[f"{name}, s"] = self._phases()
        v, rows = self.engine.read(self.spark, self.path).selectExpr("sum(v)", "count(*)").first()
        exact = not is_table or [int(v or 0), int(rows)] == expected(self.scenario.rows, self.scenario.statements)
        return result(figures | {"peak of the driver's Python, MB": peak}, exact=exact, phases=phases)

    def _phases(self) -> dict[str, float]:
        """The seconds of the statement's receipts by phase, with its tries to put; empty for engines without receipts."""
        out: dict[str, float] = {}
        for receipt in self.receipts:
            for phase, seconds in getattr(receipt, "seconds", {}).items():
                out[phase] = round(out.get(phase, 0.0) + seconds, 2)
        return out

    def on_table(self, statement: Callable[[Any], object]) -> None:
        """Runs a statement on the table, and keeps its receipt."""
        assert self.engine.table_class is not None
        table = self.engine.table_class.forPath(self.spark, self.path)
        statement(table)
        self.receipts.append(getattr(table, "lastReceipt", None))

    def rows(self, start: int, end: int, partitions: int) -> Any:
        return self.spark.range(start, end, 1, partitions).selectExpr(
            "id",
            "cast(id % 1000 as int) as g",
            "rand(7) as x",
            "concat('name-', cast(id % 100000 as string)) as name",
            "id * 7 % 1000003 as k",
            "cast(0 as bigint) as v",
        )

    def merge(self, first: int, end: int, step: int) -> None:
        """Merges rows by id: adds 100 to v of those that are there, inserts the others."""
        source = self.spark.range(first, end, step, 4).selectExpr(
            "id", "cast(5 as int) as g", "cast(0.5 as double) as x", "'m' as name", "id as k", "cast(100 as bigint) as v"
        )

        def statement(table: Any) -> None:
            merge = table.alias("t").merge(source.alias("s"), "t.id = s.id")
            merge.whenMatchedUpdate(set={"v": "t.v + s.v", "name": "s.name"}).whenNotMatchedInsertAll().execute()

        self.on_table(statement)


class Statement(NamedTuple):
    """A statement: runs it; does the same to arrays of ids, of which rows are there, and of their v; whether plain Parquet takes part."""

    run: Callable[[Run], None]
    effect: Callable[[int, Any, Any, Any], None] = lambda rows, ids, lives, v: None
    on_parquet: bool = False


def _write(run: Run) -> None:
    run.receipts.append(run.engine.write(run.rows(0, run.scenario.rows, 16), run.path))


def _written(rows: int, ids: Any, lives: Any, v: Any) -> None:
    lives |= ids < rows


def _append_few(run: Run) -> None:
    run.receipts.append(run.engine.write(run.rows(_few(run.scenario.rows), _few(run.scenario.rows) + 100, 1), run.path))


def _few(rows: int) -> int:
    """The first id of the rows of a small append: none that is there, and none that a MERGE before it brings."""
    return rows + rows // 4 + 7


def _appended(rows: int, ids: Any, lives: Any, v: Any) -> None:
    lives |= (ids >= _few(rows)) & (ids < _few(rows) + 100)


def _scan(run: Run) -> None:
    run.engine.read(run.spark, run.path).selectExpr("sum(v)", "count(*)", "sum(x)", "max(name)").collect()


def _scan_more(run: Run) -> None:
    for _ in range(3):  # what the first scan of its kind compiled is there
        _scan(run)


def _optimize(run: Run) -> None:
    if run.engine.table_class is None:
        run.spark.read.parquet(run.path).coalesce(1).write.parquet(f"{run.path}-optimized")
        return
    run.on_table(lambda table: table.optimize().executeCompaction())


def _delete(step: int, rest: int) -> Statement:
    def effect(rows: int, ids: Any, lives: Any, v: Any) -> None:
        lives &= ids % step != rest

    return Statement(lambda run: run.on_table(lambda table: table.delete(f"id % {step} = {rest}")), effect)


def _update(step: int, rest: int) -> Statement:
    def effect(rows: int, ids: Any, lives: Any, v: Any) -> None:
        v[lives & (ids % step == rest)] += 1

    return Statement(lambda run: run.on_table(lambda table: table.update(f"id % {step} = {rest}", {"v": "v + 1"})), effect)


def _merge(span: Callable[[int], tuple[int, int, int]], *more: Callable[[int], tuple[int, int, int]]) -> Statement:
    """A MERGE of ids (first, end, step), which depend on the number of rows; several run at once, each again until it commits."""

    def once(run: Run, chosen: Callable[[int], tuple[int, int, int]]) -> None:
        for left in range(_TRIES, 0, -1):
            try:
                return run.merge(*chosen(run.scenario.rows))
            except Exception as error:
                if not more or "Concurrent" not in type(error).__name__ or left == 1:
                    raise

    def run(run: Run) -> None:
        side_by_side(partial(once, run), (span, *more), 1 + len(more))

    def effect(rows: int, ids: Any, lives: Any, v: Any) -> None:
        for first, end, step in (chosen(rows) for chosen in (span, *more)):
            given = (ids >= first) & (ids < end) & ((ids - first) % step == 0)
            v[given] = np.where(lives[given], v[given] + 100, 100)
            lives |= given

    return Statement(run, effect)


SHARES = ("0.1 %", "1 %", "10 %")
"""The shares of rows that the scans of files with vectors delete one after the other."""
STATEMENTS = {
    "write": Statement(_write, _written, on_parquet=True),
    "UPDATE of half": _update(2, 0),
    "DELETE of a third": _delete(3, 1),
    "MERGE of a tenth": _merge(lambda rows: (0, rows + rows // 10, 10)),
    "MERGE of as many rows, half of them new": _merge(lambda rows: (rows // 2, rows + rows // 2, 1)),
    "scan with vectors": Statement(_scan, on_parquet=True),
    "OPTIMIZE": Statement(_optimize, on_parquet=True),
    "two MERGEs at once": _merge(lambda rows: (0, rows, 20), lambda rows: (10, rows, 20)),
    "scan": Statement(_scan, on_parquet=True),
    "DELETE of 1 %": _delete(100, 7),
    "scan, 1 % in vectors": Statement(_scan, on_parquet=True),
    "UPDATE of 1 %": _update(100, 8),
    "MERGE of 1 %": _merge(lambda rows: (9, rows + rows // 5, 100)),
    "append of 100 rows": Statement(_append_few, _appended),
    "DELETE of one row": _delete(1 << 40, 123),
    "scan after all": Statement(_scan, on_parquet=True),
    "DELETE of 0.1 %": _delete(1000, 77),
    "scan, 0.1 % in vectors": Statement(_scan, on_parquet=True),
    "DELETE of 10 %": _delete(10, 3),
    "scan, 10 % in vectors": Statement(_scan, on_parquet=True),
    **{f"three more scans, {share} in vectors": Statement(_scan_more, on_parquet=True) for share in SHARES},
}
_SCANS = (("DELETE of", ""), ("scan,", " in vectors"), ("three more scans,", " in vectors"))
LARGE = tuple(STATEMENTS)[:8]
IDLE = tuple(STATEMENTS)[8:16]
SCANS = ("scan", *(f"{what} {share}{of}" for share in SHARES for what, of in _SCANS))


def expected(rows: int, statements: Iterable[str]) -> list[int]:
    """[sum of v, number of rows] after the statements, worked out with numpy, a portion of the ids at a time."""
    total = count = 0
    end = rows + rows // 2 + 107
    for start in range(0, end, _PORTION):
        ids = np.arange(start, min(start + _PORTION, end), dtype=np.int64)
        lives, v = np.zeros(len(ids), np.bool_), np.zeros(len(ids), np.int64)
        for name in statements:
            STATEMENTS[name].effect(rows, ids, lives, v)
        total, count = total + int(v[lives].sum()), count + int(lives.sum())
    return [total, count]


def measured(given: dict[str, Any]) -> Result:
    """Runs the scenario on a table in a temporary folder."""
    folder = Path(tempfile.mkdtemp(prefix="rowlock-statements-"))
    try:
        return Run(Scenario(**{"engine": ROWLOCK, **given, "statements": tuple(given["statements"])}), str(folder / "table")).measured()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(measured)
