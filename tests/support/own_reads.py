"""Statements whose source reads the table that they change, beside others, in an enabled session (`support.sql_session`)."""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import rowlock
from rowlock import DeltaTable
from rowlock.exceptions import DeltaConcurrentModificationException
from rowlock.limits import limited

MAPPED = "ALTER TABLE t SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"  # the names in files stay those that the columns have now


def over_others(spark: Any, mapped: bool) -> dict[str, Any]:
    """Writes of rows 3 and 4 again, over changes of other rows, of row 3, and of none, compared on the driver and by a job: how often each ran again, and the rows at the end."""
    from spark.support import winner

    spark.sql("CREATE TABLE t (id INT, v INT) USING delta")
    spark.sql("INSERT INTO t SELECT CAST(id AS INT), CAST(id AS INT) FROM range(20)")
    name = "k" if mapped else "id"
    if mapped:  # the column that was `id` has the name in its files that another one has in queries
        spark.sql(MAPPED)
        spark.sql("ALTER TABLE t RENAME COLUMN id TO k")
        spark.sql("ALTER TABLE t ADD COLUMN id INT")

    def others() -> None:
        spark.sql(f"UPDATE t SET v = 70 WHERE {name} = 7")
        spark.sql(f"DELETE FROM t WHERE {name} = 8")
        spark.sql(f"INSERT INTO t ({name}, v) VALUES (50, 50)")

    table, tries = DeltaTable.forName(spark, "t"), []

    def compact() -> None:
        table.optimize().executeCompaction()

    def delete() -> None:
        spark.sql(f"DELETE FROM t WHERE {name} = 3")

    for work, few in ((others, 1000), (delete, 1000), (compact, 1000), (compact, 0)):
        with winner(work), limited(local_rows=few):
            rowlock.write(spark.sql(f"SELECT {name} + 100 AS {name}, v FROM t WHERE {name} IN (3, 4) OR {name} BETWEEN 101 AND 103"), table._handle.path)
        info = table._handle.state.log.read_commit(table._handle.state.refresh().version).info
        tries.append(len(info.rowlock.get("rerun_of", ())))
    rows = sorted(list(r) for r in spark.sql(f"SELECT {name}, v FROM t").collect())
    with winner(others):
        rowlock.write(spark.sql(f"SELECT max({name}) AS most, count(*) AS n FROM t"), table._handle.path, mode="overwrite", overwrite_schema=True)
    return {"tries": tries, "rows": rows, "replaced": [list(r) for r in spark.table("t").collect()]}


def in_threads(spark: Any) -> dict[str, Any]:
    """What threads have made of a table: by INSERTs of what is not there, then by MERGEs and UPDATEs that count, and what one raises under `fail`."""
    spark.sql("CREATE TABLE t (id INT, v INT) USING delta")
    spark.sql("INSERT INTO t VALUES (0, 1)")

    def insert(key: int) -> None:
        spark.sql(f"INSERT INTO t SELECT {key}, 1 WHERE NOT EXISTS (SELECT 1 FROM t WHERE id = {key})")

    counts = (
        "MERGE INTO t USING (SELECT max(v) + 1 AS v FROM t WHERE id = 0) s ON t.id = 0 WHEN MATCHED THEN UPDATE SET v = s.v",
        "UPDATE t SET v = (SELECT max(v) + 1 FROM t WHERE id = 0) WHERE id = 0",
        "MERGE INTO t USING (SELECT 0 AS k) s ON t.id = s.k WHEN MATCHED THEN UPDATE SET v = (SELECT max(v) FROM t WHERE id = 0) + 1",
    )
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(insert, [1, 1, 1, 1, 2, 3, 2, 3, 4, 4, 2, 1]))
        inserted = sorted(list(r) for r in spark.sql("SELECT * FROM t").collect())
        list(threads.map(spark.sql, counts * 3))
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


