"""What the tests' cluster goes through: statements, tasks that run twice, workers killed in the midst, many writers, a stream; and the sums after each.

Each step says what was killed when and what the rows are, and raises Wrong where a row is lost, doubled or changed twice.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rowlock import DeltaTable
from rowlock.testing import between
from servers.spark_cluster import SparkCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 20_000
FILES = 4


class Wrong(Exception):
    """The rows of the table are others than those of the statements, each carried out once."""


@dataclass
class Killed:
    """What became of a plan to kill a worker: `told` says what was killed when, once it has happened."""

    told: str = "nothing was killed"
    done: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)


@dataclass
class World:
    """A table of `rows` rows whose `v` sums up to `total`, on the session of one driver."""

    spark: SparkSession
    cluster: SparkCluster
    table: str
    say: Callable[[str], None] = print
    rows: int = 0
    total: int = 0

    def sql(self, text: str) -> list[Any]:
        return self.spark.sql(text.format(t=f"delta.`{self.table}`")).collect()

    def check(self, step: str, began: float, more: str = "") -> None:
        """Says the sums.  Raises Wrong where they are not those of the statements so far."""
        count, ids, total = self.sql("SELECT count(*), count(DISTINCT id), sum(v) FROM {t}")[0]
        self.say(f"{step}: {more + '; ' if more else ''}{count:,} rows, sum {total:,}; {time.monotonic() - began:.1f} s")
        if (count, ids, total) != (self.rows, self.rows, self.total):
            raise Wrong(f"{step}: {count} rows with {ids} ids and the sum {total}; of the statements come {self.rows} rows and the sum {self.total}")


@contextmanager
def _in_a_thread(work: Callable[[], None]) -> Iterator[None]:
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(work)
        yield
        done.result()


def _kill_at_work(world: World, what: Killed, stage: str, began: float, not_before: threading.Event | None = None) -> None:
    """Kills the worker with the most executors as soon as tasks of a stage whose name contains `stage` run, and starts another."""
    tracker = world.spark.sparkContext.statusTracker()
    while not what.over.wait(0.02):
        if not_before is not None and not not_before.is_set():
            continue
        for number in tracker.getActiveStageIds():
            info = tracker.getStageInfo(number)
            if info is not None and info.numActiveTasks > 0 and stage in info.name:
                worker = max(world.cluster.workers, key=lambda w: len(w.executors))
                executors = world.cluster.kill(worker)
                at = f"{time.monotonic() - began:.1f} s after the start"
                what.told = f"worker and its {executors} executors killed {at}, while {info.numActiveTasks} of {info.numTasks} tasks of stage {number} ({info.name.split(' at ')[0]}) ran"
                what.done.set()
                world.cluster.add_worker()
                return


@contextmanager
def a_worker_killed(world: World, stage: str = "", not_before: threading.Event | None = None) -> Iterator[Killed]:
    """Kills a worker while tasks run within the block.  Raises Wrong where none was killed."""
    killed = Killed()
    with _in_a_thread(lambda: _kill_at_work(world, killed, stage, time.monotonic(), not_before)):
        try:
            yield killed
        finally:
            killed.over.set()
    if not killed.done.is_set():
        raise Wrong("no task ran on the cluster while a worker was to be killed")


CREATE = "CREATE TABLE IF NOT EXISTS {t} (id BIGINT, k INT, v BIGINT) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"


def fill(world: World, rows: int = ROWS) -> None:
    """The table, in some files."""
    began = time.monotonic()
    world.sql(CREATE)
    world.sql(f"INSERT INTO {{t}} SELECT id, CAST(id % 10 AS INT), 0 FROM range({world.rows}, {world.rows + rows}, 1, {FILES})")
    world.rows += rows
    world.check("INSERT", began)


def slow_once(world: World) -> str:
    """Registers and names a function of one number that returns it, and whose first try in the first task takes 90 s."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import LongType

    waited: set[int] = set()

    def slow(n: int) -> int:
        import time as clock

        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == 0 and context.attemptNumber() == 0 and not waited:
            waited.add(1)
            clock.sleep(90)
        return n

    world.spark.udf.register("slow_once", F.udf(slow, LongType()).asNondeterministic())
    return "slow_once"


