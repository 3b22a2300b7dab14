"""Statements whose source reads the table that they change, beside others, in an enabled session (`support.sql_session`)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import rowlock
from rowlock import DeltaTable
from rowlock.exceptions import DeltaConcurrentModificationException


def over_others(spark: Any, mapped: bool) -> dict[str, Any]:
    """Writes of rows 3 and 4 again, over changes of other rows, of row 3, and of none: how often each ran again, and the rows at the end."""
    from spark.support import winner

    spark.sql("CREATE TABLE t (id INT, v INT) USING delta " + ("TBLPROPERTIES ('delta.columnMapping.mode' = 'name')" if mapped else ""))
    spark.sql("INSERT INTO t SELECT CAST(id AS INT), CAST(id AS INT) FROM range(20)")
    name = "k" if mapped else "id"
    if mapped:  # the column that was `id` has the name in its files that another one has in queries
        spark.sql("ALTER TABLE t RENAME COLUMN id TO k")
        spark.sql("ALTER TABLE t ADD COLUMN id INT")

    def others() -> None:
        spark.sql(f"UPDATE t SET v = 70 WHERE {name} = 7")
        spark.sql(f"DELETE FROM t WHERE {name} = 8")
        spark.sql(f"INSERT INTO t ({name}, v) VALUES (50, 50)")

    table, tries = DeltaTable.forName(spark, "t"), []
    for work in (others, lambda: spark.sql(f"DELETE FROM t WHERE {name} = 3"), lambda: table.optimize().executeCompaction()):
        with winner(work):
            rowlock.write(spark.sql(f"SELECT {name} + 100 AS {name}, v FROM t WHERE {name} IN (3, 4) OR {name} BETWEEN 101 AND 103"), table._handle.path)
        info = table._handle.state.log.read_commit(table._handle.state.refresh().version).info
        tries.append(len(info.rowlock.get("rerun_of", ())))
    return {"tries": tries, "rows": sorted(list(r) for r in spark.sql(f"SELECT {name}, v FROM t").collect())}


def in_threads(spark: Any) -> dict[str, Any]:
    """What threads have made of a table: by INSERTs of what is not there, then by MERGEs that count, and what one raises under `fail`."""
    spark.sql("CREATE TABLE t (id INT, v INT) USING delta")
    spark.sql("INSERT INTO t VALUES (0, 1)")

    def insert(key: int) -> None:
        spark.sql(f"INSERT INTO t SELECT {key}, 1 WHERE NOT EXISTS (SELECT 1 FROM t WHERE id = {key})")

    count = "MERGE INTO t USING (SELECT max(v) + 1 AS v FROM t WHERE id = 0) s ON t.id = 0 WHEN MATCHED THEN UPDATE SET v = s.v"
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(insert, [1, 1, 1, 1, 2, 3, 2, 3, 4, 4, 2, 1]))
        inserted = sorted(list(r) for r in spark.sql("SELECT * FROM t").collect())
        list(threads.map(lambda _: spark.sql(count), range(12)))
    counted = sorted(list(r) for r in spark.sql("SELECT * FROM t").collect())
    return {"inserted": inserted, "counted": counted, "under fail": _under_fail(spark)}


def _under_fail(spark: Any) -> str:
    from spark.support import winner

    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('rowlock.onConflict' = 'fail')")
    table = DeltaTable.forName(spark, "t")
    try:
        with winner(lambda: table.update("id = 0", {"v": "v + 1"})):
            rowlock.write(spark.sql("SELECT 9 AS id, v FROM t WHERE id = 0"), table._handle.path)
    except DeltaConcurrentModificationException as e:
        return type(e).__name__
    return "nothing"
