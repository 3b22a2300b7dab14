"""Measures concurrent writers of one table: one scenario that any engine with delta-spark's DeltaTable interface can run.

Each writer adds 1 to rows of its own, all in the same file, again and again; a statement that fails is run again until it
commits.  Measured are commits a second, and how many statements failed.  At the end the sum over all rows must be exact.

The scenario uses only what delta-spark's DeltaTable and Rowlock's have in common.  `python -m rowlock_bench.contend` runs it
with Rowlock, `rowlock_bench.contend_delta` with delta-spark.  It prints one line: RESULT {json}.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from rowlock import clock
from rowlock.threads import side_by_side

SLOTS = 64  # writer w changes the rows whose id % SLOTS is w; with `hot` every writer also changes slot 63


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine in the scenario: how to make a session, its DeltaTable class, append and read, and the command of a worker process."""

    name: str
    session: Callable[..., Any]
    table_class: Callable[[], Any]
    append: Callable[[Any, str], object]
    read: Callable[[Any, str], Any]
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scenario:
    """The scenario's parameters: `commits` by all writers together, `alone` by a single writer, giving up after `seconds`."""

    op: str = "update"
    rows: int = 1_000_000
    writers: int = 8
    commits: int = 24
    alone: int = 8
    processes: bool = False
    hot: bool = False
    seconds: float = 240.0
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Tally:
    """A writer's result: commits done, statements that failed, seconds of each commit, errors by type."""

    done: int = 0
    wasted: int = 0
    latencies: list[float] = field(default_factory=list)
    errors: dict[str, int] = field(default_factory=dict)


def statement(spark: Any, t: Any, s: Scenario, writer: int, number: int) -> None:
    """Adds 1 to v of the writer's rows with g < 10; one literal differs from call to call, so that no plan can be reused as it is."""
    mine = f"(id % {SLOTS} = {writer}{f' or id % {SLOTS} = {SLOTS - 1}' if s.hot else ''})"
    if s.op == "update":
        t.update(f"{mine} and g < 10 and v > {-number - 1}", {"v": "v + 1"})
        return
    source = spark.range(0, s.rows).where(f"{mine} and id % 97 < 10").selectExpr("id", "cast(1 as bigint) as d")
    merge = t.alias("t").merge(source.alias("s"), f"t.id = s.id and t.v > {-number - 1}")
    merge.whenMatchedUpdate(set={"v": "t.v + s.d"}).whenNotMatchedInsert(values={"id": "s.id", "v": "s.d"}).execute()


def write(spark: Any, t: Any, s: Scenario, writer: int, take: Callable[[], bool]) -> Tally:
    """Runs statements while `take` grants one; runs each again until it commits or the time is over."""
    tally, end, number = Tally(), clock.monotonic_s() + s.seconds, 0
    while take():
        began, landed = clock.monotonic_s(), False
        while not landed:
            try:
                statement(spark, t, s, writer, number)
                landed = True
            except Exception as error:
                tally.wasted += 1
                tally.errors[type(error).__name__] = tally.errors.get(type(error).__name__, 0) + 1
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


def threads(engine: Engine, spark: Any, path: str, s: Scenario, writers: int, commits: int) -> tuple[list[Tally], float]:
    """Runs the writers as threads of this process; returns their results and the seconds in all."""
    take, began = turns(commits), clock.monotonic_s()
    tallies = side_by_side(lambda w: write(spark, engine.table_class().forPath(spark, path), s, w, take), range(writers), writers)
    return tallies, clock.monotonic_s() - began


