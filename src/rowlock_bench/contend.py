"""Measures concurrent writers of one table with any engine that has delta-spark's DeltaTable interface.

Each writer adds 1 to rows of its own, all in the same file, again and again; a statement that fails is run again until it
commits.  Measured are commits a second, and how many statements failed.  At the end the sum over all rows must be exact.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rowlock import clock
from rowlock.threads import side_by_side
from rowlock_bench.engines import ROWLOCK, engine
from rowlock_bench.processes import Result, main, result, together, wait_for_the_others

SLOTS = 64
"""Writer w changes the rows whose id % SLOTS is w, however its condition says that; with `hot` every writer changes those of the last slot, too."""


class Shape(NamedTuple):
    """A kind of UPDATE: the condition that is met by the rows of writer {w}, and what it sets."""

    mine: str
    sets: dict[str, str]


_ADD = {"v": "v + 1"}
SHAPES = {
    "integers": Shape("id % 64 = {w}", _ADD),
    "strings with LIKE": Shape("t like 'writer-{w:02d}-%'", _ADD),
    "functions of columns": Shape("upper(substring(t, 1, 9)) = 'WRITER-{w:02d}' and length(s) > 5", _ADD),
    "dates": Shape("day = date_add(date'2024-01-01', {w})", _ADD),
    "decimals": Shape("price between {w} and {w}.99", _ADD),
    "IN": Shape("id % 64 in ({w}, {w} + 32)", _ADD),
    "a wide update": Shape("id % 64 = {w}", {**_ADD, "s": "concat(s, '')", "t": "lower(t)", "day": "date_add(day, 0)", "price": "price", "x": "x + 1"}),
}
_COLUMNS = ("id", "id % 97 as g", "cast(0 as bigint) as v", "concat('name-', id) as s")
_MORE_COLUMNS = (
    "concat('writer-', lpad(id % 64, 2, '0'), '-', id % 1000) as t",
    "date_add(date'2024-01-01', cast(id % 64 as int)) as day",
    "cast(id % 64 + id % 100 / 100 as decimal(10, 2)) as price",
    "cast(id as double) as x",
)


@dataclass(frozen=True, slots=True)
class Scenario:
    """The scenario's parameters: `commits` by all writers together, `alone` by a single writer, giving up after `seconds`."""

    engine: str = ROWLOCK
    op: str = "update"
    shape: str = "integers"
    rows: int = 1_000_000
    writers: int = 8
    commits: int = 24
    alone: int = 8
    processes: bool = False
    hot: bool = False
    seconds: float = 120.0
    properties: dict[str, str] = field(default_factory=dict)

    def mine(self, writer: int) -> str:
        """The condition that the rows of a writer meet, over columns that no statement changes."""
        own = SHAPES[self.shape].mine.format(w=writer)
        return f"({own}{f' or id % {SLOTS} = {SLOTS - 1}' if self.hot else ''}) and g < 10"

    def table(self, spark: Any) -> Any:
        """The first rows of the table, as a frame of one file."""
        columns = _COLUMNS if self.shape == "integers" else (*_COLUMNS, *_MORE_COLUMNS)
        return spark.range(self.rows).selectExpr(*columns).coalesce(1)


@dataclass(slots=True)
class Tally:
    """A writer's result: commits done, statements that failed, seconds of each commit."""

    done: int = 0
    wasted: int = 0
    latencies: list[float] = field(default_factory=list)


def statement(spark: Any, t: Any, s: Scenario, writer: int, number: int) -> None:
    """Adds 1 to v of the writer's rows; one literal differs from call to call, so that no plan can be reused as it is."""
    if s.op == "update":
        t.update(f"{s.mine(writer)} and v > {-number - 1}", SHAPES[s.shape].sets)
        return
    source = spark.range(0, s.rows).selectExpr("id", "id % 97 as g", "cast(1 as bigint) as d").where(s.mine(writer))
    merge = t.alias("t").merge(source.alias("s"), f"t.id = s.id and t.v > {-number - 1}")
    merge.whenMatchedUpdate(set={"v": "t.v + s.d"}).whenNotMatchedInsert(values={"id": "s.id", "v": "s.d"}).execute()


