"""Runs many seeds one after another, writes down what came of each, and goes on where an earlier campaign stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from rowlock import clock
from rowlock_simulation.draw import draw
from rowlock_simulation.plan import World
from rowlock_simulation.run import Result, run

WORLDS: tuple[World, ...] = ("s3", "local", "dynamodb")
LEAST_POINTS, LEAST_COMMITS, LEAST_FAULTS = 200, 10, 1
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
        self.faults += result.faults_met
        self.short += result.points < LEAST_POINTS or result.transactions < LEAST_COMMITS or result.faults_met < LEAST_FAULTS
        self.seconds += seconds
        self.hashes.add(result.trace_hash)
        if result.violations:
            self.failed.append((result.plan.world, result.plan.seed, result.violations))

    def text(self) -> str:
        """The summary as one line."""
        n = max(1, self.schedules)
        return (
            f"{self.schedules} schedules, {len(self.hashes)} distinct, {len(self.failed)} with violations, {self.short} short; on average {self.points / n:.0f} scheduling points, "
            f"{self.commits / n:.1f} commits, {self.faults / n:.1f} faults; {self.schedules / max(1e-9, self.seconds):.1f} schedules per second"
        )


def campaign(
    worlds: Sequence[World],
    seeds: Iterator[int],
    *,
    until_s: float | None = None,
    results: Path | None = None,
    on_result: Callable[[Result, Summary], object] = lambda *_: None,
) -> Summary:
    """Runs each seed in each world until the time is over.  `results`: a file with a line of JSON for each schedule; those that it has are passed over."""
    summary, began = Summary(), clock.monotonic_s()
    known = set(_known(results)) if results is not None else set()
    for seed in seeds:
        for world in worlds:
            if until_s is not None and clock.monotonic_s() - began >= until_s:
                return summary
            if (world, seed) in known:
                continue
            start = clock.monotonic_s()
            result = run(draw(world, seed))
            summary.add(result, clock.monotonic_s() - start)
            if results is not None:
                _write(results, result)
            on_result(result, summary)
    return summary


def _known(results: Path) -> Iterator[tuple[str, int]]:
    if results.exists():
        for line in results.read_bytes().splitlines():
            if line.endswith(b"}"):  # the last one may have been cut off
                found = orjson.loads(line)
                yield found["world"], found["seed"]


def _write(results: Path, result: Result) -> None:
    line = {
        "world": result.plan.world,
        "seed": result.plan.seed,
        "trace": result.trace_hash,
        "points": result.points,
        "commits": result.commits,
        "faults": result.faults_met,
        "violations": result.violations,
    }
    with results.open("ab") as f:
        f.write(orjson.dumps(line) + b"\n")


def replay_command(world: World, seed: int, without: Sequence[str] = ()) -> str:
    """The command that runs one schedule again and prints its trace."""
    return f"rowlock simulate --world {world} --seed {seed} --trace" + (f" --without {','.join(without)}" if without else "")
