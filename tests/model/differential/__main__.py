"""`python -m model.differential --seeds A:B`: draws cases and runs each by delta-spark and by Rowlock; exits with 1 where a difference is not meant."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

from model.differential.case import Step
from model.differential.compare import Difference, Meant
from model.differential.program import kind_of, program, shrink
from model.differential.runner import Lane, Process, Result, Runner
from model.differential.statements import draw_case


def main() -> int:
    parser = argparse.ArgumentParser(prog="differential", description=__doc__)
    parser.add_argument("--seeds", default="0:20", help="A:B (B is left out)")
    parser.add_argument("--seed", type=int, help="one seed")
    parser.add_argument("--results", default="", help="a file of JSON lines; seeds that it holds are not run again")
    parser.add_argument("--show", action="store_true", help="print the case and run nothing")
    parser.add_argument("--no-shrink", action="store_true", help="leave failing cases as they were drawn")
    parser.add_argument("--pass-over", default="", help="an aspect that is not compared: a regular expression")
    parser.add_argument("--minutes", type=float, default=0, help="begin no case after so many minutes")
    parser.add_argument("--lanes", type=int, default=2, help="cases that run beside each other in the two processes")
    parser.add_argument("--connect", action="store_true", help="Rowlock by a client of `rowlock serve`")
    given = parser.parse_args()
    first, _, last = given.seeds.partition(":")
    seeds = [given.seed] if given.seed is not None else list(range(int(first), int(last or int(first) + 1)))
    if given.show:
        for seed in seeds:
            print(program(draw_case(seed)[0]))
        return 0
    return _run(seeds, given)


def _run(seeds: list[int], given: argparse.Namespace) -> int:
    results = Path(given.results) if given.results else None
    lines: list[dict[str, Any]] = [json.loads(line) for line in results.read_text().splitlines()] if results and results.exists() else []
    done = {line["seed"] for line in lines}
    lines = [line for line in lines if line["seed"] in seeds]
    left = iter([s for s in seeds if s not in done])
    seen = {tuple(kind) for line in lines for kind in line["kinds"]}
    folder, meant = Path(tempfile.mkdtemp(prefix="differential-")), Meant(pass_over=given.pass_over)
    engines = [Process("delta-spark", folder, long=True), Process("rowlock-connect" if given.connect else "rowlock", folder)]
    until = time.monotonic() + 60 * given.minutes if given.minutes else float("inf")
    telling = Lock()

    def work(lane: int) -> None:
        runner = Runner(folder, meant, {name: Lane(engine, lane) for name, engine in zip(("delta-spark", "rowlock"), engines, strict=True)})
        while time.monotonic() < until and (seed := next(left, None)) is not None:
            at = time.monotonic()
            result = runner.run(draw_case(seed)[0])
            line = _line(result, time.monotonic() - at)
            with telling:
                lines.append(line)
                new = [(*found, kind) for found in result.unmeant if (kind := kind_of(*found)) not in seen]
                seen.update(kind for *_, kind in new)
                _told(line, new)
                if results:
                    with results.open("a") as out:
                        out.write(json.dumps(line) + "\n")
            for kind in {} if given.no_shrink else dict.fromkeys(kind for *_, kind in new):
                _small(runner, result, kind)

    for engine in engines:
        engine.answer()
    with ThreadPoolExecutor(given.lanes) as pool:
        list(pool.map(work, range(given.lanes)))
    for engine in engines:
        engine.end()
    print(_tally(lines))
    return 1 if any(line["unmeant"] for line in lines) else 0


def _told(line: dict[str, Any], new: list[tuple[Step, Difference, tuple[str, str, str]]]) -> None:
    print(
        f"{line['seed']}: {line['statements']} statements in {line['seconds']} s, {line['failed_alike']} failed alike, {line['unmeant']} differences {line['void']}",
        flush=True,
    )
    for step, found, _ in new:
        print(f"  {step.text}\n  {found.text()}", flush=True)


def _line(result: Result, seconds: float) -> dict[str, Any]:
    return {
        "seed": result.case.seed, "statements": result.statements, "failed_alike": result.failed_alike, "void": result.void, "seconds": round(seconds, 1),
        "unmeant": len(result.unmeant), "kinds": sorted({kind_of(*found) for found in result.unmeant}),
        "differences": [f"{step.text}\n  {found.text()}" for step, found in result.unmeant],
        "meant": Counter(reason for *_, reason in result.found if reason),
        "steps": Counter(step.kind for step in result.case.steps[: result.statements]),
    }  # fmt: skip


def _small(runner: Runner, result: Result, kind: tuple[str, str, str]) -> None:
    smallest = shrink(runner, result.case.seed, kind) or result
    for step, found in smallest.unmeant:
        if kind_of(step, found) == kind:
            print(f"---- smallest, of seed {result.case.seed}:\n{found.text()}\n\n{program(smallest.case)}----", flush=True)
            return


def _tally(lines: list[dict[str, Any]]) -> str:
    ran = [line for line in lines if line["statements"]]
    meant: Counter[str] = sum((Counter(line["meant"]) for line in lines), Counter())
    steps: Counter[str] = sum((Counter(line["steps"]) for line in lines), Counter())
    out = [f"{len(ran)} cases, {sum(line['statements'] for line in ran)} statements, {sum(line['failed_alike'] for line in ran)} failed alike"]
    out.append("  " + ", ".join(f"{kind} {count}" for kind, count in steps.most_common()))
    out += [f"  {count} times meant: {reason}" for reason, count in meant.most_common()]
    out.append(
        f"{len(lines) - len(ran)} cases whose table cannot be made; {sum(bool(line['unmeant']) for line in lines)} cases with a difference that is not meant"
    )
    return "\n".join(out)


if __name__ == "__main__":
    sys.exit(main())
