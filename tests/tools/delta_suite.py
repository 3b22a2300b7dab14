"""Runs Delta's own Python tests and examples, from a checkout of delta-io/delta, with `rowlock.enable(spark)` and the import changed.

Nothing of the checkout is kept: each file is copied into a temporary folder, where its imports of `delta` become Rowlock's and its session one with Rowlock.
Prints what passed, what is refused by name and what failed, each with its reason; docs/sql.md has the list.  Exits with 1 where something failed that is not expected to.

usage: delta_suite.py PATH OF A CHECKOUT [FILE.py[::TEST] ...] [--verbose]
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
import traceback
import unittest
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TESTS = ("test_deltatable.py", "test_sql.py", "test_exceptions.py")
EXAMPLES = ("quickstart.py", "quickstart_sql.py", "quickstart_sql_on_paths.py", "utilities.py", "table_exists.py", "change_data_feed.py", "streaming.py")
"""What is about tables.  The others are about delta-spark's package: its version, its exceptions' hook, its JARs, and its plug-in for Spark Connect."""

_VECTORS = "asserts protocol versions 1 and 2, but new tables of Rowlock have deletion vectors"
_FILES = "counts one file for each partition of the DataFrame, but Rowlock writes few rows into one file"
EXPECTED = {
    "test_exceptions.py": "raises delta-spark's own classes in the JVM, which are not there",
    "test_deltatable.py::test_protocolUpgrade": _VECTORS,
    "test_deltatable.py::test_addFeatureSupport": _VECTORS,
    "test_deltatable.py::test_generate": _FILES,
    "test_sql.py::test_generate": _FILES,
    "test_sql.py::test_ddls": _VECTORS,
    "test_deltatable.py::test_verify_paritionedBy_compatibility": "calls a private attribute of delta-spark's builder",
}
"""Why a test, or all tests of a file, cannot pass."""

CHANGES = (
    (r"from delta\.tables import", "from rowlock.tables import"),
    (r"from delta\.testing\.utils import DeltaTestCase", "from support.delta_suite_case import DeltaTestCase"),
    (r"import delta\.exceptions as exceptions", "import rowlock.exceptions as exceptions"),
    (r"spark = SparkSession\.builder.*?getOrCreate\(\)", "import rowlock\nspark = rowlock.enable(rowlock.spark(cores=2, memory_mb=1024))"),
)


def changed(text: str, folder: Path) -> str:
    """A file of the checkout as it is run."""
    for old, new in CHANGES:
        text = re.sub(old, new, text, flags=re.DOTALL)
    return text.replace("/tmp/", f"{folder}/")


def main() -> int:
    """Runs the files that were asked for, each in a process of its own."""
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given.add_argument("checkout", type=Path)
    given.add_argument("files", nargs="*", default=[*TESTS, *EXAMPLES], metavar="FILE.py[::TEST]")
    given.add_argument("--verbose", action="store_true", help="print the whole error of what failed")
    asked = given.parse_args()
    told: list[dict[str, str]] = []
    for wanted in asked.files:
        file, _, test = wanted.partition("::")
        folder = asked.checkout / ("python/delta/tests" if file.startswith("test_") else "examples/python")
        told += _run(folder / file, test)
    for one in told:
        if one["outcome"] != "passed":
            print(f"{one['outcome']:8} {one['name']}: {one['reason']}")
            if asked.verbose and one["outcome"] == "failed":
                print(one["trace"])
    counted = Counter(one["outcome"] for one in told)
    print(", ".join(f"{counted[outcome]} {outcome}" for outcome in ("passed", "refused", "not ours", "failed")))
    return 1 if counted["failed"] else 0


def _run(file: Path, test: str) -> list[dict[str, str]]:
    """What came of a file's tests."""
    with tempfile.TemporaryDirectory(prefix="delta-suite-") as name:
        folder = Path(name)
        (folder / file.name).write_text(changed(file.read_text(), folder))
        paths = os.pathsep.join([str(folder), str(ROOT / "src"), str(ROOT / "tests")])
        environment = os.environ | {"PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        command = [sys.executable, str(Path(__file__).resolve()), "--within", file.stem, test]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=1800)
        told = folder / "told.json"
        if not told.exists():
            return [_told(file.name, "failed", f"the process ended with {done.returncode}", done.stderr[-3000:])]
        out: list[dict[str, str]] = json.loads(told.read_text())
        return out


# ---- within the process of a file ------------------------------------------------------------


def _told(name: str, outcome: str, reason: str = "", trace: str = "") -> dict[str, str]:
    return {"name": name, "outcome": outcome, "reason": reason, "trace": trace}


def _of_error(name: str, error: BaseException) -> dict[str, str]:
    """What an error means: a refusal by name, or a failure."""
    from rowlock.exceptions import UnsupportedFeature

    trace = "".join(traceback.format_exception(error))
    at: BaseException | None = error
    while at is not None:
        if isinstance(at, UnsupportedFeature):
            return _told(name, "refused", str(at.feature), trace)
        at = at.__cause__ or at.__context__
    file = name.partition("::")[0]
    if why := EXPECTED.get(name) or EXPECTED.get(file):
        return _told(name, "not ours", why, trace)
    return _told(name, "failed", f"{type(error).__name__}: {(str(error).strip() or '?').splitlines()[0][:300]}", trace)


class _Result(unittest.TestResult):
    """Collects what came of each test."""

    def __init__(self, file: str) -> None:
        super().__init__()
        self.file = file
        self.told: list[dict[str, str]] = []

    def addSuccess(self, test: unittest.TestCase) -> None:
        """unittest's name."""
        self.told.append(_told(self._name(test), "passed"))

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        """unittest's name."""
        self.told.append(_of_error(self._name(test), err[1]))

    addFailure = addError

    def _name(self, test: Any) -> str:
        return f"{self.file}::{test.id().rsplit('.', 1)[-1]}"


def within(module: str, test: str) -> list[dict[str, str]]:
    """Runs a copied file in this process."""
    file = f"{module}.py"
    if not module.startswith("test_"):
        try:
            with contextlib.redirect_stdout(sys.stderr):
                importlib.import_module(module)
        except Exception as e:
            return [_of_error(file, e)]
        return [_told(file, "passed")]
    loader = unittest.TestLoader()
    if test:
        loader.testNamePatterns = [f"*{test}*"]
    suite = loader.loadTestsFromModule(importlib.import_module(module))
    result = _Result(file)
    with contextlib.redirect_stdout(sys.stderr):
        suite.run(result)
    return result.told


if __name__ == "__main__":
    if sys.argv[1:2] == ["--within"]:
        Path("told.json").write_text(json.dumps(within(sys.argv[2], sys.argv[3])))
        sys.exit(0)
    sys.exit(main())
