"""Shallow clones beside VACUUM and RESTORE: schedules keep every promise, and a wrong clone or a wrong deletion is found."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from rowlock.maintenance import vacuum
from rowlock.maintenance.restore import RestoredFiles
from rowlock.transaction.definition import clone
from rowlock_simulation.actions import Action
from rowlock_simulation.draw import draw
from rowlock_simulation.memory.sql.script import Update
from rowlock_simulation.plan import ActorPlan, Plan, Weather
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
        (clone, "_from_elsewhere", lambda *given: replace(_from_elsewhere(*given), deletion_vector=None), "is not what serial execution gives", 266),
    ],
)
def test_a_wrong_file_is_found(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, wrong: Any, violation: str, first: int) -> None:
    """`first`: a seed that shows it, so that those before it need not run; where it shows it no longer, another does."""
    monkeypatch.setattr(where, name, wrong)
    assert any(violation in text for plan in itertools.islice(_plans(first), 60) for text in run(plan).violations)


def _restores_beside_vacuum() -> list[str]:
    """What is wrong where one process restores a version whose file has been dead for longer than the retention, and another deletes such files."""
    update = Action(0, "statements", (Update((("v", "v + 1"),), "k = 100"),))
    properties, found = {"delta.deletedFileRetentionDuration": "interval 1 day", "delta.enableDeletionVectors": "false"}, list[str]()
    for seed in range(10):
        rng = random.Random(seed)
        restore, clean = Action(1, "restore", back=1, pause_s=2 * rng.random()), Action(1, "vacuum", pause_s=2 * rng.random())
        acts = [(update, Action(1, "read")), (Action(0, "read"), restore), (Action(0, "read"), clean)]  # the second of each after the night
        actors = tuple(ActorPlan(f"a{n}", f"p{n}", actions) for n, actions in enumerate(acts))
        found += run(Plan("dynamodb", seed, properties, 3, actors, (), Weather(60, 240, 5), night_s=3 * 86_400, clones=1, theme=CLONES)).violations
    return found


def test_a_restore_beside_vacuum_brings_back_no_file_that_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """I10: it copies the files that VACUUM may delete; without the copies schedules show it."""
    assert _restores_beside_vacuum() == []
    monkeypatch.setattr(RestoredFiles, "safe", lambda self, files, head: tuple(files))
    assert any("was deleted" in text for text in _restores_beside_vacuum())
