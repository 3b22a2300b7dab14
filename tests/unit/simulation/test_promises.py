"""What programs are promised beside their rows: levels of isolation, and progress (I3, I8).  A check that is taken out is found by a theme of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from rowlock.locks.turns import Turns
from rowlock.transaction.rebase import onto_head
from rowlock_simulation.draw import draw
from rowlock_simulation.plan import Plan, World
from rowlock_simulation.roles import LEVELS, LONG
from rowlock_simulation.run import run


def _plans(theme: str, *worlds: World, first: int = 0) -> Iterator[Plan]:
    return (plan for seed in itertools.count(first) for world in worlds if (plan := draw(world, seed)).theme == theme)


@pytest.mark.parametrize("world", ["s3", "local", "dynamodb"])
def test_a_long_writer_commits_within_a_few_rounds(world: World) -> None:
    assert run(next(_plans(LONG, world))).violations == []


def test_without_turns_a_long_writer_loses_for_as_long_as_others_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Turns, "announce", lambda *_: False)
    assert any("I8" in text for plan in itertools.islice(_plans(LONG, "s3", "dynamodb"), 20) for text in run(plan).violations)


def test_every_level_promises_what_it_is_said_to() -> None:
    assert [text for plan in itertools.islice(_plans(LEVELS, "s3", "local", "dynamodb"), 9) for text in run(plan).violations] == []


@pytest.mark.parametrize("level", ["serializable", "write_serializable", "snapshot"])
def test_a_read_that_does_not_hold_is_found(monkeypatch: pytest.MonkeyPatch, level: str) -> None:
    monkeypatch.setattr(onto_head, "_check_reads", lambda *_: None)
    plans = itertools.islice(_plans(LEVELS, "s3", "local", "dynamodb"), 200)
    assert any(f", {level}) has read" in text for plan in plans for text in run(plan).violations)
