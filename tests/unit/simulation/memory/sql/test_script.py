"""Statements as text: what is read is what is written."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from model.properties.histories import scripts
from rowlock.exceptions import InvalidInput
from rowlock_simulation.memory.sql.script import Append, Delete, Merge, Overwrite, Script, Update, parse, render


@given(script=scripts())
@settings(max_examples=300)
def test_round_trip(script: Script) -> None:
    assert parse(render(script)) == script


def test_values_and_nesting() -> None:
    assert parse("append (1, 'a, (b'), (-2, NULL), (TRUE, '')") == Append(((1, "a, (b"), (-2, None), (True, "")))
    assert parse("OVERWRITE") == Overwrite(())
    assert parse("DELETE") == Delete(None)
    assert parse("UPDATE SET v = coalesce(v, 0), w = 'WHERE' WHERE k IN (1, 2)") == Update((("v", "coalesce(v, 0)"), ("w", "'WHERE'")), "k IN (1, 2)")


def test_a_case_inside_of_a_clause() -> None:
    merge = parse("MERGE USING (k: (1)) ON t.k = s.k WHEN MATCHED AND CASE WHEN t.k = 1 THEN TRUE END THEN UPDATE SET k = CASE WHEN s.k = 1 THEN 2 END")
    assert isinstance(merge, Merge)
    assert merge.clauses[0].condition == "CASE WHEN t.k = 1 THEN TRUE END"
    assert merge.clauses[0].assignments == (("k", "CASE WHEN s.k = 1 THEN 2 END"),)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "UPDATE v = 1",
        "UPDATE SET v",
        "DELETE k = 1",
        "APPEND 1, 2",
        "APPEND (x)",
        "MERGE USING (k: (1)) ON t.k = s.k",
        "OPTIMIZE now",
        "MERGE USING (k: (1)) ON t.k = s.k WHEN MATCHED THEN NOTHING",
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse(text)