def write(spark: Any, t: Any, s: Scenario, writer: int, take: Callable[[], bool]) -> Tally:
    """Runs statements while `take` grants one; runs each again until it commits or the time is over."""
    tally, end, number = Tally(), clock.monotonic_s() + s.seconds, 0
    while clock.monotonic_s() < end and take():
        began, landed = clock.monotonic_s(), False
        while not landed:
            try:
                statement(spark, t, s, writer, number)
                landed = True
            except Exception:
                tally.wasted += 1
                if clock.monotonic_s() > end:
                    return tally
        tally.done, number = tally.done + 1, number + 1
        tally.latencies.append(clock.monotonic_s() - began)
    return tally


def turns(total: int) -> Callable[[], bool]:
    """A thread-safe function that returns True the first `total` times it is called."""
    left, lock = [total], threading.Lock()

    def take() -> bool:
        with lock:
            left[0] -= 1
            return left[0] >= 0

    return take


def threads(spark: Any, path: str, s: Scenario, writers: int, commits: int) -> tuple[list[Tally], float]:
    """Runs the writers as threads of this process; returns their results and the seconds in all."""
    table_class, take, began = engine(s.engine).table_class, turns(commits), clock.monotonic_s()
    assert table_class is not None
    tallies = side_by_side(lambda w: write(spark, table_class.forPath(spark, path), s, w, take), range(writers), writers)
    return tallies, clock.monotonic_s() - began


def processes(path: str, s: Scenario) -> tuple[list[Tally], float]:
    """Runs the writers as processes with a session each; returns their results and the seconds since all were ready."""
    command = [sys.executable, "-m", "rowlock_bench.contend", json.dumps(asdict(s)), path]
    tallies, seconds = together([[*command, str(w)] for w in range(s.writers)])
    return [Tally(**tally) for tally in tallies], seconds


def work(s: Scenario, path: str, writer: int) -> None:
    """The main function of a writer process."""
    spark = engine(s.engine).session(cores=1, memory_mb=1024)
    t = engine(s.engine).table_class.forPath(spark, path)  # type: ignore[union-attr]
    t.toDF().limit(1).collect()
    wait_for_the_others()
    print(json.dumps(asdict(write(spark, t, s, writer, turns(s.commits // s.writers)))), flush=True)


def contend(given: dict[str, Any]) -> Result:
    """Creates the table, warms up with two statements, measures one writer alone and then all, and checks the sum."""
    s = Scenario(**given)
    with_table = engine(s.engine)
    spark = with_table.session(cores=2, memory_mb=4096)
    folder = Path(tempfile.mkdtemp(prefix="rowlock-bench-"))
    path = str(folder / "table")
    try:
        rows = s.table(spark)
        builder = with_table.table_class.create(spark).location(path).addColumns(rows.schema).property("delta.enableDeletionVectors", "true")  # type: ignore[union-attr]
        for name, value in s.properties.items():
            builder = builder.property(name, value)
        builder.execute()
        with_table.write(rows, path)
        warm, _ = threads(spark, path, s, 1, 2)
        alone, alone_s = threads(spark, path, s, 1, s.alone)
        many, many_s = processes(path, s) if s.processes else threads(spark, path, s, s.writers, s.commits)
        own = [rows.where(s.mine(w)).count() for w in range(s.writers)]
        want = sum(t.done * own[w] for part in (warm, alone, many) for w, t in enumerate(part))
        found = tuple(with_table.read(spark, path).selectExpr("sum(v)", "count(*)").first())
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    latencies = sorted(x for t in many for x in t.latencies) or [many_s]
    figures = {"commits/s": sum(t.done for t in many) / many_s, "p50 of a commit, s": latencies[len(latencies) // 2]}
    figures |= {"statements in vain": sum(t.wasted for t in many), "one writer alone, commits/s": sum(t.done for t in alone) / alone_s}
    return result(figures, exact=found == (want, s.rows) and min(own) > 0)


if __name__ == "__main__":
    if sys.argv[2:]:
        work(Scenario(**json.loads(sys.argv[1])), sys.argv[2], int(sys.argv[3]))
    else:
        main(contend)
