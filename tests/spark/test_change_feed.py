"""The change data feed on Spark: for every version, what delta-spark reads of it is the difference of the two snapshots, row by row and net."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession, functions as F

import rowlock
from rowlock import DeltaTable
from rowlock.exceptions import InvalidInput, TableNotFound, UnsupportedFeature
from rowlock.protocol.actions import Commit
from rowlock.storage.open import open_store
from rowlock.transaction.state.shared import state_of
from spark.support import add, make, take_route, winner

pytestmark = pytest.mark.spark
FEED = {"delta.enableChangeDataFeed": "true"}
SCHEMA = "id int, v int, p string"
COLUMNS = ["id", "v", "p"]


def some(start: int, end: int) -> list[tuple[int, int, str]]:
    return [(n, n * 10, "ab"[n % 2]) for n in range(start, end)]


def fed(spark: SparkSession, path: str, *, partition_by: Sequence[str] = (), vectors: bool = True, mapping: str = "none") -> DeltaTable:
    properties = FEED | {"delta.enableDeletionVectors": str(vectors).lower(), "delta.columnMapping.mode": mapping}
    return make(spark, path, some(0, 10), SCHEMA, files=2, partition_by=partition_by, **properties)


def check(spark: SparkSession, path: str) -> list[Commit]:
    """Every version's feed against its snapshots; the commits, by version.  Keys are unique, and no statement changes one."""
    state = state_of(open_store(path))
    commits = state.log.commits(-1, state.refresh().version)
    feed: dict[int, Counter[Any]] = {c.version: Counter() for c in commits}
    told = spark.read.format("delta").option("readChangeFeed", True).option("startingVersion", 0).load(path)
    ours = rowlock.changes(spark, path, 0).select(*[F.col(f"`{c}`") for c in told.columns])
    assert Counter(map(tuple, ours.collect())) == Counter(map(tuple, told.collect())), "rowlock.changes reads what delta-spark reads"
    for row in told.collect():
        feed[row["_commit_version"]][(row["_change_type"], *(row[c] for c in COLUMNS))] += 1
    before: dict[int, Any] = {}
    for commit in commits:
        after = {r["id"]: tuple(r[c] for c in COLUMNS) for r in rowlock.to_arrow(path, version=commit.version).to_pylist()}
        wanted: Counter[Any] = Counter(("delete", *r) for k, r in before.items() if k not in after)
        wanted.update(("insert", *r) for k, r in after.items() if k not in before)
        changed = [k for k in after if k in before and after[k] != before[k]]
        wanted.update(("update_preimage", *before[k]) for k in changed)
        wanted.update(("update_postimage", *after[k]) for k in changed)
        assert _net(feed[commit.version]) == wanted, f"version {commit.version}, {commit.info.operation if commit.info else ''}"
        assert all(c.raw["path"].startswith("_change_data/") and c.raw["dataChange"] is False for c in commit.cdc)
        before = after
    return commits


def _net(found: Counter[Any]) -> Counter[Any]:
    """Without updates that set what was there."""
    idle = [row[1:] for row in found if row[0] == "update_preimage" and found[("update_postimage", *row[1:])]]
    return Counter({row: n for row, n in found.items() if not (row[0].startswith("update") and row[1:] in idle)})


WAYS = [
    ("driver", True, ("p",), "none"),
    ("mixed", False, (), "id"),
    ("large", True, (), "name"),
    ("large", False, ("p",), "none"),
    ("driver", True, ("p",), "name"),
]


@pytest.mark.parametrize(("route", "vectors", "partition_by", "mapping"), WAYS)
@pytest.mark.short("large-True-partition_by2-name", why="9 s each; the layout and the way that differ most from those of the tests below")
def test_every_statement(
    spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch, route: str, vectors: bool, partition_by: Sequence[str], mapping: str
) -> None:
    take_route(monkeypatch, route)
    table = fed(spark, table_path, partition_by=partition_by, vectors=vectors, mapping=mapping)
    table.update("id >= 4", {"v": "v + 1", "p": "'c'"})
    table.delete("id in (1, 5, 8)")
    source = spark.createDataFrame([(n, n, "a") for n in (0, 2, 3, 4, 6, 20, 21, 22, 23)], SCHEMA).alias("s")
    merge = table.alias("t").merge(source, "t.id = s.id").whenMatchedUpdate("s.id <> 3", set={"v": "s.v"}).whenMatchedDelete().whenNotMatchedInsertAll()
    merge.whenNotMatchedBySourceUpdate("t.id = 7", set={"v": "-7"}).execute()
    table.alias("t").merge(source.alias("s"), "t.id = s.id + 100").whenNotMatchedInsert(values={"id": "s.id + 100", "v": "s.v"}).execute()
    rowlock.write(spark.createDataFrame(some(30, 35), SCHEMA), table_path)
    table.optimize().executeCompaction()
    table.delete("id > 30")
    rowlock.write(spark.createDataFrame(some(50, 55), SCHEMA), table_path, mode="overwrite")
    table.delete("id >= 50")
    check(spark, table_path)


