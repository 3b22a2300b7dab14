"""char(n) and varchar(n): bounds on what is written, spaces at the end as Spark has them; beside delta-spark, on the driver and by Spark jobs (I3, I9)."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import rowlock
from rowlock import DeltaTable
from rowlock.exceptions import ConstraintViolated, SchemaMismatch, StatementRefused, UnsupportedFeature
from rowlock.limits import limited
from rowlock.protocol.char_varchar import KEY
from spark.support import read, rows, unchanged, version, winner

pytestmark = [pytest.mark.spark, pytest.mark.no_peers("deltalake and DuckDB give char values as they are stored, without the spaces that Spark adds")]
WAYS = pytest.mark.parametrize("way", ["driver", "jobs"])


def by(way: str) -> Any:
    return limited(driver_rows=0, local_rows=0, masked_rows=0, inspected_rows=0, append_driver_bytes=0) if way == "jobs" else limited()


def made(spark: SparkSession, path: str, partitioned: str = "") -> str:
    t = f"delta.`{path}`"
    rowlock.sql(
        spark,
        f"CREATE TABLE {t} (id INT, c CHAR(4), v VARCHAR(3), d CHAR(2) DEFAULT 'x', n INT DEFAULT 3) USING delta {partitioned}"
        "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
    )
    return t


def metadata(path: str, spark: SparkSession) -> dict[str, str | None]:
    from rowlock.storage.open import open_store
    from rowlock.transaction.state.shared import state_of

    return {f.name: f.metadata.get(KEY) for f in state_of(open_store(path)).refresh().schema.fields}


@WAYS
@pytest.mark.parametrize("layout", ["", "PARTITIONED BY (v) "])
@pytest.mark.short(ci=("-driver",), why="12 to 40 s of turns with delta-spark; bounds are asked in the tests below")
def test_each_engine_reads_and_writes_what_the_other_made(spark: SparkSession, table_path: str, way: str, layout: str) -> None:
    with by(way):
        t = made(spark, table_path, layout)
        assert metadata(table_path, spark) == {"id": None, "c": "char(4)", "v": "varchar(3)", "d": "char(2)", "n": None}
        rowlock.sql(spark, f"INSERT INTO {t} (id, c, v) VALUES (1, 'ab', 'xyz'), (2, 'abcd', 'x  '), (3, 'a     ', 'y      '), (4, NULL, NULL)")
        spark.sql(f"INSERT INTO {t} (id, c, v) VALUES (5, 'ab', 'q'), (6, '', 'qq')")  # delta-spark stores char values as they come
        wanted = [
            (1, "ab  ", "xyz", "x ", 3),
            (2, "abcd", "x  ", "x ", 3),
            (3, "a   ", "y  ", "x ", 3),
            (4, None, None, "x ", 3),
            (5, "ab  ", "q", "x ", 3),
            (6, "    ", "qq", "x ", 3),
        ]
        assert read(spark, table_path) == rows(spark.read.format("delta").load(table_path)) == wanted
        assert sorted(rowlock.to_arrow(table_path, columns=["id", "c"]).to_pylist(), key=lambda r: r["id"])[4] == {"id": 5, "c": "ab  "}
        table = DeltaTable.forPath(spark, table_path)
        for condition, found in (("c = 'ab'", [1, 5]), ("c = 'ab  '", [1, 5]), ("c IN ('a', '')", [3, 6]), ("c > 'abc'", [2]), ("c LIKE 'ab__'", [1, 2, 5])):
            table.update(condition, {"n": "n + 1"})
            assert [r[0] for r in read(spark, table_path) if r[4] == 4] == found, condition
            table.update(condition, {"n": "n - 1"})
        table.update("id = 6", {"c": "'z'", "v": "'w  '"})
        table.delete("c = 'a'")
        source = spark.createDataFrame([(5, "ab", "r"), (7, "new", "s    ")], "id int, c string, v string").alias("s")
        (
            table.alias("t")
            .merge(source, "t.id = s.id and t.c = rpad(s.c, 4, ' ')")
            .whenMatchedUpdate(set={"v": "s.v"})
            .whenNotMatchedInsert(values={"id": "s.id", "c": "s.c", "v": "s.v"})
            .execute()
        )
        spark.sql(f"UPDATE {t} SET n = 9 WHERE id = 2")
        assert [r[:3] for r in read(spark, table_path)] == [
            (1, "ab  ", "xyz"),
            (2, "abcd", "x  "),
            (4, None, None),
            (5, "ab  ", "r"),
            (6, "z   ", "w  "),
            (7, "new ", "s  "),
        ]
        assert read(spark, table_path) == rows(spark.read.format("delta").load(table_path))
        table.optimize().executeCompaction()
        assert read(spark, table_path) == rows(spark.read.format("delta").load(table_path))


@WAYS
@pytest.mark.short("driver", ci=("jobs",), why="the same statement the other way; the ways themselves are compared in test_routes")
def test_what_is_too_long_is_refused_as_delta_spark_does(spark: SparkSession, table_path: str, way: str) -> None:
    with by(way):
        t = made(spark, table_path)
        rowlock.sql(spark, f"INSERT INTO {t} (id, c, v) VALUES (1, 'ab', 'xyz')")
        table = DeltaTable.forPath(spark, table_path)
        wide = spark.createDataFrame([(1, "abcde", "v"), (9, "c", "vvvv")], "id int, c string, v string").alias("s")
        with unchanged(table_path) if way == "driver" else nullcontext():  # what jobs wrote before the row was met is garbage that no commit names
            before = version(table_path)
            for statement in (
                lambda: rowlock.sql(spark, f"INSERT INTO {t} (id, c) VALUES (2, 'abcde')"),
                lambda: rowlock.write(wide, table_path),
                lambda: table.update("id = 1", {"v": "'long'"}),
                lambda: table.alias("t").merge(wide, "t.id = s.id").whenMatchedUpdate(set={"c": "s.c"}).execute(),
                lambda: table.alias("t").merge(wide, "t.id = s.id").whenNotMatchedInsert(values={"id": "s.id", "v": "s.v"}).execute(),
                lambda: rowlock.append(table_path, pa.table({"id": pa.array([2], pa.int32()), "v": ["long"]})),
                lambda: rowlock.append(table_path, pa.table({"id": pa.array([2], pa.int32()), "v": ["äöüß"]})),
                lambda: rowlock.sql(spark, f"INSERT INTO {t} (id, v) VALUES (2, 'äöüß')"),
            ):
                with pytest.raises(ConstraintViolated, match="char"):
                    statement()
                assert version(table_path) == before
        with pytest.raises(Exception, match="DELTA_EXCEED_CHAR_VARCHAR_LIMIT"):
            spark.sql(f"INSERT INTO {t} (id, c) VALUES (2, 'abcde')")
        rowlock.append(table_path, pa.table({"id": pa.array([2, 3], pa.int32()), "c": ["é", "abcd    "], "v": ["äöü", None]}))
        assert [r[:3] for r in read(spark, table_path)] == [(1, "ab  ", "xyz"), (2, "é   ", "äöü"), (3, "abcd", None)]
        assert read(spark, table_path) == rows(spark.read.format("delta").load(table_path))


def test_values_of_another_type_are_texts_of_the_bound(spark: SparkSession, table_path: str) -> None:
    """Without ANSI, too, where Spark compares no boolean with a text."""
    t = made(spark, table_path)
    rowlock.sql(spark, f"INSERT INTO {t} (id, c, v) VALUES (1, 'ab', 'xyz')")
    before = spark.conf.get("spark.sql.ansi.enabled")
    try:
        spark.conf.set("spark.sql.ansi.enabled", "false")
        rowlock.sql(spark, f"UPDATE {t} SET c = id = 1, v = 12")
        source = "SELECT 1 AS id, false AS c"
        rowlock.sql(spark, f"MERGE INTO {t} t USING ({source}) s ON t.id = s.id AND t.c = 'true' WHEN MATCHED THEN UPDATE SET d = s.id")
        with unchanged(table_path), pytest.raises(ConstraintViolated, match="char"):
            rowlock.sql(spark, f"UPDATE {t} SET c = false")
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)
    assert read(spark, table_path) == [(1, "true", "12", "1 ", 3)]


def test_bounds_are_widened_and_shown_and_others_refused(spark: SparkSession, table_path: str) -> None:
    t = made(spark, table_path)
    table = DeltaTable.forPath(spark, table_path)
    rowlock.sql(spark, f"INSERT INTO {t} (id, c, v) VALUES (1, 'ab', 'xyz')")
    with winner(lambda: rowlock.sql(spark, f"ALTER TABLE {t} ALTER COLUMN v TYPE varchar(6)")):
        table.update("id = 1", {"v": "reverse(v)"})
    described = {r[0]: r[1] for r in rowlock.sql(spark, f"DESCRIBE TABLE {t}").collect()}
    assert (described["c"], described["v"]) == ("char(4)", "varchar(6)")
    assert "v VARCHAR(6)" in rowlock.sql(spark, f"SHOW CREATE TABLE {t}").first()[0]
    for column, wanted in (("v", "varchar(2)"), ("v", "char(9)"), ("c", "char(8)"), ("n", "varchar(3)")):
        with unchanged(table_path), pytest.raises((SchemaMismatch, StatementRefused)):
            table.alterColumn(column, dataType=wanted)
        with pytest.raises(AnalysisException):
            spark.sql(f"ALTER TABLE {t} ALTER COLUMN {column} TYPE {wanted}")
    table.alterColumn("c", dataType="varchar(8)")
    table.alterColumn("d", dataType="string")
    table.addColumn("late", "char(3)")
    spark.sql(f"ALTER TABLE {t} ADD COLUMNS (theirs varchar(2))")
    assert metadata(table_path, spark) == {"id": None, "c": "varchar(8)", "v": "varchar(6)", "d": None, "n": None, "late": "char(3)", "theirs": "varchar(2)"}
    rowlock.sql(spark, f"INSERT INTO {t} VALUES (2, 'abcdefgh', 'xyzxyz', 'longer', 4, 'l', 'm')")
    assert read(spark, table_path) == rows(spark.read.format("delta").load(table_path))
    with unchanged(table_path), pytest.raises(ConstraintViolated):
        rowlock.sql(spark, f"INSERT INTO {t} (id, theirs) VALUES (3, 'abc')")
    with pytest.raises(UnsupportedFeature, match="char"):
        rowlock.sql(spark, f"CREATE TABLE delta.`{table_path}-by` (c CHAR(2), n INT) USING delta PARTITIONED BY (c)")
    with pytest.raises(UnsupportedFeature, match="char"):
        rowlock.sql(spark, f"CREATE TABLE delta.`{table_path}-in` (s STRUCT<a: CHAR(2)>) USING delta")
    spark.sql(f"CREATE TABLE delta.`{table_path}-in` (s STRUCT<a: CHAR(2)>, l ARRAY<VARCHAR(3)>) USING delta")
    with unchanged(table_path + "-in"), pytest.raises(UnsupportedFeature, match="char and varchar"):
        rowlock.sql(spark, f"INSERT INTO delta.`{table_path}-in` VALUES (NULL, NULL)")
