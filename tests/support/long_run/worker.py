"""One process of a long run: what it does until the file TABLE.stop is there; a line of JSON for all that was acknowledged.

usage: worker.py KIND NUMBER TABLE PAUSE LAYOUT
    append      three rows a time, without Spark: owner `appender-NUMBER`, n from 0 on, once TABLE.go is there
    statements  UPDATE between accounts, MERGE of counters, UPDATE of its own counter, now and then a DELETE of appended rows
    upkeep      OPTIMIZE, and VACUUM every second time
PAUSE is in seconds, after each; LAYOUT one of `table.LAYOUTS`.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from typing import TYPE_CHECKING

import pyarrow as pa

import rowlock
from support.long_run.table import ACCOUNTS, COUNTERS, LAYOUTS, MARGIN, Layout, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def append(path: str, number: int, n: int) -> dict[str, object]:
    receipt = rowlock.append(path, rows([(3 * n + at, f"appender-{number}", n, 0) for at in range(3)]))
    return {"append": number, "version": receipt.version}


def statement(spark: SparkSession, path: str, number: int, n: int) -> dict[str, object]:
    table, draw = rowlock.DeltaTable.forPath(spark, path), random.Random(1000 * number + n)
    if n % 25 == 24:
        appended = rowlock.to_arrow(path, columns=["owner", "n"]).filter(pa.compute.starts_with(pa.compute.field("owner"), "appender-"))
        newest = pa.compute.min(appended.group_by("owner").aggregate([("n", "max")]).column("n_max")).as_py() or 0
        below = max(newest - MARGIN, 0)
        table.delete(f"owner LIKE 'appender-%' AND n % 10 = 7 AND n < {below}")
        return {"below": below}
    if n % 3 == 0:
        gives, takes = draw.sample(range(ACCOUNTS), 2)
        table.update(f"owner = 'account' AND id IN ({gives}, {takes})", {"x": f"x + CASE WHEN id = {gives} THEN -1 ELSE 1 END"})
        return {"gives": gives, "takes": takes}
    if n % 3 == 1:
        first = draw.randrange(COUNTERS)
        source = spark.range(first, first + 3).selectExpr("id", "'counter' owner")
        merge = table.alias("t").merge(source.alias("s"), "t.owner = s.owner AND t.id = s.id").whenMatchedUpdate(set={"x": "t.x + 1"})
        merge.whenNotMatchedInsert(values={"id": "s.id", "owner": "s.owner", "n": "0", "x": "1"}).execute()
        return {"counted": [first, first + 1, first + 2]}
    table.update(f"owner = 'own' AND id = {number}", {"x": "x + 1"})
    return {"own": number}


def keep(spark: SparkSession, path: str, layout: Layout, n: int) -> dict[str, object]:
    table = rowlock.DeltaTable.forPath(spark, path)
    _ = table.optimize().executeZOrderBy("owner", "n") if layout.ordered else table.optimize().executeCompaction()
    version = table.lastReceipt.version
    if n % 2:
        table.vacuum()
    return {"kept": n, "version": version}


def main(kind: str, number: int, path: str, pause_s: float, layout: Layout) -> None:
    session = None
    if kind != "append":
        session = rowlock.spark(cores=1, memory_mb=640)
        session.sparkContext.setLogLevel("OFF")
    n = 0
    while not os.path.exists(f"{path}.stop"):
        if session is None and not os.path.exists(f"{path}.go"):
            time.sleep(0.1)
            continue
        began = time.monotonic()
        done = append(path, number, n) if session is None else keep(session, path, layout, n) if kind == "upkeep" else statement(session, path, number, n)
        print(json.dumps({**done, "seconds": round(time.monotonic() - began, 2)}), flush=True)
        n += 1
        time.sleep(pause_s)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4]), LAYOUTS[sys.argv[5]])
