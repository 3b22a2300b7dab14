"""Every schedule on the in-memory engine, as written and in variants that must not change a row."""

from __future__ import annotations

from typing import Any

import pytest

from model.schedules.in_memory import InMemory
from model.schedules.play import Play
from model.schedules.schedule import Schedule, all_schedules

SCHEDULES = all_schedules()
VARIANTS: dict[str, dict[str, Any]] = {
    "blocks written at once": {"spill_rows": 1},
    "matches noted": {"notes_matches": True},
    "one row for each file": {"rows_per_file": 1},
    "compactions that reorder": {"reorders": True},
    "compactions that reorder, one row for each file": {"reorders": True, "rows_per_file": 1, "spill_rows": 1},
    "with vectors": {"override": {"delta.enableDeletionVectors": "true"}},
    "copy on write": {"override": {"delta.enableDeletionVectors": "false"}},
    "copy on write, blocks written at once": {"override": {"delta.enableDeletionVectors": "false"}, "spill_rows": 1},
}
LONG = pytest.mark.soak("the product; two variants of each schedule stay, and a quarter of the schedules for each variant", ci=True)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: s.name)
def test_schedule(schedule: Schedule) -> None:
    Play(schedule, InMemory()).run()


@pytest.mark.parametrize(
    ("schedule", "variant"),
    [pytest.param(s, v, id=f"{s.name}-{v}", marks=() if (n + m) % 4 == 0 else LONG) for n, s in enumerate(SCHEDULES) for m, v in enumerate(VARIANTS)],
)
def test_schedule_in_variant(schedule: Schedule, variant: str) -> None:
    if schedule.layout_matters and VARIANTS[variant].keys() & {"rows_per_file", "override"}:
        pytest.skip("its end depends on the layout")
    Play(schedule, InMemory(**VARIANTS[variant]), strict=False).run()


def test_there_are_enough() -> None:
    assert len(SCHEDULES) >= 44
