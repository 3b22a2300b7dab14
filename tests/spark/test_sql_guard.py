"""I9 and I5: with Rowlock enabled no command of Spark changes or deletes a Delta table but through Rowlock.

One session runs every statement against a managed table `m` and an external one `e`; after each, the files of both must be those
that were there before: log and rows are as they were.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.needs import cases
from support.sql_session import run_steps

pytestmark = pytest.mark.spark

MADE = [
    "CREATE TABLE m (id bigint, p string) USING delta PARTITIONED BY (p)",
    "INSERT INTO m VALUES (1, 'x'), (2, 'y')",
    "CREATE TABLE e (id bigint) USING rowlock LOCATION '{root}/out/deep/e'",
    "INSERT INTO e VALUES (1), (2)",
    "CREATE TABLE pq (id bigint, p string) USING parquet PARTITIONED BY (p)",
    "INSERT INTO pq VALUES (1, 'x')",
    "CREATE TEMP VIEW v AS SELECT * FROM m WHERE id > 0",  # of a whole table statements change the table
    "CREATE GLOBAL TEMP VIEW gv AS SELECT * FROM m WHERE id > 0",
    "CREATE TEMP VIEW tv USING delta OPTIONS (path '{root}/out/deep/e')",
    "CREATE SCHEMA around LOCATION '{root}/out'",
]

BY_NAME = [
    "TRUNCATE TABLE m PARTITION (p = 'x')",
    "ALTER TABLE m DROP PARTITION (p = 'x')",
    "ALTER TABLE m ADD PARTITION (p = 'z')",
    "ALTER TABLE m PARTITION (p = 'x') RENAME TO PARTITION (p = 'w')",
    "ALTER TABLE m SET LOCATION '{root}/elsewhere'",
    "ALTER TABLE m RECOVER PARTITIONS",
    "ALTER TABLE m REPLACE COLUMNS (id bigint)",
    "ALTER TABLE m SET SERDEPROPERTIES ('a' = 'b')",
    "ALTER TABLE m CLUSTER BY (id)",
    "ALTER TABLE m DROP FEATURE appendOnly",
    "MSCK REPAIR TABLE m",
    "ANALYZE TABLE m COMPUTE STATISTICS",
    "ANALYZE TABLE e COMPUTE STATISTICS FOR ALL COLUMNS",
    "ANALYZE TABLES COMPUTE STATISTICS",
    "LOAD DATA INPATH '{root}/nothing' INTO TABLE m",
    "LOAD DATA INPATH '{root}/out/deep/e' INTO TABLE pq PARTITION (p = 'q')",
    "CREATE TABLE l USING parquet LOCATION '{root}/out' AS SELECT 1 AS a",
    "CREATE TABLE l (a int) USING parquet LOCATION '{root}/out/deep/e'",
    "CREATE TABLE l (a int) USING parquet LOCATION '{root}/out/deep/e/below'",
    "CREATE TABLE around.l (a int) USING parquet LOCATION '{root}/out'",
    "INSERT OVERWRITE DIRECTORY '{root}/out' USING parquet SELECT 1",
    "INSERT OVERWRITE DIRECTORY '{root}/out/deep/e' USING parquet SELECT 1",
    "ALTER TABLE pq ADD PARTITION (p = 'd') LOCATION '{root}/out/deep/e'",
    "ALTER TABLE pq SET LOCATION '{root}/out/deep'",
    "CREATE OR REPLACE TABLE m USING parquet AS SELECT 1 AS a",
    "REPLACE TABLE m (a int) USING parquet",
    "CREATE TABLE IF NOT EXISTS m (a int) USING parquet",
    "DROP SCHEMA around CASCADE",
    "DROP SCHEMA around",
    "TRUNCATE TABLE IDENTIFIER('m') PARTITION (p = 'x')",
    "EXECUTE IMMEDIATE 'TRUNCATE TABLE m PARTITION (p = 1)'",
    "BEGIN TRUNCATE TABLE m PARTITION (p = 'x'); END",
    "FROM m INSERT INTO e SELECT id INSERT OVERWRITE DIRECTORY '{root}/out/deep/e' USING parquet SELECT id",
    "FROM m INSERT INTO e SELECT id INSERT OVERWRITE DIRECTORY '{root}/out' USING parquet SELECT id",
    "OPTIMIZE m FULL",
    "REORG TABLE m APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 2))",
    "CREATE TABLE l DEEP CLONE m",
    "VACUUM m USING INVENTORY (SELECT 1)",
    "SET PATH = spark_catalog.default",
    "DESCRIBE TABLE m PARTITION (p = 'x')",
    "UPDATE m SET id = 1 WHERE id IN (SELECT 1)",
    "DELETE FROM m WHERE EXISTS (SELECT 1)",
    "INSERT INTO m REPLACE USING (id) SELECT 1L, 'x'",
    "py:spark.catalog.recoverPartitions('m')",
    "py:spark.catalog.createTable('l', '{root}/out', 'parquet')",
    "py:spark.range(1).write.mode('overwrite').parquet('{root}/out')",
    "py:spark.range(1).write.mode('overwrite').json('{root}/out/deep/e/x=1')",
    "py:spark.range(1).write.mode('append').parquet('{root}/out/deep/e')",
    "py:spark.range(1).write.mode('overwrite').saveAsTable('m')",
    "py:spark.range(1).write.mode('append').format('json').saveAsTable('m')",
    "UPDATE v SET id = 1",
    "DELETE FROM v",
    "UPDATE global_temp.gv SET id = 1",
    "DELETE FROM global_temp.gv",
    "py:spark.range(1).write.mode('overwrite').option('path', '{root}/out').saveAsTable('l')",
    "py:spark.range(1).writeTo('m').using('parquet').createOrReplace()",
    "py:spark.range(1).writeTo('m').option('dataChange', 'false').overwritePartitions()",
    "py:spark.range(1).write.format('delta').mode('append').option('replaceWhere', 'id = 1').save('{root}/out/deep/e')",
    "py:spark.read.format('delta').option('readChangeFeed', 'true').load('{root}/out/deep/e')",
    "py:spark.readStream.format('rate').load().writeStream.format('parquet').option('checkpointLocation', '{root}/cp').start('{root}/out/deep/e')",
    "py:spark.newSession().sql('ALTER TABLE m RECOVER PARTITIONS')",
    "ALTER TABLE m RENAME TO e",
    "py:spark.readStream.format('rate').load().writeStream.format('delta').outputMode('update').option('checkpointLocation', '{root}/cp').start('{root}/out/deep/e')",
    "py:spark.readStream.format('rate').load().writeStream.format('delta').option('txnAppId', 'a').option('checkpointLocation', '{root}/cp').start('{root}/out/deep/e')",
]
"""Refused by Rowlock: UnsupportedFeature or another of its errors."""
SINCE = {
    "BEGIN TRUNCATE TABLE m PARTITION (p = 'x'); END": ("4.1", "scripts, which Spark 4.0 refuses"),
    "SET PATH = spark_catalog.default": ("4.2", "SET PATH"),
    "INSERT INTO m REPLACE USING (id) SELECT 1L, 'x'": ("4.2", "INSERT REPLACE USING"),
}

BY_SPARK = [
    "DROP SCHEMA default CASCADE",
    "CREATE TABLE m (a int) USING delta",
    "CREATE OR REPLACE VIEW m AS SELECT 1",
    "DROP VIEW m",
    "ALTER VIEW m AS SELECT 1",
    "INSERT INTO v VALUES (7, 'x')",
    "INSERT OVERWRITE v VALUES (7, 'x')",
    "TRUNCATE TABLE tv",
    "INSERT OVERWRITE parquet.`{root}/out/deep/e` SELECT 1L AS id",
    "INSERT INTO parquet.`{root}/out/deep/e` SELECT 1L AS id",
    "FROM m INSERT INTO e SELECT id INSERT INTO parquet.`{root}/out/deep/e` SELECT id",
    "FROM m INSERT INTO e SELECT id INSERT INTO v SELECT *",
    "py:spark.readStream.format('rate').load().writeStream.option('checkpointLocation', '{root}/cp').toTable('m')",
    "py:spark.createDataFrame([(1,)], 'id bigint').write.format('delta').save('{root}/out/deep/e')",
]
"""Refused by whomever; what matters is that nothing changes."""

PASSING = [
    "EXPLAIN DELETE FROM m",
    "CACHE TABLE m",
    "UNCACHE TABLE m",
    "REFRESH TABLE m",
    "DESCRIBE TABLE m",
    "DESCRIBE m id",
    "SHOW COLUMNS IN m",
    "SHOW PARTITIONS m",
    "SHOW CREATE TABLE m",
    "SHOW TBLPROPERTIES m",
    "ALTER TABLE m RENAME TO other",
    "ALTER TABLE other RENAME TO m",
    "py:spark.catalog.refreshTable('m')",
    "SHOW TABLES",
    "SET spark.sql.shuffle.partitions = 2",
    "INSERT INTO pq VALUES (2, 'y')",
    "INSERT OVERWRITE pq PARTITION (p = 'y') VALUES (3)",
    "ALTER TABLE pq SET TBLPROPERTIES ('a' = 'b')",
    "ALTER TABLE pq DROP PARTITION (p = 'x')",
    "TRUNCATE TABLE pq",
    "INSERT OVERWRITE DIRECTORY '{root}/free' USING parquet SELECT 1",
    "py:spark.read.format('delta').load('{root}/out/deep/e').write.format('noop').mode('overwrite').save()",
    "py:spark.table('m').write.format('noop').mode('append').save()",
    "py:spark.range(1).write.mode('overwrite').parquet('{root}/free')",
    "py:spark.range(1).write.mode('append').parquet('{root}/out/beside')",
    "py:spark.range(1).write.mode('overwrite').saveAsTable('free')",
    "DROP TABLE free",
    "DROP TABLE delta.`{root}/out/deep/e`",
    "DROP TABLE pq",
    "py:spark.catalog.createTable('l', '{root}/out/deep/e', 'delta')",
    "CREATE SCHEMA empty",
    "DROP SCHEMA empty CASCADE",
]
"""What Spark may go on doing."""

AFTER = [
    "py:__import__('os').path.exists('{root}/out/deep/e/_spark_metadata')",
    "SELECT id, p FROM m ORDER BY id",
    "SELECT id FROM e ORDER BY id",
    "DROP TABLE e",
    "py:__import__('os').path.isdir('{root}/out/deep/e/_delta_log')",
    "DROP TABLE m",
    "py:__import__('os').path.exists('{root}/spark-warehouse/m')",
    "DROP TABLE IF EXISTS m",
]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What came of each statement; `before` and `after` are what lay in the tables' folders."""
    root = tmp_path_factory.mktemp("guard") / "a b%20c"  # a folder whose URI is not its path
    root.mkdir()
    texts = [*MADE, *BY_NAME, *BY_SPARK, *PASSING, *AFTER]
    watched = [f"{root}/spark-warehouse/m", f"{root}/out/deep/e"]
    outcomes = run_steps(Path(root), [t.replace("{root}", str(root)) for t in texts], watched)
    before = [[]] + [o["files"] for o in outcomes]
    return {text: o | {"before": b} for text, o, b in zip(texts, outcomes, before, strict=False)}


