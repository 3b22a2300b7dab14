"""Runs one plan: sets the table up, lets the actors loose, and has the outcome judged."""

from __future__ import annotations

import logging
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson

from rowlock.exceptions import ChecksumWarning, CommitUnknown, RowlockError
from rowlock.limits import limited
from rowlock.protocol.column_values import GENERATION_EXPRESSION, identity_metadata
from rowlock.transaction.state.phases import Observer, use_observer
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.transaction import Table
from rowlock.transaction.two_phase import prepare
from rowlock_simulation import clones, judge, judge_together, together
from rowlock_simulation.actions import Action, Done, perform
from rowlock_simulation.arrow_files import cheap_files
from rowlock_simulation.history import History
from rowlock_simulation.memory.columns import planned
from rowlock_simulation.memory.sql.script import Append
from rowlock_simulation.memory.statements import run as run_script
from rowlock_simulation.outcome import Outcome
from rowlock_simulation.plan import ActorPlan, Plan
from rowlock_simulation.roles import COLUMNS, REMADE, first_rows
from rowlock_simulation.scheduler import Crashed, Interrupted, Scheduler, Trace
from rowlock_simulation.seams import simulated
from rowlock_simulation.world import Handles, Host, LocalServer, Server, one_machine, outside, servers_of, tables_are_found

_RESTART_S = 3.0
_AGAIN_S = 2.0
_STEPS_AGAIN = 4
"""How often a step of an application is done again after an end that is not known."""


@dataclass
class Result:
    """What came of one schedule."""

    plan: Plan
    trace_hash: str
    points: int
    commits: int
    violations: list[str]
    trace: Trace = field(repr=False)
    outcomes: list[Outcome] = field(repr=False)
    met: Counter[str] = field(default_factory=Counter)
    """How many faults of each kind came."""
    virtual_s: float = 0.0

    @property
    def did(self) -> Counter[str]:
        """How many actions of each kind came to each end."""
        return Counter(f"{o.action.kind} {o.status}" for o in self.outcomes)

    @property
    def transactions(self) -> int:
        """How many actions were committed; several may share a version."""
        return sum(o.status == "committed" for o in self.outcomes)


class _Recorder(Observer):
    """Notes the transactions of an actor, and makes a scheduling point of every phase."""

    def __init__(self, scheduler: Scheduler, history: History) -> None:
        self._scheduler, self._history = scheduler, history
        self.outcome: Outcome | None = None

    def phase(self, name: str, txn: Any) -> None:
        outcome = self.outcome
        own = outcome is not None and (name in ("begin", "staged") or outcome.action.kind == "together")  # other phases may be those of one that is taken along
        if outcome is not None and own and txn.txn_id not in outcome.txn_ids:
            outcome.txn_ids.append(txn.txn_id)
            read = getattr(txn, "read", None)  # a table that was dropped since, perhaps
            outcome.begun_on[txn.txn_id] = self._history.tables.get(read.metadata.id if read is not None else "", self._history.table)
        if outcome is not None and txn.txn_id in outcome.txn_ids:
            outcome.phases.append(name)
        if name == "staged" and self.outcome is not None and self.outcome.action.kind == "statements":
            self.outcome.read_at.setdefault(txn.txn_id, txn.base.version)
        if self._scheduler.current is not None:
            self._scheduler.note(f"{name} {txn.txn_id[:8]}")
            self._scheduler.pause()


