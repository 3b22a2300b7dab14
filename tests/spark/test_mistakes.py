"""Mistakes that users of delta-spark make: the error is the same exception of PySpark, with the same condition, SQL state and parameters, and one of ours.

tests/data/sql/mistakes.txt holds what delta-spark raises for each, and each difference with its reason; that the record is true is asked in the soak.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rowlock.conditions import STATES
from support.outcomes import outcome_of, said_of
from support.recorded_statements import BEFORE, FILE, Recorded, placed, scenarios
from support.sql_session import run_steps

pytestmark = pytest.mark.spark

ALL = scenarios(FILE.parent / "mistakes.txt")
SETUP, MISTAKES = ALL["setup"], {name: statements for name, statements in ALL.items() if name != "setup"}
BEFORE_A_CHANGE = {name: statements for name, statements in MISTAKES.items() if not name.endswith("(soak)")}
SHORT = {
    name: BEFORE_A_CHANGE[name]
    for name in ("the table that is not there", "rows that a constraint refuses", "MERGE", "options, clustering and names of writes, change feeds, subqueries")
}


def _wrong(folder: Path, chosen: dict[str, list[Recorded]]) -> list[str]:
    statements = [s for group in chosen.values() for s in group]
    before = [*BEFORE, *(s.text for s in SETUP)]
    outcomes = run_steps(folder, [placed(text, str(folder)) for text in (*before, *(s.text for s in statements))], [])
    assert all("rows" in o for o in outcomes[: len(before)]), [o for o in outcomes[: len(before)] if "rows" not in o]
    found = []
    for s, o in zip(statements, outcomes[len(before) :], strict=True):
        said, wanted = said_of(o), s.expected if s.otherwise is None else s.otherwise
        if said != wanted:
            found.append(f"{s.text}\n    {wanted} was expected, and it was {said}: {o.get('text', o.get('rows'))}")
        if (o.get("condition") or "").partition(".")[0] in STATES and "RowlockError" in o["error"] and not o["text"].startswith(f"[{o['condition']}] "):
            found.append(f"{s.text}\n    the text does not begin with the condition: {o['text']}")
    return found


def test_errors_are_as_delta_spark_has_them(tmp_path: Path) -> None:
    assert sum(map(len, SHORT.values())) >= 60
    assert not _wrong(tmp_path, SHORT)


@pytest.mark.soak("three times as many mistakes of the same list", ci=True)
def test_more_errors_are_as_delta_spark_has_them(tmp_path: Path) -> None:
    assert not _wrong(tmp_path, {name: statements for name, statements in BEFORE_A_CHANGE.items() if name not in SHORT})


@pytest.mark.soak("the other mistakes of the same list")
def test_all_errors_are_as_delta_spark_has_them(tmp_path: Path) -> None:
    assert not _wrong(tmp_path, MISTAKES)


@pytest.mark.soak("delta-spark itself, mistake by mistake: what it raises is recorded")
def test_what_is_recorded_is_what_delta_spark_raises(spark: SparkSession, tmp_path: Path) -> None:
    before = spark.catalog.currentDatabase()
    try:
        for text in (*BEFORE, *(s.text for s in SETUP)):
            assert said_of(_by_delta_spark(spark, placed(text, str(tmp_path)))) == "=", text
        told = {s.text: (said_of(_by_delta_spark(spark, placed(s.text, str(tmp_path)))), s.expected) for group in MISTAKES.values() for s in group}
    finally:
        spark.catalog.setCurrentDatabase(before)
        spark.sql("DROP DATABASE IF EXISTS s CASCADE")
        spark.catalog.dropTempView("tv")
    assert {text: said for text, said in told.items() if said[0] != said[1]} == {}


def _by_delta_spark(spark: SparkSession, text: str) -> dict[str, Any]:
    from delta.tables import DeltaTable, IdentityGenerator

    try:
        if text.startswith("py:"):
            eval(text[3:], {"spark": spark, "DeltaTable": DeltaTable, "IdentityGenerator": IdentityGenerator})
        else:
            spark.sql(text)
        return {}
    except Exception as e:
        return outcome_of(e)


@pytest.mark.parametrize("name", MISTAKES)
def test_each_difference_has_a_reason(name: str) -> None:
    for statement in MISTAKES[name]:
        assert statement.expected, statement.text
        assert statement.otherwise is None or (statement.otherwise != statement.expected and statement.why), f"why is it otherwise? {statement.text}"
