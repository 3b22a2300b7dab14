"""Draws plans on a store that fails nobody: those of any theme, one actor who is alone with the table, and appends of several processes that share versions."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rowlock.protocol.properties import MANIFESTS
from rowlock_simulation.actions import Action
from rowlock_simulation.draw import draw
from rowlock_simulation.plan import ActorPlan, Plan, Weather, World, draw_weather
from rowlock_simulation.roles import ALONE, SHARING, Role

_CALM_ONE_IN, _ALONE_ONE_IN, _SHARING_ONE_IN = 15, 30, 60
_ROLES = (
    "banker", "counter", "upserter", "deleter", "updater", "appender", "appender", "optimizer", "calculator",
    "alterer", "restorer", "replacer", "vacuumer", "reader", "traveller",
)  # fmt: skip
_PROPERTIES = (
    {"delta.checkpointInterval": "2", MANIFESTS: "true"},
    {"delta.checkpointInterval": "2", "delta.enableDeletionVectors": "true"},
    {"delta.checkpointInterval": "3", "delta.enableDeletionVectors": "true", "delta.checkpointPolicy": "v2"},
)


def draw_calm(world: World, seed: int) -> Plan | None:
    """The plan of a seed that is drawn here; None for most seeds."""
    rng = random.Random(f"calm {world} {seed}")
    if rng.randrange(_ALONE_ONE_IN) == 0:
        return _alone(rng, world, seed)
    if world != "local" and rng.randrange(_SHARING_ONE_IN) == 0:
        return _sharing(rng, world, seed)
    return _calm(rng, draw(world, seed)) if rng.randrange(_CALM_ONE_IN) == 0 else None


def _calm(rng: random.Random, plan: Plan) -> Plan:
    """The plan without faults; in some all stand in line for the whole table."""
    actors, options = plan.actors, {"lock": "table", "lock_timeout": 20.0}
    if rng.random() < 0.3 and not plan.night_s:
        actors = tuple(replace(a, actions=tuple(_with(x, options) if x.kind == "statements" else x for x in a.actions)) for a in actors)
    return replace(plan, faults=(), actors=actors)


def _with(action: Action, options: Mapping[str, Any]) -> Action:
    return replace(action, options={**action.options, **options})


def _alone(rng: random.Random, world: World, seed: int) -> Plan:
    """One actor, who does a little of everything."""
    accounts = rng.randint(3, 5)
    role, partitioned_by = Role(rng, "a0", 0, accounts, ALONE), rng.choice([(), ("w",)])
    actions = [replace(role.action(rng.choice(_ROLES), n), number=n, pause_s=0.4 * rng.random()) for n in range(rng.randint(6, 12))]
    plan = Plan(world, seed, rng.choice(_PROPERTIES), accounts, (ActorPlan("a0", "p0", tuple(actions)),), (), draw_weather(rng, world), theme=ALONE)
    return replace(plan, partitioned_by=partitioned_by, skews_ms={"p0": rng.choice([0, -700, 60_000])})


def _sharing(rng: random.Random, world: World, seed: int) -> Plan:
    """Appends of several processes, posted for one another as if they had been in each other's way just now.

    While one of three in a process commits, the two others wait, and share the next version: of two each may be alone every time.
    """
    actors, usual = [], rng.choice([15, 25, 40])  # a put takes longer than SLOW_PUT_S
    for n in range(9):
        role = Role(rng, f"a{n}", 2 * n, 3, SHARING)  # steps of applications come one by one
        actions = tuple(replace(a, posts=True, pause_s=0.0, options={}) for a in role.actions("appender", 3, least=3))
        actors.append(ActorPlan(f"a{n}", f"p{n // 3}", actions, after_s=0.01 * rng.random()))
    return Plan(world, seed, {"delta.checkpointInterval": "100"}, 3, tuple(actors), (), Weather(usual, 2 * usual, 100), theme=SHARING)
