"""Row tracking on Spark: rows keep their ids through everything, and delta-spark reads the same ids (I6)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rowlock
from rowlock import DeltaTable
from rowlock.exceptions import InvalidInput
from rowlock.protocol.row_tracking import high_water_mark
from rowlock.storage.open import open_store
from rowlock.transaction.state.shared import state_of
from spark.support import add, make, take_route, winner
from support.peers import delta_spark_reads_here

pytestmark = pytest.mark.spark
TRACKED = {"delta.enableRowTracking": "true"}
SCHEMA = "id int, v int, p string"
Ids = dict[int, tuple[Any, ...]]


def some(start: int, end: int) -> list[tuple[int, int, str]]:
    return [(n, n * 10, "ab"[n % 2]) for n in range(start, end)]


def tracked(
    spark: SparkSession, path: str, *, files: int = 2, partition_by: Sequence[str] = (), vectors: bool = True, rows: int = 10, mapping: str = "none"
) -> DeltaTable:
    properties = TRACKED | {"delta.enableDeletionVectors": str(vectors).lower(), "delta.columnMapping.mode": mapping}
    return make(spark, path, some(0, rows), SCHEMA, files=files, partition_by=partition_by, **properties)


def ids(spark: SparkSession, path: str, *, by_both: bool = True) -> Ids:
    """By the row's key: (its id, the version that last changed it, its value).  Checked on the way: nothing is given twice, and delta-spark agrees where it is asked."""
    ours = sorted((r["id"], r["_row_id"], r["_row_commit_version"], r["v"]) for r in rowlock.read(spark, path, with_row_ids=True).collect())
    if by_both and delta_spark_reads_here():
        theirs = sorted(
            tuple(r) for r in spark.read.format("delta").load(path).selectExpr("id", "_metadata.row_id", "_metadata.row_commit_version", "v").collect()
        )
        assert ours == theirs
    given = [r[1] for r in ours]
    assert None not in given and len(set(given)) == len(given)
    state = state_of(open_store(path))
    head = state.refresh()
    assert max(given, default=-1) <= high_water_mark(head.domains)
    on = False
    for commit in state.log.commits(-1, head.version):
        on = on if commit.metadata is None else commit.metadata.configuration.get("delta.enableRowTracking") == "true"
        if on and commit.info is not None and commit.info.rowlock is not None and commit.domains and commit.version:
            assert commit.info.raw["tags"] == {"delta.rowTracking.preserved": "true"}, commit.info.raw
            assert sum(d.domain == "delta.rowTracking" for d in commit.domains) <= 1
    return {r[0]: r[1:] for r in ours}


def stayed(before: Ids, after: Ids, keys: Sequence[int]) -> None:
    assert {k: after[k][:2] for k in keys} == {k: before[k][:2] for k in keys}


def updated(before: Ids, after: Ids, keys: Sequence[int], version: int) -> None:
    assert {k: after[k][:2] for k in keys} == {k: (before[k][0], version) for k in keys}


def new(before: Ids, after: Ids, keys: Sequence[int], version: int) -> None:
    """New rows in version `version`: ids above all that were given."""
    assert all(after[k][0] > max(r[0] for r in before.values()) and after[k][1] == version for k in keys)


def version_of(table: DeltaTable) -> int:
    assert table.lastReceipt is not None and table.lastReceipt.version is not None
    return table.lastReceipt.version


WAYS = [("driver", True, (), "none"), ("mixed", False, (), "name"), ("large", True, ("p",), "id"), ("large", False, (), "none"), ("driver", True, ("p",), "id")]


