"""An installation without the extras appends and reads; what needs one says which (I9)."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from rowlock.exceptions import InvalidInput
from rowlock.extras import EXTRAS, is_installed, need

ROOT = Path(__file__).parents[2]
WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""


def without(packages: tuple[str, ...], code: str) -> subprocess.CompletedProcess[str]:
    """Runs code where these packages cannot be imported."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "COLUMNS": "1000"}
    text = WITHOUT.format(names=set(packages)) + code
    return subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, timeout=120)


def test_appends_and_reads_need_none(tmp_path: Path) -> None:
    code = f"""
import pyarrow as pa
import rowlock
for n in range(12):
    rowlock.append({str(tmp_path / "t")!r}, pa.table({{"id": [n]}}))
print(rowlock.to_arrow({str(tmp_path / "t")!r}).num_rows)
for name in ("DeltaTable", "spark", "enable", "read"):
    try:
        getattr(rowlock, name)
    except rowlock.exceptions.InvalidInput as error:
        print(error)
"""
    done = without(tuple(package for packages in EXTRAS.values() for package in packages), code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "12"
    assert done.stdout.count("needs the package pyspark, which is not installed: pip install 'rowlock[spark]'") == 4


@pytest.mark.parametrize(
    ("packages", "arguments", "told"),
    [
        (("typer", "rich"), ["version"], "The command line needs the package typer, which is not installed: pip install 'rowlock[cli]'"),
        (("polars",), ["demo", "--seconds", "1"], "this command needs the package polars, which is not installed: pip install 'rowlock[cli]'"),
        (("pyspark",), ["serve"], "needs the package pyspark, which is not installed: pip install 'rowlock[spark]'"),
    ],
    ids=lambda v: "-".join(v) if isinstance(v, tuple) else None,
)
def test_a_command_says_which_extra_it_needs(packages: tuple[str, ...], arguments: list[str], told: str) -> None:
    done = without(packages, f"sys.argv = ['rowlock', *{arguments}]\nfrom rowlock.__main__ import main\nmain()")
    assert (done.returncode, done.stdout) == (2, "") and told in done.stderr and len(done.stderr.splitlines()) == 1


def test_the_extras_are_those_that_are_declared() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extra, packages in EXTRAS.items():
        assert {line.partition(">")[0].removesuffix("-api") for line in declared[extra]} == set(packages)


def test_what_is_missing_is_named() -> None:
    need("This", "pyarrow")
    assert is_installed("pyarrow") and not is_installed("no_such_package")
    with pytest.raises(InvalidInput, match="This needs the package no_such_package"):
        need("This", "no_such_package")
