"""Draws a plan from a seed: actors and their roles, the table's properties, and what goes wrong."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from rowlock.protocol.properties import CHECKSUMS
from rowlock_simulation.actions import Action
from rowlock_simulation.foreign import UNKNOWN
from rowlock_simulation.memory.sql.script import Update
from rowlock_simulation.plan import ActorPlan, Fault, FaultKind, Plan, Weather, World, draw_weather
from rowlock_simulation.roles import (
    APPENDED,
    CLONES,
    DEFAULTED,
    DEFINITION,
    FEATURES,
    HURRIED,
    LEVELS,
    LOCKLESS,
    LONG,
    MOST_CLONES,
    NUMBERED,
    POSTS,
    REMADE,
    REPLACED,
    STREAMED,
    Role,
    wrong_actions,
)

LEAST_WRITES, MOST_ACTORS = {"small": 6, "large": 22}, {"small": 6, "large": 40}
"""How many actions of a plan change rows, unless it has so many actors; most seeds draw a small plan, for in the same time it meets more interleavings."""
_LARGE_ONE_IN = 40
_REMOTE: tuple[FaultKind, ...] = ("lost request", "late request", "lost reply", "sent twice", "conflict", "unavailable", "error after", "stale list")
_DISK: tuple[FaultKind, ...] = ("disk error", "disk full", "done and denied", "done and denied", "power loss")
_ANYWHERE: tuple[FaultKind, ...] = ("crash before", "crash after", "crash before", "crash after", "stall", "clock jump")
_AT_ONCE = ("crash before", "crash after", "clock jump", "sent twice", "stale list", "disk error", "disk full", "done and denied", "power loss")
_EVERYBODY = (
    ["banker"] * 4 + ["counter"] * 4 + ["upserter"] * 3 + ["deleter"] * 2 + ["updater"] * 2 + ["appender"] * 4 + ["reader"] * 2
    + ["optimizer", "restorer", "alterer", "checkpointer", "vacuumer", "traveller", "calculator", "foreigner", "evolver"]
)  # fmt: skip
_SLEEPS, _ASKS_WRONGLY = 0.4, 0.15
_LOW_LIMIT = 0.2
_LIMITS = {
    "inline_vector_bytes": [1024],
    "whole_object_bytes": [0],
    "copied_piece_bytes": [1, 50],
    "changed_files": [0, 1, 3],
    "snapshot_chunk_files": [1, 2],
    "replay_batch_bytes": [0, 2000],
    "cleaned_files": [2],
    "backfill_files": [1, 2],
    "group_files": [1, 2],
    "row_id_cache_bytes": [0],
    "vector_cache_bytes": [0],
    "commit_cache_bytes": [0],
}
"""Low limits, each of which one schedule in five has: so both ways are met that a limit chooses between."""
_LONG_ONE_IN = 120
_SHORT_ACTIONS = 18
"""So many of them outlast more rounds of the long writer than it may lose."""
THEMES = {
    "everybody": _EVERYBODY,
    "everybody again": _EVERYBODY,
    APPENDED: ["appender"] * 6 + ["optimizer", "reader", "updater", "updater", "deleter", "alterer", "alterer", "alterer"],
    POSTS: ["appender"] * 12 + ["optimizer", "reader", "updater", "alterer", "evolver", "checkpointer"],
    "one row": ["counter"] * 6 + ["calculator", "optimizer", "reader"],
    "rows that come and go": ["upserter"] * 3 + ["deleter"] * 2 + ["updater", "optimizer", "restorer", "reader"],
    "another engine": ["foreigner"] * 4
    + ["counter", "counter", "calculator", "banker", "upserter", "deleter", "updater", "optimizer", "appender", "reader", "restorer"],
    DEFINITION: ["evolver"] * 3
    + ["filler"] * 3
    + ["grower"] * 3
    + ["alterer"] * 3
    + ["counter"]
    + ["banker", "upserter", "deleter", "updater", "appender", "optimizer", "reader", "restorer"],
    REMADE: ["counter", "counter", "updater", "upserter", "deleter", "appender", "appender", "optimizer", "reader", "reader", "checkpointer", "calculator"],
    "lockless": ["setter"] * 6
    + ["counter", "counter", "banker", "upserter", "upserter", "deleter", "updater", "updater", "appender", "optimizer", "reader", "evolver"],
    LEVELS: ["summer"] * 6 + ["appender"] * 4 + ["counter", "banker", "upserter", "deleter", "optimizer"],
    FEATURES: ["dropper"] * 4
    + ["enabler"] * 3
    + ["counter", "counter", "banker", "upserter", "deleter", "updater", "appender", "optimizer", "restorer", "reader", "checkpointer"],
    NUMBERED: ["numberer"] * 7 + ["counter", "banker", "upserter", "deleter", "appender", "optimizer", "restorer", "alterer", "reader"],
    REPLACED: ["replacer"] * 3
    + ["counter", "counter", "upserter", "deleter", "updater", "appender", "appender", "optimizer", "reader", "reader", "calculator"],
    DEFAULTED: ["defaulter"] * 4
    + ["feeder"] * 3
    + ["counter", "banker", "upserter", "upserter", "deleter", "updater", "updater", "appender", "appender", "appender", "optimizer", "restorer", "reader"],
    STREAMED: ["streamer"] * 4
    + ["appender"] * 5
    + ["counter", "banker", "upserter", "upserter", "deleter", "updater", "optimizer", "optimizer", "restorer", "checkpointer"],
    CLONES: ["cloner"] * 4
    + ["counter", "banker", "upserter", "deleter", "updater", "appender", "optimizer", "restorer", "reader", "traveller", "checkpointer", "vacuumer"],
    "rows that move": ["banker"] * 3 + ["optimizer"] * 2 + ["alterer", "updater", "restorer", "counter"],
}

_CERTAIN = {
    REMADE: ["recreator"],
    FEATURES: ["dropper"],
    CLONES: ["vacuumer", "restorer", "cloner", "cloner"],
    NUMBERED: ["restorer", "numberer"],
    DEFAULTED: ["feeder", "defaulter"],
    STREAMED: ["streamer", "streamer"],
    DEFINITION: ["evolver"],
}
"""Who is there in every schedule of a theme."""


SHORT_LIVED = {"delta.logRetentionDuration": "interval 1 day", "delta.deletedFileRetentionDuration": "interval 12 hours"}
"""The properties of a table of which old files and an old log may go over the night."""


def draw(world: World, seed: int) -> Plan:
    """The plan of a seed in a world."""
    rng = random.Random(f"plan {world} {seed}")
    processes = [f"p{n}" for n in range(rng.choice([2, 2, 3, 3, 4]))]
    accounts = rng.randint(3, 8)
    actors: list[ActorPlan] = []
    theme = rng.choice(list(THEMES))
    night_s = {CLONES: 3 * 86_400.0, STREAMED: 0.0}.get(theme, rng.choice([0.0, 0.0, 3 * 86_400.0]))  # before one VACUUM deletes nothing; in one a log may go
    properties = _properties(rng, keeps_short=night_s > 0)
    if rng.randrange(_LONG_ONE_IN) == 0:
        return _long_writer(rng, world, seed, accounts, properties)
    if theme == "another engine":
        properties = {name: value for name, value in properties.items() if name not in UNKNOWN}
    roles, certain = THEMES[theme], ["vacuumer", "checkpointer", "reader"] if night_s else []
    certain += [rng.choice(["banker", "counter", "appender"]), *_CERTAIN.get(theme, ())]
    properties |= _properties_of(rng, theme)
    own_alone = any(p in properties for p in UNKNOWN)
    writes = 0
    size, most_actions = ("large", 5) if rng.randrange(_LARGE_ONE_IN) == 0 else ("small", 3)
    while certain or len(actors) < 4 or (writes < LEAST_WRITES[size] and len(actors) < MOST_ACTORS[size]):
        role = certain.pop() if certain else rng.choice(roles)
        role = "counter" if role == "foreigner" and own_alone else role
        name = f"a{len(actors)}"
        actions = Role(rng, name, len(actors), accounts, theme).actions(role, most_actions)
        writes += sum(bool(a.scripts or a.sums) for a in actions) if role not in ("deleter", "filler") else 0  # they may find nothing
        after_s = rng.choice([0.0, rng.random(), (1 if theme in HURRIED else 5) * rng.random()])
        if theme == CLONES and role != "cloner" and (place := rng.choice([0, 0, 0, *range(1, MOST_CLONES + 1)])):
            actions, after_s = tuple(replace(action, table=place) for action in actions), after_s + 3  # by then most clones are there
        actors.append(ActorPlan(name, rng.choice(processes), actions, after_s=after_s))
    used = sorted({a.process for a in actors})
    actors = _with_rare_ones(random.Random(f"rare {world} {seed}"), theme, actors, used, night_s)
    faults = [draw_fault(rng, world, f"f{n}", rng.choice(used)) for n in range(rng.choice([1, 2, 3, 4, 6]))]
    faults.append(replace(draw_fault(rng, world, f"f{len(faults)}", actors[0].process), nth=rng.randint(1, 20), only="calls"))  # one that comes for certain
    if theme == REMADE:  # what is sent again long after its writer has looked reaches another table
        faults = [f for f in faults if f.kind in _AT_ONCE]
    return Plan(
        world=world,
        seed=seed,
        types={"w": "integer"} if "delta.enableTypeWidening" in properties else {},
        numbered=theme == NUMBERED,
        generated={"g": "v + w"} if theme == DEFAULTED else {},
        clones=MOST_CLONES if theme == CLONES else 0,
        partitioned_by=rng.choice([(), (), ("w",) if theme != NUMBERED else ()]),
        accounts=accounts,
        theme=theme,
        actors=tuple(actors),
        faults=tuple(faults),
        weather=draw_weather(rng, world),
        night_s=night_s,
        limits={name: rng.choice(values) for name, values in _LIMITS.items() if rng.random() < _LOW_LIMIT} | _of_sleepers(actors),
        engine=rng.choice([{}, {}, {"spill_rows": 1}, {"spill_rows": 2, "rows_per_file": 2}, {"notes_matches": True}, {"reorders": True}]),
        skews_ms={p: rng.choice([0, 0, 3, -700, 60_000, -3_600_000]) for p in used},
        drifts={p: rng.choice([0.0, 0.0, 0.02, -0.02]) for p in used},
        properties=properties | _statistics(rng),
    )


def _with_rare_ones(rng: random.Random, theme: str, actors: Sequence[ActorPlan], processes: Sequence[str], night_s: float) -> list[ActorPlan]:
    """The actors, and in some plans one who asks for what is wrong, and a writer who sleeps over the night between its statement and its commit."""
    out = list(actors)
    if night_s and rng.random() < _SLEEPS:
        at = rng.randrange(len(out))
        actions = [
            replace(a, sleeps_s=night_s + rng.choice([1, 10, 60])) if n == 0 and a.kind == "statements" and "lock" not in a.options else a
            for n, a in enumerate(out[at].actions)
        ]
        out[at] = replace(out[at], actions=tuple(actions))
    if rng.random() < _ASKS_WRONGLY:
        out.append(ActorPlan(f"a{len(out)}", rng.choice(processes), wrong_actions(rng, theme), after_s=3 * rng.random()))
    return out


def _of_sleepers(actors: Sequence[ActorPlan]) -> dict[str, int]:
    """Where somebody sleeps, processes keep no commits in memory: so they meet a log that was cleaned up beneath them."""
    return {"commit_cache_bytes": 0} if any(a.sleeps_s for actor in actors for a in actor.actions) else {}


def _properties_of(rng: random.Random, theme: str) -> dict[str, str]:
    """The properties that a theme needs."""
    if theme == FEATURES:
        return {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": rng.choice(["true", "false"])}
    if theme == DEFINITION:
        return rng.choice([{}, {"delta.columnMapping.mode": "name"}, {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}])
    if theme == STREAMED:
        return {"delta.enableChangeDataFeed": "true"}
    if theme == DEFAULTED:
        return {"delta.feature.allowColumnDefaults": "supported"} | rng.choice([{}, {"delta.enableChangeDataFeed": "true"}])
    return {"delta.enableRowTracking": "true"} if theme == LOCKLESS else {}


def _statistics(rng: random.Random) -> dict[str, str]:
    """How checkpoints hold statistics."""
    return {"delta.checkpoint.writeStatsAsStruct": "true", "delta.checkpoint.writeStatsAsJson": rng.choice(["true", "false"])} if rng.random() < 0.2 else {}


def _long_writer(rng: random.Random, world: World, seed: int, accounts: int, properties: dict[str, str]) -> Plan:
    long = Action(0, "statements", (Update((("w", "w + 1"),), f"v < {rng.randint(80, 120)}"),), pause_s=rng.random())
    actors = [ActorPlan("a0", "p0", (long,))]
    for number in range(1, rng.choice([4, 4, 5])):
        actions = Role(rng, f"a{number}", number, accounts, LONG).actions(rng.choice(["counter", "upserter", "appender"]), _SHORT_ACTIONS, least=_SHORT_ACTIONS)
        steady = tuple(replace(a, options={}, pause_s=0.2 + rng.random()) for a in actions)
        actors.append(ActorPlan(f"a{number}", f"p{number}", steady, after_s=rng.random()))
    usual = draw_weather(rng, world).usual
    return Plan(
        world=world,
        seed=seed,
        properties=properties,
        accounts=accounts,
        theme=LONG,
        actors=tuple(actors),
        faults=(),
        weather=Weather(min(usual, 20), 4 * min(usual, 20), 20),
        takes_s={"p0": rng.choice([1.5, 2.0, 4.0])},
        drifts={a.process: rng.choice([0.0, 0.0, 0.02, -0.02]) for a in actors},
    )


def _properties(rng: random.Random, *, keeps_short: bool) -> dict[str, str]:
    out = {
        "delta.enableDeletionVectors": rng.choice(["true", "true", "false"]),
        "delta.checkpointInterval": rng.choice(["2", "3", "5", "10", "100", "100", "100"]),
    }
    if keeps_short:
        out["delta.checkpointInterval"] = rng.choice(["2", "3", "5"])
        out |= SHORT_LIVED
    if rng.random() < 0.3:
        out["delta.enableRowTracking"] = "true"
    if rng.random() < 0.2:
        out["delta.enableChangeDataFeed"] = "true"
    if rng.random() < 0.2:
        out["delta.enableInCommitTimestamps"] = "true"
    if rng.random() < 0.25:
        out["delta.columnMapping.mode"] = "name"
    if rng.random() < 0.2:
        out["delta.checkpointPolicy"] = "v2"
    if rng.random() < 0.2:
        out[CHECKSUMS] = "true"
    return out


def draw_fault(rng: random.Random, world: World, name: str, process: str) -> Fault:
    kinds = (*_ANYWHERE, *_REMOTE, "partition") if world in ("s3", "dynamodb") else (*_ANYWHERE, *_DISK)
    kind: FaultKind = rng.choice(kinds)
    seconds = {
        "late request": rng.choice([0.05, 1.0, 8.0, 30.0]),
        "stall": rng.choice([0.5, 5.0, 40.0]),
        "partition": rng.choice([1.0, 15.0, 60.0]),
        "stale list": rng.choice([0.5, 5.0]),
        "clock jump": rng.choice([-3600.0, -5.0, 5.0, 86_400.0]),
    }.get(kind, 0.0)
    commits = kind not in ("stale list", "clock jump", "partition") and rng.random() < 0.6
    return Fault(
        name, process, kind, rng.randint(1, 8) if commits else int(rng.uniform(1, 600 if world == "local" else 200)), seconds, "commits" if commits else "calls"
    )
