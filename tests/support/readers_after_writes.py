"""Kinds of readers that are made before a write, and what each shows after it: the same observation for delta-spark and for Rowlock."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

BEFORE = [[1, "a"], [2, "b"]]
_MAPPED = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
_FILES = "CREATE TABLE {t} (id INT, v STRING) USING delta"
_ROW = "INSERT INTO {t} VALUES (3, 'c')"
_OVERWRITE = "py:spark.sql(\"{rows}\").write.format('delta').mode('overwrite').option('overwriteSchema', 'true').save(p)"


def _overwrite(rows: str) -> list[str]:
    return [_OVERWRITE.replace("{rows}", rows)]


WRITES: Mapping[str, tuple[str, list[str]]] = {
    # name: (the table, statements; `py:` begins Python with the table's name `t` and its folder `p`)
    "insert": (_FILES, [_ROW]),
    "insert by path": (_FILES, ["INSERT INTO delta.`{p}` VALUES (3, 'c')"]),
    "append": (_FILES, ["py:spark.sql(\"SELECT 3 AS id, 'c' AS v\").write.format('delta').mode('append').save(p)"]),
    "another session": (_FILES, ["py:spark.newSession().sql(f\"INSERT INTO {t} VALUES (3, 'c')\")"]),
    "another process": (_FILES, ["py:foreign_append(p)"]),
    "delete": (_FILES, ["DELETE FROM {t} WHERE id = 1"]),
    "delete by vector": (_FILES + " TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')", ["DELETE FROM {t} WHERE id = 1"]),
    "update": (_FILES, ["UPDATE {t} SET v = 'x' WHERE id = 1"]),
    "update through a view": (_FILES, ["UPDATE tv SET v = 'x' WHERE id = 1"]),
    "merge": (_FILES, ["MERGE INTO {t} t USING (SELECT 3 AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, v) VALUES (3, 'c')"]),
    "overwrite": (_FILES, ["INSERT OVERWRITE {t} VALUES (9, 'z')"]),
    "overwrite a partition": (_FILES + " PARTITIONED BY (v)", ["INSERT OVERWRITE {t} PARTITION (v = 'a') SELECT 7"]),
    "truncate": (_FILES, ["DELETE FROM {t}"]),
    "optimize": (_FILES, [_ROW, "OPTIMIZE {t}"]),
    "vacuum": (
        _FILES,
        ["SET spark.databricks.delta.retentionDurationCheck.enabled = false", "DELETE FROM {t} WHERE id = 1", "OPTIMIZE {t}", "VACUUM {t} RETAIN 0 HOURS"],
    ),
    "restore": (_FILES, ["RESTORE TABLE {t} TO VERSION AS OF 0"]),
    "a column more": (_FILES, ["ALTER TABLE {t} ADD COLUMNS (n INT)", "INSERT INTO {t} VALUES (3, 'c', 5)"]),
    "columns in another order": (_FILES, ["ALTER TABLE {t} ALTER COLUMN v FIRST", "INSERT INTO {t} VALUES ('c', 3)"]),
    "a comment": (_FILES, ["ALTER TABLE {t} ALTER COLUMN v COMMENT 'x'", _ROW]),
    "a column renamed": (f"{_FILES} {_MAPPED}", ["ALTER TABLE {t} RENAME COLUMN v TO w"]),
    "a column dropped": (f"{_FILES} {_MAPPED}", ["ALTER TABLE {t} DROP COLUMN v"]),
    "a column dropped and another of its name": (f"{_FILES} {_MAPPED}", ["ALTER TABLE {t} DROP COLUMN v", "ALTER TABLE {t} ADD COLUMNS (v STRING)"]),
    "columns mapped": (_FILES, [f"ALTER TABLE {{t}} SET {_MAPPED}", _ROW]),
    "a wider type": (
        _FILES + " TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
        ["ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT"],
    ),
    "nulls allowed": ("CREATE TABLE {t} (id INT NOT NULL, v STRING) USING delta", ["ALTER TABLE {t} ALTER COLUMN id DROP NOT NULL"]),
    "overwritten with more columns": (_FILES, _overwrite("SELECT 9 AS id, 'z' AS v, 5 AS n")),
    "overwritten with fewer columns": (_FILES, _overwrite("SELECT 9 AS id")),
    "overwritten with another type": (_FILES, _overwrite("SELECT 'q' AS id, 'z' AS v")),
    "overwritten in other letters": (_FILES, _overwrite("SELECT 9 AS ID, 'z' AS v")),
    "overwritten with partitions": (
        _FILES,
        ["py:spark.sql(\"SELECT 9 AS id, 'z' AS v\").write.format('delta').mode('overwrite').option('overwriteSchema', 'true').partitionBy('v').save(p)"],
    ),
    "dropped and made anew": (_FILES, ["DROP TABLE {t}", _FILES, "INSERT INTO {t} VALUES (7, 'n')"]),
    "dropped and made with other columns": (_FILES, ["DROP TABLE {t}", "CREATE TABLE {t} (k INT) USING delta", "INSERT INTO {t} VALUES (7)"]),
    "dropped": (_FILES, ["DROP TABLE {t}"]),
    "replaced": (_FILES, ["CREATE OR REPLACE TABLE {t} (id INT, v STRING) USING delta", "INSERT INTO {t} VALUES (7, 'n')"]),
}

FRAMES = ("by name", "by path", "by a path in SQL", "a part", "a view's frame", "toDF", "a temporary view of a frame", "a global view")
"""Readers that are plans which were analyzed before the write."""


def _rows(frame: Any) -> list[list[Any]]:
    return sorted((list(r) for r in frame.collect()), key=repr)


def _readers(spark: Any, t: str, p: str, delta_table: Any) -> dict[str, Callable[[], Any]]:
    spark.sql(f"CREATE OR REPLACE TEMP VIEW tv AS SELECT * FROM {t}")
    spark.sql(f"CREATE OR REPLACE VIEW pv AS SELECT * FROM {t}")
    spark.table(t).where("id > 0 OR id IS NULL").createOrReplaceTempView("fv")
    spark.table(t).createOrReplaceGlobalTempView("gv")
    kept = {
        "by name": spark.table(t),
        "by path": spark.read.format("delta").load(p),
        "by a path in SQL": spark.sql(f"SELECT * FROM delta.`{p}`"),
        "a part": spark.sql(f"SELECT id, v FROM {t} WHERE id IS NULL OR id > 0"),
        "a view's frame": spark.table("pv"),
        "toDF": delta_table.forPath(spark, p).toDF(),
        "a version": spark.read.format("delta").option("versionAsOf", 1).load(p),
    }
    used = spark.table(t)
    used.collect()
    return {
        **{name: lambda frame=frame: _rows(frame) for name, frame in kept.items()},
        "a frame that was used": lambda: _rows(used.select("*")),
        "a temporary view": lambda: _rows(spark.table("tv")),
        "a temporary view of a frame": lambda: _rows(spark.table("fv")),
        "a global view": lambda: _rows(spark.newSession().table("global_temp.gv")),
        "one version within a query": lambda: _rows(
            spark.sql("SELECT (SELECT count(*) FROM fv) - count(*) AS a, max((SELECT count(*) FROM tv)) - count(*) AS b FROM fv")
        ),
        "read anew": lambda: _rows(spark.table(t)),
    }


def _cached(spark: Any, t: str, p: str) -> dict[str, Callable[[], Any]]:
    frame = spark.read.format("delta").load(p).where("id > 0 OR id IS NULL")
    frame.cache().count()
    spark.sql(f"CACHE TABLE {t}")
    return {"cached": lambda: _rows(frame.select("*")), "a cached table": lambda: _rows(spark.table(t))}


def foreign_append(path: str) -> None:
    """A row by a writer of whom Spark knows nothing."""
    import deltalake
    import pyarrow as pa

    deltalake.write_deltalake(path, pa.table({"id": pa.array([3], pa.int32()), "v": ["c"]}), mode="append")


def _outcome(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except Exception as e:
        found = re.search(r"\[([A-Z][A-Z_.]+)\]", str(e))
        return found[1] if found else f"{type(e).__name__}: {e}"


def _carry_out(spark: Any, text: str, t: str, p: str) -> None:
    if text.startswith("py:"):
        exec(text[3:], {"spark": spark, "t": t, "p": p, "foreign_append": foreign_append})
    else:
        spark.sql(text.format(t=t, p=p)).collect()


def observe(spark: Any, delta_table: Any, warehouse: Path, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """For each write what each reader shows after it: its rows, or the condition of its error; under its own text what a statement failed with."""
    return {name: _observed(spark, delta_table, warehouse, list(WRITES).index(name), name) for name in names}


def _observed(spark: Any, delta_table: Any, warehouse: Path, number: int, name: str) -> dict[str, Any]:
    making, statements = WRITES[name]
    told: dict[str, Any] = {}
    for kind, readers_of in (("plain", lambda t, p: _readers(spark, t, p, delta_table)), ("cached", lambda t, p: _cached(spark, t, p))):
        if kind == "cached" and "through a view" in name:
            continue
        t = f"{kind}{number}"
        p = str(warehouse / t)
        spark.sql(making.format(t=t))
        spark.sql(f"INSERT INTO {t} SELECT * FROM VALUES (1, 'a'), (2, 'b')")
        readers = readers_of(t, p)
        for text in statements:
            if (error := _outcome(functools.partial(_carry_out, spark, text, t, p))) is not None:
                told[f"{kind}: {text}"] = error
        told |= {reader: _outcome(read) for reader, read in readers.items()}
        spark.catalog.clearCache()
        spark.sql(f"DROP TABLE IF EXISTS {t}")
    return told
