"""`rowlock bench`: results are kept and not measured again, and the pages say what they hold."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from rowlock.cli.main import app
from rowlock.exceptions import InvalidInput, RowlockError
from rowlock_bench import command, harness, page
from rowlock_bench.engines import DELTA_SPARK, PARQUET, ROWLOCK
from rowlock_bench.harness import Measurement
from rowlock_bench.suites import DELTALAKE, SUITES


def measured(suite: str, engine: str, number: int = 0, case: str = "", busy: float = 0.1, **figures: float) -> Measurement:
    named = {name.replace("__", ", "): value for name, value in figures.items()}
    return Measurement(suite, case, engine, number, {"rows": 1000}, busy, "2026-01-02T03:04:05", {"machine": "2 cores", "commit": "abc"}, named, {}, exact=True)


RESULTS = [
    *(measured("contended", ROWLOCK, n, "UPDATE", **{"commits/s": v}) for n, v in enumerate((10.0, 12.0, 8.0))),
    *(measured("contended", DELTA_SPARK, n, "UPDATE", **{"commits/s": v}) for n, v in enumerate((0.5, 0.25, 0.5))),
    measured("large", ROWLOCK, write__s=3.0, OPTIMIZE__s=2.0),
    measured("large", DELTA_SPARK, write__s=6.0, OPTIMIZE__s=2.5),
    measured("large", PARQUET, write__s=2.9),
    measured("appends", ROWLOCK, case="16 processes", **{"appends/s": 200.0}),
    measured("appends", DELTALAKE, case="16 processes", **{"appends/s": 20.0}),
]


def test_lines_have_medians_spreads_ratios_and_goals() -> None:
    (update,) = page.lines("contended", RESULTS)
    assert (update.name, update.peer, update.ratio, update.goal, update.is_missed) == ("UPDATE: commits/s", DELTA_SPARK, 20.0, 30, True)
    assert update.times() == (16.0, 20.0, 48.0), "round by round"
    write, optimize = page.lines("large", RESULTS)
    assert (write.ratio, write.is_missed, optimize.ratio, optimize.is_missed) == (0.5, False, 0.8, True)
    text = page.page(RESULTS)
    assert "| UPDATE: commits/s | 10 (8 to 12) | 0.5 (0.25 to 0.5) | **20 x** | 30 x |" in text
    assert "| write, s | 3 | 6 | 2.9 | 0.50 | 0.55 |" in text
    assert "(rows: 1,000.)" in text and "Every table was right" in text and "Nothing else was at work" in text


def test_a_busy_machine_and_what_failed_are_said() -> None:
    failed = Measurement("idle", "", ROWLOCK, 0, {}, 7.5, "2026-01-02T03:04:05", {"machine": "2 cores"}, error="no disk")
    text = page.page([*RESULTS, failed, measured("idle", DELTA_SPARK, scan__s=1.0), measured("idle", ROWLOCK, 1, scan__s=1.0)])
    assert "Before 1 of 14" in text and "7.5" in text and "- rowlock: no disk" in text and "Every table was right" not in text


def test_the_first_page_and_the_pictures(tmp_path: Path) -> None:
    before = f"x\n\n{page.HEADING}\n|---|---|---|\n| old | 1 | 2 (y) |\n\nz\n"
    after = page.readme(before, RESULTS)
    assert (
        after.startswith(f"x\n\n{page.HEADING}\n|---|---|---|\n| UPDATE, 8 threads")
        and after.endswith("| 200 | 20 (deltalake) |\n\nz\n")
        and "old" not in after
    )
    assert page.bars(RESULTS).count("<rect") == 4
    ratios = page.ratios(RESULTS)
    assert ratios.count("<rect") == 4 and "20 x delta-spark" in ratios and "Writers of one file, as threads" in ratios


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its options reach what they are for; a suite that is none is named; without results nothing is written."""
    asked: list[tuple[str, int]] = []

    def answer(module: str, parameters: dict[str, Any]) -> dict[str, Any]:
        asked.append((module, parameters["times"]))
        return {"figures": {"import and one append, s": 0.1}, "exact": True, "phases": {}}

    monkeypatch.setattr(harness, "measure", answer)
    monkeypatch.setattr(harness, "_busy", lambda: 0.1)  # it looks for a second, before each measurement
    monkeypatch.setattr(command, "RESULTS", tmp_path / "figures.jsonl")
    monkeypatch.setattr(command, "ROOT", tmp_path)
    for options, times, rounds in ((["--quick"], 3, 1), ([], 9, 3), (["--rounds", "2"], 9, 2)):
        done = CliRunner().invoke(app, ["bench", "start", *options])
        assert done.exit_code == 0 and "The first append of a process" in done.output, done.output
        assert asked == [("start", times)] * 2 * rounds
        asked.clear()
    assert CliRunner().invoke(app, ["bench", "strat"]).exit_code == 2
    assert "There are no results" in CliRunner().invoke(app, ["bench", "--write"]).output and not list(tmp_path.iterdir())


def test_results_are_kept_and_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def answer(module: str, parameters: dict[str, Any]) -> dict[str, Any]:
        asked.append({"module": module, **parameters})
        if parameters["engine"] == DELTALAKE:
            raise RowlockError("it went away")
        return {"figures": {"appends/s": 5.0}, "exact": True, "phases": {}}

    monkeypatch.setattr(harness, "measure", answer)
    monkeypatch.setattr(harness, "_busy", lambda: 0.1)  # it looks for a second, before each measurement
    console, file = Console(file=io.StringIO()), tmp_path / "results.jsonl"
    one = harness.run(console, ["appends"], quick=True, rounds=1, results=file, seed=1)
    assert len(one) == len(asked) == 2 * len(SUITES["appends"].cases)
    assert {a["module"] for a in asked} == {"appends"} and {a["writers"] for a in asked} == {1, 8, 16}
    two = harness.run(console, ["appends"], quick=True, rounds=2, results=file, seed=1)
    assert len(two) == len(asked) == 2 * len(one), "the first round is there already"
    assert harness.read(file) == [*one, *(m for m in two if m.round == 1)]
    assert {m.error for m in two} == {"", "it went away"} and not page.show(console, two)
    with pytest.raises(InvalidInput, match="no suite 'apends'"):
        harness.run(console, ["apends"], quick=True, rounds=1, results=None, seed=1)


def test_the_pages_of_figures_are_made_of_the_results_that_are_kept() -> None:
    found = harness.read(command.RESULTS)
    old = [path.name for path, text in page.files(command.ROOT, found).items() if path.read_text(encoding="utf-8") != text]
    assert found and not old, "run `rowlock bench --write`"
