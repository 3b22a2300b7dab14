"""The options of df.write, df.writeTo and INSERT on a session with Rowlock enabled: each does what delta-spark's does, or is refused (I9)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.sql_session import run_steps

pytestmark = pytest.mark.spark

ROWS = "SELECT * FROM t ORDER BY ALL"
FRAME = "py:spark.createDataFrame([({}, '{}')], 'id bigint, p string')"
WRITE = FRAME + ".write.format('delta').mode('{}')"
HISTORY = "py:[list(r) for r in spark.sql('DESCRIBE HISTORY t LIMIT 1').select('operation', 'userMetadata').collect()]"

STEPS: list[tuple[str, Any, Any]] = [
    # (name, step, rows or the name of an error)
    ("made", WRITE.format(1, "a", "append") + ".partitionBy('p').option('userMetadata', 'first').saveAsTable('t')", None),
    ("its text", HISTORY, [["CREATE TABLE AS SELECT", "first"]]),
    ("more", "INSERT INTO t VALUES (2, 'b'), (3, 'c')", []),
    ("a table's partitions", WRITE.format(4, "b", "overwrite") + ".option('partitionOverwriteMode', 'dynamic').saveAsTable('t')", None),
    ("replaced", ROWS, [[1, "a"], [3, "c"], [4, "b"]]),
    ("a path's partitions", WRITE.format(5, "c", "overwrite") + ".option('partitionOverwriteMode', 'DYNAMIC').save('{root}/spark-warehouse/t')", None),
    ("by writeTo", FRAME.format(6, "a") + ".writeTo('t').option('userMetadata', 'v2').overwritePartitions()", None),
    ("replaced again", ROWS, [[4, "b"], [5, "c"], [6, "a"]]),
    ("the text of writeTo", HISTORY, [["WRITE", "v2"]]),
    ("no such mode", WRITE.format(5, "c", "overwrite") + ".option('partitionOverwriteMode', 'some').saveAsTable('t')", "InvalidInput"),
    ("rows with the same id", WRITE.format(5, "z", "overwrite") + ".option('replaceUsing', 'id').saveAsTable('t')", None),
    ("by name", ROWS, [[4, "b"], [5, "z"], [6, "a"]]),
    (
        "rows that a condition joins",
        FRAME.format(5, "c")
        + ".alias('s').write.format('delta').mode('overwrite').option('replaceOn', 't.id = s.id').option('targetAlias', 't').saveAsTable('t')",
        None,
    ),
    ("by a condition", ROWS, [[4, "b"], [5, "c"], [6, "a"]]),
    ("the session says it", "SET spark.sql.sources.partitionOverwriteMode = dynamic", None),
    ("the session's text", "SET spark.databricks.delta.commitInfo.userMetadata = session", None),
    ("insert overwrite", "INSERT OVERWRITE t VALUES (7, 'a')", []),
    ("a partition and others", "INSERT OVERWRITE t PARTITION (p) SELECT 8, 'b'", []),
    ("insertInto", FRAME.format(9, "c") + ".write.insertInto('t', overwrite=True)", None),
    ("with a condition", FRAME.format(10, "c") + ".write.mode('overwrite').option('replaceWhere', 'id = 9 OR id = 10').insertInto('t')", None),
    ("that the rows do not meet", FRAME.format(1, "c") + ".write.mode('overwrite').option('replaceWhere', 'id = 9').insertInto('t')", "ConstraintViolated"),
    ("misspelt", FRAME.format(1, "c") + ".write.mode('overwrite').option('replaceWher', 'id = 9').insertInto('t')", "UnsupportedFeature"),
    ("of other rows", FRAME.format(9, "c") + ".write.mode('overwrite').option('replaceUsing', 'p').option('userMetadata', 'v9').insertInto('t')", None),
    ("the text of these", HISTORY, [["WRITE", "v9"]]),
    ("with other columns", FRAME.format(1, "c") + ".write.mode('overwrite').option('overwriteSchema', 'true').insertInto('t')", "UnsupportedFeature"),
    ("before a table of Parquet they are Spark's own", "CREATE TABLE plain (id INT, p STRING) USING parquet", []),
    ("nobody's", FRAME.format(1, "c") + ".write.option('compression', 'none').insertInto('plain')", None),
    ("inserted", ROWS, [[7, "a"], [8, "b"], [9, "c"]]),
    ("a static overwrite", WRITE.format(10, "d", "overwrite") + ".option('partitionOverwriteMode', 'static').saveAsTable('t')", None),
    (
        "a condition says more than the session",
        WRITE.format(11, "e", "overwrite") + ".option('replaceWhere', 'id = 10').saveAsTable('t')",
        "ConstraintViolated",
    ),
    ("what was written statically", ROWS, [[10, "d"]]),
    ("altered", "ALTER TABLE t SET TBLPROPERTIES ('delta.checkpointInterval' = '20')", []),
    ("the text of an ALTER", HISTORY, [["SET TBLPROPERTIES", "session"]]),
    ("deleted", "DELETE FROM t WHERE id = 77", [[0]]),
    ("made by a query", "CREATE TABLE u USING delta AS SELECT 1 AS id", []),
    ("its history", "py:spark.sql('DESCRIBE HISTORY u').first().userMetadata", "=session"),
    ("nobody says it", "RESET", None),
    ("other columns", "py:spark.range(3).selectExpr('id as k').write.format('delta').mode('overwrite').saveAsTable('t')", "SchemaMismatch"),
    (
        "columns anew",
        "py:spark.range(3).selectExpr('id as k').write.format('delta').mode('overwrite').option('overwriteSchema', 'true').saveAsTable('t')",
        None,
    ),
    ("made anew", ROWS, [[0], [1], [2]]),
    ("not in an append", "py:spark.range(3).write.format('delta').mode('append').option('overwriteSchema', 'true').saveAsTable('t')", "InvalidInput"),
    ("columns anew by path", WRITE.format(1, "a", "overwrite") + ".option('overwriteSchema', 'true').partitionBy('p').save('{root}/spark-warehouse/t')", None),
    ("partitioned anew", "py:spark.sql('DESCRIBE DETAIL t').first().partitionColumns", ["p"]),
    ("createOrReplace", FRAME.format(5, "z") + ".writeTo('t').using('delta').option('userMetadata', 'rtas').createOrReplace()", None),
    ("the text of createOrReplace", HISTORY, [["CREATE OR REPLACE TABLE AS SELECT", "rtas"]]),
    ("a property that there is none of", WRITE.format(5, "z", "append") + ".option('delta.nosuch', '1').save('{root}/spark-warehouse/t')", "InvalidInput"),
    ("by name delta-spark passes it over", WRITE.format(5, "z", "ignore") + ".option('delta.nosuch', '1').saveAsTable('t')", None),
    ("one that is possible", WRITE.format(5, "z", "append") + ".option('delta.appendOnly', 'true').save('{root}/spark-warehouse/t')", None),
    ("has no effect", "py:'delta.appendOnly' in spark.sql('DESCRIBE DETAIL t').first().properties", "=False"),
    ("a misspelt option", FRAME.format(5, "z") + ".writeTo('t').using('delta').option('userMetaDat', 'true').createOrReplace()", "UnsupportedFeature"),
    ("a stream's files", "py:spark.range(4).coalesce(1).write.parquet('{root}/in')", None),
    (
        "small files",
        "py:spark.range(5).coalesce(1).write.format('delta').option('maxRecordsPerFile', 2).mode('overwrite').option('overwriteSchema', 'true').saveAsTable('t')",
        None,
    ),
    ("three of them", "py:spark.sql('DESCRIBE DETAIL t').first().numFiles", "=3"),
    ("a number that is none", "py:spark.range(5).write.format('delta').option('maxRecordsPerFile', 'two').mode('append').saveAsTable('t')", "InvalidInput"),
    ("no limit", "py:spark.range(5).coalesce(1).write.format('delta').option('maxRecordsPerFile', '0').mode('append').saveAsTable('t')", None),
    ("one more", "py:spark.sql('DESCRIBE DETAIL t').first().numFiles", "=4"),
    (
        "a stream",
        "py:spark.readStream.schema('id bigint').parquet('{root}/in').writeStream.format('delta').option('userMetadata', 'streamed')"
        ".option('maxRecordsPerFile', '3').option('checkpointLocation', '{root}/cp').trigger(availableNow=True).toTable('s').awaitTermination()",
        None,
    ),
    ("the stream's files", "py:spark.sql('DESCRIBE DETAIL s').first().numFiles", "=2"),
    ("the stream's text", "py:spark.sql('DESCRIBE HISTORY s').first().userMetadata", "=streamed"),
]
NAMES = [name for name, _, _ in STEPS]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    root = tmp_path_factory.mktemp("options")
    outcomes = run_steps(Path(root), [step.replace("{root}", str(root)) for _, step, _ in STEPS], [])
    return dict(zip(NAMES, outcomes, strict=True))


@pytest.mark.parametrize(("name", "expected"), [(name, expected) for name, _, expected in STEPS])
def test_step(told: dict[str, dict[str, Any]], name: str, expected: Any) -> None:
    outcome = told[name]
    if isinstance(expected, str) and not expected.startswith("="):
        assert expected in outcome.get("error", []), outcome
    else:
        assert "rows" in outcome, outcome
        assert expected is None or outcome["rows"] == expected or f"={outcome['rows']}" == expected
