"""Draws a plan from a seed: actors and their roles, the table's properties, and what goes wrong."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

from rowlock.protocol.properties import Isolation
from rowlock_simulation.actions import Action
from rowlock_simulation.foreign import UNKNOWN
from rowlock_simulation.memory.sql.script import Append, Clause, Delete, Merge, Optimize, Overwrite, Script, Update
from rowlock_simulation.plan import ActorPlan, Fault, FaultKind, Plan, Weather, World, draw_weather

COLUMNS = ("k", "v", "w")
COUNTERS, UPSERTS, APPENDS = 100, 1000, 10_000
"""Where the keys of counters, of upserted rows and of appended rows begin; keys below are accounts."""
LEAST_WRITES = {"small": 8, "large": 22}
"""How many actions of a plan change rows, at least; most seeds draw a small plan, for in the same time it meets more interleavings."""
_LARGE_ONE_IN = 20
_REMOTE: tuple[FaultKind, ...] = ("lost request", "late request", "lost reply", "sent twice", "conflict", "unavailable", "error after", "stale list")
_DISK: tuple[FaultKind, ...] = ("disk error", "disk full", "done and denied", "done and denied", "power loss")
_ANYWHERE: tuple[FaultKind, ...] = ("crash before", "crash after", "crash before", "crash after", "stall", "clock jump")
_AT_ONCE = ("crash before", "crash after", "clock jump", "sent twice", "stale list", "disk error", "disk full", "done and denied", "power loss")
_EVERYBODY = (
    ["banker"] * 4 + ["counter"] * 4 + ["upserter"] * 3 + ["deleter"] * 2 + ["updater"] * 2 + ["appender"] * 4 + ["reader"] * 2
    + ["optimizer", "restorer", "alterer", "checkpointer", "vacuumer", "traveller", "calculator", "foreigner", "evolver"]
)  # fmt: skip
_DROPPED = ("deletionVectors", "rowTracking", "inCommitTimestamp", "v2Checkpoint", "checkConstraints", "domainMetadata", "checkpointProtection")
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
LOCKLESS = "lockless"
"""The theme and the policy whose transactions merge cells."""
APPENDED = "appends"
REMADE = "a table that is made again"
POSTS = "appends between processes"
DEFINITION = "a definition that changes"
LEVELS = "levels of isolation"
"""The theme of programs that read the whole table and write what they have computed, under every level."""
_HURRIED = (LOCKLESS, POSTS, LEVELS)
"""Themes in which only what overlaps shows anything."""
FEATURES = "features that are dropped"
NUMBERED = "identity columns"
REPLACED = "a table that is replaced"
LONG = "a long writer"
"""The theme of one writer who takes seconds for each round, beside steady short ones on a store that fails nobody (I8)."""
_LONG_ONE_IN = 60
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
    "rows that move": ["banker"] * 3 + ["optimizer"] * 2 + ["alterer", "updater", "restorer", "counter"],
}


def first_rows(accounts: int) -> tuple[tuple[int, int, int], ...]:
    """The rows of a new table: accounts with 100 each, and three counters."""
    return *((k, 100, 0) for k in range(accounts)), *((COUNTERS + k, 0, 0) for k in range(3))


def draw(world: World, seed: int) -> Plan:
    """The plan of a seed in a world."""
    rng = random.Random(f"plan {world} {seed}")
    night_s = rng.choice([0.0, 0.0, 3 * 86_400.0])
    processes = [f"p{n}" for n in range(rng.choice([2, 2, 3, 3, 4]))]
    accounts = rng.randint(3, 8)
    actors: list[ActorPlan] = []
    properties = _properties(rng, keeps_short=night_s > 0)
    theme = rng.choice(list(THEMES))
    if rng.randrange(_LONG_ONE_IN) == 0:
        return _long_writer(rng, world, seed, accounts, properties)
    if theme == "another engine":
        properties = {name: value for name, value in properties.items() if name not in UNKNOWN}
    roles, certain = THEMES[theme], ["vacuumer", "checkpointer", "reader"] if night_s else []
    certain.append(rng.choice(["banker", "counter", "appender"]))
    if theme == REMADE:
        certain.append("recreator")
    if theme == FEATURES:
        certain.append("dropper")
        properties |= {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": rng.choice(["true", "false"])}
    if theme == NUMBERED:
        certain.append("numberer")
    if theme == DEFINITION:
        certain.append("evolver")
        properties |= rng.choice([{}, {"delta.columnMapping.mode": "name"}, {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}])
    if theme == LOCKLESS:
        properties["delta.enableRowTracking"] = "true"
    own_alone = any(p in properties for p in UNKNOWN)
    writes = 0
    large = rng.randrange(_LARGE_ONE_IN) == 0
    most_actions = 5 if large else 3
    while len(actors) < 4 or writes < LEAST_WRITES["large" if large else "small"]:
        role = certain.pop() if certain else rng.choice(roles)
        role = "counter" if role == "foreigner" and own_alone else role
        name = f"a{len(actors)}"
        actions = _Role(rng, name, len(actors), accounts, theme).actions(role, most_actions)
        writes += sum(bool(a.scripts or a.sums) for a in actions) if role not in ("deleter", "filler") else 0  # they may find nothing
        actors.append(ActorPlan(name, rng.choice(processes), actions, after_s=rng.choice([0.0, rng.random(), (1 if theme in _HURRIED else 5) * rng.random()])))
    used = sorted({a.process for a in actors})
    faults = [draw_fault(rng, world, f"f{n}", rng.choice(used)) for n in range(rng.choice([1, 2, 3, 4, 6]))]
    faults.append(replace(draw_fault(rng, world, f"f{len(faults)}", actors[0].process), nth=rng.randint(1, 20), only="calls"))  # one that comes for certain
    if theme == REMADE:  # what is sent again long after its writer has looked reaches another table
        faults = [f for f in faults if f.kind in _AT_ONCE]
    return Plan(
        world=world,
        seed=seed,
        types={"w": "integer"} if "delta.enableTypeWidening" in properties else {},
        numbered=theme == NUMBERED,
        partitioned_by=rng.choice([(), (), ("w",) if theme != NUMBERED else ()]),
        accounts=accounts,
        theme=theme,
        actors=tuple(actors),
        faults=tuple(faults),
        weather=draw_weather(rng, world),
        night_s=night_s,
        limits={name: rng.choice(values) for name, values in _LIMITS.items() if rng.random() < _LOW_LIMIT},
        engine=rng.choice([{}, {}, {"spill_rows": 1}, {"spill_rows": 2, "rows_per_file": 2}, {"notes_matches": True}, {"reorders": True}]),
        skews_ms={p: rng.choice([0, 0, 3, -700, 60_000, -3_600_000]) for p in used},
        drifts={p: rng.choice([0.0, 0.0, 0.02, -0.02]) for p in used},
        properties=properties | _statistics(rng),
    )


def _statistics(rng: random.Random) -> dict[str, str]:
    """How checkpoints hold statistics."""
    return {"delta.checkpoint.writeStatsAsStruct": "true", "delta.checkpoint.writeStatsAsJson": rng.choice(["true", "false"])} if rng.random() < 0.2 else {}


def _long_writer(rng: random.Random, world: World, seed: int, accounts: int, properties: dict[str, str]) -> Plan:
    long = Action(0, "statements", (Update((("w", "w + 1"),), f"v < {rng.randint(80, 120)}"),), pause_s=rng.random())
    actors = [ActorPlan("a0", "p0", (long,))]
    for number in range(1, rng.choice([4, 4, 5])):
        actions = _Role(rng, f"a{number}", number, accounts, LONG).actions(
            rng.choice(["counter", "upserter", "appender"]), _SHORT_ACTIONS, least=_SHORT_ACTIONS
        )
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
        out |= {"delta.logRetentionDuration": "interval 1 day", "delta.deletedFileRetentionDuration": "interval 12 hours"}
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


class _Role:
    """Draws the actions of one actor."""

    def __init__(self, rng: random.Random, name: str, number: int, accounts: int, theme: str) -> None:
        self._rng, self._name, self._number, self._accounts = rng, name, number, accounts
        self._lockless, self._posts, self._only_appends, self._hurried = theme == LOCKLESS, theme == POSTS, theme == APPENDED, theme in _HURRIED
        self._options: dict[str, Any] = {}
        self._last_alter: tuple[str, ...] = ()
        if rng.random() < 0.25:
            self._options["on_conflict"] = rng.choice(["fail", "rerun", "rerun"])
            self._options["granularity"] = rng.choice(["row", "file"])
        self._weaker: dict[str, Any] = {"isolation": rng.choice(["snapshot", "write_serializable"])} if rng.random() < 0.25 else {}
        """For statements whose rows are always the same: for them every level of isolation comes to serial execution."""
        if rng.random() < 0.25:
            self._options["lock"] = rng.choice(["writes", "table", "partition", "auto"])
            self._options["lock_timeout"] = rng.choice([0.5, 20.0])
        if rng.random() < 0.15:
            self._options["lane"] = False
        if self._lockless and rng.random() < 0.8:
            self._options["on_conflict"] = LOCKLESS
            self._options.pop("granularity", None)
            self._weaker = {}

    def actions(self, role: str, most: int, *, least: int = 2) -> tuple[Action, ...]:
        draw: Callable[[int], Action] = getattr(self, f"_{role}")
        return tuple(draw(n) for n in range(self._rng.randint(min(least, most), most)))

    def _pause(self) -> float:
        longest = 0.3 if self._hurried else 3
        return self._rng.choice([0.0, 0.0, self._rng.random() * 0.1, self._rng.random() * longest])

    def _statements(self, number: int, *scripts: Script, app: tuple[str, int] | None = None, same_rows: bool = False) -> Action:
        options = self._options | (self._weaker if same_rows else {})
        return Action(number, "statements", scripts, options, app, pause_s=self._pause())

    def _banker(self, number: int) -> Action:
        a, b = self._rng.sample(range(self._accounts), 2)
        amount = self._rng.randint(1, 9)
        if self._rng.random() < 0.6:
            scripts: list[Script] = [Update((("v", f"v - {amount}"),), f"k = {a}"), Update((("v", f"v + {amount}"),), f"k = {b}")]
            return self._statements(number, *scripts, same_rows=True)
        return self._statements(
            number, Merge(("k", "d"), ((a, -amount), (b, amount)), "t.k = s.k", (Clause("matched", "update", None, (("v", "t.v + s.d"),)),))
        )

    def _counter(self, number: int) -> Action:
        return self._statements(number, Update((("v", "v + 1"),), f"k = {COUNTERS + self._rng.randint(0, 2)}"), same_rows=True)

    def _setter(self, number: int) -> Action:
        """Cells of a few rows that others set, delete and read, too."""
        low, cells = UPSERTS + self._rng.randint(0, 6), self._rng.sample(["v", "w"], self._rng.randint(1, 2))
        rows = self._rng.choice([f"k >= {low} AND k <= {low + 3}", f"k >= {COUNTERS}", f"k < {self._rng.randint(1, 3)}", "v >= 0"])
        return self._statements(number, Update(tuple((c, self._rng.choice([f"{c} + 1", str(self._rng.randint(0, 9))])) for c in cells), rows))

    def _without_policy(self) -> dict[str, Any]:
        """The options of programs that write what they have read: under every policy they run again when it has changed."""
        return {k: v for k, v in self._options.items() if k not in ("granularity", "on_conflict")}

    def _calculator(self, number: int) -> Action:
        script = Update((("v", "v + 1"),), f"k = {COUNTERS + self._rng.randint(0, 2)}")
        options = self._without_policy()
        if self._rng.random() < 0.5:
            options["isolation"] = "write_serializable"  # passes over blind appends alone, which change no counter
        return Action(number, "read and write", (script,), options, pause_s=self._pause())

    def _summer(self, number: int) -> Action:
        """Sums over what others write, appends, and sums of others."""
        sums = self._rng.choice([("v", 0), ("v", COUNTERS), ("v", APPENDS), ("w", COUNTERS)])
        options = self._without_policy() | {"isolation": self._rng.choice(get_args(Isolation))}
        return Action(
            number, "read and write", (), options, sums=(*sums, COUNTERS + self._rng.randint(0, 2), 1 + 10 * self._number + number), pause_s=self._pause()
        )

    def _upserter(self, number: int) -> Action:
        keys = self._rng.sample(range(UPSERTS, UPSERTS + 8), self._rng.randint(1, 3))
        rows = tuple((key, self._rng.randint(0, 99), 0) for key in keys)
        clauses = (Clause("matched", "update", None, (("v", "t.v + s.v"),)), Clause("not matched", "insert", None, tuple((c, f"s.{c}") for c in COLUMNS)))
        return self._statements(number, Merge(COLUMNS, rows, "t.k = s.k", clauses))

    def _deleter(self, number: int) -> Action:
        low = UPSERTS + self._rng.randint(0, 6)
        return self._statements(number, Delete(f"k >= {low} AND k <= {low + self._rng.randint(0, 2)}"))

    def _updater(self, number: int) -> Action:
        condition = self._rng.choice([f"v < {self._rng.randint(80, 120)}", f"w < {self._rng.randint(1, 3)} AND k >= {COUNTERS}", f"k >= {APPENDS}"])
        return self._statements(number, Update((("w", "w + 1"),), condition))

    def _appender(self, number: int) -> Action:
        rows = tuple((APPENDS + 1000 * self._number + 10 * number + n, 1, 0) for n in range(self._rng.randint(1, 3)))
        app = (f"app {self._name}", number) if self._number % 2 else None
        return replace(self._statements(number, Append(rows), app=app), posts=self._posts and self._rng.random() < 0.8)

    def _foreigner(self, number: int) -> Action:
        """Another engine, which replaces whole files."""
        low = UPSERTS + self._rng.randint(0, 6)
        scripts: list[Script] = [
            Update((("v", "v + 1"),), f"k = {COUNTERS + self._rng.randint(0, 2)}"),
            Update((("w", "w + 1"),), f"v < {self._rng.randint(80, 120)}"),
            Delete(f"k >= {low} AND k <= {low + 2}"),
            Append(tuple((APPENDS + 1000 * self._number + 10 * number + n, 1, 0) for n in range(2))),
            Optimize(),
        ]
        return Action(number, "foreign", (self._rng.choice(scripts),), {"claims_blind": self._rng.random() < 0.3}, pause_s=self._pause())

    def _recreator(self, number: int) -> Action:
        """Drops the table beneath everybody, makes another, and fills it as the first was."""
        if number % 2 == 0:
            return Action(number, "recreate", pause_s=self._rng.random())
        missing = Clause("not matched", "insert", None, tuple((c, f"s.{c}") for c in COLUMNS))
        return Action(number, "statements", (Merge(COLUMNS, first_rows(self._accounts), "t.k = s.k", (missing,)),))

    def _optimizer(self, number: int) -> Action:
        return Action(number, "statements", (Optimize(),), {}, pause_s=self._pause())

    def _restorer(self, number: int) -> Action:
        return Action(number, "restore", back=self._rng.randint(1, 5), pause_s=1 + self._pause())

    def _numberer(self, number: int) -> Action:
        """Rows that are appended with numbers of an identity column."""
        return replace(self._appender(number), kind="number", app=None, posts=False)

    def _dropper(self, number: int) -> Action:
        feature = self._rng.choice([*_DROPPED, "deletionVectors", "deletionVectors", "rowTracking"])
        return Action(number, "drop feature", feature=feature, pause_s=self._pause())

    def _enabler(self, number: int) -> Action:
        """Begins to use again what others drop."""
        properties = self._rng.choice([{f"delta.enable{name}": "true"} for name in ("DeletionVectors", "RowTracking", "InCommitTimestamps")])
        return Action(number, "property", properties=properties, pause_s=self._pause())

    def _replacer(self, number: int) -> Action:
        """Other rows in place of all: what there was at the beginning, and rows of its own, sometimes under one more column."""
        columns = self._rng.choice([COLUMNS, COLUMNS, (*COLUMNS, f"x_{self._name}")])
        narrow = *first_rows(self._accounts), (APPENDS + 1000 * self._number + number, 1, 0)
        rows = tuple((*row, *[7] * (len(columns) - len(row))) for row in narrow)
        app = (f"app {self._name}", number) if self._number % 2 else None
        return Action(number, "replace", (Overwrite(rows),), app=app, columns=columns, pause_s=self._pause())

    def _alterer(self, number: int) -> Action:
        enabled = self._rng.choice(["RowTracking", "ChangeDataFeed", "InCommitTimestamps", "DeletionVectors"])
        properties = self._rng.choice(
            [
                {"delta.checkpointInterval": "4"},
                {"delta.appendOnly": "true" if self._only_appends else "false"},
                {"owner": f"{self._name} {number}"},
                {f"delta.enable{enabled}": "true" if enabled == "RowTracking" else self._rng.choice(["true", "true", "false"])},
                {f"delta.enable{enabled}": "true"},
            ]
        )
        return Action(number, "property", properties=properties, pause_s=self._pause())

    def _evolver(self, number: int) -> Action:
        """Columns and constraints of its own, so that what it drops is there but for what went wrong before."""
        step, own = number % 3, f"{self._name}_{number - number % 3}"
        if step == 0:
            bound, column = self._rng.choice([103, 110, 1000]), self._rng.choice(["v", "w"])
            constraints = [("add constraint", f"c_{own}", f"v < {bound}"), ("set not null", column)] if not self._lockless else []  # merged rows may break one
            self._last_alter = self._rng.choice([("add", own), ("add", own), ("widen", "w"), *constraints])
            return Action(number, "alter", alter=self._last_alter, pause_s=self._pause())
        verb, *names = self._last_alter
        if verb == "add" and step == 1:
            return self._statements(number, self._fills(own))
        changed = {
            "add": self._rng.choice([("drop", own), ("rename", own, f"{own}_renamed")]),
            "add constraint": ("drop constraint", *names),
            "set not null": ("drop not null", *names),
        }
        return Action(number, "alter", alter=changed.get(verb, ("widen", "w")), pause_s=self._pause())

    def _filler(self, number: int) -> Action:
        """Writes into a column of somebody else's, which may not be there, or have another name by then."""
        return self._statements(number, self._fills(f"a{self._rng.randint(0, 2)}_0{self._rng.choice(['', '', '_renamed'])}"))

    def _grower(self, number: int) -> Action:
        """Rows with a column that comes with them; another may bring the same one."""
        low = APPENDS + 1000 * self._number + 10 * number
        column = self._rng.choice(["grown", f"grown_{self._name}"])
        scripts = Append(tuple((low + n, 1, 0) for n in range(2))), Update(((column, "v + 5"),), f"k >= {low} AND k < {low + 5}")
        return replace(self._statements(number, *scripts), grows=column)

    def _fills(self, column: str) -> Script:
        rows = self._rng.choice([f"k < {self._rng.randint(1, 4)}", f"k >= {COUNTERS}", f"v < {self._rng.randint(95, 105)}"])
        if self._rng.random() < 0.3:
            clauses = (Clause("matched", "update", None, ((column, "s.v + t.v"),)), Clause("not matched", "insert", None, (("k", "s.k"), (column, "s.v"))))
            return Merge(("k", "v"), ((self._rng.randint(0, 2), 1), (self._rng.randint(UPSERTS, UPSERTS + 7), 2)), "t.k = s.k", clauses)
        return Update(((column, self._rng.choice(["v + 1", "k"])), ("w", "w + 1")), rows)

    def _checkpointer(self, number: int) -> Action:
        return Action(number, "checkpoint", pause_s=self._pause())

    def _vacuumer(self, number: int) -> Action:
        return Action(number, "vacuum", pause_s=self._pause())

    def _reader(self, number: int) -> Action:
        return Action(number, "read", pause_s=self._pause())

    def _traveller(self, number: int) -> Action:
        return Action(number, "travel", back=self._rng.randint(0, 4), pause_s=self._pause())
