"""VARIANT columns are written as delta-spark writes them: on the driver and by Spark's jobs, beside others' commits, in feeds and streams, shredded or whole."""

from __future__ import annotations

from glob import glob
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import rowlock
from rowlock import DeltaTable
from rowlock.exceptions import SchemaMismatch, UnsupportedFeature
from spark.support import set_limits, winner

pytestmark = pytest.mark.no_peers("deltalake and DuckDB do not read variants")
ROWS = (
    """SELECT id, IF(id = 3, NULL, parse_json('{"a":' || id || ',"b":["x",null]}')) AS v, named_struct('w', parse_json('' || id)) AS s FROM range(0, 6, 1, 1)"""
)
TEXT = ("id", "to_json(v) AS v", "to_json(s.w) AS w")


def texts(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.selectExpr(*TEXT).collect()), key=lambda row: (row[0], row[1] is not None, repr(row)))


def both(spark: SparkSession, path: str) -> list[tuple[Any, ...]]:
    """The rows as Rowlock reads them, which are those that delta-spark reads."""
    ours = texts(rowlock.read(spark, path))
    assert ours == texts(spark.read.format("delta").load(path))
    return ours


@pytest.mark.parametrize("where", ["driver", "job"])
@pytest.mark.short("driver", ci=("job",), why="the same statements the other way; the ways themselves are compared in test_routes")
def test_every_statement_writes_variants_beside_others(spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    if where == "job":
        set_limits(monkeypatch, small=-1, local=-1)
    properties = {"delta.enableChangeDataFeed": "true", "delta.enableRowTracking": "true"}
    rowlock.write(spark.sql(ROWS), table_path, properties=properties)
    table = DeltaTable.forPath(spark, table_path)
    with winner(lambda: DeltaTable.forPath(spark, table_path).update("id = 1", {"v": "parse_json('\"theirs\"')"})):
        table.update("id <= 2", {"id": "id + 10"})
    with winner(lambda: DeltaTable.forPath(spark, table_path).update("id = 4", {"v": "parse_json('44')"})):
        table.optimize().executeCompaction()
    source = spark.sql("SELECT 5L AS k, parse_json('[5]') AS n UNION ALL SELECT 7L, NULL").alias("s")
    with winner(lambda: DeltaTable.forPath(spark, table_path).update("id = 5", {"s": "named_struct('w', parse_json('55'))"})):
        table.alias("t").merge(source, "s.k = t.id").whenMatchedUpdate(set={"v": "s.n"}).whenNotMatchedInsert(values={"id": "s.k", "v": "s.n"}).execute()
    with winner(lambda: DeltaTable.forPath(spark, table_path).optimize().executeCompaction()):
        table.delete("variant_get(v, '$.a', 'int') = 2")
    assert both(spark, table_path) == [
        (3, None, "3"),
        (4, "44", "4"),
        (5, "[5]", "55"),
        (7, None, None),
        (10, '{"a":0,"b":["x",null]}', "0"),
        (11, '"theirs"', "1"),
    ]
    changes = rowlock.changes(spark, table_path, 1)
    theirs = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1).load(table_path)
    assert texts(changes) == texts(theirs)
    assert (2, '{"a":2,"b":["x",null]}', "2") in texts(theirs.where("_change_type = 'update_preimage'"))


def test_rows_that_are_copied_keep_their_variants_where_columns_are_found_by_id(spark: SparkSession, table_path: str) -> None:
    """I3: Spark's optimizer takes the field id from a variant that a scan hands on to the writer; the column was null in the copies."""
    properties = {"delta.columnMapping.mode": "id", "delta.enableDeletionVectors": "false"}
    rowlock.write(spark.sql(ROWS), table_path, properties=properties)
    before = both(spark, table_path)
    DeltaTable.forPath(spark, table_path).delete("id = 0")
    DeltaTable.forPath(spark, table_path).update("id = 1", {"id": "1"})
    DeltaTable.forPath(spark, table_path).optimize().executeCompaction()
    assert both(spark, table_path) == before[1:]


