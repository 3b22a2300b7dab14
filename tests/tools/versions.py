"""Runs suites under every Python and every pyspark that pyproject.toml claims, each pair in an environment of its own, and writes docs/versions.md.

Environments and results are kept in .versions/, so a second run only tests, and one that asks for less replaces these results alone; several may run at
once.  The page's table is made of the results.  Long forms of tests (`make soak`) are left out, as `make test` leaves them out.  A Python that the machine lacks is named and left out; with --obtain, `uv` fetches it.
The tests without Spark run once for each Python, with the first pyspark that is asked for.  With `--python this` an environment has a pyspark of its own,
and all else from the environment that runs this program.

usage: versions.py [--python 3.11,3.12] [--pyspark 4.0,4.2] [--suites SQL,streams] [--obtain] [--page] [--no-page] [-- ARGUMENTS OF PYTEST]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = [found[1] for line in PROJECT["classifiers"] if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line))]
PYSPARKS = ("4.0", "4.1", "4.2", "4.3")
THIS = "this"
"""As a Python: the one that runs this program, with its packages."""
QUICK = "without Spark"
_MORE_SQL = "sql_by_call delta_statements replace_as_select session_variables temporary_views beside_delta_spark"
_NAMES = "catalog_names names_without_delta_spark rowlock_run write_options_by_name made_anew"
SUITES = {
    QUICK: ["-m", "not spark and not slow"],
    "the guard's table": ["tests/unit/engines/spark/sql/test_commands.py", "tests/spark/test_versions.py"],
    "SQL": ["tests/spark/test_sql_statements.py", "tests/spark/test_sql_guard.py"],
    "more SQL": [f"tests/spark/test_{name}.py" for name in _MORE_SQL.split()],
    "names": [f"tests/spark/test_{name}.py" for name in _NAMES.split()],
    "streams": ["tests/spark/test_stream_source.py", "tests/spark/test_stream_tracking.py"],
    "Connect server": ["tests/spark/test_connect_server.py"],
    "API": ["tests/docs/test_code_blocks.py", "tests/spark/test_transactions.py", "tests/spark/test_delta_table_surface.py"],
}
"""What is run, by its name in the table, as arguments of pytest."""
RESULTS, PAGE = ROOT / ".versions" / "results.json", ROOT / "docs" / "versions.md"
BEGIN, END = "<!-- made by `make versions` -->", "<!-- end -->"
NOT_HERE = ("pyspark", "rowlock", "ruff", "mypy", "pandas-stubs")  # pinned by the pair, or not about running


def python_of(version: str, *, obtain: bool) -> str | None:
    """A Python of this version: on the PATH, with pyenv, or by uv, which may fetch one."""
    if version == THIS:
        return sys.executable
    choices = [shutil.which(f"python{version}")]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    choices += [str(home / "bin" / "python") for home in sorted(pyenv.glob(f"{version}.*"))]
    if uv := shutil.which("uv"):
        if obtain:
            subprocess.run([uv, "python", "install", "--quiet", version], check=False)
        choices.append(subprocess.run([uv, "python", "find", version], capture_output=True, text=True).stdout.strip())
    for choice in choices:
        if choice:
            asked = subprocess.run([choice, "-c", "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True)
            if asked.stdout.strip() == version:
                return choice
    return None


def requirements(pyspark: str) -> list[str]:
    """What the tests need, with this pyspark in the place of the one that they are developed on."""
    extras = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *extras["spark"], *extras["java"], *extras["cli"], *extras["test"]]
    return [f"pyspark[connect]=={pyspark}.*", *(line for line in wanted if re.split(r"[^\w-]", line)[0] not in NOT_HERE)]


def environment(python: str, version: str, pyspark: str) -> Path:
    """An environment with both, made where there is none that is as new as pyproject.toml."""
    folder = ROOT / ".versions" / f"python{version}-pyspark{pyspark}"
    stamp = folder / ".installed"
    if not stamp.exists() or stamp.stat().st_mtime < (ROOT / "pyproject.toml").stat().st_mtime:
        if not (folder / "bin" / "python").exists():
            subprocess.run([python, "-m", "venv", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if version == THIS:
            subprocess.run([*pip, "--no-deps", f"pyspark=={pyspark}.*"], check=True)
            (packages,) = folder.glob("lib/python3.*/site-packages")
            (packages / "others.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
        else:
            subprocess.run([*pip, *requirements(pyspark)], check=True)
            subprocess.run([*pip, "--no-deps", "--editable", str(ROOT)], check=True)
        stamp.touch()
    return folder


def _at_home(what: list[str]) -> list[str]:
    """The arguments of pytest without the long forms, as `make test` and `make quick` run them."""
    return ["-m", f"{what[1]} and not soak"] if what[0] == "-m" else ["-m", "not soak", *what]


def tested(folder: Path, what: list[str]) -> dict[str, Any]:
    """Runs pytest: how many tests passed, failed, were left out for Spark's version and for something else, and what these are."""
    start = time.monotonic()
    report = folder.with_suffix(folder.suffix + ".xml")
    report.unlink(missing_ok=True)
    command = [str(folder / "bin" / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *what]
    environ = {name: value for name, value in os.environ.items() if name not in ("SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")}
    environ["PYTHONPATH"] = f"{ROOT / 'src'}{os.pathsep}{ROOT / 'tests'}"
    done = subprocess.run(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    with folder.with_suffix(folder.suffix + ".log").open("a") as out:
        out.write(f"{' '.join(command)}\n{done.stdout}\n")
    found = counted(report.read_text()) if report.exists() else {"passed": 0, "failed": ["no test ran"], "version": {}, "other": 0}
    return found | {"seconds": round(time.monotonic() - start)}


def counted(report: str) -> dict[str, Any]:
    """The counts of a report of pytest's in JUnit's form.  A test that is left out for Spark's version says so, see tests/support/needs.py."""
    passed, other, failed, version = 0, 0, [], Counter[str]()
    for case in ElementTree.fromstring(report).iter("testcase"):
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(f"{case.get('classname')}.{case.get('name')}")
        elif skipped is None:
            passed += 1
        elif (why := skipped.get("message", "")).startswith("Spark "):
            version[why] += 1
        else:
            other += 1
    return {"passed": passed, "failed": failed, "version": dict(version), "other": other}


def held() -> dict[str, dict[str, Any]]:
    """The results so far, by pair and suite."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def keep(pair: str, suite: str, result: dict[str, Any]) -> None:
    """Adds a result to those that are there by now: several of these programs may run at once."""
    results = held()
    results.setdefault(pair, {})[suite] = result
    RESULTS.write_text(json.dumps(results, indent=1))


def told(result: dict[str, Any] | None) -> str:
    """A result in the table: passed / failed / left out for the version."""
    return "not run" if result is None else f"{result['passed']} / {len(result['failed'])} / {sum(result['version'].values())}"


def table(results: dict[str, dict[str, Any]]) -> str:
    """The part of the page that is made: the table, the tests that failed, and those that were left out for the version with their reasons."""
    lines = ["| Python | pyspark | " + " | ".join(SUITES) + " |", "|---|---|" + "---|" * len(SUITES)]
    for python in PYTHONS:
        for pyspark in PYSPARKS:
            found = results.get(f"{python} {pyspark}", {})
            elsewhere = next((f"ran with {each}" for each in PYSPARKS if QUICK in results.get(f"{python} {each}", {})), "not run")
            cells = [elsewhere if suite == QUICK and suite not in found else told(found.get(suite)) for suite in SUITES]
            lines.append(f"| {python} | {pyspark} | " + " | ".join(cells) + " |")
    failed: list[str] = []
    reasons: list[str] = []
    for pair, suites in sorted(results.items()):
        for suite, result in suites.items():
            failed += [f"- Python {pair.replace(' ', ', pyspark ')}, {suite}: `{name}`" for name in result["failed"]]
            reasons += [f"- Python {pair.replace(' ', ', pyspark ')}, {suite}, {times}: needs {why}" for why, times in result["version"].items()]
    for title, held in (("Failed:", failed), ("Left out for the version:", reasons)):
        lines += ["", title, "", *(held or ["- none"])]
    return "\n".join(lines)


def write_page(results: dict[str, dict[str, Any]]) -> None:
    """Writes the table between its two marks in the page."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{table(results)}\n{END}{rest.partition(END)[2]}")


def main() -> int:
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=",".join(PYTHONS), help="with commas between them")
    parser.add_argument("--pyspark", default=",".join(PYSPARKS))
    parser.add_argument("--obtain", action="store_true", help="lets uv fetch Pythons that the machine lacks")
    parser.add_argument("--suites", default=",".join(SUITES), help=", ".join(SUITES))
    parser.add_argument("--page", action="store_true", help="runs nothing: writes the page of the results that are there")
    parser.add_argument("--no-page", action="store_true", help="leaves the page as it is")
    args = parser.parse_args(sys.argv[1:at])
    bad = 0
    for version in [] if args.page else args.python.split(","):
        python = python_of(version, obtain=args.obtain)
        if python is None:
            print(f"Python {version}: left out, this machine has none (--obtain lets uv fetch it)", flush=True)
            continue
        for nth, pyspark in enumerate(args.pyspark.split(",")):
            print(f"Python {version}, pyspark {pyspark}", flush=True)
            try:
                folder = environment(python, version, pyspark)
            except subprocess.CalledProcessError as error:
                print(f"  WRONG it could not be installed: {error}", flush=True)
                bad += 1
                continue
            for suite in args.suites.split(","):
                if suite == QUICK and nth:
                    continue
                found = tested(folder, [*_at_home(SUITES[suite]), *sys.argv[at + 1 :]])
                bad += bool(found["failed"])
                print(f"  {'WRONG' if found['failed'] else 'ok   '} {suite}: {told(found)} ({found['seconds']} s)", *found["failed"], sep="\n    ", flush=True)
                keep(f"{version} {pyspark}", suite, found)
    if not args.no_page:
        write_page(held())
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
