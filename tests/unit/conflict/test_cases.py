"""The peers' conflict cases: those for the rules pass, and every other is mapped to a test that exists or to a reason."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from model.schedules.schedule import FOLDER as SCHEDULES
from support import conflict_cases as cases, corpus
from tools import conflict_cases

ROOT = Path(__file__).resolve().parents[3]
CASES = corpus.conflict_cases()
FIT = [c for c in CASES if not cases.unfit(c)]


@pytest.mark.parametrize("case", FIT, ids=lambda c: c["id"])
def test_case(case: Mapping[str, Any]) -> None:
    verdict = cases.judge(case)
    assert verdict.passed, f"{case['case']}: expected {verdict.expected}, got {verdict.outcome}"


def test_plain_actions_are_fit() -> None:
    """None of the cases that the rules are meant for is left out."""

    def plain(c: Mapping[str, Any]) -> bool:
        return c["level"] == "actions" and all(isinstance(a, dict) for part in ("setup", "winning", "ours") for a in c[part])

    assert [c["id"] for c in CASES if plain(c) and cases.unfit(c)] == []
    assert sum(map(plain, CASES)) >= 40


def test_every_other_case_is_mapped() -> None:
    mapped = conflict_cases.read_map()
    others = {c["id"] for c in CASES} - {c["id"] for c in FIT}
    assert others - mapped.keys() == set()
    assert {c["id"] for c in FIT} & mapped.keys() == set()


@pytest.mark.parametrize("test", sorted({t for entry in conflict_cases.read_map().values() for t in entry.get("tests", ())}))
def test_mapped_test_exists(test: str) -> None:
    path, _, function = test.partition("::")
    assert (ROOT / path).is_file()
    if path.endswith(".txt"):
        assert (ROOT / path).parent == SCHEDULES
        return
    functions = {n.name for n in ast.parse((ROOT / path).read_text()).body if isinstance(n, ast.FunctionDef)}
    assert function in functions


BASE: dict[str, Any] = {
    "id": "X",
    "level": "actions",
    "setup": [{"metaData": {"schema": {"x": "integer"}, "partitionColumns": ["x"]}}, {"add": {"path": "a", "partitionValues": {"x": "1"}, "dataChange": True}}],
    "txn_reads": [{"filter": "x = 1"}],
    "winning": [{"add": {"path": "b", "partitionValues": {"x": "1"}, "dataChange": True}}],
    "ours": [{"add": {"path": "c", "partitionValues": {"x": "1"}, "dataChange": True}}],
    "isolation": "Serializable(default)",
    "expected": "conflict",
    "exception": "ConcurrentAppend",
}
APPEND, READ = "conflict ConcurrentAppend", "conflict ConcurrentDeleteRead"


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ({}, APPEND),
        ({"txn_reads": []}, "success"),
        ({"txn_reads": [{"filter": "x = 2"}]}, "success"),
        ({"txn_reads": [{"wholeTable": True}]}, APPEND),
        ({"txn_reads": [{"files": ["a"]}], "winning": [{"remove": {"path": "a", "dataChange": True}}]}, READ),
        ({"txn_reads": [{"metadata": True}]}, "success"),
        # by isolation and by what the winner read
        ({"isolation": "WriteSerializable"}, "success"),
        ({"isolation": "WriteSerializable", "winning_reads": [{"filter": "true"}]}, APPEND),
        ({"isolation": "WriteSerializable", "winning_reads": [{"metadata": True}]}, "success"),
        ({"isolation": "WriteSerializable", "winning": [{"commitInfo": {"isBlindAppend": False}}, BASE["winning"][0]]}, APPEND),
        ({"isolation": "WriteSerializable", "ours": [*BASE["ours"], {"metaData": {"schema": {}}}]}, APPEND),
        ({"isolation": "SnapshotIsolation"}, "success"),
        (
            {"setup": [{"metaData": {"schema": {"x": "integer"}, "partitionColumns": ["x"], "configuration": {"delta.isolationLevel": "WriteSerializable"}}}]},
            "success",
        ),
        # ours without a change of data
        ({"ours": []}, "success"),
        ({"ours": [{"domainMetadata": {"domain": "delta.rowTracking", "configuration": {"rowIdHighWaterMark": 3}}}]}, "success"),
        ({"ours": [{"domainMetadata": {"domain": "other"}}]}, APPEND),
        ({"ours": [{"txn": {"appId": "t", "version": 1}}]}, APPEND),
        ({"ours": [], "winning": [{"remove": {"path": "a", "dataChange": True}}]}, READ),
        # several winners, and several ways to write statistics
        ({"winning": [[{"add": {"path": "b", "partitionValues": {"x": "2"}}}], [{"remove": {"path": "a", "dataChange": True}}]]}, READ),
        (
            {
                "setup": [{"metaData": {"schema": {"v": "int"}}}],
                "txn_reads": [{"filter": "v > 5"}],
                "winning": [{"add": {"path": "b", "stats": {"min.v": 1, "max.v": 5, "numRecords": 2}}}],
            },
            "success",
        ),
        (
            {
                "setup": [{"metaData": {"schema": {"v": "int"}}}],
                "txn_reads": [{"filter": "v > 5"}],
                "winning": [{"add": {"path": "b", "stats": '{"numRecords":2,"minValues":{"v":1},"maxValues":{"v":6}}'}}],
            },
            APPEND,
        ),
        (
            {
                "setup": [{"metaData": {"schema": {"v": "int"}}}],
                "txn_reads": [{"filter": "v is null"}],
                "winning": [{"add": {"path": "b", "stats": {"nullCount.v": 0, "numRecords": 2}}}],
            },
            "success",
        ),
        # protocols
        ({"winning": [{"protocol": {"minReaderVersion": 2147483647, "minWriterVersion": 7}}]}, "error"),
        ({"winning": [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}]}, "conflict ProtocolChanged"),
        ({"setup": [{"protocol": "(1,2)"}], "winning": [{"protocol": {"note": "current"}}]}, "success"),
        ({"winning": [{"domainMetadata": {"domain": "d"}}], "ours": [{"domainMetadata": {"domain": "d", "removed": True}}]}, "conflict ConcurrentTransaction"),
        # a filter that cannot be read keeps everything
        ({"txn_reads": [{"filter": "x = ("}]}, APPEND),
    ],
)
def test_unseen_forms(change: dict[str, Any], outcome: str) -> None:
    case = {**BASE, **change}
    assert cases.unfit(case) is None
    assert str(cases.judge(case).outcome) == outcome


def test_a_choice_is_known_by_its_outcome() -> None:
    """delta-spark would fail here: what Rowlock chose counts, and the reason is told."""
    moved = {**BASE, "winning": [{"remove": {"path": "a", "dataChange": False}}], "exception": "ConcurrentDeleteRead"}
    verdict = cases.judge(moved)
    assert (verdict.passed, str(verdict.outcome), len(verdict.chosen)) == (True, "success", 1)
    assert not cases.judge({**moved, "exception": "ConcurrentAppend"}).passed
    assert not cases.judge({**BASE, "expected": "success"}).passed


def test_live_files_are_compared() -> None:
    case = {**BASE, "txn_reads": [], "expected": "success", "final_files": ["a", "b", "c"]}
    assert cases.judge(case).passed
    assert not cases.judge({**case, "final_files": ["a", "b"]}).passed


@pytest.mark.parametrize(
    "change", [{"level": "operation"}, {"setup": ["a table with a history"]}, {"winning": [{"operation": "RESTORE"}]}, {"txn_reads": ["all files"]}]
)
def test_cases_that_are_not_for_the_rules(change: dict[str, Any]) -> None:
    assert cases.unfit({**BASE, **change})


def test_report(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "cases.json"
    broken = {**BASE, "id": "Y", "setup": [{"metaData": {"schema": {"x": "no type"}}}]}
    file.write_text(json.dumps({"cases": [BASE, {**BASE, "id": "C024", "level": "operation"}, {**BASE, "id": "Z", "expected": "success"}, broken]}))
    monkeypatch.setattr(sys, "argv", ["conflict_cases.py", str(file)])
    assert conflict_cases.main() == 1
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "X  passed   expected conflict ConcurrentAppend, got conflict ConcurrentAppend"
    assert out[1].startswith("C024  skipped  RESTORE is no statement") and out[2].startswith("Z  failed") and out[3].startswith("Y  failed")
    assert out[-1] == "1 passed, 2 failed, 1 skipped"
