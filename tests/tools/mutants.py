"""Takes each named check out of a copy of the source and runs the tests that must then fail.

usage: mutants.py [name ...]

The regressions, their edits and tests are in tests/regressions/regressions.toml.  A test is named by its function in
test_named.py, or by its node id from the repository's root ("tests/spark/test_x.py::test_y").  First all tests must
pass on a copy as it is.  Prints a line for each regression and a total; the exit code is 1 when a
mutant survived, an edit's text was not found, or a mutant could not even be run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "regressions"
TEST_FILE = FOLDER / "test_named.py"
TIMEOUT_S = 300  # for each test: one may start Spark
PASSED, FAILED = 0, 1  # pytest's exit codes; all others mean that tests could not be run


class CannotEdit(Exception):
    """The text that an edit replaces is not in the source exactly once."""


def read_regressions() -> dict[str, dict[str, Any]]:
    return tomllib.loads((FOLDER / "regressions.toml").read_text())


def edit(package: Path, edits: Sequence[Mapping[str, str]]) -> None:
    """Changes a copy of src/rowlock."""
    for e in edits:
        file = package / e["file"]
        text = file.read_text() if file.is_file() else ""
        if (found := text.count(e["old"])) != 1:
            raise CannotEdit(f"{e['file']} holds {e['old']!r} {found} times, not once")
        file.write_text(text.replace(e["old"], e["new"]))


def node_id(test: str) -> str:
    """What pytest calls a test of an entry; options of pytest stay."""
    return test if "::" in test or test.startswith("-") else f"{TEST_FILE.relative_to(ROOT)}::{test}"


def run_tests(src: Path, tests: Sequence[str]) -> tuple[int | None, str]:
    """(pytest's exit code, its last line); None where it took too long, which a livelock may."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", f"pythonpath={src}", *map(node_id, tests)]
    environment = {**os.environ, "PYTHONPATH": str(src)}  # for the processes that a test starts
    limit = TIMEOUT_S * max(1, len(tests))
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return None, f"no end after {limit} s"
    return done.returncode, (done.stdout.strip().splitlines() or [done.stderr.strip()])[-1]


def verdict(regression: Mapping[str, Any]) -> tuple[str, str]:
    """(killed, SURVIVED or BROKEN; why): every one of the tests must fail."""
    with tempfile.TemporaryDirectory() as folder:
        src = Path(folder) / "src"
        shutil.copytree(ROOT / "src", src, ignore=shutil.ignore_patterns("__pycache__"))
        try:
            edit(src / "rowlock", regression["edits"])
        except CannotEdit as error:
            return "BROKEN", str(error)
        for test in regression["tests"]:
            code, last = run_tests(src, [test])
            if code == PASSED:
                return "SURVIVED", f"{test} passes without the check"
            if code not in (FAILED, None):
                return "BROKEN", f"{test} could not be run: {last}"
    return "killed", ", ".join(regression["tests"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    regressions = read_regressions()
    names = parser.parse_args().names or list(regressions)
    if unknown := [n for n in names if n not in regressions]:
        parser.error(f"no such regression: {', '.join(unknown)}; there are {', '.join(regressions)}")
    chosen = {n: regressions[n] for n in names}
    code, last = run_tests(ROOT / "src", [t for r in chosen.values() for t in r.get("tests", ())] or ["test_stale_base"])
    if code != PASSED:
        print(f"the tests must pass on the source as it is: {last}")
        return 1
    counts = {"killed": 0, "SURVIVED": 0, "BROKEN": 0, "not yet": 0}
    for name, regression in chosen.items():
        kind, why = ("not yet", regression["why"]) if "why" in regression else verdict(regression)
        counts[kind] += 1
        print(f"{regression['number']:>2}  {name:<24} {kind:<9} {regression['check']}: {why}", flush=True)
    print(", ".join(f"{n} {kind}" for kind, n in counts.items()))
    return 1 if counts["SURVIVED"] or counts["BROKEN"] else 0


if __name__ == "__main__":
    sys.exit(main())