def run(plan: Plan) -> Result:
    """Runs a plan to its end, and judges it."""
    scheduler = Scheduler(f"{plan.world} {plan.seed}")
    outcomes: list[Outcome] = []
    with simulated(scheduler), cheap_files(), limited(**plan.limits), _quiet(plan), _posted_above(plan.inline_bytes):
        servers = servers_of(plan, scheduler)
        observer = outside(servers, scheduler)
        try:
            for n in range(len(plan.tables) or 1):
                outcomes += _set_up(plan, n, observer.table(n), scheduler)
        except Exception as e:  # noqa: BLE001 - without faults, and alone
            return Result(plan, scheduler.trace.digest(), 0, 0, [f"the table cannot be set up: {type(e).__name__}: {e}"], scheduler.trace, [])
        for s in servers:
            s.history.looked_for_posts = 0  # from here on it is the actors who look
        hosts = {name: Host(name, plan, servers, scheduler) for name in sorted({a.process for a in plan.actors})}
        if disks := [s for s in servers if isinstance(s, LocalServer)]:
            one_machine(hosts, disks, scheduler)
        for actor in plan.actors:
            _spawn(actor, plan, hosts[actor.process], scheduler, outcomes)
        judging = outside(servers, scheduler)
        with tables_are_found(lambda: judging if scheduler.current is None else hosts[scheduler.current.process.name].handles):
            scheduler.run()
            violations = _judged(plan, servers, scheduler, outcomes, judging)
    return Result(
        plan,
        scheduler.trace.digest(),
        scheduler.points,
        sum(len(s.history.commits) for s in servers),
        violations,
        scheduler.trace,
        outcomes,
        Counter(kind for _, kind in scheduler.met),
        scheduler.now_us / 1e6,
    )


def _judged(plan: Plan, servers: Sequence[Server], scheduler: Scheduler, outcomes: list[Outcome], judging: Handles) -> list[str]:
    found = [f"{name}: {type(e).__name__}: {e}" for name, e in scheduler.errors]
    found += [f"the kernel's lock on {path} is held, and nobody is at work" for s in servers if isinstance(s, LocalServer) for path in s.disk.locked]
    try:
        if plan.tables:
            return found + judge_together.judge(
                plan, [s.history for s in servers], outcomes, judging, {name for name, _ in scheduler.met} | scheduler.unanswered
            )
        if plan.clones:
            return found + clones.judge_all(plan, [s.history for s in servers], outcomes, judging)
        return found + judge.judge(plan, servers[0].history, outcomes, judging.table())
    except Exception as e:  # noqa: BLE001 - a table that cannot be read is what is looked for
        return [*found, f"the table cannot be judged: {type(e).__name__}: {e}"]


def _set_up(plan: Plan, number: int, table: Table, scheduler: Scheduler) -> list[Outcome]:
    recorder = _Recorder(scheduler, History())
    created = recorder.outcome = Outcome("setup", Action(0, "property", table=number))
    with use_observer(recorder):
        receipt = _create(plan, table, plan.tables[number].properties if plan.tables else plan.properties)
        created.ends("committed", Done(receipt))
        created.txn_ids = [receipt.txn_id]
        script = Append(first_rows(plan.accounts))
        filled = recorder.outcome = Outcome("setup", Action(1, "statements", (script,), table=number))
        filled.ends("committed", Done(run_script(table, planned(script, table.refresh()))))
    return [created, filled]


def _create(plan: Plan, table: Table, properties: Mapping[str, str]) -> Receipt:
    fields: list[dict[str, Any]] = [{"name": c, "type": plan.types.get(c, "long"), "nullable": c != "k", "metadata": {}} for c in COLUMNS]
    if plan.numbered:
        fields[-1]["metadata"] = identity_metadata(1, 1, by_default=True)
    for name, sql in plan.generated.items():
        fields.append({"name": name, "type": "long", "nullable": True, "metadata": {GENERATION_EXPRESSION: sql}})
    return table.create(orjson.dumps({"type": "struct", "fields": fields}).decode(), plan.partitioned_by, properties)


