"""Column mapping is turned off, and types are widened inside of columns, while others write. I5: no row changes or is lost; I9."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rowlock
from rowlock import DeltaTable
from rowlock.exceptions import InvalidInput, NameTaken, SchemaMismatch, StatementRefused
from spark.support import delta_spark_rows, make, read, rows, unchanged, winner
from support.peers import delta_spark_reads_here

MAPPED = {"delta.columnMapping.mode": "name", "delta.enableChangeDataFeed": "true"}


def test_column_mapping_is_turned_off_beside_a_writer(spark: SparkSession, table_path: str) -> None:
    """Deleted rows stay deleted, partitions and clustering keys keep their names, the feed tells of nothing, and mapping may be turned on again."""
    table = make(spark, table_path, [(1, 10, "x"), (2, 20, "y"), (3, 30, "y")], "id int, v int, p string", partition_by=["p"], **MAPPED)
    table.renameColumn("v", "w")
    table.delete("id = 2")
    before = table.history(1).first().version
    with winner(lambda: DeltaTable.forPath(spark, table_path).update("id = 3", {"w": "33"})):
        table.setProperties({"delta.columnMapping.mode": "none", "mine": "kept"})
    assert read(spark, table_path) == delta_spark_rows(spark, table_path) == [(1, 10, "x"), (3, 33, "y")]
    properties = table.detail().first().properties
    assert properties["delta.columnMapping.mode"] == "none" and properties["mine"] == "kept" and "delta.columnMapping.maxColumnId" not in properties
    assert table.history(1).first().operation == "REMOVE COLUMN MAPPING"
    assert not any("delta.columnMapping" in str(f.metadata) for f in rowlock.read(spark, table_path).schema.fields)
    assert rows(rowlock.changes(spark, table_path, before + 2, before + 2)) == []
    with pytest.raises(StatementRefused, match="columns by their names"):
        table.renameColumn("w", "v")
    table.update("id = 1", {"w": "11"})
    table.setProperties({"delta.columnMapping.mode": "name"})
    table.renameColumn("w", "v")
    table.unsetProperties(["delta.columnMapping.mode"])
    assert "delta.columnMapping.mode" not in table.detail().first().properties
    assert read(spark, table_path) == delta_spark_rows(spark, table_path) == [(1, 11, "x"), (3, 33, "y")]


@pytest.mark.soak("the other order of the test before it", ci=True)
def test_a_writer_that_began_before_column_mapping_was_turned_off(spark: SparkSession, table_path: str) -> None:
    """What it staged has the old names, and is staged again."""
    table = make(spark, table_path, [(1, 10), (2, 20)], "id int, v int", **MAPPED)
    with winner(lambda: DeltaTable.forPath(spark, table_path).setProperties({"delta.columnMapping.mode": "none"})):
        table.update("id = 1", {"v": "v + 1"})
    assert read(spark, table_path) == delta_spark_rows(spark, table_path) == [(1, 11), (2, 20)]


def test_what_keeps_column_mapping_on_is_named(spark: SparkSession, table_path: str) -> None:
    odd, tracked = table_path, table_path + "-tracked"
    make(spark, odd, [(1,)], "`a b` int", **{"delta.columnMapping.mode": "name"})
    make(spark, tracked, [(1,)], "id int", **{"delta.columnMapping.mode": "id", "delta.enableRowTracking": "true"})
    for path, error, text in ((odd, SchemaMismatch, "without column mapping"), (tracked, StatementRefused, "keep their ids")):
        with unchanged(path), pytest.raises(error, match=text):
            DeltaTable.forPath(spark, path).setProperties({"delta.columnMapping.mode": "none"})


@pytest.mark.soak("one more thing that names columns; ALTERs of keys are in test_clustering", ci=True)
def test_clustering_keys_are_the_same_columns_without_mapping(spark: SparkSession, table_path: str) -> None:
    rowlock.sql(spark, f"CREATE TABLE delta.`{table_path}` (id INT, v INT) USING delta CLUSTER BY (v) TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    table = DeltaTable.forPath(spark, table_path)
    rowlock.sql(spark, f"INSERT INTO delta.`{table_path}` VALUES (1, 2)")
    table.setProperties({"delta.columnMapping.mode": "none"})
    assert table.detail().first().clusteringColumns == ["v"]
    assert spark.sql(f"DESCRIBE DETAIL delta.`{table_path}`").first().clusteringColumns == ["v"]


@pytest.mark.no_peers("deltalake and DuckDB do not read tables with type widening")
@pytest.mark.soak("types of columns are widened in test_definitions, which types in tests/unit/protocol/test_widening.py", ci=True)
def test_types_are_widened_inside_of_columns_and_by_writes(spark: SparkSession, table_path: str) -> None:
    query = "SELECT 1 AS id, CAST(1.25 AS DECIMAL(5,2)) AS d, named_struct('x', 1S, 'l', array(1)) AS s, map(1, 2Y) AS m"
    table = make(spark, table_path, spark.sql(query), **{"delta.enableTypeWidening": "true"})
    name = f"delta.`{table_path}`"
    rowlock.sql(spark, f"ALTER TABLE {name} ALTER COLUMN s.x TYPE INT, s.l.element TYPE BIGINT, m.key TYPE BIGINT, d TYPE DECIMAL(12,4)")
    rowlock.sql(spark, f"ALTER TABLE {name} ALTER COLUMN m.value TYPE INT")
    for wrong in ("d TYPE DECIMAL(13,6)", "s.x TYPE SMALLINT", "s.x TYPE STRING", "m.value TYPE FLOAT", "m.nosuch TYPE INT", "s.l TYPE BIGINT"):
        with unchanged(table_path), pytest.raises(SchemaMismatch):
            rowlock.sql(spark, f"ALTER TABLE {name} ALTER COLUMN {wrong}")
    wider = spark.sql("SELECT 5000000000L AS id, CAST(2.5 AS DECIMAL(20,6)) AS d, named_struct('x', 6000000000L, 'l', array(7L)) AS s, map(8L, 9L) AS m")
    with winner(
        lambda: rowlock.append(table_path, spark.sql(query.replace("1 AS id", "3 AS id").replace("1S", "1").replace("map(1, 2Y)", "map(1L, 2)")).toArrow())
    ):
        rowlock.write(wider, table_path, merge_schema=True)
    table.update("id = 1", {"d": "d + 100000000"})
    assert rowlock.read(spark, table_path).schema.simpleString() == (
        "struct<id:bigint,d:decimal(20,6),s:struct<x:bigint,l:array<bigint>>,m:map<bigint,bigint>>"
    )
    found = read(spark, table_path)
    assert found == delta_spark_rows(spark, table_path) and len(found) == 3
    assert [str(r.d) for r in rowlock.read(spark, table_path).where("d > 100000000").collect()] == ["100000001.250000"]


@pytest.mark.no_peers("deltalake and DuckDB do not read tables with type widening")
def test_columns_that_others_are_generated_from_keep_their_types(spark: SparkSession, table_path: str) -> None:
    rowlock.sql(
        spark,
        f"CREATE TABLE delta.`{table_path}` (id INT, twice INT GENERATED ALWAYS AS (id * 2)) USING delta TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
    )
    for evolving in (
        lambda: rowlock.write(spark.sql("SELECT 5L AS id"), table_path, merge_schema=True),
        lambda: rowlock.sql(spark, f"INSERT WITH SCHEMA EVOLUTION INTO delta.`{table_path}` BY NAME SELECT 5L AS id, 'new' AS more"),
        lambda: rowlock.sql(
            spark, f"MERGE WITH SCHEMA EVOLUTION INTO delta.`{table_path}` t USING (SELECT 5L AS id) s ON false WHEN NOT MATCHED THEN INSERT *"
        ),
    ):
        with unchanged(table_path), pytest.raises(StatementRefused, match=r"Column id stays INT, .* names it, twice -> id \* 2") as refused:
            evolving()
        assert refused.value.getCondition() == "DELTA_GENERATED_COLUMNS_DATA_TYPE_MISMATCH"
    for how in ("ALTER COLUMN id TYPE BIGINT", "REPLACE COLUMNS (id BIGINT, twice INT)"):
        with unchanged(table_path), pytest.raises(StatementRefused, match=r"Column id stays INT, .* names it, twice -> id \* 2") as refused:
            rowlock.sql(spark, f"ALTER TABLE delta.`{table_path}` {how}")
        assert refused.value.getCondition() == "DELTA_GENERATED_COLUMNS_DEPENDENT_COLUMN_CHANGE"
    with unchanged(table_path), pytest.raises(StatementRefused) as refused:
        rowlock.sql(spark, f"ALTER TABLE delta.`{table_path}` ALTER COLUMN twice TYPE BIGINT")
    assert refused.value.getCondition() == "DELTA_GENERATED_COLUMNS_EXPR_TYPE_MISMATCH"
    rowlock.sql(spark, f"INSERT WITH SCHEMA EVOLUTION INTO delta.`{table_path}` BY NAME SELECT 5 AS id, 7 AS n")
    rowlock.sql(spark, f"INSERT WITH SCHEMA EVOLUTION INTO delta.`{table_path}` BY NAME SELECT 6 AS id, 5000000000 AS n")
    assert read(spark, table_path) == [(5, 10, 7), (6, 12, 5000000000)]


@pytest.mark.no_peers("deltalake and DuckDB do not read tables with type widening")
def test_columns_that_a_constraint_names_keep_their_types(spark: SparkSession, table_path: str) -> None:
    """Rows that were checked would break it under another type: 100 has three letters, 100.00 six (I8)."""
    table = f"delta.`{table_path}`"
    rowlock.sql(spark, f"CREATE TABLE {table} (id INT, other INT, v VARCHAR(3)) USING delta TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    rowlock.sql(spark, f"INSERT INTO {table} VALUES (100, 1, 'a')")
    rowlock.sql(spark, f"ALTER TABLE {table} ADD CONSTRAINT short CHECK (length(CAST(id AS STRING)) < 4 AND v <> '')")
    for columns in ("id TYPE DECIMAL(20, 2)", "other TYPE BIGINT, ID TYPE BIGINT", "id TYPE BIGINT, other SET NOT NULL"):
        with unchanged(table_path), pytest.raises(StatementRefused, match=r"Column id stays INT, .*delta\.constraints\.short -> ") as refused:
            rowlock.sql(spark, f"ALTER TABLE {table} ALTER COLUMN {columns}")
        assert refused.value.getCondition() == "DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE"
    rowlock.sql(spark, f"ALTER TABLE {table} ALTER COLUMN other TYPE BIGINT, v TYPE VARCHAR(5), id COMMENT 'short'")
    rowlock.sql(spark, f"UPDATE {table} SET other = 3000000000")
    for wider, why in (("5000000000", "Column id stays INT"), ("200.5BD", "Column id is int in the table")):
        with unchanged(table_path), pytest.raises((StatementRefused, SchemaMismatch), match=why):
            rowlock.write(spark.sql(f"SELECT {wider} AS id"), table_path, merge_schema=True)
    rowlock.sql(spark, f"INSERT WITH SCHEMA EVOLUTION INTO {table} BY NAME SELECT 5 AS id, 1BD AS other, 'b' AS v")
    assert read(spark, table_path) == [(100, 3000000000, "a"), (5, 1, "b")]


@pytest.mark.parametrize("key", ["st.deep", "t.st.deep", "`ST`.`DEEP`"])
@pytest.mark.short(
    "t.st.deep",
    ci=(
        "st.deep",
        "`ST`.`DEEP`",
    ),
    why="other spellings of the same field",
)
def test_a_merge_adds_the_field_that_it_sets(spark: SparkSession, table_path: str, key: str) -> None:
    table = make(spark, table_path, [(1, (1,)), (2, None)], "id int, st struct<a: int>")
    source = spark.sql("SELECT 1 AS id, named_struct('a', 5, 'deep', 6, 'other', 7) AS st, 8 AS more")
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id").withSchemaEvolution()
    merge.whenMatchedUpdate(set={key: "s.st.deep + 1"}).execute()
    assert rowlock.read(spark, table_path).schema.simpleString().lower() == "struct<id:int,st:struct<a:int,deep:int>>"
    assert read(spark, table_path) == [(1, (1, 7)), (2, None)]


@pytest.mark.no_peers("DuckDB takes absolute paths for relative ones")
def test_a_folder_of_parquet_files_is_cloned(spark: SparkSession, table_path: str, tmp_path: Path) -> None:
    """The clone's log names the files where they are; they stay as they are whatever the clone does."""
    folder, parted = str(tmp_path / "parquet"), str(tmp_path / "parted")
    spark.sql("SELECT id, CAST(id AS STRING) AS s FROM range(3)").coalesce(1).write.parquet(folder)
    rowlock.sql(spark, f"CREATE TABLE delta.`{table_path}` SHALLOW CLONE parquet.`{folder}`")
    rowlock.sql(spark, f"DELETE FROM delta.`{table_path}` WHERE id = 1")
    assert read(spark, table_path) == delta_spark_rows(spark, table_path) == [(0, "0"), (2, "2")]
    assert spark.read.parquet(folder).count() == 3
    spark.sql("SELECT id, id % 2 AS p FROM range(2)").write.partitionBy("p").parquet(parted)
    wrong = {f"parquet.`{parted}`": SchemaMismatch, f"parquet.`{folder}` VERSION AS OF 0": InvalidInput, f"parquet.`{table_path}`": InvalidInput}
    for source, error in wrong.items():
        with pytest.raises(error):
            rowlock.sql(spark, f"CREATE TABLE delta.`{tmp_path}/none` SHALLOW CLONE {source}")
    assert not (tmp_path / "none").exists()