@pytest.mark.parametrize(("route", "vectors", "partition_by", "mapping"), WAYS)
@pytest.mark.short("large-True-partition_by2-id", why="19 s each; ids by the other ways are followed by the swarm and by the tests below")
def test_ids_through_every_statement(
    spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch, route: str, vectors: bool, partition_by: Sequence[str], mapping: str
) -> None:
    take_route(monkeypatch, route)
    table = tracked(spark, table_path, partition_by=partition_by, vectors=vectors, mapping=mapping)
    a = ids(spark, table_path, by_both=False)
    table.update("id >= 4", {"v": "v + 1"})
    b = ids(spark, table_path, by_both=False)
    stayed(a, b, range(4))
    updated(a, b, range(4, 10), version_of(table))
    table.delete("id in (1, 5, 8)")
    c = ids(spark, table_path, by_both=False)
    stayed(b, c, [0, 2, 3, 4, 6, 7, 9])
    source = spark.createDataFrame([(n, n, "a") for n in (0, 2, 3, 4, 6, 20, 21, 22, 23)], SCHEMA).alias("s")
    table.alias("t").merge(source, "t.id = s.id").whenMatchedUpdate(
        "s.id <> 3", set={"v": "s.v"}
    ).whenMatchedDelete().whenNotMatchedInsertAll().whenNotMatchedBySourceUpdate("t.id = 7", set={"v": "-7"}).execute()
    d = ids(spark, table_path)
    merged = version_of(table)
    stayed(c, d, [9])
    updated(c, d, [0, 2, 4, 6, 7], merged)
    new(c, d, [20, 21, 22, 23], merged)
    assert set(d) == {0, 2, 4, 6, 7, 9, 20, 21, 22, 23}
    table.optimize().executeCompaction()
    e = ids(spark, table_path)
    assert e == d
    table.update("id in (4, 20, 9)", {"v": "0"})
    f = ids(spark, table_path, by_both=False)
    stayed(e, f, [0, 2, 6, 7, 21, 22, 23])
    updated(e, f, [4, 9, 20], version_of(table))
    rowlock.write(spark.createDataFrame(some(30, 33), SCHEMA), table_path)
    g = ids(spark, table_path)
    stayed(f, g, list(f))
    new(f, g, [30, 31, 32], version_of(table) + 1)


