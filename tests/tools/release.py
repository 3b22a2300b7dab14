"""What a release is checked by: wheel and sdist are built, looked into, installed into empty environments and used there.  Publishes nothing.

The wheel is also installed without extras and with each of them, and used for what they are for.
Each environment is new and holds what pip takes from the package index for the wheel or the sdist, and nothing of this checkout: the folder that the
programs run in is empty, PYTHONPATH and JAVA_HOME are unset and no `java` is on the PATH, so that Spark runs on the Java that comes with Rowlock.

usage: release.py [--out dist] [--seconds 10] [--only wheel|sdist [--extras EXTRAS ...]]
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.documents import code_blocks  # noqa: E402 - the path is set above

IN_THE_WHEEL = ("rowlock/py.typed", "rowlock/engines/spark/session/log4j2.properties")
IN_THE_SDIST = (
    "pyproject.toml",
    "LICENSE",
    "README.md",
    "CHANGELOG.md",
    "ARCHITECTURE.md",
    "Makefile",
    "mkdocs.yml",
    "docs/transactions.md",
    "tests/conftest.py",
)
PLACES = "import rowlock; from rowlock.engines.spark.session.java import ensure_java; print(rowlock.__file__, ensure_java(), sep='\\n', end='')"
NEVER = (".venv", ".servers", ".git", "site", "dist", "__pycache__", "spark-warehouse")


def declared_version() -> str:
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


def built(out: Path) -> tuple[Path, Path]:
    """The sdist of the checkout, and the wheel that is made of the sdist: so what the sdist lacks is missed."""
    for old in out.glob("rowlock-*"):
        old.unlink()
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(out), str(ROOT)], check=True, stdout=subprocess.DEVNULL)
    (wheel,), (sdist,) = out.glob("rowlock-*.whl"), out.glob("rowlock-*.tar.gz")
    return wheel, sdist


def wrong_in_the_wheel(wheel: Path) -> Iterator[str]:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (info,) = {name.split("/")[0] for name in names if name.split("/")[0].endswith(".dist-info")}
        metadata = archive.read(f"{info}/METADATA").decode()
        versions = {
            "pyproject.toml": declared_version(),
            "METADATA": re.findall(r"^Version: (.*)$", metadata, re.MULTILINE)[0],
            "rowlock/version.py": re.findall(r'^VERSION = "(.*)"$', archive.read("rowlock/version.py").decode(), re.MULTILINE)[0],
        }
    if len(set(versions.values())) != 1:
        yield f"versions differ: {versions}"
    yield from (f"the README on a package index has the link {link}" for link in re.findall(r"\]\((?!https://)([^)]*)\)", metadata))
    yield from (f"METADATA lacks {line}" for line in ("Project-URL: Homepage, https://", "Project-URL: Issues, https://") if line not in metadata)
    source = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "rowlock").rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    needed = source | set(IN_THE_WHEEL) | {f"{info}/licenses/LICENSE", f"{info}/entry_points.txt"}
    yield from (f"{name} is missing" for name in sorted(needed - names))
    yield from (f"{name} does not belong there" for name in sorted(names - needed) if not name.startswith(f"{info}/"))


def wrong_in_the_sdist(sdist: Path) -> Iterator[str]:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    yield from (f"{name} is missing" for name in IN_THE_SDIST if name not in names)
    yield from (f"{name} does not belong there" for name in sorted(names) if set(NEVER) & set(name.split("/")))


LIGHT = """
import pyarrow as pa
import rowlock

rowlock.append("t", pa.table({"id": [1, 2]}))
assert rowlock.to_arrow("t").num_rows == 2
"""
ASKS_FOR_SPARK = """
try:
    rowlock.spark()
    raise SystemExit("pyspark is there")
except rowlock.exceptions.InvalidInput as error:
    assert "pip install 'rowlock[spark]'" in str(error), error
"""
WITHOUT_COMMAND = """
import subprocess
told = subprocess.run(["rowlock", "history", "t"], capture_output=True, text=True).stderr
assert "pip install 'rowlock[cli]'" in told, told
"""
STATEMENT = """
spark = rowlock.spark(cores=2)
rowlock.DeltaTable.forPath(spark, "t").update("id = 1", {"id": "id + 1"})
assert [row.id for row in rowlock.read(spark, "t").collect()] == [2, 2]
"""
USES = {
    "": ASKS_FOR_SPARK + WITHOUT_COMMAND,
    "cli": 'import subprocess\nassert "WRITE" in subprocess.run(["rowlock", "history", "t"], capture_output=True, text=True, check=True).stdout'
    + ASKS_FOR_SPARK,
    "otel": "import rowlock.telemetry\nrowlock.telemetry.instrument()()" + ASKS_FOR_SPARK,
    "dynamodb": "import rowlock.storage.registers, boto3" + ASKS_FOR_SPARK,
    "postgresql": "import rowlock.storage.registers, psycopg" + ASKS_FOR_SPARK,
    "spark,java": STATEMENT + WITHOUT_COMMAND,
    "spark,java,connect": "import pyspark.sql.connect.session" + STATEMENT,
}
"""By extras, what an environment with the wheel and these alone must do after an append and a read."""


IMPORT = "import time; start = time.process_time(); from rowlock import append; print(round(1000 * (time.process_time() - start)))"


def megabytes(folder: Path) -> float:
    """The size of the files in a folder, each counted once."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink()) / 1e6