def test_a_clone_takes_no_folder_and_no_name_of_others(spark: SparkSession, table_path: str, tmp_path: Path) -> None:
    """I5: VACUUM of the clone would delete what else lies in its folder."""
    make(spark, table_path, [(1,)], "id int")
    held, source = tmp_path / "held", f"SHALLOW CLONE delta.`{table_path}`"
    spark.range(1).write.parquet(str(held))
    spark.sql(f"CREATE TABLE held_by_parquet USING parquet LOCATION '{held}'")
    try:
        with pytest.raises(NameTaken, match="not empty"):
            rowlock.sql(spark, f"CREATE TABLE delta.`{held}` {source}")
        with pytest.raises(InvalidInput, match="leave one of them out"):
            rowlock.sql(spark, f"CREATE TABLE delta.`{tmp_path}/a` {source} LOCATION '{tmp_path}/b'")
        rowlock.sql(spark, f"CREATE TABLE IF NOT EXISTS held_by_parquet {source}")
        assert spark.table("held_by_parquet").count() == 1
    finally:
        spark.sql("DROP TABLE held_by_parquet")
    assert [p.parent.name for p in tmp_path.rglob("_delta_log")] == [Path(table_path).name]


@pytest.mark.soak("a clone of a folder stays", ci=True)
@pytest.mark.no_peers("DuckDB takes absolute paths for relative ones")
def test_a_partitioned_parquet_table_of_the_catalog_is_cloned(spark: SparkSession, table_path: str, tmp_path: Path) -> None:
    theirs = f"delta.`{tmp_path}/theirs`"
    frame = spark.sql("SELECT id, IF(id = 2, NULL, CONCAT('a b/', id % 2)) AS p FROM range(5)").coalesce(1)
    frame.write.partitionBy("p").format("parquet").option("path", str(tmp_path / "p")).option("mine", "kept").saveAsTable("parted_to_clone")
    try:
        for run, to in ((lambda text: rowlock.sql(spark, text), f"delta.`{table_path}`"), (spark.sql, theirs)):
            run(f"CREATE TABLE {to} SHALLOW CLONE parted_to_clone")
            run(f"DELETE FROM {to} WHERE id = 1")
        assert spark.table("parted_to_clone").count() == 5
        with pytest.raises(InvalidInput, match="no older versions"):
            rowlock.sql(spark, f"CREATE TABLE delta.`{tmp_path}/none` SHALLOW CLONE parted_to_clone VERSION AS OF 0")
    finally:
        spark.sql("DROP TABLE parted_to_clone")
    ours, other = (spark.sql(f"DESCRIBE DETAIL {t}").first() for t in (f"delta.`{table_path}`", theirs))
    assert ours["partitionColumns"] == other["partitionColumns"] == ["p"] and ours["description"] == other["description"]
    found = [(0, "a b/0"), (2, None), (3, "a b/1"), (4, "a b/0")]
    assert rows(rowlock.read(spark, table_path)) == found
    assert rows(spark.sql(f"SELECT * FROM {theirs}")) == [(i, p or "__HIVE_DEFAULT_PARTITION__") for i, p in found], (
        "delta-spark takes the folder's name for a value"
    )


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.short("false", ci=("true",), why="the policy is one for both settings of ANSI")
def test_a_lenient_policy_stores_null_for_what_no_cast_holds(spark: SparkSession, table_path: str, tmp_path: Path, ansi: str) -> None:
    """spark.sql.storeAssignmentPolicy=LEGACY holds for UPDATE and MERGE as for INSERT, whatever ANSI is."""
    given = [(1, 1, (1,), [1], None), (2, 2, (2,), [2], None)], "id int, b tinyint, s struct<a: int>, ar array<int>, d date"
    source = "(SELECT 2 AS k, 'abc' AS v UNION ALL SELECT 7, '1000')"
    statements = [
        "UPDATE {t} SET b = 'abc', s.a = 'x', d = 'no date' WHERE id = 1",
        "UPDATE {t} SET ar = array('1', 'x'), b = 1000 WHERE id = 2",
        f"MERGE INTO {{t}} t USING {source} s ON t.id = s.k WHEN MATCHED THEN UPDATE SET s = named_struct('a', s.v) WHEN NOT MATCHED THEN INSERT (id, b) VALUES (k, v)",
    ]
    settings = {"spark.sql.storeAssignmentPolicy": "LEGACY", "spark.sql.ansi.enabled": ansi}
    twins = [str(tmp_path / "theirs")] if delta_spark_reads_here() else []
    for path in (table_path, *twins):
        make(spark, path, *given)
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        for text in statements:
            rowlock.sql(spark, text.format(t=f"delta.`{table_path}`"))
            for twin in twins:
                spark.sql(text.format(t=f"delta.`{twin}`"))
    finally:
        for name in settings:
            spark.conf.unset(name)
    stored = read(spark, table_path)
    assert stored == [(1, None, (None,), [1], None), (2, -24, (None,), [1, None], None), (7, None, None, None, None)]
    assert all(read(spark, twin) == stored for twin in twins)