def _spawn(actor: ActorPlan, plan: Plan, host: Host, scheduler: Scheduler, outcomes: list[Outcome]) -> None:
    recorder = _Recorder(scheduler, host.history)

    def live() -> None:
        with use_observer(recorder):
            for n, action in enumerate(actor.actions):
                _rest(max(0.0, plan.night_s - scheduler.now_us / 1e6) if n == len(actor.actions) // 2 else 0.0, host, scheduler)
                for _ in range(_STEPS_AGAIN):
                    outcome = recorder.outcome = Outcome(actor.name, action)
                    outcomes.append(outcome)
                    _one(outcome, plan, host, scheduler)
                    if scheduler.ended:
                        return
                    if action.app is None or outcome.status in ("committed", "nothing"):
                        break
                    _rest(_AGAIN_S, host, scheduler)

    scheduler.spawn(actor.name, live, host.process, restarts=True, after_s=actor.after_s)


def _rest(seconds: float, host: Host, scheduler: Scheduler) -> None:
    """Waits between two actions, in a process that lives: one that is killed meanwhile is started again."""
    task = scheduler.current
    assert task is not None
    task.process = host.restarted()
    try:
        scheduler.pause(seconds)
    except Crashed:
        if scheduler.ended:
            raise
        task.process = host.restarted()


def _one(outcome: Outcome, plan: Plan, host: Host, scheduler: Scheduler) -> None:
    """One action, whatever becomes of it; after a crash the actor starts again as a new process."""
    action, done, task = outcome.action, Done(), scheduler.current
    assert task is not None
    task.may_be_interrupted = True
    try:
        scheduler.pause(action.pause_s)
        outcome.began_at, outcome.began_us, outcome.on_table = scheduler.points, scheduler.now_us, host.history.table
        if action.kind == "recreate":
            host.drop_table()
            outcome.on_table = host.history.table
            done.receipt = _create(plan, host.handles.table(), plan.properties)
            outcome.txn_ids.append(done.receipt.txn_id)
        elif action.kind == "clone":
            clones.make(action, outcome.name, host.handles.table, done)
        elif action.kind == "stream":
            from rowlock_simulation import streams  # which imports pyspark

            done.query = host.queries.setdefault(outcome.actor, streams.Query(dict(action.options)))
            streams.read_on(action, done.query, host.handles.table(), scheduler)
        elif action.kind.endswith("together"):
            together.perform(action, host.handles.table, scheduler, done)
        else:
            perform(action, host.handles.table(action.table, unaware=action.unaware), scheduler, done)
        task.may_be_interrupted = False
        outcome.ended_at = scheduler.points
        outcome.ends("committed" if done.committed is not None else "nothing", done)
    except Crashed:
        task.may_be_interrupted = False
        outcome.ends("crashed", done)
        if not scheduler.ended:
            _rest(_RESTART_S * scheduler.random.random(), host, scheduler)
    except Interrupted:
        outcome.ends("interrupted", done)
    except CommitUnknown as e:
        outcome.ends("unknown", done, e)
    except RowlockError as e:
        outcome.ends("failed", done, e)
    except Exception as e:  # noqa: BLE001 - judged
        outcome.ends("broke", done, e)
    task.may_be_interrupted = task.is_interrupted = False
    outcome.until_us = scheduler.now_us
    scheduler.note(f"{outcome.actor}.{outcome.action.number} {outcome.status} {outcome.detail}")


@contextmanager
def _posted_above(inline_bytes: int) -> Iterator[None]:
    """Posts what is staged in a table and is longer beside it, until the block ends."""
    module: Any = prepare
    before, module.INLINE_BYTES = prepare.INLINE_BYTES, inline_bytes
    try:
        yield
    finally:
        module.INLINE_BYTES = before


@contextmanager
def _quiet(plan: Plan) -> Iterator[None]:
    """Keeps warnings and log lines of the code under test away: thousands of faults are met on purpose.

    A wrong checksum is an error, for Rowlock alone writes them here; but a reader may meet the one of a table that was made again.
    """
    logger = logging.getLogger("rowlock")
    before, logger.disabled = logger.disabled, True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if plan.theme != REMADE:
                warnings.simplefilter("error", ChecksumWarning)
            yield
    finally:
        logger.disabled = before