def speculation(world: World) -> None:
    """An INSERT in which a slow task is tried twice at once: its rows are there once."""
    world.sql(CREATE)
    began, slow = time.monotonic(), slow_once(world)
    world.sql(f"INSERT INTO {{t}} SELECT {slow}(id), -1, 0 FROM range({world.rows}, {world.rows + 10_000}, 1, 4)")
    took = time.monotonic() - began
    world.rows += 10_000
    late = 0
    for _ in range(50):  # Spark hears of the end of such a task after that of the statement
        if late := _killed_tasks(world.spark):
            break
        time.sleep(0.2)
    world.check("INSERT with a slow task", began, f"{late} tasks were killed after another try of theirs was done; {took:.1f} s for the statement")
    if not late:
        raise Wrong("no task was tried twice")


def _killed_tasks(spark: SparkSession) -> int:
    """How many tasks the session's stages have killed, as Spark does with the slower of two tries."""
    context = spark.sparkContext
    assert context._jvm is not None and context._gateway is not None
    stages = context._jsc.sc().statusStore().stageList(None, False, False, context._gateway.new_array(context._jvm.double, 0), None)
    return sum(int(stages.apply(n).numKilledTasks()) for n in range(stages.size()))


def statements(world: World) -> None:
    """An UPDATE, a DELETE."""
    began = time.monotonic()
    world.sql("UPDATE {t} SET v = v + 1 WHERE k BETWEEN 0 AND 4")
    world.total += world.sql("SELECT count(*) FROM {t} WHERE k BETWEEN 0 AND 4")[0][0]
    gone = world.sql("SELECT count(*), sum(v) FROM {t} WHERE id % 100 = 99")[0]
    world.sql("DELETE FROM {t} WHERE id % 100 = 99")
    world.rows, world.total = world.rows - gone[0], world.total - gone[1]
    world.check("UPDATE, DELETE", began)


def _merge(world: World, first: int, many: int) -> None:
    """A MERGE that adds 7 to the rows with ids from `first` on, and inserts those that are not there with 7."""
    there = world.sql(f"SELECT count(*) FROM {{t}} WHERE id >= {first} AND id < {first + many}")[0][0]
    world.sql(
        f"MERGE INTO {{t}} t USING (SELECT id, 7 AS v FROM range({first}, {first + many}, 1, 4)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = t.v + s.v WHEN NOT MATCHED THEN INSERT (id, k, v) VALUES (s.id, -2, s.v)"
    )
    world.rows, world.total = world.rows + many - there, world.total + 7 * many


def merge(world: World, stage: str = "parquet") -> None:
    """A worker is killed in the midst of a MERGE."""
    began, first = time.monotonic(), world.rows - 5000
    with a_worker_killed(world, stage) as killed:
        _merge(world, first, 10_000)
    world.check("MERGE", began, killed.told)


def optimize(world: World) -> None:
    """A worker is killed in the midst of an OPTIMIZE."""
    began = time.monotonic()
    with a_worker_killed(world) as killed:
        world.sql("OPTIMIZE {t}")
    world.check("OPTIMIZE", began, killed.told)


def rebase(world: World) -> None:
    """Another MERGE commits while an UPDATE is staged, and a worker is killed in the midst of the rebase."""
    began, staged = time.monotonic(), threading.Event()
    first = int(world.sql("SELECT max(id) FROM {t}")[0][0]) + 1

    def other() -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(_merge, world, first, 8000).result()
        staged.set()

    table = DeltaTable.forPath(world.spark, world.table)
    with a_worker_killed(world, "", staged) as killed, between("staged", other):
        table.update(set={"v": "v + 1"})
    receipt = table.lastReceipt
    world.total += world.rows
    rebased = f"{receipt.rows_rebased:,} rows rebased" if receipt is not None else "no receipt"
    world.check("UPDATE that another MERGE overtook", began, f"{rebased}; in its rebase {killed.told}")