@pytest.mark.parametrize("route", ["driver", "large"])
@pytest.mark.short("large", why="the same statement the other way; the ways themselves are compared in test_routes")
def test_ids_through_several_statements(spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch, route: str) -> None:
    take_route(monkeypatch, route)
    table = tracked(spark, table_path, partition_by=["p"])
    before = ids(spark, table_path)
    with table.transaction() as txn:
        txn.update("id < 8", {"v": "v + 1"})
        txn.append(spark.createDataFrame(some(20, 25), SCHEMA))
        txn.update("id > 5", {"v": "v + 1", "p": "'c'"})
        txn.delete("id in (0, 7, 20)")
        source = spark.createDataFrame([(n, 0, "z") for n in (1, 2, 21, 40, 41, 42, 43)], SCHEMA).alias("s")
        txn.alias("t").merge(source, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
        txn.update("id >= 40", {"v": "1"})
    after, version = ids(spark, table_path), version_of(table)
    updated(before, after, [1, 2, 3, 4, 5, 6, 8, 9], version)
    new(before, after, [21, 22, 23, 24, 40, 41, 42, 43], version)
    assert after[3][2] == 31 and after[6][2] == 62 and after[21][2] == 0 and after[40][2] == 1


@pytest.mark.parametrize(("route", "vectors"), [("driver", True), ("mixed", False), ("large", True)])
@pytest.mark.short(ci=("mixed-False",), why="ids after rebases are followed in memory by test_rebase_in_memory, and on Spark by the swarm")
def test_ids_through_rebases(spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch, route: str, vectors: bool) -> None:
    """Winners update rows, append, compact; two writers' new rows never share an id."""
    take_route(monkeypatch, route)
    table, other = tracked(spark, table_path, vectors=vectors), DeltaTable.forPath(spark, table_path)
    before = ids(spark, table_path)
    with winner(
        lambda: other.update("id >= 5", {"v": "v + 1"}),
        lambda: other.optimize().executeCompaction(),
        lambda: add(spark, table_path, some(50, 53), SCHEMA),
    ):
        source = spark.createDataFrame([(n, n, "s") for n in (3, 4, 5, 6, 60, 61, 62, 63)], SCHEMA).alias("s")
        table.alias("t").merge(source, "t.id = s.id").whenMatchedUpdate(set={"v": "t.v + 1000"}).whenNotMatchedInsertAll().execute()
    after, version = ids(spark, table_path), version_of(table)
    stayed(before, after, range(3))
    updated(before, after, [3, 4, 5, 6], version)
    updated(before, after, [7, 8, 9], version - 3)
    new(before, after, [60, 61, 62, 63], version)
    assert [after[k][2] for k in (4, 5)] == [1040, 1051]
    with winner(lambda: other.update("id = 4", {"v": "-1"}), lambda: other.delete("id = 5")):
        table.optimize().executeCompaction()
    last = ids(spark, table_path)
    stayed(after, last, [k for k in after if k not in (4, 5)])
    assert last[4][0] == before[4][0] and 5 not in last


@pytest.mark.soak("13 s of turns with delta-spark; ids that delta-spark reads are compared in test_ids_through_every_statement")
def test_delta_spark_and_rowlock_in_turns(spark: SparkSession, table_path: str) -> None:
    spark.sql(
        f"CREATE TABLE delta.`{table_path}` (id int, v int, p string) USING delta TBLPROPERTIES (delta.enableRowTracking = true, delta.enableDeletionVectors = true)"
    )
    spark.createDataFrame(some(0, 10), SCHEMA).coalesce(1).write.format("delta").mode("append").save(table_path)
    table = DeltaTable.forPath(spark, table_path)
    a = ids(spark, table_path)
    table.update("id < 4", {"v": "-1"})
    spark.sql(f"UPDATE delta.`{table_path}` SET v = -2 WHERE id in (3, 4)")
    b = ids(spark, table_path)
    assert {k: r[0] for k, r in b.items()} == {k: r[0] for k, r in a.items()}
    spark.sql(f"OPTIMIZE delta.`{table_path}`")
    assert ids(spark, table_path) == b
    table.update("id in (4, 5)", {"v": "-3"})
    table.optimize().executeCompaction()
    add(spark, table_path, some(10, 12), SCHEMA)
    spark.sql(f"INSERT INTO delta.`{table_path}` VALUES (12, 0, 'a')")
    c = ids(spark, table_path)
    assert {k: r[0] for k, r in c.items() if k < 10} == {k: r[0] for k, r in a.items()}


def test_enabling_gives_ids_to_rows_that_are_there(spark: SparkSession, table_path: str) -> None:
    table = make(spark, table_path, some(0, 9), SCHEMA, files=3)
    table.delete("id = 4")
    held = rowlock.read(spark, table_path).collect()
    with pytest.raises(InvalidInput, match="enableRowTracking"):
        rowlock.read(spark, table_path, with_row_ids=True)
    table.setProperties({"delta.enableRowTracking": True})
    history = [r["operation"] for r in table.history().collect()]
    assert history[:3] == ["SET TBLPROPERTIES", "ROW TRACKING BACKFILL", "UPGRADE PROTOCOL"]
    a = ids(spark, table_path)
    assert sorted(rowlock.read(spark, table_path).collect()) == sorted(held) and len(a) == 8
    table.update("id = 3", {"v": "0"})
    b = ids(spark, table_path)
    updated(a, b, [3], version_of(table))
    stayed(a, b, [0, 1, 2, 5, 6, 7, 8])


@pytest.mark.soak("enabling beside an open transaction is in the test after it, and in the schedules (row_tracking_begins)", ci=True)
def test_enabling_while_a_writer_is_in_flight(spark: SparkSession, table_path: str) -> None:
    """The feature and the new ids pass by a staged statement; the property makes it stage again.  Nothing is lost."""
    table, other = make(spark, table_path, some(0, 10), SCHEMA, files=2), DeltaTable.forPath(spark, table_path)
    with winner(lambda: other.setProperties({"delta.enableRowTracking": "true"})):
        table.update("id < 3", {"v": "v + 1"})
    with winner(lambda: spark.sql(f"ALTER TABLE delta.`{table_path}` SET TBLPROPERTIES ('delta.feature.rowTracking' = 'supported')")):
        table.update("id < 3", {"v": "v + 1"})
    assert [ids(spark, table_path)[k][2] for k in (0, 1, 2, 3)] == [2, 12, 22, 30]


def test_the_feature_passes_by_a_transaction(spark: SparkSession, table_path: str) -> None:
    table = make(spark, table_path, some(0, 10), SCHEMA, files=2)
    add_feature = f"ALTER TABLE delta.`{table_path}` SET TBLPROPERTIES ('delta.feature.rowTracking' = 'supported')"
    with winner(lambda: spark.sql(add_feature)), table.transaction() as txn:
        txn.update("id < 3", {"v": "v + 1"})
    head = state_of(open_store(table_path)).refresh()
    assert version_of(table) == head.version and [f.base_row_id for f in head.files.adds() if f.default_row_commit_version == head.version]
    DeltaTable.forPath(spark, table_path).setProperties({"delta.enableRowTracking": "true"})
    assert len(ids(spark, table_path)) == 10


@pytest.mark.soak("threads; the order of the commits is in the schedules (row_tracking_begins)", ci=True)
def test_writers_on_threads_while_row_tracking_is_enabled(spark: SparkSession, table_path: str) -> None:
    make(spark, table_path, some(0, 8), SCHEMA, files=4)
    errors: list[BaseException] = []

    def write(key: int) -> None:
        try:
            for n in range(3):
                DeltaTable.forPath(spark, table_path).update(f"id = {key}", {"v": "v + 1"})
                add(spark, table_path, [(100 + 10 * key + n, 0, "a")], SCHEMA)
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=write, args=(key,)) for key in range(3)]
    for thread in threads:
        thread.start()
    DeltaTable.forPath(spark, table_path).setProperties({"delta.enableRowTracking": "true"})
    for thread in threads:
        thread.join()
    assert not errors
    found = ids(spark, table_path)
    assert len(found) == 8 + 9 and [found[k][2] for k in range(4)] == [3, 13, 23, 30]