@pytest.mark.parametrize("text", MADE)
def test_the_tables_are_made(told: dict[str, dict[str, Any]], text: str) -> None:
    assert "rows" in told[text], told[text]


@pytest.mark.parametrize("text", cases(BY_NAME, SINCE))
def test_refused_by_name(told: dict[str, dict[str, Any]], text: str) -> None:
    outcome = told[text]
    assert "RowlockError" in outcome.get("error", []), outcome
    assert outcome["files"] == outcome["before"]


@pytest.mark.parametrize("text", BY_SPARK)
def test_refused_and_unharmed(told: dict[str, dict[str, Any]], text: str) -> None:
    assert "error" in told[text], told[text]
    assert told[text]["files"] == told[text]["before"]


@pytest.mark.parametrize("text", PASSING)
def test_what_harms_nothing_passes(told: dict[str, dict[str, Any]], text: str) -> None:
    assert "rows" in told[text], told[text]
    assert told[text]["files"] == told[text]["before"]


def test_the_rows_are_still_there(told: dict[str, dict[str, Any]]) -> None:
    assert told[AFTER[0]]["rows"] is False, "a refused stream leaves no folder in a table"
    assert told[AFTER[1]]["rows"] == [[1, "x"], [2, "y"]]
    assert told[AFTER[2]]["rows"] == [[1], [2]]


def test_a_managed_table_is_dropped_with_its_files_and_an_external_one_without(told: dict[str, dict[str, Any]]) -> None:
    assert told["DROP TABLE e"]["rows"] == told["DROP TABLE m"]["rows"] == told["DROP TABLE IF EXISTS m"]["rows"] == []
    assert [told[AFTER[n]]["rows"] for n in (4, 6)] == [True, False]
