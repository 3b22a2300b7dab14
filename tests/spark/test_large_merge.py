"""A MERGE in one outer join leaves the rows, the ids and the partitions that the same MERGE leaves by the driver, also after a rebase (I3, I6)."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import functions as F

import rowlock
from rowlock import DeltaTable
from rowlock.engines.spark.statements.merge import MergeJob, MergeRun
from rowlock.engines.spark.statements.sources import pin
from rowlock.exceptions import ConstraintViolated
from spark.support import make, read, take_route, unchanged, winner
from support.turning_down import turn_down

pytestmark = pytest.mark.spark
TRACKED = {"delta.enableRowTracking": "true", "delta.enableDeletionVectors": "true"}


def merged(spark: Any, path: str, monkeypatch: pytest.MonkeyPatch, route: str) -> tuple[list[Any], dict[str, int]]:
    """(rows with the ids that they had before, metrics) after a MERGE beside which another writer changed and removed rows that it matched."""
    with monkeypatch.context() as patch:
        take_route(patch, route)
        make(spark, path, spark.range(0, 90, 1, 3).selectExpr("id", "id % 5 as g", "cast(id % 2 as string) as p", "id as v"), partition_by=["p"], **TRACKED)
        source = spark.range(60, 120).selectExpr("id", "id % 4 as g", "cast(id % 3 as string) as p", "id as v")
        table = DeltaTable.forPath(spark, path)
        merge = (
            table.alias("t")
            .merge(source.alias("s"), "t.id = s.id and t.g != 3")
            .whenMatchedDelete("t.g = 1")
            .whenMatchedUpdate("t.g != 4", {"v": "t.v + s.v", "p": "s.p"})
        )
        merge = merge.whenNotMatchedInsertAll("s.id % 7 != 0").whenNotMatchedBySourceUpdate("t.id < 10", {"v": "-1"})
        with winner(
            lambda: DeltaTable.forPath(spark, path).update("id in (2, 70, 75)", {"v": "v * 1000"}),
            lambda: DeltaTable.forPath(spark, path).delete("id in (72, 77)"),
        ):
            merge.execute()
        assert table.lastReceipt is not None
        kept = {n: v for n, v in table.lastReceipt.metrics.items() if n.startswith("numTargetRows")}
        rows = rowlock.read(spark, path, with_row_ids=True).collect()
        return sorted(((r["id"], r["g"], r["p"], r["v"], r["_row_id"] if r["_row_id"] < 90 else None) for r in rows), key=repr), kept


def test_one_join_and_the_driver_leave_the_same(spark, tmp_path, monkeypatch):
    by_driver = merged(spark, str(tmp_path / "driver"), monkeypatch, "driver")
    assert merged(spark, str(tmp_path / "large"), monkeypatch, "large") == by_driver
    rows = {r[0]: r for r in by_driver[0]}
    assert rows[72][4] is None and rows[70][4] is not None, "a row that came back as an insert is another row"


@pytest.mark.parametrize(("ratio", "in_one_join"), [(0, False), (10_000, True)])
@pytest.mark.short("10000-True", ci=("0-False",), why="the other side of the limit")
def test_how_much_larger_the_target_is_decides_for_a_source_that_could_be_sent_to_every_task(spark, table_path, monkeypatch, ratio, in_one_join):
    take_route(monkeypatch, "mixed")
    turn_down(monkeypatch, outer_join_ratio=ratio)
    make(spark, table_path, spark.range(0, 90, 1, 3).selectExpr("id", "id as v"))
    table = DeltaTable.forPath(spark, table_path)
    table.alias("t").merge(
        spark.range(60, 120).selectExpr("id", "-id as v").alias("s"), "t.id = s.id"
    ).whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert read(spark, table_path) == sorted([(i, i if i < 60 else -i) for i in range(120)], key=repr)
    assert table.lastReceipt is not None and any("in one outer join" in way for way in table.lastReceipt.ways) == in_one_join


def test_a_source_of_few_wide_rows_lies_in_files(spark, table_path, monkeypatch):
    """Held on the driver it would be sent along with tasks, and Spark refuses a task of more than 128 MB.  By bytes, whatever Spark knows of its rows."""
    turn_down(monkeypatch, held_source_bytes=2000)
    make(spark, table_path, [(1, "a"), (2, "b")], "id int, s string")
    source = spark.createDataFrame([(2, "w" * 3000), (3, "c")], "id int, s string")
    table = DeltaTable.forPath(spark, table_path)
    evaluator = table._handle.engine.evaluator
    wide, narrow = pin(evaluator, source), pin(evaluator, source.where("id = 3"))
    assert (wide.table, wide.num_rows, sum(n for _, _, n in wide.files)) == (None, 2, 2) and narrow.table is not None
    wide.release(evaluator)
    table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert read(spark, table_path) == [(1, "a"), (2, "w" * 3000), (3, "c")]
    assert not [m.key for m in evaluator.store.list("_rowlock/staging", recursive=True)]


ON = {
    "t.v <=> s.v": True, "t.id + 1 = s.id and t.v < 25": True, "t.d = s.v": True, "cast(t.d as string) = cast(s.d as string)": True, "t.id = s.id and s.v > 70": True,
    "t.id between s.id and s.id": False, "t.id = 7": False,
}  # fmt: skip


@pytest.mark.short("t.v <=> s.v-True", ci=("t.id = 7-False",), why="a condition without an equality, which is joined row by row as before")
@pytest.mark.parametrize(("on", "by_keys"), ON.items())
def test_whatever_equality_there_is_is_joined_at_once(spark, tmp_path, monkeypatch, on, by_keys):
    """Which MERGE is one outer join is Spark's own rule for joins by keys; the driver, or two joins, leave the same."""

    def left_by(route: str) -> tuple[list[Any], list[str]]:
        path, taken = str(tmp_path / route), list[str]()
        with monkeypatch.context() as patch:
            take_route(patch, route)
            original = MergeJob._with_inserts
            patch.setattr(MergeJob, "_with_inserts", lambda *a: (taken.append("one join"), original(*a))[1])
            make(spark, path, spark.range(30).selectExpr("id", "nullif(id, 3) as v", "cast(id as decimal(12, 2)) as d"), files=2)
            source = spark.range(20, 50).selectExpr("id", "nullif(id * 2, 44) as v", "cast(id as decimal(12, 2)) as d")
            source = source.where("id < 21") if on == "t.id = 7" else source
            merge = DeltaTable.forPath(spark, path).alias("t").merge(source.alias("s"), on)
            merge = merge.whenMatchedUpdate(set={"d": "t.d + s.d"}).whenNotMatchedInsertAll()
            with winner(lambda: DeltaTable.forPath(spark, path).update("id in (7, 25)", {"d": "0.5", "v": "46"})):
                merge.execute()
            return read(spark, path), taken

    by_driver, taken = left_by("driver")
    assert not taken
    assert left_by("large") == (by_driver, ["one join"] if by_keys else [])


