"""Plans of schedules: which actors do what, and what goes wrong, drawn from a seed.  A plan decides nothing about who runs when."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from rowlock_simulation.actions import Action

World = Literal["s3", "local", "dynamodb", "tables"]
FaultKind = Literal[
    "lost request", "late request", "lost reply", "sent twice", "conflict", "unavailable", "error after", "stale list", "crash before", "crash after", "stall",
    "partition", "clock jump", "disk error", "disk full", "done and denied", "power loss", "interrupt",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong once: at the first call of the process, from its `nth` on, that this can happen to.

    seconds  how long a stall or a partition lasts, how late a request arrives, how old a listing is, by how much a clock jumps
    only     the calls that are counted: `commits` (puts of commit files), or all
    """

    name: str
    process: str
    kind: FaultKind
    nth: int
    seconds: float = 0.0
    only: Literal["calls", "commits"] = "calls"

    def __str__(self) -> str:
        long = f" of {self.seconds:g} s" if self.seconds else ""
        return f"{self.name}: {self.kind}{long} for process {self.process}, from {self.only[:-1]} {self.nth} on"


@dataclass(frozen=True, slots=True)
class ActorPlan:
    """One actor: a thread of a process that carries out its actions one after another."""

    name: str
    process: str
    actions: tuple[Action, ...]
    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Weather:
    """How long a call takes on its way, in milliseconds: `usual` on average; one of `slow_each` takes up to `slow` instead."""

    usual: float
    slow: float
    slow_each: int


@dataclass(frozen=True, slots=True)
class TableOf:
    """One of several tables: the store that it is in, and its properties."""

    store: World
    properties: dict[str, str]


@dataclass(frozen=True, slots=True)
class Plan:
    """All of a schedule but its order: actors, tables, faults."""

    world: World
    seed: int
    properties: dict[str, str]
    accounts: int
    actors: tuple[ActorPlan, ...]
    faults: tuple[Fault, ...]
    weather: Weather
    types: dict[str, str] = field(default_factory=dict)
    """Types of columns that are no longs."""
    numbered: bool = False
    """Whether w is an identity column."""
    generated: dict[str, str] = field(default_factory=dict)
    """The expression of each column that is computed from others; they follow the columns that all tables have."""
    partitioned_by: tuple[str, ...] = ()
    tables: tuple[TableOf, ...] = ()
    """In the world of several tables: these; else there is one, in the store that the world is called by."""
    clones: int = 0
    """How many places there are for clones of the table: tables 1, 2 and so on, in the same store."""
    inline_bytes: int = 16_384
    """What is staged in a table and is longer is posted beside it."""
    theme: str = "everybody"
    """Which actors are likely (`draw.THEMES`)."""
    night_s: float = 0.0
    """Where it is not 0, actors carry out the second half of their actions after so much time: a retention of a day may pass."""
    limits: dict[str, int] = field(default_factory=dict)
    """What is set of `rowlock.limits`."""
    engine: dict[str, Any] = field(default_factory=dict)
    """Options of the engine in memory."""
    takes_s: dict[str, float] = field(default_factory=dict)
    """How long the engine of a process takes for each run of statements over rows, in seconds."""
    skews_ms: dict[str, int] = field(default_factory=dict)
    drifts: dict[str, float] = field(default_factory=dict)

    def without(self, names: Iterable[str]) -> Plan:
        """The plan without these actors (`a1`), actions (`a1.0`, by their place in the whole plan) and faults (`f3`)."""
        gone = set(names)
        actors = tuple(
            replace(a, actions=tuple(action for action in a.actions if f"{a.name}.{action.number}" not in gone)) for a in self.actors if a.name not in gone
        )
        return replace(self, actors=tuple(a for a in actors if a.actions), faults=tuple(f for f in self.faults if f.name not in gone))

    @property
    def parts(self) -> list[str]:
        """The names of everything that may be left out, largest first."""
        return [
            *(a.name for a in self.actors),
            *(f.name for f in self.faults),
            *(f"{a.name}.{action.number}" for a in self.actors for action in a.actions),
        ]

    def described(self) -> list[str]:
        """The plan as lines of text."""
        lines = [
            f"world {self.world}, seed {self.seed}, {self.theme}; properties {self.properties}; {self.tables or 'one table'}; {self.accounts} accounts; night after {self.night_s:g} s; limits {self.limits}, engine {self.engine}; {self.weather}"
        ]
        for a in self.actors:
            lines += [f"actor {a.name} in process {a.process}, after {a.after_s:g} s", *(f"    {a.name}.{x.number}  {x}" for x in a.actions)]
        return [*lines, *(f"fault {f}" for f in self.faults)]


def draw_weather(rng: random.Random, world: World) -> Weather:
    """How fast the store is in one schedule."""
    usual = rng.choice([0.05, 0.5] if world == "local" else [5, 20, 60])
    return Weather(usual, usual * rng.choice([4, 20, 100]), rng.choice([5, 20, 100]))