def by_name(world: World) -> None:
    """A name for the table, and the table of a query whose place on the store the statement says."""
    began, copy = time.monotonic(), f"{world.table}-by-name".replace("s3://", "s3a://")
    world.sql(f"CREATE TABLE by_place USING delta LOCATION '{world.table}'")
    world.sql(f"CREATE TABLE of_query USING delta LOCATION '{copy}' AS SELECT * FROM by_place")
    world.sql("INSERT INTO of_query SELECT -1 - id, k, v FROM by_place WHERE id < 10")
    found = world.sql("SELECT count(*), sum(v) FROM of_query WHERE id >= 0")[0]
    if tuple(found) != (world.rows, world.total):
        raise Wrong(f"the table that was made of a query has {found[0]} rows and the sum {found[1]}, the other {world.rows} and {world.total}")
    world.check("tables by their names", began, "CREATE TABLE, CREATE TABLE AS SELECT, INSERT")


def many_writers(world: World, threads: int = 4, each: int = 3) -> None:
    """Threads of one driver whose UPDATEs and MERGEs meet in the same rows."""
    began = time.monotonic()

    def write(n: int) -> None:
        for turn in range(each):
            if (n + turn) % 2:
                world.sql("UPDATE {t} SET v = v + 1 WHERE id < 100")
            else:
                world.sql("MERGE INTO {t} t USING (SELECT id FROM range(100)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = t.v + 1")

    there = world.sql("SELECT count(*) FROM {t} WHERE id < 100")[0][0]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(write, range(threads)))
    world.total += threads * each * there
    world.check(f"{threads} threads with {each} statements each on the same {there} rows", began)


def many_drivers(world: World, drivers: int = 2, each: int = 4) -> None:
    """Drivers that are processes of their own, each with its executors, whose statements meet in the same rows as those of this one."""
    began = time.monotonic()
    there = world.sql("SELECT count(*) FROM {t} WHERE id < 100")[0][0]
    command = [sys.executable, "-m", "support.cluster.writer", world.cluster.master, world.table, str(each)]
    logs = [tempfile.TemporaryFile("w+") for _ in range(drivers)]  # noqa: SIM115 - a pipe that nobody reads would stop the driver
    running = [subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT) for log in logs]
    done = 0
    while any(p.poll() is None for p in running):
        world.sql("UPDATE {t} SET v = v + 1 WHERE id < 100")
        done += 1
    for process, log in zip(running, logs, strict=True):
        log.seek(0)
        told = log.read()
        log.close()
        if process.returncode:
            raise Wrong(f"another driver failed: {told[-2000:]}")
    world.total += (drivers * each + done) * there
    world.check(f"{drivers} other drivers with {each} statements each, and {done} of this one, on the same {there} rows", began)


def stream(world: World) -> None:
    """A stream from the table into another one, while a worker is killed; the copy has each row once."""
    began, copy = time.monotonic(), f"{world.table}-copy"
    place = copy.replace("s3://", "s3a://")
    with a_worker_killed(world) as killed:
        query = (
            world.spark.readStream.format("delta")
            .option("ignoreChanges", "true")
            .option("skipChangeCommits", "true")
            .load(world.table)
            .writeStream.format("delta")
            .option("checkpointLocation", f"{place}-checkpoint")
            .trigger(availableNow=True)
            .start(copy)
        )
        query.awaitTermination()
    found = world.spark.sql(f"SELECT count(*), count(DISTINCT id) FROM delta.`{copy}`").collect()[0]
    wanted = world.sql("SELECT count(*), count(DISTINCT id) FROM {t}")[0]
    world.say(f"stream: {killed.told}; {found[0]:,} rows in the copy; {time.monotonic() - began:.1f} s")
    if tuple(found) != tuple(wanted):
        raise Wrong(f"the stream's copy has {found[0]} rows with {found[1]} ids, the table {wanted[0]}")


STEPS: dict[str, Callable[[World], None]] = {
    "fill": fill,
    "speculation": speculation,
    "statements": statements,
    "merge": merge,
    "optimize": optimize,
    "rebase": rebase,
    "names": by_name,
    "writers": many_writers,
    "drivers": many_drivers,
    "stream": stream,
}
SHORT = ("speculation", "merge")
