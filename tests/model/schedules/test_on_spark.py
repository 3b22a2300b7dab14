"""Every schedule on real Spark and a local disk, through the DeltaTable API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from model.schedules.play import Play
from model.schedules.schedule import Schedule, all_schedules
from rowlock.transaction import transaction

pytestmark = [pytest.mark.spark, pytest.mark.slow]
SCHEDULES = [s for s in all_schedules() if not s.memory_only]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: s.name)
@pytest.mark.short(
    "append_meets_overwrite",
    "constraint_meets_rows_that_came",
    "delete_meets_same_rows",
    "fail_by_row_merge_flip",
    "merge_against_open_merge",
    "merge_meets_schema",
    "merge_second_match_raises",
    "optimize_meets_same_rows",
    "partitions_row_moves",
    "restore_runs_again",
    "several_lost_rounds",
    "three_vectors_make_a_file_empty",
    "copy_on_write_merge",
    "row_tracking_begins",
    "merge_match_becomes_insert",
    ci=(
        "append_breaks_a_new_constraint",
        "two_losers_interleaved",
        "update_meets_optimize",
        "copy_on_write_meets_optimize",
        "delete_meets_optimize",
        "delete_on_fully_vectored_file",
        "fail_by_file_removed_what_was_read",
        "merge_insert_becomes_match",
        "merge_meets_optimize",
        "merge_not_matched_by_source",
        "not_null_breaks_in_a_rebase",
        "optimize_meets_optimize",
        "overwrite_meets_same_rows",
        "partitions_optimize_keeps_what_it_alone_compacted",
        "update_breaks_a_new_constraint",
        "update_meets_constraint",
        "update_meets_same_rows",
        "update_row_moves_out_of_predicate",
    ),
    why="every schedule runs in memory; on Spark those whose rows go another way than those of the others",
)
def test_schedule(schedule: Schedule, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A schedule is about one transaction, so a statement that meets another's schema is not staged again."""
    from model.schedules.on_spark import OnSpark

    monkeypatch.setattr(transaction, "RERUNS", 0)
    Play(schedule, OnSpark(spark, tmp_path / "table")).run()
