"""Draws a plan over several tables from a seed: transfers between them, writers of one table, and an engine that knows nothing of what is prepared."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rowlock.transaction.two_phase.prepare import Wait
from rowlock_simulation.actions import Action
from rowlock_simulation.draw import SHORT_LIVED, draw_fault
from rowlock_simulation.memory.sql.script import Append, Clause, Delete, Merge, Optimize, Script, Update
from rowlock_simulation.plan import ActorPlan, Fault, FaultKind, Plan, TableOf, World, draw_weather
from rowlock_simulation.roles import APPENDS, COLUMNS, COUNTERS, UPSERTS
from rowlock_simulation.world import VISITOR

MIRROR = 2
"""The counter (the last of them) that a copy of another table's counters is written to."""
TRACKED = {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"}
_STORES: tuple[tuple[World, ...], ...] = (("s3",), ("local",), ("dynamodb",), ("s3", "local"), ("s3", "local", "dynamodb"))
STRANGERS = "another engine"
_RARE = {"restorer": 0.2, "definer": 0.2, "vacuumer": 0.2}
"""The roles of actors who are in some plans only, and in how many of them."""
_DEFINITIONS: tuple[dict[str, str], ...] = (
    {"owner": "x"},
    {"delta.checkpointInterval": "4"},
    {"delta.enableChangeDataFeed": "true"},
    {"delta.enableInCommitTimestamps": "true"},
)
_MANY = {"stranger": (2, 4), "visitor": (2, 5)}
"""How many actions the actors of a role have, if not from one to three."""
_STRANGE = ["stranger"] * 8 + ["banker", "banker", "together", "visitor", "copier"]
COPIES, BESIDE = "copies", "one table beside several"
_THEMES = {
    "transfers": ["banker"] * 6 + ["together", "together", "historian", "historian", "visitor", "writer"],
    COPIES: ["copier"] * 4 + ["banker", "writer", "writer", "together"],
    BESIDE: ["banker"] * 3 + ["writer"] * 4 + ["optimizer", "together", "historian", "reader", "visitor", "checkpointer"],
    STRANGERS: _STRANGE,
    f"{STRANGERS} again": _STRANGE,
}
_CERTAIN = {COPIES: ["copier"], BESIDE: ["writer"], STRANGERS: ["stranger"], f"{STRANGERS} again": ["stranger"]}
"""Who is there in every plan of a theme."""
_LEAST_WRITES, _MOST_ACTORS = {"small": 4, "middle": 7, "large": 20}, {"small": 5, "middle": 40, "large": 40}
"""How many actions of a plan change rows, unless it has so many actors."""


def draw_tables(seed: int) -> Plan:
    """The plan of a seed."""
    rng = random.Random(f"plan tables {seed}")
    stores = rng.choice(_STORES)
    theme = rng.choice(list(_THEMES))
    small = rng.random() < (0.7 if theme == COPIES else 0.97)  # such schedules meet more interleavings in the same time
    size = "small" if small else rng.choice(["middle"] * 19 + ["large"])
    tables = [TableOf(rng.choice(stores), _properties(rng)) for _ in range(2 if small else rng.choice([2, 3, 3, 4]))]
    if len(stores) > 1 or stores[0] != "dynamodb":  # without a common arbiter one table at most may be such that others could not roll it forward
        plain = rng.randrange(2 * len(tables))
        tables = [TableOf(t.store, t.properties if n == plain else {**_without(t.properties), **TRACKED}) for n, t in enumerate(tables)]
    accounts = rng.randint(2, 4)
    processes = [f"p{n}" for n in range(rng.choice([2, 3, 3, 4]))]
    roles = [rng.choice(["together", "together", "visitor", "historian"]), *_CERTAIN.get(theme, ()), "banker", "banker"]
    actors: list[ActorPlan] = []
    writes = 0
    while roles or len(actors) < (3 if small else 4) or (writes < _LEAST_WRITES[size] and len(actors) < _MOST_ACTORS[size]):
        role = roles.pop() if roles else rng.choice(_THEMES[theme])
        draw = _Role(rng, len(actors), len(tables), accounts, hurry=_THEMES[theme] is _STRANGE)
        actions = tuple(draw.action(role, n) for n in range(rng.randint(*_MANY.get(role, (1, 3)))))
        writes += sum(a.kind in ("together", "statements") and not a.unaware for a in actions)
        actors.append(
            ActorPlan(
                f"a{len(actors)}",
                VISITOR if role == "visitor" else rng.choice(processes),
                actions,
                after_s=rng.random() * (0.5 if _THEMES[theme] is _STRANGE else rng.choice([0, 1, 5])),
            )
        )
    used = sorted({a.process for a in actors})
    faults = [draw_fault(rng, rng.choice(tables).store, f"f{n}", rng.choice(used)) for n in range(rng.choice([1, 2, 3, 4, 6]))]
    certain = replace(draw_fault(rng, tables[0].store, f"f{len(faults)}", actors[0].process), nth=rng.randint(1, 20), only="calls")
    faults.append(certain)
    for process in used if _THEMES[theme] is _STRANGE else ():  # what stays open for long meets others
        kind: FaultKind = rng.choice(["stall", "stall", "crash after"])
        faults.append(Fault(f"f{len(faults)}", process, kind, rng.randint(1, 6), rng.choice([0.5, 2.0, 6.0]), "commits"))
    plan = Plan(
        world="tables",
        seed=seed,
        properties={},
        accounts=accounts,
        actors=tuple(actors),
        faults=tuple(faults),
        weather=draw_weather(rng, rng.choice(tables).store),
        tables=tuple(tables),
        inline_bytes=rng.choice([16_384, 16_384, 100]),
        theme=theme,
        limits=rng.choice([{}, {"inline_vector_bytes": 1024}, {"changed_files": 1}, {"commit_cache_bytes": 0, "replay_batch_bytes": 0}]),
        engine=rng.choice([{}, {}, {"spill_rows": 1}, {"spill_rows": 2, "rows_per_file": 2}, {"notes_matches": True}, {"reorders": True}]),
        skews_ms={p: rng.choice([0, 0, 3, -700, 60_000]) for p in used},
        drifts={p: rng.choice([0.0, 0.0, 0.02, -0.02]) for p in used},
    )
    return _with_rare_ones(random.Random(f"rare tables {seed}"), plan)


def _with_rare_ones(rng: random.Random, plan: Plan) -> Plan:
    """The plan; in some seeds with actors who restore a table, change its definition, or vacuum it after three days, when old files and logs may go."""
    roles, actors, tables = [role for role, share in _RARE.items() if rng.random() < share], list(plan.actors), plan.tables
    if night := "vacuumer" in roles:
        tables = tuple(replace(t, properties=t.properties | SHORT_LIVED) for t in tables)
        roles.append("checkpointer")
    for role in roles:
        draw, process = _Role(rng, len(actors), len(tables), plan.accounts, hurry=False), rng.choice([a.process for a in plan.actors if a.process != VISITOR])
        actions = tuple(draw.action(role, n) for n in range(rng.randint(2 if night else 1, 3)))
        actors.append(ActorPlan(f"a{len(actors)}", process, actions, after_s=rng.random() * rng.choice([0.5, 2, 5])))
    return replace(plan, actors=tuple(actors), tables=tables, night_s=3 * 86_400.0 if night else 0.0)


def _properties(rng: random.Random) -> dict[str, str]:
    out = {"delta.enableDeletionVectors": rng.choice(["true", "false"]), "delta.checkpointInterval": rng.choice(["2", "3", "5", "100"])}
    for name in ("delta.enableRowTracking", "delta.enableChangeDataFeed", "delta.enableInCommitTimestamps"):
        if rng.random() < 0.3:
            out[name] = "true"
    if rng.random() < 0.2:
        out["delta.columnMapping.mode"] = "name"
    return out


def _without(properties: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in properties.items() if name != "delta.enableChangeDataFeed"}


class _Role:
    """Draws the actions of one actor."""

    def __init__(self, rng: random.Random, actor: int, tables: int, accounts: int, *, hurry: bool) -> None:
        self._rng, self._actor, self._tables, self._accounts, self._longest_s = rng, actor, tables, accounts, 0.3 if hurry else 2.0
        self._options: dict[str, Any] = {}
        if rng.random() < 0.3:
            self._options = {"on_conflict": rng.choice(["fail", "rerun", "rerun"]), "granularity": rng.choice(["row", "file"])}
        if rng.random() < 0.15:
            self._options["lane"] = False
        self._wait: Wait = rng.choice(["everywhere", "everywhere", "everywhere", "decided"])

    def action(self, role: str, number: int) -> Action:
        """One action."""
        draw: Callable[[int], Action] = getattr(self, f"_{role}")
        return draw(number)

    def _pause(self) -> float:
        return self._rng.choice([0.0, 0.0, self._rng.random() * 0.1, self._rng.random() * self._longest_s])

    def _table(self) -> int:
        return self._rng.randrange(self._tables)

    def _banker(self, number: int) -> Action:
        """Money from one table to others, and rows that come with it."""
        tables = self._rng.sample(range(self._tables), self._rng.randint(2, min(3, self._tables)))
        amount, k = self._rng.randint(1, 9), self._rng.randrange(self._accounts)
        parts: list[tuple[int, tuple[Script, ...]]] = []
        for n in tables:
            given = -amount * (len(tables) - 1) if n == tables[0] else amount
            account = k if self._rng.random() < 0.7 else self._rng.randrange(self._accounts)
            scripts: list[Script] = [Update((("v", f"v + {given}" if given > 0 else f"v - {-given}"),), f"k = {account}")]
            if self._rng.random() < 0.3:
                scripts = [Merge(("k", "d"), ((account, given),), "t.k = s.k", (Clause("matched", "update", None, (("v", "t.v + s.d"),)),))]
            if self._rng.random() < 0.2:
                scripts.append(Append(((APPENDS + 1000 * self._actor + 10 * number + n, 1, 0),)))
            if self._rng.random() < 0.15:
                scripts.append(self._rng.choice([self._upsert(), Delete(f"k >= {UPSERTS + self._rng.randint(0, 6)} AND k < {APPENDS}")]))
            parts.append((n, tuple(scripts)))
        app = (f"app a{self._actor}", number) if self._actor % 3 == 0 else None
        return Action(number, "together", options=self._options, app=app, parts=tuple(parts), wait=self._wait, pause_s=self._pause())

    def _copier(self, number: int) -> Action:
        """What one table holds decides what is written to another."""
        source, target = self._rng.sample(range(self._tables), 2)
        more = ((source, (self._count(),)),) if self._rng.random() < 0.2 else ()
        options = {k: v for k, v in self._options.items() if k == "lane"} | {"isolation": "serializable"}  # under which no append passes what was read
        return Action(
            number,
            "together",
            options=options,
            parts=more,
            copies=(source, target, COUNTERS + MIRROR, 1000 * (10 * self._actor + number + 1)),
            wait=self._wait,
            pause_s=self._pause(),
        )

    def _writer(self, number: int) -> Action:
        rows = tuple((APPENDS + 1000 * self._actor + 10 * number + 5 + n, 1, 0) for n in range(2))
        condition = self._rng.choice([f"v < {self._rng.randint(80, 120)}", f"k >= {COUNTERS}"])
        low = UPSERTS + self._rng.randint(0, 6)
        script = self._rng.choice(
            [
                self._count(),
                self._count(),
                Append(rows),
                Append(rows),
                Update((("w", "w + 1"),), condition),
                Delete(f"k >= {low} AND k <= {low + 2}"),
                self._upsert(),
            ]
        )
        return Action(number, "statements", (script,), self._options, table=self._table(), pause_s=self._pause())

    def _stranger(self, number: int) -> Action:
        """An engine that knows nothing of transactions over several tables, and changes rows that these change, too."""
        low, k = UPSERTS + self._rng.randint(0, 6), self._rng.randrange(self._accounts)
        rows = tuple((APPENDS + 1000 * self._actor + 10 * number + 5 + n, 1, 0) for n in range(2))
        script = self._rng.choice(
            [
                Optimize(),
                Optimize(),
                self._count(),
                Append(rows),
                Update((("w", "w + 1"),), f"k < {k + 1}"),
                Update((("w", "w + 1"),), "v < 101"),
                Delete(f"k >= {low} AND k <= {low + 2}"),
            ]
        )
        kind, scripts = ("checkpoint", ()) if self._rng.random() < 0.2 else ("statements", (script,))
        return Action(number, kind, scripts, {"lane": False}, table=self._table(), unaware=True, pause_s=self._pause())  # type: ignore[arg-type]

    def _restorer(self, number: int) -> Action:
        return Action(number, "restore", back=self._rng.randint(1, 5), table=self._table(), unaware=self._rng.random() < 0.3, pause_s=self._pause())

    def _definer(self, number: int) -> Action:
        unaware, table = self._rng.random() < 0.3, self._table()
        if self._rng.random() < 0.3:
            return Action(number, "alter", alter=("comment", "v", f"of a{self._actor}.{number}"), table=table, unaware=unaware, pause_s=self._pause())
        return Action(number, "property", properties=self._rng.choice(_DEFINITIONS), table=table, unaware=unaware, pause_s=self._pause())

    def _vacuumer(self, number: int) -> Action:
        return Action(number, "vacuum", table=self._table(), pause_s=self._pause())

    def _count(self) -> Script:
        return Update((("v", "v + 1"),), f"k = {COUNTERS + self._rng.randrange(MIRROR)}")

    def _upsert(self) -> Script:
        rows = tuple((key, self._rng.randint(0, 99), 0) for key in self._rng.sample(range(UPSERTS, UPSERTS + 8), 2))
        clauses = (Clause("matched", "update", None, (("v", "t.v + s.v"),)), Clause("not matched", "insert", None, tuple((c, f"s.{c}") for c in COLUMNS)))
        return Merge(COLUMNS, rows, "t.k = s.k", clauses)

    def _together(self, number: int) -> Action:
        return Action(number, "read together", parts=tuple((n, ()) for n in range(self._tables)), pause_s=self._pause())

    def _historian(self, number: int) -> Action:
        """A reader of all tables as they were at the time of an older version."""
        return replace(self._together(number), kind="travel together", back=self._rng.randint(0, 3))

    def _visitor(self, number: int) -> Action:
        """A reader that may not write."""
        found = self._together(number) if self._rng.random() < 0.7 else Action(number, "read", table=self._table())
        return replace(found, pause_s=self._rng.random() * 0.2)

    def _reader(self, number: int) -> Action:
        return Action(number, self._rng.choice(["read", "read", "travel"]), back=1, table=self._table(), pause_s=self._pause())

    def _optimizer(self, number: int) -> Action:
        return Action(number, "statements", (Optimize(),), table=self._table(), pause_s=self._pause())

    def _checkpointer(self, number: int) -> Action:
        return Action(number, self._rng.choice(["checkpoint", "vacuum"]), table=self._table(), pause_s=self._pause())