def test_a_table_that_is_made_with_rows_and_replaced(spark: SparkSession, table_path: str) -> None:
    rowlock.write(spark.createDataFrame(some(0, 5), SCHEMA), table_path, properties=TRACKED)
    a = ids(spark, table_path)
    rowlock.write(spark.createDataFrame(some(0, 5), SCHEMA), table_path, mode="overwrite")
    b = ids(spark, table_path)
    new(a, b, range(5), 1)
    DeltaTable.replace(spark).location(table_path).addColumn("id", "int").addColumn("v", "int").property("delta.enableRowTracking", "true").execute()
    rowlock.write(spark.createDataFrame([(1, 1)], "id int, v int"), table_path)
    new(b, ids(spark, table_path), [1], 3)


def test_checkpoints_keep_the_mark_and_the_ids(spark: SparkSession, table_path: str) -> None:
    table = tracked(spark, table_path)
    table.setProperties({"delta.checkpointInterval": "2"})
    a = ids(spark, table_path)
    for n in range(4):
        table.update(f"id = {n}", {"v": "0"})
    b = ids(spark, table_path)
    assert {k: r[0] for k, r in a.items()} == {k: r[0] for k, r in b.items()}


def test_a_column_of_that_name(spark: SparkSession, table_path: str) -> None:
    rowlock.write(spark.sql("select 1 as id, 2 as _row_id"), table_path, properties=TRACKED)
    with pytest.raises(InvalidInput, match="_row_id"):
        rowlock.read(spark, table_path, with_row_ids=True)
    assert rowlock.read(spark, table_path).collect()[0]["_row_id"] == 2