@pytest.mark.soak("files of many shapes; each statement's feed stays", ci=True)
def test_what_the_files_tell_is_not_said_twice(spark: SparkSession, table_path: str) -> None:
    table = fed(spark, table_path)

    def last() -> Commit:
        return check(spark, table_path)[-1]

    table.delete("id = 2")
    assert not last().cdc, "a file's first vector"
    table.delete("id = 4")
    assert last().cdc, "its second one"
    table.update("id = 3", {"v": "0"})
    assert last().cdc
    add(spark, table_path, some(30, 35), SCHEMA)
    assert not last().cdc, "an append"
    table.delete("id >= 30")
    assert not last().cdc, "a whole file without a vector"
    table.optimize().executeCompaction()
    assert not last().cdc, "a move"
    table.delete()
    assert not last().cdc


def test_several_statements_are_net(spark: SparkSession, table_path: str) -> None:
    table = fed(spark, table_path, partition_by=["p"])
    with table.transaction() as txn:
        txn.update("id < 5", {"v": "v + 1"})
        txn.update("id < 3", {"v": "v + 1", "p": "'z'"})
        txn.append(spark.createDataFrame(some(20, 25), SCHEMA))
        txn.delete("id in (2, 21, 9)")
        txn.update("id >= 20", {"v": "7"})
    last = check(spark, table_path)[-1]
    kinds = Counter(
        r["_change_type"] for r in spark.read.format("delta").option("readChangeFeed", True).option("startingVersion", last.version).load(table_path).collect()
    )
    assert kinds == {"update_preimage": 4, "update_postimage": 4, "insert": 4, "delete": 2}


@pytest.mark.parametrize(("route", "vectors"), [("driver", True), ("large", False)])
@pytest.mark.short(ci=("driver-True",), why="the feed of rebased commits is in memory in test_rebase_in_memory")
def test_rebased_commits(spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch, route: str, vectors: bool) -> None:
    """The old images are those of the head, and what a winner took away is no change of ours."""
    take_route(monkeypatch, route)
    table, other = fed(spark, table_path, vectors=vectors), DeltaTable.forPath(spark, table_path)
    with winner(
        lambda: other.update("id >= 5", {"v": "v + 1"}),
        lambda: other.delete("id in (3, 6)"),
        lambda: add(spark, table_path, some(50, 53), SCHEMA),
    ):
        table.update("id >= 2", {"v": "v + 100"})
    with winner(lambda: other.update("id = 4", {"v": "-1"}), lambda: other.optimize().executeCompaction()):
        table.delete("id in (4, 5)")
    with winner(lambda: add(spark, table_path, [(60, 0, "a")], SCHEMA), lambda: other.delete("id = 7")):
        source = spark.createDataFrame([(n, n, "s") for n in (7, 8, 60, 61)], SCHEMA).alias("s")
        table.alias("t").merge(source, "t.id = s.id").whenMatchedUpdate(set={"v": "s.v"}).whenNotMatchedInsertAll().execute()
    with winner(lambda: other.delete("id = 51")):
        table.optimize().executeCompaction()
    check(spark, table_path)


@pytest.mark.soak("a quarter of a million rows; the same way with limits turned down is in test_every_statement")
def test_more_rows_than_come_to_the_driver(spark: SparkSession, table_path: str) -> None:
    frame = spark.range(0, 250_000, 1, 2).selectExpr("cast(id as int) as id", "cast(id % 100 as int) as v", "cast(id % 2 as string) as p")
    rowlock.write(frame, table_path, properties={**FEED, "delta.enableDeletionVectors": "true"})
    table = DeltaTable.forPath(spark, table_path)
    table.update("v < 50", {"v": "v + 1000"})
    table.delete("v >= 1040")
    feed = spark.read.format("delta").option("readChangeFeed", True).option("startingVersion", 1).load(table_path)
    counts = {
        (r["_commit_version"], r["_change_type"]): (r["n"], r["s"])
        for r in feed.groupBy("_commit_version", "_change_type").agg(F.count("*").alias("n"), F.sum("v").alias("s")).collect()
    }
    old = sum(n % 100 for n in range(250_000) if n % 100 < 50)
    gone = [n % 100 + 1000 for n in range(250_000) if 40 <= n % 100 < 50]
    assert counts == {(1, "update_preimage"): (125_000, old), (1, "update_postimage"): (125_000, old + 125_000_000), (2, "delete"): (len(gone), sum(gone))}


