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
from spark.support import delta_spark_rows, in_order, read, rows, unchanged, version, winner
from support.peers import delta_spark_reads_here

pytestmark = [pytest.mark.spark, pytest.mark.no_peers("deltalake and DuckDB give char values as they are stored, without the spaces that Spark adds")]
WAYS = pytest.mark.parametrize("way", ["driver", "jobs"])


def by(way: str) -> Any:
    return limited(driver_rows=0, local_rows=0, moved_bytes=0, masked_rows=0, inspected_rows=0, append_driver_bytes=0) if way == "jobs" else limited()


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


@WAYS
@pytest.mark.short("driver", ci=("jobs",), why="the same statements the other way")
def test_a_value_of_a_partition_is_the_same_with_its_spaces_and_without(spark: SparkSession, table_path: str, way: str) -> None:
    """delta-spark stores char values as they come, so one value has two partitions: each statement takes them for one, and a copy keeps the bound."""
    t = f"delta.`{table_path}`"

    def found(condition: str = "true") -> list[int]:
        whole = rows(rowlock.read(spark, table_path))
        assert whole == in_order(tuple(r.values()) for r in rowlock.to_arrow(table_path).to_pylist())
        assert not delta_spark_reads_here() or whole == delta_spark_rows(spark, table_path)
        return sorted(r[0] for r in rowlock.read(spark, table_path).where(condition).collect())

    with by(way):
        rowlock.sql(spark, f"CREATE TABLE {t} (id INT, c CHAR(3)) USING delta PARTITIONED BY (c)")
        spark.sql(f"INSERT INTO {t} VALUES (1, 'a'), (2, 'b')")
        rowlock.sql(spark, f"INSERT INTO {t} VALUES (3, 'a'), (4, 'b   '), (5, NULL)")
        rowlock.append(table_path, pa.table({"id": pa.array([6], pa.int32()), "c": ["a"]}))
        with unchanged(table_path), pytest.raises(ConstraintViolated):
            rowlock.append(table_path, pa.table({"id": pa.array([7], pa.int32()), "c": ["long"]}))
        assert found("c = 'a'") == [1, 3, 6] and found("c IN ('b', 'x')") == [2, 4]
        table = DeltaTable.forPath(spark, table_path)
        table.update("c = 'a' AND id < 3", {"id": "id + 10"})
        table.optimize().where("c = 'a'").executeCompaction()
        assert found() == [2, 3, 4, 5, 6, 11]
        table.delete("c = 'b' AND id = 2")
        rowlock.sql(spark, f"INSERT OVERWRITE {t} PARTITION (c = 'a') SELECT 20")
        assert found() == [4, 5, 20]
        spark.sql(f"INSERT INTO {t} VALUES (21, 'a')")
        rowlock.write(spark.sql("SELECT 22 AS id, 'a' AS c"), table_path, mode="overwrite", partition_overwrite_mode="dynamic")
        assert found() == [4, 5, 22]
        spark.sql(f"INSERT INTO {t} VALUES (23, 'a')")
        rowlock.sql(spark, f"INSERT INTO {t} REPLACE WHERE c = 'a' VALUES (24, 'a')")
        rowlock.sql(spark, f"MERGE INTO {t} t USING (SELECT 'b' AS c) s ON t.c = rpad(s.c, 3, ' ') WHEN MATCHED THEN DELETE")
        assert found() == [5, 24] == sorted(r[0] for r in delta_spark_rows(spark, table_path))
        rowlock.sql(spark, f"CREATE TABLE delta.`{table_path}-copy` USING delta PARTITIONED BY (c) AS SELECT * FROM {t}")
        rowlock.write(rowlock.read(spark, table_path), f"{table_path}-copy", mode="overwrite", overwrite_schema=True, partition_by=["c"])
    assert metadata(f"{table_path}-copy", spark) == {"id": None, "c": "char(3)"} and read(spark, f"{table_path}-copy") == read(spark, table_path)


