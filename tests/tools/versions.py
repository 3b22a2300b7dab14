"""Runs a quick suite under every Python and every pyspark that pyproject.toml claims, each pair in an environment of its own.

Environments are kept in .versions/, so a second run only tests.  A Python that the machine lacks is named and left out; with --obtain, `uv` fetches it.
The suite is the tests without Spark (once for each Python: they do not depend on pyspark) and a few files on Spark, with delta-spark in the session.

usage: versions.py [--python 3.11,3.12] [--pyspark 4.0,4.2] [--obtain] [--spark-tests FILE ...] [--no-quick] [-- ARGUMENTS OF PYTEST]
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = [found[1] for line in PROJECT["classifiers"] if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line))]
PYSPARKS = ("4.0", "4.1", "4.2")
SPARK_TESTS = ("tests/docs/test_code_blocks.py", "tests/spark/test_transactions.py", "tests/spark/test_delta_table_surface.py")
NOT_HERE = ("pyspark", "rowlock", "ruff", "mypy", "pandas-stubs")  # pinned by the pair, or not about running


def python_of(version: str, *, obtain: bool) -> str | None:
    """A Python of this version: on the PATH, with pyenv, or by uv, which may fetch one."""
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
    return [f"pyspark=={pyspark}.*", *(line for line in wanted if re.split(r"[^\w-]", line)[0] not in NOT_HERE)]


def environment(python: str, version: str, pyspark: str) -> Path:
    """An environment with both, made where there is none that is as new as pyproject.toml."""
    folder = ROOT / ".versions" / f"python{version}-pyspark{pyspark}"
    stamp = folder / ".installed"
    if not stamp.exists() or stamp.stat().st_mtime < (ROOT / "pyproject.toml").stat().st_mtime:
        if not (folder / "bin" / "python").exists():
            subprocess.run([python, "-m", "venv", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *requirements(pyspark)], check=True)
        subprocess.run([*pip, "--no-deps", "--editable", str(ROOT)], check=True)
        stamp.touch()
    return folder


def tested(folder: Path, what: list[str]) -> str:
    """The last line that pytest prints; the whole of its output goes to a file beside the environment."""
    start = time.monotonic()
    command = [str(folder / "bin" / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider", *what]
    environ = {name: value for name, value in os.environ.items() if name not in ("SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH")}
    done = subprocess.run(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    log = folder.with_suffix(folder.suffix + ".log")
    with log.open("a") as out:
        out.write(f"{' '.join(command)}\n{done.stdout}\n")
    last = next((line for line in reversed(done.stdout.splitlines()) if re.search(r"\d+ (passed|failed|error)", line)), "no test ran")
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    verdict = "ok   " if done.returncode == 0 else "WRONG"
    return "\n".join([f"  {verdict} {last.strip('= ')} ({time.monotonic() - start:.0f} s; {log.relative_to(ROOT)})", *(f"    {line}" for line in failed)])


def main() -> int:
    own, _, pytest_arguments = " ".join(sys.argv[1:]).partition("-- ")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=",".join(PYTHONS), help="with commas between them")
    parser.add_argument("--pyspark", default=",".join(PYSPARKS))
    parser.add_argument("--obtain", action="store_true", help="lets uv fetch Pythons that the machine lacks")
    parser.add_argument("--spark-tests", nargs="*", default=list(SPARK_TESTS))
    parser.add_argument("--no-quick", action="store_true", help="leaves out the tests without Spark")
    args = parser.parse_args(own.split())
    bad = 0
    for version in args.python.split(","):
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
            suites = [] if nth or args.no_quick else [["-m", "not spark and not slow"]]
            for suite in [*suites, *([args.spark_tests] if args.spark_tests else [])]:
                said = tested(folder, [*suite, *pytest_arguments.split()])
                bad += "  WRONG" in said
                print(said, flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
