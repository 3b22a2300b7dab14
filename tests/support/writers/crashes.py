"""One kill -9 of a writer at a random point, and what must be true of the table afterwards."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from support.writers.processes import Writer, acknowledged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def crash_once(spark: SparkSession, path: str, seed: int) -> str | None:
    """Starts a writer, kills it after a random while, checks the table.  None, or what is wrong."""
    import rowlock
    from rowlock import DeltaTable

    rowlock.write(spark.range(4).selectExpr("id", "cast(0 as bigint) as x").coalesce(1), path)
    writer = Writer(path, "mixed", 0, 10_000)
    try:
        writer.ready()
        writer.go()
        time.sleep(random.Random(seed).uniform(0.3, 6.0))
    finally:
        writer.kill()
    acks = acknowledged(writer.finish())
    increments, appends = sum(n % 2 == 0 for n in acks), sum(n % 2 for n in acks)
    problem = _compare(spark, path, increments, appends, len(acks))
    if problem:
        return problem
    before = rowlock.read(spark, path).where("id = 0").first()["x"]
    table = DeltaTable.forPath(spark, path)
    table.update("id = 0", {"x": "x + 1"})
    after = rowlock.read(spark, path).where("id = 0").first()["x"]
    return None if after == before + 1 else f"the next writer made {after} of {before}"


def _compare(spark: SparkSession, path: str, increments: int, appends: int, acks: int) -> str | None:
    import rowlock

    rows = {r["id"]: r["x"] for r in rowlock.read(spark, path).collect()}
    count = rowlock.read(spark, path).count()
    if count != len(rows):
        return f"{count} rows for {len(rows)} keys: rows were doubled"
    flight = (rows[0] - increments) + (len(rows) - 4 - appends)
    if flight not in (0, 1) or rows[0] < increments or len(rows) - 4 < appends:
        return f"{acks} acknowledged ({increments} increments, {appends} appends); the table has x = {rows[0]} and {len(rows) - 4} appended rows"
    return None
