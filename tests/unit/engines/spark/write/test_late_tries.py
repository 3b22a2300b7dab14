"""I5: what a task wrote that Spark tried twice, and whose try came too late, is in no commit."""

from __future__ import annotations

from pathlib import Path

from rowlock.engines.spark.write.writer import data_files
from rowlock.storage import LocalStore


def test_files_of_a_try_that_came_too_late_are_no_data_files(tmp_path: Path) -> None:
    """A worker that was lost, or the slower of two tries, may still write after the job has cleared its folders away; a store makes them anew."""
    store = LocalStore(tmp_path)
    committed = ["rl-1/part-0.parquet", "rl-1/_day=1/part-1.parquet", "rl-1/p=__HIVE_DEFAULT_PARTITION__/part-2.parquet", "rl-1/p=.a/part-3.parquet"]
    late = [
        "rl-1/_temporary/0/_temporary/attempt_2/part-0.parquet",
        "rl-1/_temporary/0/_temporary/attempt_2/_day=1/part-1.parquet",
        "rl-1/__magic_job-7/tasks/attempt_2/part-0.parquet",
        "rl-1/p=1/_part-5.parquet",
        "rl-1/.spark-staging-7/p=1/part-4.parquet",
    ]
    for key in [*committed, *late, "rl-1/_SUCCESS", "rl-10/part-9.parquet"]:
        store.put(key, b"1")
    assert sorted(data_files(store, "rl-1")) == sorted((key, 1) for key in committed)
