"""The list of named regressions is whole: each has its tests and edits that still fit, or a reason."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

from tools import mutants

REGRESSIONS = mutants.read_regressions()


def test_all_are_named() -> None:
    numbers = [r["number"] for r in REGRESSIONS.values()]
    assert set(range(1, 15)) <= set(numbers) and len(set(numbers)) == len(numbers)
    named = {t for r in REGRESSIONS.values() for t in r.get("tests", ())}
    assert _tests_in(mutants.TEST_FILE) == {t for t in named if "::" not in t}
    elsewhere = [t.partition("[")[0].partition("::") for t in named if "::" in t]
    assert [t for t in elsewhere if t[2] not in _tests_in(mutants.ROOT / t[0])] == []
    assert all(("why" in r) != ("tests" in r and "edits" in r) for r in REGRESSIONS.values())


def test_all_are_there_with_their_parameters() -> None:
    """One that is not ends `make mutants` before it begins."""
    code, said = mutants.run_tests(mutants.ROOT / "src", ["--collect-only", *(t for r in REGRESSIONS.values() for t in r.get("tests", ()))])
    assert code == mutants.PASSED, said


def _tests_in(file: Path) -> set[str]:
    return {n.name for n in ast.parse(file.read_text()).body if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")}


@pytest.mark.parametrize("name", [n for n, r in REGRESSIONS.items() if "edits" in r])
def test_edits_fit_the_source(name: str, tmp_path: Path) -> None:
    """A check that was moved or worded anew takes its edit along; what comes out is still Python."""
    package = tmp_path / "rowlock"
    for file in {e["file"] for e in REGRESSIONS[name]["edits"]}:
        (package / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(mutants.ROOT / "src" / "rowlock" / file, package / file)
    mutants.edit(package, REGRESSIONS[name]["edits"])
    for e in REGRESSIONS[name]["edits"]:
        ast.parse((package / e["file"]).read_text())


def test_an_edit_that_does_not_fit_is_loud(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\nx = 1\n")
    for file, old in (("a.py", "y"), ("a.py", "x = 1"), ("b.py", "x")):
        with pytest.raises(mutants.CannotEdit, match=file):
            mutants.edit(tmp_path, [{"file": file, "old": old, "new": "z"}])


@pytest.mark.soak("13 s of test runs within a test; `make mutants` itself is run by hand", ci=True)
def test_a_mutant_that_survives_is_reported() -> None:
    harmless = {"edits": [{"file": "transaction/publish/outcome.py", "old": "TRIES = 10", "new": "TRIES = 9"}], "tests": ["test_dropped_payload"]}
    assert mutants.verdict(harmless) == ("SURVIVED", "test_dropped_payload passes without the check")
    elsewhere = "tests/test_layers.py::test_no_allowance_outlives_its_need"
    assert mutants.verdict({**harmless, "tests": [elsewhere]}) == ("SURVIVED", f"{elsewhere} passes without the check")
    broken = {**harmless, "edits": [{**harmless["edits"][0], "new": "TRIES ="}]}
    assert mutants.verdict(broken)[0] == "BROKEN"
