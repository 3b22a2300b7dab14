"""Kills a writer again and again at random points and checks the table each time (I10).

usage: crash.py [--times 50] [--seed 0]
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from support.writers.crashes import crash_once


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    from rich.console import Console
    from rich.progress import track

    from rowlock.engines.spark.session.session import spark

    session, console, bad = spark(cores=1, memory_mb=1024), Console(), 0
    session.sparkContext.setLogLevel("OFF")
    for n in track(range(args.times), description="kill -9", console=console):
        folder = tempfile.mkdtemp(prefix="rowlock-crash")
        problem = crash_once(session, f"{folder}/table", args.seed + n)
        if problem:
            bad += 1
            console.print(f"[red]seed {args.seed + n}: {problem} (kept in {folder})")
        else:
            shutil.rmtree(folder)
    console.print(f"{args.times} writers killed, {bad} tables wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
