"""The times of a run's phases, as far as its record holds them.  Pure.

A record holds when a run began, when it ended, and how many seconds each phase took in all; not when each began.
Phases are therefore placed in the order of a commit: planned, waited for a lease and staged from the beginning on;
waited for a turn, rebased, wrote and put up to the end.  What lies between is not recorded: the caller's own code.
"""

from __future__ import annotations

from dataclasses import dataclass

from rowlock.advice.history import Run

WORDS = {
    "plan": "planned",
    "lock": "waited for a lease",
    "stage": "staged",
    "wait": "waited for others",
    "rebase": "rebased",
    "write": "wrote files",
    "put": "put in vain",
    "all": "ran",
}
"""The phases in their order, and the word for each."""
_FIRST = ("plan", "lock", "stage", "all")
_LAST = ("wait", "rebase", "write", "put")


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase of a run, from `begin_ms` to `end_ms` since the epoch; `seconds` is the recorded duration."""

    name: str
    begin_ms: float
    end_ms: float
    seconds: float


def begin_of(run: Run) -> float:
    """When a run began, in milliseconds since the epoch; its end where that is unknown, 0 where no time is known at all."""
    end = run.at_ms or 0
    return float(min(end, end if run.began_ms is None else run.began_ms))  # never an integer that no float is equal to


def phases_of(run: Run) -> list[Phase]:
    """The recorded phases of a run in their order; shortened alike where they took longer in sum than the run did (by threads, or by a clock that was set)."""
    begin, end = begin_of(run), float(run.at_ms or 0)
    known = sum(run.seconds.get(name, 0.0) for name in WORDS)
    scale = min(1.0, (end - begin) / (1000 * known)) if known > 0 else 0.0
    lengths = {name: 1000 * scale * run.seconds.get(name, 0.0) for name in WORDS}
    out = []
    for names, at in ((_FIRST, begin), (_LAST, end - sum(lengths[name] for name in _LAST))):
        for name in names:
            if lengths[name] > 0:
                out.append(Phase(name, at, at + lengths[name], run.seconds[name]))
                at += lengths[name]
    return out
