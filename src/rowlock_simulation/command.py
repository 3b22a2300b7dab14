"""`rowlock simulate`: schedules of the real code in simulated worlds, by seed."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from rowlock.exceptions import InvalidInput
from rowlock_simulation.campaign import Summary, campaign, campaign_of_processes, covered, replay_command
from rowlock_simulation.picture import drawn
from rowlock_simulation.plan import World
from rowlock_simulation.plans import WORLDS, plan_of
from rowlock_simulation.run import Result, run
from rowlock_simulation.shrink import shrink

_PRINTED_EACH = 50


@dataclass(frozen=True, slots=True)
class Choices:
    """The options of the command."""

    world: str
    seed: int | None
    seeds: str | None
    minutes: float | None
    results: Path | None
    trace: bool
    without: tuple[str, ...]
    smaller: bool
    processes: int = 1
    picture: Path | None = None


def simulate(choices: Choices, console: Console) -> bool:
    """Runs what was asked for; returns whether no promise was broken.  Raises InvalidInput."""
    worlds = _worlds(choices.world)
    if choices.seed is not None and choices.minutes is None and choices.seeds is None:
        intact = [_replay(world, choices.seed, choices, console) for world in worlds]
        return all(intact)

    def report(result: Result, summary: Summary) -> None:
        if result.violations:
            _print_violations(result, console)
        elif summary.schedules % _PRINTED_EACH == 0:
            console.print(f"seed {result.plan.seed}: {summary.text()}", highlight=False)

    seconds = choices.minutes * 60 if choices.minutes is not None else None
    first, end = _seeds(choices)
    if choices.processes > 1:
        summary = campaign_of_processes(choices.processes, worlds, first, end, until_s=seconds, results=choices.results)
    else:
        seeds = itertools.count(first) if end is None else range(first, end)
        summary = campaign(worlds, seeds, until_s=seconds, results=choices.results, on_result=report)
    console.print(summary.text(), highlight=False)
    for line in covered(choices.results) if choices.results is not None else ():
        console.print(line, highlight=False, soft_wrap=True)
    for world, seed, _ in summary.failed:
        console.print(replay_command(world, seed), highlight=False, soft_wrap=True)
        if choices.smaller:
            gone, _ = shrink(plan_of(world, seed))
            console.print(replay_command(world, seed, gone), highlight=False, soft_wrap=True)
    return not summary.failed


def _worlds(named: str) -> list[World]:
    if named == "all":
        return list(WORLDS)
    if named not in WORLDS:
        raise InvalidInput(f"there is no world {named!r}: choose {', '.join(WORLDS)} or all")
    return [world for world in WORLDS if world == named]


def _seeds(choices: Choices) -> tuple[int, int | None]:
    """The first seed, and the one that ends the campaign; None where the time does."""
    if choices.seeds is not None:
        first, _, last = choices.seeds.partition(":")
        if not (first.isdigit() and last.isdigit() and int(first) < int(last)):
            raise InvalidInput(f"--seeds takes FIRST:END, such as 0:1000, not {choices.seeds!r}")
        return int(first), int(last)
    return (0, 100) if choices.minutes is None else (choices.seed or 0, None)


def _replay(world: World, seed: int, choices: Choices, console: Console) -> bool:
    plan = plan_of(world, seed).without(choices.without)
    gone = choices.without
    if choices.smaller and run(plan).violations:
        more, _ = shrink(plan)
        plan, gone = plan.without(more), (*gone, *more)
        console.print(f"smaller: {replay_command(world, seed, gone)}", highlight=False, soft_wrap=True)
    result = run(plan)
    if choices.trace:
        for line in (*plan.described(), *result.trace.lines()):
            console.print(line, highlight=False, markup=False, soft_wrap=True)
    if choices.picture is not None:
        choices.picture.write_text(drawn(result), encoding="utf-8")
    console.print(f"{world} {seed}: trace {result.trace_hash}, {result.points} scheduling points, {result.commits} commits", highlight=False)
    if result.violations:
        _print_violations(result, console, gone)
    return not result.violations


def _print_violations(result: Result, console: Console, without: tuple[str, ...] = ()) -> None:
    console.print(f"[bold red]{result.plan.world} {result.plan.seed} broke {len(result.violations)} promises[/]", highlight=False)
    for violation in result.violations[:10]:
        console.print(f"  {violation}", highlight=False, markup=False, soft_wrap=True)
    console.print(f"  again: {replay_command(result.plan.world, result.plan.seed, without)}", highlight=False, soft_wrap=True)
