"""Takes each named check out of a copy of the source and runs schedules of the simulation until one breaks a promise.

usage: simulated_mutants.py [--schedules 60] [--world s3] [name ...]

The regressions and their edits are in tests/regressions/regressions.toml (see `mutants`).  Prints for each how many schedules it took, and what
was broken; a mutant that no schedule shows is named SURVIVED.  Those that nothing in the simulated worlds reaches (Spark, Parquet files) are left out.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from mutants import ROOT, edit, read_regressions

OUT_OF_REACH = ("engines/spark/", "parquet/", "protocol/statistics.py", "protocol/bounds.py")
SCRIPT = """
import sys
from rowlock_simulation.plans import plan_of
from rowlock_simulation.run import run
worlds, most = sys.argv[1].split(","), int(sys.argv[2])
for n in range(most):
    world = worlds[n % len(worlds)]
    result = run(plan_of(world, n // len(worlds)))
    if result.violations:
        print(f"{n + 1} schedules: {world} {n // len(worlds)}: {result.violations[0]}"[:220])
        break
else:
    sys.exit(3)
"""


def verdict(edits: list[dict[str, str]], worlds: str, schedules: int) -> str:
    """What the first schedule to break a promise says; SURVIVED where none does."""
    with tempfile.TemporaryDirectory() as folder:
        src = Path(folder) / "src"
        shutil.copytree(ROOT / "src", src, ignore=shutil.ignore_patterns("__pycache__"))
        edit(src / "rowlock", edits)
        environment = {**os.environ, "PYTHONPATH": str(src), "POLARS_MAX_THREADS": "1"}
        done = subprocess.run([sys.executable, "-c", SCRIPT, worlds, str(schedules)], env=environment, capture_output=True, text=True, check=False)
    if done.returncode == 3:
        return f"SURVIVED {schedules} schedules"
    return done.stdout.strip() if done.returncode == 0 else f"BROKEN: {done.stderr.strip().splitlines()[-1:]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--schedules", type=int, default=60)
    parser.add_argument("--world", default="s3")
    given = parser.parse_args()
    regressions = {n: r for n, r in read_regressions().items() if "edits" in r and not any(e["file"].startswith(OUT_OF_REACH) for e in r["edits"])}
    for name in given.names or regressions:
        print(f"{name:<24} {verdict(regressions[name]['edits'], given.world, given.schedules)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
