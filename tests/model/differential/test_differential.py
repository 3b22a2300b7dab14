"""The parts of what draws statements, compares two engines and shrinks cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from model.differential.case import Step, from_json
from model.differential.compare import Difference, Meant, differences
from model.differential.draw import Draw
from model.differential.statements import draw_case


def test_a_choice_that_is_fixed_leaves_the_others() -> None:
    _, taken = draw_case(7)
    name = next(n for n, at in taken.items() if at and n.startswith("settings") and n.endswith("set"))
    one, _ = draw_case(7)
    other, _ = draw_case(7, {name: 0})
    assert other.settings == {k: v for k, v in one.settings.items() if not name.startswith(f"settings.{k}.")} and other.steps == one.steps
    assert from_json(one.as_json()) == one and draw_case(7)[0] == one


def test_the_first_option_is_the_simplest() -> None:
    draw = Draw(1, {"a": 0, "b": 99})
    assert draw.pick("a", ("x", "y")) == "x" and draw.pick("b", ("x", "y")) == "y"


def test_what_differs_is_named() -> None:
    table = {"t": {"commits": 1, "unchanged": False, "rows": ["(1,)"], "schema": "{}"}}
    same = {"answer": "struct<>", "rows": [], "tables": table}
    failed = {"error": ["AnalysisException"], "condition": "X", "text": "no", "tables": {}}
    assert not list(differences(same, same))
    assert [d.aspect for d in differences(same, same | {"tables": {"t": table["t"] | {"rows": ["(2,)"]}}})] == ["rows of t"]
    empty = same | {"tables": {"t": table["t"] | {"unchanged": True}}}
    assert [d.aspect for d in differences(empty, same | {"tables": {}})] == ["a commit without a change to t"]
    assert [d.aspect for d in differences(same, failed)] == ["failed"]
    assert [d.aspect for d in differences(failed, failed | {"condition": "Y"})] == ["condition"]
    assert [d.aspect for d in differences(failed, failed | {"error": ["ParseException", "PySparkException"]})] == ["class"]
    assert not list(differences(failed, failed | {"error": ["SchemaMismatch", "AnalysisException"]}))
    assert [d.aspect for d in differences(failed, failed | {"tables": table})] == ["changed by a failed statement"]


def test_what_is_meant_has_a_reason_and_names_a_side(tmp_path: Path) -> None:
    (tmp_path / "meant.toml").write_text('[[meant]]\naspect = "rows"\nreason = "why not"\n')
    with pytest.raises(ValueError, match="names neither"):
        Meant(tmp_path / "meant.toml")
    (tmp_path / "meant.toml").write_text('[[meant]]\naspect = "condition"\nrowlock = "\\\\[Y\\\\]"\nreason = "ours is nearer"\n')
    one, other = ({"error": ["E"], "condition": name, "text": ""} for name in "XY")
    (found,) = differences(one, other)
    assert Meant(tmp_path / "meant.toml").reason(Step("DELETE FROM t", "delete"), {}, found) == "ours is nearer"
    (found,) = differences(other, one)
    assert Meant(tmp_path / "meant.toml").reason(Step("DELETE FROM t", "delete"), {}, found) is None
    assert Meant().entries is not None


def test_what_is_meant_may_say_that_nothing_else_differs(tmp_path: Path) -> None:
    """An entry with `same_without` names a difference of those words alone: another row beside it, or another value, is still found."""
    (tmp_path / "meant.toml").write_text("[[meant]]\naspect = '^rows'\nrowlock = 'x'\nsame_without = '\\bx\\b|None'\nreason = 'x is null'\n")
    meant, step = Meant(tmp_path / "meant.toml"), Step("DELETE FROM t", "delete")
    for theirs, ours, reason in (
        ("2 rows, alone: ['(1, None)', '(2, 3)']", "2 rows, alone: ['(2, 3)', \"(1, 'x')\"]", "x is null"),
        ("2 rows, alone: ['(1, None)', '(2, 3)']", "2 rows, alone: ['(2, 4)', \"(1, 'x')\"]", None),
        ("2 rows, alone: ['(1, None)']", "3 rows, alone: [\"(1, 'x')\"]", None),
    ):
        assert meant.reason(step, {}, Difference("rows of t", theirs, ours)) == reason
