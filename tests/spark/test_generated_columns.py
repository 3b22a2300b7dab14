"""Generated columns: what a statement leaves out is computed, what it gives is checked, beside delta-spark and other writers (I3, I5, I9)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession, functions as F
from pyspark.sql.types import LongType, StructField, StructType

import rowlock
from interop.readers import commit_files
from rowlock import DeltaTable
from rowlock.engines.spark.read.scan import Scanner
from rowlock.exceptions import ConstraintViolated, InvalidInput, MetadataChangedException, SchemaMismatch, StatementRefused, UnsupportedFeature
from spark.support import calls_into_the_jvm, delta_rows, read, take_route, unchanged, winner

pytestmark = pytest.mark.spark
ROWS = [(n, n * 10) for n in range(6)]
LOCKLESS = {"delta.enableRowTracking": "true", "rowlock.onConflict": "lockless"}
VIOLATED = "CHECK constraint Generated Column"


def generated(
    spark: SparkSession, path: str, rows: list[Any] = ROWS, *, files: int = 1, builder: Callable[..., Any] = DeltaTable.create, **properties: str
) -> DeltaTable:
    """id, v and g = id + v, with these rows in so many files."""
    made = builder(spark).location(path).addColumn("id", "int").addColumn("v", "int").addColumn("g", "int", generatedAlwaysAs="id + v")
    for key, value in properties.items():
        made = made.property(key, value)
    table: DeltaTable = made.execute()
    for n in range(files if rows else 0):
        rowlock.write(spark.createDataFrame(rows[n::files], "id int, v int").coalesce(1), path)
    return table


def actions(path: str, kind: str) -> list[dict[str, Any]]:
    """Every action of this kind in the log."""
    lines = [json.loads(line) for file in commit_files(path) for line in file.read_text().splitlines()]
    return [line[kind] for line in lines if kind in line]


def assert_right(spark: SparkSession, path: str) -> list[Any]:
    """The rows, which both engines read alike, each with the right g."""
    found = read(spark, path)
    assert found == delta_rows(spark, path)
    assert [r[2] for r in found] == [None if r[1] is None else r[0] + r[1] for r in found]
    return found


# ---- definition ------------------------------------------------------------------------------


def test_the_log_says_what_delta_spark_says(spark: SparkSession, tmp_path: Path) -> None:
    from delta.tables import DeltaTable as Theirs

    logs = []
    for engine, properties in (
        (DeltaTable, {}),
        (Theirs, {}),
        (DeltaTable, {"delta.enableDeletionVectors": "false"}),
        (Theirs, {"delta.enableDeletionVectors": "false"}),
    ):
        path = str(tmp_path / f"t{len(logs)}")
        builder = (
            engine.create(spark)
            .location(path)
            .addColumn("id", "int")
            .addColumn("day of it", "string", generatedAlwaysAs="concat('d', id)", comment="said", nullable=False)
        )
        for key, value in {"delta.columnMapping.mode": "name", **properties}.items():
            builder = builder.property(key, value)
        builder.execute()
        schema = json.loads(actions(path, "metaData")[0]["schemaString"])
        for field in schema["fields"]:
            field["metadata"].pop("delta.columnMapping.physicalName")
        protocol = actions(path, "protocol")[0]
        logs.append((schema, {k: sorted(v) if isinstance(v, list) else v for k, v in protocol.items()}))
    ours, theirs, ours_plain, theirs_plain = logs
    assert ours[0] == theirs[0] and ours_plain == theirs_plain
    assert "generatedColumns" in ours[1]["writerFeatures"] and ours[1]["minWriterVersion"] == 7
    assert ours[0]["fields"][1]["metadata"]["delta.generationExpression"] == "concat('d', id)"


BAD = {
    "unknown": ("nothing + 1", "DELTA_INVALID_GENERATED_COLUMN_REFERENCES"),
    "itself": ("b + 1", "DELTA_INVALID_GENERATED_COLUMN_REFERENCES"),
    "another": ("other + 1", "DELTA_INVALID_GENERATED_COLUMN_REFERENCES"),
    "random": ("cast(rand() * a as int)", "DELTA_NON_DETERMINISTIC_EXPRESSION_IN_GENERATED_COLUMN"),
    "the time": ("year(current_date())", "DELTA_UNSUPPORTED_EXPRESSION_GENERATED_COLUMN"),
    "the user": ("length(current_user())", "DELTA_UNSUPPORTED_EXPRESSION_GENERATED_COLUMN"),
    "subquery": ("a + (select 1)", "DELTA_UNSUPPORTED_EXPRESSION_GENERATED_COLUMN"),
    "aggregate": ("max(a)", "DELTA_AGGREGATE_IN_GENERATED_COLUMN"),
    "window": ("row_number() over (order by a)", "DELTA_UNSUPPORTED_EXPRESSION_GENERATED_COLUMN"),
    "generator": ("explode(array(a))", "DELTA_UNSUPPORTED_EXPRESSION_GENERATED_COLUMN"),
    "udf": ("plus_one(a)", "DELTA_UDF_IN_GENERATED_COLUMN"),
    "type": ("cast(a as bigint)", "DELTA_GENERATED_COLUMNS_EXPR_TYPE_MISMATCH"),
    "syntax": ("a +", "PARSE_SYNTAX_ERROR"),
}


@pytest.mark.parametrize("how", BAD)
def test_what_cannot_generate_a_column_is_refused_before_anything_is_written(spark: SparkSession, tmp_path: Path, how: str) -> None:
    """The error is Spark's AnalysisException, under delta-spark's error class."""
    spark.udf.register("plus_one", lambda x: x + 1, "int")
    expression, error = BAD[how]
    path = str(tmp_path / "new")
    with pytest.raises(AnalysisException, match=error) as e:
        DeltaTable.create(spark).location(path).addColumn("a", "int").addColumn("other", "int", generatedAlwaysAs="a").addColumn(
            "b", "int", generatedAlwaysAs=expression
        ).execute()
    assert how == "syntax" or isinstance(e.value, InvalidInput)
    assert not Path(path).exists()


@pytest.mark.soak("replacing is asked of generated columns under a staged statement, too, and of other definitions in test_write_options", ci=True)
def test_a_table_is_replaced_by_one_with_generated_columns_and_back(spark: SparkSession, table_path: str) -> None:
    generated(spark, table_path)
    with unchanged(table_path), pytest.raises(AnalysisException):
        DeltaTable.replace(spark).location(table_path).addColumn("a", "int", generatedAlwaysAs="b").execute()
    generated(spark, table_path, builder=DeltaTable.createIfNotExists, rows=[])
    assert len(read(spark, table_path)) == 6
    DeltaTable.replace(spark).location(table_path).addColumn("id", "int").addColumn("g", "int").execute()
    rowlock.write(spark.createDataFrame([(1, 7)], "id int, g int"), table_path)  # nobody asks what g is any more
    assert delta_rows(spark, table_path) == [(1, 7)]
    generated(spark, table_path, builder=DeltaTable.createOrReplace)
    DeltaTable.forPath(spark, table_path).restoreToVersion(1)
    assert len(assert_right(spark, table_path)) == 6
    with pytest.raises(ConstraintViolated):
        rowlock.write(spark.createDataFrame([(1, 7, 7)], "id int, v int, g int"), table_path)


def test_a_schema_with_expressions_in_it_makes_generated_columns(spark: SparkSession, table_path: str) -> None:
    schema = StructType([StructField("id", LongType()), StructField("double", LongType(), True, {"delta.generationExpression": "id * 2L"})])
    DeltaTable.create(spark).location(table_path).addColumns(schema).partitionedBy("double").execute()
    rowlock.write(spark.range(3), table_path)
    assert delta_rows(spark, table_path) == [(0, 0), (1, 2), (2, 4)]
    assert not any(f.metadata for f in DeltaTable.forPath(spark, table_path).toDF().schema.fields)  # or a copy of the rows would be generated too


# ---- writes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("route", ["driver", "large"])
@pytest.mark.short("large", why="the same statement the other way; the ways themselves are compared in test_routes")
def test_rows_get_what_they_lack_and_are_asked_for_what_they_give(spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch, route: str) -> None:
    """Columns are cast before anything is computed; whatever way rows take, the values are the same."""
    take_route(monkeypatch, route)
    table = generated(spark, table_path, [])
    rowlock.write(spark.createDataFrame([(n, n) for n in range(9)], "id byte, v short").repartition(2), table_path)
    rowlock.write(spark.createDataFrame([(10,)], "id int"), table_path)  # v is null, and so is g
    rowlock.write(spark.createDataFrame([(33, 20, 13)], "G int, v int, id int"), table_path)
    for wrong in ((1, 2, 4), (1, 2, None), (1, None, 1)) if route == "driver" else ((1, None, 1),):
        with pytest.raises(ConstraintViolated, match=VIOLATED) as e:
            rowlock.write(spark.createDataFrame([*[(n, n, n + n) for n in range(9)], wrong], "id int, v int, g int"), table_path)
        assert (e.value.constraint, e.value.expression) == ("Generated Column", "g <=> (id + v)")
        assert e.value.row is not None and tuple(e.value.row.values()) == wrong
    with table.transaction() as txn:
        txn.append(spark.createDataFrame([(40, 2)], "id int, v int"))
        txn.overwrite(spark.createDataFrame([(6, 66)], "id int, v int"), replace_where="g >= 12 and id = 6")
        txn.update("id = 40", {"v": "v + id"})
    found = assert_right(spark, table_path)
    assert (13, 20, 33) in found and (10, None, None) in found and (6, 66, 72) in found and (40, 42, 82) in found and len(found) == 12
    rowlock.write(spark.createDataFrame(ROWS, "id int, v int"), table_path, mode="overwrite")
    assert len(assert_right(spark, table_path)) == 6


@pytest.mark.parametrize(("given", "scans"), [("id int, v int", 0), ("id int, v int, g int", 1)])
@pytest.mark.short("id int, v int, g int-1", why="the easier case: nothing was given")
def test_what_was_just_computed_is_not_read_again(spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch, given: str, scans: int) -> None:
    """A large append that leaves the column out costs no look at the files that it wrote."""
    take_route(monkeypatch, "large")
    generated(spark, table_path, [])
    looked: list[int] = []
    scan = Scanner.frame

    def counted(scanner: Scanner, snapshot: Any, files: Any, *more: Any, **options: Any) -> Any:
        looked.append(len(files))
        return scan(scanner, snapshot, files, *more, **options)

    monkeypatch.setattr(Scanner, "frame", counted)
    rowlock.write(
        spark.createDataFrame([(n, n, n + n) for n in range(9)], "id int, v int, g int").select(*(c.split()[0] for c in given.split(", "))), table_path
    )
    assert len(looked) == scans
    assert len(assert_right(spark, table_path)) == 9


@pytest.mark.usual_limits("a refused statement leaves no file where its rows stay on the driver")
@pytest.mark.parametrize("route", ["driver", "large"])
@pytest.mark.short("driver", why="the same statement the other way; the ways themselves are compared in test_routes")
def test_an_update_computes_anew_what_it_does_not_set(spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch, route: str) -> None:
    take_route(monkeypatch, route)
    table = generated(spark, table_path, [(n, n * 10) for n in range(20)], files=2)
    table.update("id < 12", {"v": "v + id"})
    table.update("g = 22", {"id": "100L", "V": "cast(v as bigint)"})
    table.update("id = 3", {"v": "1", "g": "1 + id"})
    for wrong in ("5", "null", "g"):
        with unchanged(table_path) if route == "driver" else pytest.MonkeyPatch.context(), pytest.raises(ConstraintViolated, match=VIOLATED):
            table.update("id < 12", {"v": "v + 1", "g": wrong})
    found = assert_right(spark, table_path)
    assert (100, 20, 120) not in found and (3, 1, 4) in found and (11, 121, 132) in found and len(found) == 20


@pytest.mark.parametrize("route", ["driver", "large"])
@pytest.mark.short("large", why="the same statement the other way; the ways themselves are compared in test_routes")
def test_a_merge_computes_what_its_clauses_leave_out(spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch, route: str) -> None:
    """Each clause by itself: those that give the column and those that do not stand side by side in one statement."""
    take_route(monkeypatch, route)
    table = generated(spark, table_path, [(n, n * 10) for n in range(8)], files=2)
    source = spark.createDataFrame([(n, n * 100, n * 101) for n in range(4, 14)], "k int, w int, h int")
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.k")
    merge = (
        merge.whenMatchedUpdate("s.k = 4", {"v": "s.w"})
        .whenMatchedUpdate("s.k = 5", {"t.v": "s.w", "g": "s.h"})
        .whenMatchedDelete("s.k = 6")
        .whenMatchedUpdate(set={"v": "t.v + 1"})
    )
    merge = (
        merge.whenNotMatchedInsert("s.k = 8", {"id": "s.k", "v": "s.w"})
        .whenNotMatchedInsert("s.k = 9", {"id": "s.k", "v": "s.w", "g": "s.h"})
        .whenNotMatchedInsert(values={"id": "s.k"})
    )
    merge.whenNotMatchedBySourceUpdate("t.id < 2", {"v": "-1"}).whenNotMatchedBySourceDelete("t.id = 2").execute()
    found = assert_right(spark, table_path)
    assert found == sorted(
        [
            (0, -1, -1),
            (1, -1, 0),
            (3, 30, 33),
            (4, 400, 404),
            (5, 500, 505),
            (7, 71, 78),
            (8, 800, 808),
            (9, 900, 909),
            *[(n, None, None) for n in range(10, 14)],
        ],
        key=repr,
    )
    with pytest.raises(ConstraintViolated, match=VIOLATED):
        table.alias("t").merge(source.alias("s"), "t.id = s.k").whenMatchedUpdate(set={"g": "s.h + 1"}).execute()
    with pytest.raises(ConstraintViolated, match=VIOLATED):
        table.alias("t").merge(source.alias("s"), "t.id = s.k + 50").whenNotMatchedInsert(values={"id": "s.k", "v": "s.w", "g": "1"}).execute()


@pytest.mark.soak("more forms of a MERGE; each clause is in the test before it", ci=True)
def test_all_forms_of_a_merge_take_the_column_or_compute_it(spark: SparkSession, table_path: str) -> None:
    table = generated(spark, table_path)

    def merge(rows: list[Any], columns: str, evolving: bool = False) -> None:
        source = spark.createDataFrame(rows, columns)
        merge = table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll()
        (merge.withSchemaEvolution() if evolving else merge).execute()

    merge([(1, 5), (7, 7)], "id int, v int")
    merge([(2, 5, 7), (8, 8, 16)], "id int, v int, g int")
    with pytest.raises(ConstraintViolated, match=VIOLATED):
        merge([(2, 5, 8)], "id int, v int, g int")
    with pytest.raises(SchemaMismatch, match="lacks the column v"):
        merge([(2, 7)], "id int, g int")
    assert {(1, 5, 6), (7, 7, 14), (2, 5, 7), (8, 8, 16)} <= set(assert_right(spark, table_path))
    merge([(3, 1, "x"), (9, 9, "y")], "id int, v int, note string", evolving=True)
    assert {(3, 1, 4, "x"), (9, 9, 18, "y"), (1, 5, 6, None)} <= set(delta_rows(spark, table_path))


@pytest.mark.soak("more expressions of the same kind", ci=True)
def test_expressions_read_structs_partitions_and_time(spark: SparkSession, table_path: str) -> None:
    """A field of a struct that is set, a generated partition column whose text is empty, names that need quotes."""
    columns = {"s": "struct<x: int, y: string>", "at": "timestamp", "l": "array<int>"}
    made = DeltaTable.create(spark).location(table_path).property("delta.columnMapping.mode", "name").property("delta.enableChangeDataFeed", "true")
    for name, kind in columns.items():
        made = made.addColumn(name, kind)
    made = made.addColumn("the day", "date", nullable=False, generatedAlwaysAs="CAST(at AS DATE)").addColumn(
        "p", "string", generatedAlwaysAs="substring(s.y, 2) -- the rest"
    )
    table = (
        made.addColumn("n", "int", generatedAlwaysAs="s.x + size(l)")
        .addColumn("m", "array<int>", generatedAlwaysAs="transform(l, e -> e + s.x)")
        .partitionedBy("p")
        .execute()
    )
    frame = spark.sql(
        "select struct(id as x, concat('a', if(id = 1, '', 'b')) as y) as s, timestamp'2026-01-01 12:00:00' + make_interval(0, 0, 0, id) as at, array(1, id) as l from (select cast(id as int) from range(3))"
    )
    rowlock.write(frame, table_path)
    table.update("s.x = 2", {"s.x": "20", "at": "at - interval 1 year"})
    table.update("s.x = 1", {"l": "array()"})
    days = [str(r[0]) for r in rowlock.read(spark, table_path).orderBy("s.x").select("the day").collect()]
    assert days == ["2026-01-01", "2026-01-02", "2025-01-03"]
    expected = [(0, "b", 2, [1, 0]), (1, None, 1, []), (20, "b", 22, [21, 22])]
    for frame in (rowlock.read(spark, table_path), spark.read.format("delta").load(table_path)):
        assert [tuple(r) for r in frame.orderBy("s.x").select("s.x", "p", "n", "m").collect()] == expected
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 2).load(table_path)
    assert {(r[0], r[1]) for r in feed.where("_change_type = 'update_postimage'").select("n", "the day").collect()} == {
        (22, frame.where("n = 22").first()["the day"]),
        (1, frame.where("n = 1").first()["the day"]),
    }
    with pytest.raises(ConstraintViolated, match="the day is NOT NULL"):
        table.update("s.x = 1", {"at": "null"})
    with pytest.raises(StatementRefused, match=r"nullif|transform|s\.x"):
        table.renameColumn("s", "t")
    table.addConstraint("some", "n > 0")


# ---- beside delta-spark ----------------------------------------------------------------------


@pytest.mark.parametrize("made_by", ["rowlock", "delta-spark"])
@pytest.mark.short(ci=("delta-spark",), why="8 s of turns with delta-spark; what is enforced is asked in the tests above")
def test_both_engines_write_and_both_enforce(spark: SparkSession, table_path: str, made_by: str) -> None:
    name = f"delta.`{table_path}`"
    if made_by == "rowlock":
        table = generated(spark, table_path)
    else:
        spark.sql(f"CREATE TABLE {name} (id INT, v INT, g INT GENERATED ALWAYS AS (id + v)) USING delta")
        rowlock.write(spark.createDataFrame(ROWS, "id int, v int"), table_path)
        table = DeltaTable.forPath(spark, table_path)
    spark.sql(f"INSERT INTO {name} (id, v) VALUES (20, 1), (21, 1)")
    spark.sql(f"UPDATE {name} SET v = 7 WHERE id = 1")
    table.update("g = 8", {"v": "v + 1"})
    with pytest.raises(Exception, match=VIOLATED):
        spark.sql(f"INSERT INTO {name} VALUES (1, 1, 1)")
    with pytest.raises(ConstraintViolated, match=VIOLATED):
        rowlock.write(spark.createDataFrame([(1, 1, 1)], "id int, v int, g int"), table_path)
    found = assert_right(spark, table_path)
    assert {(1, 8, 9), (20, 1, 21)} <= set(found) and len(found) == 8


@pytest.mark.no_peers("its protocol is made unfit on purpose")
def test_an_expression_without_the_feature_is_not_in_force_and_appends_without_spark_are_refused(spark: SparkSession, table_path: str) -> None:
    """Without the feature the column is as any other, for delta-spark too: such a table could not be written."""
    generated(spark, table_path)
    with unchanged(table_path), pytest.raises(UnsupportedFeature, match="id \\+ v") as e:
        rowlock.append(table_path, pa.table({"id": pa.array([1], pa.int32()), "v": pa.array([1], pa.int32())}))
    assert e.value.feature == "generatedColumns"
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    Path(table_path, "_delta_log", f"{2:020}.json").write_text(json.dumps({"commitInfo": {"operation": "TEST"}}) + "\n" + json.dumps(protocol) + "\n")
    DeltaTable.forPath(spark, table_path).delete("id < 30")
    rowlock.write(spark.createDataFrame([(30, 1, 5)], "id int, v int, g int"), table_path)
    rowlock.append(table_path, pa.table({"id": pa.array([31], pa.int32()), "v": pa.array([1], pa.int32())}))
    spark.sql(f"INSERT INTO delta.`{table_path}` VALUES (32, 1, 6)")
    assert read(spark, table_path) == [(30, 1, 5), (31, 1, None), (32, 1, 6)]


@pytest.mark.soak("expressions that are refused when they are made stay above", ci=True)
def test_an_expression_of_the_moment_that_another_engine_let_through_is_refused_by_name(spark: SparkSession, table_path: str) -> None:
    """A rebase, or whoever looks a day later, would find another value."""
    DeltaTable.create(spark).location(table_path).addColumn("id", "int").addColumn("day", "date", generatedAlwaysAs="date_from_unix_date(id)").execute()
    rowlock.write(spark.createDataFrame([(1,)], "id int"), table_path)
    metadata = actions(table_path, "metaData")[0]
    metadata["schemaString"] = metadata["schemaString"].replace("date_from_unix_date(id)", "current_date()")
    Path(table_path, "_delta_log", f"{2:020}.json").write_text(
        json.dumps({"commitInfo": {"operation": "TEST"}}) + "\n" + json.dumps({"metaData": metadata}) + "\n"
    )
    for write in (
        lambda: rowlock.write(spark.createDataFrame([(1,)], "id int"), table_path),
        lambda: DeltaTable.forPath(spark, table_path).update(set={"id": "2"}),
    ):
        with pytest.raises(UnsupportedFeature, match=r"generatedColumns .*current_date\(\)"):
            write()
    DeltaTable.forPath(spark, table_path).delete("id = 1")  # asks nothing of a row
    assert read(spark, table_path) == []


def test_each_column_costs_as_many_calls(spark: SparkSession, table_path: str) -> None:
    """The rows of a table with many generated columns are written by calls into the JVM that grow as their number, not as its square."""

    def calls(columns: int) -> int:
        path = f"{table_path}-{columns}"
        made = DeltaTable.create(spark).location(path).addColumn("id", "int")
        for n in range(columns):
            made = made.addColumn(f"g{n}", "int", generatedAlwaysAs=f"id + {n}")
        made.execute()
        rows = spark.sql("select 1 as id")
        with calls_into_the_jvm(spark) as sent:
            rowlock.write(rows, path)
        return len(sent)

    calls(1)
    few, more, many = calls(5), calls(15), calls(25)
    assert many - more < 1.1 * (more - few)


# ---- beside other writers --------------------------------------------------------------------


@pytest.mark.parametrize("route", ["driver", "large"])
@pytest.mark.short("driver", why="the same statement the other way; the ways themselves are compared in test_routes")
def test_a_rebase_computes_from_the_rows_that_a_winner_left(spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch, route: str) -> None:
    """The winner changed an input of the very rows; the outcome is that of running after it (I3)."""
    take_route(monkeypatch, route)
    table = generated(spark, table_path, files=2)
    other = DeltaTable.forPath(spark, table_path)
    source = spark.createDataFrame([(3, 0), (50, 50)], "k int, w int")
    with winner(lambda: other.update("id < 4", {"v": "v + 1000"})):
        table.update("id >= 2", {"id": "id + 100"})
    assert table.lastReceipt is not None and table.lastReceipt.rounds == 1
    with winner(lambda: other.update("id = 103", {"id": "3"}), lambda: rowlock.write(spark.createDataFrame([(50, 5)], "id int, v int"), table_path)):
        table.alias("t").merge(source, "t.id = k").whenMatchedUpdate(set={"v": "t.v + 1"}).whenNotMatchedInsert(values={"id": "k", "v": "w"}).execute()
    assert assert_right(spark, table_path) == sorted(
        [(0, 1000, 1000), (1, 1010, 1011), (102, 1020, 1122), (3, 1031, 1034), (104, 40, 144), (105, 50, 155), (50, 6, 56)], key=repr
    )


@pytest.mark.soak("as the test before it, for a value that was given; constraints after a rebase are in the schedules", ci=True)
def test_a_rebase_asks_what_was_given_of_the_rows_that_a_winner_left(spark: SparkSession, table_path: str) -> None:
    """g was right for the row that was read and is not for the one that is there: as when it had run after."""
    table = generated(spark, table_path)
    other = DeltaTable.forPath(spark, table_path)
    with winner(lambda: other.update("id = 3", {"v": "0"})), pytest.raises(ConstraintViolated, match=VIOLATED):
        table.update("id = 3", {"id": "4", "g": "34"})
    assert (3, 0, 3) in assert_right(spark, table_path)


def test_a_lockless_merge_of_cells_computes_the_merged_row(spark: SparkSession, table_path: str) -> None:
    """One changed id, the other v: g is of both."""
    table = generated(spark, table_path, **LOCKLESS)
    other = DeltaTable.forPath(spark, table_path)
    with winner(lambda: other.update("id < 3", {"v": "v + 1000"})):
        table.update("id >= 1", {"id": "id + 100"})
    assert table.lastReceipt is not None and table.lastReceipt.rounds == 1 and not table.lastReceipt.overwritten  # they met in no cell that both set
    with winner(lambda: other.update("id = 101", {"v": "1"})):
        table.update("id = 101", {"id": "7", "g": "1017"})
    assert assert_right(spark, table_path) == sorted([(0, 1000, 1000), (7, 1, 8), (102, 1020, 1122), (103, 30, 133), (104, 40, 144), (105, 50, 155)], key=repr)


@pytest.mark.soak("several replacements; statements that are staged again under other columns are in the schedules (merge_meets_schema)", ci=True)
def test_a_statement_that_was_staged_under_another_definition_is_staged_again(spark: SparkSession, table_path: str) -> None:
    """A winner replaced the table: g is another column now, and then one that did not exist."""
    table = generated(spark, table_path)

    def redefined(expression: str) -> Callable[[], object]:
        made = (
            DeltaTable.createOrReplace(spark)
            .location(table_path)
            .addColumn("id", "int")
            .addColumn("v", "int")
            .addColumn("g", "int", generatedAlwaysAs=expression)
        )
        return made.execute

    with winner(redefined("id * v")):
        rowlock.write(spark.createDataFrame([(5, 5)], "id int, v int"), table_path)
    assert delta_rows(spark, table_path) == [(5, 5, 25)]
    with winner(lambda: (redefined("id - v")(), rowlock.write(spark.createDataFrame([(5, 6)], "id int, v int"), table_path))):
        table.update("id = 5", {"v": "1"})
    assert delta_rows(spark, table_path) == [(5, 1, 4)]
    with pytest.raises(MetadataChangedException, match="g"), winner(redefined("id + 1")), table.transaction() as txn:
        txn.append(spark.createDataFrame([(5, 5)], "id int, v int"))
        txn.append(spark.createDataFrame([(6, 6)], "id int, v int"))
    DeltaTable.replace(spark).location(table_path).addColumn("id", "int").addColumn("v", "int").execute()
    with winner(redefined("id + v")):
        rowlock.write(spark.createDataFrame([(8, 8)], "id int, v int"), table_path)
    assert delta_rows(spark, table_path) == [(8, 8, 16)]


# ---- changes of columns, upkeep --------------------------------------------------------------


@pytest.mark.soak("several edits of the definition beside each other", ci=True)
@pytest.mark.no_peers("deltalake does not read tables with type widening")
def test_columns_that_others_are_generated_from_stay_as_they_are(spark: SparkSession, table_path: str) -> None:
    table = generated(spark, table_path, **{"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"})
    table.addColumn("free", "int")
    for run in (
        lambda: table.renameColumn("v", "w"),
        lambda: table.dropColumns("id"),
        lambda: table.alterColumn("v", dataType="bigint"),
    ):
        with unchanged(table_path), pytest.raises(StatementRefused, match="id \\+ v"):
            run()
    table.renameColumn("free", "unused")
    table.alterColumn("unused", dataType="bigint")
    table.alterColumn("v", comment="an input", nullable=False)
    with winner(lambda: table.renameColumn("g", "total")):
        rowlock.write(spark.createDataFrame([(9, 9)], "id int, v int"), table_path)
    assert (9, 9, 18, None) in delta_rows(spark, table_path)
    with pytest.raises(ConstraintViolated, match="total <=>"):
        table.update("id = 1", {"total": "0"})
    with winner(lambda: table.dropColumns("total")):
        rowlock.write(spark.createDataFrame([(10, 10)], "id int, v int"), table_path)
    table.renameColumn("v", "w")
    assert (10, 10, None) in delta_rows(spark, table_path)


def test_a_constraint_is_not_asked_of_what_another_session_computed(spark: SparkSession, table_path: str) -> None:
    """The day of an instant is another one elsewhere: rows that are there stay right, as with delta-spark."""
    table = (
        DeltaTable.create(spark)
        .location(table_path)
        .addColumn("at", "timestamp")
        .addColumn("n", "int")
        .addColumn("day", "date", generatedAlwaysAs="cast(at as date)")
        .execute()
    )
    rowlock.write(spark.sql("select timestamp'2026-01-01 23:30:00 UTC' as at, 1 as n"), table_path)
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        table.addConstraint("some", "n > 0")
        table.update("n = 1", {"n": "2"})
        assert str(rowlock.read(spark, table_path).first()["day"]) == "2026-01-02"
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.soak("five kinds of upkeep; that they keep rows is asked of each of them in its own file", ci=True)
def test_upkeep_leaves_generated_columns_alone(spark: SparkSession, table_path: str) -> None:
    """Deletes, compaction, order, row ids, clustering: the rows stay what they were."""
    table = generated(spark, table_path, files=3, **{"delta.enableRowTracking": "true", "delta.enableDeletionVectors": "false"})
    table.delete("g = 11")
    ids = {r["id"]: r["_row_id"] for r in rowlock.read(spark, table_path, with_row_ids=True).collect()}
    table.optimize().executeCompaction()
    table.optimize().executeZOrderBy("g")
    table.update("id = 2", {"v": "0"})
    assert {r["id"]: r["_row_id"] for r in rowlock.read(spark, table_path, with_row_ids=True).collect()} == ids
    assert assert_right(spark, table_path) == [(0, 0, 0), (2, 0, 2), (3, 30, 33), (4, 40, 44), (5, 50, 55)]
    assert rowlock.read(spark, table_path).where(F.col("g") > 40).count() == 2
