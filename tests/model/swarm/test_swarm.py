"""Random histories (sixty in the long form), each with its own draw of every axis (I3, I4, I5, I6, I9), and what of the axes and data paths they reached."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from model.swarm.axes import AXES, draw
from model.swarm.history import case_of
from model.swarm.limits import without_an_axis
from model.swarm.report import Tally

pytestmark = [pytest.mark.spark, pytest.mark.slow]
CASES = int(os.environ.get("ROWLOCK_SWARM_CASES", "60"))


@pytest.mark.parametrize("cases", [2, pytest.param(CASES, marks=pytest.mark.soak("some minutes; the short form runs the first cases"))])
def test_every_case_is_as_if_its_transactions_ran_one_after_another(spark: Any, tmp_path: Path, cases: int) -> None:
    """I3 to I6: rows, statistics, ids and change data of every version against an oracle; and no value of an axis, no data path was left out."""
    from model.swarm.runner import run_case

    tally = Tally()
    for seed in range(cases):
        tally.take(run_case(spark, seed, tmp_path))
    print(tally.text())
    assert not tally.failed, "\n".join(f"{again}: {error}" for _, error, again in tally.failed)
    if cases >= 60:
        assert not tally.never()


def test_a_seed_is_always_the_same_case() -> None:
    """Else a failure could not be run again."""
    for seed in (0, 1, 59):
        assert repr(case_of(seed)) == repr(case_of(seed))


def test_sixty_seeds_in_a_row_draw_every_value() -> None:
    """Decks, not luck: whatever seed they begin at."""
    for first in (0, 1940):
        drawn = [draw(seed) for seed in range(first, first + 60)]
        for axis, values in AXES.items():
            assert {each[axis] for each in drawn} == set(values), axis


def test_every_limit_is_turned_down_by_an_axis() -> None:
    """A new limit is a second implementation, and must have an axis."""
    assert not without_an_axis(AXES)
