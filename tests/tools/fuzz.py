"""Feeds changed bytes to the readers of log, checkpoints, vectors, footers and paths, guided by coverage (atheris), and prints what was run.

usage: fuzz.py [TARGET ...] [--seconds 60] [--corpus FOLDER]

Each target runs in a process of its own with 2 GB and 10 seconds for one input: more of either is a crash, as is any error but Rowlock's own.  An input that
crashes is kept in the corpus' folder as `crash-...`, and belongs into tests/fuzz/test_readers.py.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS))


def fuzz_one(target: str, corpus: Path, seconds: int) -> None:
    """Runs one target in this process until its time is over or an input crashes."""
    import atheris

    with atheris.instrument_imports(include=["rowlock.log", "rowlock.protocol"]):
        from fuzz.targets import SEEDS, run
    corpus.mkdir(parents=True, exist_ok=True)
    for n, seed in enumerate(SEEDS[target]):
        (corpus / f"seed-{n}").write_bytes(seed)
    options = [f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2048", "-max_len=8192", "-print_final_stats=1", f"-artifact_prefix={corpus}/"]
    atheris.Setup([sys.argv[0], str(corpus), *options], lambda data: run(target, data))
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    corpus = args.corpus or Path(tempfile.mkdtemp(prefix="rowlock-fuzz-"))
    if args.alone:  # before anything is imported that is to be instrumented
        fuzz_one(args.targets[0], corpus / args.targets[0], args.seconds)
    from fuzz.targets import TARGETS

    if unknown := [t for t in args.targets if t not in TARGETS]:
        parser.error(f"there is no target {unknown[0]}; there are {', '.join(TARGETS)}")
    crashed = 0
    for target in args.targets or TARGETS:
        command = [sys.executable, __file__, target, "--alone", "--seconds", str(args.seconds), "--corpus", str(corpus)]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONHASHSEED": "0"}, check=False)
        said = done.stdout + done.stderr
        curve = re.findall(r"#(\d+)\s.*?cov: (\d+)", said)
        runs = re.search(r"number_of_executed_units: (\d+)", said)
        coverage = [int(c) for _, c in curve]
        half = next((c for n, c in reversed([(int(n), int(c)) for n, c in curve]) if curve and n <= int(curve[-1][0]) // 2), 0)
        print(
            f"{target}: {int(runs[1]) if runs else 0:,} inputs, coverage {coverage[0] if coverage else 0} -> {half} at half -> {coverage[-1] if coverage else 0}",
            flush=True,
        )
        if done.returncode:
            crashed += 1
            print(said[-3000:], flush=True)
    print(f"inputs are in {corpus}")
    return 1 if crashed else 0


if __name__ == "__main__":
    sys.exit(main())
