"""Runs many seeds, writes down what came of each, goes on where an earlier campaign stopped, and tells what was covered."""

from __future__ import annotations

import gc
import itertools
import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from rowlock import clock
from rowlock_simulation.plan import World
from rowlock_simulation.plans import plan_of
from rowlock_simulation.run import Result, run

LEAST_POINTS, LEAST_COMMITS, LEAST_FAULTS = 150, 6, 1
"""A schedule with fewer scheduling points, committed actions or faults that came is short."""


@dataclass
class Summary:
    """What a campaign has run so far."""

    schedules: int = 0
    points: int = 0
    commits: int = 0
    faults: int = 0
    short: int = 0
    seconds: float = 0.0
    hashes: set[str] = field(default_factory=set)
    failed: list[tuple[World, int, list[str]]] = field(default_factory=list)

    def add(self, result: Result, seconds: float) -> None:
        """Takes the result of one schedule in."""
        self.schedules += 1
        self.points += result.points
        self.commits += result.commits
        self.faults += result.met.total()
        fair = bool(result.plan.faults) and result.met.total() < LEAST_FAULTS
        self.short += result.points < LEAST_POINTS or result.transactions < LEAST_COMMITS or fair
        self.seconds += seconds
        self.hashes.add(result.trace_hash)
        if result.violations:
            self.failed.append((result.plan.world, result.plan.seed, result.violations))

    def take(self, other: Summary) -> None:
        """Takes in what another process has run."""
        for name in ("schedules", "points", "commits", "faults", "short"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.hashes |= other.hashes
        self.failed += other.failed

    def text(self) -> str:
        """The summary as one line."""
        n = max(1, self.schedules)
        return (
            f"{self.schedules} schedules, {len(self.hashes)} distinct, {len(self.failed)} with violations, {self.short} short; on average {self.points / n:.0f} scheduling points, "
            f"{self.commits / n:.1f} commits, {self.faults / n:.1f} faults; {self.schedules / max(1e-9, self.seconds):.1f} schedules per second"
        )


def keep_what_is_loaded() -> None:
    """Spares the garbage collector what is loaded, which lasts and need not be looked over again, and most of its rounds."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def campaign(
    worlds: Sequence[World],
    seeds: Iterable[int],
    *,
    until_s: float | None = None,
    results: Path | None = None,
    on_result: Callable[[Result, Summary], object] = lambda *_: None,
) -> Summary:
    """Runs each seed in each world until the time is over.  `results`: a file with a line of JSON for each schedule; those that it has are passed over."""
    summary, began = Summary(), clock.monotonic_s()
    keep_what_is_loaded()
    known = {(line["world"], line["seed"]) for line in _known(results)} if results is not None else set()
    for seed in seeds:
        for world in worlds:
            if until_s is not None and clock.monotonic_s() - began >= until_s:
                return summary
            if (world, seed) in known:
                continue
            start = clock.monotonic_s()
            result = run(plan_of(world, seed))
            summary.add(result, clock.monotonic_s() - start)
            if results is not None:
                _write(results, result)
            on_result(result, summary)
    return summary


def campaign_of_processes(
    processes: int, worlds: Sequence[World], first: int, end: int | None, *, until_s: float | None = None, results: Path | None = None
) -> Summary:
    """The seeds from `first` to before `end`, or without end until the time is over, in several processes: one for each core is the fastest."""
    began, summary = clock.monotonic_s(), Summary()
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        shares = [pool.submit(_share, worlds, first + n, end, processes, until_s, results) for n in range(processes)]
        for share in shares:
            summary.take(share.result())
    summary.seconds = clock.monotonic_s() - began
    return summary


def _share(worlds: Sequence[World], first: int, end: int | None, step: int, until_s: float | None, results: Path | None) -> Summary:
    return campaign(worlds, itertools.count(first, step) if end is None else range(first, end, step), until_s=until_s, results=results)


def _known(results: Path) -> Iterator[dict[str, Any]]:
    if results.exists():
        with results.open("rb") as lines:
            for line in lines:
                if line.endswith(b"}\n"):  # the last one may have been cut off
                    yield orjson.loads(line)


def _write(results: Path, result: Result) -> None:
    line = {
        "world": result.plan.world,
        "seed": result.plan.seed,
        "theme": result.plan.theme,
        "trace": result.trace_hash,
        "points": result.points,
        "commits": result.commits,
        "did": result.did,
        "met": result.met,
        "violations": result.violations,
    }
    with results.open("ab") as f:
        f.write(orjson.dumps(line) + b"\n")


def covered(results: Path) -> list[str]:
    """What the schedules in a file of results have covered, over all campaigns that wrote to it."""
    schedules, of, hashes, broken = Counter[str](), {"theme": Counter[str](), "did": Counter[str](), "met": Counter[str]()}, set[str](), 0
    for line in _known(results):
        schedules[line["world"]] += 1
        hashes.add(line["trace"][:16])
        broken += bool(line["violations"])
        of["theme"][line["theme"]] += 1
        of["did"].update(line["did"])
        of["met"].update(line["met"])
    each = ", ".join(f"{world} {n}" for world, n in sorted(schedules.items()))
    return [
        f"{results}: {schedules.total()} schedules ({each}), {len(hashes)} distinct, {broken} with violations",
        *(f"{title}: {_counts(of[name])}" for title, name in (("themes", "theme"), ("actions and their ends", "did"), ("faults that came", "met"))),
    ]


def _counts(counted: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {n}" for name, n in sorted(counted.items()))


def replay_command(world: World, seed: int, without: Sequence[str] = ()) -> str:
    """The command that runs one schedule again and prints its trace."""
    return f"rowlock simulate --world {world} --seed {seed} --trace" + (f" --without {','.join(without)}" if without else "")
