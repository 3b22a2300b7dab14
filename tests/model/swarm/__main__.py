"""`python -m model.swarm --seeds A:B`: runs cases and writes one line of JSON for each, so that a run can be continued; exits with 1 where one failed."""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tempfile
from pathlib import Path

from model.swarm.report import Tally


def main() -> int:
    parser = argparse.ArgumentParser(prog="swarm", description=__doc__)
    parser.add_argument("--seeds", default="0:60", help="one seed, several with commas, or A:B (B is left out)")
    parser.add_argument("--results", default="", help="a file of JSON lines; seeds that it holds are not run again")
    parser.add_argument("--stop", action="store_true", help="end at the first failure")
    parser.add_argument("--folder", default="", help="where tables are made; those of failed cases stay there")
    given = parser.parse_args()
    seeds = _seeds(given.seeds)
    results = Path(given.results) if given.results else None
    tally = Tally()
    done = {}
    if results is not None and results.exists():
        done = {line["seed"]: line for line in map(json.loads, results.read_text().splitlines())}
    for seed in seeds:
        if seed in done:
            tally.take_line(done[seed])
    left = [s for s in seeds if s not in done]
    folder = Path(given.folder or tempfile.mkdtemp(prefix="swarm-"))
    if left:
        _run(left, folder, results, tally, stop=given.stop)
    print(tally.text(), flush=True)
    return 1 if tally.failed else 0


def _run(seeds: list[int], folder: Path, results: Path | None, tally: Tally, *, stop: bool) -> None:
    from support.sessions import delta_session

    spark = delta_session("rowlock swarm")
    from model.swarm.runner import run_case

    pid = spark.sparkContext._gateway.proc.pid
    for seed in seeds:
        before = _cpu(pid)
        result = run_case(spark, seed, folder)
        line = tally.take(result)
        if results is not None:
            with results.open("a") as out:
                out.write(json.dumps(line) + "\n")
        print(
            f"{seed}: {'failed' if result.error else 'ok'} in {result.seconds:.1f} s, cpu {_cpu(pid) - before:.1f} ({', '.join(f'{k} {v:.1f}' for k, v in result.shares.items())})",
            flush=True,
        )
        if result.error:
            print("   " + "\n   ".join([*(f"{k}: {v}" for k, v in result.axes.items()), *result.story]), file=sys.stderr)
            print(f"{result.trace}\n{result.error}\nagain: {result.again}", file=sys.stderr, flush=True)
            if stop:
                return
        gc.collect()


def _cpu(pid: int) -> float:
    """Seconds of processor time of this process and of the JVM."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") + sum(os.times()[:2])


def _seeds(text: str) -> list[int]:
    out: list[int] = []
    for part in text.split(","):
        first, colon, last = part.partition(":")
        out += range(int(first), int(last)) if colon else [int(first)]
    return out


if __name__ == "__main__":
    sys.exit(main())
