"""Changes one operator, condition, constant or order of calls at a time in a copy of the source, and runs schedules of the simulation on it.

usage: generated_mutants.py [--seed 1] [--count 300] [--schedules 400] [--seeds 300] [--processes 1] [--world NAME] [--within FILE ...] [--tests FILE ...] [--results FILE] [--list]

Candidates are all such places in FOLDERS on lines that the simulation runs (see `simulated_coverage.py`, which measures `seeds` seeds of each world), or
with --within all in these files or folders below src/rowlock; the seed draws `count` of them.  Each mutant runs the files of `tests`, and then up to
`schedules` of those schedules that come by its line, the worlds in turn, until a test fails or a schedule breaks a promise: the others run as without
the change.  With --results, a line of JSON for each mutant is added to the file, and what was measured is kept beside it; run again, it goes on where it
stopped, and with more schedules for those that survived.  Prints the tally, and every mutant that no schedule shows.
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib
import json
import multiprocessing
import os
import random
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from simulated_coverage import FOLDERS, SOURCE, measure

from rowlock_simulation.campaign import keep_what_is_loaded
from rowlock_simulation.plans import plan_of
from rowlock_simulation.run import run

FIRST = 10_000
MOST_S = 900
"""A mutant whose schedules or tests take longer hangs; so does one whose schedules take MOST_CPU_S of a processor."""
MOST_CPU_S = 200
SURVIVED = "survived"

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


def _two_calls(body: list[ast.stmt]) -> int | None:
    """Where two calls whose answers nobody takes stand one after the other; None if there are none."""
    calls = [isinstance(s, ast.Expr) and isinstance(s.value, ast.Call) for s in body]
    return next((n for n in range(len(calls) - 1) if calls[n] and calls[n + 1]), None)


def places(within: Sequence[str], executed: Mapping[str, Mapping[int, Sequence[str]]] | None) -> list[Place]:
    """All places in these files and folders that are inside of functions, and on executed lines where those are known."""
    out = []
    for name in within:
        root = SOURCE / "rowlock" / name
        for path in [root] if root.is_file() else sorted(root.rglob("*.py")):
            file = str(path.relative_to(SOURCE))
            lines = None if executed is None else executed.get(file, {})
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


def mutated(place: Place) -> tuple[ast.Module, str, str]:
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
            node.body = [ast.copy_location(ast.Pass(), node.body[0])]
        case "constant":
            node.value += 1
        case "plus/minus":
            node.op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        case _:
            n = _two_calls(node.body)
            assert n is not None
            node.body[n], node.body[n + 1] = node.body[n + 1], node.body[n]
    return ast.fix_missing_locations(tree), before[:160], ast.unparse(shown)[:160]


def put_into_memory(place: Place) -> None:
    """Gives the functions of this process that are affected the changed code, whoever holds them."""
    path = str(SOURCE / place.file)
    changed = {(c.co_qualname, c.co_firstlineno): c for c in _codes(compile(mutated(place)[0], path, "exec"))}
    gc.unfreeze()
    held = [f for f in gc.get_objects() if isinstance(f, FunctionType) and f.__code__.co_filename == path]
    affected = [(f, new) for f in held if (new := changed.get((f.__code__.co_qualname, f.__code__.co_firstlineno))) not in (None, f.__code__)]
    assert affected, f"nothing runs {place}"
    for function, code in affected:
        function.__code__ = code
    keep_what_is_loaded()


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _fate(place: Place, tests: Sequence[str], schedules: Sequence[str]) -> str:
    """What becomes of one mutant, in a process that ends then."""
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_S, MOST_CPU_S + 1))
    signal.alarm(MOST_S)
    put_into_memory(place)
    if tests and (code := pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-m", "not soak", "--no-header", "--no-summary", *tests])):
        return f"a test fails ({int(code)})"
    for n, (world, seed) in enumerate(s.split() for s in schedules):
        result = run(plan_of(world, int(seed)))  # type: ignore[arg-type]
        if result.violations:
            return f"{n + 1} {world} {seed} {result.violations[0]}"[:240]
    return SURVIVED


def _child(place: Place, tests: Sequence[str], schedules: Sequence[str], told: Connection) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    try:
        fate = _fate(place, tests, schedules)
    except BaseException as e:
        fate = f"{type(e).__name__}: {e}"[:240]
    told.send(fate)
    os._exit(0)


def fates(asked: Sequence[tuple[Place, list[str], int]], tests: Sequence[str], processes: int) -> Iterator[dict[str, Any]]:
    """Runs mutants on the tests and on these schedules, from the given number on; what became of each, in a process of its own."""
    fork, waiting = multiprocessing.get_context("fork"), list(reversed(asked))
    running: dict[Any, tuple[Place, int, int, float, Any, Any]] = {}
    while waiting or running:
        while waiting and len(running) < processes:
            place, schedules, known = waiting.pop()
            heard, told = fork.Pipe(duplex=False)
            child = fork.Process(target=_child, args=(place, [] if known else tests, schedules[known:], told))
            child.start()
            told.close()
            running[child.sentinel] = place, known, len(schedules), time.monotonic(), child, heard
        for sentinel in wait(list(running)):
            place, known, many, began, child, heard = running.pop(sentinel)
            child.join()
            try:
                fate = heard.recv()
            except EOFError:
                fate = f"hangs, or ends by signal {-(child.exitcode or 0)}"
            _, was, became = mutated(place)
            yield {
                "place": str(place),
                "before": was,
                "after": became,
                "fate": fate,
                "after_schedules": known,
                "schedules": many,
                "seconds": round(time.monotonic() - began, 1),
            }


def _measured(given: argparse.Namespace) -> dict[str, dict[int, list[str]]]:
    """The schedules that come by each line of each file, kept beside the results."""
    kept = given.results.with_suffix(".coverage.json")
    if not kept.exists():
        measured = measure(given.within or FOLDERS, first=FIRST, seeds=given.seeds, world=given.world)
        kept.write_text(json.dumps({m.file: m.schedules for m in measured}))
    return {file: {int(line): schedules for line, schedules in lines.items() if schedules} for file, lines in json.loads(kept.read_text()).items()}


def load_everything() -> None:
    """Loads what mutants run, once for all."""
    for path in sorted((SOURCE / "rowlock").rglob("*.py")):
        if path.relative_to(SOURCE / "rowlock").parts[0] in FOLDERS:
            importlib.import_module(".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"))
    keep_what_is_loaded()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--schedules", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=300, help="how many seeds of each world the schedules are taken from")
    parser.add_argument("--processes", type=int, default=1, help="how many mutants run at a time")
    parser.add_argument("--world", default="all", help="the world of all schedules")
    parser.add_argument("--within", nargs="+", default=[], help="files or folders below src/rowlock, in place of FOLDERS where the simulation comes by")
    parser.add_argument("--tests", nargs="+", default=[], help="files of tests that each mutant runs first")
    parser.add_argument("--results", type=Path, default=Path("generated-mutants.jsonl"))
    parser.add_argument("--list", action="store_true", help="print the drawn places and run nothing")
    given = parser.parse_args()
    come_by = _measured(given)
    every = places(given.within or FOLDERS, None if given.within else come_by)
    drawn = random.Random(given.seed).sample(every, min(given.count, len(every)))
    if given.list:
        print(len(every), "places;", Counter(p.how for p in every))
        for place in drawn:
            _, before, after = mutated(place)
            print(f"{place}\n    {before}\n    {after}")
        return 0
    done = {line["place"]: line for line in map(json.loads, given.results.read_text().splitlines())} if given.results.exists() else {}
    asked = []
    for place in drawn:
        schedules, before = come_by.get(place.file, {}).get(place.line, [])[: given.schedules], done.get(str(place))
        if before is None or (before["fate"] == SURVIVED and before["schedules"] < len(schedules)):
            asked.append((place, schedules, before["schedules"] if before else 0))
    load_everything()
    for n, line in enumerate(fates(asked, given.tests, given.processes)):
        done[line["place"]] = line
        print(f"{n + 1}/{len(asked)} {line['place']}: {line['fate']} ({line['schedules']} schedules, {line['seconds']} s)", flush=True)
        with given.results.open("a") as f:
            f.write(json.dumps(line) + "\n")
    survivors = [line for line in done.values() if line["fate"] == SURVIVED]
    print(f"{len(done)} of {len(every)} places changed: {len(done) - len(survivors)} found, {len(survivors)} survived up to {given.schedules} schedules")
    for line in survivors:
        print(f"  {line['place']}\n    {line['before']}\n    {line['after']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
