"""I2, I5: on a cluster a worker's death and a task that ran twice leave each row there once.  `make cluster` is the long form."""

from __future__ import annotations

import pytest

from servers.minio import Minio
from support.cluster.run import run
from support.cluster.steps import SHORT


@pytest.mark.soak("a minute: a cluster of processes, a worker of which is killed in the midst of a MERGE; `make cluster` does more", ci="always")
def test_a_worker_is_killed_and_a_task_runs_twice(minio: Minio) -> None:
    status, told = run(minio, SHORT, timeout_s=600)
    assert status == 0, told
    assert "killed" in told and "all sums are right" in told
