"""Measures which lines and branches of the six folders below transactions the simulation runs, and lists what it does not.

usage: simulated_coverage.py [--first 10000] [--seeds 300] [--world NAME] [--missing]

Every seed runs in each world, under coverage.py (`pip install coverage`).  Prints a table of folders, and with --missing the lines and branches
of each file that no schedule came by.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
FOLDERS = ("transaction", "conflict", "log", "locks", "storage", "boundary")

RUN = """
import json, sys
from coverage import Coverage
source, first, seeds, world, data, report = sys.argv[1:7]
measured = Coverage(data_file=data, branch=True, source=sys.argv[7:], concurrency="greenlet", config_file=False)
measured.start()
from rowlock_simulation.campaign import keep_what_is_loaded
from rowlock_simulation.plans import WORLDS, plan_of
from rowlock_simulation.run import run
keep_what_is_loaded()
for seed in range(int(first), int(first) + int(seeds)):
    for name in WORLDS:
        if world in ("all", name):
            measured.switch_context(f"{name} {seed}")
            result = run(plan_of(name, seed))
            if result.violations:
                print(name, seed, result.violations[0], file=sys.stderr)
measured.stop()
measured.save()
measured.json_report(outfile=report, show_contexts=True)
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """What was run of one file: its path below src, the counts and the missing parts that coverage.py tells, and for each line the schedules that came by."""

    file: str
    counts: dict[str, int]
    missing_lines: list[int]
    missing_branches: list[tuple[int, int]]
    schedules: dict[int, list[str]]


def measure(within: Sequence[str], *, first: int, seeds: int, world: str = "all") -> list[Measured]:
    """Runs the seeds in each world, and tells what was run of each file in these files and folders below src/rowlock."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-c", RUN, str(SOURCE), str(first), str(seeds), world, str(Path(folder) / "data"), str(report)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])])}
        subprocess.run([*command, *(str(SOURCE / "rowlock" / f) for f in within)], cwd=SOURCE, env=environment, check=True)
        files = json.loads(report.read_text())["files"]
    return [
        Measured(
            name,
            told["summary"],
            told["missing_lines"],
            [(a, b) for a, b in told["missing_branches"]],
            {int(line): sorted((c for c in contexts if c), key=_in_turn) for line, contexts in told["contexts"].items()},
        )
        for name, told in sorted(files.items())
    ]


def _in_turn(schedule: str) -> tuple[int, str]:
    world, seed = schedule.split()
    return int(seed), world


def table(measured: Sequence[Measured]) -> list[str]:
    """What was run of each folder, as a table of Markdown."""
    folders = defaultdict[str, Counter[str]](Counter)
    for m in measured:
        folders[m.file.split("/")[1]].update({k: n for k, n in m.counts.items() if isinstance(n, int)})
    out = ["| folder | lines | branches |", "|---|---|---|"]
    for name, n in [*sorted(folders.items()), ("together", sum(folders.values(), Counter()))]:
        out.append(f"| {name} | {_share(n['covered_lines'], n['num_statements'])} | {_share(n['covered_branches'], n['num_branches'])} |")
    return out


def _share(covered: int, of: int) -> str:
    return f"{covered:,} of {of:,} ({covered / max(1, of):.1%})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=300)
    parser.add_argument("--world", default="all")
    parser.add_argument("--missing", action="store_true", help="name the lines and branches of each file that nothing came by")
    given = parser.parse_args()
    measured = measure(FOLDERS, first=given.first, seeds=given.seeds, world=given.world)
    print("\n".join(table(measured)))
    for m in sorted(measured, key=lambda m: -len(m.missing_lines)) if given.missing else ():
        print(f"{m.file}: {len(m.missing_lines)} of {m.counts['num_statements']} lines {m.missing_lines}; branches {m.missing_branches}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
