"""One writer process of the demo, with its own Spark session.

Started by `run.py` as `python -m rowlock.cli.demo.worker`.  It writes events as JSON lines to standard output and reads
two lines from standard input: OPEN when the table exists, GO when all writers are ready.  A statement that fails with a
conflict is run again until it commits or the time is over.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import typer

import rowlock
from rowlock import DeltaTable, clock
from rowlock.cli.demo.load import Load, open_load, predicate
from rowlock.cli.demo.scoreboard import commit_event
from rowlock.display import first_line
from rowlock.exceptions import DeltaConcurrentModificationException
from rowlock.protocol.schema import quote

OPTIMIZE_PAUSE_S = 2.0
ERASE_PAUSE_S = 1.0


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement to run, and the record from which the replay can repeat it; the writer pauses for `pause_s` after it."""

    record: dict[str, Any]
    run: Callable[[], object]
    pause_s: float = 0.0


def main(table: str, work: str, role: str, name: str, seconds: float, cores: int = 1, memory_mb: int = 768) -> None:
    """Runs one writer.  `role` is merge, delete or optimize; the name of a merging writer is its stream's."""
    send = channel()
    try:
        spark = rowlock.spark(cores=cores, memory_mb=memory_mb)
        load = open_load(Path(work))
        warm_up(spark, Path(work) / f"warm-up-{name}", load, role)
        send({"event": "started"})
        if sys.stdin.readline().strip() != "OPEN":
            return
        t = DeltaTable.forPath(spark, table)
        t.toDF().limit(1).collect()
        send({"event": "ready"})
        if sys.stdin.readline().strip() != "GO":
            return
        write(t, statements(spark, t, load, role, name), seconds, send)
        send({"event": "done"})
    except Exception as error:  # noqa: BLE001  the process that waits for this one must learn of any error
        traceback.print_exc()
        send({"event": "error", "message": f"{type(error).__name__}: {first_line(error)}"})
        raise SystemExit(1) from None
    finally:
        sys.stderr.flush()


def warm_up(spark: Any, path: Path, load: Load, role: str) -> None:
    """Warms the session up with two statements of the writer's kind on a small table of its own."""
    rows = spark.createDataFrame(load.batch(load.streams[0], 0).to_arrow())
    DeltaTable.create(spark).location(str(path)).addColumns(rows.schema).execute()
    rowlock.write(rows, str(path), mode="append")
    t = DeltaTable.forPath(spark, str(path))
    for statement in itertools.islice(statements(spark, t, load, role, load.streams[0]), 2):
        statement.run()


def statements(spark: Any, t: DeltaTable, load: Load, role: str, name: str) -> Iterator[Statement]:
    """Yields the writer's statements, without end."""
    for number in itertools.count():
        if role == "merge":
            yield Statement({"kind": "merge", "stream": name, "number": number}, _merge(spark, t, load, name, number))
        elif role == "delete":
            yield Statement({"kind": "delete", "number": number}, partial(t.delete, predicate(load.erasure(number))), ERASE_PAUSE_S)
        else:
            yield Statement({"kind": "optimize", "number": number}, lambda: t.optimize().executeCompaction(), OPTIMIZE_PAUSE_S)


def _merge(spark: Any, t: DeltaTable, load: Load, stream: str, number: int) -> Callable[[], object]:
    batch = load.batch(stream, number)
    source = spark.createDataFrame(batch.to_arrow()).alias("s")
    merge = t.alias("t").merge(source, " AND ".join(f"t.{quote(name)} = s.{quote(name)}" for name in load.key))
    if load.sums:
        values = {quote(c): f"t.{quote(c)} + s.{quote(c)}" if c in load.sums else f"s.{quote(c)}" for c in batch.columns}
        return merge.whenMatchedUpdate(set=values).whenNotMatchedInsertAll().execute
    return merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute


def write(t: DeltaTable, todo: Iterator[Statement], seconds: float, send: Callable[[dict[str, Any]], None]) -> None:
    """Runs statements until the time is over; sends an event for each commit and each conflict."""
    end = clock.monotonic_s() + seconds
    while clock.monotonic_s() < end:
        statement = next(todo)
        began, landed = clock.monotonic_s(), False
        while not landed:
            try:
                statement.run()
                landed = True
            except DeltaConcurrentModificationException as error:
                again = clock.monotonic_s() < end
                send({"event": "conflict", "again": again, "error": type(error).__name__})
                if not again:
                    return
        assert t.lastReceipt is not None
        send(commit_event(t.lastReceipt.version, [t.lastReceipt], began, **statement.record))
        clock.sleep(max(0.0, min(statement.pause_s, end - clock.monotonic_s())))


def channel() -> Callable[[dict[str, Any]], None]:
    """A function that sends an event on standard output; what libraries print there goes to standard error from now on."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def send(event: dict[str, Any]) -> None:
        out.write(json.dumps(event) + "\n")
        out.flush()

    return send


if __name__ == "__main__":
    typer.run(main)