@pytest.mark.soak("12 s of turns with delta-spark; the peers read what each test here leaves")
def test_delta_spark_and_rowlock_in_turns(spark: SparkSession, table_path: str) -> None:
    """Also with the columns that delta-spark leaves in data files, and with row tracking beside."""
    spark.sql(
        f"CREATE TABLE delta.`{table_path}` (id int, v int, p string) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true, delta.enableRowTracking = true)"
    )
    spark.createDataFrame(some(0, 10), SCHEMA).coalesce(1).write.format("delta").mode("append").save(table_path)
    spark.sql(f"UPDATE delta.`{table_path}` SET v = -1 WHERE id < 5")
    table = DeltaTable.forPath(spark, table_path)
    table.update("id in (1, 7)", {"v": "v + 3"})
    table.delete("id in (2, 8)")
    spark.sql(f"DELETE FROM delta.`{table_path}` WHERE id = 3")
    table.optimize().executeCompaction()
    table.alias("t").merge(
        spark.createDataFrame([(4, 4, "x"), (40, 4, "x")], SCHEMA).alias("s"), "t.id = s.id"
    ).whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    check(spark, table_path)


def test_a_feed_that_begins_later(spark: SparkSession, table_path: str) -> None:
    table, other = make(spark, table_path, some(0, 10), SCHEMA, files=2), DeltaTable.forPath(spark, table_path)
    with winner(lambda: other.setProperties(FEED)):
        table.update("id < 3", {"v": "0"})
    feed = spark.read.format("delta").option("readChangeFeed", True).option("startingVersion", 3).load(table_path)
    assert feed.where("_change_type = 'update_postimage'").count() == 3


@pytest.mark.no_peers("deltalake refuses tables with widened types")
def test_rows_of_other_columns_are_not_shown_as_values_of_these(spark: SparkSession, table_path: str) -> None:
    """A date is no number of days: not where the column was widened since, and not where the first version itself replaces the columns."""
    rowlock.write(spark.sql("SELECT 1 id, date'2020-01-01' v"), table_path, properties=FEED | {"delta.enableTypeWidening": "true"})
    rowlock.write(spark.sql("SELECT 2 id, 7 v"), table_path, mode="overwrite", overwrite_schema=True)
    DeltaTable.forPath(spark, table_path).alterColumn("v", dataType="bigint")
    for start in (0, 1):
        with pytest.raises(InvalidInput, match="another type of column 'v'"):
            rowlock.changes(spark, table_path, start)
    assert not rowlock.changes(spark, table_path, 2).collect()


def test_times_between_which_nothing_was_committed(spark: SparkSession, table_path: str) -> None:
    t = fed(spark, table_path)
    first, last = (t.history().collect()[n]["timestamp"] for n in (1, 0))
    assert first < last
    second = datetime.timedelta(microseconds=1000)
    between = rowlock.changes(spark, table_path, first + second, last - second)
    assert not between.collect()
    assert between.columns == [*COLUMNS, "_change_type", "_commit_version", "_commit_timestamp"]
    with pytest.raises(InvalidInput, match="before they start"):
        rowlock.changes(spark, table_path, last, first)


def test_columns_under_the_names_of_the_feed(spark: SparkSession, table_path: str) -> None:
    rowlock.write(spark.sql("select 1 as id, 'x' as _change_type"), table_path)
    with pytest.raises(UnsupportedFeature, match="a column named _change_type"):
        DeltaTable.forPath(spark, table_path).setProperties(FEED)


def test_the_changes_of_a_path_without_a_table_are_told_apart_from_a_read(spark: SparkSession, table_path: str) -> None:
    """As in delta-spark: the function names the condition of a table that is missing, a read that of a path."""
    with pytest.raises(TableNotFound) as caught:
        rowlock.sql(spark, f"SELECT * FROM table_changes_by_path('{table_path}', 0)").collect()
    assert caught.value.condition is not None and caught.value.condition.name == "DELTA_MISSING_DELTA_TABLE"


@pytest.mark.no_peers("deltalake refuses tables with widened types")
def test_rows_of_before_a_wider_type_that_an_overwrite_brought(spark: SparkSession, table_path: str) -> None:
    """Numbers are read as the wider type also where nothing recorded how the column came to it, as delta-spark reads them."""
    rowlock.write(spark.sql("SELECT 1 id, 7 v"), table_path, properties=FEED | {"delta.enableTypeWidening": "true"})
    rowlock.write(spark.sql("SELECT 2 id, 8L v"), table_path, mode="overwrite", overwrite_schema=True)
    expected = [(0, "insert", 1, 7), (1, "delete", 1, 7), (1, "insert", 2, 8)]
    feed = rowlock.changes(spark, table_path, 0)
    assert sorted(map(tuple, feed.select("_commit_version", "_change_type", "id", "v").collect())) == expected


def test_a_restore_that_takes_a_column_away_and_puts_deleted_rows_back(spark: SparkSession, table_path: str) -> None:
    """A file whose deleted rows come back loses none: what is shown of it are inserts, under the columns of then."""
    rowlock.write(spark.range(4).selectExpr("id", "id % 2 AS v"), table_path, properties=FEED)
    spark.sql(f"ALTER TABLE delta.`{table_path}` ADD COLUMN more INT")
    DeltaTable.forPath(spark, table_path).delete("id = 3")
    spark.sql(f"RESTORE TABLE delta.`{table_path}` TO VERSION AS OF 0")
    assert [tuple(r) for r in rowlock.changes(spark, table_path, 3).select("_change_type", "id", "v").collect()] == [("insert", 3, 1)]
