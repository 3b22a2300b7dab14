"""The statements of SQL on a session with Rowlock enabled: what each makes of a table, what it answers, and the errors that reach the user (I3, I9)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.needs import cases
from support.sql_session import run_steps

pytestmark = pytest.mark.spark

STREAM = "spark.readStream.schema('id bigint')"
SINK = ".writeStream.format('delta').option('checkpointLocation', '{root}/cp').trigger(availableNow=True)"
ROWS = "SELECT * FROM t ORDER BY id"

# (name, step, rows or the name of an error)
STREAMED: list[tuple[str, Any, Any]] = [
    ("what a stream reads", "py:[spark.range(n, n + 2).write.mode('append').parquet('{root}/in') for n in (0, 2)] and None", None),
    ("a stream", f"py:{STREAM}.option('maxFilesPerTrigger', 1).parquet('{{root}}/in'){SINK}.start('{{root}}/sunk').awaitTermination()", None),
    ("sunk", "py:spark.read.format('delta').load('{root}/sunk').count()", 4),
]
MORE_STREAMS: list[tuple[str, Any, Any]] = [
    *STREAMED,
    (
        "a batch that is not marked as done",
        "py:[__import__('os').remove(f) for f in __import__('glob').glob('{root}/cp/commits/1') + __import__('glob').glob('{root}/cp/commits/.1.crc')] and None",
        None,
    ),
    ("a batch again", f"py:{STREAM}.parquet('{{root}}/in'){SINK}.start('{{root}}/sunk').awaitTermination()", None),
    ("once", "py:spark.read.format('delta').load('{root}/sunk').count()", 4),
    ("a stream by name", f"py:{STREAM}.parquet('{{root}}/in'){SINK.replace('cp', 'cp2')}.toTable('sunk').awaitTermination()", None),
    ("more by name", "py:spark.range(9, 10).write.mode('append').parquet('{root}/in')", None),
    ("a stream by a name that is there", f"py:{STREAM}.parquet('{{root}}/in'){SINK.replace('cp', 'cp2')}.toTable('sunk').awaitTermination()", None),
    ("sunk by name", "SELECT count(*) FROM sunk", [[5]]),
    (
        "a stream of all",
        f"py:{STREAM}.parquet('{{root}}/in').groupBy().count(){SINK.replace('cp', 'cp3')}.outputMode('complete').toTable('counted').awaitTermination()",
        None,
    ),
    ("counted", "SELECT * FROM counted", [[5]]),
    (
        "a stream that does not fit",
        f"py:{STREAM}.parquet('{{root}}/in').selectExpr('array(id) AS id'){SINK.replace('cp', 'cp4')}.toTable('sunk').awaitTermination()",
        "StreamingQueryException",
    ),
    (
        "a stream out of a table",
        f"py:spark.readStream.format('delta').load('{{root}}/spark-warehouse/sunk'){SINK.replace('cp', 'cp5')}.start('{{root}}/read').awaitTermination()",
        None,
    ),
    ("read as a stream", "py:spark.read.format('delta').load('{root}/read').count()", 5),
    (
        "a stream by a name goes on where one by path ended",
        "py:spark.range(20, 22).write.format('delta').mode('append').saveAsTable('sunk') or "
        f"spark.readStream.option('maxFilesPerTrigger', 1).table('sunk'){SINK.replace('cp', 'cp5')}.start('{{root}}/read').awaitTermination()",
        None,
    ),
    ("read on", "py:spark.read.format('delta').load('{root}/read').count()", 7),
    ("a stream by a path in a name", "py:spark.readStream.table('delta.`{root}/sunk`').isStreaming", True),
    ("a stream in SQL", "py:spark.sql('SELECT id FROM STREAM sunk WHERE id > 2').isStreaming", True),
    ("a stream of a table that is none", "py:spark.readStream.format('delta').load('{root}/none')", "AnalysisException"),
    ("an option of a stream without effect", "py:spark.readStream.format('delta').option('versionAsOf', '1').load('{root}/sunk')", "UnsupportedFeature"),
    ("columns that are others", "py:spark.readStream.schema('a string').format('delta').load('{root}/sunk')", "SchemaMismatch"),
    ("the catalog refreshes", "py:spark.catalog.refreshTable('sunk')", None),
]
STEPS: list[tuple[str, Any, Any]] = [
    ("create", "CREATE TABLE t (id BIGINT, a STRING COMMENT 'text', d DOUBLE) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')", []),
    ("insert", "INSERT INTO t VALUES (1, 'a', 1.5), (2, 'b', 2)", []),
    ("insert some", "INSERT INTO t (id, a) SELECT 3, 'c'", []),
    ("insert by name", "INSERT INTO t BY NAME SELECT 'x' AS a, 4 AS id, 2.5 AS d", []),
    ("inserted", ROWS, [[1, "a", 1.5], [2, "b", 2.0], [3, "c", None], [4, "x", 2.5]]),
    ("too few columns", "INSERT INTO t VALUES (5, 'e')", "SchemaMismatch"),
    ("no such column to set", "INSERT INTO t (id, z) VALUES (5, 'e')", "SchemaMismatch"),
    ("a value that does not fit", "INSERT INTO t VALUES (1e30BD, 'e', 1)", "ArithmeticException"),
    ("a type that is not stored", "INSERT INTO t VALUES (array(5), 'e', 1)", "AnalysisException"),
    ("update", ["UPDATE t AS x SET a = upper(x.a), d = DEFAULT WHERE x.id >= :from", {"from": 3}], [[2]]),
    ("update by the table's name", ["UPDATE t SET t.a = concat(t.a, '!') WHERE t.id = ?", [3]], [[1]]),
    ("delete", "DELETE FROM t WHERE id = 4", [[1]]),
    (
        "merge",
        "WITH s AS (SELECT 1 AS id UNION ALL SELECT 9), u AS (SELECT * FROM s WHERE id IN (SELECT id FROM t) OR id = 9) "
        "MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN UPDATE SET a = 'merged' WHEN NOT MATCHED THEN INSERT (id) VALUES (u.id) "
        "WHEN NOT MATCHED BY SOURCE AND t.id = 2 THEN DELETE WHEN NOT MATCHED BY SOURCE THEN UPDATE SET d = 0",
        [[4, 2, 1, 1]],
    ),
    ("merged", ROWS, [[1, "merged", 1.5], [3, "C!", 0.0], [9, None, None]]),
    (
        "merge evolves",
        "MERGE WITH SCHEMA EVOLUTION INTO t USING (SELECT 9L AS id, 'n' AS more) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
        [[1, 1, 0, 0]],
    ),
    ("evolved", "SELECT id, more FROM t WHERE more IS NOT NULL", [[9, "n"]]),
    ("explain", "EXPLAIN DELETE FROM t", None),
    ("explain ran nothing", "SELECT count(*) FROM t", [[3]]),
    ("a version", "SELECT count(*) FROM t VERSION AS OF 1", [[2]]),
    ("a version of a path", "SELECT count(*) FROM delta.`{root}/spark-warehouse/t` VERSION AS OF 0", [[0]]),
    ("no such version", "SELECT * FROM t VERSION AS OF 99", "VersionNotFound"),
    ("a view", "CREATE VIEW w AS SELECT id FROM t VERSION AS OF 1", []),
    ("read by a view", "SELECT * FROM w ORDER BY id", [[1], [2]]),
    ("a subquery", "SELECT id FROM t WHERE id = (SELECT max(id) FROM t) AND EXISTS (SELECT 1 FROM w)", [[9]]),
    ("a self join", "SELECT count(*) FROM t x JOIN t y ON x.id < y.id", [[3]]),
    ("a temporary view hides a table", "CREATE TEMP VIEW t AS SELECT 1 AS id", []),
    ("what is hidden is not changed", "DELETE FROM t WHERE id = 1", "UnsupportedFeature"),
    ("by its whole name it is", "UPDATE default.t SET d = 5 WHERE id = 1", [[1]]),
    ("the temporary view goes", "DROP VIEW t", []),
    ("partitions", "CREATE TABLE p USING delta PARTITIONED BY (a) AS SELECT id, a FROM t", []),
    ("a table that is there", "CREATE TABLE p USING delta AS SELECT 1 AS id", "TableExists"),
    ("if there is none", "CREATE TABLE IF NOT EXISTS p USING delta AS SELECT 1 AS id", []),
    ("a static partition", "INSERT INTO p PARTITION (a = 'new') VALUES (7)", []),
    ("a replaced partition", "INSERT OVERWRITE p PARTITION (a = 'new') VALUES (8)", []),
    ("replace where", "INSERT INTO p REPLACE WHERE a = 'merged' SELECT 11L, 'merged'", []),
    ("partitioned", "SELECT id, a FROM p ORDER BY id", [[3, "C!"], [8, "new"], [9, None], [11, "merged"]]),
    ("overwrite from itself", "INSERT OVERWRITE p SELECT * FROM p WHERE id > 8", []),
    ("overwritten", "SELECT id FROM p ORDER BY id", [[9], [11]]),
    ("optimize", "py:spark.sql(\"OPTIMIZE p WHERE a = 'merged'\").select('metrics.numFilesAdded').collect()", [[0]]),
    ("z-order", "py:spark.sql('OPTIMIZE p ZORDER BY (id)').select('metrics.numFilesAdded').collect()", [[2]]),
    ("vacuum", "VACUUM p RETAIN 200 HOURS", [["file:{root}/spark-warehouse/p"]]),
    ("restore", "py:spark.sql('RESTORE TABLE p TO VERSION AS OF 0').count()", 1),
    ("restored", "SELECT count(*) FROM p", [[3]]),
    ("history", "py:[r.operation for r in spark.sql('DESCRIBE HISTORY p LIMIT 2').collect()]", ["RESTORE", "OPTIMIZE"]),
    ("detail", "py:spark.sql('DESCRIBE DETAIL p').select('partitionColumns').collect()", [[["a"]]]),
    ("properties", "ALTER TABLE p SET TBLPROPERTIES ('rowlock.onConflict' = 'fail')", []),
    ("a property goes", "ALTER TABLE p UNSET TBLPROPERTIES ('rowlock.onConflict')", []),
    ("it is gone", "ALTER TABLE p UNSET TBLPROPERTIES ('rowlock.onConflict')", []),
    ("columns", "ALTER TABLE p ADD COLUMNS (n INT COMMENT 'number', o DATE)", []),
    ("added", "SELECT id, n, o FROM p WHERE id = 3", [[3, None, None]]),
    ("a constraint", "ALTER TABLE p ADD CONSTRAINT positive CHECK (id > 0)", []),
    ("it holds", "INSERT INTO p (id) VALUES (-1)", "ConstraintViolated"),
    ("it goes", "ALTER TABLE p DROP CONSTRAINT positive", []),
    ("not null", "ALTER TABLE p ALTER COLUMN id SET NOT NULL", []),
    ("null", "INSERT INTO p (n) VALUES (1)", "SchemaMismatch"),
    ("columns that are not mapped", "ALTER TABLE p RENAME COLUMN n TO m", "StatementRefused"),
    (
        "described",
        "DESCRIBE TABLE p",
        [
            ["id", "bigint", None],
            ["a", "string", "text"],
            ["n", "int", "number"],
            ["o", "date", None],
            ["# Partition Information", "", ""],
            ["# col_name", "data_type", "comment"],
            ["a", "string", "text"],
        ],
    ),
    (
        "a partition with a blank",
        "CREATE TABLE b (`a b` INT, n INT) USING delta PARTITIONED BY (`a b`) TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        [],
    ),
    (
        "its name in back quotes",
        "DESCRIBE TABLE b",
        [["a b", "int", None], ["n", "int", None], ["# Partition Information", "", ""], ["# col_name", "data_type", "comment"], ["`a b`", "int", None]],
    ),
    ("a column described", "DESCRIBE p n", [["col_name", "n"], ["data_type", "int"], ["comment", "number"]]),
    ("columns shown", "SHOW COLUMNS IN p", [["id"], ["a"], ["n"], ["o"]]),
    ("partitions shown", "SHOW PARTITIONS p PARTITION (a = 'merged')", [["merged"]]),
    ("no partitions", "SHOW PARTITIONS t", "InvalidInput"),
    ("a property shown", "SHOW TBLPROPERTIES p ('delta.enableDeletionVectors')", [["delta.enableDeletionVectors", "true"]]),
    ("no such property", "SHOW TBLPROPERTIES p ('k')", [["k", "Table spark_catalog.default.p does not have property: k"]]),
    (
        "what makes it",
        "py:spark.sql('SHOW CREATE TABLE p').first()[0].splitlines()[:7]",
        [
            "CREATE TABLE default.p (",
            "  id BIGINT NOT NULL,",
            "  a STRING COMMENT 'text',",
            "  n INT COMMENT 'number',",
            "  o DATE)",
            "USING delta",
            "PARTITIONED BY (a)",
        ],
    ),
    ("a column moves", "ALTER TABLE p ALTER COLUMN o AFTER id", []),
    ("another is first", "ALTER TABLE p CHANGE COLUMN n n INT FIRST", []),
    ("after none", "ALTER TABLE p ALTER COLUMN o AFTER nosuch", "SchemaMismatch"),
    ("moved", "py:spark.table('p').columns", ["n", "id", "o", "a"]),
    ("dynamic partitions", "INSERT INTO p PARTITION (a) VALUES (NULL, 60, NULL, 'dyn')", []),
    ("a partition and dynamic ones", "INSERT OVERWRITE p PARTITION (a) SELECT n, id, o, a FROM p WHERE id <> 60", []),
    ("an insert evolves", "INSERT WITH SCHEMA EVOLUTION INTO p SELECT 5 AS n, 61L AS id, NULL AS o, 'ev' AS a, 'more' AS evolved", []),
    ("by name it evolves", "INSERT WITH SCHEMA EVOLUTION INTO p BY NAME SELECT 62L AS id, 'two' AS evolved, 1 AS another", []),
    ("it evolved", "SELECT id, evolved, another FROM p WHERE id > 50 ORDER BY id", [[61, "more", None], [62, "two", 1]]),
    ("a comment", "COMMENT ON TABLE p IS 'said'", []),
    ("the comment in the catalog", "py:[spark.catalog.getTable(n).description for n in ('p', 't')]", ["said", None]),
    ("commented", "py:[spark.sql('DESCRIBE DETAIL p').first()['description']]", ["said"]),
    ("a comment as a property", "ALTER TABLE p SET TBLPROPERTIES ('comment' = 'set')", []),
    ("it is the description", "py:[(d := spark.sql('DESCRIBE DETAIL p').first())['description'], d['properties'].get('comment')]", ["set", None]),
    ("it is unset", "ALTER TABLE p UNSET TBLPROPERTIES ('comment')", []),
    ("there is none", "py:[spark.sql('DESCRIBE DETAIL p').first()['description']]", [None]),
    ("a version in a path", "SELECT count(*) FROM delta.`{root}/spark-warehouse/p@v0`", [[3]]),
    ("as Spark raises", "SELECT * FROM delta.`/nosuch`", "AnalysisException"),
    ("a struct", "ALTER TABLE p ADD COLUMNS (s STRUCT<x: INT> AFTER n, arr ARRAY<STRUCT<y: INT>>)", []),
    ("a field", "ALTER TABLE p ADD COLUMNS (s.z STRING COMMENT 'inner' FIRST, arr.element.w INT)", []),
    ("a field is taken", "ALTER TABLE p ADD COLUMN s.Z INT", "SchemaMismatch"),
    ("in fields", "INSERT INTO p BY NAME SELECT 50L AS id, 'f' AS a, named_struct('z', 'zz', 'x', 1) AS s, array(named_struct('y', 1, 'w', 2)) AS arr", []),
    ("fields", "SELECT s.z, s.x, arr[0].w FROM p WHERE id = 50", [["zz", 1, 2]]),
    ("a field that is left out", "INSERT INTO p BY NAME REPLACE WHERE id = 50 SELECT 50L AS id, 'f' AS a, named_struct('x', 1) AS s", "AnalysisException"),
    ("no field before", "SELECT s.z FROM p WHERE id = 3", [[None]]),
    ("fields by name only", "ALTER TABLE p DROP COLUMN s.x", "StatementRefused"),
    ("mapped", "ALTER TABLE p SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')", []),
    ("a field renamed", "ALTER TABLE p RENAME COLUMN s.z TO zz", []),
    ("a field dropped", "ALTER TABLE p DROP COLUMN IF EXISTS s.x, nosuch", []),
    ("a field's comment", "ALTER TABLE p ALTER COLUMN s.zz COMMENT 'other'", []),
    ("fields again", "SELECT s, s.zz FROM p WHERE id = 50", [[["zz"], "zz"]]),
    ("another name", "ALTER TABLE p RENAME TO renamed", []),
    ("the old name is free", "SELECT * FROM p", "AnalysisException"),
    ("a name that is taken", "ALTER TABLE renamed RENAME TO st2", []),
    ("names do not meet", "ALTER TABLE st2 RENAME TO t", "TableExists"),
    ("named", "SELECT count(*) FROM st2", [[6]]),
    ("its folder stays", "py:__import__('os').path.isdir('{root}/spark-warehouse/p/_delta_log')", True),
    ("back", "ALTER TABLE st2 RENAME TO p", []),
    ("replace", "CREATE OR REPLACE TABLE p (k INT) USING delta", []),
    ("replaced", "SELECT * FROM p", []),
    ("outside", "CREATE TABLE o (id BIGINT) USING rowlock LOCATION '{root}/outside'", []),
    ("by path", "INSERT INTO delta.`{root}/outside` VALUES (1)", []),
    ("read by name", "SELECT * FROM o", [[1]]),
    ("truncate", "TRUNCATE TABLE o", []),
    ("truncated", "SELECT count(*) FROM o", [[0]]),
    ("convert", "py:spark.range(3).write.parquet('{root}/files') or spark.sql('CONVERT TO DELTA parquet.`{root}/files`').collect()", []),
    ("converted", "SELECT count(*) FROM delta.`{root}/files`", [[3]]),
    ("save", "py:spark.range(3).write.format('delta').save('{root}/saved')", None),
    ("save more", "py:spark.range(3, 4).write.format('rowlock').mode('append').option('txnAppId', 'a').option('txnVersion', 1).save('{root}/saved')", None),
    ("save twice", "py:spark.range(3, 4).write.format('rowlock').mode('append').option('txnAppId', 'a').option('txnVersion', 1).save('{root}/saved')", None),
    ("load", "py:spark.read.format('delta').load('{root}/saved').count()", 4),
    ("load a version", "py:spark.read.format('rowlock').option('versionAsOf', 0).load('{root}/saved').count()", 3),
    ("load a version in a path", "py:spark.read.format('delta').load('{root}/saved@V0').count()", 3),
    (
        "load a time in a path",
        "py:spark.read.format('delta').load('{root}/saved@' + spark.sql('DESCRIBE HISTORY delta.`{root}/saved`').where('version = 0')"
        ".selectExpr('date_format(timestamp, \"yyyyMMddHHmmssSSS\")').first()[0]).count()",
        3,
    ),
    ("a time in a path, before the table", "SELECT * FROM delta.`{root}/saved@20000101000000000`", "VersionNotFound"),
    ("save as table", "py:spark.range(3).write.format('delta').saveAsTable('st')", None),
    ("append to it", "py:spark.range(1).write.format('delta').mode('append').saveAsTable('st')", None),
    ("append without a format", "py:spark.range(1).write.mode('append').saveAsTable('st')", None),
    ("insert into it", "py:spark.range(1).write.insertInto('st')", None),
    ("write to it", "py:spark.range(1).writeTo('st').append()", None),
    ("overwrite a part", "py:spark.range(5, 6).writeTo('st').overwrite(F.col('id') == 2)", "ConstraintViolated"),
    ("overwrite it", "py:spark.range(2).write.format('delta').mode('overwrite').saveAsTable('st')", None),
    ("a view that hides it", "py:spark.range(1).createOrReplaceTempView('st')", None),
    ("append to what a view hides", "py:spark.range(9, 10).write.format('delta').mode('append').saveAsTable('st')", None),
    ("overwrite what a view hides", "py:spark.range(2).write.format('delta').mode('overwrite').saveAsTable('st')", None),
    ("a step makes a table", "py:spark.range(1).writeTo('stepped').using('delta').option('txnAppId', 'a').option('txnVersion', 1).createOrReplace()", None),
    ("and once", "py:spark.range(9).writeTo('stepped').using('delta').option('txnAppId', 'a').option('txnVersion', 1).createOrReplace()", None),
    ("though it is tried again", "SELECT count(*) FROM stepped", [[1]]),
    ("and what is there is an error", "py:spark.range(2).write.format('delta').saveAsTable('st')", "AnalysisException"),
    ("what the view hides", "SELECT count(*) FROM default.st", [[2]]),
    ("hides no longer", "py:spark.catalog.dropTempView('st')", True),
    ("merge into it", "py:spark.range(5).alias('s').mergeInto('st', F.expr('st.id = s.id')).whenNotMatched().insertAll().merge()", None),
    ("table", "py:spark.table('st').count()", None),
    ("another session", "py:spark.newSession().sql('DELETE FROM st WHERE id = 1').collect()", [[1]]),
    ("an unknown table", "UPDATE nosuch SET a = 1", "AnalysisException"),
    ("an unknown column", "SELECT nocol FROM t", "AnalysisException"),
    ("no SQL", "UPDAT t", "ParseException"),
    ("no table there", "py:spark.read.format('delta').load('{root}/nosuch')", "AnalysisException"),
    ("changes", "SELECT id, _change_type FROM table_changes('t', 5, 6) ORDER BY id, _change_type", None),
    ("changes by path", "SELECT count(*) FROM table_changes_by_path('{root}/spark-warehouse/t', 1, 1)", [[2]]),
    ("changes by option", "py:spark.read.option('readChangeFeed', 'true').option('startingVersion', 1).option('endingVersion', 1).table('t').count()", 2),
    ("changes without a start", "py:spark.read.format('delta').option('readChangeFeed', 'true').load('{root}/saved')", "InvalidInput"),
    ("no changes", "SELECT * FROM table_changes('st', 0)", "InvalidInput"),
    ("a version by option", "py:spark.read.option('versionAsOf', 1).table('t').count()", 2),
    *STREAMED,
    ("rows that are tracked", "CREATE TABLE r (id INT, p STRING) USING delta PARTITIONED BY (p) TBLPROPERTIES ('delta.enableRowTracking' = 'true')", []),
    ("no row has an id", "SELECT id, _metadata.row_id, _metadata.file_name FROM r", []),
    ("tracked", "INSERT INTO r VALUES (1, 'a')", []),
    ("tracked too", "INSERT INTO r VALUES (2, 'b')", []),
    ("a row keeps its id", "UPDATE r SET id = 5 WHERE id = 1", [[1]]),
    ("row ids", "SELECT id, _metadata.row_id, _metadata.row_commit_version FROM r ORDER BY id", [[2, 1, 2], [5, 0, 3]]),
    ("by their ids", "SELECT id FROM r WHERE _metadata.row_id = 0 AND _metadata.file_size > 0", [[5]]),
    ("row ids of a DataFrame", "py:spark.table('r').select('id', '_metadata.row_id').orderBy('id').collect()", [[2, 1], [5, 0]]),
    ("row ids of a version", "SELECT id, _metadata.row_id, _metadata.row_commit_version FROM r VERSION AS OF 2 ORDER BY id", [[1, 0, 1], [2, 1, 2]]),
    ("no ids without tracking", "SELECT _metadata.row_id FROM t", "AnalysisException"),
    (
        "columns in the catalog",
        "py:[[c.name, c.dataType, c.isPartition] for c in spark.catalog.listColumns('r')]",
        [["id", "int", False], ["p", "string", True]],
    ),
    ("drop", "DROP TABLE p", []),
    ("dropped", "SELECT * FROM p", "AnalysisException"),
    ("made again", "CREATE TABLE p (other STRING) USING delta", []),
    ("is another", "SELECT * FROM p", []),
    ("dropped by another session", "py:spark.newSession().sql('DROP TABLE p').collect()", []),
    ("made elsewhere by another", "py:spark.newSession().sql(\"CREATE TABLE p (id INT) USING delta LOCATION '{root}/elsewhere'\").collect()", []),
    ("written there", "INSERT INTO p VALUES (7)", []),
    ("read there", "SELECT * FROM p", [[7]]),
]
NAMES = [name for name, _, _ in STEPS]
OF_STREAMS = [name for name, _, _ in MORE_STREAMS]
_EVOLVES = ("4.2", "INSERT WITH SCHEMA EVOLUTION")
SINCE = {
    "an insert evolves": _EVOLVES,
    "by name it evolves": _EVOLVES,
    "it evolved": _EVOLVES,
    "named": _EVOLVES,  # counts what the INSERTs before it wrote
    "a stream in SQL": ("4.1", "SELECT FROM STREAM"),
}


def _told(root: Path, steps: list[tuple[str, Any, Any]]) -> dict[str, tuple[dict[str, Any], Any]]:
    """By its name: what came of each step in one session, and what was expected."""

    def placed(value: Any) -> Any:
        if isinstance(value, list):
            return [placed(v) for v in value]
        return value.replace("{root}", str(root)) if isinstance(value, str) else value

    outcomes = run_steps(root, [placed(step) for _, step, _ in steps], [])
    return {name: (outcome, placed(expected)) for (name, _, expected), outcome in zip(steps, outcomes, strict=True)}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict[str, Any], Any]]:
    return _told(tmp_path_factory.mktemp("statements"), STEPS)


@pytest.fixture(scope="module")
def told_of_streams(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict[str, Any], Any]]:
    return _told(tmp_path_factory.mktemp("streams"), MORE_STREAMS)


def _check(outcome: dict[str, Any], expected: Any) -> None:
    if isinstance(expected, str):
        assert expected in outcome.get("error", []), outcome
    else:
        assert "rows" in outcome, outcome
        assert expected is None or outcome["rows"] == expected


@pytest.mark.parametrize("name", cases(NAMES, SINCE))
def test_statement(told: dict[str, tuple[dict[str, Any], Any]], name: str) -> None:
    _check(*told[name])


@pytest.mark.soak("eight queries; one of them stays among the statements, and streams by functions are in test_stream_source", ci=True)
@pytest.mark.parametrize("name", cases(OF_STREAMS, SINCE))
def test_stream(told_of_streams: dict[str, tuple[dict[str, Any], Any]], name: str) -> None:
    _check(*told_of_streams[name])


def test_every_step_has_a_name_of_its_own() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert len(set(OF_STREAMS)) == len(OF_STREAMS)