WITHIN = """id INT, s STRUCT<a: CHAR(3), b: VARCHAR(3), n: INT>, l ARRAY<VARCHAR(3)>, m MAP<VARCHAR(3), CHAR(2)>, d ARRAY<STRUCT<x: CHAR(2), y: MAP<INT, VARCHAR(2)>>>"""
NEW = "named_struct('a', 'p', 'b', 'q', 'n', 1)"
STATEMENTS_WITHIN = {
    "INSERT INTO {t} VALUES (1, "
    + NEW
    + ", array('a', NULL), map('k', 'v'), array(named_struct('x', 'p', 'y', map(1, 'q')))), (2, NULL, NULL, NULL, NULL)": "",
    "INSERT INTO {t} (id, s) VALUES (3, named_struct('a', 'abc  ', 'b', 'q', 'n', 1))": "too long",  # nothing is cut inside of other types
    "INSERT INTO {t} (id, s) VALUES (3, named_struct('a', 'a', 'b', 'äöüß', 'n', 1))": "too long",
    "INSERT INTO {t} (id, l) VALUES (3, array('abc', 'abcd'))": "too long",
    "INSERT INTO {t} (id, m) VALUES (3, map('abcd', 'v'))": "too long",
    "INSERT INTO {t} (id, m) VALUES (3, map('k', 'vvv'))": "too long",
    "INSERT INTO {t} (id, d) VALUES (3, array(NULL, named_struct('x', 'p', 'y', map(1, 'q', 2, 'qqq'))))": "too long",
    "UPDATE {t} SET s.a = 'u', l = array('abc') WHERE id = 1": "",
    "UPDATE {t} SET s.b = 'long' WHERE id = 1": "too long",
    "MERGE INTO {t} t USING (SELECT 1 AS id, array('long') AS l) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET l = s.l": "too long",
    "MERGE INTO {t} t USING (SELECT 4 AS id, " + NEW + " AS s) s ON t.id = s.id AND s.s.a = 'p' WHEN NOT MATCHED THEN INSERT (id, s) VALUES (s.id, s.s)": "",
    "DELETE FROM {t} WHERE s.a = 'u'": "",  # it is read as 'u  '
}


@WAYS
@pytest.mark.short(
    ci=(
        "driver",
        "jobs",
    ),
    why="a twin that delta-spark changes; bounds of columns stay above",
)
def test_bounds_inside_of_other_types_are_kept_as_delta_spark_keeps_them(spark: SparkSession, table_path: str, way: str) -> None:
    ours, theirs = (f"delta.`{table_path}{n}`" for n in ("", "-theirs"))
    rowlock.sql(spark, f"CREATE TABLE {ours} ({WITHIN}) USING delta")
    spark.sql(f"CREATE TABLE {theirs} ({WITHIN}) USING delta")
    assert metadata(table_path, spark) == metadata(table_path + "-theirs", spark)
    for statement, outcome in STATEMENTS_WITHIN.items():
        for run, t in ((rowlock.sql, ours), (SparkSession.sql, theirs)):
            with by(way), pytest.raises(Exception, match="DELTA_EXCEED_CHAR_VARCHAR_LIMIT") if outcome else nullcontext():
                run(spark, statement.format(t=t))
    with by(way), pytest.raises(ConstraintViolated):
        rowlock.write(spark.sql("SELECT 5 AS id, array('long') AS l"), table_path)
    assert read(spark, table_path) == rows(spark.read.format("delta").load(table_path)) == rows(spark.read.format("delta").load(table_path + "-theirs"))
    with by(way):
        rowlock.sql(spark, f"DELETE FROM {ours} WHERE s.a = 'p  '")  # of which delta-spark's DELETE finds none
    assert [r[0] for r in read(spark, table_path)] == [1, 2]


