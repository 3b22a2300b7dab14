"""A driver on the tests' cluster, as a process of its own.  usage: python -m support.cluster.driver STEP...

It starts the cluster, whose workers it kills; the table and the store's keys come from the environment, which the workers do not have.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path


def main(steps: list[str]) -> int:
    from servers import spark_cluster
    from support.cluster.session import cluster_session
    from support.cluster.steps import STEPS, World, Wrong

    began, table = time.monotonic(), os.environ["ROWLOCK_CLUSTER_TABLE"]

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.1f}  {text}", flush=True)

    cluster = spark_cluster.start(cores=4, memory_mb=4096)
    try:
        with tempfile.TemporaryDirectory() as folder:
            spark = cluster_session(cluster.master, "rowlock on a cluster", Path(folder))
            say(f"a master, {len(cluster.workers)} workers and a driver run")
            world = World(spark, cluster, table, say)
            for step in steps:
                STEPS[step](world)
            spark.stop()
    except Wrong as e:
        say(f"WRONG: {e}")
        return 1
    finally:
        cluster.stop()
    say("all sums are right")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