def use_extras(wheel: Path, extras: str, place: Path) -> None:
    """Installs the wheel with these extras into an environment of its own and runs what they are for, without the machine's Java."""
    print(f"rowlock{f'[{extras}]' if extras else ''}:", flush=True)
    environment, work, clean = installed(f"{wheel}[{extras}]" if extras else str(wheel), place, place / "cache")
    (work / "program.py").write_text(LIGHT + USES[extras])
    step("used", ["python", "program.py"], cwd=work, env=clean)
    times = [int(subprocess.run([environment / "bin" / "python", "-c", IMPORT], cwd=work, env=clean, capture_output=True, check=True).stdout) for _ in range(5)]
    print(f"  from rowlock import append: {min(times)} ms of processor time, the least of five processes", flush=True)


def programs_without_java(folder: Path) -> Path:
    """A folder for the PATH with all programs of the machine but its Java."""
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).glob("*") if Path(place).is_dir() else ():
            link = folder / program.name
            if not program.name.startswith(("java", "python", "pip", "rowlock")) and not link.is_symlink() and os.access(program, os.X_OK):
                link.symlink_to(program)
    return folder


def installed(package: str, place: Path, cache: Path) -> tuple[Path, Path, dict[str, str]]:
    """Installs a package into an environment of its own below `place`: (its folder, an empty folder to work in, the variables of programs there)."""
    environment, work = place / "environment", place / "work"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    empty = megabytes(environment)
    step(
        "installed",
        [environment / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", package],
        cwd=place,
        env=dict(os.environ),
    )
    print(f"  size: {megabytes(environment) - empty:,.0f} MB beside Python and pip", flush=True)
    work.mkdir()
    unset = ("PYTHONPATH", "JAVA_HOME", "SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV")
    clean = {name: value for name, value in os.environ.items() if name not in unset}
    clean |= {"PATH": f"{environment / 'bin'}{os.pathsep}{programs_without_java(place / 'programs')}", "XDG_CACHE_HOME": str(cache)}
    return environment, work, clean


def use(package: Path, place: Path, *, seconds: int, cache: Path) -> None:
    """Installs a package into an environment of its own below `place` and does there what the README says."""
    _, work, clean = installed(f"{package}[all]", place, cache)
    lines = "\n".join(code_blocks(ROOT / "README.md", section="Ten lines"))
    (work / "ten_lines.py").write_text(lines.replace("/tmp/sales", str(place / "sales")))
    step("rowlock version", ["rowlock", "version"], cwd=work, env=clean, shown=True)
    step("the README's ten lines", ["python", "ten_lines.py"], cwd=work, env=clean, shown=True)
    step(f"rowlock demo --seconds {seconds}", ["rowlock", "demo", "--seconds", seconds, "--path", place / "demo"], cwd=work, env=clean, shown=True)
    where = subprocess.run(["python", "-c", PLACES], cwd=work, env=clean, capture_output=True, text=True, check=True).stdout.split("\n")
    print(f"  Java: {where[1]}")
    if not all(Path(found).is_relative_to(place) for found in where):
        raise SystemExit(f"  WRONG: rowlock or its Java came from outside of the environment: {where}")


def step(what: str, command: list[object], *, cwd: Path, env: dict[str, str], shown: bool = False) -> None:
    start = time.monotonic()
    program = shutil.which(str(command[0]), path=env["PATH"]) or str(command[0])
    done = subprocess.run([program, *map(str, command[1:])], cwd=cwd, env=env, capture_output=True, text=True, timeout=1800)
    print(f"  {what}: {time.monotonic() - start:.0f} s", flush=True)
    if shown:
        print("".join(f"    | {line}\n" for line in done.stdout.rstrip().splitlines()), end="", flush=True)
    if done.returncode:
        raise SystemExit(f"  WRONG: exit code {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--seconds", type=int, default=10, help="how long the demo runs")
    parser.add_argument("--only", choices=["wheel", "sdist"])
    parser.add_argument("--extras", nargs="*", default=[], choices=USES, help="with --only: these extras, each in an environment of its own")
    args = parser.parse_args()
    wheel, sdist = built(args.out)
    bad = 0
    for package, wrong in ((wheel, wrong_in_the_wheel), (sdist, wrong_in_the_sdist)):
        found = list(wrong(package))
        bad += len(found)
        print(f"{package.name}: {package.stat().st_size / 1e6:.1f} MB; " + ("holds what it must" if not found else "WRONG:"))
        print("".join(f"  {line}\n" for line in found), end="", flush=True)
    if bad:
        return 1
    for package in (wheel, sdist):
        if args.only is None or package == {"wheel": wheel, "sdist": sdist}[args.only]:
            with tempfile.TemporaryDirectory(prefix="rowlock-release-") as place:
                print(f"{package.name} in an empty environment of Python {sys.version.split()[0]}, without the machine's Java:", flush=True)
                use(package, Path(place), seconds=args.seconds, cache=Path(place) / "cache")
    for extras in USES if args.only is None else args.extras:
        with tempfile.TemporaryDirectory(prefix="rowlock-release-") as place:
            use_extras(wheel, extras, Path(place))
    print("The release can be published." if args.only is None else f"The {args.only} can be published.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
