"""Changes one operator, condition, constant or order of calls at a time in a copy of the source, and runs schedules of the simulation on it.

usage: generated_mutants.py [--seed 1] [--count 300] [--schedules 400] [--processes 1] [--world NAME] [--within FILE ...] [--tests FILE ...] [--results FILE] [--list]

Candidates are all such places in FOLDERS on lines that the simulation runs (COVERAGE_SEEDS seeds of each world tell which), or with --within all in these
files or folders below src/rowlock; the seed draws `count` of them.  Each mutant runs the files of `tests`, and then up to `schedules` small schedules, the
worlds in turn or all of one, until a test fails or a schedule breaks a promise.  With --results, a line of JSON for each
mutant is added to the file, and those that it holds are not run again.  Prints the tally, and every mutant that no schedule shows.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
FOLDERS = ("transaction", "conflict", "log", "locks", "storage", "boundary")
COVERAGE_SEEDS = 20
MOST_S = 300
"""A mutant whose schedules take longer hangs, which a schedule shows by its end."""

RUN = """
import sys
from rowlock_simulation.campaign import keep_what_is_loaded
from rowlock_simulation.plans import WORLDS as worlds, plan_of
from rowlock_simulation.run import run
keep_what_is_loaded()
most = int(sys.argv[1])
worlds = [w for w in worlds if sys.argv[2] in ("all", w)]
for n in range(most):
    world, seed = worlds[n % len(worlds)], 10_000 + n // len(worlds)
    result = run(plan_of(world, seed))
    if result.violations:
        print(f"{n + 1} {world} {seed} {result.violations[0]}"[:240])
        sys.exit(1)
"""
LINES = """
import json, sys, threading
seen = {}
prefix = sys.argv[1]
def trace(frame, event, arg):
    if frame.f_code.co_filename.startswith(prefix):
        seen.setdefault(frame.f_code.co_filename[len(prefix):], set()).add(frame.f_lineno)
        return trace
    return None
threading.settrace(trace)
sys.settrace(trace)
from rowlock_simulation.plans import WORLDS, plan_of
from rowlock_simulation.run import run
for seed in range(int(sys.argv[2])):
    for world in WORLDS:
        run(plan_of(world, seed))
sys.settrace(None)
print(json.dumps({k: sorted(v) for k, v in seen.items()}))
"""
_OTHER: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a file that can be changed: the number of its node in the order of `ast.walk`, and how."""

    file: str
    line: int
    node: int
    how: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.how} #{self.node}"


