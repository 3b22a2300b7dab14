"""Every schedule on real Spark and a local disk, through the DeltaTable API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rowlock.transaction import run
from schedules.play import Play
from schedules.schedule import Schedule, all_schedules

pytestmark = [pytest.mark.spark, pytest.mark.slow]
SCHEDULES = [s for s in all_schedules() if not s.memory_only]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: s.name)
def test_schedule(schedule: Schedule, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A schedule is about one transaction, so a statement that meets another's schema is not staged again."""
    from schedules.on_spark import OnSpark

    monkeypatch.setattr(run, "RERUNS", 0)
    Play(schedule, OnSpark(spark, tmp_path / "table")).run()
