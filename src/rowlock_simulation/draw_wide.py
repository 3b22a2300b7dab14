"""Adds to a drawn plan what few tables meet: other partitionings, names with escapes, columns that are dropped, rows that were read before, and what is asked wrongly."""

from __future__ import annotations

import random
from dataclasses import replace

from rowlock_simulation.actions import Action
from rowlock_simulation.memory.sql.script import Clause, Delete, Merge, Overwrite, Script, Update
from rowlock_simulation.plan import ActorPlan, Fault, Plan
from rowlock_simulation.roles import ALONE, CLONES, COLUMNS, COUNTERS, LEVELS, LONG, REMADE, REPLACED, SHARING, STREAMED, UPSERTS, first_rows

_PARTITIONINGS = ((), ("w",), ("W",), ("v",))
"""One of them in another case than the column's."""
_SAME_COLUMNS = (LEVELS, "one row", "rows that come and go", "rows that move")
"""Themes in which no column comes or goes."""
_OWN = UPSERTS + 500
"""The key of a row that nobody else asks for."""
_MAPPED = "delta.columnMapping.mode"


def widened(plan: Plan) -> Plan:
    """The plan with what is drawn for it here."""
    rng = random.Random(f"wide {plan.world} {plan.seed}")
    if plan.theme in (LONG, SHARING):
        return plan
    actors = [replace(a, actions=tuple(_otherwise(rng, plan, action) for action in a.actions)) for a in plan.actors]
    for draws, share in () if plan.theme == ALONE else _SEVERAL if plan.tables else _ONE:
        actions = draws(rng, plan) if rng.random() < share else ()
        for _ in range(_OF_THE_SAME.get(draws, 1) if actions else 0):
            process = rng.choice([a.process for a in plan.actors])
            actions = tuple(replace(a, number=n, pause_s=a.pause_s or rng.random() * rng.choice([0.1, 2])) for n, a in enumerate(actions))
            actors.append(ActorPlan(f"a{len(actors)}", process, actions, after_s=2 * rng.random()))
    faults = plan.faults
    if faults and rng.random() < 0.15:
        nth, seconds = int(rng.uniform(1, 300 if plan.world == "local" else 100)), rng.choice([0.0, 0.01, 0.3])
        faults = (*faults, Fault(f"f{len(faults)}", rng.choice(plan.actors).process, "interrupt", nth, seconds))
    engine = plan.engine | ({"within": rng.choice(["a b", "50%25", "a=b"])} if rng.random() < 0.1 else {})
    return replace(plan, actors=tuple(actors), faults=faults, engine=engine)


def _otherwise(rng: random.Random, plan: Plan, action: Action) -> Action:
    """The action as few do it."""
    if action.wrong:
        return action
    if action.kind == "replace" and not plan.numbered:
        return replace(action, partitioned=rng.choice(_PARTITIONINGS))
    if action.kind == "property" and rng.random() < 0.15:
        return replace(action, properties={"delta.feature.domainMetadata": "supported"})
    if action.kind == "foreign" and rng.random() < 0.2:
        return replace(action, options={**action.options, "nameless": True})
    if action.kind == "checkpoint" and plan.properties.get("delta.checkpointPolicy") == "v2" and rng.random() < 0.5:
        return replace(action, options={"as_json": True})
    if action.kind == "statements" and len(action.scripts) == 1:
        return replace(action, scripts=(_seldom(rng, plan, action.scripts[0]),))
    return action


def _seldom(rng: random.Random, plan: Plan, script: Script) -> Script:
    """The statement in a form that few have: a MERGE that inserts alone, a condition that names a partition."""
    if isinstance(script, Merge) and script.of("not matched") and rng.random() < 0.2:
        return replace(script, clauses=script.of("not matched"))
    if isinstance(script, Update) and (script.where or "").startswith("w < ") and "w" in plan.partitioned_by:
        return replace(script, where=f"w = {rng.randint(0, 1)} AND k >= {COUNTERS}")
    return script