def processes(engine: Engine, path: str, s: Scenario) -> tuple[list[Tally], float]:
    """Runs the writers as processes with a session each; returns their results and the seconds since all were ready."""
    each = json.dumps(asdict(s))
    crew = [
        subprocess.Popen(
            [*engine.command, "--worker", str(w), "--path", path, each], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        for w in range(s.writers)
    ]
    for process in crew:
        assert process.stdout
        while (line := process.stdout.readline().strip()) != "READY":
            if not line and process.poll() is not None:
                raise RuntimeError("a writer ended before it was ready")
    began = clock.monotonic_s()
    for process in crew:
        assert process.stdin
        process.stdin.write("GO\n")
        process.stdin.flush()
    tallies = [Tally(**json.loads(process.communicate()[0].strip().splitlines()[-1])) for process in crew]
    return tallies, clock.monotonic_s() - began


def work(engine: Engine, path: str, s: Scenario, writer: int) -> None:
    """The main function of a writer process."""
    spark = engine.session(cores=1, memory_mb=1024)
    t = engine.table_class().forPath(spark, path)
    t.toDF().limit(1).collect()
    print("READY", flush=True)
    sys.stdin.readline()
    print(json.dumps(asdict(write(spark, t, s, writer, turns(s.commits // s.writers)))), flush=True)


def account(tallies: list[Tally], seconds: float) -> dict[str, Any]:
    """The writers' results summed up, with quantiles of the seconds of a commit."""
    latencies = sorted(x for t in tallies for x in t.latencies) or [0.0]
    errors: Counter[str] = Counter()
    for t in tallies:
        errors.update(t.errors)
    done = sum(t.done for t in tallies)
    return {
        "commits": done,
        "in_vain": sum(t.wasted for t in tallies),
        "per_second": round(done / seconds, 3),
        "p50_s": round(latencies[len(latencies) // 2], 3),
        "p95_s": round(latencies[int(len(latencies) * 0.95)], 3),
        "errors": dict(errors.most_common(3)),
    }


def contend(engine: Engine, s: Scenario) -> dict[str, Any]:
    """Creates the table, warms up with two statements, measures one writer alone and then all, and checks the sum."""
    spark = engine.session(cores=2, memory_mb=4096)
    folder = Path(tempfile.mkdtemp(prefix="rowlock-bench-"))
    path = str(folder / "table")
    try:
        rows = spark.range(s.rows).selectExpr("id", "id % 97 as g", "cast(0 as bigint) as v", "concat('name-', id) as s").coalesce(1)
        builder = engine.table_class().create(spark).location(path).addColumns(rows.schema).property("delta.enableDeletionVectors", "true")
        for name, value in s.properties.items():
            builder = builder.property(name, value)
        builder.execute()
        engine.append(rows, path)
        warm, _ = threads(engine, spark, path, s, 1, 2)
        alone, alone_s = threads(engine, spark, path, s, 1, s.alone)
        many, many_s = processes(engine, path, s) if s.processes else threads(engine, spark, path, s, s.writers, s.commits)
        slots = dict(rows.where("g < 10").selectExpr(f"id % {SLOTS} as slot").groupBy("slot").count().collect())
        shared = slots.get(SLOTS - 1, 0) if s.hot else 0
        want = sum(t.done * (slots[w] + shared) for part in (warm, alone, many) for w, t in enumerate(part))
        found = tuple(engine.read(spark, path).selectExpr("sum(v)", "count(*)").first())
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {"engine": engine.name, "alone": account(alone, alone_s), "many": account(many, many_s), "exact": found == (want, s.rows)}


def main(engine: Engine) -> None:
    """The command line of the scenario with an engine."""

    def command(scenario: str, worker: Annotated[int, typer.Option()] = -1, path: Annotated[str, typer.Option()] = "") -> None:
        s = Scenario(**json.loads(scenario))
        if worker >= 0:
            work(engine, path, s, worker)
        else:
            print("RESULT " + json.dumps(contend(engine, s)), flush=True)

    typer.run(command)


def rowlock_engine() -> Engine:
    """Rowlock as an engine of the scenario."""
    import rowlock

    return Engine(
        name="rowlock",
        session=rowlock.spark,
        table_class=lambda: rowlock.DeltaTable,
        append=lambda rows, path: rowlock.write(rows, path, mode="append"),
        read=rowlock.read,
        command=(sys.executable, "-m", "rowlock_bench.contend"),
    )


if __name__ == "__main__":
    main(rowlock_engine())
