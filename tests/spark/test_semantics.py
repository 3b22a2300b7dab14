"""A statement means what Spark says it means, in the user's own session, whatever round and whatever way evaluates it (I3); the session is left as it was."""

from __future__ import annotations

import contextlib
import datetime
import math
import os
import time
from pathlib import Path

import delta.tables
import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F

import rowlock
from interop.readers import rows_by_all
from rowlock import DeltaTable
from rowlock.limits import limited
from rowlock.storage.open import open_store
from rowlock.transaction.state.shared import state_of
from spark.support import add, delta_rows, make, read, rows, set_limits, take_route, unchanged, winner

pytestmark = pytest.mark.spark

BOTH = pytest.mark.parametrize("route", ["driver", "large"])


@contextlib.contextmanager
def setting(spark, name, value):
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.unset(name) if before is None else spark.conf.set(name, before)


def twins(spark, table_path, frame, **properties):
    """(face, path) of the same rows for Rowlock and for delta-spark."""
    make(spark, table_path, frame, **properties)
    twin = table_path + "_twin"
    frame.coalesce(1).write.format("delta").save(twin)
    return (DeltaTable, table_path), (delta.tables.DeltaTable, twin)


# ---- errors of expressions -------------------------------------------------------------------


@pytest.mark.parametrize("local", [20_000, 0])
@pytest.mark.short("0", ci=("20000",), why="the same statements the other way; the ways themselves are compared in test_routes")
def test_an_expression_that_fails_on_a_dead_row_does_not_fail_the_statement(spark, table_path, monkeypatch, local):
    set_limits(monkeypatch, small=100_000, local=local)
    table = make(spark, table_path, [(n, n % 5) for n in range(20)], "id int, v int")
    table.delete("v = 0")
    table.update("10 div v >= 5", {"id": "id + 100 div v"})
    table.delete("10 div v = 2 and id > 15")
    source = spark.createDataFrame([(10, 1), (5, 2)], "q int, n int")
    table.alias("t").merge(source.alias("s"), "10 div t.v = s.q").whenMatchedUpdate(set={"id": "100 div t.v"}).whenNotMatchedBySourceUpdate(
        "7 div t.v >= 0", {"id": "-1"}
    ).execute()
    expected = [(100, 1)] * 4 + [(50, 2)] * 4 + [(-1, v) for n in range(20) if (v := n % 5) in (3, 4) and not (10 // v == 2 and n > 15)]
    assert read(spark, table_path) == delta_rows(spark, table_path) == sorted(expected, key=repr)


@pytest.mark.parametrize("local", [20_000, 0])
@pytest.mark.short("0", ci=("20000",), why="the same statement the other way; the ways themselves are compared in test_routes")
def test_a_clause_is_computed_only_for_rows_that_it_is_about(spark, table_path, monkeypatch, local):
    set_limits(monkeypatch, small=100_000, local=local)
    table = make(spark, table_path, [(n, n % 5) for n in range(10)], "id int, v int")
    source = spark.createDataFrame([(0, 1), (5, 1), (90, 0), (91, 5)], "k int, n int")
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.k").whenMatchedUpdate("10 div s.n > 0", {"v": "10 div s.n"})
    merge.whenNotMatchedBySourceUpdate("10 div t.v >= 5", {"id": "t.id + 100 div t.v"}).whenNotMatchedInsert("s.k > 90", {"id": "10 div s.n"}).execute()
    expected = [(0, 10), (5, 10), (101, 1), (106, 1), (52, 2), (57, 2), (3, 3), (8, 3), (4, 4), (9, 4), (2, None)]
    assert read(spark, table_path) == delta_rows(spark, table_path) == sorted(expected, key=repr)


@pytest.mark.parametrize("local", [20_000, 0])
@pytest.mark.short("20000", ci=("0",), why="the same statements the other way; the ways themselves are compared in test_routes")
def test_an_expression_that_fails_on_a_living_row_fails_the_statement(spark, table_path, monkeypatch, local):
    set_limits(monkeypatch, small=100_000, local=local)
    table = make(spark, table_path, [(n, n % 5) for n in range(20)], "id int, v int")
    table.delete("id = 5")
    source = spark.createDataFrame([(10, 1)], "q int, n int")
    with unchanged(table_path):
        for bad in (
            lambda: table.delete("10 div v > 1"),
            lambda: table.update(set={"id": "10 div v"}),
            lambda: table.alias("t").merge(source.alias("s"), "10 div t.v = s.q").whenMatchedDelete().execute(),
            lambda: table.alias("t").merge(source.alias("s"), "t.v = s.n - 1").whenMatchedUpdate(set={"id": "1 div t.v"}).execute(),
        ):
            with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
                bad()
    table.delete("v != 0 and 10 div v > 4")
    assert {r[1] for r in read(spark, table_path)} == {0, 3, 4}


@pytest.mark.parametrize("local", [20_000, 0])
@pytest.mark.short("20000", ci=("0",), why="the same statements the other way; the ways themselves are compared in test_routes")
def test_a_value_that_is_an_error_fails_the_statement(spark, table_path, monkeypatch, local):
    """I9: `raise_error` has no type of its own, as NULL has none: it is no null."""
    set_limits(monkeypatch, small=100_000, local=local)
    guard = F.when(F.col("t.id") < 9, F.lit(None)).otherwise(F.raise_error(F.lit("not this row")))
    for face, path in twins(spark, table_path, spark.createDataFrame([(1, "a"), (9, "b")], "id int, v string")):
        table = face.forPath(spark, path)
        merge = table.alias("t").merge(spark.createDataFrame([(9,), (10,)], "k int").alias("s"), "t.id = s.k")
        with unchanged(path) if face is DeltaTable else contextlib.nullcontext():  # delta-spark leaves files
            for bad in (
                lambda table=table: table.update("id = 9", {"v": F.raise_error(F.lit("not this row"))}),
                lambda table=table: table.alias("t").update(set={"v": guard}),
                lambda merge=merge: merge.whenMatchedUpdate(set={"v": "raise_error('not this row')"}).execute(),
                lambda merge=merge: merge.whenNotMatchedInsert(values={"id": "s.k", "v": "raise_error('not this row')"}).execute(),
            ):
                with pytest.raises(Exception, match="not this row"):  # delta-spark's errors of a job have no class of their own
                    bad()
        table.alias("t").update("id = 1", {"v": guard})
        assert delta_rows(spark, path) == [(1, None), (9, "b")]


CONDITIONS = {
    "a condition": lambda f, other: f.where("10 div v > 3"),
    "below an aggregate": lambda f, other: f.where("10 div v > 3").groupBy("v").count(),
    "a column, and a condition on it": lambda f, other: f.withColumn("q", F.expr("10 div v")).where("q > 3"),
    "the key of a join": lambda f, other: f.join(other, F.expr("10 div v") == F.col("q")),
    "a semi join": lambda f, other: f.join(other, F.expr("10 div v = q"), "left_semi"),
    "an order and a limit": lambda f, other: f.orderBy(F.expr("10 div v"), "id").limit(7),
}


@pytest.mark.parametrize("partitions", [1, 3, 30])
@pytest.mark.short("1", ci=("3",), why="the same reader over more files")
def test_a_condition_of_a_reader_is_not_computed_on_dead_rows(spark, table_path, partitions):
    frame = spark.range(60).selectExpr("cast(id as int) id", "cast(id % 5 as int) v", f"cast(id % {partitions} as int) p")
    table = make(spark, table_path, frame, partition_by=["p"] if partitions > 1 else [])
    table.delete("v = 0")
    rowlock.write(frame.where("id between 1 and 4").withColumn("id", F.col("id") + 100), table_path)
    other = spark.createDataFrame([(10,), (5,)], "q int")
    living = spark.createDataFrame(read(spark, table_path), "id int, v int, p int")
    for name, build in CONDITIONS.items():
        found = rows(build(rowlock.read(spark, table_path), other))
        assert found, name
        assert found == rows(build(living, other)), name
    with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
        rowlock.read(spark, table_path).where("10 div (v - 1) > 3").collect()


@pytest.mark.usual_limits("it counts files")
def test_conditions_of_a_reader_still_choose_files_and_row_groups(spark, table_path):
    """Files are asked for the rows in question, with dead rows and without; those in other partitions are not opened."""
    frame = spark.range(60).selectExpr("cast(id as int) id", "cast(id % 5 as int) v", "cast(id % 3 as int) p")
    make(spark, table_path, frame, partition_by=["p"]).delete("v = 0")
    add(spark, table_path, [(100, 1, 1), (101, 1, 2)], "id int, v int, p int")

    def plan(condition):
        return rowlock.read(spark, table_path).where(condition)._jdf.queryExecution().executedPlan().toString()

    assert plan("id > 3").count("FileScan") == plan("id > 3").count("GreaterThan(id,3)") == 2
    assert len(rowlock.read(spark, table_path).inputFiles()) == 5
    assert (
        rowlock.read(spark, table_path).where("p = 1 and id > 3").rdd.getNumPartitions()
        < rowlock.read(spark, table_path).where("id > 3").rdd.getNumPartitions()
    )
    assert rowlock.read(spark, table_path).where("p > 7").rdd.getNumPartitions() == 0


@BOTH
@pytest.mark.short(ci=("large",), why="twins of a table, one changed by delta-spark; recorded statements are asked with ANSI off, too")
def test_ansi_off_is_the_users_choice(spark, table_path, monkeypatch, route):
    take_route(monkeypatch, route)
    with setting(spark, "spark.sql.ansi.enabled", "false"):
        for face, path in twins(
            spark, table_path, spark.createDataFrame([(n, n % 3, f"{n}x" if n % 2 else str(n)) for n in range(12)], "id int, v int, s string")
        ):
            table = face.forPath(spark, path)
            table.update("v = 0 or id / v > 2", {"v": "id / v"})
            table.update("cast(s as int) is null", {"id": "cast(s as int)"})
            table.alias("t").merge(spark.range(3).selectExpr("cast(id as int) k").alias("s"), "t.id = s.k and 6 / t.v > 0").whenMatchedDelete(
                "6 / s.k > 1"
            ).execute()
            table.update("id = 4", {"id": "260"})
            table.alias("t").merge(spark.sql("select 4Y as b").alias("s"), "cast(t.id as tinyint) = s.b").whenMatchedUpdate(set={"s": "'wrapped'"}).execute()
        assert read(spark, table_path) == delta_rows(spark, table_path + "_twin")
        assert any(row[2] == "wrapped" for row in read(spark, table_path))
        assert spark.conf.get("spark.sql.ansi.enabled") == "false"


def test_a_key_that_a_cast_changes_is_compared_as_cast(spark, table_path):
    """With ANSI off a cast to a narrower integer wraps around: such a column is no key whose values are compared as they are stored."""
    rowlock.write(spark.createDataFrame([(n, "") for n in (3, 4, 260)], "id int, s string"), table_path)
    with setting(spark, "spark.sql.ansi.enabled", "false"):
        for on, source, hit in (
            ("cast(t.id as tinyint) = s.b", "4Y", [4, 260]),
            ("t.id = cast(s.b as int)", "4294967300L", [4]),
        ):
            merge = DeltaTable.forPath(spark, table_path).alias("t").merge(spark.sql(f"select {source} as b").alias("s"), on)
            merge.whenMatchedUpdate(set={"s": f"'{source}'"}).whenNotMatchedInsert(values={"s": "'new'"}).execute()
            assert sorted(r[0] for r in read(spark, table_path) if r[1] == source) == hit
    assert len(read(spark, table_path)) == 3


# ---- time --------------------------------------------------------------------------------------


@BOTH
@pytest.mark.short("driver", why="the same statement the other way; the ways themselves are compared in test_routes")
def test_the_time_is_fixed_once_for_all_rounds(spark, table_path, monkeypatch, route):
    take_route(monkeypatch, route)
    table = make(spark, table_path, [(n, None) for n in range(6)], "id int, at timestamp")

    def append():
        time.sleep(1.1)
        rowlock.write(spark.createDataFrame([(n, None) for n in range(6, 12)], "id int, at timestamp"), table_path)

    before = datetime.datetime.now()
    with winner(append):
        table.update("at is null and current_timestamp() > timestamp'2020-01-01'", {"at": "current_timestamp()"})
    found = {r[1] for r in read(spark, table_path)}
    assert len(found) == 1
    assert before - datetime.timedelta(seconds=1) <= found.pop() <= datetime.datetime.now()


@BOTH
@pytest.mark.short(
    ci=("large",), why="a pause of a second; that the time is fixed for all rounds is in the test before it, and drawn values of a MERGE in test_drawn_values"
)
def test_the_time_is_the_same_in_every_clause_of_a_merge(spark, table_path, monkeypatch, route):
    take_route(monkeypatch, route)
    table = make(spark, table_path, [(n, None) for n in range(6)], "id int, at timestamp")
    source = spark.range(4, 10).selectExpr("cast(id as int) k")

    def append():
        time.sleep(1.1)
        rowlock.write(spark.createDataFrame([(n, None) for n in (5, 7, 20)], "id int, at timestamp"), table_path)

    merge = table.alias("t").merge(source.alias("s"), "t.id = s.k").whenMatchedUpdate(set={"at": F.current_timestamp()})
    with winner(append):
        merge.whenNotMatchedInsert(values={"id": "s.k", "at": "now()"}).whenNotMatchedBySourceUpdate(set={"at": "current_timestamp()"}).execute()
    found = read(spark, table_path)
    assert sorted(r[0] for r in found) == [0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 20]
    assert len({r[1] for r in found}) == 1


@BOTH
@pytest.mark.short(ci=("driver",), why="twins of a table, one changed by delta-spark; zones are asked in test_row_masks and test_times_without_a_zone")
def test_the_sessions_time_zone_counts(spark, table_path, monkeypatch, route):
    take_route(monkeypatch, route)
    frame = spark.sql("select cast(id as int) id, timestamp_seconds(1700000000 + id * 3600) at, cast(null as date) day, cast(null as string) s from range(12)")
    with setting(spark, "spark.sql.session.timeZone", "America/New_York"):
        for face, path in twins(spark, table_path, frame):
            table = face.forPath(spark, path)
            table.update("hour(at) < 20", {"day": "cast(at as date)", "s": "cast(at as string)"})
            table.update("at > '2023-11-14 23:00:00'", {"at": "timestamp'2024-01-01 00:00:00'"})
            source = spark.sql("select timestamp'2023-11-14 18:13:20' at, 'in' s")
            merge = table.alias("t").merge(source.alias("s"), "t.at = s.at").whenMatchedUpdate(set={"s": "cast(s.at as string)"})
            merge.whenNotMatchedInsert(values={"at": "s.at", "s": "s.s"}).execute()
        assert read(spark, table_path) == delta_rows(spark, table_path + "_twin") == delta_rows(spark, table_path)


@pytest.mark.soak("twins of a table, one changed by delta-spark; such times are asked in test_row_masks", ci=True)
def test_times_before_the_calendar_changed(spark, table_path):
    frame = spark.sql(
        "select cast(id as int) id, date_add(date'1582-10-03', cast(id as int)) day, timestamp'1582-10-03 12:00:00' + make_dt_interval(cast(id as int)) at, date'0001-01-01' old from range(15)"
    )
    for face, path in twins(spark, table_path, frame):
        table = face.forPath(spark, path)
        table.update(
            "day = date'1582-10-15' or at < timestamp'1582-10-05 00:00:00'", {"id": "-id", "at": "timestamp'1000-01-01 00:00:00.000001'", "old": "day - 1"}
        )
        table.delete("day = date'1582-10-10'")
        source = spark.sql("select date'1582-10-04' as day, date'1500-02-28' as n union all select date'1400-01-01', date'1400-01-01'")
        table.alias("t").merge(source.alias("s"), "t.day = s.day").whenMatchedUpdate(set={"old": "s.n"}).whenNotMatchedInsert(values={"day": "s.day"}).execute()
    text = "id", "cast(day as string)", "cast(at as string)", "cast(old as string)"
    found = rows(rowlock.read(spark, table_path).selectExpr(*text))
    assert (
        found
        == rows(spark.read.format("delta").load(table_path + "_twin").selectExpr(*text))
        == rows(spark.read.format("delta").load(table_path).selectExpr(*text))
    )


# ---- functions, views, names -------------------------------------------------------------------


@BOTH
@pytest.mark.soak("many functions and views; those of a statement are asked in test_sql_statements", ci=True)
def test_functions_and_views_that_were_registered_late(spark, table_path, monkeypatch, route):
    take_route(monkeypatch, route)
    table = make(spark, table_path, [(n, f"s{n}") for n in range(12)], "id int, s string")
    table.update("id = 0", {"s": "'first'"})
    spark.udf.register("late_plus", lambda x: x + 100, "int")
    is_even = F.udf(lambda x: x % 2 == 0, "boolean")
    spark.range(3, 6).selectExpr("cast(id as int) k").createOrReplaceTempView("late_rows")
    with winner(lambda: add(spark, table_path, [(20, "w"), (21, "w")], "id int, s string")):
        table.update(is_even("id"), {"id": "late_plus(id)"})
    table.delete("late_plus(id) = 109")
    table.alias("t").merge(spark.table("late_rows").alias("s"), "t.id = s.k").whenMatchedUpdate(set={"id": "late_plus(s.k)", "s": "upper(t.s)"}).execute()
    expected = [(n + 100, "first" if n == 0 else f"s{n}") for n in range(0, 12, 2)] + [
        (1, "s1"),
        (103, "S3"),
        (105, "S5"),
        (7, "s7"),
        (11, "s11"),
        (120, "w"),
        (21, "w"),
    ]
    assert read(spark, table_path) == delta_rows(spark, table_path) == sorted(expected, key=repr)


@BOTH
@pytest.mark.short("driver", why="the same statement the other way; the ways themselves are compared in test_routes")
def test_case_sensitivity_is_the_sessions(spark, table_path, monkeypatch, route):
    take_route(monkeypatch, route)
    table = make(spark, table_path, [(n, n) for n in range(8)], "Id int, v int")
    with setting(spark, "spark.sql.caseSensitive", "true"):
        with pytest.raises(PySparkException, match="UNRESOLVED"), unchanged(table_path):
            table.delete("id = 1")
        table.delete("Id = 1")
        table.alias("t").merge(spark.range(3).selectExpr("cast(id as int) id").alias("s"), "t.Id = s.id").whenMatchedUpdate(set={"v": "s.id + 50"}).execute()
    table.update("ID = 2", {"V": "V + 1"})
    assert read(spark, table_path)[:2] == [(0, 50), (2, 53)]


PERCENT = pytest.param(
    "per%cent %20", marks=pytest.mark.no_peers("deltalake and DuckDB decode the percent signs of a table's own path; delta-spark reads it in the test")
)


@pytest.mark.parametrize("folder", ["with space", PERCENT, "ümläut", "a=b", "quo'te", "hash#tag", "plus+and&", "[glob]*{x}"])
@pytest.mark.short(
    "per%cent %20",
    ci=(
        "[glob]*{x}",
        "a=b",
    ),
    why="another path of the same kind; spellings of paths are in test_spelling_of_paths and tests/unit/protocol/test_paths.py",
)
def test_any_path(spark, tmp_path, monkeypatch, folder):
    path = str(tmp_path / folder / "table")
    set_limits(monkeypatch, small=4, local=6)
    table = make(spark, path, [(n, "xy"[n % 2] + " %/ü") for n in range(10)], "id int, p string", files=2, partition_by=["p"])
    table.delete("id = 3")
    table.update("id > 2", {"id": "id + 10"})
    table.alias("t").merge(spark.range(20).selectExpr("cast(id as int) k").alias("s"), "t.id = s.k").whenMatchedUpdate(set={"p": "'z?*'"}).whenNotMatchedInsert(
        "s.k = 13", {"id": "s.k"}
    ).execute()
    table.optimize().executeCompaction()
    expected = sorted([*((n if n < 3 else n + 10, "z?*") for n in range(10) if n != 3), (13, None)], key=repr)
    assert read(spark, path) == expected
    if folder not in ("[glob]*{x}", "hash#tag"):
        assert delta_rows(spark, path) == expected


NAMES = ["a.b", "select", "ü", "quo'te", 'dou"ble', "back`tick", "_metadata", "per%cent", "__m", "c0", "file_path", "Mixed-Case!"]


WITH_VECTORS = pytest.param(
    False, marks=pytest.mark.no_peers("delta-spark 4.4 cannot read deletion vectors beside a column named _metadata; the other readers read it in the test")
)


@BOTH
@pytest.mark.parametrize("partitioned", [WITH_VECTORS, True])
@pytest.mark.short("False-large", "True-driver", why="each layout and each way once, instead of their product")
def test_any_column_name(spark, table_path, monkeypatch, route, partitioned):
    take_route(monkeypatch, route)
    quoted = ["`" + n.replace("`", "``") + "`" for n in NAMES]
    frame = spark.range(8).select(*[(F.col("id") * (i + 1)).cast("int").alias(n) for i, n in enumerate(NAMES)])
    table = make(spark, table_path, frame, files=2, partition_by=["a.b"] if partitioned else [])
    table.update(f"{quoted[0]} % 2 = 1", {q: f"{q} + 1000" for q in quoted[1:]})
    table.delete("`_metadata` = 0")
    source = frame.where("`a.b` < 3")
    table.alias("t").merge(source.alias("s"), "t.`a.b` = s.`a.b`").whenMatchedUpdate(
        set={f"t.{q}": f"s.{q} - t.{q}" for q in quoted[1:]}
    ).whenNotMatchedInsertAll().execute()
    expected = [tuple([n] + [(i + 1) * n + (1000 if n % 2 else 0) for i in range(1, len(NAMES))]) for n in range(3, 8)]
    expected += [tuple([1] + [-1000] * (len(NAMES) - 1)), tuple([2] + [0] * (len(NAMES) - 1)), tuple([0] * len(NAMES))]
    assert read(spark, table_path) == sorted(expected, key=repr)
    if not partitioned:
        rows_by_all(spark, table_path, without=("delta-spark",))


@pytest.mark.soak("two engines for 12 s; quotes in values and names have tests without delta-spark")
def test_quotes_in_strings(spark, table_path):
    texts = ["it's", 'say "so"', "back\\slash", "`tick`", "a'' b", "%_", "new\nline", "", "\u0000zero", "emoji 🚣"]
    for face, path in twins(spark, table_path, spark.createDataFrame(list(enumerate(texts)), "id int, s string")):
        table = face.forPath(spark, path)
        table.update(r"s = 'it\'s' or s = 'back\\slash'", {"s": "concat(s, '''', \"x\")"})
        table.update(F.col("s") == "new\nline", {"s": F.lit("o'k\n`\"")})
        table.delete(F.col("s").isin('say "so"', "a'' b"))
        table.alias("t").merge(spark.createDataFrame([("",), ("emoji 🚣",), ("in'sert",)], "s string").alias("s"), "t.s = s.s").whenMatchedUpdate(
            set={"id": "-1"}
        ).whenNotMatchedInsert(values={"s": "s.s"}).execute()
    assert read(spark, table_path) == delta_rows(spark, table_path) == delta_rows(spark, table_path + "_twin")


@BOTH
@pytest.mark.short(ci=("driver",), why="twins of a table, one changed by delta-spark; such values are asked in test_row_masks and test_routes")
def test_nan_and_negative_zero(spark, table_path, monkeypatch, route):
    take_route(monkeypatch, route)
    values = [float("nan"), 0.0, -0.0, 1.5, math.inf, -math.inf, None, 7.0]
    for face, path in twins(spark, table_path, spark.createDataFrame([(n, v, v) for n, v in enumerate(values)], "id int, d double, f float")):
        table = face.forPath(spark, path)
        source = spark.createDataFrame([(float("nan"), 1), (-0.0, 2), (math.inf, 3), (None, 4), (99.0, 5)], "d double, n int")
        table.alias("t").merge(source.alias("s"), "t.d = s.d").whenMatchedUpdate(set={"id": "t.id + 100 * s.n"}).whenNotMatchedInsert(
            values={"id": "-s.n", "d": "s.d"}
        ).execute()
        table.update("f > 1e30", {"id": "id + 10000"})
        table.delete("d = 99 or f = 0")
        table.update("d >= 1.5 and d < 7.5", {"f": "d"})
    assert read(spark, table_path) == delta_rows(spark, table_path) == delta_rows(spark, table_path + "_twin")


def test_negative_zero_is_found_where_zero_is_asked_for(spark, table_path):
    """Spark's reader compares values of a file's dictionary bit by bit: SELECT lost the row, and DELETE found it."""
    rows = {"d": [-0.0], "s": [{"f": -0.0}], "l": [[-0.0]], "m": [[("k", -0.0)]]}
    rowlock.append(
        table_path,
        pa.table(rows, pa.schema({"d": "float64", "s": pa.struct({"f": pa.float32()}), "l": pa.list_(pa.float64()), "m": pa.map_(pa.string(), pa.float64())})),
    )
    for condition in ("d = 0.0D", "d IN (0.0D, 7.0D)", "d >= 0.0D", "s.f = 0.0F", "l[0] = 0.0D", "m['k'] = 0.0D"):
        assert rowlock.read(spark, table_path).where(condition).count() == 1, condition


@pytest.mark.parametrize("route", ["appended", "compacted"])
@pytest.mark.short("appended", ci=("compacted",), why="the same question of a file that OPTIMIZE wrote")
def test_nan_is_found_where_more_than_any_number_is_asked_for(spark, table_path, route):
    """pyarrow leaves NaN out of the bounds in a footer, and Spark's reader passed over rows by them: SELECT lost the rows, and DELETE found them."""
    nan = float("nan")
    rows = {"d": [1.0, nan, 2.0], "s": [{"f": nan}, {"f": 1.0}, None], "n": [1.0, None, 2.0]}
    table = pa.table(rows, pa.schema({"d": "float64", "s": pa.struct({"f": pa.float32()}), "n": "float64"}))
    for part in [table] if route == "appended" else [table.slice(0, 1), table.slice(1)]:
        rowlock.append(table_path, part)
    if route == "compacted":
        DeltaTable.forPath(spark, table_path).optimize().executeCompaction()
    for condition in ("d > 7D", "d = double('nan')", "d IN (5D, double('nan'))", "d <=> double('nan')", "s.f >= 2F", "s.f = float('nan')"):
        assert rowlock.read(spark, table_path).where(condition).count() == 1, condition
    (file,) = state_of(open_store(table_path)).refresh().files.adds()
    group = pq.ParquetFile(Path(table_path, file.path)).metadata.row_group(0)
    assert [group.column(n).is_stats_set for n in range(3)] == [False, False, True], "the others keep theirs, also one with nulls"


def test_nan_and_negative_zero_are_found_in_files_of_other_writers(spark, table_path):
    """delta-rs bounds the numbers of a footer without NaN, and has -0.0 in dictionaries: SELECT, and statements with many rows, passed over them."""
    rows = {"d": [1.0, math.nan], "z": [-0.0, -0.0], "s": [{"f": math.nan}, {"f": 1.0}]}
    schema = pa.schema({"d": "float64", "z": "float64", "s": pa.struct({"f": pa.float32()})})
    deltalake.write_deltalake(table_path, pa.table(rows, schema))
    for condition in ("d > 7D", "d <=> double('nan')", "z = 0D AND d = 1D", "z IN (0D, 5D) AND d <> 1D", "s.f >= 2F OR d < 0D"):
        assert rowlock.read(spark, table_path).where(condition).count() == 1, condition
    with limited(local_rows=0, inspected_rows=0, masked_rows=0):
        DeltaTable.forPath(spark, table_path).delete("d = double('nan') AND z = 0D")
    assert rowlock.read(spark, table_path).count() == 1


# ---- nothing to do -----------------------------------------------------------------------------


def test_empty_tables_and_statements_that_meet_nothing(spark, table_path):
    table = make(spark, table_path, spark.createDataFrame([], "id int, v int"))
    source = spark.createDataFrame([], "id int, v int").alias("s")
    with unchanged(table_path):
        table.update("id = 1", {"v": "1"})
        table.update(set={"v": "1"})
        table.delete("id = 1")
        table.delete()
        table.alias("t").merge(source, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().whenNotMatchedBySourceDelete().execute()
        table.optimize().executeCompaction()
    add(spark, table_path, [(5, 5)], "id int, v int")
    with unchanged(table_path):
        table.update("id = 1", {"v": "1"})
        table.delete("false")
        table.delete("cast(null as boolean)")
        table.delete("id = null")
        for face in (DeltaTable, delta.tables.DeltaTable):
            with pytest.raises(AnalysisException, match="FILTER_NOT_BOOLEAN"):
                face.forPath(spark, table_path).delete("null")
    table.delete("true")
    assert read(spark, table_path) == []


# ---- the session and the disk stay as they were ------------------------------------------------


@BOTH
@pytest.mark.short("large", why="the same statement the other way; the ways themselves are compared in test_routes")
def test_the_session_is_never_changed_and_nothing_is_written_elsewhere(spark, tmp_path, table_path, monkeypatch, route):
    take_route(monkeypatch, route)
    home = tmp_path / "cwd"
    home.mkdir()
    monkeypatch.chdir(home)
    spark.range(20).selectExpr("id as k").createOrReplaceTempView("kept_view")

    def state():
        views = sorted(r["tableName"] for r in spark.sql("SHOW TABLES").collect())
        return (
            {name: value for name, value in spark.conf.getAll.items() if name != "spark.databricks.delta.lastCommitVersionInSession"},  # each commit's
            views,
            spark.catalog.currentDatabase(),
            spark.sparkContext.getLocalProperty("spark.jobGroup.id"),
            spark.getActiveSession()._jsparkSession,
        )

    before = state()
    table = make(spark, table_path, [(n, n) for n in range(12)], "id bigint, v bigint", files=2)
    table.update("id < 6", {"v": "v + 1"})
    table.delete("id > 8")
    table.alias("t").merge(spark.table("kept_view").alias("s"), "t.id = s.k").whenMatchedUpdate(set={"v": "0"}).whenNotMatchedInsert(
        values={"id": "s.k"}
    ).execute()
    table.optimize().executeCompaction()
    table.toDF().count()
    table.history().count()
    table.detail().count()
    after = state()
    assert after[0] == before[0]
    assert after[1:4] == before[1:4]
    assert after[4].equals(before[4])
    assert os.listdir(home) == []
    assert sorted(os.listdir(tmp_path)) == ["cwd", "table"]
    left = [p for p in Path(table_path, "_rowlock").rglob("*") if p.is_file()] if Path(table_path, "_rowlock").exists() else []
    assert left == []


@BOTH
@pytest.mark.short("driver", why="the same statement the other way; the ways themselves are compared in test_routes")
def test_the_active_session_stays_the_users(spark, table_path, monkeypatch, route):
    """Of all that is done on clones of the user's session: many partitions, no files, conditions on partitions, sources on disk."""
    take_route(monkeypatch, route)
    spark.createDataFrame([(1,)], "id int")  # pyspark makes its session the active one here

    def undisturbed():
        return spark.getActiveSession()._jsparkSession.equals(spark._jsparkSession)

    frame = spark.range(60).selectExpr("cast(id as int) id", "cast(id % 30 as int) p")
    rowlock.write(frame.limit(0), table_path, partition_by="p")
    assert rowlock.read(spark, table_path).count() == 0
    assert undisturbed()
    rowlock.write(frame, table_path)
    table = DeltaTable.forPath(spark, table_path)
    table.delete("id % 7 = 1")
    assert undisturbed()
    assert rowlock.read(spark, table_path).count() == 51
    assert undisturbed()
    table.optimize().where("p < 9").executeCompaction()
    assert undisturbed()
    table.alias("t").merge(frame.selectExpr("id + 3 as k").alias("s"), "t.id = s.k").whenMatchedUpdate(set={"p": "0"}).whenNotMatchedInsert(
        values={"id": "s.k"}
    ).execute()
    assert undisturbed()


# ---- a source that changes while the statement runs --------------------------------------------


@BOTH
@pytest.mark.short("large", why="the same statement the other way; the ways themselves are compared in test_routes")
def test_a_random_source_is_the_same_in_every_round(spark, table_path, monkeypatch, route):
    take_route(monkeypatch, route)
    table = make(spark, table_path, [(n, None) for n in range(10)], "id int, r double")
    source = spark.range(15).select(F.col("id").cast("int").alias("k"), F.rand().alias("r"))
    again = spark.createDataFrame([(n, None) for n in [*range(10), 12, 12]], "id int, r double")
    with winner(lambda: rowlock.write(again, table_path)):
        table.alias("t").merge(source.alias("s"), "t.id = s.k").whenMatchedUpdate(set={"r": "s.r"}).whenNotMatchedInsert(
            values={"id": "s.k", "r": "s.r"}
        ).execute()
    found = read(spark, table_path)
    by_id = {}
    for key, value in found:
        by_id.setdefault(key, []).append(value)
    assert {k: len(v) for k, v in by_id.items()} == {**dict.fromkeys(range(10), 2), 10: 1, 11: 1, 12: 2, 13: 1, 14: 1}
    assert all(len(set(v)) == 1 and v[0] is not None for v in by_id.values())
    assert len({v[0] for v in by_id.values()}) == 15


@BOTH
@pytest.mark.short("driver", why="the same statement the other way; the ways themselves are compared in test_routes")
def test_a_source_whose_files_are_replaced_is_the_same_in_every_round(spark, table_path, tmp_path, monkeypatch, route):
    take_route(monkeypatch, route)
    files = str(tmp_path / "source")
    spark.range(12).selectExpr("cast(id as int) k", "'old' w").write.parquet(files)
    table = make(spark, table_path, [(n, None) for n in range(6)], "id int, w string")
    source = spark.read.parquet(files)

    def replace():
        spark.range(12).selectExpr("cast(id + 1 as int) k", "'new' w").write.mode("overwrite").parquet(files)
        rowlock.write(spark.createDataFrame([(8, None), (3, None)], "id int, w string"), table_path)
        DeltaTable.forPath(spark, table_path).delete("id = 1")

    with winner(replace):
        table.alias("t").merge(source.alias("s"), "t.id = s.k").whenMatchedUpdate(set={"w": "s.w"}).whenNotMatchedInsert(
            values={"id": "s.k", "w": "s.w"}
        ).execute()
    assert read(spark, table_path) == delta_rows(spark, table_path) == sorted([(n, "old") for n in [*range(12), 3]], key=repr)


@BOTH
@pytest.mark.short("large", why="the same statement the other way; the ways themselves are compared in test_routes")
def test_a_source_that_reads_the_target_is_read_once(spark, table_path, monkeypatch, route):
    take_route(monkeypatch, route)
    table = make(spark, table_path, [(n, n) for n in range(10)], "id int, v int")
    source = table.toDF().selectExpr("id", "v + 100 as v")
    table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdateAll().execute()
    assert read(spark, table_path) == sorted([(n, n + 100) for n in range(10)], key=repr)
