"""A writer in a process of its own, with its own SparkSession: what the tests of this folder and tools/crash.py start.

usage: writer.py TABLE JOB FIRST COUNT

It prints READY, waits for a line on its standard input, then one line `ACK n version` for each
statement that committed, and DONE with its receipts' rounds.
    increment   row FIRST % 4: x = x + 1, COUNT times
    merge       COUNT merges; the n-th brings the keys n*5 .. n*5+4, the same for every writer
    mixed       increments of row 0, with appends of one row between them, until it is killed; each fifth statement restores what the table was two versions before
"""

from __future__ import annotations

import sys


def main(path: str, job: str, first: int, count: int) -> None:
    import rowlock
    from rowlock import DeltaTable
    from rowlock.engines.spark.session.session import spark as make

    session = make(cores=1, memory_mb=640)
    session.sparkContext.setLogLevel("OFF")
    table = DeltaTable.forPath(session, path)
    print("READY", flush=True)
    sys.stdin.readline()
    rounds = 0
    for n in range(count):
        if job == "increment":
            table.update(f"id = {first % 4}", {"x": "x + 1"})
        elif job == "merge":
            source = session.range(n * 5, n * 5 + 5).selectExpr("id", "cast(1 as bigint) as x")
            table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdate(set={"x": "t.x + s.x"}).whenNotMatchedInsertAll().execute()
        elif n % 5 == 4:
            table.restoreToVersion(n - 2)
        elif n % 2:
            rowlock.write(session.range(1000 + first + n, 1001 + first + n).selectExpr("id", "cast(1 as bigint) as x"), path)
        else:
            table.update("id = 0", {"x": "x + 1"})
        receipt = table.lastReceipt
        rounds += receipt.rounds if receipt else 0
        print(f"ACK {n} {receipt.version if receipt else None}", flush=True)
    print(f"DONE {rounds}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
