"""What Spark says of a column that is not there suggests the columns of the user's tables, never those that Rowlock adds to its frames."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, IntegerType, MapType, StringType, StructType

import rowlock
from rowlock import DeltaTable
from rowlock.engines.spark.catalyst.analysis import target_path
from rowlock.exceptions import SchemaMismatch, StatementRefused

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


INNER = StructType().add("c", IntegerType())
NESTED = (
    StructType()
    .add("id", "integer")
    .add("s", StructType().add("a", "integer").add("B", INNER))
    .add("l", ArrayType(INNER))
    .add("m", MapType(StringType(), INNER))
)


@pytest.mark.parametrize(
    ("key", "condition", "parameters"),
    [
        ("nosuch", "UNRESOLVED_COLUMN.WITH_SUGGESTION", {"objectName": "`nosuch`", "proposal": "`id`, `s`, `l`, `m`"}),
        ("`nosuch`.x", "UNRESOLVED_COLUMN.WITH_SUGGESTION", {"objectName": "`nosuch`.`x`", "proposal": "`id`, `s`, `l`, `m`"}),
        ("`s`.`nosuch`", "FIELD_NOT_FOUND", {"fieldName": "`nosuch`", "fields": "`a`, `B`"}),
        ("t.S.nosuch", "FIELD_NOT_FOUND", {"fieldName": "`nosuch`", "fields": "`a`, `B`"}),
        ("s.b.nosuch", "FIELD_NOT_FOUND", {"fieldName": "`nosuch`", "fields": "`c`"}),
        ("l.nosuch", "FIELD_NOT_FOUND", {"fieldName": "`nosuch`", "fields": "`c`"}),
        ("s.a.nosuch", "INVALID_EXTRACT_BASE_FIELD_TYPE", {"base": '"s.a"', "other": '"INT"'}),
        ("id.x", "INVALID_EXTRACT_BASE_FIELD_TYPE", {"base": '"id"', "other": '"INT"'}),
        ("l.c", "DELTA_UNSUPPORTED_NESTED_FIELD_IN_UPDATE", {"optionalPrefixMessage": ""}),
        ("m.k", "DELTA_UNSUPPORTED_NESTED_FIELD_IN_UPDATE", {"optionalPrefixMessage": ""}),
    ],
)
def test_what_cannot_be_set_has_the_condition_of_delta_spark(key: str, condition: str, parameters: dict[str, str]) -> None:
    """I9: UPDATE and MERGE said of a field that a struct has not that there is no such column, with back quotes around the whole path."""
    with pytest.raises(SchemaMismatch) as e:
        target_path(key, NESTED, "t", "/lake/t")
    assert (e.value.getCondition(), e.value.getMessageParameters()) == (condition, parameters)
