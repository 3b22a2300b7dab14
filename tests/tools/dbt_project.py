"""Runs a dbt project on an enabled session: every strategy, contracts, tests, seeds, snapshots, schema changes; compares each table with what it must hold.

dbt goes into an environment of its own, `.versions/dbt`, with this checkout; the project is tests/data/dbt.  It is run twice over other rows, then
with --full-refresh, then over rows that break its contract and its tests.  Ends with 0 where all is as it must be.

usage: dbt_project.py [--threads 4]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PROJECT, ENVIRONMENT = ROOT / "tests" / "data" / "dbt", ROOT / ".versions" / "dbt"
NEEDED = ("dbt-core<1.12", "dbt-spark")  # dbt-core 1.12 fetches a file from GitHub when it is installed
FIRST = "select 1 as id, 10 as amount, date'2026-01-01' as day union all select 2, 20, date'2026-01-02'"
SECOND = "select 2 as id, 99 as amount, date'2026-01-02' as day union all select 3, 30, date'2026-01-02'"
BROKEN = "select 4 as id, 5 as amount, date'2026-01-03' as day union all select 4, -1, date'2026-01-03'"


def install() -> str:
    """The Python of the environment, made if need be."""
    python = ENVIRONMENT / "bin" / "python"
    if not (ENVIRONMENT / ".done").exists():
        shutil.rmtree(ENVIRONMENT, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "-e", f"{ROOT}[all]", *NEEDED], check=True)
        (ENVIRONMENT / ".done").touch()
    return str(python)


class Project:
    """The project in a session of this process."""

    def __init__(self, folder: Path, threads: int) -> None:
        import rowlock

        self.folder, self.threads, self.problems = folder, threads, list[str]()
        self.spark = rowlock.enable(rowlock.spark(cores=2, memory_mb=1024))

    def dbt(self, *command: str) -> list[str]:
        """Runs a command; the names of what failed."""
        from dbt.cli.main import dbtRunner  # type: ignore[import-not-found]

        places = ["--project-dir", str(self.folder), "--profiles-dir", str(self.folder)]
        done = dbtRunner().invoke([*command, *places, "--quiet", *([] if command[0] == "docs" else ["--threads", str(self.threads)])])
        if done.exception is not None:
            return [f"{type(done.exception).__name__}: {done.exception}"]
        results = getattr(done.result, "results", None) or ()
        return sorted(r.node.name for r in results if str(r.status) not in ("success", "pass"))

    def incoming(self, query: str, price: str) -> None:
        self.spark.sql(query).createOrReplaceTempView("incoming")
        (self.folder / "seeds" / "products.csv").write_text(f"id,name,price\n1,cup,{price}\n2,tea,1.25\n3,pot,20\n")

    def expect(self, what: str, found: Any, expected: Any) -> None:
        print("as expected" if found == expected else "WRONG", what, "" if found == expected else f": {found} in place of {expected}", flush=True)
        if found != expected:
            self.problems.append(what)

    def tables(self, **expected: list[tuple[Any, ...]]) -> None:
        for name, rows in expected.items():
            found = [tuple(str(v) for v in row) for row in self.spark.sql(f"SELECT * FROM {name} ORDER BY 1, 2").collect()]
            self.expect(name, found, [tuple(str(v) for v in row) for row in rows])


def check(project: Project) -> None:
    one, two = "2026-01-01", "2026-01-02"
    project.incoming(FIRST, "3.5")
    for command in (["seed"], ["run"], ["snapshot"], ["test"], ["docs", "generate"]):
        project.expect(" ".join(command), project.dbt(*command), [])
    rows = [(1, 10), (2, 20)]
    by_day = [(1, 10, one), (2, 20, two)]
    project.tables(appended=rows, merged=rows, overwritten=by_day, whole=by_day, promised=rows, seen=[(1, 10, "cup", 3.5), (2, 20, "tea", 1.25)])
    project.incoming(SECOND, "4.5")
    for command in (["seed"], ["run", "--vars", "{wider: true}"], ["snapshot"], ["test"]):
        project.expect(" ".join(command), project.dbt(*command), [])
    project.tables(
        appended=[(1, 10), (2, 20), (2, 99), (3, 30)],
        merged=[(1, 10, None), (2, 99, "x"), (3, 30, "x")],
        overwritten=[(1, 10, one), (2, 99, two), (3, 30, two)],
        whole=[(2, 99, two), (3, 30, two)],
        promised=[(2, 99), (3, 30)],
    )
    prices = "(SELECT id, price, dbt_valid_to IS NULL AS is_now FROM prices)"
    project.tables(**{prices: [(1, 3.5, False), (1, 4.5, True), (2, 1.25, True), (3, 20.0, True)]})
    project.expect("run --full-refresh", project.dbt("run", "--full-refresh"), [])
    project.tables(appended=[(2, 99), (3, 30)], merged=[(2, 99), (3, 30)])
    project.incoming(BROKEN, "4.5")
    project.expect("a broken CHECK fails its model", project.dbt("run", "--select", "promised"), ["promised"])
    project.expect("an append runs", project.dbt("run", "--select", "appended merged"), [])
    project.expect("a broken test is told", len(project.dbt("test", "--select", "merged")), 1)
    formats = {
        name: project.spark.sql(f"DESCRIBE DETAIL {name}").first()["format"] for name in ("appended", "merged", "overwritten", "whole", "prices", "products")
    }
    project.expect("all are Delta tables", set(formats.values()), {"delta"})
    engines = {row["engineInfo"].split("/")[0] for name in formats for row in project.spark.sql(f"DESCRIBE HISTORY {name}").collect()}
    project.expect("by Rowlock", engines, {"Rowlock"})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--here", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.here is None:
        with tempfile.TemporaryDirectory() as work:
            folder = Path(work, "project")
            shutil.copytree(PROJECT, folder)
            (folder / "seeds").mkdir()
            command = [install(), __file__, "--threads", str(args.threads), "--here", str(folder)]
            return subprocess.run(command, cwd=work, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}).returncode
    project = Project(args.here, args.threads)
    check(project)
    return 1 if project.problems else 0


if __name__ == "__main__":
    sys.exit(main())
