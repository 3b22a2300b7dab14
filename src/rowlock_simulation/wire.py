"""The way between a simulated process and its store: every call is a scheduling point, takes time, and may go wrong as the plan says."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from rowlock_simulation.plan import Fault, FaultKind, Weather
from rowlock_simulation.scheduler import Crashed, Process, Scheduler

_COMMIT_NAME = 25
"""The length of the name of a commit file: 20 digits and `.json`."""

_ANYWHERE: frozenset[FaultKind] = frozenset(("crash before", "crash after", "stall", "partition", "clock jump", "interrupt"))
"""What may go wrong with every call."""

_MAKES_COMMITS = frozenset(("create", "link", "rename", "claim", "claim all"))


def is_commit(key: str) -> bool:
    """Whether a key is that of a commit file."""
    if not key.endswith(".json"):
        return False
    folder, _, name = key.rpartition("/")
    return len(name) == _COMMIT_NAME and folder.endswith("_delta_log") and name[:20].isdigit()


@dataclass
class Counted:
    """The calls of one process name so far, over all its lives, and the faults that are still to come."""

    faults: list[Fault]
    calls: int = 0
    commits: int = 0
    cut_off_until_us: int = 0


class Wire:
    """The way of one process to its store."""

    def __init__(self, scheduler: Scheduler, process: Process, weather: Weather, counted: Counted) -> None:
        self.scheduler, self.process, self._weather, self._counted = scheduler, process, weather, counted
        self.on_power_loss: Callable[[], None] | None = None
        """Ends the machine that the process runs on; None where processes are on machines of their own."""
        self._rng = random.Random(f"{scheduler.random.random()} wire {process.name}")
        self._bits = weather.slow_each.bit_length()
        self._made: dict[str, Any] = {}

    def made(self, name: str, make: Callable[[], Any]) -> Any:
        """What the process has one of, for all tables: a client."""
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    def travel(self) -> None:
        """Lets the time pass that a message takes."""
        w, rng = self._weather, self._rng
        while (n := rng.getrandbits(self._bits)) >= w.slow_each:  # as `randrange` does, which takes four times as long
            pass
        ms = -math.log(1 - rng.random()) / (1 / w.usual) if n else rng.uniform(w.usual, w.slow)
        self.scheduler.pause(ms / 1000)

    def depart(self, what: str, key: str, possible: Collection[FaultKind]) -> Fault | None:
        """Sends a call; returns what goes wrong with it of what is `possible`.  Raises Crashed where the process dies first."""
        counted = self._counted
        counted.calls += 1
        counted.commits += what in _MAKES_COMMITS and is_commit(key)
        fault = self._next(possible) if counted.faults else None
        if fault is not None:
            self.scheduler.note(f"{what} {key}: {fault.kind}", fault.kind)
            if fault.kind == "crash before":
                self.die()
            elif fault.kind == "power loss":
                assert self.on_power_loss is not None
                self.on_power_loss()
                self.die()
            elif fault.kind == "stall":
                self.scheduler.pause(fault.seconds)
            elif fault.kind == "partition":
                counted.cut_off_until_us = self.scheduler.now_us + round(fault.seconds * 1e6)
            elif fault.kind == "interrupt" and (task := self.scheduler.current) is not None:
                self.scheduler.at(fault.seconds, lambda: self.scheduler.interrupt(task))
            elif fault.kind == "clock jump":
                self.process.skew_ms += round(fault.seconds * 1000)
        self.travel()
        return fault

    @property
    def is_cut_off(self) -> bool:
        """Whether nothing comes through now."""
        return self.scheduler.now_us < self._counted.cut_off_until_us

    def _next(self, possible: Collection[FaultKind]) -> Fault | None:
        c = self._counted
        for n, fault in enumerate(c.faults):
            may_be = fault.kind in _ANYWHERE or fault.kind in possible or (fault.kind == "power loss" and self.on_power_loss is not None)
            if may_be and (c.calls if fault.only == "calls" else c.commits) >= fault.nth:
                return c.faults.pop(n)
        return None

    def die(self) -> NoReturn:
        """Kills the process at this point."""
        self.scheduler.crash(self.process)
        raise Crashed


def counted_of(faults: Sequence[Fault], process: str) -> Counted:
    """The faults of one process, in the order in which they come."""
    return Counted(sorted((f for f in faults if f.process == process), key=lambda f: f.nth))