def _drops_columns(rng: random.Random, plan: Plan) -> tuple[Action, ...]:
    """Columns of its own that come and go, and one that the table may be partitioned by."""
    if _MAPPED not in plan.properties or plan.theme in (STREAMED, REPLACED, *_SAME_COLUMNS):
        return ()
    own = [f"d_{n}" for n in range(rng.randint(1, 3))]
    alters: list[tuple[str, ...]] = [alter for name in own for alter in (("add", name), ("drop", name))]
    if plan.partitioned_by:
        alters.insert(rng.randrange(len(alters)), ("drop", *plan.partitioned_by))
    return tuple(Action(0, "alter", alter=alter) for alter in alters)


def _changes_idly(rng: random.Random, plan: Plan) -> tuple[Action, ...]:
    """Changes of the definition by which no statement goes."""
    changes: list[Action] = [Action(0, "property", properties={"owner": f"wide {n}"}) for n in range(2)]
    return (*changes, Action(0, "alter", alter=("comment", "v", "wide")), Action(0, "property", properties={"delta.checkpointInterval": "7"}))


def _reads_before(rng: random.Random, plan: Plan) -> tuple[Action, ...]:
    """Sums of rows that were read before the transaction began."""
    if plan.numbered or plan.theme not in (LEVELS, "everybody", "everybody again", "one row"):
        return ()
    sums = [("v", COUNTERS, COUNTERS + rng.randint(0, 2), 1000 + n) for n in range(rng.randint(1, 3))]
    return tuple(Action(0, "read and write", options={"isolation": "serializable"}, sums=s, early=True) for s in sums)


def _asks_wrongly(rng: random.Random, plan: Plan) -> tuple[Action, ...]:
    """What no version of the table allows."""
    every = [
        *([Action(0, "alter", alter=("drop all", *COLUMNS))] * 3 if plan.theme in _SAME_COLUMNS and not plan.partitioned_by else []),
        Action(0, "alter", alter=("cluster", "v", "v")),
        Action(0, "travel", by_time=True, both=True),
        Action(0, "travel", back=-100),
        Action(0, "replace", (Overwrite(first_rows(plan.accounts)),), columns=COLUMNS, partitioned=("nobody",)),
        Action(0, "replace", (Overwrite(first_rows(plan.accounts)),), columns=COLUMNS, partitioned=COLUMNS),
        Action(0, "property", properties={"delta.constraints.own": "v > 0"}),
        Action(0, "alter", alter=("unset", "delta.rowTracking.materializedRowIdColumnName")),
    ]
    return tuple(replace(a, wrong=True) for a in rng.sample(every, 3))


def _upgrades(rng: random.Random, plan: Plan) -> tuple[Action, ...]:
    """The end of the table for all: a later engine gives it a feature that nobody here can read."""
    upgrade = Action(0, "foreign", options={"upgrades": True}, pause_s=2 + 5 * rng.random())
    return () if plan.theme in (CLONES, REMADE) else (Action(0, "read"), upgrade, Action(0, "read"))


def _writes_nothing(rng: random.Random, plan: Plan) -> tuple[Action, ...]:
    """Transactions over several tables that change no row, and one that names a table twice."""
    tables, (one, other) = range(len(plan.tables)), rng.sample(range(len(plan.tables)), 2)
    nothing = Action(0, "together", parts=tuple((n, (Delete("k < 0"),)) for n in tables))
    twice = Action(0, "together", parts=((one, (Delete("k < 0"),)), (other, (Delete("k < 0"),)), (one, (Delete("k < 0"),))), wrong=True)
    return nothing, twice


def _deletes_the_same(rng: random.Random, plan: Plan) -> tuple[Action, ...]:
    """Rows that come and go in all tables at once: who is not the first finds nothing to do any more."""
    new = Merge(COLUMNS, ((_OWN, 1, 0),), "t.k = s.k", (Clause("not matched", "insert", None, tuple((c, f"s.{c}") for c in COLUMNS)),))
    return tuple(Action(0, "together", parts=tuple((n, (script,)) for n in range(len(plan.tables)))) for script in (new, Delete(f"k = {_OWN}")))


_ONE = ((_drops_columns, 0.4), (_changes_idly, 0.15), (_reads_before, 0.3), (_asks_wrongly, 0.08), (_upgrades, 0.02))
_SEVERAL = ((_writes_nothing, 0.1), (_deletes_the_same, 0.1))
"""Who may be there, and in how many plans over one table, and over several."""
_OF_THE_SAME = {_deletes_the_same: 3}
"""How many actors do the same, where it is not one."""
