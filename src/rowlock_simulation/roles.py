"""Draws what each actor does: a role is a kind of user, and its method draws one action."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

from rowlock.protocol.properties import CHECKSUMS, Isolation
from rowlock_simulation.actions import Action
from rowlock_simulation.memory.sql.script import Append, Clause, Delete, Literals, Merge, Optimize, Overwrite, Script, Update

COLUMNS = ("k", "v", "w")
COUNTERS, UPSERTS, APPENDS = 100, 1000, 10_000
"""Where the keys of counters, of upserted rows and of appended rows begin; keys below are accounts."""
_DROPPED = ("deletionVectors", "rowTracking", "inCommitTimestamp", "v2Checkpoint", "checkConstraints", "domainMetadata", "checkpointProtection")
LOCKLESS = "lockless"
"""The theme and the policy whose transactions merge cells."""
APPENDED = "appends"
SHARED = "an application of several"
"""The application whose steps several actors do: whoever comes first."""
REMADE = "a table that is made again"
POSTS = "appends between processes"
DEFINITION = "a definition that changes"
LEVELS = "levels of isolation"
"""The theme of programs that read the whole table and write what they have computed, under every level."""
HURRIED = (LOCKLESS, POSTS, LEVELS)
"""Themes in which only what overlaps shows anything."""
FEATURES = "features that are dropped"
NUMBERED = "identity columns"
REPLACED = "a table that is replaced"
DEFAULTED = "defaults and a change data feed that come and go"
STREAMED = "streams that read"
CLONES = "shallow clones"
MOST_CLONES = 2
"""How many places there are for clones in this theme."""
ALONE = "one who is alone"
SHARING = "appends that share versions"
LONG = "a long writer"
"""The theme of one writer who takes seconds for each round, beside steady short ones on a store that fails nobody (I8)."""


def first_rows(accounts: int) -> tuple[tuple[int, int, int], ...]:
    """The rows of a new table: accounts with 100 each, and three counters."""
    return *((k, 100, 0) for k in range(accounts)), *((COUNTERS + k, 0, 0) for k in range(3))


_WRONG_ALTERS: tuple[tuple[str, ...], ...] = (
    ("add", "k"), ("add strict", "x"), ("rename", "nobody", "x"), ("rename", "v", "k"), ("drop", "nobody"), ("move", "nobody"), ("comment", "nobody", "x"),
    ("set default", "nobody", "1"), ("drop default", "nobody"), ("set not null", "nobody"), ("narrow", "k"), ("cluster", "nobody"), ("cluster", "k", "k"),
    ("add constraint", "", "v > 0"), ("add constraint", "wrong", "nobody > 0"), ("drop constraint", "nobody"), ("feature", "nonsense"), ("versions", "9", "9"),
    ("comment twice", "v"), ("replace columns", "k", "k"),
)  # fmt: skip
_WRONG_PROPERTIES = (
    {"delta.checkpointInterval": "0"}, {"delta.enableRowTracking": "perhaps"}, {"delta.columnMapping.mode": "number"}, {"rowlock.isolation": "none"},
    {"delta.nonsense": "1"}, {"delta.logRetentionDuration": "interval soon"}, {"delta.minReaderVersion": "9"}, {"delta.feature.nonsense": "supported"},
)  # fmt: skip
_WRONG_DROPS = (("nonsense", False), ("appendOnly", False), ("inCommitTimestamp", True), ("checkpointProtection", False))


def wrong_actions(rng: random.Random, theme: str) -> tuple[Action, ...]:
    """Changes of the definition that no version of a table of this theme allows."""
    defaults = [("set default", "g" if theme == DEFAULTED else "w", "1")]  # of a generated or identity column, or without the table feature
    drops = [Action(0, "drop feature", feature=feature, truncates=truncates) for feature, truncates in _WRONG_DROPS]
    every = [
        *(Action(0, "alter", alter=alter) for alter in (*_WRONG_ALTERS, *3 * defaults)),
        *(Action(0, "property", properties=p) for p in _WRONG_PROPERTIES),
        *drops,
    ]
    return tuple(replace(a, number=n, wrong=True, pause_s=rng.random()) for n, a in enumerate(rng.sample(every, rng.randint(2, 4))))


class Role:
    """Draws the actions of one actor."""

    def __init__(self, rng: random.Random, name: str, number: int, accounts: int, theme: str) -> None:
        self._rng, self._name, self._number, self._accounts = rng, name, number, accounts
        self._lockless, self._posts, self._only_appends, self._hurried = theme == LOCKLESS, theme == POSTS, theme == APPENDED, theme in HURRIED
        self._options: dict[str, Any] = {}
        self._last_alter: tuple[str, ...] = ()
        self._clone, self._query = 0, dict[str, str]()
        self._leaves_out = theme == DEFAULTED
        """Whether new rows leave w to its default."""
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

    def action(self, role: str, number: int) -> Action:
        """One action of a role."""
        draw: Callable[[int], Action] = getattr(self, f"_{role}")
        return draw(number)

    def actions(self, role: str, most: int, *, least: int = 2) -> tuple[Action, ...]:
        return tuple(self.action(role, n) for n in range(self._rng.randint(min(least, most), most)))

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
        given = COLUMNS[:-1] if self._leaves_out and self._rng.random() < 0.7 else COLUMNS
        clauses = (Clause("matched", "update", None, (("v", "t.v + s.v"),)), Clause("not matched", "insert", None, tuple((c, f"s.{c}") for c in given)))
        return self._statements(number, Merge(COLUMNS, rows, "t.k = s.k", clauses))

    def _deleter(self, number: int) -> Action:
        low = UPSERTS + self._rng.randint(0, 6)
        return self._statements(number, Delete(f"k >= {low} AND k <= {low + self._rng.randint(0, 2)}"))

    def _updater(self, number: int) -> Action:
        condition = self._rng.choice([f"v < {self._rng.randint(80, 120)}", f"w < {self._rng.randint(1, 3)} AND k >= {COUNTERS}", f"k >= {APPENDS}"])
        return self._statements(number, Update((("w", "w + 1"),), condition))

    def _appender(self, number: int) -> Action:
        rows: tuple[Literals, ...] = tuple((APPENDS + 1000 * self._number + 10 * number + n, 1, 0) for n in range(self._rng.randint(1, 3)))
        if self._leaves_out:
            rows = tuple(row[:-1] for row in rows)
        app = (f"app {self._name}", number) if self._number % 2 else None
        if app is not None and self._rng.random() < 0.3:
            app = SHARED, number
        posts = (self._posts or self._leaves_out) and self._rng.random() < 0.8
        return replace(self._statements(number, Append(rows), app=app), posts=posts)

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

    def _cloner(self, number: int) -> Action:
        """A clone of the table, or of its first clone, and then statements in the clone; sometimes it is emptied, and made again."""
        if number == 0:
            self._clone = 1 + self._number % MOST_CLONES
        if number == 0 or self._rng.random() < 0.2:
            source, back = self._rng.randrange(self._clone), self._rng.choice([0, 0, 1, 3])
            return Action(number, "clone", table=self._clone, source=source, back=back, replaces=number > 0, pause_s=self._pause())
        empties = self._statements(number, Delete())
        roles = "counter", "upserter", "deleter", "updater", "appender", "optimizer", "restorer", "vacuumer", "reader"
        chosen = self._rng.choice(roles)
        return replace(empties if self._rng.random() < 0.15 else self.action(chosen, number), table=self._clone)

    def _defaulter(self, number: int) -> Action:
        """Gives w a default, or takes it away, beside those whose rows leave it out."""
        alter = self._rng.choice([("set default", "w", str(10 * self._number + number)), ("set default", "w", str(self._number)), ("drop default", "w")])
        return Action(number, "alter", alter=alter, pause_s=self._pause())

    def _feeder(self, number: int) -> Action:
        return Action(number, "property", properties={"delta.enableChangeDataFeed": self._rng.choice(["true", "true", "false"])}, pause_s=self._pause())

    def _streamer(self, number: int) -> Action:
        """A query that reads on, batch by batch; what versions that change rows are to it is an option of the whole query."""
        if number == 0:
            kind = self._rng.choice(["skipChangeCommits", "skipChangeCommits", "ignoreChanges", "readChangeFeed", "readChangeFeed", ""])
            self._query = ({kind: "true"} if kind else {}) | self._rng.choice([{}, {"maxFilesPerTrigger": "1"}, {"maxFilesPerTrigger": "2"}])
        return Action(number, "stream", options=self._query, batches=self._rng.randint(1, 4), pause_s=self._pause() + self._rng.choice([0.0, 2.0]))

    def _optimizer(self, number: int) -> Action:
        return Action(number, "statements", (Optimize(),), {}, pause_s=self._pause())

    def _restorer(self, number: int) -> Action:
        return Action(number, "restore", back=self._rng.randint(1, 5), pause_s=1 + self._pause())

    def _numberer(self, number: int) -> Action:
        """Rows that are appended with numbers of an identity column."""
        return replace(self._appender(number), kind="number", app=None, posts=False)

    def _dropper(self, number: int) -> Action:
        feature = self._rng.choice([*_DROPPED, "deletionVectors", "deletionVectors", "rowTracking"])
        truncates = feature == "checkpointProtection" or self._rng.random() < 0.3
        return Action(number, "drop feature", feature=feature, truncates=truncates, pause_s=self._pause())

    def _enabler(self, number: int) -> Action:
        """Begins to use again what others drop."""
        properties = self._rng.choice([{f"delta.enable{name}": "true"} for name in ("DeletionVectors", "RowTracking", "InCommitTimestamps")])
        return Action(number, "property", properties=properties, pause_s=self._pause())

    def _replacer(self, number: int) -> Action:
        """Other rows in place of all: what there was at the beginning, and rows of its own, sometimes under one more column; every second time with the definition."""
        columns = self._rng.choice([COLUMNS, COLUMNS, (*COLUMNS, f"x_{self._name}")])
        narrow = *first_rows(self._accounts), (APPENDS + 1000 * self._number + number, 1, 0)
        rows = tuple((*row, *[7] * (len(columns) - len(row))) for row in narrow)
        app = (f"app {self._name}", number) if self._number % 2 else None
        anew, properties = number % 2 == 1, {"owner": self._name, "delta.checkpointInterval": "3"} if number % 4 == 1 else {}
        return Action(number, "replace", (Overwrite(rows),), app=app, columns=columns, anew=anew, properties=properties, pause_s=self._pause())

    def _alterer(self, number: int) -> Action:
        if self._rng.random() < 0.25:
            alters = [("unset", "owner"), ("unset", "delta.checkpointInterval", CHECKSUMS), ("feature", "domainMetadata"), ("feature", "deletionVectors")]
            alter = self._rng.choice([*alters, ("versions", "3", "7"), ("cluster",), ("cluster", "v"), ("cluster", "k", "v")])
            return Action(number, "alter", alter=alter, pause_s=self._pause())
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
            bound, column = self._rng.choice([101, 103, 1000]), self._rng.choice(["v", "w"])
            constraints = [("add constraint", f"c_{own}", f"v < {bound}"), ("set not null", column)] if not self._lockless else []  # merged rows may break one
            self._last_alter = self._rng.choice([("add", own), ("add", own), ("widen", "w"), *constraints])
            return Action(number, "alter", alter=self._last_alter, pause_s=self._pause())
        verb, *names = self._last_alter
        if verb == "add" and step == 1:
            return self._statements(number, self._fills(own))
        changed = {
            "add": self._rng.choice([("drop", own), ("rename", own, f"{own}_renamed"), ("move", own), ("comment", own, "by its owner")]),
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
        return self._traveller(number) if self._rng.random() < 0.25 else Action(number, "read", pause_s=self._pause())

    def _traveller(self, number: int) -> Action:
        return Action(number, "travel", back=self._rng.randint(0, 4), by_time=self._rng.random() < 0.5, pause_s=self._pause())