@pytest.mark.soak("files of several writers", ci=True)
def test_shredding_is_the_writers_where_the_table_asks_for_it(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_limits(monkeypatch, small=-1, local=-1)
    for shredded in (True, False):
        path = str(tmp_path / f"{shredded}")
        rowlock.write(spark.sql(ROWS), path, properties={"delta.enableVariantShredding": str(shredded).lower()})
        table = DeltaTable.forPath(spark, path)
        table.update("id = 1", {"id": "100"})
        with winner(lambda path=path: DeltaTable.forPath(spark, path).optimize().executeCompaction()):
            table.update("id = 4", {"s": "named_struct('w', v:a)"})
        held = [pq.read_schema(f).field("v").type.names for f in glob(f"{path}/**/*.parquet", recursive=True)]
        assert len(held) > 3 and all(("typed_value" in names) is shredded for names in held)
        assert both(spark, path)[-1] == (100, '{"a":1,"b":["x",null]}', "1")
        assert sorted(r["id"] for r in rowlock.to_arrow(path).to_pylist()) == [0, 2, 3, 4, 5, 100]


@pytest.mark.soak("cells of other types are merged in tests/model/lockless; variants by each statement stay above", ci=True)
def test_cells_of_variants_are_merged(spark: SparkSession, table_path: str) -> None:
    properties = {"delta.enableRowTracking": "true", "rowlock.onConflict": "lockless", "delta.enableVariantShredding": "true"}
    rowlock.write(spark.sql(ROWS), table_path, properties=properties)
    with winner(lambda: DeltaTable.forPath(spark, table_path).update("id < 3", {"s": "named_struct('w', parse_json('\"s\"'))"})):
        DeltaTable.forPath(spark, table_path).update("id < 2", {"v": "parse_json('9')"})
    with winner(lambda: DeltaTable.forPath(spark, table_path).update("id = 5", {"v": "CAST(1.0D AS VARIANT)"})):
        DeltaTable.forPath(spark, table_path).update("id = 5", {"v": "CAST(1.0BD AS VARIANT)"})
    assert both(spark, table_path)[:3] == [(0, "9", '"s"'), (1, "9", '"s"'), (2, '{"a":2,"b":["x",null]}', '"s"')]
    assert rowlock.read(spark, table_path).where("id = 5 AND schema_of_variant(v) LIKE 'DECIMAL%'").count() == 1


def test_a_table_gets_the_feature_with_its_first_variant(spark: SparkSession, tmp_path: Path) -> None:
    def features(path: str) -> set[str]:
        return set(DeltaTable.forPath(spark, path).detail().collect()[0]["tableFeatures"])

    added, evolved, named = (str(tmp_path / n) for n in ("added", "evolved", "named"))
    for path in (added, evolved):
        rowlock.write(spark.range(2), path)
        assert "variantType" not in features(path)
    with winner(lambda: rowlock.write(spark.range(5, 6), added)):
        DeltaTable.forPath(spark, added).addColumn("v", "variant")
    rowlock.write(spark.sql("SELECT 9L AS id, parse_json('1') AS v"), evolved, merge_schema=True)
    rowlock.write(spark.range(1), named, properties={"delta.feature.variantType-preview": "supported"})
    DeltaTable.forPath(spark, named).addColumn("v", "variant")
    assert "variantType" in features(added) and "variantType" in features(evolved)
    assert "variantType" not in features(named), "the name before has the same meaning"
    assert spark.read.format("delta").load(evolved).where("v IS NOT NULL").count() == 1


@pytest.mark.soak("a stream of its own; the rows of streams are asked in test_stream_source", ci=True)
def test_a_stream_carries_variants(spark: SparkSession, tmp_path: Path) -> None:
    source, target = str(tmp_path / "source"), str(tmp_path / "target")
    rowlock.write(spark.sql(ROWS), source)
    rowlock.write(spark.sql(ROWS).limit(0), target)
    stream = rowlock.streaming.read(spark, source).writeStream.option("checkpointLocation", str(tmp_path / "c"))
    stream.trigger(availableNow=True).foreachBatch(rowlock.streaming.sink(target)).start().awaitTermination()
    assert both(spark, target) == both(spark, source)


def test_what_cannot_be_exact_is_refused(spark: SparkSession, table_path: str) -> None:
    rowlock.write(spark.sql(ROWS), table_path)
    with pytest.raises((SchemaMismatch, UnsupportedFeature), match="v"):
        rowlock.append(table_path, rowlock.to_arrow(table_path))
    with pytest.raises(UnsupportedFeature, match="variants"):
        rowlock.append(table_path + "2", rowlock.to_arrow(table_path))
    rowlock.append(table_path, rowlock.to_arrow(table_path).select(["id"]))
    assert both(spark, table_path)[:2] == [(0, None, None), (0, '{"a":0,"b":["x",null]}', "0")]
    with pytest.raises(Exception, match="order"):
        DeltaTable.forPath(spark, table_path).optimize().executeZOrderBy("v")
