"""Rowlock on a Spark cluster with a table on S3: workers are killed, tasks run twice, drivers meet; after each step the sums must be exact.

usage: cluster.py [STEP ...]
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from servers import minio
from servers.scripts import running
from support.cluster.run import run
from support.cluster.steps import STEPS


def main() -> int:
    steps = sys.argv[1:] or list(STEPS)
    if unknown := [s for s in steps if s not in STEPS]:
        print(f"there is no step {unknown[0]}; there are {', '.join(STEPS)}", file=sys.stderr)
        return 2
    with running(minio.start) as server:
        return run(server, steps, echo=True)[0]


if __name__ == "__main__":
    sys.exit(main())
