"""Expressions over rows: three-valued logic as Spark has it, and refusals by name."""

from __future__ import annotations

from typing import Any

import pytest

from rowlock.exceptions import InvalidInput, StatementRefused
from rowlock_simulation.memory.sql.expressions import Relation, compile_expression

SCOPE = (Relation("t", ("k", "v", "name", "flag")),)
ROW: dict[str, Any] = {"k": 1, "v": None, "name": "ann", "flag": True}

MEANINGS = {
    "k + 1 * 2": 3,
    "(k + 1) * 2": 4,
    "-k % 2": -1,
    "(k - 8) % 5": -2,
    "k = 1": True,
    "k <> 1": False,
    "k != 2": True,
    "v = 1": None,
    "v = NULL": None,
    "NULL <=> v": True,
    "k <=> v": False,
    "v IS NULL": True,
    "v IS NOT NULL": False,
    "flag IS TRUE": True,
    "NOT (v = 1)": None,
    "v = 1 AND k = 2": False,
    "v = 1 AND k = 1": None,
    "v = 1 OR k = 1": True,
    "v = 1 OR k = 2": None,
    "k IN (1, NULL)": True,
    "k IN (2, NULL)": None,
    "k NOT IN (2, 3)": True,
    "k BETWEEN 0 AND 1": True,
    "v BETWEEN 0 AND 1": None,
    "2 BETWEEN v AND 1": False,
    "coalesce(v, NULL, k)": 1,
    "CASE WHEN v = 1 THEN 1 WHEN k = 1 THEN 2 END": 2,
    "CASE WHEN k = 2 THEN 1 END": None,
    "CASE k WHEN 1 THEN 'one' ELSE 'other' END": "one",
    "t.name >= 'ann'": True,
    "NAME < 'b'": True,
    "flag": True,
}


@pytest.mark.parametrize("sql", MEANINGS)
def test_meaning(sql: str) -> None:
    assert compile_expression(sql, SCOPE)((ROW,)) is MEANINGS[sql] or compile_expression(sql, SCOPE)((ROW,)) == MEANINGS[sql]


@pytest.mark.parametrize(
    ("sql", "what"), [("rand()", "Rand"), ("k / 2", "Div"), ("'it''s'", "Concat"), ("k IN (SELECT 1)", "In"), ("1.5", "Literal"), ("upper(name)", "Upper")]
)
def test_refused_by_name(sql: str, what: str) -> None:
    with pytest.raises(StatementRefused) as refused:
        compile_expression(sql, SCOPE)
    assert refused.value.what == what


@pytest.mark.parametrize("sql", ["nothing", "s.k", "k = 'a'", "name + 1", "k % 0", "9223372036854775807 + k", "k +"])
def test_cannot_mean_anything(sql: str) -> None:
    with pytest.raises(InvalidInput):
        compile_expression(sql, SCOPE)((ROW,))


def test_a_name_in_two_relations_is_ambiguous() -> None:
    both = (*SCOPE, Relation("s", ("k",)))
    assert compile_expression("s.k + t.k", both)((ROW, {"k": 5})) == 6
    with pytest.raises(InvalidInput, match="ambiguous"):
        compile_expression("k", both)
