"""Statements as Delta's own suites have them: Rowlock returns the same rows as delta-spark, raises an error of the same name or condition, or refuses by name.

What delta-spark said is recorded in tests/data/sql/delta_statements.txt, with each difference and its reason; that the record is true is asked in the soak.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from support.needs import INSTALLED, needs_spark
from support.peers import is_one_in
from support.recorded_statements import BEFORE, Recorded, differences, placed, scenarios
from support.sql_session import run_steps

pytestmark = pytest.mark.spark

ALL = scenarios()
BEFORE_A_CHANGE = {name: statements for name, statements in ALL.items() if not name.endswith("(soak)")}
LATER = ("INSERT WITH SCHEMA EVOLUTION", "LIKE spark_catalog.")
"""Texts of statements that the grammars of Spark 4.0 and 4.1 lack."""
SHORT = {name: statements for name, statements in BEFORE_A_CHANGE.items() if is_one_in(8, name)}


def _run(folder: Path, chosen: dict[str, list[Recorded]]) -> list[str]:
    statements = [s for group in chosen.values() for s in group]
    outcomes = run_steps(folder, [placed(text, str(folder)) for text in (*BEFORE, *(s.text for s in statements))], [])
    assert all("rows" in o for o in outcomes[: len(BEFORE)]), outcomes[: len(BEFORE)]
    return list(differences(statements, outcomes[len(BEFORE) :], str(folder), ours=True))


def _is_later(statements: list[Recorded]) -> bool:
    return any(text in s.text for s in statements for text in LATER)


@pytest.mark.parametrize("later", [None] if INSTALLED >= "4.2" else [False, pytest.param(True, marks=needs_spark("4.2", " and ".join(LATER)))])
def test_the_statements_are_as_delta_spark_has_them(tmp_path: Path, later: bool | None) -> None:
    """On a Spark that lacks a statement of a scenario, that scenario is left out."""
    assert not _run(tmp_path, {k: v for k, v in SHORT.items() if later in (None, _is_later(v))})


@pytest.mark.soak("the other scenarios of the same list", ci=True)
def test_more_statements_are_as_delta_spark_has_them(tmp_path: Path) -> None:
    assert not _run(tmp_path, {name: s for name, s in BEFORE_A_CHANGE.items() if name not in SHORT and (INSTALLED >= "4.2" or not _is_later(s))})


def test_no_two_scenarios_make_one_table() -> None:
    """All scenarios run one after another in one schema."""
    made: dict[str, set[str]] = {}
    for scenario, statements in ALL.items():
        for name in re.findall(
            r"(?:CREATE (?:TEMP )?(?:TABLE|VIEW) (?:delta\.`\{wh\}/)?|saveAsTable\(')(?!delta\.`|IF NOT )([\w.]+)", "\n".join(s.text for s in statements)
        ):
            made.setdefault(name.lower(), set()).add(scenario)
    assert {name: scenarios for name, scenarios in made.items() if len(scenarios) > 1} == {}


@pytest.mark.soak("all scenarios of the same list")
def test_all_statements_are_as_delta_spark_has_them(tmp_path: Path) -> None:
    assert not _run(tmp_path, ALL)


@pytest.mark.soak("delta-spark itself, statement by statement: what it did is recorded")
def test_what_is_recorded_is_what_delta_spark_does(spark: SparkSession, tmp_path: Path) -> None:
    statements = [s for group in ALL.values() for s in group]
    outcomes: list[dict[str, Any]] = []
    before = spark.catalog.currentDatabase()
    try:
        for text in BEFORE:
            spark.sql(placed(text, str(tmp_path)))
        for statement in statements:
            outcomes.append(_by_delta_spark(spark, placed(statement.text, str(tmp_path))))
    finally:
        spark.catalog.setCurrentDatabase(before)
        spark.sql("DROP DATABASE IF EXISTS s CASCADE")
        for view in spark.catalog.listTables():
            if view.isTemporary:
                spark.catalog.dropTempView(view.name)
    assert not list(differences(statements, outcomes, str(tmp_path), ours=False))


def _by_delta_spark(spark: SparkSession, text: str) -> dict[str, Any]:
    from pyspark.sql import functions as F

    try:
        answer = eval(text[3:], {"spark": spark, "F": F}) if text.startswith("py:") else spark.sql(text)
        return {"rows": [list(r) for r in answer.collect()] if hasattr(answer, "collect") else answer}
    except Exception as e:
        return {"error": [c.__name__ for c in type(e).__mro__], "text": str(e)}


@pytest.mark.parametrize("name", ALL)
def test_each_statement_says_what_came_of_it(name: str) -> None:
    assert ALL[name]
    for statement in ALL[name]:
        assert statement.expected, statement.text
        assert statement.otherwise is None or (statement.otherwise and statement.why), f"why is it otherwise? {statement.text}"
