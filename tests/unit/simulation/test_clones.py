"""Shallow clones beside VACUUM and RESTORE: schedules keep every promise, and a wrong clone or a wrong deletion is found."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from rowlock.maintenance import vacuum
from rowlock.maintenance.restore import RestoredFiles
from rowlock.transaction.definition import clone
from rowlock_simulation.draw import draw
from rowlock_simulation.plan import Plan
from rowlock_simulation.roles import CLONES
from rowlock_simulation.run import run

_needed_paths, _from_elsewhere = vacuum.needed_paths, clone._from_elsewhere


def _plans(first: int) -> Iterator[Plan]:
    return (plan for seed in itertools.count(first) for world in ("s3", "local", "dynamodb") if (plan := draw(world, seed)).theme == CLONES)


def test_clones_are_what_was_cloned_and_no_file_goes_too_early() -> None:
    results = [run(plan) for plan in itertools.islice(_plans(0), 6)]
    assert [text for result in results for text in result.violations] == []
    assert sum(result.did["clone committed"] for result in results) >= 6


@pytest.mark.parametrize(
    ("where", "name", "wrong", "violation", "first"),
    [
        (vacuum, "needed_paths", lambda head, removed: _needed_paths(head, ()), "was deleted within the retention", 2),
        (vacuum, "needed_paths", lambda *_: set(), "was deleted while it lived", 2),
        (RestoredFiles, "safe", lambda self, files, head: tuple(files), "which was deleted before", 44),
        (clone, "_from_elsewhere", lambda *given: replace(_from_elsewhere(*given), deletion_vector=None), "is not what serial execution gives", 266),
    ],
)
def test_a_wrong_file_is_found(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, wrong: Any, violation: str, first: int) -> None:
    """`first`: a seed that shows it, so that those before it need not run; where it shows it no longer, another does."""
    monkeypatch.setattr(where, name, wrong)
    assert any(violation in text for plan in itertools.islice(_plans(first), 60) for text in run(plan).violations)