@pytest.mark.parametrize("joins", ["one join", "two joins"])
@pytest.mark.short("one join", ci=("two joins",), why="the same source by the other join")
def test_rows_of_a_source_that_spark_holds_itself_are_told_apart(spark, table_path, monkeypatch, joins):
    """I3: Spark computes what it can of VALUES before there are tasks, and still writes them by several: a row's number must not follow from its task's.

    With wrong numbers a source row without a match counts as matched by another's, and is not inserted, at once or in the rebase.
    """
    take_route(monkeypatch, "large")
    if joins == "two joins":
        monkeypatch.setattr(MergeRun, "_in_one_join", lambda *_: False)
    make(spark, table_path, spark.range(8).selectExpr("id", "0L as v"))
    source = spark.sql("select * from values " + ", ".join(f"({n}L)" for n in range(3, 12)) + " as t(id)")
    merge = DeltaTable.forPath(spark, table_path).alias("t").merge(source.alias("s"), "t.id = s.id")
    with winner(lambda: DeltaTable.forPath(spark, table_path).delete("id in (3, 6)")):
        merge.whenMatchedUpdate(set={"v": "s.id + 10"}).whenNotMatchedInsert(values={"id": "s.id", "v": "s.id + 100"}).execute()
    assert read(spark, table_path) == sorted([(i, 0 if i < 3 else i + (10 if i in (4, 5, 7) else 100)) for i in range(12)], key=repr)


