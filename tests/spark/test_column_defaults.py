"""Column defaults: what a statement does not name gets them, in Python, SQL and without Spark, beside delta-spark and other writers (I3, I9)."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import rowlock
from interop.readers import commit_files, rows_by_all
from rowlock import DeltaTable
from rowlock.exceptions import InvalidInput, StatementRefused, UnsupportedFeature
from spark.support import delta_rows, read, take_route, unchanged, winner

pytestmark = pytest.mark.spark
FEATURE = "allowColumnDefaults"


def with_defaults(spark: SparkSession, path: str, **properties: str) -> DeltaTable:
    """id, n with the default 2 + 5, s with 'a', v without one."""
    builder = DeltaTable.create(spark).location(path).addColumn("id", "bigint").addColumn("n", "int", default="2 + 5")
    builder = builder.addColumn("s", "string", nullable=False, default="'a'").addColumn("v", "double")
    for key, value in properties.items():
        builder = builder.property(key, value)
    table: DeltaTable = builder.execute()
    return table


def schema_and_protocol(path: str) -> tuple[Any, Any]:
    """The columns' metadata and the protocol's features of version 0."""
    lines = [json.loads(line) for line in commit_files(path)[0].read_text().splitlines()]
    found = {k: v for line in lines for k, v in line.items()}
    fields = json.loads(found["metaData"]["schemaString"])["fields"]
    return {f["name"]: f["metadata"] for f in fields}, sorted(found["protocol"]["writerFeatures"])


@pytest.mark.soak("28 s of turns with delta-spark; what a default gives is asked in the tests beside it")
def test_delta_spark_and_rowlock_write_one_table_with_defaults(spark: SparkSession, table_path: str) -> None:
    """Each statement by both, in a table that Rowlock made; the log says of the columns what delta-spark says."""
    t = f"delta.`{table_path}`"
    table = with_defaults(spark, table_path)
    theirs = f"delta.`{table_path}-theirs`"
    spark.sql(
        f"CREATE TABLE {theirs} (id bigint, n int DEFAULT 2 + 5, s string NOT NULL DEFAULT 'a', v double) USING delta TBLPROPERTIES ('delta.feature.{FEATURE}' = 'supported', 'delta.enableDeletionVectors' = 'true')"
    )
    assert schema_and_protocol(table_path) == schema_and_protocol(f"{table_path}-theirs")
    with pytest.raises(Exception, match="DELTA_MERGE_UNRESOLVED_EXPRESSION"):  # delta-spark's MERGE does not know the word; Rowlock's does
        spark.sql(f"MERGE INTO {t} t USING (SELECT 1L AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, DEFAULT)")
    for n, run in enumerate((spark.sql, lambda text: rowlock.sql(spark, text))):
        word = ("'a'", "DEFAULT")[n]
        run(f"INSERT INTO {t} (id) VALUES ({n}0)")
        run(f"INSERT INTO {t} VALUES ({n}1, DEFAULT, default, DEFAULT), ({n}2, 1, 'x', 1.5)")
        run(f"UPDATE {t} SET n = DEFAULT, v = DEFAULT WHERE id = {n}2")
        run(
            f"MERGE INTO {t} t USING (SELECT {n}2L AS id UNION ALL SELECT {n}3L) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET s = {word} WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 0.5)"
        )
    rowlock.write(spark.createDataFrame([(20,)], "id bigint"), table_path)
    spark.createDataFrame([(21,)], "id bigint").write.format("delta").mode("append").save(table_path)
    table.merge(spark.createDataFrame([(22, 3)], "id bigint, n int"), "false").withSchemaEvolution().whenNotMatchedInsertAll().execute()
    with table.transaction() as txn:
        txn.append(spark.createDataFrame([(23, None)], "id bigint, n int"))
        txn.update("id = 23", {"v": "2.5D", "n": "DEFAULT"})
    assert rows_by_all(spark, table_path) == sorted(
        [(m + 10 * n, 7, "a", 0.5 if m == 3 else None) for n in range(2) for m in range(4)]
        + [(20, 7, "a", None), (21, 7, "a", None), (22, 3, "a", None), (23, 7, "a", 2.5)],
        key=repr,
    )


def test_large_inserts_get_defaults_too(spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = with_defaults(spark, table_path)
    take_route(monkeypatch, "large")
    rowlock.write(spark.range(30), table_path)
    source = spark.range(20, 60).withColumnRenamed("id", "k")
    table.merge(source, "id = k").whenMatchedUpdate(set={"n": "default"}).whenNotMatchedInsert(values={"id": "k"}).execute()
    assert rowlock.read(spark, table_path).groupBy("n", "s", "v").count().collect() == [(7, "a", None, 60)]


def test_alter(spark: SparkSession, table_path: str) -> None:
    """SET and DROP DEFAULT by both engines; rows that are there stay, and an append that was staged under another default is staged again."""
    t = f"delta.`{table_path}`"
    table = with_defaults(spark, table_path)
    rowlock.sql(spark, f"ALTER TABLE {t} ALTER COLUMN v SET DEFAULT 1.5")
    rowlock.sql(spark, f"ALTER TABLE {t} ALTER COLUMN n DROP DEFAULT")
    spark.sql(f"INSERT INTO {t} (id) VALUES (1)")
    spark.sql(f"ALTER TABLE {t} ALTER COLUMN n SET DEFAULT 8")
    with winner(lambda: table.setDefault("v", "-1")):
        rowlock.write(spark.createDataFrame([(2,)], "id bigint"), table_path)
    table.dropDefault("V")
    rowlock.append(table_path, pa.table({"id": [3]}))
    assert read(spark, table_path) == delta_rows(spark, table_path) == [(1, None, "a", 1.5), (2, 8, "a", -1.0), (3, 8, "a", None)]
    for column in ("n", "s"):
        with pytest.raises(StatementRefused, match="has a default"):
            table.dropFeatureSupport(FEATURE)
        table.dropDefault(column)
    table.dropFeatureSupport(FEATURE)
    with unchanged(table_path), pytest.raises(StatementRefused, match="WRONG_COLUMN_DEFAULTS_FOR_DELTA_FEATURE_NOT_ENABLED"):
        table.setDefault("n", "1")
    spark.sql(f"INSERT INTO {t} VALUES (4, NULL, 'z', NULL)")
    assert len(delta_rows(spark, table_path)) == 4


BAD = {
    "column": ("id + 1", "INVALID_DEFAULT_VALUE.NOT_CONSTANT"),
    "subquery": ("(SELECT 1)", "INVALID_DEFAULT_VALUE.SUBQUERY_EXPRESSION"),
    "aggregate": ("max(1)", "INVALID_DEFAULT_VALUE.NOT_CONSTANT"),
    "generator": ("explode(array(1))", "INVALID_DEFAULT_VALUE.NOT_CONSTANT"),
    "random": ("cast(rand() as int)", "INVALID_DEFAULT_VALUE.NON_DETERMINISTIC"),
    "type": ("'abc'", "INVALID_DEFAULT_VALUE.DATA_TYPE"),
    "no value of the type": ("3000000000", "INVALID_DEFAULT_VALUE.DATA_TYPE"),
    "syntax": ("1 +", "PARSE_SYNTAX_ERROR"),
}


def test_what_cannot_be_a_default_is_refused(spark: SparkSession, table_path: str) -> None:
    table = with_defaults(spark, table_path)
    with unchanged(table_path):
        for how, (text, error) in BAD.items():
            with pytest.raises(AnalysisException, match=error) as e:
                table.setDefault("n", text)
            assert how == "syntax" or isinstance(e.value, InvalidInput)
        with pytest.raises(InvalidInput, match="GENERATED_COLUMN_WITH_DEFAULT_VALUE"):
            DeltaTable.replace(spark).location(table_path).addColumn("a", "int").addColumn("b", "int", generatedAlwaysAs="a", default="1").execute()
        alike = [BAD[how] for how in ("subquery", "random", "type", "no value of the type", "syntax")]  # Spark has other words for the rest in ADD COLUMNS
        for text, error in (*alike, ("7", "WRONG_COLUMN_DEFAULTS_FOR_DELTA_ALTER_TABLE_ADD_COLUMN_NOT_SUPPORTED")):
            for run in (rowlock.sql, SparkSession.sql):  # delta-spark, too, says first what is wrong with the default
                with pytest.raises(AnalysisException, match=error):
                    run(spark, f"ALTER TABLE delta.`{table_path}` ADD COLUMNS (z int DEFAULT {text})")


def test_append_without_spark_gives_plain_defaults_and_refuses_others(spark: SparkSession, table_path: str) -> None:
    """What is decided without Spark is what Spark makes of it; an expression is refused by name, where the rows lack the column."""
    said = {
        "i": ("int", "-3"),
        "w": ("bigint", "9"),
        "d": ("decimal(9, 2)", "1.5"),
        "b": ("boolean", "TRUE"),
        "day": ("date", "DATE '2020-02-29'"),
        "s": ("string", "'ü x'"),
        "f": ("double", "4"),
    }
    builder = DeltaTable.create(spark).location(table_path).addColumn("id", "int")
    for name, (type_, text) in said.items():
        builder = builder.addColumn(name, type_, default=text)
    table = builder.addColumn("e", "int", default="1 + 1").execute()
    rowlock.append(table_path, pa.table({"id": pa.array([1], pa.int32()), "e": pa.array([2], pa.int32())}))
    rowlock.write(spark.createDataFrame([(1,)], "id int"), table_path)
    found = read(spark, table_path)
    assert found[0] == found[1] and found[0][5] == datetime.date(2020, 2, 29)
    with unchanged(table_path), pytest.raises(UnsupportedFeature, match=r"column e is absent .* 1 \+ 1"):
        rowlock.append(table_path, pa.table({"id": pa.array([2], pa.int32())}))
    table.dropDefault("e")
    rowlock.append(table_path, pa.table({"id": pa.array([2], pa.int32())}))
    assert rows_by_all(spark, table_path)[-1][-1] is None
