"""What Spark says of a column that is not there suggests the columns of the user's tables, never those that Rowlock adds to its frames."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

import rowlock
from rowlock import DeltaTable
from rowlock.exceptions import StatementRefused

pytestmark = [pytest.mark.spark, pytest.mark.no_peers("nothing is written")]

UNKNOWN = {
    "the condition of DELETE": (lambda t, m: t.delete("pos = 1"), "`id`"),
    "a Column in the condition of DELETE": (lambda t, m: t.delete(F.col("pos") == 1), "`id`"),
    "the condition of UPDATE": (lambda t, m: t.update("path = 1", {"v": "1"}), "`id`"),
    "a value of UPDATE": (lambda t, m: t.update("v = 1", {"v": "pos + 1"}), "`id`"),
    "a value of another type": (lambda t, m: t.update(set={"v": "cast(pos as string)"}), "`id`"),
    "ON of MERGE": (lambda t, m: m("t.pos = s.k").whenMatchedDelete().execute(), "`t`.`id`"),
    "ON of MERGE, without an alias": (lambda t, m: m("pos = source").whenMatchedDelete().execute(), "`s`.`k`"),
    "a condition of MERGE": (lambda t, m: m("t.id = s.k").whenMatchedDelete("s.source = 1").execute(), "`s`.`k`"),
    "a value of MERGE": (lambda t, m: m("t.id = s.k").whenMatchedUpdate(set={"v": "s.source"}).execute(), "`s`.`k`"),
    "an insert of MERGE": (lambda t, m: m("t.id = s.k").whenNotMatchedInsert(values={"id": "s.source"}).execute(), "`s`.`k`"),
    "a row without a match": (lambda t, m: m("t.id = s.k").whenNotMatchedBySourceUpdate(set={"v": "t.pos"}).execute(), "`t`.`id`"),
    "what is replaced": (lambda t, m: rowlock.write(t.toDF(), t._handle.state.store.root, mode="overwrite", replace_where="pos = 1"), "`id`"),
    "another error with its plan": (lambda t, m: t.delete("v = array(1)"), "ARRAY<INT>"),
}


@pytest.fixture(scope="module")
def table(spark, tmp_path_factory: pytest.TempPathFactory) -> DeltaTable:
    path = str(tmp_path_factory.mktemp("unknown") / "table")
    rowlock.write(spark.range(3).selectExpr("id", "id as v"), path)
    return DeltaTable.forPath(spark, path)


@pytest.mark.parametrize("what", UNKNOWN)
def test_no_internal_column_is_named(spark, table: DeltaTable, what: str) -> None:
    statement, suggested = UNKNOWN[what]
    source = spark.range(2).selectExpr("id as k").alias("s")
    with pytest.raises(AnalysisException) as e:
        statement(table, lambda on: table.alias("t").merge(source, on))
    texts = [str(e.value), e.value.getMessage(), *(e.value.getMessageParameters() or {}).values(), getattr(e.value, "_stackTrace", "")]
    assert not [text for text in texts if "__rowlock" in text]
    assert suggested in str(e.value) and suggested in e.value.getMessage()
    assert e.value.getCondition() in str(e.value) and e.value.getSqlState() and "[]" not in str(e.value) and ", ]" not in str(e.value)


def test_a_constraint_on_a_column_that_is_not_there(table: DeltaTable) -> None:
    with pytest.raises(StatementRefused, match="`id`") as e:
        table.addConstraint("positive", "pos > 0")
    assert "__rowlock" not in str(e.value)
