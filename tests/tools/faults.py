"""Writers behind a proxy that breaks their puts: every increment must count once (I1, I2).

usage: faults.py [--writers 6] [--each 60] [--rounds 1] [--seed 0]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from servers import minio
from servers.scripts import running
from support.writers.faulty import contest


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--writers", type=int, default=6)
    parser.add_argument("--each", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    bad = 0
    with running(minio.start) as server:
        for seed in range(args.seed, args.seed + args.rounds):
            done = contest(server, writers=args.writers, each=args.each, seed=seed)
            bad += bool(done.problems)
            print(f"seed {seed}: {done.commits} increments by {args.writers} writers in {done.seconds:.1f} s, {sum(done.faults.values())} puts broken")
            for what, n in sorted(done.faults.items()):
                print(f"  {what:22} {n:4}")
            print("  every increment counted once, every writer was told the truth" if not done.problems else "\n".join(f"  WRONG: {p}" for p in done.problems))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