@pytest.mark.soak("workers of Python are started", ci=True)
def test_python_functions_are_called_for_the_rows_of_their_clause_alone(spark, table_path, monkeypatch):
    """Spark calls a Python UDF for every row of an outer join, and takes none in its ON: such a MERGE joins twice."""
    take_route(monkeypatch, "large")

    @F.udf("long")
    def one_more(v: int) -> int:
        return v + 1  # fails for a row that has no old value

    @F.udf("boolean")
    def same(a: int, b: int) -> bool:
        return a == b

    make(spark, table_path, spark.range(30).selectExpr("id", "id as v"))
    merge = DeltaTable.forPath(spark, table_path).alias("t").merge(spark.range(10, 40).selectExpr("id", "id as v").alias("s"), "t.id = s.id")
    merge.whenMatchedUpdate(set={"v": one_more(F.col("t.v"))}).whenNotMatchedInsertAll().execute()
    wanted = [(i, i + 1 if 10 <= i < 30 else i) for i in range(40)]
    assert read(spark, table_path) == sorted(wanted, key=repr)
    on = (F.col("t.id") == F.col("s.id")) & same(F.col("t.v"), F.col("s.v"))
    merge = DeltaTable.forPath(spark, table_path).alias("t").merge(spark.range(5, 60).selectExpr("id", "id as v").alias("s"), on)
    merge.whenMatchedUpdate(set={"v": F.lit(-1)}).execute()
    assert read(spark, table_path) == sorted([(i, -1 if 5 <= i < 10 or i >= 30 else v) for i, v in wanted], key=repr)


@pytest.mark.parametrize("broken_by", ["update", "insert", "row that no source row matches"])
@pytest.mark.short(
    "insert",
    ci=(
        "update",
        "row that no source row matches",
    ),
    why="the same by other clauses; constraints of each statement are in test_checks",
)
def test_a_broken_constraint_leaves_no_file(spark, table_path, monkeypatch, broken_by):
    """I10: what a MERGE wrote before it failed is deleted at once."""
    take_route(monkeypatch, "large")
    make(spark, table_path, spark.range(20).selectExpr("id", "id as v"), **{"delta.constraints.small": "v < 1000"})
    merge = DeltaTable.forPath(spark, table_path).alias("t").merge(spark.range(10, 30).selectExpr("id", "id as v").alias("s"), "t.id = s.id")
    value = {name: "5000" if name == broken_by else "5" for name in ("update", "insert", "row that no source row matches")}
    merge = merge.whenMatchedUpdate("t.id % 2 = 0", {"v": value["update"]}).whenNotMatchedInsert(values={"id": "s.id", "v": value["insert"]})
    with unchanged(table_path), pytest.raises(ConstraintViolated):
        merge.whenNotMatchedBySourceUpdate("t.id > 3", {"v": value["row that no source row matches"]}).execute()


def test_bins_are_compacted_in_the_callers_job_group(spark, table_path, monkeypatch):
    """Who cancels the group of OPTIMIZE's caller cancels the jobs of all its bins."""
    take_route(monkeypatch, "large")
    make(spark, table_path, spark.range(24).selectExpr("id", "cast(id % 3 as string) p"), files=2, partition_by=["p"])
    context = spark.sparkContext
    context.setJobGroup("compaction of a test", "three bins")
    before = context._jsc.sc().dagScheduler().numTotalJobs()
    try:
        DeltaTable.forPath(spark, table_path).optimize().executeCompaction()
        jobs = context._jsc.sc().dagScheduler().numTotalJobs() - before
        assert len(context.statusTracker().getJobIdsForGroup("compaction of a test")) == jobs >= 3
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
