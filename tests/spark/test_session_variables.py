"""Statements see the variables of their session (DECLARE VARIABLE), with the values that these had when the statement began; a table's definition does not."""

from __future__ import annotations

import pyarrow as pa
import pytest

import rowlock
from rowlock import DeltaTable
from rowlock.engines.spark.session.settings import cloned_session
from rowlock.engines.spark.user_session import Session
from rowlock.exceptions import InvalidInput, StatementRefused

pytestmark = pytest.mark.spark


@pytest.fixture
def t(spark, table_path):
    rowlock.append(table_path, pa.table({"id": pa.array([1, 2, 3], pa.int64()), "v": ["a", "b", "c"]}))
    spark.sql("DECLARE OR REPLACE VARIABLE x INT DEFAULT 2")
    spark.sql("DECLARE OR REPLACE VARIABLE id INT DEFAULT 99")
    yield DeltaTable.forPath(spark, table_path)
    for name in ("x", "id"):
        spark.sql(f"DROP TEMPORARY VARIABLE IF EXISTS {name}")


def rows(t):
    return [tuple(r.values()) for r in rowlock.to_arrow(t._handle.path).sort_by("id").to_pylist()]


def test_of_every_statement(spark, t):
    """By the builders and by rowlock.sql, in conditions, values, sources and what is replaced; a column hides a variable of its name."""
    t.update("id = x", {"v": "concat('is ', x)"})
    t.alias("t").merge(spark.range(2, 5).alias("s"), "t.id = s.id AND s.id > x").whenMatchedUpdate(set={"v": "string(system.session.x)"}).whenNotMatchedInsert(
        "s.id = x + 2", {"id": "s.id", "v": "'new' || x"}
    ).whenNotMatchedBySourceDelete("t.id < x").execute()
    assert rows(t) == [(2, "is 2"), (3, "2"), (4, "new2")]
    spark.sql("SET VAR x = 4")
    name = f"delta.`{t._handle.path}`"
    rowlock.sql(spark, f"DELETE FROM {name} WHERE id = session.x")
    rowlock.sql(spark, f"INSERT INTO {name} REPLACE WHERE id = x - 1 SELECT x - 1L, 'replaced'")
    rowlock.sql(spark, f"UPDATE {name} SET v = concat(v, session.id, :p) WHERE id = x - 2", {"p": "!"})
    t.delete("id = 99")
    assert rows(t) == [(2, "is 299!"), (3, "replaced")]


def test_a_rebase_computes_with_the_value_of_the_statements_start(spark, t):
    with t.transaction() as txn:
        txn.update("id >= x", {"v": "string(x)"})
        spark.sql("SET VAR x = 1")
        rowlock.append(t._handle.path, pa.table({"id": pa.array([7], pa.int64()), "v": ["winner"]}))
        t.update("id = 1", {"v": "'winner'"})
    assert rows(t) == [(1, "winner"), (2, "2"), (3, "2"), (7, "2")] and txn.receipt.rounds


def test_a_statement_that_is_planned_anew_keeps_them(spark, t):
    def seen():
        return cloned_session(spark, variables=True).sql("SELECT x").head().get(0)

    with Session(spark).fixed_variables():
        spark.sql("SET VAR x = 5")
        assert seen() == 2
    assert seen() == 5
    with pytest.raises(Exception, match="UNRESOLVED_COLUMN"):
        cloned_session(spark).sql("SELECT x")


def test_no_definition_of_a_table_has_one(spark, t):
    t.addFeatureSupport("allowColumnDefaults")
    for define, kind in (
        (lambda: t.addConstraint("c", "id < x + 100"), StatementRefused),
        (lambda: t.setDefault("v", "string(x)"), InvalidInput),
    ):
        with pytest.raises(kind):
            define()
    assert t.history().count() == 2
