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
    acks = len(acknowledged(writer.finish()))
    rows = sorted((r["id"], r["x"]) for r in rowlock.read(spark, path).collect())
    if rows not in (expected := (_after(acks), _after(acks + 1))):
        return f"{acks} acknowledged; the table has {rows}, and neither {expected[0]} nor {expected[1]}"
    table = DeltaTable.forPath(spark, path)
    if table.history(1).first()["version"] != acks + (rows != expected[0]):
        return f"{acks} acknowledged, and other versions than these and the one in flight"
    table.update("id = 0", {"x": "x + 1"})
    after = rowlock.read(spark, path).where("id = 0").first()["x"]
    return None if after == rows[0][1] + 1 else f"the next writer made {after} of {rows[0][1]}"


def _after(statements: int) -> list[tuple[int, int]]:
    """The rows after so many statements of the mixed writer, each of which makes one version."""
    versions = [[(n, 0) for n in range(4)]]
    for n in range(statements):
        (_, x), *others = versions[-1]
        versions.append(versions[n - 2] if n % 5 == 4 else [(0, x), *others, (1000 + n, 1)] if n % 2 else [(0, x + 1), *others])
    return versions[-1]