CONDITIONS = (
    *(
        "{q}id = 3",
        "{q}id IN (1, 4, NULL)",
        "{q}v > 5",
        "{q}v <=> NULL",
        "{q}s LIKE 'a%'",
        "upper({q}s) = 'AB'",
        "pmod({q}id, 3) = 1",
        "{q}st.a = 2",
        "{q}id = {q}v",
    ),
    *(
        "coalesce({q}v, {q}id) < 4",
        "CASE WHEN {q}id > 3 THEN {q}s = 'b' ELSE {q}v > 2 END",
        "{q}s IS NULL",
        "{q}id BETWEEN 2 AND 5",
        "{q}s RLIKE 'b$'",
        "{q}id + {q}v > 6",
    ),
)
QUERIES = (
    "SELECT id + 100 AS id, v, s FROM {t} WHERE {a}",
    "SELECT 500 AS id, CAST(count(*) AS INT) AS v, max(s) AS s FROM {t} WHERE {a}",
    "SELECT 600 AS id, 1 AS v, 'n' AS s WHERE NOT EXISTS (SELECT 1 FROM {t} WHERE {a})",
    "SELECT q.id + 200 AS id, o.v, o.s FROM {t} q LEFT JOIN (SELECT * FROM {t} WHERE {a}) o ON q.id = o.v WHERE {q}",
    "SELECT id + 300 AS id, m AS v, s FROM (SELECT *, max(v) OVER (PARTITION BY s) AS m FROM {t} WHERE {a}) WHERE s = 'b' OR id = 3",
    "SELECT id, v, s FROM (SELECT id + 400 AS id, v, s FROM {t} WHERE {a} UNION ALL SELECT v + 450, id, (SELECT max(s) FROM {t} WHERE {b}) FROM {t} WHERE {c})",
    "SELECT CAST(r.id AS INT) + 700 AS id, 0 AS v, 'r' AS s FROM range(6) r WHERE r.id NOT IN (SELECT coalesce(v, 0) FROM {t} WHERE {a})",
)
WINNERS = (
    "INSERT INTO {t} (id, v, s, st) VALUES ({n}, {m}, {text}, named_struct('a', {m}))",
    "UPDATE {t} SET v = {m}, s = {text} WHERE {a}",
    "DELETE FROM {t} WHERE {a} AND id < 20",
    "MERGE INTO {t} USING (SELECT {n} AS k) ON {t}.id = k WHEN MATCHED THEN UPDATE SET v = {m} WHEN NOT MATCHED THEN INSERT (id, v, s) VALUES (k, {m}, {text})",
    "OPTIMIZE {t}",
)


def by_chance(spark: Any, seed: int, number: int) -> dict[str, Any]:
    """Writes drawn queries over a table into it while others change it: how often one ran again or did not, and each that has not the rows of serial execution."""
    from spark.support import winner

    draw, done, wrong = random.Random(seed), Counter[str](), []
    for mapped in (False, True):
        spark.sql("DROP TABLE IF EXISTS t")
        spark.sql("CREATE TABLE t (v INT, id INT, s STRING, st STRUCT<a: INT>) USING delta")
        if mapped:  # each has the name in its files that the other has in queries
            spark.sql(MAPPED)
            for old, new in (("v", "w"), ("id", "v"), ("w", "id")):
                spark.sql(f"ALTER TABLE t RENAME COLUMN {old} TO {new}")
        spark.sql(
            "INSERT INTO t (id, v, s, st) SELECT CAST(id AS INT), CAST(7 - id AS INT), substr('abba', CAST(id % 4 AS INT), 2), named_struct('a', CAST(id % 3 AS INT)) FROM range(7)"
        )
        table = DeltaTable.forName(spark, "t")
        for _ in range(number):
            parts = {k: draw.choice(CONDITIONS).format(q="") for k in "abc"} | {"q": draw.choice(CONDITIONS).format(q="q.")}
            query = draw.choice(QUERIES)
            drawn = {
                "n": draw.randrange(9),
                "m": draw.randrange(8),
                "text": draw.choice(["NULL", "'a'", "'ab'", "'b'"]),
                "a": draw.choice(CONDITIONS).format(q=""),
            }
            other = draw.choice(WINNERS).format(t="t", **drawn)
            with winner(lambda other=other: spark.sql(other)):
                version = rowlock.write(spark.sql(query.format(t="t", **parts)), table._handle.path).version
            if version is None:
                continue
            before, after = (_rows(spark.sql(f"SELECT id, v, s FROM delta.`{table._handle.path}@v{v}`")) for v in (version - 1, version))
            serial = _rows(spark.sql(query.format(t=f"delta.`{table._handle.path}@v{version - 1}`", **parts)))
            if after - before != serial or before - after:
                wrong.append([seed, query.format(t="t", **parts), other, str(after - before), str(serial)])
            done["again" if table._handle.state.log.read_commit(version).info.rowlock.get("rerun_of") else "at once"] += 1
            spark.sql("DELETE FROM t WHERE id >= 20")
    return {"wrong": wrong, **done}


def _rows(frame: Any) -> Counter[str]:
    return Counter(str(tuple(r)) for r in frame.collect())
