"""A long writer among steady short ones, with turns and without: how often it puts until it commits, and how long that takes.

    python tests/tools/turns.py [SHORT_WRITERS] [SECONDS]

Five processes on one table on the local disk, rows in memory; a rebase of the long one takes 0.7 s.  Without turns it
loses for as long as the others go on: they stop after SECONDS.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[2] / "src")]

from support.locks.actors import long_among_short  # noqa: E402


def main(writers: int = 4, seconds: int = 20) -> None:
    print("| turns | puts | rounds | seconds | commits of the short writers, a second |\n|---|---|---|---|---|")
    for turns in ("on", "off"):
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            (puts, rounds, took), short = long_among_short(Path(folder) / "table", turns, writers, seconds)
            print(f"| {turns} | {puts} | {rounds} | {took} | {short / (time.perf_counter() - start):.0f} |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