def _kinds(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _OTHER:
        yield "comparison"
    if isinstance(node, ast.BoolOp):
        yield "and/or"
    if isinstance(node, (ast.If, ast.IfExp)):
        yield "condition"
    if isinstance(node, ast.If) and isinstance(node.body[-1], (ast.Return, ast.Continue)) and not node.orelse:
        yield "early return"
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield "constant"
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        yield "plus/minus"
    body = getattr(node, "body", None)
    if isinstance(body, list) and _two_calls(body) is not None:
        yield "order of calls"


def _executed() -> dict[str, list[int]]:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    told = subprocess.run([sys.executable, "-c", LINES, f"{SOURCE}/", str(COVERAGE_SEEDS)], env=environment, capture_output=True, text=True, check=True)
    return dict(json.loads(told.stdout))


def _two_calls(body: list[ast.stmt]) -> int | None:
    """Where two calls whose answers nobody takes stand one after the other; None if there are none."""
    calls = [isinstance(s, ast.Expr) and isinstance(s.value, ast.Call) for s in body]
    return next((n for n in range(len(calls) - 1) if calls[n] and calls[n + 1]), None)


def places(within: Sequence[str], executed: dict[str, list[int]] | None) -> list[Place]:
    """All places in these files and folders that are inside of functions, and on executed lines where those are known."""
    out = []
    for name in within:
        root = SOURCE / "rowlock" / name
        for path in [root] if root.is_file() else sorted(root.rglob("*.py")):
            file = str(path.relative_to(SOURCE))
            lines = None if executed is None else set(executed.get(file, ()))
            nodes = list(ast.walk(ast.parse(path.read_text())))
            inside = {id(n) for f in nodes if isinstance(f, ast.FunctionDef) for part in f.body for n in ast.walk(part)}
            out += [
                Place(file, node.lineno, n, how)
                for n, node in enumerate(nodes)
                if id(node) in inside and (lines is None or _at(node) in lines)
                for how in _kinds(node)
            ]  # type: ignore[attr-defined]
    return out


def _at(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


def mutated(place: Place) -> tuple[str, str, str]:
    """The file with the change, and the changed statement before and after."""
    tree = ast.parse((SOURCE / place.file).read_text())
    node: Any = list(ast.walk(tree))[place.node]
    shown = node if not isinstance(node, ast.Constant) else [s for s in ast.walk(tree) if isinstance(s, ast.stmt) and node in ast.walk(s)][-1]
    before = ast.unparse(shown)
    match place.how:
        case "comparison":
            node.ops[0] = _OTHER[type(node.ops[0])]()
        case "and/or":
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        case "condition":
            node.test = ast.UnaryOp(ast.Not(), node.test)
        case "early return":
            node.body = [ast.Pass()]
        case "constant":
            node.value += 1
        case "plus/minus":
            node.op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        case _:
            n = _two_calls(node.body)
            assert n is not None
            node.body[n], node.body[n + 1] = node.body[n + 1], node.body[n]
    ast.fix_missing_locations(tree)
    return ast.unparse(tree), before[:160], ast.unparse(shown)[:160]


def verdict(place: Place, tests: Sequence[str], schedules: int, world: str) -> dict[str, Any]:
    """Runs one mutant; what became of it."""
    text, before, after = mutated(place)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        src = Path(folder) / "src"
        shutil.copytree(SOURCE, src, ignore=shutil.ignore_patterns("*.java"))  # with what is compiled already
        (src / place.file).write_text(text)
        environment = {**os.environ, "PYTHONPATH": f"{src}{os.pathsep}{ROOT / 'tests'}"}
        fate = _failing(src, tests, environment) if tests else "survived"
        if fate == "survived":
            fate = _ran([sys.executable, "-c", RUN, str(schedules), world], environment, lambda done: done.stdout.strip() or done.stderr.strip()[-200:])
    return {"place": str(place), "before": before, "after": after, "fate": fate, "seconds": round(time.monotonic() - began, 1)}


def _failing(src: Path, tests: Sequence[str], environment: dict[str, str]) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not soak", "-o", f"pythonpath={src} tests", *tests]
    return _ran(
        command, environment, lambda done: next((line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))), done.stdout[-200:])
    )


def _ran(command: Sequence[str], environment: dict[str, str], told: Callable[[subprocess.CompletedProcess[str]], str]) -> str:
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=MOST_S)
    except subprocess.TimeoutExpired:
        return f"hangs: not over after {MOST_S} s"
    return "survived" if done.returncode == 0 else " ".join(told(done).split())[:240] or "ends"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--schedules", type=int, default=400)
    parser.add_argument("--processes", type=int, default=1, help="how many mutants run at a time")
    parser.add_argument("--world", default="all", help="the world of all schedules")
    parser.add_argument("--within", nargs="+", default=[], help="files or folders below src/rowlock, in place of FOLDERS where the simulation comes by")
    parser.add_argument("--tests", nargs="+", default=[], help="files of tests that each mutant runs first")
    parser.add_argument("--results", type=Path, default=Path("generated-mutants.jsonl"))
    parser.add_argument("--list", action="store_true", help="print the drawn places and run nothing")
    given = parser.parse_args()
    every = places(given.within, None) if given.within else places(FOLDERS, _executed())
    drawn = random.Random(given.seed).sample(every, min(given.count, len(every)))
    if given.list:
        print(len(every), "places;", Counter(p.how for p in every))
        for place in drawn:
            _, before, after = mutated(place)
            print(f"{place}\n    {before}\n    {after}")
        return 0
    done = [json.loads(line) for line in given.results.read_text().splitlines()] if given.results.exists() else []
    known = {line["place"] for line in done}
    with ThreadPoolExecutor(given.processes) as pool:
        running = [pool.submit(verdict, place, given.tests, given.schedules, given.world) for place in drawn if str(place) not in known]
        for found in as_completed(running):
            done.append(found.result())
            print(f"{len(done)}/{len(drawn)} {done[-1]['place']}: {done[-1]['fate']} ({done[-1]['seconds']} s)", flush=True)
            with given.results.open("a") as f:
                f.write(json.dumps(done[-1]) + "\n")
    survivors = [line for line in done if line["fate"] == "survived"]
    print(f"{len(done)} of {len(every)} places changed: {len(done) - len(survivors)} found, {len(survivors)} survived {given.schedules} schedules")
    for line in survivors:
        print(f"  {line['place']}\n    {line['before']}\n    {line['after']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
