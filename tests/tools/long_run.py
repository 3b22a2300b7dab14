"""Ten thousand commits by six processes, with OPTIMIZE, VACUUM, checkpoints and cleanup of the log; all is compared with what was acknowledged.

usage: long_run.py [--commits 10000] [--retention 120] [--layout plain] [--folder FOLDER]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import astuple, fields
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from support.long_run.run import Sample, long_run
from support.long_run.table import LAYOUTS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=10_000)
    parser.add_argument("--retention", type=int, default=120, help="seconds that old files and old commits are kept")
    parser.add_argument("--layout", choices=LAYOUTS, default="plain", help="how the files of the table are laid out")
    parser.add_argument("--folder", default=None, help="where the table is made; a temporary folder by default")
    args = parser.parse_args()
    folder = args.folder or tempfile.mkdtemp(prefix="rowlock-long-run")
    print(f"| {' | '.join(f.name for f in fields(Sample))} |\n|{'---|' * len(fields(Sample))}")
    show = lambda s: print(f"| {' | '.join(f'{v:,}' for v in astuple(s))} |", flush=True)  # noqa: E731
    outcome = long_run(f"{folder}/table", args.commits, args.retention, show, layout=args.layout)
    print(
        f"acknowledged: {dict(outcome.acknowledged)}, the longest in seconds {outcome.longest}; {outcome.reads} reads, {outcome.old_reads} of versions of half the retention ago"
    )
    print("\n".join(outcome.problems) or "every acknowledged change is there, once, and nothing else")
    return 1 if outcome.problems else 0


if __name__ == "__main__":
    sys.exit(main())