@pytest.mark.soak("ALTERs of columns with bounds stay above", ci=True)
def test_columns_with_bounds_inside_are_altered_as_a_whole(spark: SparkSession, table_path: str) -> None:
    """delta-spark takes the bounds away with a new field, and its readers fail after a field was dropped: both are refused (I9).

    A field that it renames loses its values with its next rename, as the bounds name it still: here they follow.
    """
    t, known = f"delta.`{table_path}`", "struct<`the a`:char(3),b:varchar(3)>"
    rowlock.sql(spark, f"CREATE TABLE {t} (id INT, s STRUCT<a: CHAR(3), b: VARCHAR(3)>) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    rowlock.sql(spark, f"ALTER TABLE {t} ADD COLUMNS (l ARRAY<VARCHAR(2)> COMMENT 'c' AFTER id, gone MAP<INT, CHAR(2)>)")
    rowlock.sql(spark, f"ALTER TABLE {t} ALTER COLUMN l.element TYPE STRING")  # as delta-spark: nothing
    rowlock.sql(spark, f"ALTER TABLE {t} DROP COLUMN gone")
    rowlock.sql(spark, f"ALTER TABLE {t} RENAME COLUMN s TO renamed")
    with unchanged(table_path):
        for change in ("ADD COLUMNS (renamed.c VARCHAR(2))", "DROP COLUMN renamed.b", "ALTER COLUMN renamed.b FIRST"):
            with pytest.raises(UnsupportedFeature, match="the bounds of renamed"):
                rowlock.sql(spark, f"ALTER TABLE {t} {change}")
        for change in ("renamed.b TYPE VARCHAR(5)", "l.element TYPE VARCHAR(5)", "renamed TYPE STRUCT<a: CHAR(9), b: STRING>"):
            with pytest.raises(AnalysisException):
                rowlock.sql(spark, f"ALTER TABLE {t} ALTER COLUMN {change}")
    rowlock.sql(spark, f"ALTER TABLE {t} RENAME COLUMN renamed.a TO `the a`")
    rowlock.sql(spark, f"INSERT INTO {t} VALUES (1, array('ab'), named_struct('the a', 'x', 'b', 'y'))")
    with unchanged(table_path), pytest.raises(ConstraintViolated):
        rowlock.sql(spark, f"INSERT INTO {t} VALUES (1, array('ab'), named_struct('the a', 'four', 'b', 'y'))")
    assert rows(spark.read.format("delta").load(table_path)) == read(spark, table_path)
    assert metadata(table_path, spark) == {"id": None, "l": "array<varchar(2)>", "renamed": known}
    assert f"renamed {known}" in rowlock.sql(spark, f"SHOW CREATE TABLE {t}").first()[0]
    assert rowlock.to_arrow(table_path).to_pylist() == [{"id": 1, "l": ["ab"], "renamed": {"the a": "x  ", "b": "y"}}]
    with unchanged(table_path), pytest.raises(UnsupportedFeature, match="char and varchar in l"):
        rowlock.append(table_path, pa.table({"id": pa.array([2], pa.int32())}))


def test_a_table_of_a_dataframe_has_its_bounds_as_the_session_takes_them(spark: SparkSession, table_path: str) -> None:
    """Where a session does not fill up char values, delta-spark gives a new table varchar(n) for char(n)."""
    rowlock.sql(spark, f"CREATE TABLE delta.`{table_path}` (id INT, c CHAR(3), s STRUCT<a: CHAR(3)>, v VARCHAR(2)) USING delta")
    for n, (setting, value) in enumerate((("readSideCharPadding", "true"), ("readSideCharPadding", "false"))):
        before = spark.conf.get(f"spark.sql.{setting}")
        try:
            spark.conf.set(f"spark.sql.{setting}", value)
            rowlock.write(rowlock.read(spark, table_path), f"{table_path}{n}")
            spark.read.format("delta").load(table_path).write.format("delta").save(f"{table_path}{n}-theirs")
        finally:
            spark.conf.set(f"spark.sql.{setting}", before)
        kind = "char" if value == "true" else "varchar"
        wanted = {"id": None, "c": f"{kind}(3)", "s": f"struct<a:{kind}(3)>", "v": "varchar(2)"}
        assert metadata(f"{table_path}{n}", spark) == metadata(f"{table_path}{n}-theirs", spark) == wanted
    try:
        spark.conf.set("spark.sql.charAsVarchar", "true")
        for n, run in enumerate((rowlock.sql, SparkSession.sql)):
            run(spark, f"CREATE TABLE delta.`{table_path}-as{n}` (c CHAR(3), s ARRAY<CHAR(2)>) USING delta")
            run(spark, f"ALTER TABLE delta.`{table_path}-as{n}` ADD COLUMN d CHAR(4)")
    finally:
        spark.conf.unset("spark.sql.charAsVarchar")
    assert metadata(f"{table_path}-as0", spark) == metadata(f"{table_path}-as1", spark) == {"c": "varchar(3)", "s": "array<varchar(2)>", "d": "varchar(4)"}


@WAYS
def test_a_query_that_keeps_its_bounds_is_a_source_as_any_other(spark: SparkSession, table_path: str, way: str) -> None:
    """I9: PySpark has no Arrow type for CHAR and VARCHAR, which queries have where `spark.sql.preserveCharVarcharTypeInfo` keeps them."""
    spark.conf.set("spark.sql.preserveCharVarcharTypeInfo", "true")
    try:
        with by(way):
            t = made(spark, table_path)
            query = "SELECT CAST(id AS INT) AS id, CAST('a' AS CHAR(3)) AS c, CAST('b' AS VARCHAR(3)) AS v FROM range({}) AS r(id)"
            rowlock.sql(spark, f"INSERT INTO {t} (id, c, v) {query.format('1, 3')}")
            merge = f"MERGE INTO {t} AS t USING ({query.format('2, 4')}) AS s ON t.id = s.id WHEN MATCHED AND s.c LIKE 'a%' THEN UPDATE SET v = s.c"
            rowlock.sql(spark, f"{merge} WHEN NOT MATCHED THEN INSERT (id, c, v) VALUES (s.id, s.v, s.v)")
            rowlock.sql(spark, f"UPDATE {t} SET v = CAST('u' AS CHAR(1)) WHERE id = 1")
            found = sorted((r.id, r.c, r.v) for r in rowlock.read(spark, table_path).collect())
    finally:
        spark.conf.unset("spark.sql.preserveCharVarcharTypeInfo")
    assert found == [(1, "a   ", "u"), (2, "a   ", "a  "), (3, "b   ", "b")]
