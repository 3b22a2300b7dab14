"""Makes a plan that breaks a promise smaller: leaves out actors, faults and actions for as long as something is still broken."""

from __future__ import annotations

from collections.abc import Callable

from rowlock_simulation.plan import Plan
from rowlock_simulation.run import Result, run


def shrink(plan: Plan, *, most_runs: int = 60, on_progress: Callable[[str], object] = lambda _: None) -> tuple[tuple[str, ...], Result]:
    """(the names of what was left out, what came of the rest): a plan that still breaks something, after at most so many runs."""
    gone: tuple[str, ...] = ()
    result, runs = run(plan), 1
    for part in plan.parts:
        if runs >= most_runs:
            break
        if part.partition(".")[0] in gone:
            continue
        smaller = plan.without((*gone, part))
        if not smaller.actors:
            continue
        found, runs = run(smaller), runs + 1
        if found.violations:
            gone, result = (*gone, part), found
            on_progress(f"still broken without {part}")
    return gone, result
