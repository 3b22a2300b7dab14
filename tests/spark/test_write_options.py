"""What a write may be told beside its rows: what it replaces, what it says of itself, how large its files are; beside delta-spark and other writers (I1, I3)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import rowlock
from interop.readers import rows_by_all
from rowlock import DeltaTable
from rowlock.advice.read_history import read_history
from rowlock.exceptions import (
    ConcurrentDeleteReadException,
    ConstraintViolated,
    InvalidInput,
    SchemaMismatch,
    StatementRefused,
)
from rowlock.limits import limited
from rowlock.storage.open import open_store
from rowlock.transaction.state.shared import state_of
from spark.support import make, read, unchanged, winner

pytestmark = pytest.mark.spark
DYNAMIC: Any = {"mode": "overwrite", "partition_overwrite_mode": "dynamic"}


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.unset(name)


def parameters(spark: SparkSession, path: str) -> dict[str, str]:
    found: dict[str, str] = DeltaTable.forPath(spark, path).history(1).first()["operationParameters"]
    return found


def rows_of_files(path: str) -> list[int]:
    return sorted(f.num_records or 0 for f in state_of(open_store(path)).refresh().files.adds())


# ---- dynamic partition overwrite -----------------------------------------------------------------


@pytest.mark.soak("8 s beside delta-spark; what is replaced is asked in the tests below", ci=True)
def test_dynamic_overwrite_replaces_the_partitions_of_its_rows_as_delta_spark_does(spark: SparkSession, table_path: str) -> None:
    """Values that are easily mistaken for others: null, the empty text, a quote, a negative number, a time."""
    query = (
        "select id, if(id % 4 = 0, null, concat('p''', id % 4)) as p, cast(id % 2 - 1 as int) as q, timestamp '2024-01-01 00:00:00.5' + make_dt_interval(id % 3) as t "
        "from range({}, {})"
    )
    theirs = table_path + "-theirs"
    for path in (table_path, theirs):
        make(spark, path, spark.sql(query.format(0, 24)), partition_by=["p", "q", "t"])
    rows = spark.sql(query.format(100, 106))
    rowlock.write(rows, table_path, **DYNAMIC)
    rows.write.format("delta").mode("overwrite").option("partitionOverwriteMode", "dynamic").save(theirs)
    assert rows_by_all(spark, table_path) == rows_by_all(spark, theirs)
    assert 6 < len(read(spark, table_path)) < 30
    assert parameters(spark, table_path)["isDynamicPartitionOverwrite"] == "true"
    rows.write.format("delta").mode("overwrite").option("partitionOverwriteMode", "dynamic").save(table_path)  # delta-spark goes on
    before = read(spark, table_path)
    rowlock.write(rows.limit(0), table_path, **DYNAMIC)  # no rows fall into no partition
    assert read(spark, table_path) == before


def test_the_session_says_it_too_and_a_table_without_partitions_is_replaced(spark: SparkSession, table_path: str) -> None:
    plain = table_path + "-plain"
    make(spark, table_path, [(1, 1), (2, 2)], "id int, p int", partition_by=["p"])
    make(spark, plain, [(1, 1), (2, 2)], "id int, p int")
    rows = spark.createDataFrame([(3, 2)], "id int, p int")
    with setting(spark, "spark.sql.sources.partitionOverwriteMode", "dynamic"):
        for path in (table_path, plain):
            rowlock.write(rows, path, mode="overwrite")
            assert parameters(spark, path)["isDynamicPartitionOverwrite"] == "true"
        metrics = DeltaTable.forPath(spark, table_path).history(1).first()["operationMetrics"]
        assert set(metrics) == {"numFiles", "numOutputRows", "numOutputBytes", "numRemovedFiles", "numRemovedBytes"}, "delta-spark counts no rows that went"
        assert (read(spark, table_path), read(spark, plain)) == ([(1, 1), (3, 2)], [(3, 2)])
        rowlock.sql(spark, f"INSERT OVERWRITE delta.`{table_path}` SELECT 4 AS id, 1 AS p")
        rowlock.sql(spark, f"INSERT OVERWRITE delta.`{plain}` SELECT 4 AS id, 1 AS p")
        assert (read(spark, table_path), read(spark, plain)) == ([(3, 2), (4, 1)], [(4, 1)])
        rowlock.sql(spark, f"INSERT OVERWRITE delta.`{table_path}` PARTITION (p = 7) SELECT 5 AS id")
        assert read(spark, table_path) == [(3, 2), (4, 1), (5, 7)]
        rowlock.write(rows, table_path, mode="overwrite", partition_overwrite_mode="static")
        assert read(spark, table_path) == [(3, 2)]


def test_rows_that_others_add_to_the_partitions_meanwhile_are_replaced_and_others_stay(spark: SparkSession, table_path: str) -> None:
    make(spark, table_path, [(1, "a"), (2, "b")], "id int, p string", partition_by=["p"])
    new = pa.table({"id": pa.array([8, 9], pa.int32()), "p": ["a", "b"]})
    with winner(lambda: rowlock.append(table_path, new)):
        receipt = rowlock.write(spark.createDataFrame([(5, "a")], "id int, p string"), table_path, **DYNAMIC)
    assert rows_by_all(spark, table_path) == [(2, "b"), (5, "a"), (9, "b")]
    assert receipt.conflicts
    with winner(lambda: DeltaTable.forPath(spark, table_path).delete("id = 9")):  # rows of the other partition are nobody's business
        assert not rowlock.write(spark.createDataFrame([(6, "a")], "id int, p string"), table_path, **DYNAMIC).conflicts
    assert rows_by_all(spark, table_path) == [(2, "b"), (6, "a")]


@pytest.mark.parametrize("cdf", ["false", "true"])
@pytest.mark.short(ci=("false",), why="9 s each beside delta-spark; what is replaced is asked in the tests below")
def test_rows_that_a_new_row_matches_are_replaced_as_delta_spark_does(spark: SparkSession, table_path: str, cdf: str) -> None:
    """Nulls match nothing, several new rows take one old one, and a row of another key stays."""
    theirs, plain = table_path + "-theirs", [(1, "a", "old"), (1, "b", "old"), (None, "a", "old"), (4, None, "old"), (5, "e", "old")]
    schema = "id int, k string, v string"
    for path in (table_path, theirs):
        make(spark, path, plain, schema, **{"delta.enableChangeDataFeed": cdf})
    rows = spark.createDataFrame([(1, "a", "new"), (1, "a", "more"), (None, "a", "new"), (4, None, "new"), (7, "g", "new")], schema)
    for ours, option in (({"replace_using": ["ID", "k"]}, {"replaceUsing": "id, k"}), ({"replace_using": "id"}, {"replaceUsing": "id"})):
        rowlock.write(rows, table_path, mode="overwrite", **ours)  # type: ignore[arg-type]
        rows.write.format("delta").mode("overwrite").options(**option).save(theirs)
        assert rows_by_all(spark, table_path) == rows_by_all(spark, theirs)
    on = {"replaceOn": "t.id > s.id AND t.k = 'g'", "targetAlias": "t"}
    rowlock.write(rows.alias("s"), table_path, mode="overwrite", replace_on=on["replaceOn"], target_alias="t")
    rows.alias("s").write.format("delta").mode("overwrite").options(**on).save(theirs)
    assert rows_by_all(spark, table_path) == rows_by_all(spark, theirs)
    assert parameters(spark, table_path)["replaceOn"] == on["replaceOn"]
    with unchanged(table_path), pytest.raises(SchemaMismatch, match="nosuch"):
        rowlock.write(rows, table_path, mode="overwrite", replace_using="nosuch")


@pytest.mark.parametrize("way", ["driver", "spark"])
@pytest.mark.short(ci=("driver",), why="the same race as in the test before it, for REPLACE ON")
def test_rows_that_others_add_and_a_new_row_matches_are_replaced_too(spark: SparkSession, table_path: str, way: str) -> None:
    """I3: as if it had run after the winner; the new rows are read once, although two statements need them."""
    make(spark, table_path, [(1, "a"), (2, "b")], "id int, p string")
    new, seen = pa.table({"id": pa.array([3, 8], pa.int32()), "p": ["w", "w"]}), spark.sparkContext.accumulator(0)

    def counted(batches: Any) -> Any:
        for batch in batches:
            seen.add(batch.num_rows)
            yield batch

    rows = spark.createDataFrame([(2, "n"), (3, "n")], "id int, p string").mapInArrow(counted, "id int, p string")
    with limited(driver_rows=1, local_rows=0) if way == "spark" else limited(), winner(lambda: rowlock.append(table_path, new)):
        receipt = rowlock.write(rows, table_path, mode="overwrite", replace_using="id")
    assert rows_by_all(spark, table_path) == [(1, "a"), (2, "n"), (3, "n"), (8, "w")]
    assert receipt.conflicts
    assert seen.value == (2 if way == "driver" else 4)  # a large source is looked at first: is it one?
    staging = Path(table_path) / "_rowlock" / "staging"
    assert not staging.exists() or not list(staging.iterdir())


@pytest.mark.soak("several writes of many rows", ci=True)
def test_an_overwrite_that_changes_no_row_is_a_compaction(spark: SparkSession, table_path: str) -> None:
    """dataChange=false: the rows are compared, not the writer believed; a row that another adds meanwhile stays (I5)."""
    make(spark, table_path, [(1, "a")], "id int, p string", partition_by=["p"])
    for n, p in ((2, "a"), (3, "b"), (4, "b")):
        rowlock.write(spark.createDataFrame([(n, p)], "id int, p string"), table_path)
    same, new = rowlock.read(spark, table_path).repartition(1), pa.table({"id": pa.array([9], pa.int32()), "p": ["a"]})
    rowlock.write(same.where("p = 'b'"), table_path, mode="overwrite", replace_where="p = 'b'", data_change=False)
    assert rows_of_files(table_path) == [1, 1, 2]
    with winner(lambda: rowlock.append(table_path, new)):
        assert rowlock.write(same, table_path, mode="overwrite", data_change=False).operation == "OPTIMIZE"
    assert rows_of_files(table_path) == [1, 2, 2]
    assert rows_by_all(spark, table_path) == [(1, "a"), (2, "a"), (3, "b"), (4, "b"), (9, "a")]
    for rows in (same, same.unionAll(rowlock.read(spark, table_path)), same.withColumn("id", same.id + 1)):
        with unchanged(table_path), pytest.raises(InvalidInput, match="rows stay the same"):
            rowlock.write(rows, table_path, mode="overwrite", data_change=False)
    with unchanged(table_path), pytest.raises(InvalidInput, match="compacts"):
        rowlock.write(same, table_path, data_change=False)


@pytest.mark.soak("more files than a task holds open", ci=True)
def test_many_partitions(spark: SparkSession, table_path: str) -> None:
    frame = spark.sql("select id, cast(id % 300 as int) as p, cast(id % 2 as string) as q from range(900)")
    make(spark, table_path, frame.where("id < 600"), partition_by=["p", "q"])
    rowlock.write(frame.where("id >= 600 and p < 299"), table_path, **DYNAMIC)
    assert len(rows := read(spark, table_path)) == 299 + 2
    assert [r[0] for r in rows if r[1] == 299] == [299, 599]


# ---- overwriteSchema -----------------------------------------------------------------------------


def test_columns_and_partitioning_are_replaced_and_properties_stay(spark: SparkSession, table_path: str) -> None:
    t = DeltaTable.forPath
    properties = {"delta.columnMapping.mode": "name", "delta.enableRowTracking": "true", "rowlock.onConflict": "repair"}
    make(spark, table_path, [(1, "a"), (2, "b")], "id int, s string", partition_by=["s"], **properties)
    identity = t(spark, table_path).detail().first()["id"]
    wider = spark.sql("select id as k, array(id) as many, cast(id % 2 as int) as p from range(4)")
    with pytest.raises(SchemaMismatch):
        rowlock.write(wider, table_path, mode="overwrite")
    with winner(lambda: rowlock.append(table_path, pa.table({"id": pa.array([9], pa.int32()), "s": ["z"]}))):  # replaced with the rest
        receipt = rowlock.write(wider, table_path, mode="overwrite", overwrite_schema=True, partition_by="p", user_metadata="anew")
    assert receipt.version is not None and receipt.metrics["numOutputRows"] == 4
    detail = t(spark, table_path).detail().first()
    assert (detail["id"], detail["partitionColumns"]) == (identity, ["p"]) and detail["properties"]["rowlock.onConflict"] == "repair"
    assert parameters(spark, table_path)["canOverwriteSchema"] == "true"
    assert t(spark, table_path).history(1).first()["userMetadata"] == "anew"
    assert read(spark, table_path) == [(0, [0], 0), (1, [1], 1), (2, [2], 0), (3, [3], 1)]
    assert len(rowlock.read(spark, table_path, version=receipt.version - 1).collect()) == 3
    again = wider.drop("many")
    again.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(table_path)  # delta-spark goes on
    rowlock.write(wider, table_path, mode="overwrite", overwrite_schema=True)
    assert t(spark, table_path).detail().first()["partitionColumns"] == []
    wider.write.format("delta").mode("append").save(table_path)
    assert len(rows_by_all(spark, table_path)) == 8


@pytest.mark.soak("statements beside other columns are in the schedules (merge_meets_schema)", ci=True)
def test_statements_that_were_staged_before_are_staged_again(spark: SparkSession, table_path: str) -> None:
    make(spark, table_path, [(1, "a"), (2, "b")], "id int, s string")
    anew = spark.sql("select cast(id as int) as id, 'x' as other from range(3)")
    with winner(lambda: rowlock.write(anew, table_path, mode="overwrite", overwrite_schema=True)):
        DeltaTable.forPath(spark, table_path).delete("id = 1")
    assert rows_by_all(spark, table_path) == [(0, "x"), (2, "x")]
    with winner(lambda: DeltaTable.forPath(spark, table_path).addColumn("late", "int")):  # its rows are written again under the new head
        rowlock.write(spark.sql("select 7L as k"), table_path, mode="overwrite", overwrite_schema=True)
    assert rows_by_all(spark, table_path) == [(7,)]


def test_rows_of_the_table_itself_are_replaced_as_they_were_read_or_not_at_all(spark: SparkSession, table_path: str) -> None:
    make(spark, table_path, [(1,), (2,)], "id int")
    own = rowlock.read(spark, table_path).selectExpr("id * 10 as ten")
    with winner(lambda: rowlock.append(table_path, pa.table({"id": pa.array([3], pa.int32())}))), pytest.raises(ConcurrentDeleteReadException):
        rowlock.write(own, table_path, mode="overwrite", overwrite_schema=True)
    assert read(spark, table_path) == [(1,), (2,), (3,)]
    rowlock.write(rowlock.read(spark, table_path).selectExpr("id * 10 as ten"), table_path, mode="overwrite", overwrite_schema=True)
    assert rows_by_all(spark, table_path) == [(10,), (20,), (30,)]


def test_a_step_of_an_application_replaces_the_columns_once(spark: SparkSession, table_path: str) -> None:
    make(spark, table_path, [(1,)], "id int")
    step: Any = {"mode": "overwrite", "overwrite_schema": True, "app_id": "loader", "app_version": 3}
    assert rowlock.write(spark.sql("select 'a' as s"), table_path, **step).version is not None
    with unchanged(table_path):
        assert rowlock.write(spark.sql("select 'b' as s"), table_path, **step).already_committed
    assert read(spark, table_path) == [("a",)]


def test_what_is_replaced_must_be_said_once_and_may_not_be_forbidden(spark: SparkSession, table_path: str) -> None:
    make(spark, table_path, [(1, 1)], "id int, p int", partition_by=["p"], **{"delta.appendOnly": "true"})
    rows = spark.createDataFrame([(3, 1)], "id int, p int")
    for more in (
        {"mode": "append", "overwrite_schema": True},
        {"mode": "append", "partition_overwrite_mode": "dynamic"},
        {"mode": "overwrite", "overwrite_schema": True, "replace_where": "p = 1"},
        {"mode": "overwrite", "partition_overwrite_mode": "dynamic", "replace_where": "p = 1"},
        {"mode": "overwrite", "partition_overwrite_mode": "dynamic", "overwrite_schema": True},
        {"mode": "overwrite", "partition_overwrite_mode": "other"},
        {"mode": "append", "replace_using": "id"},
        {"mode": "overwrite", "replace_using": ["id", ""]},
        {"mode": "overwrite", "replace_using": "id", "replace_on": "true"},
        {"mode": "overwrite", "replace_using": "id", "replace_where": "p = 1"},
        {"mode": "overwrite", "replace_on": "true", "overwrite_schema": True},
        {"mode": "overwrite", "target_alias": "t"},
        {"max_records_per_file": -1},
    ):
        with unchanged(table_path), pytest.raises(InvalidInput):
            rowlock.write(rows, table_path, **more)  # type: ignore[arg-type]
    with (
        unchanged(table_path),
        pytest.raises(InvalidInput, match=r"DELTA_DATA_CHANGE_FALSE.* columns that the table lacks"),
    ):  # not that merge_schema would help
        rowlock.write(rows.selectExpr("*", "1 AS more"), table_path, mode="overwrite", data_change=False, merge_schema=True)
    for more in ({"overwrite_schema": True}, {"partition_overwrite_mode": "dynamic"}, {"replace_using": "id"}):
        with unchanged(table_path), pytest.raises(StatementRefused, match="append-only"):
            rowlock.write(rows, table_path, mode="overwrite", **more)  # type: ignore[arg-type]


def test_constraints_hold_for_the_new_columns(spark: SparkSession, table_path: str) -> None:
    make(spark, table_path, [(1,)], "id int")
    DeltaTable.forPath(spark, table_path).addConstraint("small", "id < 10")
    with unchanged(table_path), pytest.raises(ConstraintViolated):
        rowlock.write(spark.sql("select 11 as id, 'x' as s"), table_path, mode="overwrite", overwrite_schema=True)
    for rows_ in (spark.sql("select 'x' as s"), spark.sql("select 'x' as s where false")):
        with unchanged(table_path), pytest.raises(StatementRefused, match="small id < 10 cannot be asked of this table's rows"):
            rowlock.write(rows_, table_path, mode="overwrite", overwrite_schema=True)


# ---- userMetadata and the size of files ----------------------------------------------------------


def test_a_text_of_the_users_own_stands_in_every_kind_of_commit(spark: SparkSession, table_path: str) -> None:
    table = make(spark, table_path, [(1, "a")], "id int, s string")
    row = spark.createDataFrame([(2, "b")], "id int, s string")
    with setting(spark, "spark.databricks.delta.commitInfo.userMetadata", "of the session"):
        rowlock.write(row, table_path)
        table.update("id = 1", {"s": "'z'"})
        table.merge(row.alias("n"), "n.id = 7").whenNotMatchedInsertAll().execute()
        table.setProperties({"delta.appendOnly": "false"})
        table.addColumn("late", "int")
        table.optimize().executeCompaction()
        table.restoreToVersion(1)
        rowlock.sql(spark, f"DELETE FROM delta.`{table_path}` WHERE id = 1")
        rowlock.write(row, table_path + "-new")
        rowlock.write(row, table_path, user_metadata="of the write")
        with table.transaction(user_metadata="of the block") as txn:
            txn.append(row)
        rowlock.append(table_path, pa.table({"id": pa.array([5], pa.int32())}), user_metadata="of the append")
    rowlock.append(table_path, pa.table({"id": pa.array([6], pa.int32())}))
    told = [(r["operation"], r["userMetadata"]) for r in table.history().collect()]
    assert [said for _, said in told[:4]] == [None, "of the append", "of the block", "of the write"]
    operations = ["DELETE", "RESTORE", "OPTIMIZE", "ADD COLUMNS", "SET TBLPROPERTIES", "MERGE", "UPDATE", "WRITE"]
    assert told[4:12] == [(operation, "of the session") for operation in operations]
    assert DeltaTable.forPath(spark, table_path + "-new").history().first()["userMetadata"] == "of the session"
    assert [(r["operation"], r["userMetadata"]) for r in spark.sql(f"DESCRIBE HISTORY delta.`{table_path}`").collect()] == told
    runs = read_history(open_store(table_path)).commits
    assert {r.writer.application for r in runs[-12:-2]} == {spark.sparkContext.appName} and runs[-1].writer.application != spark.sparkContext.appName
    assert all(r.writer.process == os.getpid() and r.began_ms is not None and r.began_ms <= (r.at_ms or 0) for r in runs)


@pytest.mark.parametrize("way", ["driver", "spark", "append"])
@pytest.mark.short("driver", "append", ci=("spark",), why="the same by a job")
def test_files_hold_no_more_rows_than_was_said(spark: SparkSession, table_path: str, way: str) -> None:
    make(spark, table_path, [(0, 0)], "id int, p int", partition_by=["p"], **{"delta.enableRowTracking": "true"})
    frame = spark.createDataFrame([(n, int(n > 7)) for n in range(1, 11)], "id int, p int").coalesce(1)

    def write(rows: DataFrame, most: int | None) -> None:
        if way == "append":
            rowlock.append(table_path, rows.toArrow(), max_records_per_file=most)
        else:
            rowlock.write(rows, table_path, max_records_per_file=most)

    with limited(driver_rows=1 if way == "spark" else 100):
        write(frame, 3)
    assert rows_of_files(table_path) == [1, 1, 3, 3, 3]
    with setting(spark, "spark.sql.files.maxRecordsPerFile", "1"), limited(driver_rows=1 if way == "spark" else 100):
        for number, most in enumerate((0, None)):  # 0 lifts the session's limit, which rowlock.append had not
            rows = spark.createDataFrame([(n, 7) for n in range(11 + 3 * number, 14 + 3 * number)], "id int, p int").coalesce(1)
            write(rows, most)
    assert rows_of_files(table_path) == [1, 1, 1, 1, 1, 3, 3, 3, 3]
    assert sorted(r[0] for r in rows_by_all(spark, table_path)) == list(range(17))
